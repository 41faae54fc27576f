// Replaces the C library's allocation functions, which `operator new` calls too, by ones that
// count. Include it in one source file of a program.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace counted {
inline std::atomic<long> allocations{0};
inline std::atomic<long long> bytes{0}, peak{0};  // in use now, and at most; glibc only

inline void add(long long size) {
    ++allocations;
    const long long now = bytes.fetch_add(size) + size;
    for (long long old = peak; now > old && !peak.compare_exchange_weak(old, now);) {}
}
}  // namespace counted

#if defined(__GLIBC__)
#include <malloc.h>

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) {
    void* data = __libc_malloc(size);
    counted::add(static_cast<long long>(data ? malloc_usable_size(data) : 0));
    return data;
}
void* calloc(std::size_t count, std::size_t size) {
    void* data = __libc_calloc(count, size);
    counted::add(static_cast<long long>(data ? malloc_usable_size(data) : 0));
    return data;
}
void* realloc(void* old, std::size_t size) {
    counted::bytes -= static_cast<long long>(old ? malloc_usable_size(old) : 0);
    void* data = __libc_realloc(old, size);
    counted::add(static_cast<long long>(data ? malloc_usable_size(data) : 0));
    return data;
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    void* data = __libc_memalign(alignment, size);
    counted::add(static_cast<long long>(data ? malloc_usable_size(data) : 0));
    return data;
}
void free(void* data) {
    counted::bytes -= static_cast<long long>(data ? malloc_usable_size(data) : 0);
    __libc_free(data);
}
}
#else
void* operator new(std::size_t size) {
    ++counted::allocations;
    if (void* data = std::malloc(size)) return data;
    throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
#endif
