#include "description.h"

#include <algorithm>
#include <cmath>

#include "affine.h"
#include "archive.h"
#include "sorting.h"

namespace understudy {
namespace {

using Kind = Json::Kind;

constexpr const char* kUnits[] = {"m", "cm", "mm", "in", "ft", "unitless"};
constexpr const char* kUpAxes[] = {"Y", "Z", "unknown"};
constexpr const char* kHandedness[] = {"right", "left"};

bool in_range(const std::int32_t* values, std::size_t count, std::size_t size, const char* what,
              Problem& problem) {
    for (std::size_t i = 0; i < count; ++i)
        if (values[i] < 0 || static_cast<std::size_t>(values[i]) >= size)
            return problem.say(what, ": an index is out of range");
    return true;
}

// Consecutive ranges of an array. It is an error to run past the end or to leave numbers.
template <class Scalar>
class Cuts {
public:
    Cuts(const Array<Scalar>& values, const char* name, Problem& problem)
        : values_(values), name_(name), problem_(problem) {}

    bool cut(std::size_t rows, std::size_t columns, const Scalar*& range) {
        if (columns && rows > (values_.size() - at_) / columns)
            return problem_.say(name_, ": the header asks for more numbers than there are");
        range = values_.data() + at_;
        at_ += rows * columns;
        return true;
    }

    bool end() const {
        return at_ == values_.size() ||
               problem_.say(name_, ": holds more numbers than the header accounts for");
    }

private:
    const Array<Scalar>& values_;
    const char* name_;
    Problem& problem_;
    std::size_t at_ = 0;
};

enum class Storage { single, half };

// From this version on, later biases of 16-bit files are in 16 bits.
constexpr std::uint64_t kFirstNarrow = 4;

// The matrices of nets or bases, cut from the array that has numbers of their kind.
class Matrices {
public:
    Matrices(Storage storage, const Array<float>& values, const Array<std::uint16_t>& halves,
             const char* name, Problem& problem)
        : storage_(storage), values_(values, name, problem), halves_(halves, name, problem) {}

    bool cut(MatrixView& matrix) {
        return storage_ == Storage::half ? halves_.cut(matrix.rows, matrix.columns, matrix.half)
                                         : values_.cut(matrix.rows, matrix.columns, matrix.single);
    }

    bool cut_bias(NetLayer& layer, bool half) {
        return half ? halves_.cut(layer.weight.rows, 1, layer.half_bias)
                    : values_.cut(layer.weight.rows, 1, layer.bias);
    }

    bool end() const { return values_.end() && halves_.end(); }

private:
    Storage storage_;
    Cuts<float> values_;
    Cuts<std::uint16_t> halves_;
};

// Layers that a file of some size may have: far more than real ones have, so few that a forged list
// of empty layers does not fill the memory.
std::size_t most_layers(std::size_t file_size) { return 4096 + file_size / 64; }

// Reads one file. Functions return false, with a problem, if something is wrong.
class Reader {
public:
    Reader(const Archive& file, Description& into)
        : file_(file), into_(into), problem_(file.problem()) {}

    bool read() {
        std::uint64_t version;
        Json entry;
        if (!file_.read_header(header_) ||
            !header_.need("format_version", Kind::number, entry, problem_) ||
            !entry.read_whole("the format version", version, problem_))
            return false;
        if (version < 1) return problem_.say("the header has no valid format version");
        if (version > UNDERSTUDY_FORMAT_VERSION)
            return problem_.say("written by a newer understudy (format ", version,
                                "); upgrade to read it");
        if (!read_storage()) return false;
        half_biases_ = into_.half_precision && version >= kFirstNarrow;
        Json ignored;
        if (!read_text(header_, "method", into_.method) ||
            !header_.need("training", Kind::object, ignored, problem_) ||
            !header_.need("provenance", Kind::object, ignored, problem_) || !read_mesh() ||
            !read_skeleton() || !read_controls() || !read_skin())
            return false;
        if (static_cast<bool>(header_.find("skeleton")) != into_.skinned)
            return problem_.say("a skeleton and a skin come together: one of them is missing");
        return read_features() && read_nets() && read_bases() && read_bounds() && read_clips() &&
               read_posing_entry();
    }

private:
    bool read_storage() {
        const Json storage = header_.find("storage");
        if (!storage || storage.is("float32")) return true;
        if (storage.is("int8"))
            return problem_.say(
                "stored in 8 bits, which understudy no longer reads; export the original again, "
                "with --half for 16 bits");
        if (!storage.is("float16")) return problem_.say("the header's storage is not known");
        storage_ = Storage::half;
        into_.half_precision = true;
        return true;
    }

