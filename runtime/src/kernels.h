// The inner loops. Each instruction set provides one table of them; `kernels()` returns the best.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "description.h"
#include "padding.h"

namespace understudy {

// A matrix packed for products with vectors.
//
// Rows are grouped into panels of 64. The last panel may have 16, 32 or 48 rows. A panel stores its
// columns one after the other, so a product reads memory sequentially and never sums across the
// lanes of a register. Rows are padded with zeros to a multiple of 16 (one unit).
struct Panels {
    static constexpr std::size_t kRows = 64;                 // rows per panel
    static constexpr std::size_t kUnit = understudy::kUnit;  // every height is a multiple of it

    const void* data = nullptr;
    std::uint8_t number_size = 4;  // bytes per number: 4 (float) or 2 (half)
    std::size_t columns = 0;
    std::size_t rows = 0;  // with padding

    std::size_t panel_count() const { return (rows + kRows - 1) / kRows; }
    // Rows in panels first..last (last excluded, as everywhere in this library).
    std::size_t rows_of(std::size_t first, std::size_t last) const {
        return (last * kRows < rows ? last * kRows : rows) - first * kRows;
    }
    // Address of the first number of a row.
    const void* row(std::size_t number) const {
        return static_cast<const char*>(data) +
               (number / kRows * kRows * columns + number % kRows) * number_size;
    }
};

// One weight of one transform.
struct Influence {
    std::uint32_t offset;  // of the transform, in floats: 16 times its index
    float weight;
};

// The influences of consecutive rows (vertices or virtual bones). Row i has `width` influences;
// where `width` is 0, its influences are entries starts[i] to starts[i + 1].
struct InfluenceRows {
    const Influence* entries = nullptr;
    const std::uint32_t* starts = nullptr;
    std::uint32_t width = 0;
};

// `blend_dense` reads the weights of this many rows side by side.
constexpr std::size_t kWeightRows = 16;

// The positions in an engine's buffer of vertices, `stride` bytes apart.
struct InterleavedPositions {
    char* first = nullptr;  // that of vertex 0; nullptr: there is no such buffer
    std::size_t stride = 0;

    float* at(std::size_t vertex) const {
        return reinterpret_cast<float*>(first + vertex * stride);
    }
};

// The arguments of a skinning kernel: vertices first..last of one pose, or of 16 poses in lanes.
struct VertexJob {
    std::size_t first, last;
    const float* base;                 // rest + mean, 3 per vertex; one float beyond may be read
    const std::uint32_t* slot_starts;  // per vertex, into `slots`; nullptr: no correctives
    const std::uint32_t* slots;        // offsets into `displacements`
    const float* displacements;        // 3 floats per slot; one float beyond may be read
    InfluenceRows skin;
    // Per group of four vertices that starts at a multiple of four: whether a single transform
    // moves all four and their displacements, if any, are consecutive.
    const std::uint8_t* rigid_quads;
    // Linear: four columns of four floats, the last float of each is 0.
    // Dual quaternion: see `skin_dual_quaternion`.
    const float* transforms;
    const float* centre;  // 4 floats to add to positions, then 4 that correct their rounding
    // 3 per vertex; vertex 0 of the job comes first. nullptr: only `interleaved` is wanted and
    // there are no correctives.
    float* positions;
    InterleavedPositions interleaved;  // one pose only
    std::size_t pose_stride = 0;       // lanes only: floats between the positions of two poses
};

// Consecutive vertices whose slots are consecutive too. Each vertex has `slot_count` of them.
struct VertexRun {
    std::uint16_t length, slot_count;
};

// What a `VertexJob` reads of its vertices, stored in 16 bits.
//
// Rest positions and weights are numbers on a grid: low + number * step. Slots are stored once per
// run. Each job dequantizes its own vertices into memory that stays in the level-1 cache.
struct QuantizedVertices {
    static constexpr std::size_t kBlock = 64;  // jobs start at a multiple; no run crosses one
    static constexpr std::size_t kAxes = 48;   // x, y, z repeated, for registers of any length
    static constexpr std::size_t kGroup = 16;  // vertices that share a base in `ends`

    // Per block: its first influence, its first run and that run's first slot.
    struct BlockStart {
        std::uint32_t influence, run, slot;
    };

