// Counts all allocations of the program; a call must make none.
//
//     test_allocations a.understudy ...
#include <atomic>
#include <cstdlib>
#include <new>

#include "check.h"
#include "sample.h"

namespace {
std::atomic<long> allocations{0};
}

#if defined(__GLIBC__)
// These replace the C library's functions, which `operator new` calls too.
extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void* malloc(std::size_t size) {
    ++allocations;
    return __libc_malloc(size);
}
void* calloc(std::size_t count, std::size_t size) {
    ++allocations;
    return __libc_calloc(count, size);
}
void* realloc(void* old, std::size_t size) {
    ++allocations;
    return __libc_realloc(old, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
    ++allocations;
    return __libc_memalign(alignment, size);
}
}
#else
void* operator new(std::size_t size) {
    ++allocations;
    if (void* data = std::malloc(size)) return data;
    throw std::bad_alloc();
}
void operator delete(void* data) noexcept { std::free(data); }
void operator delete(void* data, std::size_t) noexcept { std::free(data); }
#endif

int main(int count, char** names) {
    CHECK(count > 1);
    const long before_any = allocations.load();
    float* volatile proof = new float[1000];  // volatile: or the compiler removes it
    CHECK(allocations.load() > before_any);   // the counter counts
    delete[] proof;
    for (int i = 1; i < count; ++i) {
        understudy_model* model = understudy_load_file(names[i], nullptr, 0);
        CHECK(model);
        for (const int threads : {1, 2, 4}) {
            understudy_pool* pool = understudy_create_pool(threads);
            understudy_scratch* scratch = understudy_create_scratch(model, pool);
            const Drivers drivers(model, 19);
            std::vector<float> out(19 * 3 * understudy_vertex_count(model)), normals(out.size());
            const long before = allocations.load();
            for (int call = 0; call < 20; ++call) {
                understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(),
                                  out.data(), nullptr);
                understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(),
                                  out.data(), normals.data());
                understudy_deform_many(model, scratch, 19, drivers.bones.data(),
                                       drivers.controls.data(), out.data(), normals.data());
            }
            CHECK(allocations.load() == before);
            understudy_free_scratch(scratch);
            understudy_free_pool(pool);
        }
        understudy_free_model(model);
    }
    std::printf("no allocation in %d files\n", count - 1);
}