    bool read_text(const Json& from, const char* name, Text& text) {
        Json found;
        return from.need(name, Kind::text, found, problem_) && found.read(text, problem_);
    }

    bool read_texts(const Json& about, const char* name, Array<Text>& texts) {
        Json list;
        return about.need(name, Kind::array, list, problem_) &&
               list.each_item([&](const Json& item) {
                   Text text(into_.memory);
                   return item.read(text, problem_) && texts.push(static_cast<Text&&>(text));
               });
    }

    bool read_names(const Json& about, const char* name, const char* what, Array<Text>& names) {
        return read_texts(about, name, names) && check_names(names, what);
    }

    // Names are not empty, and no two are the same.
    template <class Named>
    bool check_names(const Array<Named>& all, const char* what) {
        Array<std::uint64_t> hashes(into_.memory);
        if (!hashes.reserve(all.size())) return false;
        for (const Named& one : all) {
            const Text& name = name_of(one);
            if (name.empty()) return problem_.say(what, ": a name is missing");
            if (!hashes.push(hash_of(name.c_str()))) return false;
        }
        sort_items(hashes.data(), hashes.size(),
                   [](std::uint64_t a, std::uint64_t b) { return a < b; });
        for (std::size_t i = 1; i < hashes.size(); ++i)
            if (hashes[i] == hashes[i - 1]) return problem_.say(what, ": two names are the same");
        return true;
    }
    static const Text& name_of(const Text& text) { return text; }
    static const Text& name_of(const Clip& clip) { return clip.name; }

    // One of a few words.
    template <std::size_t count>
    bool read_word(const Json& from, const char* name, const char* const (&known)[count],
                   Text& text) {
        if (!read_text(from, name, text)) return false;
        for (const char* word : known)
            if (std::strcmp(text.c_str(), word) == 0) return true;
        return problem_.say("the header's ", name, " is not known");
    }

