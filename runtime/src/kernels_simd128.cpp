// WebAssembly SIMD: registers of 4 floats, without a fused multiply-add.
#if defined(__wasm_simd128__)
#include <wasm_simd128.h>

#include <cmath>

#include "kernels.h"

namespace understudy {
namespace {

struct V {
    using F = v128_t;
    using Float4 = v128_t;
    using Skinning = V;
    using Narrow = V;
    static constexpr int W = 4;
    static constexpr int kSums = 8;
    static F load(const float* p) { return wasm_v128_load(p); }
    // Sign, exponent and fraction move to their places; a product corrects the exponent, which is
    // right for subnormal numbers too. Files hold no infinity and no NaN.
    static F load_half(const std::uint16_t* p) {
        const F moved = wasm_v128_and(wasm_i32x4_shl(wasm_i32x4_load16x4(p), 13),
                                      wasm_u32x4_const_splat(0x8FFFE000));
        return wasm_f32x4_mul(moved, wasm_f32x4_const_splat(0x1p112f));
    }
    static F load_u16(const std::uint16_t* p) {
        return wasm_f32x4_convert_i32x4(wasm_u32x4_load16x4(p));
    }
    static void store(float* p, F a) { wasm_v128_store(p, a); }
    static F set1(float a) { return wasm_f32x4_splat(a); }
    static F zero() { return wasm_f32x4_const_splat(0.0f); }
    static F add(F a, F b) { return wasm_f32x4_add(a, b); }
    static F sub(F a, F b) { return wasm_f32x4_sub(a, b); }
    static F mul(F a, F b) { return wasm_f32x4_mul(a, b); }
    static F div(F a, F b) { return wasm_f32x4_div(a, b); }
    static F fma(F a, F b, F c) { return wasm_f32x4_add(wasm_f32x4_mul(a, b), c); }
    // Of a number and NaN, the second operand.
    static F max(F a, F b) { return wasm_f32x4_pmax(b, a); }
    static F min(F a, F b) { return wasm_f32x4_pmin(b, a); }
    // Pairs of a transform's index and a weight's number, as `Influence`s.
    static F load_influences(const std::uint16_t* p, F low, F step) {
        const F pair = wasm_u32x4_load16x4(p);
        const F weight = fma(wasm_f32x4_convert_i32x4(pair), step, low);
        return wasm_i32x4_shuffle(wasm_i32x4_shl(pair, 4), weight, 0, 5, 2, 7);
    }
    static Float4 load4(const float* p) { return wasm_v128_load(p); }
    static void store4(float* p, Float4 a) { wasm_v128_store(p, a); }
    static void store3(float* p, Float4 a) {
        wasm_v128_store64_lane(p, a, 0);
        wasm_v128_store32_lane(p + 2, a, 2);
    }
    static Float4 add4(Float4 a, Float4 b) { return wasm_f32x4_add(a, b); }
    static float root(float a) { return std::sqrt(a); }
    static Float4 apply(const F (&matrix)[4], Float4 point) {
        F sum = fma(matrix[0], wasm_i32x4_shuffle(point, point, 0, 0, 0, 0), matrix[3]);
        sum = fma(matrix[1], wasm_i32x4_shuffle(point, point, 1, 1, 1, 1), sum);
        return fma(matrix[2], wasm_i32x4_shuffle(point, point, 2, 2, 2, 2), sum);
    }
    static void prefetch(const char*) {}
    static void prefetch_write(float*) {}
    static void transpose(F (&row)[4]) {
        const F a = wasm_i32x4_shuffle(row[0], row[1], 0, 4, 1, 5),
                b = wasm_i32x4_shuffle(row[0], row[1], 2, 6, 3, 7),
                c = wasm_i32x4_shuffle(row[2], row[3], 0, 4, 1, 5),
                d = wasm_i32x4_shuffle(row[2], row[3], 2, 6, 3, 7);
        row[0] = wasm_i64x2_shuffle(a, c, 0, 2);
        row[1] = wasm_i64x2_shuffle(a, c, 1, 3);
        row[2] = wasm_i64x2_shuffle(b, d, 0, 2);
        row[3] = wasm_i64x2_shuffle(b, d, 1, 3);
    }
    static constexpr bool kPairs = false;
};

}  // namespace

#define UNDERSTUDY_FEW_REGISTERS
#include "kernels_body.h"
#include "kernels_lanes.h"
#include "kernels_quantized.h"

extern const Kernels kSimd128{"simd128",
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
