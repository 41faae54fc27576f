// AVX2 with FMA and F16C: registers of 8 floats. This file is compiled for those instruction sets
// and called only on processors that have them.
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>

#include "kernels.h"

namespace understudy {
namespace {

#include "kernels_ymm.h"

struct V : Ymm {
    using Skinning = Ymm;
    using Narrow = Ymm;
    static F load_u16(const std::uint16_t* p) {
        return _mm256_cvtepi32_ps(
            _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
    }
    static F div(F a, F b) { return _mm256_div_ps(a, b); }
    static F max(F a, F b) { return _mm256_max_ps(a, b); }
    static F min(F a, F b) { return _mm256_min_ps(a, b); }
    // Pairs of a transform's index and a weight's number, as `Influence`s.
    static F load_influences(const std::uint16_t* p, F low, F step) {
        const __m256i pair =
            _mm256_cvtepu16_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
        const F offset = _mm256_castsi256_ps(_mm256_slli_epi32(pair, 4));
        return _mm256_blend_ps(offset, fma(_mm256_cvtepi32_ps(pair), step, low), 0xAA);
    }
    static void prefetch(const char* p) { _mm_prefetch(p, _MM_HINT_T1); }
    static void transpose(F (&row)[8]) {
        F a[8];
        for (int i = 0; i < 8; i += 2) {
            a[i] = _mm256_unpacklo_ps(row[i], row[i + 1]);
            a[i + 1] = _mm256_unpackhi_ps(row[i], row[i + 1]);
        }
        for (int i = 0; i < 8; i += 4) {
            row[i] = _mm256_shuffle_ps(a[i], a[i + 2], 0x44);
            row[i + 1] = _mm256_shuffle_ps(a[i], a[i + 2], 0xEE);
            row[i + 2] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0x44);
            row[i + 3] = _mm256_shuffle_ps(a[i + 1], a[i + 3], 0xEE);
        }
        for (int i = 0; i < 4; ++i) {
            a[i] = _mm256_permute2f128_ps(row[i], row[i + 4], 0x20);
            a[i + 4] = _mm256_permute2f128_ps(row[i], row[i + 4], 0x31);
        }
        for (int i = 0; i < 8; ++i) row[i] = a[i];
    }
    static constexpr bool kQuads = false;
};

}  // namespace

#include "kernels_body.h"
#include "kernels_lanes.h"
#include "kernels_quantized.h"

extern const Kernels kAvx2{"avx2",
                           dense,
                           blend,
                           blend_dense,
                           skin_linear,
                           skin_dual_quaternion,
                           to_lanes,
                           dense_lanes,
                           blend_lanes,
                           blend_dense_lanes,
                           skin_lanes,
                           dequantize_points,
                           dequantize_influences,
                           widen,
                           copy_positions,
                           prefetch_write};

}  // namespace understudy

#endif
