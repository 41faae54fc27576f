#include "description.h"

#include <algorithm>
#include <cmath>

#include "affine.h"
#include "archive.h"
#include "kernels.h"

namespace understudy {
namespace {

static_assert(kFormatVersion == UNDERSTUDY_FORMAT_VERSION, "understudy.h is out of date");

constexpr const char* kUnits[] = {"m", "cm", "mm", "in", "ft", "unitless"};
constexpr const char* kUpAxes[] = {"Y", "Z", "unknown"};
constexpr const char* kHandedness[] = {"right", "left"};
constexpr const char* kStorages[] = {"float32", "float16"};
constexpr const char* kBlends[] = {"linear", "dual_quaternion"};
constexpr const char* kActivations[] = {"tanh", "relu", "gelu"};

bool in_range(const std::int32_t* values, std::size_t count, std::size_t size, const char* what,
              Problem& problem) {
    for (std::size_t i = 0; i < count; ++i)
        if (values[i] < 0 || static_cast<std::size_t>(values[i]) >= size)
            return problem.say(what, ": an index is out of range");
    return true;
}

bool in_range(const Array<std::int32_t>& values, std::size_t size, const char* what,
              Problem& problem) {
    return in_range(values.data(), values.size(), size, what, problem);
}

// Consecutive ranges of an array. It is an error to run past the end or to leave numbers.
template <class Scalar>
class Cuts {
public:
    Cuts(const Array<Scalar>& values, const char* name, Problem& problem)
        : values_(values), name_(name), problem_(problem) {}

    bool cut(std::size_t rows, std::size_t columns, const Scalar*& range) {
        if (columns && rows > (values_.size() - at_) / columns)
            return problem_.say(name_, ": its sizes ask for more numbers than there are");
        range = values_.data() + at_;
        at_ += rows * columns;
        return true;
    }

    // A size that is read.
    bool next(std::size_t& size) {
        const Scalar* found;
        if (!cut(1, 1, found)) return false;
        size = static_cast<std::size_t>(*found);
        return *found >= 0 || problem_.say(name_, ": a size is negative");
    }

    bool end() const {
        return at_ == values_.size() ||
               problem_.say(name_, ": holds more numbers than its sizes account for");
    }

private:
    const Array<Scalar>& values_;
    const char* name_;
    Problem& problem_;
    std::size_t at_ = 0;
};

// Numbers of nets or bases, cut from the array of their kind.
class Numbers {
public:
    Numbers(bool half, const Array<float>& values, const Array<std::uint16_t>& halves,
            const char* name, Problem& problem)
        : half_(half), values_(values, name, problem), halves_(halves, name, problem) {}

    bool cut(MatrixView& matrix) {
        return cut(matrix.rows, matrix.columns, matrix.single, matrix.half);
    }

    bool cut(std::size_t rows, std::size_t columns, const float*& single,
             const std::uint16_t*& half) {
        return half_ ? halves_.cut(rows, columns, half) : values_.cut(rows, columns, single);
    }

    bool end() const { return values_.end() && halves_.end(); }

private:
    bool half_;
    Cuts<float> values_;
    Cuts<std::uint16_t> halves_;
};

// The nearest half, of two the even one, of a float no larger than the largest half.
std::uint16_t half_of_float(float value) {
    std::uint32_t bits, middle;
    std::memcpy(&bits, &value, sizeof bits);
    const std::uint32_t sign = bits >> 16 & 0x8000;
    bits &= 0x7FFFFFFF;
    if (bits < 0x38800000) {  // steps of 2^-24, as floats from 0.5 on have them
        const float moved = std::abs(value) + 0.5f, half = 0.5f;
        std::memcpy(&bits, &moved, sizeof bits);
        std::memcpy(&middle, &half, sizeof middle);
        return static_cast<std::uint16_t>(sign | (bits - middle));
    }
    bits += 0xFFF + (bits >> 13 & 1);
    return static_cast<std::uint16_t>(sign | (bits - 0x38000000) >> 13);
}

// Layers that a file of some size may have: far more than real ones have, so few that a forged list
// of empty layers does not fill the memory.
std::size_t most_layers(std::size_t file_size) { return 4096 + file_size / 64; }

// Reads one file. Functions return false, with a problem, if something is wrong.
class Reader {
public:
    Reader(const Archive& file, Description& into)
        : file_(file), into_(into), problem_(file.problem()) {}

