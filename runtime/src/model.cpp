#include "model.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "affine.h"
#include "json.h"

namespace understudy {
namespace {

// Of a task: large enough that claiming it costs nothing beside it, small enough that threads finish together.
constexpr std::size_t kTaskBytes = 48 << 10;
constexpr std::size_t kNetTasks = 32;  // a net of no more than this part of all nets runs whole
constexpr std::uint32_t kTaskVertices = 256, kTaskCoefficients = 8192;
constexpr std::uint32_t kTaskRows = 64, kTaskSplits = 32;  // virtual bones; transforms split for dual quaternions
// Displacements of a window, of 192 bytes each in a crowd: few enough for a cache, and for enough windows that threads finish together; not fewer,
// since every window asks its bases for their coefficients. Its vertices come in steps, of three panels per basis.
constexpr std::size_t kLeastWindow = 1024, kMostWindow = 4096, kManyWindows = 32, kWindowStep = 64, kWindowVertices = 512;
static_assert(kTaskVertices % PackedVertices::kStep == 0 && kWindowStep % PackedVertices::kStep == 0, "jobs begin where packed vertices can");

std::size_t padded(std::size_t count, std::size_t unit = Panels::kUnit) { return (count + unit - 1) / unit * unit; }

Finish finish_of(Activation activation) {
    switch (activation) {
        case Activation::tanh: return Finish::tanh;
        case Activation::relu: return Finish::relu;
        case Activation::gelu: return Finish::gelu;
        case Activation::rbf: return Finish::rbf;
    }
    return Finish::linear;
}

std::size_t packed_bytes(const MatrixView& matrix, std::size_t rows) { return padded(padded(rows) * matrix.columns * matrix.number_size(), 64); }

// `rows` rows of `from`, each found by which(row), into panels; see `Panels`.
template <class Scalar, class Which>
void pack_rows(const Scalar* from, const Which& which, std::size_t rows, std::size_t columns, Scalar* to) {
    for (std::size_t first = 0; first < rows; first += Panels::kRows) {
        const std::size_t height = std::min(Panels::kRows, padded(rows - first));
        for (std::size_t row = first; row < std::min(rows, first + height); ++row)
            for (std::size_t column = 0; column < columns; ++column) to[first * columns + column * height + (row - first)] = from[which(row) * columns + column];
    }
}

// Order and equality of nets by what they read.
bool reads_before(const Net& a, const Net& b) {
    return std::lexicographical_compare(a.inputs, a.inputs + a.layers[0].weight.columns, b.inputs, b.inputs + b.layers[0].weight.columns);
}

bool same_inputs(const Net& a, const Net& b) { return !reads_before(a, b) && !reads_before(b, a); }

void cut_tasks(std::vector<Task>& tasks, Task::Kind kind, std::size_t what, std::size_t begin, std::size_t end, std::size_t step) {
    step = std::max<std::size_t>(1, step);
    for (std::size_t first = begin; first < end; first += step)
        tasks.push_back({kind, static_cast<std::uint32_t>(what), static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(std::min(end, first + step))});
}

// Gives the memory back, which an assignment of nothing would not.
template <class Vector>
void release(Vector& items) {
    Vector().swap(items);
}

template <class Vector>
std::size_t bytes_in(const Vector& items) {
    return items.size() * sizeof(typename Vector::value_type);
}

// 16-bit numbers for floats: low + number * step. The step is a power of two, so that the product is exact and the sum the same on every processor.
struct Grid {
    float low = 0, step = 1;

    std::uint16_t number(float value) const { return static_cast<std::uint16_t>((double{value} - low) / step + 0.5); }
    bool holds(float value) const { return low + static_cast<float>(number(value)) * step == value; }
};

// The finest grid over the values that are `stride` apart; false: some of them are not on it.
bool find_grid(const float* values, std::size_t count, std::size_t stride, Grid& grid) {
    if (!count) return false;
    double low = values[0], high = values[0];
    for (std::size_t i = 0; i < count; ++i) {
        if (!std::isfinite(values[i * stride])) return false;
        low = std::min<double>(low, values[i * stride]);
        high = std::max<double>(high, values[i * stride]);
    }
    int exponent = 0;
    const double mantissa = std::frexp((high - low) / 65535, &exponent);
    grid.low = static_cast<float>(low);
    if (high > low) grid.step = static_cast<float>(std::ldexp(1.0, std::max(mantissa == 0.5 ? exponent - 1 : exponent, -126)));
    for (std::size_t i = 0; i < count; ++i)
        if (!grid.holds(values[i * stride])) return false;
    return true;
}

std::size_t panels_per_task(const Panels& matrix) {
    return kTaskBytes / std::max<std::size_t>(1, Panels::kRows * matrix.columns * matrix.number_size);
}

}  // namespace

// Fills a model step by step.
class Packer {
public:
    explicit Packer(Model& model) : model_(model), from_(*model.description) {}

