// The hot loops, one table of them per instruction set; `kernels()` picks the best this processor has.
#pragma once

#include <cstddef>
#include <cstdint>

#include "description.h"

namespace understudy {

// A matrix packed for products with vectors: panels of 64 rows (the last may have 16, 32 or 48), each holding its columns one after the other,
// so that a product reads memory straight through and needs no sums across a register. Rows are padded with zeros to a multiple of 16.
struct Panels {
    const void* data = nullptr;
    std::uint8_t number_size = 4;   // 4: floats, 2: halves
    std::size_t columns = 0;
    std::size_t rows = 0;  // padded

    static constexpr std::size_t kRows = 64, kUnit = 16;
    std::size_t panel_count() const { return (rows + kRows - 1) / kRows; }
    // In panels first..last.
    std::size_t rows_of(std::size_t first, std::size_t last) const { return (last * kRows < rows ? last * kRows : rows) - first * kRows; }
    // Where the first number of a row lies.
    const void* row(std::size_t number) const {
        return static_cast<const char*>(data) + (number / kRows * kRows * columns + number % kRows) * number_size;
    }
};

// Of a product: what becomes of W x + bias. `linear` keeps it; `rbf` is exp(-bias |x - w|^2) instead.
enum class Finish : std::uint8_t { linear, tanh, relu, gelu, rbf };

// How much of which transform: `offset` counts floats from the first transform, 16 each.
struct Influence {
    std::uint32_t offset;
    float weight;
};

// The influences of consecutive rows: `width` each, or, where that is 0, those from starts[row] to starts[row + 1].
struct InfluenceRows {
    const Influence* entries = nullptr;
    const std::uint32_t* starts = nullptr;
    std::uint32_t width = 0;
};

// Rows whose weights for one transform after the other lie side by side, for `blend_dense`.
constexpr std::size_t kWeightRows = 16;

// What moves vertices first..last of one pose.
struct VertexJob {
    std::size_t first, last;
    const float* base;                  // rest plus mean, 3 per vertex; one float beyond the last may be read
    const std::uint32_t* slot_starts;   // of each vertex, into `slots`; nullptr: no correctives
    const std::uint32_t* slots;         // where its displacements lie
    const float* displacements;         // 3 floats each; one float beyond may be read
    InfluenceRows skin;
    const std::uint8_t* simple;         // of each four vertices that start at a multiple of four: whether one transform moves them all and
                                        // their displacements, if any, lie side by side
    const float* transforms;            // linear: columns of 4 (the last number 0); dual quaternion: see `dual_quaternion_entry`
    const float* centre;                // 4 floats to add, and 4 more that make up for the rounding of the first
    float* positions;                   // 3 per vertex, from number 0 of the job on: of the whole pose, or of vertices unpacked for this job
    std::size_t pose_stride = 0;        // of lanes alone: floats from the positions of one pose to those of the next
};

// Consecutive vertices whose displacements lie side by side too, each at so many places.
struct VertexRun {
    std::uint16_t length, places;
};

// What a `VertexJob` reads of its vertices, in half the bytes or fewer: rest and weights are 16-bit numbers on a grid, low + number * step, and where
// displacements lie is said once for a run of vertices. It is unpacked for one job at a time, into memory that stays in the nearest cache.
struct PackedVertices {
    static constexpr std::size_t kStep = 64;  // a job begins at a multiple of it; no run goes on beyond one
    static constexpr std::size_t kAxes = 48;  // x, y and z over and over, for registers of any length
    static constexpr std::size_t kTogether = 16;

    // Of each kStep vertices: their first influence, their first run and the first of its places.
    struct Start {
        std::uint32_t influence, run, place;
    };

