// Plain C++ for every other processor. The other tables are tested against this one.
#include <cmath>
#include <cstring>

#include "kernels.h"

namespace understudy {
namespace {

struct V {
    struct F {
        float lane[4];
    };
    using Float4 = F;
    using Skinning = V;
    using Narrow = V;
    static constexpr int W = 4;
#if defined(__wasm__)
    static constexpr int kSums = 2;  // the lanes are scalars there
#else
    static constexpr int kSums = 8;
#endif
    template <class Of>
    static F each(Of of) {
        F result;
        for (int i = 0; i < W; ++i) result.lane[i] = of(i);
        return result;
    }
    static F load(const float* p) {
        return each([&](int i) { return p[i]; });
    }
    static F load_half(const std::uint16_t* p) {
        return each([&](int i) { return float_of_half(p[i]); });
    }
    static F load_u16(const std::uint16_t* p) {
        return each([&](int i) { return static_cast<float>(p[i]); });
    }
    static void store(float* p, F a) { std::memcpy(p, a.lane, sizeof a.lane); }
    static F set1(float a) {
        return each([&](int) { return a; });
    }
    static F zero() { return set1(0.0f); }
    static F add(F a, F b) {
        return each([&](int i) { return a.lane[i] + b.lane[i]; });
    }
    static F sub(F a, F b) {
        return each([&](int i) { return a.lane[i] - b.lane[i]; });
    }
    static F mul(F a, F b) {
        return each([&](int i) { return a.lane[i] * b.lane[i]; });
    }
    static F div(F a, F b) {
        return each([&](int i) { return a.lane[i] / b.lane[i]; });
    }
    static F fma(F a, F b, F c) {
        return each([&](int i) { return a.lane[i] * b.lane[i] + c.lane[i]; });
    }
    static F max(F a, F b) {
        return each([&](int i) { return a.lane[i] > b.lane[i] ? a.lane[i] : b.lane[i]; });
    }
    static F min(F a, F b) {
        return each([&](int i) { return a.lane[i] < b.lane[i] ? a.lane[i] : b.lane[i]; });
    }
    // Pairs of a transform's index and a weight's number, as `Influence`s.
    static F load_influences(const std::uint16_t* p, F low, F step) {
        F result = fma(load_u16(p), step, low);
        for (int i = 0; i < W; i += 2) {
            const std::uint32_t offset = 16 * std::uint32_t{p[i]};
            std::memcpy(result.lane + i, &offset, sizeof offset);
        }
        return result;
    }
    static Float4 load4(const float* p) { return load(p); }
    static void store4(float* p, Float4 a) { store(p, a); }
    static void store3(float* p, Float4 a) { std::memcpy(p, a.lane, 3 * sizeof(float)); }
    static Float4 add4(Float4 a, Float4 b) { return add(a, b); }
    static float root(float a) { return std::sqrt(a); }
    static Float4 apply(const F (&matrix)[4], Float4 point) {
        F sum = fma(matrix[0], set1(point.lane[0]), matrix[3]);
        sum = fma(matrix[1], set1(point.lane[1]), sum);
        return fma(matrix[2], set1(point.lane[2]), sum);
    }
    static void prefetch(const char*) {}
    static void prefetch_write(float*) {}
    static void transpose(F (&row)[4]) {
        for (int i = 0; i < W; ++i)
            for (int j = 0; j < i; ++j) {
                const float kept = row[i].lane[j];
                row[i].lane[j] = row[j].lane[i];
                row[j].lane[i] = kept;
            }
    }
    static constexpr bool kPairs = false;
};

}  // namespace

#define UNDERSTUDY_FEW_REGISTERS
#include "kernels_body.h"
#include "kernels_lanes.h"
#include "kernels_quantized.h"

extern const Kernels kPortable{"portable",
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
