// A deformer ready to run: a `Description`, packed for the kernels and divided into tasks. It never
// changes after construction.
#pragma once

#include <cstdint>

#include "description.h"
#include "kernels.h"
#include "memory.h"

namespace understudy {

// One layer of one net. The values of all layers of a pose are in one array; offsets count floats
// from its start.
struct LayerPlan {
    Panels weight;
    const float* bias = nullptr;               // padded like the rows; or nullptr, and
    const std::uint16_t* half_bias = nullptr;  // the same in 16 bits
    Activation activation = Activation::linear;
    std::size_t input_offset = 0;  // of the previous layer's values; unused in a first layer
    std::size_t output_offset = 0;
    const std::int32_t* inputs = nullptr;  // first layer: the features it reads; else nullptr
    bool same_inputs = false;              // reads the same features as the layer before it
};

// Entries first..last of a list of writers.
struct WriterRange {
    std::uint32_t first, last;
};

// The coefficients of one basis. Coefficient p is the sum of the values at the writers in
// ranges[p]; or, if `one_writer_each` is set, the value at writers[p].
struct CoefficientPlan {
    const std::uint32_t* writers = nullptr;  // offsets of values
    const WriterRange* ranges = nullptr;
    std::size_t count = 0;
    std::size_t offset = 0;  // of its first coefficient
    bool one_writer_each = false;
    bool one_group = false;   // bounded coefficients fade alike
    bool contiguous = false;  // the writers are consecutive: batches read the values
};

// One basis, its vertices ordered by tile.
struct BasisPlan {
    Panels matrix;
    std::size_t vertex_count = 0;
    bool shared = false;           // one row per vertex, shared by x, y and z; else three rows
    std::size_t offset = 0;        // of its displacements
    std::size_t first_vertex = 0;  // in `Model::basis_vertices`
};

// The rows of one basis that move vertices of one tile. Both ends are rounded to kLaneRows.
struct BasisSpan {
    std::uint32_t basis, first_row, last_row;
    std::size_t offset;  // of its displacements within the tile
};

// Consecutive vertices and the spans that move them. In a lane batch one task handles a tile, so
// that its displacements, 16 times those of one pose, stay in the core's cache.
struct Tile {
    std::uint32_t first_vertex, last_vertex, first_span, last_span;
};

// Vertices of a serial batch's task; a multiple of what quantized vertices need.
constexpr std::uint32_t kTaskVertices = 256;
// Vertices of a task that computes normals.
constexpr std::uint32_t kTaskNormals = 512;

// Work for one thread: a range first..last of panels, rows, vertices or faces of item `what`; or of
// layers, coefficient plans, bases or tiles.
struct Task {
    enum class Kind : std::uint8_t {
        layer,
        layers,
        coefficients,
        basis,
        bases,
        virtual_bones,
        dual_quaternions,
        vertices,
        tiles,
        face_normals,
        vertex_normals
    };
    Kind kind;
    std::uint32_t what, first, last;
};

// Tasks of one phase may run in any order; one phase follows the other.
class Phases {
public:
    explicit Phases(const Memory& memory) : tasks_(memory), ends_(memory) {}

    struct Range {
        const Task* tasks;
        std::size_t size;
    };
    std::size_t count() const { return ends_.size(); }
    Range phase(std::size_t number) const {
        const std::size_t first = number ? ends_[number - 1] : 0;
        return {tasks_.data() + first, ends_[number] - first};
    }

    // Adds a phase; one without tasks is left out.
    [[nodiscard]] bool add(const Array<Task>& tasks) {
        if (tasks.empty()) return true;
        return tasks_.append(tasks.data(), tasks.size()) && ends_.push(tasks_.size());
    }

private:
    Array<Task> tasks_;
    Array<std::size_t> ends_;
};

struct Model {
    explicit Model(const Memory& given) : memory(given) {}
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;

    // Reads a file, or entries in memory, and packs it; only once. Returns false, with a problem,
    // if it cannot.
    [[nodiscard]] bool load(const std::uint8_t* data, std::size_t size, Problem& problem);
    [[nodiscard]] bool load(const understudy_entry* entries, std::size_t count, Problem& problem);
    [[nodiscard]] bool pack(Problem& problem);  // what was read

    const Memory memory;
    Description description{memory};
    std::size_t bytes = 0;  // that one call reads

