#include "description.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "../include/understudy.h"
#include "affine.h"
#include "archive.h"
#include "checked.h"

namespace understudy {
namespace {

using Kind = Json::Kind;
using Shape = std::vector<std::size_t>;

// Throws ReadError with the concatenated parts unless the condition holds.
template <class... Parts>
void need(bool holds, const Parts&... parts) {
    if (!holds) throw ReadError((std::string() + ... + parts));
}

void in_range(const std::int32_t* values, std::size_t count, std::size_t size, const char* what) {
    for (std::size_t i = 0; i < count; ++i)
        need(values[i] >= 0 && static_cast<std::size_t>(values[i]) < size, what,
             ": an index is out of range");
}

std::vector<std::string> read_names(const Json& about, const char* what) {
    std::vector<std::string> names;
    about.need("names", Kind::array).each_item([&](const Json& name) {
        need(name.kind() == Kind::text, what, ": a name is missing");
        names.push_back(name.text());
        need(!names.back().empty(), what, ": a name is missing");
    });
    return names;
}

// Cuts consecutive ranges from an array. It is an error to run past the end or to leave numbers.
template <class Scalar>
class Cuts {
public:
    Cuts(const std::vector<Scalar>& values, const char* name) : values_(values), name_(name) {}

    const Scalar* cut(std::size_t rows, std::size_t columns = 1) {
        need(!columns || rows <= (values_.size() - at_) / columns, name_,
             ": the header asks for more numbers than there are");
        const Scalar* range = values_.data() + at_;
        at_ += rows * columns;
        return range;
    }