    bool read() {
        if (!read_storage() || !file_.text(Form::method, into_.method) || !read_mesh() ||
            !read_skeleton() || !read_controls() || !read_skin())
            return false;
        if (file_.has(FormPart::skeleton) != into_.skinned)
            return problem_.say("a skeleton and a skin come together: one of them is missing");
        return read_features() && read_nets() && read_bases() && read_mask() && read_bounds() &&
               read_clips() && read_posing_part();
    }

private:
    bool read_storage() {
        Text storage(into_.memory);
        if (!read_word(Form::storage, kStorages, storage)) return false;
        into_.half_precision = std::strcmp(storage.c_str(), "float16") == 0;
        return true;
    }

    // One of a few words.
    template <std::size_t count>
    bool read_word(Form form, const char* const (&known)[count], Text& text) {
        if (!file_.text(form, text)) return false;
        for (const char* word : known)
            if (std::strcmp(text.c_str(), word) == 0) return true;
        return problem_.say(kForm[static_cast<std::size_t>(form)].name, ": unknown: ", text);
    }

    // Numbers that are stored in 16 bits in files of them.
    bool read_numbers(Form form, Array<float>& values, Array<std::uint16_t>& halves) {
        return into_.half_precision ? file_.halves(form, halves) : file_.floats(form, values);
    }

    bool read_mesh() {
        if (!read_word(Form::mesh_unit, kUnits, into_.unit) ||
            !read_word(Form::mesh_up_axis, kUpAxes, into_.up_axis) ||
            !read_word(Form::mesh_handedness, kHandedness, into_.handedness) ||
            !file_.floats(Form::mesh_vertices, into_.rest))
            return false;
        if (into_.rest.empty()) return problem_.say("mesh.vertices: there are none");
        Array<std::int32_t> sizes(into_.memory), corners(into_.memory);
        if (!file_.integers(Form::mesh_polygon_sizes, sizes) ||
            !file_.integers(Form::mesh_polygon_vertices, corners) ||
            !in_range(corners, into_.vertex_count(), "mesh.polygon_vertices", problem_) ||
            !read_triangles(sizes, corners) || !read_surface(sizes))
            return false;
        Array<float> ignored(into_.memory);
        return (!file_.has(Form::held_out_error) || file_.floats(Form::held_out_error, ignored)) &&
               (!file_.has(Form::mean) || file_.floats(Form::mean, into_.mean));
    }

    bool read_triangles(const Array<std::int32_t>& sizes, const Array<std::int32_t>& corners) {
        if (!into_.triangles.reserve(
                multiplied(3, corners.size() - std::min(corners.size(), 2 * sizes.size()))))
            return false;
        std::size_t at = 0;
        for (const std::int32_t size : sizes) {
            if (size < 3 || static_cast<std::size_t>(size) > corners.size() - at)
                return problem_.say(
                    "mesh.polygon_sizes: a polygon has fewer than 3 corners or none are left");
            for (std::int32_t corner = 1; corner + 1 < size; ++corner)  // a fan from the first one
                for (const std::int32_t offset : {0, corner, corner + 1})
                    if (!into_.triangles.push(corners[at + static_cast<std::size_t>(offset)]))
                        return false;
            at += static_cast<std::size_t>(size);
        }
        return at == corners.size() ||
               problem_.say("mesh.polygon_vertices: more corners than the polygons have");
    }

    bool read_surface(Array<std::int32_t>& sizes) {
        Surface& surface = into_.surface;
        surface.polygon_sizes.swap(sizes);
        if ((file_.has(Form::mesh_corner_uvs) &&
             !file_.floats(Form::mesh_corner_uvs, surface.corner_uvs)) ||
            (file_.has(Form::mesh_corner_normals) &&
             !file_.floats(Form::mesh_corner_normals, surface.corner_normals)) ||
            !file_.names(Form::mesh_materials, surface.materials) || !read_parts(surface.parts))
            return false;
        return !file_.has(Form::mesh_polygon_material) ||
               (file_.integers(Form::mesh_polygon_material, surface.polygon_material) &&
                in_range(surface.polygon_material,
                         std::max<std::size_t>(1, surface.materials.size()),
                         "mesh.polygon_material", problem_));
    }

