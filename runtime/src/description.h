// A deformer as the file describes it: plain arrays in which every index is in range and every
// number is finite. The checks are those of the Python constructors.
#pragma once

#include <cstdint>

#include "memory.h"
#include "posing.h"
#include "problem.h"

namespace understudy {

// `linear` is that of last layers.
enum class Activation : std::uint8_t { linear, tanh, relu, gelu };
enum class Blend : std::uint8_t { linear, dual_quaternion };

// A matrix, row by row, in single or half precision. The description owns the numbers.
struct MatrixView {
    const float* single = nullptr;
    const std::uint16_t* half = nullptr;
    std::size_t rows = 0, columns = 0;

    std::size_t number_size() const { return half ? 2 : 4; }
};

struct NetLayer {
    MatrixView weight;
    // One number per row. Later layers of a file in 16 bits have `half_bias` instead.
    const float* bias = nullptr;
    const std::uint16_t* half_bias = nullptr;
};

struct Net {
    const std::int32_t* inputs = nullptr;   // features
    const std::int32_t* outputs = nullptr;  // coefficients
    std::size_t input_count = 0, output_count = 0;
    std::size_t first_layer = 0, layer_count = 0;  // of `Description::layers`; at least one
    Activation activation = Activation::tanh;
};

struct Basis {
    const std::int32_t* vertices = nullptr;
    std::size_t vertex_count = 0;
    MatrixView matrix;                           // (3n,P); shared: (n,P)
    const std::int32_t* coefficients = nullptr;  // P; shared: 3 P, those of x first
    bool shared = false;                         // one row per vertex serves x, y and z
};

struct Clip {
    explicit Clip(const Memory& memory) : name(memory), world_from_bone(memory) {}

    Text name;
    double frame_rate = 0;
    std::size_t frame_count = 0;
    Array<double> world_from_bone;
};

struct Influences {
    explicit Influences(const Memory& memory) : index(memory), weight(memory) {}

    std::size_t width = 0;  // per row
    Array<std::int32_t> index;
    Array<float> weight;
};

struct Controls {
    explicit Controls(const Memory& memory)
        : names(memory), units(memory), low(memory), high(memory), rest(memory) {}

    Array<Text> names, units;
    Array<double> low, high, rest;
};

struct Part {
    explicit Part(const Memory& memory) : name(memory), vertices(memory) {}

    Text name;
    Array<std::int32_t> vertices;
};

// What a render mesh needs besides positions and triangles. N corners: those of all polygons.
struct Surface {
    explicit Surface(const Memory& memory)
        : polygon_sizes(memory),
          polygon_material(memory),
          corner_uvs(memory),
          corner_normals(memory),
          materials(memory),
          parts(memory) {}

    Array<std::int32_t> polygon_sizes;
    Array<std::int32_t> polygon_material;     // per polygon; empty: one material
    Array<float> corner_uvs, corner_normals;  // 2 N and 3 N numbers; empty: there are none
    Array<Text> materials;
    Array<Part> parts;
};

// Features are compared with the centres of clusters inside this range, so that no square
// overflows.
constexpr float kLargestFeature = 1e15f;

// The range of the training poses, which bounds the coefficients: see core/bounds.py.
struct Bounds {
    explicit Bounds(const Memory& memory)
        : low(memory),
          high(memory),
          group(memory),
          units(memory),
          features(memory),
          scale(memory),
          centres(memory) {}

    bool given = false;
    float fade_end = 0;         // a distance, above 1
    Array<float> low, high;     // per coefficient
    Array<std::int32_t> group;  // per coefficient; -1: it never fades
    Array<std::int32_t> units;  // group after group
    std::size_t group_count = 0, units_per_group = 0;
    Array<std::int32_t> features;  // unit after unit
    Array<float> scale;            // the same
    Array<float> centres;          // per unit, per cluster: one per feature
    std::size_t unit_count = 0, cluster_count = 0, features_per_unit = 0;
};

struct Description {
    explicit Description(const Memory& given) : memory(given) {}
    Description(const Description&) = delete;  // nets and bases refer to its arrays
    Description& operator=(const Description&) = delete;

    const Memory& memory;
    std::size_t file_size = 0;
    Text method{memory}, unit{memory};
    Text up_axis{memory}, handedness{memory};
    bool half_precision = false;              // stored in 16 bits
    Array<float> rest{memory}, mean{memory};  // 3 per vertex; mean may be empty
    Array<std::int32_t> triangles{memory};    // polygons as fans from their first corner
    Surface surface{memory};
    Array<Text> bone_names{memory};
    Array<std::int32_t> parents{memory};
    Array<double> rest_bones{memory};  // 12 per bone
    Controls controls{memory};
    bool skinned = false;
    Blend blend = Blend::linear;
    Influences skin{memory}, virtual_bones{memory};  // virtual_bones.width is 0 if there are none
    Array<std::int32_t> feature_columns{memory};
    Array<float> feature_low{memory}, feature_high{memory};
    Array<Net> nets{memory};
    Array<NetLayer> layers{memory};  // net after net
    Array<Basis> bases{memory};
    std::size_t coefficient_count = 0;
    Bounds bounds{memory};
    Array<Clip> clips{memory};
    Posing posing{memory};

    std::size_t vertex_count() const { return rest.size() / 3; }
    std::size_t bone_count() const { return bone_names.size(); }
    // In whose frame nets read a bone: its parent; of further roots the first bone; -1: the world.
    std::int32_t frame_of(std::size_t bone) const {
        return parents[bone] < 0 && bone > 0 ? 0 : parents[bone];
    }
    std::size_t control_count() const { return controls.names.size(); }

    // The numbers that nets and bases refer to.
    Array<std::int32_t> net_inputs{memory}, net_outputs{memory}, basis_vertices{memory},
        basis_coefficients{memory};
    Array<float> net_weights{memory}, net_first_biases{memory}, net_biases{memory},
        basis_values{memory};
    Array<std::uint16_t> net_half_weights{memory}, net_half_biases{memory}, basis_halves{memory};
};

// Reads a whole file in memory. Returns false, with a problem, if anything is wrong with it.
[[nodiscard]] bool read_description(const std::uint8_t* data, std::size_t size, Description& into,
                                    Problem& problem);
// The same of entries in memory.
[[nodiscard]] bool read_description(const understudy_entry* entries, std::size_t count,
                                    Description& into, Problem& problem);

}  // namespace understudy