    void end() const {
        need(at_ == values_.size(), name_, ": holds more numbers than the header accounts for");
    }

private:
    const std::vector<Scalar>& values_;
    const char* name_;
    std::size_t at_ = 0;
};

void read_mesh(const Archive& file, const Json& header, Description& into) {
    into.unit = header.need("mesh", Kind::object).need("unit", Kind::text).text();
    into.rest = file.floats("mesh.vertices", 2);
    const Shape shape = file.shape("mesh.vertices");
    need(shape[1] == 3 && shape[0] >= 1 && shape[0] < (std::size_t{1} << 31),
         "mesh.vertices: expected shape (V, 3)");
    const std::vector<std::int32_t> sizes = file.integers("mesh.polygon_sizes", 1),
                                    corners = file.integers("mesh.polygon_vertices", 1);
    in_range(corners.data(), corners.size(), into.vertex_count(), "mesh.polygon_vertices");
    std::size_t at = 0;
    into.triangles.reserve(3 * (corners.size() - std::min(corners.size(), 2 * sizes.size())));
    for (const std::int32_t size : sizes) {
        need(size >= 3 && static_cast<std::size_t>(size) <= corners.size() - at,
             "mesh.polygon_sizes: a polygon has fewer than 3 corners or none are left");
        for (std::int32_t corner = 1; corner + 1 < size; ++corner)  // a fan from the first corner
            for (const std::int32_t offset : {0, corner, corner + 1})
                into.triangles.push_back(corners[at + offset]);
        at += size;
    }
    need(at == corners.size(), "mesh.polygon_vertices: more corners than the polygons have");
    if (file.has("mean")) {
        into.mean = file.floats("mean", 2);
        need(file.shape("mean") == shape, "mean: expected the shape of the mesh");
    }
}

void read_skeleton(const Archive& file, const Json& about, Description& into) {
    into.bone_names = read_names(about, "skeleton");
    into.parents = file.integers("skeleton.parents", 1);
    into.rest_bones = file.doubles("skeleton.world_from_bone", 3);
    const std::size_t count = into.bone_names.size();
    need(into.parents.size() == count &&
             file.shape("skeleton.world_from_bone") == Shape({count, 3, 4}),
         "skeleton: its arrays do not fit its names");
    for (std::size_t bone = 0; bone < count; ++bone) {
        need(into.parents[bone] >= -1 && into.parents[bone] < static_cast<std::int64_t>(bone),
             "skeleton.parents: a parent must come before its child");
        need(std::abs(determinant(into.rest_bones.data() + 12 * bone)) >= 1e-12,
             "skeleton.world_from_bone: a bone is squashed flat");
    }
}

Influences read_influences(const Archive& file, const char* index, const char* weight,
                           std::size_t targets) {
    Influences found;
    found.index = file.integers(index, 2);
    found.weight = file.floats(weight, 2);
    need(file.shape(index) == file.shape(weight), index, " and ", weight, " have different shapes");
    found.width = file.shape(index)[1];
    need(found.width >= 1, weight, ": at least one influence is needed");
    in_range(found.index.data(), found.index.size(), targets, index);
    for (std::size_t at = 0; at < found.weight.size(); at += found.width) {
        double sum = 0;
        for (std::size_t k = 0; k < found.width; ++k) sum += found.weight[at + k];
        need(std::abs(sum - 1) <= 1e-3, weight, ": a row does not sum to one");
    }
    return found;
}

void read_skin(const Archive& file, const Json& about, Description& into) {
    const std::string blend = about.need("blend", Kind::text).text();
    need(blend == "linear" || blend == "dual_quaternion", "skin: unknown blend ", blend);
    into.skinned = true;
    into.blend = blend == "linear" ? Blend::linear : Blend::dual_quaternion;
    std::size_t targets = into.bone_count();
    need(file.has("skin.virtual_index") == file.has("skin.virtual_weight"),
         "skin: virtual_index and virtual_weight come together");
    if (file.has("skin.virtual_index")) {
        into.virtual_bones =
            read_influences(file, "skin.virtual_index", "skin.virtual_weight", targets);
        targets = file.shape("skin.virtual_index")[0];
    }
    into.skin = read_influences(file, "skin.bone_index", "skin.weight", targets);
    need(file.shape("skin.weight")[0] == into.vertex_count(),
         "skin.weight: expected one row per vertex");
}

void read_features(const Archive& file, Description& into) {
    into.feature_columns = file.integers("features.columns", 1);
    into.feature_low = file.floats("features.low", 1, true);  // infinite: no clamp
    into.feature_high = file.floats("features.high", 1, true);
    const std::size_t count = into.feature_columns.size();
    need(into.feature_low.size() == count && into.feature_high.size() == count,
         "features: low, high and columns have different lengths");
    in_range(into.feature_columns.data(), count, 12 * into.bone_count() + into.control_names.size(),
             "features.columns");
    for (std::size_t i = 0; i < count; ++i)
        need(into.feature_low[i] <= into.feature_high[i], "features: low is above high, or NaN");
}

Activation activation_of(const std::string& name) {
    if (name == "tanh") return Activation::tanh;
    if (name == "relu") return Activation::relu;
    if (name == "gelu") return Activation::gelu;
    need(name == "rbf", "nets: unknown activation ", name);
    return Activation::rbf;
}

enum class Storage { single, half };
constexpr std::uint64_t kFirstNarrow =
    4;  // from this version on, later biases of 16-bit files are in 16 bits

Storage storage_of(const Json& header) {
    const Json storage = header.find("storage");
    if (!storage) return Storage::single;
    const std::string name = storage.kind() == Kind::text ? storage.text() : "";
    if (name == "float32") return Storage::single;
    if (name == "float16") return Storage::half;
    need(name != "int8",
         "stored in 8 bits, which understudy no longer reads; export the original again, with "
         "--half for 16 bits");
    throw ReadError("the header's storage is not known");
}

// The matrices of nets or bases, cut from the array that has numbers of their kind.
class Matrices {
public:
    Matrices(Storage storage, const std::vector<float>& values,
             const std::vector<std::uint16_t>& halves, const char* name)
        : storage_(storage), values_(values, name), halves_(halves, name) {}

    // `exact`: always in single precision.
    void cut(MatrixView& matrix, bool exact) {
        if (storage_ == Storage::half && !exact)
            matrix.half = halves_.cut(matrix.rows, matrix.columns);
        else matrix.single = values_.cut(matrix.rows, matrix.columns);
    }