    bool read_parts(Array<Part>& parts) {
        Array<Text> names(into_.memory);
        Array<std::int32_t> sizes(into_.memory), all(into_.memory);
        if (!file_.names(Form::mesh_parts, names) ||
            !file_.integers(Form::mesh_part_sizes, sizes) ||
            !file_.integers(Form::mesh_part_vertices, all) ||
            !in_range(all, into_.vertex_count(), "mesh.part_vertices", problem_))
            return false;
        Cuts<std::int32_t> counts(sizes, "mesh.part_sizes", problem_),
            vertices(all, "mesh.part_vertices", problem_);
        for (Text& name : names) {
            Part part(into_.memory);
            const std::int32_t* first;
            std::size_t size;
            part.name = static_cast<Text&&>(name);
            if (!counts.next(size) || !vertices.cut(size, 1, first) ||
                !part.vertices.append(first, size) || !parts.push(static_cast<Part&&>(part)))
                return false;
        }
        return vertices.end();
    }

    bool read_skeleton() {
        if (!file_.has(FormPart::skeleton)) return true;
        if (!file_.names(Form::skeleton_names, into_.bone_names) ||
            !file_.integers(Form::skeleton_parents, into_.parents) ||
            !file_.doubles(Form::skeleton_world_from_bone, into_.rest_bones))
            return false;
        const std::size_t count = into_.bone_names.size();
        for (std::size_t bone = 0; bone < count; ++bone) {
            if (into_.parents[bone] < -1 || into_.parents[bone] >= static_cast<std::int64_t>(bone))
                return problem_.say("skeleton.parents: a parent must come before its child");
            for (std::size_t i = 0; i < 12; ++i)
                if (std::abs(into_.rest_bones[12 * bone + i]) > 1e18)
                    return problem_.say("skeleton.world_from_bone: a number is above 1e18");
            if (!(std::abs(determinant(into_.rest_bones.data() + 12 * bone)) >= 1e-12))
                return problem_.say("skeleton.world_from_bone: a bone is squashed flat");
        }
        return true;
    }

    bool read_controls() {
        if (!file_.has(FormPart::controls)) return true;
        Controls& controls = into_.controls;
        Array<double> limit_low(into_.memory), limit_high(into_.memory);
        Array<std::uint8_t> ignored(into_.memory);
        if (!file_.names(Form::controls_names, controls.names) ||
            !file_.texts(Form::controls_units, controls.units) ||
            !file_.doubles(Form::controls_low, controls.low) ||
            !file_.doubles(Form::controls_high, controls.high) ||
            !file_.doubles(Form::controls_rest, controls.rest) ||
            !file_.doubles(Form::controls_limit_low, limit_low) ||
            !file_.doubles(Form::controls_limit_high, limit_high) ||
            !file_.truths(Form::controls_numeric, ignored))
            return false;
        const std::size_t count = controls.names.size();
        for (std::size_t i = 0; i < count; ++i)
            if (controls.low[i] > controls.high[i] || limit_low[i] > controls.low[i] ||
                limit_high[i] < controls.high[i])
                return problem_.say("control ", controls.names[i],
                                    ": its range is not in order or outside its limits");
        return true;
    }

    bool read_influences(Form index, Form weight, std::size_t targets, Influences& found) {
        if (!file_.integers(index, found.index) || !file_.floats(weight, found.weight))
            return false;
        found.width = file_.shape(index)[1];
        if (found.width < 1) return problem_.say("skin: at least one influence is needed");
        if (!in_range(found.index, targets, kForm[static_cast<std::size_t>(index)].name, problem_))
            return false;
        for (std::size_t at = 0; at < found.weight.size(); at += found.width) {
            double sum = 0;
            for (std::size_t k = 0; k < found.width; ++k) sum += found.weight[at + k];
            if (!(std::abs(sum - 1) <= 1e-3))
                return problem_.say(kForm[static_cast<std::size_t>(weight)].name,
                                    ": a row does not sum to one");
        }
        return true;
    }

