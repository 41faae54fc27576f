#include "memory.h"

#include <cstdlib>

#if defined(__linux__)
#include <sys/mman.h>
#endif
#if defined(_WIN32)
#include <malloc.h>
#endif

namespace understudy {
namespace {

#if defined(__linux__)
// On Linux, kernel arrays of at least kLargePageThreshold bytes get large pages of their own. That
// takes at most four times the memory. Influences that are scattered over small pages can conflict
// in the cache, which makes skinning slower by up to a fifth.
constexpr std::size_t kLargePage = std::size_t{2} << 20, kLargePageThreshold = kLargePage / 4;
#endif

void* allocate(void*, std::size_t size, std::size_t alignment) {
    if (alignment < sizeof(void*)) alignment = sizeof(void*);
#if defined(_WIN32)
    return _aligned_malloc(size, alignment);
#else
#if defined(__linux__)
    const bool large = alignment >= kAlignment && size >= kLargePageThreshold;
    if (large) alignment = kLargePage;
#endif
    const std::size_t rounded = padded(size, alignment);
    void* data = std::aligned_alloc(alignment, rounded);
#if defined(__linux__)
    // A hint: large pages need fewer entries in the TLB. If it is refused, only time is lost.
    if (data && large) madvise(data, rounded, MADV_HUGEPAGE);
#endif
    return data;
#endif
}

void release(void*, void* data, std::size_t) {
#if defined(_WIN32)
    _aligned_free(data);
#else
    std::free(data);
#endif
}

constexpr Memory kDefault{allocate, release, nullptr};

}  // namespace

const Memory& default_memory() { return kDefault; }

}  // namespace understudy