    // Bones.
    Array<double> bone_from_rest{memory};          // 12 per bone
    Array<std::uint8_t> bone_is_read{memory};      // a feature reads it relative to its parent
    Array<std::uint8_t> bone_is_inverted{memory};  // it is the parent of such a bone
    bool reads_controls = false;

    // Nets and bases.
    Array<LayerPlan> layers{memory};
    Array<CoefficientPlan> coefficients{memory};  // one per basis
    Array<BasisPlan> bases{memory};
    Array<std::uint32_t> basis_vertices{memory};  // of all bases, in the order of their rows
    // Bounds, empty if there are none: per coefficient of all bases its range and the group it
    // fades with. The last group never fades.
    Array<float> coefficient_low{memory}, coefficient_high{memory};
    Array<std::uint32_t> coefficient_group{memory};
    std::size_t value_count = 0;         // of all layers, padded
    std::size_t coefficient_count = 0;   // of all bases
    std::size_t displacement_count = 0;  // of all bases, padded
    std::size_t widest_gather = 0;       // most inputs of a first layer
    std::size_t tallest_half_bias = 0;   // most rows of a layer whose bias is in 16 bits
    std::size_t tallest_shared = 0;      // most rows of a task on a shared basis

    // Vertices. A model in 16 bits is quantized if its numbers allow: then base, slot_starts and
    // skin are empty, and slots are stored per run.
    QuantizedVertices quantized;
    std::size_t most_vertices = 0, most_influences = 0, most_slots = 0;  // bounds for one job
    AlignedArray<float> base{memory};                                    // rest plus mean
    AlignedArray<std::uint32_t> slot_starts{memory}, slots{memory};
    AlignedArray<std::uint32_t> tile_slots{memory};  // the same, counted from the tile's first
    Array<std::uint8_t> rigid_quads{memory};         // see `VertexJob`
    InfluenceRows skin, virtual_bones;
    // If virtual bones blend most bones: the weight of every bone for every virtual bone, row by
    // row (lane batches) and as `blend_dense` reads them. `virtual_bones` is then empty.
    AlignedArray<float> virtual_weights{memory}, virtual_columns{memory};
    std::size_t virtual_count = 0;
    // That the skin refers to: virtual bones, bones or one identity.
    std::size_t transform_count = 0;

    // The triangles around each vertex, for normals.
    Array<std::uint32_t> around_starts{memory}, around{memory};

    Array<Tile> tiles{memory};
    Array<BasisSpan> spans{memory};  // tile after tile
    std::size_t widest_tile = 0;     // most displacements of one tile, padded

    // `phases` come first, then the `vertex_phases` of a serial batch or the `tile_phases` of a
    // lane batch.
    Phases phases{memory}, vertex_phases{memory}, tile_phases{memory};
    Array<Task> face_normal_tasks{memory}, vertex_normal_tasks{memory};

    std::size_t vertex_count() const { return description.vertex_count(); }
    std::size_t bone_count() const { return description.bone_count(); }
    bool is_bounded() const { return description.bounds.given; }
    // Numbers that `Batch::compute_fades` writes: one per group, and that of coefficients without.
    std::size_t fade_count() const {
        return is_bounded() ? added(description.bounds.group_count, 1) : 0;
    }
    bool is_quantized() const { return quantized.base != nullptr; }
    // The arguments for vertices first..last that all poses share. Not for quantized vertices.
    VertexJob vertex_job(std::size_t first, std::size_t last) const;

    // The memory that the pointers above refer to.
    struct Storage {
        explicit Storage(const Memory& given) : memory(given) {}

        const Memory& memory;
        Buffer matrices{memory}, biases{memory}, half_biases{memory};
        AlignedArray<Influence> skin_entries{memory}, virtual_entries{memory};
        AlignedArray<std::uint32_t> skin_starts{memory}, virtual_starts{memory};
        AlignedArray<std::uint32_t> writers{memory};
        AlignedArray<WriterRange> writer_ranges{memory};
        AlignedArray<std::uint16_t> quantized_base{memory}, quantized_influences{memory};
        AlignedArray<float> quantized_axes{memory};
        Array<std::uint8_t> quantized_ends{memory};
        Array<VertexRun> quantized_runs{memory};
        Array<QuantizedVertices::BlockStart> quantized_starts{memory};
    } storage{memory};
};

// Whether coefficients of one model are those of the other: see `understudy_shares_coefficients`.
bool shares_coefficients(const Model& a, const Model& b);

}  // namespace understudy
