// NEON on 64-bit ARM, where it is always available: registers of 4 floats.
#if defined(__aarch64__) || defined(_M_ARM64)
#include <arm_neon.h>

#include <cmath>
#include <cstring>

#include "kernels.h"

namespace understudy {
namespace {

struct V {
    using F = float32x4_t;
    using Float4 = float32x4_t;
    using Skinning = V;
    using Narrow = V;
    static constexpr int W = 4;
    static F load(const float* p) { return vld1q_f32(p); }
    static F load_half(const std::uint16_t* p) {
        return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
    }
    static F load_u16(const std::uint16_t* p) { return vcvtq_f32_u32(vmovl_u16(vld1_u16(p))); }
    static void store(float* p, F a) { vst1q_f32(p, a); }
    static F set1(float a) { return vdupq_n_f32(a); }
    static F zero() { return vdupq_n_f32(0.0f); }
    static F add(F a, F b) { return vaddq_f32(a, b); }
    static F sub(F a, F b) { return vsubq_f32(a, b); }
    static F mul(F a, F b) { return vmulq_f32(a, b); }
    static F div(F a, F b) { return vdivq_f32(a, b); }
    static F fma(F a, F b, F c) { return vfmaq_f32(c, a, b); }
    static F max(F a, F b) { return vmaxq_f32(a, b); }
    static F min(F a, F b) { return vminq_f32(a, b); }
    // Pairs of a transform's index and a weight's number, as `Influence`s.
    static F load_influences(const std::uint16_t* p, F low, F step) {
        const uint32x4_t pair = vmovl_u16(vld1_u16(p)),
                         odd = vreinterpretq_u32_u64(vdupq_n_u64(0xFFFFFFFF00000000u));
        return vbslq_f32(odd, fma(vcvtq_f32_u32(pair), step, low),
                         vreinterpretq_f32_u32(vshlq_n_u32(pair, 4)));
    }
    static Float4 load4(const float* p) { return vld1q_f32(p); }
    static void store4(float* p, Float4 a) { vst1q_f32(p, a); }
    static void store3(float* p, Float4 a) {
        vst1_f32(p, vget_low_f32(a));
        vst1q_lane_f32(p + 2, a, 2);
    }
    static Float4 add4(Float4 a, Float4 b) { return vaddq_f32(a, b); }
    static float root(float a) { return std::sqrt(a); }
    static Float4 apply(const F (&matrix)[4], Float4 point) {
        F sum = vfmaq_laneq_f32(matrix[3], matrix[0], point, 0);
        sum = vfmaq_laneq_f32(sum, matrix[1], point, 1);
        return vfmaq_laneq_f32(sum, matrix[2], point, 2);
    }
    static void prefetch(const char* p) {
#if defined(_MSC_VER)
        __prefetch(p);
#else
        __builtin_prefetch(p, 0, 2);
#endif
    }
    static void prefetch_write(float* p) {
#if defined(_MSC_VER)
        __prefetch(p);
#else
        __builtin_prefetch(p, 1, 3);
#endif
    }
    static void transpose(F (&row)[4]) {
        const F a = vzip1q_f32(row[0], row[2]), b = vzip2q_f32(row[0], row[2]),
                c = vzip1q_f32(row[1], row[3]), d = vzip2q_f32(row[1], row[3]);
        row[0] = vzip1q_f32(a, c);
        row[1] = vzip2q_f32(a, c);
        row[2] = vzip1q_f32(b, d);
        row[3] = vzip2q_f32(b, d);
    }
    static constexpr bool kPairs = false;
};

}  // namespace

#include "kernels_body.h"
#include "kernels_lanes.h"
#include "kernels_quantized.h"

extern const Kernels kNeon{"neon",
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
