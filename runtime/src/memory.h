// Memory for what is read straight through at every call: aligned, and on large pages where the system has them.
#pragma once

#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(_WIN32)
#include <malloc.h>
#endif

namespace understudy {

class AlignedBytes {
public:
    AlignedBytes() = default;
    // `bytes` may be 0. Not zeroed, large memory stays unused until it is first written.
    explicit AlignedBytes(std::size_t bytes, bool zeroed = true) : size_(bytes) {
        if (!bytes) return;
        const std::size_t alignment = bytes >= kLargePage ? kLargePage : 64;
        const std::size_t rounded = (bytes + alignment - 1) / alignment * alignment;
#if defined(_WIN32)
        data_ = _aligned_malloc(rounded, alignment);
#else
        data_ = std::aligned_alloc(alignment, rounded);
#endif
        if (!data_) throw std::bad_alloc();
#if defined(__linux__)
        // Fewer pages, fewer misses in the table of pages. Only a wish: where it is refused nothing is lost but time.
        if (alignment == kLargePage) madvise(data_, rounded, MADV_HUGEPAGE);
#endif
        if (zeroed) std::memset(data_, 0, rounded);
    }
    ~AlignedBytes() {
#if defined(_WIN32)
        _aligned_free(data_);
#else
        std::free(data_);
#endif
    }
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
    static constexpr std::size_t kLargePage = std::size_t{2} << 20;

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