    const std::uint16_t* base = nullptr;  // 3 per vertex; 15 numbers beyond the last may be read
    const float *lows = nullptr, *steps = nullptr;  // of the base, kAxes each
    const std::uint16_t* influences = nullptr;  // the numbers of a transform and of a weight, in turns; 15 beyond the last may be read
    float weight_low = 0, weight_step = 0;
    // Of each vertex, where its influences end among those of its kTogether vertices, the last of which are padded; nullptr: each has `width` of them.
    const std::uint8_t* ends = nullptr;
    std::size_t width = 0;
    const VertexRun* runs = nullptr;
    const Start* starts = nullptr;
};

// Poses that one call of the functions for lanes works on: number i of all of them stands at i * kLanes.
constexpr std::size_t kLanes = 16, kLaneRows = 4;

// y = finish(W x + bias) in lanes, for `sets` vectors x that are `x_set` floats apart; rows of y are `y_row` floats apart, sets `y_set`, and begin with
// the first row that is asked for.
struct LaneProduct {
    const float* x;
    std::size_t sets, x_set;
    const float* bias;  // padded like the rows, or nullptr
    Finish finish;
    float* y;
    std::size_t y_row, y_set;
    const void* next = nullptr;  // weights that will be read after these; nullptr: those after them in memory
};

struct Kernels {
    const char* name;
    // y[pose] = finish(W x[pose] + bias) for panels first..last; bias is padded like the rows, or nullptr.
    void (*dense)(const Panels& w, std::size_t first, std::size_t last, const float* x, std::size_t x_stride, std::size_t poses, const float* bias,
                  Finish finish, float* y, std::size_t y_stride);
    // Rows first..last of blended transforms, 16 floats each.
    void (*blend)(const InfluenceRows& rows, std::size_t first, std::size_t last, const float* transforms, float* out);
    // The same for rows that have a weight for every one of `count` transforms: of every kWeightRows rows the weights for the first
    // transform, then those for the second, and so on. `first` is a multiple of kWeightRows, and the rows are padded to one.
    void (*blend_dense)(const float* weights, std::size_t count, std::size_t first, std::size_t last, const float* transforms, float* out);
    void (*skin_linear)(const VertexJob& job);
    void (*skin_dual_quaternion)(const VertexJob& job);
    // The same in lanes: `to_lanes` takes rows of 16 poses, `stride` floats apart; offsets of influences count rows of lanes;
    // `dense_lanes` makes rows first..last, multiples of kLaneRows; `blend_dense_lanes` takes weights row by row.
    void (*to_lanes)(const float* from, std::size_t stride, std::size_t count, float* to);
    void (*dense_lanes)(const Panels& w, std::size_t first, std::size_t last, const LaneProduct& of);
    void (*blend_lanes)(const InfluenceRows& rows, std::size_t first, std::size_t last, const float* transforms, float* out);
    void (*blend_dense_lanes)(const float* weights, std::size_t count, std::size_t first, std::size_t last, const float* transforms, float* out);
    void (*skin_lanes)(const VertexJob& job);
    // Of vertices first..last, into arrays that begin with the first. Rest plus displacements, or rest alone where those are nullptr: displacements are
    // read, and points written, up to 15 floats beyond the last. Influences, up to 7 beyond the last; and `starts`, up to 15 beyond, where vertices
    // have different numbers of them.
    void (*place_points)(const PackedVertices& from, std::size_t first, std::size_t last, const std::uint32_t* places, const float* displacements,
                         float* out);
    void (*unpack_influences)(const PackedVertices& from, std::size_t first, std::size_t last, Influence* entries, std::uint32_t* starts);
    // Halves to floats; `count` is a multiple of 16.
    void (*widen)(const std::uint16_t* halves, std::size_t count, float* out);
    // Fetches memory that is about to be written, which another processor may hold: all of it at once, not line by line as the writing comes there.
    void (*claim)(float* data, std::size_t count);
    // Reads every byte once and does next to nothing with it; `size` is a multiple of 256.
    float (*read)(const void* data, std::size_t size);
    // `count` multiply-adds, or a few more, of numbers that stay in registers.
    float (*multiply_add)(std::size_t count);
};

const Kernels& kernels();
// Every table this processor can run, the best first; for tests. Ends with nullptr.
const Kernels* const* all_kernels();

float float_of_half(std::uint16_t half);

}  // namespace understudy