    const std::uint16_t* base = nullptr;  // 3 per vertex; 15 numbers beyond the end may be read
    const float* lows = nullptr;          // of the base, kAxes of them
    const float* steps = nullptr;         // of the base, kAxes of them
    // Pairs of a transform's index and a weight's number; 15 numbers beyond the end may be read.
    const std::uint16_t* influences = nullptr;
    float weight_low = 0, weight_step = 0;
    // Per vertex: where its influences end, counted from the first one of its group of kGroup
    // vertices. Padded to whole groups. nullptr: each vertex has `width` influences.
    const std::uint8_t* ends = nullptr;
    std::size_t width = 0;
    const VertexRun* runs = nullptr;
    const BlockStart* starts = nullptr;
};

// Rows of `out` are blends of transforms of 16 floats. Weights are sparse, in `rows`, or dense.
//
// Dense weights: every row has a weight for each of `count` transforms. For `blend_dense`, per
// kWeightRows rows, `weights` holds the weights of the first transform, then those of the second,
// and so on; the rows are padded to a multiple of kWeightRows. For `blend_dense_lanes`, row by row.
struct BlendJob {
    InfluenceRows rows;
    const float* weights = nullptr;
    std::size_t count = 0;
    const float* transforms = nullptr;
    float* out = nullptr;
};

// Lane kernels work on this many poses at once: number i of pose p is at index i * kLanes + p.
constexpr std::size_t kLanes = 16;
// Lane products may start and end at any multiple of this many rows.
constexpr std::size_t kLaneRows = 4;

// y[v] = activation(W x[v] + bias) for some vectors x[v], and rows first..last of W. In lanes every
// number is 16, one per pose.
struct Product {
    const float* x;
    std::size_t x_stride;  // floats between two vectors
    // Those of some poses; three per pose, x, y and z, if a basis is shared. Lanes: 1 or 3.
    std::size_t vectors;
    const float* bias;  // padded like the rows, or nullptr
    Activation activation;
    float* y;  // the first row that is computed
    std::size_t y_stride;
    std::size_t y_row = kLanes;  // lanes only: floats between two rows
    // Lanes only: the weights to prefetch; nullptr: those that follow in memory.
    const void* next = nullptr;
};

// Ranges first..last exclude `last`.
struct Kernels {
    const char* name;

    // `first` is a multiple of Panels::kRows.
    void (*dense)(const Panels& w, std::size_t first, std::size_t last, const Product& product);
    // Rows first..last. `first` of `blend_dense` is a multiple of kWeightRows.
    void (*blend)(const BlendJob& job, std::size_t first, std::size_t last);
    void (*blend_dense)(const BlendJob& job, std::size_t first, std::size_t last);
    void (*skin_linear)(const VertexJob& job);
    void (*skin_dual_quaternion)(const VertexJob& job);

    // Sixteen poses in lanes. `to_lanes` transposes 16 rows of `count` numbers, `stride` floats
    // apart. `first` and `last` of `dense_lanes` are rows, multiples of kLaneRows. Offsets of
    // influences count rows of lanes.
    void (*to_lanes)(const float* from, std::size_t stride, std::size_t count, float* to);
    void (*dense_lanes)(const Panels& w, std::size_t first, std::size_t last,
                        const Product& product);
    void (*blend_lanes)(const BlendJob& job, std::size_t first, std::size_t last);
    void (*blend_dense_lanes)(const BlendJob& job, std::size_t first, std::size_t last);
    void (*skin_lanes)(const VertexJob& job);

    // Vertices first..last of quantized ones, into arrays that start with vertex `first`.
    // Points are rest plus displacements, or rest alone where `displacements` is nullptr. Up to 15
    // floats beyond the last displacement are read, up to 15 beyond the last point are written.
    void (*dequantize_points)(const QuantizedVertices& from, std::size_t first, std::size_t last,
                              const std::uint32_t* slots, const float* displacements, float* out);
    // Up to 7 influences beyond the last are written. `starts` is written where vertices have
    // different numbers of influences, up to 15 beyond the last.
    void (*dequantize_influences)(const QuantizedVertices& from, std::size_t first,
                                  std::size_t last, Influence* entries, std::uint32_t* starts);
    // Halves to floats; `count` is a multiple of 16.
    void (*widen)(const std::uint16_t* halves, std::size_t count, float* out);
    // Copies the positions of some vertices, in any order, to consecutive items. One float beyond a
    // position may be read.
    void (*copy_positions)(const float* positions, const std::uint32_t* vertices, std::size_t count,
                           const InterleavedPositions& to);
    // Prefetches memory that is about to be written and that another core may hold.
    void (*prefetch_write)(float* data, std::size_t count);
};

// The best table this processor can run, unless another was selected.
const Kernels& kernels();
// Selects a table by its name. Returns false if this processor cannot run it.
bool select_kernels(const char* name);
// Every table this processor can run, the best first, then nullptr. For tests.
const Kernels* const* all_kernels();

// A half as a float. Files hold no infinity and no NaN. Without branches, so that loops over it can
// be vectorized; without subnormal floats, because hosts may flush these to zero.
static inline float float_of_half(std::uint16_t half) {
    const std::uint32_t size = static_cast<std::uint32_t>(half & 0x7FFF) << 13,
                        sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
    const bool subnormal = size < 1u << 23;
    const std::uint32_t bits = size + ((subnormal ? 113u : 112u) << 23);
    float value;
    std::memcpy(&value, &bits, sizeof value);
    value -= subnormal ? 6.103515625e-5f : 0.0f;
    return sign ? -value : value;
}

}  // namespace understudy