    bool read_skin() {
        if (!file_.has(FormPart::skin)) return true;
        Text blend(into_.memory);
        if (!read_word(Form::skin_blend, kBlends, blend)) return false;
        if (std::strcmp(blend.c_str(), "linear") != 0) into_.blend = Blend::dual_quaternion;
        into_.skinned = true;
        std::size_t targets = into_.bone_count();
        if (file_.has(Form::skin_virtual_index) != file_.has(Form::skin_virtual_weight))
            return problem_.say("skin: virtual_index and virtual_weight come together");
        if (file_.has(Form::skin_virtual_index)) {
            if (!read_influences(Form::skin_virtual_index, Form::skin_virtual_weight, targets,
                                 into_.virtual_bones))
                return false;
            targets = file_.shape(Form::skin_virtual_index)[0];
        }
        return read_influences(Form::skin_bone_index, Form::skin_weight, targets, into_.skin);
    }

    bool read_features() {
        if (!file_.integers(Form::features_columns, into_.feature_columns) ||
            !file_.floats(Form::features_low, into_.feature_low, 0, true) ||  // infinite: no clamp
            !file_.floats(Form::features_high, into_.feature_high, 0, true))
            return false;
        const std::size_t count = into_.feature_columns.size();
        for (std::size_t i = 0; i < count; ++i)
            if (!(into_.feature_low[i] <= into_.feature_high[i]))
                return problem_.say("features: low is above high, or NaN");
        return in_range(into_.feature_columns, 12 * into_.bone_count() + into_.control_count(),
                        "features.columns", problem_);
    }

    static bool find_activation(const Text& name, Activation& found) {
        for (std::size_t i = 0; i < sizeof kActivations / sizeof *kActivations; ++i)
            if (std::strcmp(name.c_str(), kActivations[i]) == 0) {
                found = static_cast<Activation>(i + 1);  // the first is `linear`
                return true;
            }
        return false;
    }

    bool read_nets() {
        if (!file_.has(FormPart::nets)) return true;
        Array<Text> activations(into_.memory);
        Array<std::int32_t> layer_counts(into_.memory), input_counts(into_.memory),
            output_counts(into_.memory);
        if (!file_.texts(Form::nets_activations, activations) ||
            !file_.integers(Form::nets_layer_counts, layer_counts) ||
            !file_.integers(Form::nets_input_counts, input_counts) ||
            !file_.integers(Form::nets_output_counts, output_counts) ||
            !file_.integers(Form::nets_inputs, into_.net_inputs) ||
            !file_.integers(Form::nets_outputs, into_.net_outputs) ||
            !read_numbers(Form::nets_weights, into_.net_weights, into_.net_half_weights) ||
            !file_.floats(Form::nets_first_biases, into_.net_first_biases) ||
            !read_numbers(Form::nets_biases, into_.net_biases, into_.net_half_biases))
            return false;
        const bool half = into_.half_precision;
        Cuts<std::int32_t> depths(layer_counts, "nets.layer_counts", problem_),
            widths(input_counts, "nets.input_counts", problem_),
            heights(output_counts, "nets.output_counts", problem_),
            inputs(into_.net_inputs, "nets.inputs", problem_),
            outputs(into_.net_outputs, "nets.outputs", problem_);
        Cuts<float> first_biases(into_.net_first_biases, "nets.first_biases", problem_);
        Numbers weights(half, into_.net_weights, into_.net_half_weights, "nets.weights", problem_),
            biases(half, into_.net_biases, into_.net_half_biases, "nets.biases", problem_);
        for (const Text& activation : activations) {
            Net net;
            std::size_t width;
            if (!find_activation(activation, net.activation))
                return problem_.say("nets.activations: unknown: ", activation);
            if (!depths.next(net.layer_count) || !widths.next(width)) return false;
            if (net.layer_count < 1) return problem_.say("nets.layer_counts: a net has no layers");
            net.first_layer = into_.layers.size();
            net.input_count = width;
            for (std::size_t number = 0; number < net.layer_count; ++number) {
                NetLayer layer;
                layer.weight.columns = width;
                if (into_.layers.size() >= most_layers(file_.size()))
                    return problem_.say("nets: more layers than a file of this size can have");
                if (!heights.next(layer.weight.rows) || !weights.cut(layer.weight) ||
                    !(number ? biases.cut(layer.weight.rows, 1, layer.bias, layer.half_bias)
                             : first_biases.cut(layer.weight.rows, 1, layer.bias)) ||
                    !into_.layers.push(layer))
                    return false;
                width = layer.weight.rows;
            }
            net.output_count = width;
            if (!inputs.cut(net.input_count, 1, net.inputs) ||
                !outputs.cut(net.output_count, 1, net.outputs) ||
                !in_range(net.inputs, net.input_count, into_.feature_columns.size(), "nets.inputs",
                          problem_))
                return false;
            for (std::size_t i = 0; i < net.output_count; ++i) {
                if (net.outputs[i] < 0)
                    return problem_.say("nets.outputs: an index is out of range");
                into_.coefficient_count =
                    std::max(into_.coefficient_count, static_cast<std::size_t>(net.outputs[i]) + 1);
            }
            if (!into_.nets.push(net)) return false;
        }
        if (!heights.end() || !inputs.end() || !outputs.end() || !weights.end() ||
            !first_biases.end() || !biases.end())
            return false;
        return into_.coefficient_count <= into_.net_outputs.size() ||
               problem_.say("nets.outputs: a coefficient is named beyond those the nets write");
    }