    void pack() {
        too_large(from_.nets.size() + from_.bases.size());
        pack_bones();
        find_windows();
        pack_matrices();
        pack_influences(from_.skin, model_.skin_entries_, model_.skin_starts_, model_.skin);
        pack_virtual_bones();
        pack_base();
        pack_slots();
        find_simple();
        pack_vertices();
        pack_neighbours();
        plan_phases();
        model_.bytes = model_.packed_.size() + model_.biases_.size() + model_.half_biases_.size() + model_.base.size() +
                       bytes_in(model_.slot_starts) + bytes_in(model_.slots) + bytes_in(model_.skin_entries_) + bytes_in(model_.skin_starts_) +
                       bytes_in(model_.virtual_entries_) + bytes_in(model_.virtual_starts_) + bytes_in(model_.virtual_weights) +
                       model_.packed_base_.size() + model_.packed_axes_.size() + bytes_in(model_.packed_influences_) +
                       bytes_in(model_.packed_ends_) + bytes_in(model_.packed_runs_) + bytes_in(model_.packed_starts_);
    }

private:
    static void too_large(std::size_t count) {
        if (count > std::numeric_limits<std::int32_t>::max()) throw ReadError("the deformer is larger than this runtime can address");
    }

    void pack_bones() {
        const std::size_t bones = from_.bone_count();
        model_.bone_from_rest.resize(12 * bones);
        for (std::size_t bone = 0; bone < bones; ++bone) invert(from_.rest_bones.data() + 12 * bone, model_.bone_from_rest.data() + 12 * bone);
        model_.bone_is_read.assign(bones, 0);
        model_.bone_is_inverted.assign(bones, 0);
        for (const std::int32_t column : from_.feature_columns) {
            const std::size_t bone = static_cast<std::size_t>(column) / 12;
            if (bone < bones) model_.bone_is_read[bone] = 1;
            else model_.reads_controls = true;
        }
        for (std::size_t bone = 0; bone < bones; ++bone)
            if (model_.bone_is_read[bone] && from_.parents[bone] >= 0) model_.bone_is_inverted[static_cast<std::size_t>(from_.parents[bone])] = 1;
        model_.virtual_count = from_.virtual_bones.width ? from_.virtual_bones.index.size() / from_.virtual_bones.width : 0;
        model_.transform_count = !from_.skinned ? 1 : model_.virtual_count ? model_.virtual_count : bones;
    }