    void cut_bias(NetLayer& layer, bool half) {
        if (half) layer.half_bias = halves_.cut(layer.weight.rows);
        else layer.bias = values_.cut(layer.weight.rows);
    }

    void end() const { values_.end(), halves_.end(); }

private:
    Storage storage_;
    Cuts<float> values_;
    Cuts<std::uint16_t> halves_;
};

// Layers that a file of some size may have: far more than real ones have, so few that a forged list
// of empty layers does not fill the memory.
std::size_t most_layers(std::size_t file_size) { return 4096 + file_size / 64; }

// `most`: layers that it may have.
Net read_net(const Json& entry, bool half_biases, std::size_t most, Matrices& matrices) {
    Net net;
    net.activation = activation_of(entry.need("activation", Kind::text).text());
    // Centres of radial functions stay in single precision, because features are compared with
    // them.
    const bool exact = net.activation == Activation::rbf;
    std::size_t before = 0, sizes = 0;
    entry.need("sizes", Kind::array).each_item([&](const Json& item) {
        const std::size_t size = item.count("a layer size");
        need(net.layers.size() < most, "nets: more layers than a file of this size can have");
        if (sizes++) {
            NetLayer layer;
            layer.weight.columns = before;
            layer.weight.rows = size;
            matrices.cut(layer.weight, exact);
            matrices.cut_bias(layer, half_biases && !net.layers.empty() && !exact);
            net.layers.push_back(layer);
        }
        before = size;
    });
    need(sizes >= 2, "nets: expected at least two layer sizes");
    return net;
}

void read_nets(const Archive& file, const Json& entries, Storage storage, bool half_biases,
               Description& into) {
    if (file.has("nets.inputs")) into.net_inputs = file.integers("nets.inputs", 1);
    if (file.has("nets.outputs")) into.net_outputs = file.integers("nets.outputs", 1);
    if (file.has("nets.values")) into.net_values = file.floats("nets.values", 1);
    if (storage == Storage::half && file.has("nets.half"))
        into.net_halves = file.halves("nets.half", 1);
    Cuts<std::int32_t> inputs(into.net_inputs, "nets.inputs"),
        outputs(into.net_outputs, "nets.outputs");
    Matrices matrices(storage, into.net_values, into.net_halves, "nets");
    std::size_t layers = 0;
    entries.each_item([&](const Json& entry) {
        Net net = read_net(entry, half_biases, most_layers(file.size()) - layers, matrices);
        layers += net.layers.size();
        const std::size_t in = net.layers.front().weight.columns,
                          out = net.layers.back().weight.rows;
        net.inputs = inputs.cut(in);
        net.outputs = outputs.cut(out);
        in_range(net.inputs, in, into.feature_columns.size(), "nets.inputs");
        for (std::size_t i = 0; i < out; ++i) {
            need(net.outputs[i] >= 0, "nets.outputs: an index is out of range");
            into.coefficient_count =
                std::max(into.coefficient_count, static_cast<std::size_t>(net.outputs[i]) + 1);
        }
        into.nets.push_back(std::move(net));
    });
    inputs.end(), outputs.end(), matrices.end();
    need(into.coefficient_count <= into.net_outputs.size(),
         "nets.outputs: a coefficient is named beyond those the nets write");
}

void read_bases(const Archive& file, const Json& entries, Storage storage, Description& into) {
    if (file.has("bases.vertices")) into.basis_vertices = file.integers("bases.vertices", 1);
    if (file.has("bases.coefficients"))
        into.basis_coefficients = file.integers("bases.coefficients", 1);
    if (storage == Storage::single && file.has("bases.values"))
        into.basis_values = file.floats("bases.values", 1);
    if (storage == Storage::half && file.has("bases.half"))
        into.basis_halves = file.halves("bases.half", 1);
    Cuts<std::int32_t> vertices(into.basis_vertices, "bases.vertices"),
        coefficients(into.basis_coefficients, "bases.coefficients");
    Matrices matrices(storage, into.basis_values, into.basis_halves, "bases");
    std::vector<std::uint32_t> last_basis(into.basis_vertices.empty() ? 0 : into.vertex_count(), 0);
    std::uint32_t number = 0;
    entries.each_item([&](const Json& entry) {
        Basis basis;
        basis.shared = entry.need("shared", Kind::boolean).truth();
        basis.vertex_count = entry.need("vertices", Kind::number).count("a basis' vertices");
        basis.vertices = vertices.cut(basis.vertex_count);
        basis.matrix.columns = entry.need("components", Kind::number).count("a basis' components");
        basis.matrix.rows = multiplied(basis.vertex_count, basis.shared ? 1 : 3);
        matrices.cut(basis.matrix, false);
        const std::size_t named = basis.shared ? 3 : 1;
        basis.coefficients = coefficients.cut(named, basis.matrix.columns);
        in_range(basis.vertices, basis.vertex_count, into.vertex_count(), "bases.vertices");
        ++number;
        for (std::size_t i = 0; i < basis.vertex_count; ++i) {
            std::uint32_t& last = last_basis[static_cast<std::size_t>(basis.vertices[i])];
            need(last != number, "bases.vertices: a basis names a vertex twice");
            last = number;
        }
        in_range(basis.coefficients, named * basis.matrix.columns, into.coefficient_count,
                 "bases.coefficients");
        // A basis without components moves nothing.
        if (basis.matrix.columns) into.bases.push_back(basis);
    });
    vertices.end(), coefficients.end(), matrices.end();
}

void read_clips(const Archive& file, const Json& entries, Description& into) {
    entries.each_item([&](const Json& entry) {
        Clip clip;
        clip.name = entry.need("name", Kind::text).text();
        const Json rate = entry.find("frame_rate");
        if (rate && rate.kind() == Kind::number) clip.frame_rate = rate.number();
        need(clip.frame_rate >= 0 && std::isfinite(clip.frame_rate), "clip ", clip.name,
             ": a wrong frame rate");
        const std::string array = "clip." + std::to_string(into.clips.size()) + ".world_from_bone";
        clip.world_from_bone = file.doubles(array, 4);
        const Shape shape = file.shape(array);
        need(shape[0] >= 1 && shape[1] == into.bone_count() && shape[2] == 3 && shape[3] == 4,
             "clip ", clip.name, ": expected shape (F, B, 3, 4)");
        clip.frame_count = shape[0];
        into.clips.push_back(std::move(clip));
    });
}

}  // namespace

void read_description(const std::uint8_t* data, std::size_t size, Description& into) {
    const Archive file(data, size);
    const Json header = file.header();
    const std::uint64_t version =
        header.need("format_version", Kind::number).whole("the format version");
    need(version >= 1, "the header has no valid format version");
    need(version <= UNDERSTUDY_FORMAT_VERSION, "written by a newer understudy (format ",
         std::to_string(version), "); upgrade to read it");
    const Storage storage = storage_of(header);
    into.file_size = size;
    into.half_precision = storage == Storage::half;
    into.method = header.need("method", Kind::text).text();
    read_mesh(file, header, into);
    if (header.find("skeleton")) read_skeleton(file, header.need("skeleton", Kind::object), into);
    if (header.find("controls"))
        into.control_names = read_names(header.need("controls", Kind::object), "controls");
    if (header.find("skin")) read_skin(file, header.need("skin", Kind::object), into);
    need(static_cast<bool>(header.find("skeleton")) == into.skinned,
         "a skeleton and a skin come together: one of them is missing");
    read_features(file, into);
    read_nets(file, header.need("nets", Kind::array), storage,
              into.half_precision && version >= kFirstNarrow, into);
    read_bases(file, header.need("bases", Kind::array), storage, into);
    if (header.find("clips")) read_clips(file, header.need("clips", Kind::array), into);
}

}  // namespace understudy
