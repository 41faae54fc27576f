// Aligned memory for arrays that every call reads, on large pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

#include "checked.h"

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(_WIN32)
#include <malloc.h>
#endif

namespace understudy {

// On Linux, arrays of at least kLargePageThreshold bytes get large pages of their own. That takes
// at most four times the memory. Influences that are scattered over small pages can conflict in the
// cache, which makes skinning slower by up to a fifth.
constexpr std::size_t kLargePage = std::size_t{2} << 20, kLargePageThreshold = kLargePage / 4;

inline std::size_t alignment_of(std::size_t bytes) {
#if defined(__linux__)
    if (bytes >= kLargePageThreshold) return kLargePage;
#else
    (void)bytes;
#endif
    return 64;
}
inline std::size_t rounded_up(std::size_t bytes) { return padded(bytes, alignment_of(bytes)); }

// Allocates rounded_up(bytes); `bytes` is not 0. Throws std::bad_alloc if memory is short.
inline void* allocate_aligned(std::size_t bytes) {
    if (bytes > kTooLarge / 2) throw std::bad_alloc();
    const std::size_t alignment = alignment_of(bytes), rounded = rounded_up(bytes);
#if defined(_WIN32)
    void* data = _aligned_malloc(rounded, alignment);
#else
    void* data = std::aligned_alloc(alignment, rounded);
#endif
    if (!data) throw std::bad_alloc();
#if defined(__linux__)
    // A hint: large pages need fewer entries in the TLB. If it is refused, only time is lost.
    if (alignment == kLargePage) madvise(data, rounded, MADV_HUGEPAGE);
#endif
    return data;
}

inline void free_aligned(void* data) {
#if defined(_WIN32)
    _aligned_free(data);
#else
    std::free(data);
#endif
}

// The same as an allocator for std::vector.
template <class Item>
struct AlignedAllocator {
    using value_type = Item;
    AlignedAllocator() = default;
    template <class Other>
    AlignedAllocator(const AlignedAllocator<Other>&) {}
    Item* allocate(std::size_t count) {
        return static_cast<Item*>(allocate_aligned(multiplied(count, sizeof(Item))));
    }
    void deallocate(Item* items, std::size_t) { free_aligned(items); }
    template <class Other>
    bool operator==(const AlignedAllocator<Other>&) const {
        return true;
    }
    template <class Other>
    bool operator!=(const AlignedAllocator<Other>&) const {
        return false;
    }
};

template <class Item>
using AlignedVector = std::vector<Item, AlignedAllocator<Item>>;

class AlignedBytes {
public:
    AlignedBytes() = default;
    // `bytes` may be 0. If `zeroed` is false, the system provides pages only when they are written.
    explicit AlignedBytes(std::size_t bytes, bool zeroed = true) : size_(bytes) {
        if (!bytes) return;
        data_ = allocate_aligned(bytes);
        if (zeroed) std::memset(data_, 0, rounded_up(bytes));
    }
    ~AlignedBytes() { free_aligned(data_); }
    AlignedBytes(const AlignedBytes&) = delete;
    AlignedBytes& operator=(const AlignedBytes&) = delete;
    AlignedBytes(AlignedBytes&& other) noexcept { swap(other); }
    AlignedBytes& operator=(AlignedBytes&& other) noexcept {
        swap(other);
        return *this;
    }

    std::size_t size() const { return size_; }
    template <class Scalar>
    Scalar* as() const {
        return static_cast<Scalar*>(data_);
    }

private:
    void swap(AlignedBytes& other) noexcept {
        void* data = data_;
        data_ = other.data_;
        other.data_ = data;
        const std::size_t size = size_;
        size_ = other.size_;
        other.size_ = size;
    }

    void* data_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace understudy
