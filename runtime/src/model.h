// A deformer ready to run: what `Description` holds, packed for the kernels and cut into tasks. Constant once made.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "description.h"
#include "kernels.h"
#include "memory.h"

namespace understudy {

// One layer of one net. Values of all layers of a pose lie in one array; places count floats in it.
struct LayerPlan {
    Panels weight;
    const float* bias = nullptr;    // padded like the rows; or `half_bias`, the same in 16 bits
    const std::uint16_t* half_bias = nullptr;
    Finish finish = Finish::linear;
    std::size_t from = 0;           // where its input lies; of a first layer, unused
    std::size_t to = 0;
    const std::int32_t* inputs = nullptr;  // of a first layer: which features; nullptr: the layer before
    bool same_inputs = false;              // as the layer before it in the list
};

// The coefficients of the basis of the same number, side by side: number p is the sum of values at writers[starts[p]] .. writers[starts[p + 1]]; where
// each has one writer, `starts` is nullptr.
struct CoefficientPlan {
    const std::uint32_t* writers = nullptr;
    const std::uint32_t* starts = nullptr;
    std::size_t count = 0;
    std::size_t to = 0;
    bool in_a_row = false;  // they lie side by side as they are: of few poses, that is where they are read
};

// A basis, its vertices window after window.
struct BasisPlan {
    Panels matrix;
    std::size_t vertex_count = 0;
    bool shared = false;
    std::size_t to = 0;  // where its displacements begin
};

// Those rows of a basis that move vertices of one window, and up to kLaneRows - 1 more at either end.
struct BasisPart {
    std::uint32_t basis, first, last;
    std::size_t to;  // where their displacements begin, among the window's own
};

// A stretch of vertices and the bases that move them. One thread moves those of a crowd: their displacements, many times those of one pose, then
// stay in its cache between the bases and the skin.
struct Window {
    std::uint32_t first_vertex, last_vertex, first_part, last_part;
};

// A piece of work that one thread does: panels or rows first..last of thing `what`; or layers, coefficients, bases or windows first..last.
struct Task {
    enum class Kind : std::uint8_t { layer, layers, coefficients, basis, bases, virtual_bones, dual_quaternions, vertices, windows, face_normals, vertex_normals };
    Kind kind;
    std::uint32_t what, first, last;
};

struct Model {
    explicit Model(std::unique_ptr<Description> description);

    std::unique_ptr<Description> description;
    std::size_t bytes = 0;  // that one call reads

    std::vector<double> bone_from_rest;       // 12 B
    std::vector<std::uint8_t> bone_is_read;   // bones whose matrix in the parent's frame some feature needs
    std::vector<std::uint8_t> bone_is_inverted;  // parents of those
    bool reads_controls = false;

    std::vector<LayerPlan> layers;
    std::vector<CoefficientPlan> coefficients;
    std::vector<BasisPlan> bases;
    std::size_t value_count = 0;         // of all layers of a pose, padded
    std::size_t coefficient_count = 0;   // of all bases of a pose
    std::size_t displacement_count = 0;  // of all bases of a pose, padded
    std::size_t widest_gather = 0;       // most inputs of a first layer
    std::size_t tallest_half_bias = 0;   // most rows of a layer whose bias is in 16 bits
    std::size_t tallest_shared = 0;      // most rows of a task of a shared basis

    // Of a model in 16 bits, if its numbers allow, vertices are `packed`: base, slot_starts and skin are then empty, and slots are those of its runs.
    PackedVertices packed;
    std::size_t most_vertices = 0, most_influences = 0, most_slots = 0;  // of one job, no less
    AlignedBytes base;                        // rest plus mean
    AlignedVector<std::uint32_t> slot_starts, slots;
    AlignedVector<std::uint32_t> window_slots;  // the same places among the displacements of the vertex' window
    std::vector<std::uint8_t> simple;         // see `VertexJob`
    InfluenceRows skin, virtual_bones;
    AlignedVector<float> virtual_weights;     // of every bone for every virtual bone, where most are there; then `virtual_bones` is empty
    AlignedVector<float> virtual_columns;     // the same as `blend_dense` reads them, for one pose; crowds read them row by row
    std::size_t virtual_count = 0;
    std::size_t transform_count = 0;          // what the skin points into: virtual bones, else bones, else one identity

    // Vertex -> the triangles around it, for normals.
    std::vector<std::uint32_t> around_starts, around;

    std::vector<Window> windows;
    std::vector<BasisPart> parts;   // window after window
    std::size_t widest_window = 0;  // most displacements of one, padded

    // Tasks of one phase may run in any order; phases follow each other: bones and nets; then, after the coefficients that are wanted, vertices, bases
    // first, or window by window.
    using Phases = std::vector<std::vector<Task>>;
    Phases phases, vertex_phases, window_phases;
    std::vector<Task> face_normal_tasks, vertex_normal_tasks;

    std::size_t vertex_count() const { return description->vertex_count(); }
    std::size_t bone_count() const { return description->bone_count(); }
    bool is_packed() const { return packed.base != nullptr; }
    // What is the same for every pose of the job that moves vertices first..last; not of packed ones.
    VertexJob vertex_job(std::size_t first, std::size_t last) const;

private:
    friend class Packer;
    AlignedBytes packed_, biases_, half_biases_;
    AlignedBytes packed_base_, packed_axes_;
    AlignedVector<std::uint16_t> packed_influences_;
    std::vector<std::uint8_t> packed_ends_;
    std::vector<VertexRun> packed_runs_;
    std::vector<PackedVertices::Start> packed_starts_;
    AlignedVector<Influence> skin_entries_, virtual_entries_;
    AlignedVector<std::uint32_t> skin_starts_, virtual_starts_, writers_, writer_starts_;
};

}  // namespace understudy
