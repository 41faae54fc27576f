// A deformer as the file describes it: plain arrays in which every index is in range and every
// number is finite. The checks are those of the Python constructors.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "checked.h"

namespace understudy {

// `rbf` replaces W x + bias by exp(-bias |x - w|^2). `linear` is that of last layers.
enum class Activation : std::uint8_t { linear, tanh, relu, gelu, rbf };
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
    const std::int32_t* inputs = nullptr;   // one per column of the first layer
    const std::int32_t* outputs = nullptr;  // one per row of the last layer
    std::vector<NetLayer> layers;
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
    std::string name;
    double frame_rate = 0;
    std::size_t frame_count = 0;
    std::vector<double> world_from_bone;
};

struct Influences {
    std::size_t width = 0;  // per row
    std::vector<std::int32_t> index;
    std::vector<float> weight;
};

struct Description {
    Description() = default;
    Description(const Description&) = delete;  // nets and bases refer to its arrays
    Description& operator=(const Description&) = delete;

    std::size_t file_size = 0;
    std::string method, unit;
    bool half_precision = false;    // stored in 16 bits
    std::vector<float> rest, mean;  // 3 per vertex; mean may be empty
    std::vector<std::int32_t> triangles;
    std::vector<std::string> bone_names, control_names;
    std::vector<std::int32_t> parents;
    std::vector<double> rest_bones;  // 12 per bone
    bool skinned = false;
    Blend blend = Blend::linear;
    Influences skin, virtual_bones;  // virtual_bones.width is 0 if there are none
    std::vector<std::int32_t> feature_columns;
    std::vector<float> feature_low, feature_high;
    std::vector<Net> nets;
    std::vector<Basis> bases;
    std::size_t coefficient_count = 0;
    std::vector<Clip> clips;

    std::size_t vertex_count() const { return rest.size() / 3; }
    std::size_t bone_count() const { return bone_names.size(); }

    // The numbers that nets and bases refer to.
    std::vector<std::int32_t> net_inputs, net_outputs, basis_vertices, basis_coefficients;
    std::vector<float> net_values, basis_values;
    std::vector<std::uint16_t> net_halves, basis_halves;
};

// Reads a whole file in memory. Throws ReadError if anything is wrong with it.
void read_description(const std::uint8_t* data, std::size_t size, Description& into);

}  // namespace understudy