    // Cuts the vertices into windows, and finds what bases have in each.
    void find_windows() {
        std::vector<std::uint32_t> displaced(model_.vertex_count() / kWindowStep + 1, 0), window_of(displaced.size());
        for (const std::int32_t vertex : from_.basis_vertices) ++displaced[static_cast<std::size_t>(vertex) / kWindowStep];
        const std::size_t most = std::min(std::max(from_.basis_vertices.size() / kManyWindows, kLeastWindow), kMostWindow);
        for (std::size_t step = 0, here = 0; step < displaced.size(); ++step, here += displaced[step - 1]) {
            const std::size_t vertex = step * kWindowStep;
            if (vertex < model_.vertex_count() &&
                (model_.windows.empty() || (here && here + displaced[step] > most) || vertex - model_.windows.back().first_vertex >= kWindowVertices)) {
                if (!model_.windows.empty()) model_.windows.back().last_vertex = static_cast<std::uint32_t>(vertex);
                model_.windows.push_back({static_cast<std::uint32_t>(vertex), static_cast<std::uint32_t>(model_.vertex_count()), 0, 0});
                here = 0;
            }
            window_of[step] = static_cast<std::uint32_t>(model_.windows.size() - 1);
        }
        // The vertices of each basis, window after window.
        for (const Basis& basis : from_.bases) {
            std::vector<std::uint32_t> order(basis.vertex_count);
            std::iota(order.begin(), order.end(), 0u);
            const auto window = [&](std::uint32_t entry) { return window_of[static_cast<std::size_t>(basis.vertices[entry]) / kWindowStep]; };
            std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return window(a) < window(b); });
            const std::uint32_t number = static_cast<std::uint32_t>(orders_.size());
            for (std::uint32_t first = 0, last = 0; first < order.size(); first = last) {
                while (last < order.size() && window(order[last]) == window(order[first])) ++last;
                pieces_.push_back({number, window(order[first]), first, last});
            }
            orders_.push_back(std::move(order));
        }
        std::stable_sort(pieces_.begin(), pieces_.end(), [](const Piece& a, const Piece& b) { return a.window < b.window; });
    }

    template <class Which>
    Panels pack_matrix(const MatrixView& matrix, std::size_t rows, const Which& which) {
        Panels panels;
        panels.number_size = static_cast<std::uint8_t>(matrix.number_size());
        panels.columns = matrix.columns;
        panels.rows = padded(rows);
        std::uint8_t* place = model_.packed_.as<std::uint8_t>() + packed_at_;
        panels.data = place;
        if (matrix.half) pack_rows(matrix.half, which, rows, matrix.columns, reinterpret_cast<std::uint16_t*>(place));
        else pack_rows(matrix.single, which, rows, matrix.columns, reinterpret_cast<float*>(place));
        packed_at_ += packed_bytes(matrix, rows);
        return panels;
    }

    template <class Scalar>
    const Scalar* pack_bias(const Scalar* from, std::size_t rows, const AlignedBytes& biases, std::size_t& at) {
        Scalar* to = biases.as<Scalar>() + at;
        std::copy(from, from + rows, to);
        at += padded(rows);
        return to;
    }

    void pack_matrices() {
        std::size_t bytes = 0, bias_count = 0, half_bias_count = 0;
        for (const Net& net : from_.nets)
            for (const NetLayer& layer : net.layers) {
                bytes += packed_bytes(layer.weight, layer.weight.rows);
                (layer.bias ? bias_count : half_bias_count) += padded(layer.weight.rows);
            }
        for (const Basis& basis : from_.bases) bytes += packed_bytes(basis.matrix, basis.matrix.rows);
        model_.packed_ = AlignedBytes(bytes);
        model_.biases_ = AlignedBytes(4 * bias_count);
        model_.half_biases_ = AlignedBytes(2 * half_bias_count);
        plan_layers();
        std::vector<std::size_t> last_value(from_.nets.size());
        std::size_t bias_at = 0, half_bias_at = 0;
        output_at_.resize(from_.nets.size());
        const LayerAt* before = nullptr;
        for (const LayerAt& at : order_) {
            const Net& net = from_.nets[at.net];
            const NetLayer& layer = net.layers[at.level];
            LayerPlan plan;
            plan.weight = pack_matrix(layer.weight, layer.weight.rows, [](std::size_t row) { return row; });
            if (layer.bias) plan.bias = pack_bias(layer.bias, layer.weight.rows, model_.biases_, bias_at);
            else plan.half_bias = pack_bias(layer.half_bias, layer.weight.rows, model_.half_biases_, half_bias_at);
            if (plan.half_bias) model_.tallest_half_bias = std::max(model_.tallest_half_bias, plan.weight.rows);
            plan.finish = at.level + 1 == net.layers.size() ? Finish::linear : finish_of(net.activation);
            plan.inputs = at.level == 0 ? net.inputs : nullptr;
            plan.from = last_value[at.net];
            plan.to = model_.value_count;
            last_value[at.net] = output_at_[at.net] = plan.to;
            plan.same_inputs = before && before->level == 0 && at.level == 0 && same_inputs(from_.nets[before->net], net);
            before = &at;
            if (at.level == 0) model_.widest_gather = std::max(model_.widest_gather, layer.weight.columns);
            model_.value_count += padded(layer.weight.rows);
            model_.layers.push_back(plan);
        }
        too_large(model_.value_count);
        pack_bases();
    }

    // Layers in the order they run, so that a call reads memory straight through: first layers, second ones, ... of large nets, each a phase. Small
    // nets, and those of many, go along with the first: some together are one task, in which their layers take turns, so that none waits for the one
    // before it.
    void plan_layers() {
        std::vector<std::size_t> bytes(from_.nets.size(), 0), small;
        std::size_t depth = 0;
        for (std::size_t number = 0; number < from_.nets.size(); ++number)
            for (const NetLayer& layer : from_.nets[number].layers) bytes[number] += packed_bytes(layer.weight, layer.weight.rows);
        const std::size_t most = std::max(kTaskBytes, std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) / kNetTasks);
        for (std::size_t number = 0; number < from_.nets.size(); ++number) {
            if (bytes[number] > most) depth = std::max(depth, from_.nets[number].layers.size());
            else small.push_back(number);
        }
        // Nets that read the same are neighbours: what they read is then fetched once.
        std::stable_sort(small.begin(), small.end(), [&](std::size_t a, std::size_t b) { return reads_before(from_.nets[a], from_.nets[b]); });
        for (std::size_t level = 0; level < std::max<std::size_t>(1, depth); ++level) {
            for (std::size_t number = 0; number < from_.nets.size(); ++number)
                if (bytes[number] > most && level < from_.nets[number].layers.size()) order_.push_back({number, level, level, 0});
            if (level == 0) plan_small(small, bytes, most);
        }
    }

    void plan_small(const std::vector<std::size_t>& small, const std::vector<std::size_t>& bytes, std::size_t most) {
        std::size_t group = 0;
        for (std::size_t first = 0, last = 0; first < small.size(); first = last) {
            ++group;
            std::size_t sum = 0, deepest = 0;
            for (; last < small.size() && (last == first || sum + bytes[small[last]] <= most); ++last) {
                sum += bytes[small[last]];
                deepest = std::max(deepest, from_.nets[small[last]].layers.size());
            }
            for (std::size_t level = 0; level < deepest; ++level)
                for (std::size_t n = first; n < last; ++n)
                    if (level < from_.nets[small[n]].layers.size()) order_.push_back({small[n], level, 0, group});
        }
    }

    void pack_bases() {
        // Who writes each coefficient: places of net outputs, grouped by coefficient.
        std::vector<std::uint32_t> starts(from_.coefficient_count + 1, 0), writers;
        for (const std::int32_t output : from_.net_outputs) ++starts[static_cast<std::size_t>(output) + 1];
        for (std::size_t c = 0; c < from_.coefficient_count; ++c) starts[c + 1] += starts[c];
        writers.resize(from_.net_outputs.size());
        std::vector<std::uint32_t> fill(starts.begin(), starts.end());
        for (std::size_t number = 0; number < from_.nets.size(); ++number) {
            const Net& net = from_.nets[number];
            for (std::size_t i = 0; i < net.layers.back().weight.rows; ++i)
                writers[fill[static_cast<std::size_t>(net.outputs[i])]++] = static_cast<std::uint32_t>(output_at_[number] + i);
        }
        std::vector<std::size_t> writers_at, starts_at;  // of each basis; become pointers when the arrays no longer grow
        constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();
        for (const Basis& basis : from_.bases) {
            const std::size_t named = basis.matrix.columns * (basis.shared ? 3 : 1);
            const auto lonely = [&](std::int32_t c) { return starts[static_cast<std::size_t>(c) + 1] - starts[static_cast<std::size_t>(c)] == 1; };
            writers_at.push_back(model_.writers_.size());
            const bool simple = std::all_of(basis.coefficients, basis.coefficients + named, lonely);
            starts_at.push_back(simple ? kNone : model_.writer_starts_.size());
            for (std::size_t p = 0; p < named; ++p) {
                const std::size_t c = static_cast<std::size_t>(basis.coefficients[p]);
                if (!simple) model_.writer_starts_.push_back(static_cast<std::uint32_t>(model_.writers_.size() - writers_at.back()));
                model_.writers_.insert(model_.writers_.end(), writers.begin() + starts[c], writers.begin() + starts[c + 1]);
            }
            if (!simple) model_.writer_starts_.push_back(static_cast<std::uint32_t>(model_.writers_.size() - writers_at.back()));
            model_.coefficients.push_back({nullptr, nullptr, named, model_.coefficient_count});
            model_.coefficient_count += named;
        }
        too_large(model_.writers_.size());
        for (std::size_t b = 0; b < from_.bases.size(); ++b) {
            CoefficientPlan& plan = model_.coefficients[b];
            plan.writers = model_.writers_.data() + writers_at[b];
            plan.starts = starts_at[b] == kNone ? nullptr : model_.writer_starts_.data() + starts_at[b];
            plan.in_a_row = !plan.starts && plan.count && !from_.bases[b].shared;
            for (std::size_t p = 1; p < plan.count && plan.in_a_row; ++p) plan.in_a_row = plan.writers[p] == plan.writers[p - 1] + 1;
        }
        for (std::size_t b = 0; b < from_.bases.size(); ++b) {
            const Basis& basis = from_.bases[b];
            const std::vector<std::uint32_t>& order = orders_[b];
            BasisPlan plan;
            plan.vertex_count = basis.vertex_count;
            plan.shared = basis.shared;
            plan.to = model_.displacement_count;
            if (basis.shared) plan.matrix = pack_matrix(basis.matrix, basis.matrix.rows, [&](std::size_t row) { return std::size_t{order[row]}; });
            else plan.matrix = pack_matrix(basis.matrix, basis.matrix.rows, [&](std::size_t row) { return 3 * std::size_t{order[row / 3]} + row % 3; });
            model_.displacement_count += padded(3 * padded(plan.vertex_count));
            model_.bases.push_back(plan);
        }
        too_large(model_.displacement_count);
        cut_windows();
    }

    // What every window needs of every basis.
    void cut_windows() {
        std::size_t to = 0;
        for (const Piece& piece : pieces_) {
            const std::uint32_t rows = model_.bases[piece.basis].shared ? 1 : 3;
            const std::uint32_t first = rows * piece.first / kLaneRows * kLaneRows, last = static_cast<std::uint32_t>(padded(rows * piece.last, kLaneRows));
            Window& window = model_.windows[piece.window];
            if (window.first_part == window.last_part) {
                window.first_part = window.last_part = static_cast<std::uint32_t>(model_.parts.size());
                to = 0;
            }
            ++window.last_part;
            model_.parts.push_back({piece.basis, first, last, to});
            to += (last - first) * (3 / rows);
            model_.widest_window = std::max(model_.widest_window, to);
        }
    }

    // Influences without weight are left out. The first stays in any case: dual quaternions take their signs from it.
    void pack_influences(const Influences& given, AlignedVector<Influence>& entries, AlignedVector<std::uint32_t>& starts, InfluenceRows& rows) {
        if (!given.width) return;
        const std::size_t count = given.index.size() / given.width;
        too_large(16 * std::max({from_.bone_count(), model_.transform_count, given.index.size()}));
        starts.push_back(0);
        bool even = true;
        for (std::size_t row = 0; row < count; ++row) {
            const std::size_t first = entries.size();
            for (std::size_t k = row * given.width; k < (row + 1) * given.width; ++k)
                if (given.weight[k] != 0 || (from_.blend == Blend::dual_quaternion && k == row * given.width))
                    entries.push_back({16 * static_cast<std::uint32_t>(given.index[k]), given.weight[k]});
            starts.push_back(static_cast<std::uint32_t>(entries.size()));
            even = even && entries.size() - first == starts[1];
        }
        entries.shrink_to_fit();
        rows.entries = entries.data();
        if (even && count) {
            rows.width = static_cast<std::uint32_t>(entries.size() / count);
            release(starts);
        }
        rows.starts = starts.data();
    }

    // Virtual bones mostly blend most bones: weights alone, without saying which, are then half the bytes.
    void pack_virtual_bones() {
        const Influences& given = from_.virtual_bones;
        const std::size_t bones = from_.bone_count();
        if (2 * given.width < bones || !given.width) {
            pack_influences(given, model_.virtual_entries_, model_.virtual_starts_, model_.virtual_bones);
            return;
        }
        too_large(16 * std::max(model_.virtual_count, given.index.size()));
        model_.virtual_weights.assign(model_.virtual_count * bones, 0.0f);
        for (std::size_t i = 0; i < given.index.size(); ++i)
            model_.virtual_weights[i / given.width * bones + static_cast<std::size_t>(given.index[i])] += given.weight[i];
        model_.virtual_columns.assign(padded(model_.virtual_count, kWeightRows) * bones, 0.0f);
        for (std::size_t row = 0; row < model_.virtual_count; ++row)
            for (std::size_t bone = 0; bone < bones; ++bone)
                model_.virtual_columns[(row / kWeightRows * bones + bone) * kWeightRows + row % kWeightRows] = model_.virtual_weights[row * bones + bone];
    }

    void pack_base() {
        model_.base = AlignedBytes(4 * (from_.rest.size() + 4));
        float* base = model_.base.as<float>();
        for (std::size_t i = 0; i < from_.rest.size(); ++i) base[i] = from_.rest[i] + (from_.mean.empty() ? 0 : from_.mean[i]);
        if (!from_.skinned) {  // one identity moves every vertex
            model_.skin_entries_.assign(model_.vertex_count(), Influence{0, 1.0f});
            model_.skin.entries = model_.skin_entries_.data();
            model_.skin.width = 1;
        }
    }

    void pack_slots() {
        if (from_.bases.empty()) return;
        AlignedVector<std::uint32_t>& starts = model_.slot_starts;
        starts.assign(model_.vertex_count() + 1, 0);
        for (const std::int32_t vertex : from_.basis_vertices) ++starts[static_cast<std::size_t>(vertex) + 1];
        for (std::size_t v = 0; v < model_.vertex_count(); ++v) starts[v + 1] += starts[v];
        model_.slots.resize(from_.basis_vertices.size());
        model_.window_slots.resize(model_.slots.size());
        std::vector<std::uint32_t> fill(starts.begin(), starts.end() - 1);
        for (std::size_t p = 0; p < pieces_.size(); ++p) {
            const BasisPlan& basis = model_.bases[pieces_[p].basis];
            const BasisPart& part = model_.parts[p];
            for (std::size_t n = pieces_[p].first; n < pieces_[p].last; ++n) {
                const std::int32_t vertex = from_.bases[pieces_[p].basis].vertices[orders_[pieces_[p].basis][n]];
                const std::uint32_t at = fill[static_cast<std::size_t>(vertex)]++;
                model_.slots[at] = static_cast<std::uint32_t>(basis.to + 3 * n);
                model_.window_slots[at] = static_cast<std::uint32_t>(part.to + 3 * n - (basis.shared ? 3 : 1) * part.first);
            }
        }
    }

    void find_simple() {
        model_.simple.assign(model_.vertex_count() / 4 + 1, 0);
        const auto start = [&](std::size_t vertex) { return model_.skin.width ? vertex * model_.skin.width : model_.skin.starts[vertex]; };
        const auto alike = [&](std::size_t vertex, std::size_t other) {
            const Influence &a = model_.skin.entries[start(vertex)], &b = model_.skin.entries[start(other)];
            if (start(other + 1) - start(other) != 1 || b.weight != 1 || a.offset != b.offset) return false;
            if (model_.slot_starts.empty()) return true;
            const std::uint32_t* starts = model_.slot_starts.data();
            return starts[other + 1] - starts[other] == 1 && starts[vertex + 1] - starts[vertex] == 1 &&
                   model_.slots[starts[other]] == model_.slots[starts[vertex]] + 3 * (other - vertex);
        };
        for (std::size_t vertex = 0; vertex + 4 <= model_.vertex_count(); vertex += 4)
            model_.simple[vertex / 4] = alike(vertex, vertex) && alike(vertex, vertex + 1) && alike(vertex, vertex + 2) && alike(vertex, vertex + 3);
    }

    // Of a model in 16 bits: what was packed of its vertices until here, in 16 bits too. Not where some number is not on a grid, or too large.
    void pack_vertices() {
        Grid axes[3], weights;
        if (!from_.half_precision || !find_grids(axes, weights)) return;
        if (model_.transform_count > 65536 || most_between(model_.slot_starts, 1) > 65535) return;
        if (most_between(model_.skin_starts_, PackedVertices::kTogether) > 255) return;
        pack_points(axes);
        pack_skin(weights);
        pack_runs();
        find_largest_job();
        release(model_.slot_starts);
        find_simple();  // again: displacements will be in the points, and no longer stand in its way
        model_.base = AlignedBytes();
        model_.skin = {};
        release(model_.skin_entries_);
        release(model_.skin_starts_);
    }

    bool find_grids(Grid (&axes)[3], Grid& weights) const {
        for (std::size_t axis = 0; axis < 3; ++axis)
            if (!find_grid(model_.base.as<float>() + axis, model_.vertex_count(), 3, axes[axis])) return false;
        static_assert(sizeof(Influence) == 2 * sizeof(float), "weights are every other float");
        return !model_.skin_entries_.empty() && find_grid(&model_.skin_entries_[0].weight, model_.skin_entries_.size(), 2, weights);
    }

    void pack_points(const Grid (&axes)[3]) {
        const std::size_t count = 3 * model_.vertex_count();
        model_.packed_base_ = AlignedBytes(2 * (count + Panels::kUnit - 1));
        std::uint16_t* numbers = model_.packed_base_.as<std::uint16_t>();
        for (std::size_t i = 0; i < count; ++i) numbers[i] = axes[i % 3].number(model_.base.as<float>()[i]);
        model_.packed_axes_ = AlignedBytes(2 * PackedVertices::kAxes * sizeof(float));
        float *lows = model_.packed_axes_.as<float>(), *steps = lows + PackedVertices::kAxes;
        for (std::size_t i = 0; i < PackedVertices::kAxes; ++i) {
            lows[i] = axes[i % 3].low;
            steps[i] = axes[i % 3].step;
        }
        model_.packed.base = numbers;
        model_.packed.lows = lows;
        model_.packed.steps = steps;
    }

    void pack_skin(const Grid& weights) {
        AlignedVector<std::uint16_t>& numbers = model_.packed_influences_;
        numbers.reserve(2 * model_.skin_entries_.size() + Panels::kUnit - 1);
        for (const Influence& entry : model_.skin_entries_) {
            numbers.push_back(static_cast<std::uint16_t>(entry.offset / 16));
            numbers.push_back(weights.number(entry.weight));
        }
        numbers.resize(numbers.size() + Panels::kUnit - 1);
        const AlignedVector<std::uint32_t>& starts = model_.skin_starts_;
        std::vector<std::uint8_t>& ends = model_.packed_ends_;
        for (std::size_t i = 0; i + 1 < starts.size(); ++i)
            ends.push_back(static_cast<std::uint8_t>(starts[i + 1] - starts[i - i % PackedVertices::kTogether]));
        while (ends.size() % PackedVertices::kTogether) ends.push_back(ends.back());
        model_.packed.influences = numbers.data();
        model_.packed.weight_low = weights.low;
        model_.packed.weight_step = weights.step;
        model_.packed.ends = ends.empty() ? nullptr : ends.data();
        model_.packed.width = model_.skin.width;
    }

    // The most that any `together` neighbours have, which begin at a multiple of that.
    static std::uint32_t most_between(const AlignedVector<std::uint32_t>& starts, std::size_t together) {
        std::uint32_t most = 0;
        for (std::size_t i = 0; i + 1 < starts.size(); i += together) most = std::max(most, starts[std::min(i + together, starts.size() - 1)] - starts[i]);
        return most;
    }

    // Vertices whose displacements lie side by side, and where those of the first lie.
    void pack_runs() {
        const AlignedVector<std::uint32_t> slots = std::move(model_.slots), window_slots = std::move(model_.window_slots);
        model_.slots = model_.window_slots = {};
        const auto start = [&](std::size_t vertex) { return model_.slot_starts.empty() ? 0 : model_.slot_starts[vertex]; };
        const auto follows = [&](std::size_t vertex) {  // the one before it
            const std::uint32_t before = start(vertex - 1), here = start(vertex), count = start(vertex + 1) - here;
            if (here - before != count) return false;
            for (std::uint32_t k = 0; k < count; ++k)
                if (slots[here + k] != slots[before + k] + 3 || window_slots[here + k] != window_slots[before + k] + 3) return false;
            return true;
        };
        for (std::size_t vertex = 0; vertex < model_.vertex_count(); ++vertex) {
            const bool step = vertex % PackedVertices::kStep == 0;
            const std::size_t influence = model_.skin.width ? vertex * model_.skin.width : model_.skin_starts_[vertex];
            if (step)
                model_.packed_starts_.push_back({static_cast<std::uint32_t>(influence), static_cast<std::uint32_t>(model_.packed_runs_.size()),
                                                 static_cast<std::uint32_t>(model_.slots.size())});
            if (!step && follows(vertex)) {
                ++model_.packed_runs_.back().length;
                continue;
            }
            model_.packed_runs_.push_back({1, static_cast<std::uint16_t>(start(vertex + 1) - start(vertex))});
            model_.slots.insert(model_.slots.end(), slots.begin() + start(vertex), slots.begin() + start(vertex + 1));
            model_.window_slots.insert(model_.window_slots.end(), window_slots.begin() + start(vertex), window_slots.begin() + start(vertex + 1));
        }
        model_.packed.runs = model_.packed_runs_.data();
        model_.packed.starts = model_.packed_starts_.data();
    }

    void find_largest_job() {
        const auto check = [&](std::size_t first, std::size_t last) {
            const auto between = [&](const AlignedVector<std::uint32_t>& starts) { return starts.empty() ? 0 : starts[last] - starts[first]; };
            model_.most_vertices = std::max(model_.most_vertices, last - first);
            model_.most_influences = std::max<std::size_t>(model_.most_influences, model_.skin.width * (last - first) + between(model_.skin_starts_));
            model_.most_slots = std::max<std::size_t>(model_.most_slots, between(model_.slot_starts));
        };
        for (const Window& window : model_.windows) check(window.first_vertex, window.last_vertex);
        for (std::size_t first = 0; first < model_.vertex_count(); first += kTaskVertices)
            check(first, std::min<std::size_t>(model_.vertex_count(), first + kTaskVertices));
    }

    void pack_neighbours() {
        const std::vector<std::int32_t>& triangles = from_.triangles;
        too_large(triangles.size());
        model_.around_starts.assign(model_.vertex_count() + 1, 0);
        for (const std::int32_t vertex : triangles) ++model_.around_starts[static_cast<std::size_t>(vertex) + 1];
        for (std::size_t v = 0; v < model_.vertex_count(); ++v) model_.around_starts[v + 1] += model_.around_starts[v];
        model_.around.resize(triangles.size());
        std::vector<std::uint32_t> fill(model_.around_starts.begin(), model_.around_starts.end() - 1);
        for (std::size_t corner = 0; corner < triangles.size(); ++corner)
            model_.around[fill[static_cast<std::size_t>(triangles[corner])]++] = static_cast<std::uint32_t>(corner / 3);
    }

    void plan_phases() {
        using Kind = Task::Kind;
        std::vector<Task> tasks;
        const auto close = [&](Model::Phases& phases) {
            if (!tasks.empty()) phases.push_back(std::move(tasks));
            tasks.clear();
        };
        const bool dual = from_.skinned && from_.blend == Blend::dual_quaternion;
        cut_tasks(tasks, Kind::virtual_bones, 0, 0, model_.virtual_count, kTaskRows);
        if (dual && !model_.virtual_count) cut_tasks(tasks, Kind::dual_quaternions, 0, 0, model_.transform_count, kTaskSplits);
        for (std::size_t number = 0, last = 0; number < order_.size(); number = last) {
            if (number && order_[number].phase != order_[number - 1].phase) close(model_.phases);
            last = number + 1;
            if (order_[number].group) {
                while (last < order_.size() && order_[last].group == order_[number].group) ++last;
                tasks.push_back({Kind::layers, 0, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(last)});
                continue;
            }
            const Panels& weight = model_.layers[number].weight;
            cut_tasks(tasks, Kind::layer, number, 0, weight.panel_count(), panels_per_task(weight));
        }
        close(model_.phases);
        plan_coefficients(tasks, [](const CoefficientPlan& plan) { return !plan.in_a_row; });
        close(model_.vertex_phases);
        if (dual && model_.virtual_count) cut_tasks(tasks, Kind::dual_quaternions, 0, 0, model_.transform_count, kTaskSplits);
        plan_bases(tasks);
        close(model_.vertex_phases);
        cut_tasks(tasks, Kind::vertices, 0, 0, model_.vertex_count(), kTaskVertices);
        close(model_.vertex_phases);
        plan_coefficients(tasks, [](const CoefficientPlan&) { return true; });
        close(model_.window_phases);
        cut_tasks(tasks, Kind::windows, 0, 0, model_.windows.size(), 1);
        close(model_.window_phases);
        cut_tasks(model_.face_normal_tasks, Kind::face_normals, 0, 0, from_.triangles.size() / 3, 4 * kTaskVertices);
        cut_tasks(model_.vertex_normal_tasks, Kind::vertex_normals, 0, 0, model_.vertex_count(), 2 * kTaskVertices);
    }

    template <class Wanted>
    void plan_coefficients(std::vector<Task>& tasks, const Wanted& wanted) {
        std::size_t count = kTaskCoefficients;
        for (std::uint32_t number = 0; number < model_.coefficients.size(); ++number) {
            const CoefficientPlan& plan = model_.coefficients[number];
            if (!wanted(plan)) continue;
            // With the one before it, if that is wanted too and they are few.
            if (count >= kTaskCoefficients || tasks.back().last != number) {
                tasks.push_back({Task::Kind::coefficients, 0, number, number});
                count = 0;
            }
            tasks.back().last = number + 1;
            count += plan.count;
        }
    }

    // Large bases are several tasks, small ones one together.
    void plan_bases(std::vector<Task>& tasks) {
        for (std::size_t number = 0; number < model_.bases.size(); ++number) {
            const Panels& matrix = model_.bases[number].matrix;
            const std::size_t step = std::max<std::size_t>(1, panels_per_task(matrix));
            if (model_.bases[number].shared) model_.tallest_shared = std::max(model_.tallest_shared, std::min(matrix.rows, step * Panels::kRows));
            if (matrix.panel_count() > step) {
                cut_tasks(tasks, Task::Kind::basis, number, 0, matrix.panel_count(), step);
                continue;
            }
            const auto bytes = [](const Panels& m) { return m.rows * m.columns * m.number_size; };
            std::size_t last = number + 1, sum = bytes(matrix);
            while (last < model_.bases.size() && sum + bytes(model_.bases[last].matrix) <= kTaskBytes) {
                if (model_.bases[last].shared) model_.tallest_shared = std::max(model_.tallest_shared, model_.bases[last].matrix.rows);
                sum += bytes(model_.bases[last++].matrix);
            }
            tasks.push_back({Task::Kind::bases, 0, static_cast<std::uint32_t>(number), static_cast<std::uint32_t>(last)});
            number = last - 1;
        }
    }

    // The vertices of a basis, by their places in its order, that lie in one window.
    struct Piece {
        std::uint32_t basis, window, first, last;
    };

    // One layer of one net: in which phase it runs, and in which group of small nets (0: in none, by itself).
    struct LayerAt {
        std::size_t net, level, phase, group;
    };

    Model& model_;
    const Description& from_;
    std::size_t packed_at_ = 0;
    std::vector<LayerAt> order_;
    std::vector<std::size_t> output_at_;
    std::vector<std::vector<std::uint32_t>> orders_;  // of each basis: its vertices, window after window
    std::vector<Piece> pieces_;                       // window after window; they become the model's parts
};

Model::Model(std::unique_ptr<Description> given) : description(std::move(given)) {
    Packer(*this).pack();
    // Packed now; what the packing was made from is no longer needed.
    release(description->net_values);
    release(description->net_halves);
    release(description->basis_values);
    release(description->basis_halves);
}

VertexJob Model::vertex_job(std::size_t first, std::size_t last) const {
    VertexJob job{};
    job.first = first;
    job.last = last;
    job.base = base.as<float>();
    job.slot_starts = bases.empty() ? nullptr : slot_starts.data();
    job.slots = slots.data();
    job.skin = skin;
    job.simple = simple.data();
    return job;
}

}  // namespace understudy