    bool read_bases() {
        if (!file_.has(FormPart::bases)) return true;
        Array<std::int32_t> vertex_counts(into_.memory), component_counts(into_.memory);
        Array<std::uint8_t> all_shared(into_.memory);
        if (!file_.integers(Form::bases_vertex_counts, vertex_counts) ||
            !file_.integers(Form::bases_component_counts, component_counts) ||
            !file_.truths(Form::bases_shared, all_shared) ||
            !file_.integers(Form::bases_vertices, into_.basis_vertices) ||
            !file_.integers(Form::bases_coefficients, into_.basis_coefficients) ||
            !read_numbers(Form::bases_matrices, into_.basis_values, into_.basis_halves))
            return false;
        Cuts<std::int32_t> counts(vertex_counts, "bases.vertex_counts", problem_),
            components(component_counts, "bases.component_counts", problem_),
            vertices(into_.basis_vertices, "bases.vertices", problem_),
            coefficients(into_.basis_coefficients, "bases.coefficients", problem_);
        Numbers matrices(into_.half_precision, into_.basis_values, into_.basis_halves,
                         "bases.matrices", problem_);
        Array<std::uint32_t> last_basis(into_.memory);  // per vertex
        if (!into_.basis_vertices.empty() && !last_basis.resize(into_.vertex_count())) return false;
        std::uint32_t number = 0;
        for (const std::uint8_t shared : all_shared) {
            Basis basis;
            if (!counts.next(basis.vertex_count) || !components.next(basis.matrix.columns))
                return false;
            basis.shared = shared;
            basis.matrix.rows = multiplied(basis.vertex_count, basis.shared ? 1 : 3);
            const std::size_t named = basis.shared ? 3 : 1;
            if (!vertices.cut(basis.vertex_count, 1, basis.vertices) ||
                !matrices.cut(basis.matrix) ||
                !coefficients.cut(named, basis.matrix.columns, basis.coefficients) ||
                !in_range(basis.vertices, basis.vertex_count, into_.vertex_count(),
                          "bases.vertices", problem_) ||
                !in_range(basis.coefficients, named * basis.matrix.columns, into_.coefficient_count,
                          "bases.coefficients", problem_))
                return false;
            ++number;
            for (std::size_t i = 0; i < basis.vertex_count; ++i) {
                std::uint32_t& last = last_basis[static_cast<std::size_t>(basis.vertices[i])];
                if (last == number)
                    return problem_.say("bases.vertices: a basis names a vertex twice");
                last = number;
            }
            // A basis without components moves nothing.
            if (basis.matrix.columns && !into_.bases.push(basis)) return false;
        }
        return vertices.end() && coefficients.end() && matrices.end();
    }

