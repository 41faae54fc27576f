#include "floor_loops.h"

#include <cstring>

#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>
#define UNDERSTUDY_X86 1
#endif
#if defined(__GNUC__)
#define UNDERSTUDY_TARGET(set) __attribute__((target(set)))
#else
#define UNDERSTUDY_TARGET(set)
#endif

namespace understudy {
namespace {

constexpr std::size_t kChains = 12;  // sums that need not wait for each other

float sum_of(const float* values, std::size_t count) {
    float sum = 0;
    for (std::size_t i = 0; i < count; ++i) sum += values[i];
    return sum;
}

float read_plain(const void* data, std::size_t size) {
    const float* at = static_cast<const float*>(data);
    float sum[32] = {};
    for (std::size_t left = size / sizeof *at; left >= 32; left -= 32, at += 32)
        for (int i = 0; i < 32; ++i) sum[i] += at[i];
    return sum_of(sum, 32);
}

float multiply_add_plain(std::size_t count) {
    float sum[4 * kChains] = {};
    for (std::size_t done = 0; done < count; done += 4 * kChains)
        for (float& s : sum) s = s * 0.5f + 1.0f;
    return sum_of(sum, 4 * kChains);
}

#if defined(UNDERSTUDY_X86)

UNDERSTUDY_TARGET("avx2,fma") float read_avx2(const void* data, std::size_t size) {
    const float* at = static_cast<const float*>(data);
    __m256 sum[8];
    for (__m256& s : sum) s = _mm256_setzero_ps();
    for (std::size_t left = size / sizeof *at; left >= 64; left -= 64, at += 64)
        for (int i = 0; i < 8; ++i) sum[i] = _mm256_add_ps(sum[i], _mm256_loadu_ps(at + 8 * i));
    for (int i = 1; i < 8; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    float lanes[8];
    _mm256_storeu_ps(lanes, sum[0]);
    return sum_of(lanes, 8);
}

UNDERSTUDY_TARGET("avx2,fma") float multiply_add_avx2(std::size_t count) {
    __m256 sum[kChains];
    for (__m256& s : sum) s = _mm256_setzero_ps();
    const __m256 factor = _mm256_set1_ps(0.5f), more = _mm256_set1_ps(1.0f);
    for (std::size_t done = 0; done < count; done += 8 * kChains)
        for (__m256& s : sum) s = _mm256_fmadd_ps(s, factor, more);
    for (std::size_t i = 1; i < kChains; ++i) sum[0] = _mm256_add_ps(sum[0], sum[i]);
    float lanes[8];
    _mm256_storeu_ps(lanes, sum[0]);
    return sum_of(lanes, 8);
}

UNDERSTUDY_TARGET("avx512f") float read_avx512(const void* data, std::size_t size) {
    const float* at = static_cast<const float*>(data);
    __m512 sum[4];
    for (__m512& s : sum) s = _mm512_setzero_ps();
    for (std::size_t left = size / sizeof *at; left >= 64; left -= 64, at += 64)
        for (int i = 0; i < 4; ++i) sum[i] = _mm512_add_ps(sum[i], _mm512_loadu_ps(at + 16 * i));
    for (int i = 1; i < 4; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    float lanes[16];
    _mm512_storeu_ps(lanes, sum[0]);
    return sum_of(lanes, 16);
}

UNDERSTUDY_TARGET("avx512f") float multiply_add_avx512(std::size_t count) {
    __m512 sum[kChains];
    for (__m512& s : sum) s = _mm512_setzero_ps();
    const __m512 factor = _mm512_set1_ps(0.5f), more = _mm512_set1_ps(1.0f);
    for (std::size_t done = 0; done < count; done += 16 * kChains)
        for (__m512& s : sum) s = _mm512_fmadd_ps(s, factor, more);
    for (std::size_t i = 1; i < kChains; ++i) sum[0] = _mm512_add_ps(sum[0], sum[i]);
    float lanes[16];
    _mm512_storeu_ps(lanes, sum[0]);
    return sum_of(lanes, 16);
}

#endif

constexpr FloorLoops kLoops[] = {
#if defined(UNDERSTUDY_X86)
    {"avx512", read_avx512, multiply_add_avx512},
    {"avx2", read_avx2, multiply_add_avx2},
#endif
    {"portable", read_plain, multiply_add_plain},
};

}  // namespace

const FloorLoops& floor_loops(const char* instruction_set) {
    const FloorLoops* last = kLoops;
    for (const FloorLoops& loops : kLoops) {
        if (std::strcmp(loops.instruction_set, instruction_set) == 0) return loops;
        last = &loops;
    }
    return *last;
}

}  // namespace understudy