    bool read_mesh() {
        Json about;
        if (!header_.need("mesh", Kind::object, about, problem_) ||
            !read_word(about, "unit", kUnits, into_.unit) ||
            !read_word(about, "up_axis", kUpAxes, into_.up_axis) ||
            !read_word(about, "handedness", kHandedness, into_.handedness) ||
            !file_.floats("mesh.vertices", 2, into_.rest))
            return false;
        const Shape shape = file_.shape("mesh.vertices");
        if (shape[1] != 3 || shape[0] < 1)
            return problem_.say("mesh.vertices: expected shape (V, 3)");
        Array<std::int32_t> sizes(into_.memory), corners(into_.memory);
        if (!file_.integers("mesh.polygon_sizes", 1, sizes) ||
            !file_.integers("mesh.polygon_vertices", 1, corners) ||
            !in_range(corners.data(), corners.size(), into_.vertex_count(), "mesh.polygon_vertices",
                      problem_) ||
            !read_triangles(sizes, corners) || !read_surface(about, sizes, corners.size()))
            return false;
        if (!file_.has("mean")) return true;
        if (!file_.floats("mean", 2, into_.mean)) return false;
        return file_.shape("mean") == shape || problem_.say("mean: expected the shape of the mesh");
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

    bool read_surface(const Json& about, Array<std::int32_t>& sizes, std::size_t corners) {
        Surface& surface = into_.surface;
        surface.polygon_sizes.swap(sizes);
        const auto read_corners = [&](const char* name, std::size_t width, Array<float>& values) {
            if (!file_.has(name)) return true;
            if (!file_.floats(name, 2, values)) return false;
            const Shape shape = file_.shape(name);
            return (shape[0] == corners && shape[1] == width) ||
                   problem_.say(name, ": expected one row per corner");
        };
        if (!read_corners("mesh.corner_uvs", 2, surface.corner_uvs) ||
            !read_corners("mesh.corner_normals", 3, surface.corner_normals) ||
            !read_names(about, "materials", "materials", surface.materials))
            return false;
        if (file_.has("mesh.polygon_material")) {
            if (!file_.integers("mesh.polygon_material", 1, surface.polygon_material)) return false;
            if (surface.polygon_material.size() != surface.polygon_sizes.size())
                return problem_.say("mesh.polygon_material: expected one number per polygon");
            if (!in_range(surface.polygon_material.data(), surface.polygon_material.size(),
                          std::max<std::size_t>(1, surface.materials.size()),
                          "mesh.polygon_material", problem_))
                return false;
        }
        Json parts;
        return about.need("parts", Kind::array, parts, problem_) &&
               parts.each_item([&](const Json& name) { return read_part(name); });
    }

    bool read_part(const Json& name) {
        Part part(into_.memory);
        const Words<64> array("mesh.part.", std::uint64_t{into_.surface.parts.size()});
        return name.read(part.name, problem_) && file_.integers(array.c_str(), 1, part.vertices) &&
               in_range(part.vertices.data(), part.vertices.size(), into_.vertex_count(),
                        array.c_str(), problem_) &&
               into_.surface.parts.push(static_cast<Part&&>(part));
    }

    bool read_skeleton() {
        if (!header_.find("skeleton")) return true;
        Json about;
        if (!header_.need("skeleton", Kind::object, about, problem_) ||
            !read_names(about, "names", "skeleton", into_.bone_names) ||
            !file_.integers("skeleton.parents", 1, into_.parents) ||
            !file_.doubles("skeleton.world_from_bone", 3, into_.rest_bones))
            return false;
        const std::size_t count = into_.bone_names.size();
        const Shape shape = file_.shape("skeleton.world_from_bone");
        if (into_.parents.size() != count || shape[0] != count || shape[1] != 3 || shape[2] != 4)
            return problem_.say("skeleton: its arrays do not fit its names");
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
        if (!header_.find("controls")) return true;
        Json about;
        Controls& controls = into_.controls;
        Array<double> limit_low(into_.memory), limit_high(into_.memory);
        if (!header_.need("controls", Kind::object, about, problem_) ||
            !read_names(about, "names", "controls", controls.names) ||
            !read_texts(about, "units", controls.units) ||
            !file_.doubles("controls.low", 1, controls.low) ||
            !file_.doubles("controls.high", 1, controls.high) ||
            !file_.doubles("controls.rest", 1, controls.rest) ||
            !file_.doubles("controls.limit_low", 1, limit_low) ||
            !file_.doubles("controls.limit_high", 1, limit_high) ||
            !file_.need_booleans("controls.numeric", controls.names.size()))
            return false;
        const std::size_t count = controls.names.size();
        if (controls.units.size() != count || controls.low.size() != count ||
            controls.high.size() != count || controls.rest.size() != count ||
            limit_low.size() != count || limit_high.size() != count)
            return problem_.say("controls: their arrays do not fit their names");
        for (std::size_t i = 0; i < count; ++i)
            if (controls.low[i] > controls.high[i] || limit_low[i] > controls.low[i] ||
                limit_high[i] < controls.high[i])
                return problem_.say("control ", controls.names[i],
                                    ": its range is not in order or outside its limits");
        return true;
    }

    bool read_influences(const char* index, const char* weight, std::size_t targets,
                         Influences& found) {
        if (!file_.integers(index, 2, found.index) || !file_.floats(weight, 2, found.weight))
            return false;
        if (!(file_.shape(index) == file_.shape(weight)))
            return problem_.say(index, " and ", weight, " have different shapes");
        found.width = file_.shape(index)[1];
        if (found.width < 1) return problem_.say(weight, ": at least one influence is needed");
        if (!in_range(found.index.data(), found.index.size(), targets, index, problem_))
            return false;
        for (std::size_t at = 0; at < found.weight.size(); at += found.width) {
            double sum = 0;
            for (std::size_t k = 0; k < found.width; ++k) sum += found.weight[at + k];
            if (!(std::abs(sum - 1) <= 1e-3))
                return problem_.say(weight, ": a row does not sum to one");
        }
        return true;
    }

    bool read_skin() {
        if (!header_.find("skin")) return true;
        Json about, blend;
        if (!header_.need("skin", Kind::object, about, problem_) ||
            !about.need("blend", Kind::text, blend, problem_))
            return false;
        if (blend.is("dual_quaternion")) into_.blend = Blend::dual_quaternion;
        else if (!blend.is("linear")) return problem_.say("skin: unknown blend");
        into_.skinned = true;
        std::size_t targets = into_.bone_count();
        if (file_.has("skin.virtual_index") != file_.has("skin.virtual_weight"))
            return problem_.say("skin: virtual_index and virtual_weight come together");
        if (file_.has("skin.virtual_index")) {
            if (!read_influences("skin.virtual_index", "skin.virtual_weight", targets,
                                 into_.virtual_bones))
                return false;
            targets = file_.shape("skin.virtual_index")[0];
        }
        if (!read_influences("skin.bone_index", "skin.weight", targets, into_.skin)) return false;
        return file_.shape("skin.weight")[0] == into_.vertex_count() ||
               problem_.say("skin.weight: expected one row per vertex");
    }

    bool read_features() {
        if (!file_.integers("features.columns", 1, into_.feature_columns) ||
            !file_.floats("features.low", 1, into_.feature_low, true) ||  // infinite: no clamp
            !file_.floats("features.high", 1, into_.feature_high, true))
            return false;
        const std::size_t count = into_.feature_columns.size();
        if (into_.feature_low.size() != count || into_.feature_high.size() != count)
            return problem_.say("features: low, high and columns have different lengths");
        for (std::size_t i = 0; i < count; ++i)
            if (!(into_.feature_low[i] <= into_.feature_high[i]))
                return problem_.say("features: low is above high, or NaN");
        return in_range(into_.feature_columns.data(), count,
                        12 * into_.bone_count() + into_.control_count(), "features.columns",
                        problem_);
    }

    bool read_net(const Json& entry, Matrices& matrices, Net& net) {
        Json activation, sizes;
        if (!entry.need("activation", Kind::text, activation, problem_) ||
            !entry.need("sizes", Kind::array, sizes, problem_))
            return false;
        if (activation.is("tanh")) net.activation = Activation::tanh;
        else if (activation.is("relu")) net.activation = Activation::relu;
        else if (activation.is("gelu")) net.activation = Activation::gelu;
        else if (activation.is("rbf"))
            return problem_.say("nets: radial basis functions, which only older versions read");
        else return problem_.say("nets: unknown activation");
        net.first_layer = into_.layers.size();
        std::size_t before = 0, count = 0;
        if (!sizes.each_item([&](const Json& item) {
                std::size_t size;
                if (!item.read_count("a layer size", size, problem_)) return false;
                if (into_.layers.size() >= most_layers(file_.size()))
                    return problem_.say("nets: more layers than a file of this size can have");
                if (count++) {
                    NetLayer layer;
                    layer.weight.columns = before;
                    layer.weight.rows = size;
                    const bool half = half_biases_ && count > 2;
                    if (!matrices.cut(layer.weight) || !matrices.cut_bias(layer, half) ||
                        !into_.layers.push(layer))
                        return false;
                }
                before = size;
                return true;
            }))
            return false;
        if (count < 2) return problem_.say("nets: expected at least two layer sizes");
        net.layer_count = count - 1;
        net.input_count = into_.layers[net.first_layer].weight.columns;
        net.output_count = into_.layers.back().weight.rows;
        return true;
    }

    bool read_nets() {
        Json entries;
        if (!header_.need("nets", Kind::array, entries, problem_) ||
            (file_.has("nets.inputs") && !file_.integers("nets.inputs", 1, into_.net_inputs)) ||
            (file_.has("nets.outputs") && !file_.integers("nets.outputs", 1, into_.net_outputs)) ||
            (file_.has("nets.values") && !file_.floats("nets.values", 1, into_.net_values)) ||
            (file_.has("nets.half") && !file_.halves("nets.half", 1, into_.net_halves)))
            return false;
        Cuts<std::int32_t> inputs(into_.net_inputs, "nets.inputs", problem_),
            outputs(into_.net_outputs, "nets.outputs", problem_);
        Matrices matrices(storage_, into_.net_values, into_.net_halves, "nets", problem_);
        const bool read = entries.each_item([&](const Json& entry) {
            Net net;
            if (!read_net(entry, matrices, net) || !inputs.cut(net.input_count, 1, net.inputs) ||
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
            return into_.nets.push(net);
        });
        if (!read || !inputs.end() || !outputs.end() || !matrices.end()) return false;
        return into_.coefficient_count <= into_.net_outputs.size() ||
               problem_.say("nets.outputs: a coefficient is named beyond those the nets write");
    }

    bool read_bases() {
        Json entries;
        if (!header_.need("bases", Kind::array, entries, problem_) ||
            (file_.has("bases.vertices") &&
             !file_.integers("bases.vertices", 1, into_.basis_vertices)) ||
            (file_.has("bases.coefficients") &&
             !file_.integers("bases.coefficients", 1, into_.basis_coefficients)) ||
            (file_.has("bases.values") && !file_.floats("bases.values", 1, into_.basis_values)) ||
            (file_.has("bases.half") && !file_.halves("bases.half", 1, into_.basis_halves)))
            return false;
        Cuts<std::int32_t> vertices(into_.basis_vertices, "bases.vertices", problem_),
            coefficients(into_.basis_coefficients, "bases.coefficients", problem_);
        Matrices matrices(storage_, into_.basis_values, into_.basis_halves, "bases", problem_);
        Array<std::uint32_t> last_basis(into_.memory);  // per vertex
        if (!into_.basis_vertices.empty() && !last_basis.resize(into_.vertex_count())) return false;
        std::uint32_t number = 0;
        const bool read = entries.each_item([&](const Json& entry) {
            Json shared, vertex_count, components;
            Basis basis;
            if (!entry.need("shared", Kind::boolean, shared, problem_) ||
                !entry.need("vertices", Kind::number, vertex_count, problem_) ||
                !entry.need("components", Kind::number, components, problem_) ||
                !vertex_count.read_count("a basis' vertices", basis.vertex_count, problem_) ||
                !components.read_count("a basis' components", basis.matrix.columns, problem_))
                return false;
            basis.shared = shared.truth();
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
            return !basis.matrix.columns || into_.bases.push(basis);
        });
        return read && vertices.end() && coefficients.end() && matrices.end();
    }

    bool read_bounds() {
        if (!header_.find("bounds")) return true;
        Json about, end;
        Bounds& bounds = into_.bounds;
        if (!header_.need("bounds", Kind::object, about, problem_) ||
            !about.need("fade_end", Kind::number, end, problem_))
            return false;
        if (!(end.number() > 1 && end.number() <= 1e6))
            return problem_.say("bounds: fade_end is not a distance above 1");
        bounds.given = true;
        bounds.fade_end = static_cast<float>(end.number());
        if (!file_.floats("bounds.low", 1, bounds.low) ||
            !file_.floats("bounds.high", 1, bounds.high) ||
            !file_.integers("bounds.group", 1, bounds.group) ||
            !file_.integers("bounds.units", 2, bounds.units) ||
            !file_.integers("bounds.features", 2, bounds.features) ||
            !file_.floats("bounds.scale", 2, bounds.scale) ||
            !file_.floats("bounds.centres", 3, bounds.centres))
            return false;
        const std::size_t count = into_.coefficient_count;
        if (bounds.low.size() != count || bounds.high.size() != count ||
            bounds.group.size() != count)
            return problem_.say("bounds: expected one number per coefficient");
        for (std::size_t n = 0; n < count; ++n)
            if (bounds.low[n] > bounds.high[n]) return problem_.say("bounds: low is above high");
        const Shape units = file_.shape("bounds.units"), features = file_.shape("bounds.features"),
                    centres = file_.shape("bounds.centres");
        bounds.group_count = units[0];
        bounds.units_per_group = units[1];
        bounds.unit_count = features[0];
        bounds.features_per_unit = features[1];
        bounds.cluster_count = centres[1];
        if (!(file_.shape("bounds.scale") == features) || centres[0] != features[0] ||
            centres[2] != features[1])
            return problem_.say("bounds: features, scale and centres have different shapes");
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
        return in_range(bounds.units.data(), bounds.units.size(), bounds.unit_count, "bounds.units",
                        problem_) &&
               in_range(bounds.features.data(), bounds.features.size(),
                        into_.feature_columns.size(), "bounds.features", problem_);
    }

    bool read_posing_entry() {
        if (!header_.find("posing") || !header_.find("skeleton")) return true;
        const PosedBones bones{into_.bone_count(), into_.control_count(), into_.rest_bones.data()};
        return read_posing(file_, header_, bones, into_.memory, into_.posing);
    }

    bool read_clips() {
        if (!header_.find("clips")) return true;
        Json entries;
        return header_.need("clips", Kind::array, entries, problem_) &&
               entries.each_item([&](const Json& entry) { return read_clip(entry); }) &&
               check_names(into_.clips, "clips");
    }

    bool read_clip(const Json& entry) {
        Clip clip(into_.memory);
        if (!read_text(entry, "name", clip.name)) return false;
        const Json rate = entry.find("frame_rate"), start = entry.find("start_frame");
        const bool known = rate && rate.kind() == Kind::number;
        if (known) clip.frame_rate = rate.number();
        if (!rate || (!known && rate.kind() != Kind::null) || (known && !(clip.frame_rate > 0)) ||
            !std::isfinite(clip.frame_rate))
            return problem_.say("clip ", clip.name, ": a wrong frame rate");
        if (!start || !start.is_integer())
            return problem_.say("clip ", clip.name, ": a wrong start frame");
        const std::uint64_t number{into_.clips.size()};
        const Words<64> keys("clip.", number, ".keys");
        if (file_.has(keys.c_str())) {
            if (!read_keys(keys.c_str(), clip)) return false;
            return into_.clips.push(static_cast<Clip&&>(clip));
        }
        const Words<64> array("clip.", number, ".world_from_bone");
        if (!file_.doubles(array.c_str(), 4, clip.world_from_bone)) return false;
        const Shape shape = file_.shape(array.c_str());
        if (shape[0] < 1 || shape[1] != into_.bone_count() || shape[2] != 3 || shape[3] != 4)
            return problem_.say("clip ", clip.name, ": expected shape (F, B, 3, 4)");
        clip.frame_count = shape[0];
        return into_.clips.push(static_cast<Clip&&>(clip));
    }

    // Reads which bone has a key in which frame (F,B), and the transforms of all keys (n,12), frame
    // by frame. Between two keys a bone's transform changes linearly.
    bool read_keys(const char* name, Clip& clip) {
        Array<std::int32_t> keys(into_.memory);
        Array<float> values(into_.memory);
        const Words<64> array("clip.", std::uint64_t{into_.clips.size()}, ".values");
        if (!file_.integers(name, 2, keys) || !file_.floats(array.c_str(), 2, values)) return false;
        const Shape shape = file_.shape(name), of_values = file_.shape(array.c_str());
        const std::size_t frames = shape[0], bones = shape[1];
        std::size_t count = 0;
        for (const std::int32_t key : keys) {
            if (key != 0 && key != 1) return problem_.say("clip ", clip.name, ": a wrong key");
            count += static_cast<std::size_t>(key);
        }
        if (frames < 1 || bones != into_.bone_count() || of_values[0] != count ||
            of_values[1] != 12)
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
    Json header_;
    Storage storage_ = Storage::single;
    bool half_biases_ = false;
};

}  // namespace

bool read_description(const std::uint8_t* data, std::size_t size, Description& into,
                      Problem& problem) {
    Archive file(into.memory, problem);
    if (!file.open(data, size)) return false;
    into.file_size = size;
    return Reader(file, into).read();
}

}  // namespace understudy
