// AVX-512 (F, DQ, BW, VL): registers of 16 floats. This file is compiled for those instruction sets
// and called only on processors that have them.
#if defined(__x86_64__) || defined(_M_X64)
#include <immintrin.h>

#include "kernels.h"

namespace understudy {
namespace {

#include "kernels_ymm.h"

struct V {
    using F = __m512;
    using Skinning = Ymm;
    using Narrow = Ymm;
    static constexpr int W = 16;
    static F load(const float* p) { return _mm512_loadu_ps(p); }
    static F load_half(const std::uint16_t* p) {
        return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    }
    static F load_u16(const std::uint16_t* p) {
        return _mm512_cvtepi32_ps(
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p))));
    }
    static void store(float* p, F a) { _mm512_storeu_ps(p, a); }
    static F set1(float a) { return _mm512_set1_ps(a); }
    static F zero() { return _mm512_setzero_ps(); }
    static F add(F a, F b) { return _mm512_add_ps(a, b); }
    static F sub(F a, F b) { return _mm512_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm512_mul_ps(a, b); }
    static F div(F a, F b) { return _mm512_div_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm512_fmadd_ps(a, b, c); }
    static F max(F a, F b) { return _mm512_max_ps(a, b); }
    static F min(F a, F b) { return _mm512_min_ps(a, b); }
    // Pairs of a transform's index and a weight's number, as `Influence`s.
    static F load_influences(const std::uint16_t* p, F low, F step) {
        const __m512i pair =
            _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
        const F offset = _mm512_castsi512_ps(_mm512_slli_epi32(pair, 4));
        return _mm512_mask_blend_ps(0xAAAA, offset, fma(_mm512_cvtepi32_ps(pair), step, low));
    }
    static void prefetch(const char* p) { _mm_prefetch(p, _MM_HINT_T1); }
    static void prefetch_write(float* p) { Ymm::prefetch_write(p); }
    static void transpose(F (&row)[16]) {
        F a[16];
        for (int i = 0; i < 16; i += 2) {
            a[i] = _mm512_unpacklo_ps(row[i], row[i + 1]);
            a[i + 1] = _mm512_unpackhi_ps(row[i], row[i + 1]);
        }
        const auto low = [](F x, F y) {
            return _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
        };
        const auto high = [](F x, F y) {
            return _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(x), _mm512_castps_pd(y)));
        };
        for (int i = 0; i < 16; i += 4) {  // 4 x 4 blocks
            row[i] = low(a[i], a[i + 2]);
            row[i + 1] = high(a[i], a[i + 2]);
            row[i + 2] = low(a[i + 1], a[i + 3]);
            row[i + 3] = high(a[i + 1], a[i + 3]);
        }
        for (int i = 0; i < 4; ++i) {  // exchange the blocks
            a[i] = _mm512_shuffle_f32x4(row[i], row[i + 4], 0x88);
            a[i + 4] = _mm512_shuffle_f32x4(row[i], row[i + 4], 0xDD);
            a[i + 8] = _mm512_shuffle_f32x4(row[i + 8], row[i + 12], 0x88);
            a[i + 12] = _mm512_shuffle_f32x4(row[i + 8], row[i + 12], 0xDD);
        }
        for (int i = 0; i < 4; ++i) {
            row[i] = _mm512_shuffle_f32x4(a[i], a[i + 8], 0x88);
            row[i + 8] = _mm512_shuffle_f32x4(a[i], a[i + 8], 0xDD);
            row[i + 4] = _mm512_shuffle_f32x4(a[i + 4], a[i + 12], 0x88);
            row[i + 12] = _mm512_shuffle_f32x4(a[i + 4], a[i + 12], 0xDD);
        }
    }
    // Four points (12 consecutive floats) are spread over the four quarters of a register, moved
    // together and packed again.
    static constexpr bool kQuads = true;
    static F moved_quad(const float* base, const float* displacement, const float* matrix,
                        const float* centre) {
        const __mmask16 twelve = 0x0FFF;
        F point = _mm512_maskz_loadu_ps(twelve, base);
        if (displacement) point = _mm512_add_ps(point, _mm512_maskz_loadu_ps(twelve, displacement));
        const __m512i spread =
            _mm512_set_epi32(15, 11, 10, 9, 15, 8, 7, 6, 15, 5, 4, 3, 15, 2, 1, 0);
        point = _mm512_permutexvar_ps(spread, point);
        const auto column = [](const float* from) {
            return _mm512_broadcast_f32x4(_mm_loadu_ps(from));
        };
        F sum =
            _mm512_fmadd_ps(column(matrix), _mm512_permute_ps(point, 0x00), column(matrix + 12));
        sum = _mm512_fmadd_ps(column(matrix + 4), _mm512_permute_ps(point, 0x55), sum);
        sum = _mm512_fmadd_ps(column(matrix + 8), _mm512_permute_ps(point, 0xAA), sum);
        return _mm512_add_ps(_mm512_add_ps(sum, column(centre + 4)), column(centre));
    }
    static void store_quad(float* out, F quad) {
        const __m512i pack =
            _mm512_set_epi32(15, 15, 15, 15, 14, 13, 12, 10, 9, 8, 6, 5, 4, 2, 1, 0);
        quad = _mm512_permutexvar_ps(pack, quad);
        _mm256_storeu_ps(out, _mm512_castps512_ps256(quad));
        _mm_storeu_ps(out + 8, _mm512_extractf32x4_ps(quad, 2));
    }
    template <int Number>
    static __m128 of_quad(F quad) {
        return _mm512_extractf32x4_ps(quad, Number);
    }
};

}  // namespace

#include "kernels_body.h"
#include "kernels_lanes.h"
#include "kernels_quantized.h"

extern const Kernels kAvx512{"avx512",
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