    // Multiplies the mean and the rows of bases, so that a mask costs nothing in a pose.
    bool read_mask() {
        if (!file_.has(Form::mask)) return true;
        Array<float> mask(into_.memory);
        if (!file_.floats(Form::mask, mask)) return false;
        for (const float scale : mask)
            if (!(scale >= 0 && scale <= 1)) return problem_.say("mask: a number is not in 0 to 1");
        for (std::size_t i = 0; i < into_.mean.size(); ++i) into_.mean[i] *= mask[i / 3];
        for (const Basis& basis : into_.bases) {
            const MatrixView& matrix = basis.matrix;
            float* single = into_.basis_values.data();
            std::uint16_t* half = into_.basis_halves.data();
            if (matrix.half) half += matrix.half - half;
            else single += matrix.single - single;
            for (std::size_t i = 0; i < matrix.rows * matrix.columns; ++i) {
                const std::size_t row = i / matrix.columns / (basis.shared ? 1 : 3);
                const float scale = mask[static_cast<std::size_t>(basis.vertices[row])];
                if (matrix.half) half[i] = half_of_float(float_of_half(half[i]) * scale);
                else single[i] *= scale;
            }
        }
        return true;
    }

    bool read_bounds() {
        if (!file_.has(FormPart::bounds)) return true;
        Bounds& bounds = into_.bounds;
        Array<double> end(into_.memory);
        if (!file_.doubles(Form::bounds_fade_end, end)) return false;
        if (!(end[0] > 1 && end[0] <= 1e6))
            return problem_.say("bounds: fade_end is not a distance above 1");
        bounds.given = true;
        bounds.fade_end = static_cast<float>(end[0]);
        if (!file_.floats(Form::bounds_low, bounds.low) ||
            !file_.floats(Form::bounds_high, bounds.high) ||
            !file_.integers(Form::bounds_group, bounds.group) ||
            !file_.integers(Form::bounds_units, bounds.units) ||
            !file_.integers(Form::bounds_features, bounds.features) ||
            !file_.floats(Form::bounds_scale, bounds.scale) ||
            !file_.floats(Form::bounds_centres, bounds.centres))
            return false;
        const std::size_t count = into_.coefficient_count;
        if (bounds.low.size() != count)
            return problem_.say("bounds: expected one number per coefficient");
        for (std::size_t n = 0; n < count; ++n)
            if (bounds.low[n] > bounds.high[n]) return problem_.say("bounds: low is above high");
        const Shape units = file_.shape(Form::bounds_units),
                    centres = file_.shape(Form::bounds_centres);
        bounds.group_count = units[0];
        bounds.units_per_group = units[1];
        bounds.unit_count = centres[0];
        bounds.cluster_count = centres[1];
        bounds.features_per_unit = centres[2];
        if ((bounds.unit_count && bounds.centres.empty()) ||
            (bounds.group_count && bounds.units.empty()))
            return problem_.say(
                "bounds: every unit needs a feature and a cluster, every group a unit");
        for (const float scale : bounds.scale)
            if (scale < 0) return problem_.say("bounds.scale: a number is negative");
        for (const float centre : bounds.centres)
            if (std::abs(centre) > kLargestFeature)
                return problem_.say("bounds.centres: a number is above 1e15");
        for (const std::int32_t group : bounds.group)
            if (group < -1 || group >= static_cast<std::int64_t>(bounds.group_count))
                return problem_.say("bounds.group: an index is out of range");
        return in_range(bounds.units, bounds.unit_count, "bounds.units", problem_) &&
               in_range(bounds.features, into_.feature_columns.size(), "bounds.features", problem_);
    }

    bool read_posing_part() {
        if (!file_.has(FormPart::posing)) return true;
        if (!file_.has(FormPart::skeleton)) return problem_.say("posing: there is no skeleton");
        const PosedBones bones{into_.bone_count(), into_.control_count(), into_.rest_bones.data()};
        return read_posing(file_, bones, into_.memory, into_.posing);
    }

