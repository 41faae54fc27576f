// A deformer as the file describes it: plain arrays, every index in range, every number finite. Mirrors the Python constructors' checks.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace understudy {

enum class Activation : std::uint8_t { tanh, relu, gelu, rbf };
enum class Blend : std::uint8_t { linear, dual_quaternion };

// Numbers row by row, in single or half precision, in arrays that the description owns.
struct MatrixView {
    const float* single = nullptr;
    const std::uint16_t* half = nullptr;
    std::size_t rows = 0, columns = 0;

    std::size_t number_size() const { return half ? 2 : 4; }
};

struct NetLayer {
    MatrixView weight;
    const float* bias = nullptr;  // as many as the weight has rows; or, of later layers in 16 bits, `half_bias`
    const std::uint16_t* half_bias = nullptr;
};

struct Net {
    const std::int32_t* inputs = nullptr;   // as many as the first layer has columns
    const std::int32_t* outputs = nullptr;  // as many as the last layer has rows
    std::vector<NetLayer> layers;
    Activation activation = Activation::tanh;
};

struct Basis {
    const std::int32_t* vertices = nullptr;
    std::size_t vertex_count = 0;
    MatrixView matrix;                          // (3n,P), or (n,P) where it is shared by x, y and z
    const std::int32_t* coefficients = nullptr; // P, or 3 P where shared
    bool shared = false;
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
    Description(const Description&) = delete;  // nets and bases point into its arrays
    Description& operator=(const Description&) = delete;

    std::string method, unit;
    bool half_precision = false;  // weights, and what else can be, are stored in 16 bits
    std::vector<float> rest, mean;  // 3 V; mean may be empty
    std::vector<std::int32_t> triangles;
    std::vector<std::string> bone_names, control_names;
    std::vector<std::int32_t> parents;
    std::vector<double> rest_bones;  // 12 B
    bool skinned = false;
    Blend blend = Blend::linear;
    Influences skin, virtual_bones;  // virtual_bones.width is 0 where there are none
    std::vector<std::int32_t> feature_columns;
    std::vector<float> feature_low, feature_high;
    std::vector<Net> nets;
    std::vector<Basis> bases;
    std::size_t coefficient_count = 0;
    std::vector<Clip> clips;

    std::size_t vertex_count() const { return rest.size() / 3; }
    std::size_t bone_count() const { return bone_names.size(); }

    // What the nets and bases point into.
    std::vector<std::int32_t> net_inputs, net_outputs, basis_vertices, basis_coefficients;
    std::vector<float> net_values, basis_values;
    std::vector<std::uint16_t> net_halves, basis_halves;
};

// Fills `into` from a whole file in memory, or throws ReadError.
void read_description(const std::uint8_t* data, std::size_t size, Description& into);

}  // namespace understudy