    bool read_clips() {
        if (!file_.has(FormPart::clips)) return true;
        Array<Text> names(into_.memory);
        Array<double> rates(into_.memory);
        Array<std::int32_t> ignored(into_.memory);
        if (!file_.names(Form::clips_names, names) ||
            !file_.doubles(Form::clips_frame_rates, rates) ||
            !file_.integers(Form::clips_start_frames, ignored))
            return false;
        for (std::size_t i = 0; i < names.size(); ++i) {
            Clip clip(into_.memory);
            clip.name = static_cast<Text&&>(names[i]);
            clip.frame_rate = rates[i];
            if (!(clip.frame_rate >= 0))
                return problem_.say("clip ", clip.name, ": a wrong frame rate");
            if (!read_frames(static_cast<std::uint32_t>(i), clip) ||
                !into_.clips.push(static_cast<Clip&&>(clip)))
                return false;
        }
        return true;
    }

    bool read_frames(std::uint32_t number, Clip& clip) {
        if (file_.has(Form::clip_keys, number)) return read_keys(number, clip);
        if (!file_.doubles(Form::clip_world_from_bone, clip.world_from_bone, number)) return false;
        clip.frame_count = file_.shape(Form::clip_world_from_bone, number)[0];
        return clip.frame_count || problem_.say("clip ", clip.name, ": it has no frames");
    }

    // Reads which bone has a key in which frame (F,B), and the transforms of all keys (n,12), frame
    // by frame. Between two keys a bone's transform changes linearly.
    bool read_keys(std::uint32_t number, Clip& clip) {
        Array<std::uint8_t> keys(into_.memory);
        Array<float> values(into_.memory);
        if (!file_.truths(Form::clip_keys, keys, number) ||
            !file_.floats(Form::clip_values, values, number))
            return false;
        const Shape shape = file_.shape(Form::clip_keys, number);
        const std::size_t frames = shape[0], bones = shape[1];
        std::size_t count = 0;
        for (const std::uint8_t key : keys) count += key;
        if (frames < 1 || bones != into_.bone_count() || values.size() != 12 * count)
            return problem_.say("clip ", clip.name, ": keys (F, B) and values (n, 12) do not fit");
        for (std::size_t bone = 0; bone < bones; ++bone)
            if (!keys[bone] || !keys[(frames - 1) * bones + bone])
                return problem_.say("clip ", clip.name, ": no key in the first or last frame");
        if (!clip.world_from_bone.resize(multiplied(keys.size(), 12))) return false;
        double* into = clip.world_from_bone.data();
        const float* value = values.data();
        for (std::size_t place = 0; place < keys.size(); ++place)
            if (keys[place])
                for (std::size_t i = 0; i < 12; ++i) into[12 * place + i] = *value++;
        for (std::size_t bone = 0; bone < bones; ++bone) {
            std::size_t before = 0;  // the last frame with a key
            for (std::size_t frame = 1; frame < frames; ++frame) {
                if (!keys[frame * bones + bone]) continue;
                fill_between(into + 12 * bone, 12 * bones, before, frame);
                before = frame;
            }
        }
        clip.frame_count = frames;
        return true;
    }

    // Interpolates the frames between two frames of one bone.
    static void fill_between(double* bone, std::size_t stride, std::size_t first,
                             std::size_t last) {
        const double *from = bone + stride * first, *to = bone + stride * last;
        for (std::size_t frame = first + 1; frame < last; ++frame) {
            const double share =
                static_cast<double>(frame - first) / static_cast<double>(last - first);
            double* into = bone + stride * frame;
            for (std::size_t i = 0; i < 12; ++i) {
                const double step = (to[i] - from[i]) * share;
                into[i] = from[i] + step;
            }
        }
    }

    const Archive& file_;
    Description& into_;
    Problem& problem_;
};

}  // namespace

bool read_description(const std::uint8_t* data, std::size_t size, Description& into,
                      Problem& problem) {
    Archive file(into.memory, problem);
    if (!file.open(data, size)) return false;
    into.file_size = file.size();
    return Reader(file, into).read();
}

bool read_description(const understudy_entry* entries, std::size_t count, Description& into,
                      Problem& problem) {
    Archive given(into.memory, problem);
    if (!given.open(entries, count)) return false;
    into.file_size = given.size();
    return Reader(given, into).read();
}

}  // namespace understudy
