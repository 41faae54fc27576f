// Packs nets and bases: the order in which layers run, tiles, weights in panels, coefficients.
#include <algorithm>

#include "packing.h"
#include "sorting.h"

namespace understudy {
namespace {

// A net with at most this fraction of all weights runs as a whole, in one task.
constexpr std::size_t kNetTasks = 32;

// A displacement takes 192 bytes in a lane batch. A tile is small enough for a core's cache and for
// enough tiles that threads finish together. It is not smaller, because each tile reads the
// coefficients of its bases again. Tiles start at multiples of kTileStep vertices, which is three
// panels of a basis.
constexpr std::size_t kLeastTile = 1024, kMostTile = 4096, kManyTiles = 32;  // displacements
constexpr std::size_t kTileStep = 64, kTileVertices = 512;
static_assert(kTileStep % QuantizedVertices::kBlock == 0, "jobs start at a quantized block");
static_assert(3 * kTileStep % Panels::kRows == 0, "a step fills whole panels");

// Copies `rows` rows of `from` into panels; which(row) is the source of a row.
template <class Scalar, class Which>
void pack_rows(const Scalar* from, const Which& which, std::size_t rows, std::size_t columns,
               Scalar* to) {
    for (std::size_t first = 0; first < rows; first += Panels::kRows) {
        const std::size_t height = std::min(Panels::kRows, padded(rows - first));
        for (std::size_t row = first; row < std::min(rows, first + height); ++row)
            for (std::size_t column = 0; column < columns; ++column)
                to[first * columns + column * height + (row - first)] =
                    from[which(row) * columns + column];
    }
}

// Orders nets by the features they read.
bool reads_before(const Net& a, const Net& b) {
    return std::lexicographical_compare(a.inputs, a.inputs + a.input_count, b.inputs,
                                        b.inputs + b.input_count);
}

bool same_inputs(const Net& a, const Net& b) { return !reads_before(a, b) && !reads_before(b, a); }

// Copies matrices and biases into the model's storage, one after the other.
class MatrixPacker {
public:
    explicit MatrixPacker(Model& model) : storage_(model.storage) {}

    bool allocate(const Description& from) {
        std::size_t bytes = 0, biases = 0, half_biases = 0;
        for (const NetLayer& layer : from.layers) {
            bytes = added(bytes, packed_bytes(layer.weight));
            std::size_t& sum = layer.bias ? biases : half_biases;
            sum = added(sum, padded(layer.weight.rows));
        }
        for (const Basis& basis : from.bases) bytes = added(bytes, packed_bytes(basis.matrix));
        return storage_.matrices.allocate(bytes) &&
               storage_.biases.allocate(multiplied(4, biases)) &&
               storage_.half_biases.allocate(multiplied(2, half_biases));
    }

    template <class Which>
    Panels pack(const MatrixView& matrix, const Which& which) {
        Panels panels;
        panels.number_size = static_cast<std::uint8_t>(matrix.number_size());
        panels.columns = matrix.columns;
        panels.rows = padded(matrix.rows);
        std::uint8_t* to = storage_.matrices.as<std::uint8_t>() + used_;
        panels.data = to;
        if (matrix.half)
            pack_rows(matrix.half, which, matrix.rows, matrix.columns,
                      reinterpret_cast<std::uint16_t*>(to));
        else
            pack_rows(matrix.single, which, matrix.rows, matrix.columns,
                      reinterpret_cast<float*>(to));
        used_ += packed_bytes(matrix);
        assert(panels.rows % kUnit == 0 && used_ <= storage_.matrices.bytes());
        return panels;
    }

    void pack_bias(const NetLayer& layer, LayerPlan& plan) {
        const std::size_t rows = layer.weight.rows;
        if (layer.bias) plan.bias = copy(layer.bias, rows, storage_.biases, biases_used_);
        else plan.half_bias = copy(layer.half_bias, rows, storage_.half_biases, half_biases_used_);
    }

private:
    template <class Scalar>
    static const Scalar* copy(const Scalar* from, std::size_t rows, Buffer& biases,
                              std::size_t& used) {
        Scalar* to = biases.as<Scalar>() + used;
        std::copy(from, from + rows, to);
        used += padded(rows);
        return to;
    }

    Model::Storage& storage_;
    std::size_t used_ = 0, biases_used_ = 0, half_biases_used_ = 0;
};

// Packs the layers. Finds the offset of each net's last values.
bool pack_layers(const Description& from, const Array<LayerStep>& order, MatrixPacker& packer,
                 Model& model, Array<std::size_t>& value_offset, Problem& problem) {
    if (!value_offset.resize(from.nets.size()) || !model.layers.reserve(order.size())) return false;
    const LayerStep* before = nullptr;
    for (const LayerStep& step : order) {
        const Net& net = from.nets[step.net];
        const NetLayer& layer = from.layers[net.first_layer + step.level];
        LayerPlan plan;
        plan.weight = packer.pack(layer.weight, [](std::size_t row) { return row; });
        packer.pack_bias(layer, plan);
        if (plan.half_bias)
            model.tallest_half_bias = std::max(model.tallest_half_bias, plan.weight.rows);
        plan.activation = step.level + 1 == net.layer_count ? Activation::linear : net.activation;
        plan.inputs = step.level == 0 ? net.inputs : nullptr;
        plan.input_offset = value_offset[step.net];
        plan.output_offset = value_offset[step.net] = model.value_count;
        plan.same_inputs = before && before->level == 0 && step.level == 0 &&
                           same_inputs(from.nets[before->net], net);
        before = &step;
        if (step.level == 0)
            model.widest_gather = std::max(model.widest_gather, layer.weight.columns);
        model.value_count = added(model.value_count, padded(layer.weight.rows));
        if (!need_addressable(model.value_count, problem) || !model.layers.push(plan)) return false;
    }
    return true;
}

// Finds the values that are summed into each coefficient of each basis.
bool pack_coefficients(const Description& from, const Array<std::size_t>& output_offset,
                       Model& model, Problem& problem) {
    // The offsets of all net outputs, grouped by the coefficient they write.
    Array<std::uint32_t> starts(model.memory), fill(model.memory);
    AlignedArray<std::uint32_t>& lists = model.storage.writers;
    if (!starts.resize(from.coefficient_count + 1)) return false;
    for (const std::int32_t output : from.net_outputs)
        ++starts[static_cast<std::size_t>(output) + 1];
    for (std::size_t c = 0; c < from.coefficient_count; ++c) starts[c + 1] += starts[c];
    if (!lists.resize(from.net_outputs.size()) || !fill.append(starts.data(), starts.size()))
        return false;
    for (std::size_t number = 0; number < from.nets.size(); ++number) {
        const Net& net = from.nets[number];
        for (std::size_t i = 0; i < net.output_count; ++i)
            lists[fill[static_cast<std::size_t>(net.outputs[i])]++] =
                static_cast<std::uint32_t>(output_offset[number] + i);
    }
    // A basis whose coefficients have one writer each lists these. Others refer to the ranges of
    // their coefficients in the common list, so that memory stays proportional to the file.
    AlignedArray<WriterRange>& ranges = model.storage.writer_ranges;
    Array<std::size_t> begins(model.memory);  // they become pointers when the arrays are complete
    for (const Basis& basis : from.bases) {
        const std::size_t named = basis.matrix.columns * (basis.shared ? 3 : 1);
        const auto range_of = [&](std::int32_t c) {
            return WriterRange{starts[static_cast<std::size_t>(c)],
                               starts[static_cast<std::size_t>(c) + 1]};
        };
        const bool one_each =
            std::all_of(basis.coefficients, basis.coefficients + named, [&](std::int32_t c) {
                const WriterRange range = range_of(c);
                return range.last - range.first == 1;
            });
        CoefficientPlan plan;
        plan.count = named;
        plan.offset = model.coefficient_count;
        plan.one_writer_each = one_each;
        if (!begins.push(one_each ? lists.size() : ranges.size())) return false;
        for (std::size_t p = 0; p < named; ++p) {
            const WriterRange range = range_of(basis.coefficients[p]);
            if (!(one_each ? lists.push(lists[range.first]) : ranges.push(range))) return false;
        }
        model.coefficient_count = added(model.coefficient_count, named);
        if (!need_addressable(model.coefficient_count, problem) || !model.coefficients.push(plan))
            return false;
    }
    for (std::size_t b = 0; b < from.bases.size(); ++b) {
        CoefficientPlan& plan = model.coefficients[b];
        plan.writers = lists.data();
        if (!plan.one_writer_each) {
            plan.ranges = ranges.data() + begins[b];
            continue;
        }
        plan.writers += begins[b];
        // Bounded coefficients are never the values of a layer.
        plan.contiguous = plan.count && !from.bases[b].shared && !from.bounds.given;
        for (std::size_t p = 1; p < plan.count && plan.contiguous; ++p)
            plan.contiguous = plan.writers[p] == plan.writers[p - 1] + 1;
    }
    return true;
}

bool pack_bases(const Description& from, const TileLayout& layout, MatrixPacker& packer,
                Model& model, Problem& problem) {
    if (!model.bases.reserve(from.bases.size()) ||
        !model.basis_vertices.reserve(layout.entries.size()))
        return false;
    for (std::size_t b = 0; b < from.bases.size(); ++b) {
        const Basis& basis = from.bases[b];
        const std::uint32_t* order = layout.order(b);
        BasisPlan plan;
        plan.vertex_count = basis.vertex_count;
        plan.shared = basis.shared;
        plan.offset = model.displacement_count;
        plan.first_vertex = model.basis_vertices.size();
        for (std::size_t n = 0; n < basis.vertex_count; ++n)
            if (!model.basis_vertices.push(static_cast<std::uint32_t>(basis.vertices[order[n]])))
                return false;
        if (basis.shared)
            plan.matrix =
                packer.pack(basis.matrix, [&](std::size_t row) { return std::size_t{order[row]}; });
        else
            plan.matrix = packer.pack(basis.matrix, [&](std::size_t row) {
                return 3 * std::size_t{order[row / 3]} + row % 3;
            });
        model.displacement_count =
            added(model.displacement_count, padded(multiplied(3, padded(plan.vertex_count))));
        if (!need_addressable(model.displacement_count, problem) || !model.bases.push(plan))
            return false;
    }
    return true;
}

// The rows of every basis that every tile needs.
bool pack_spans(const TileLayout& layout, Model& model) {
    std::size_t offset = 0;
    if (!model.spans.reserve(layout.spans.size())) return false;
    for (const TileLayout::Span& span : layout.spans) {
        const std::uint32_t rows = model.bases[span.basis].shared ? 1 : 3;
        const std::uint32_t first = rows * span.first / kLaneRows * kLaneRows,
                            last = static_cast<std::uint32_t>(padded(rows * span.last, kLaneRows));
        Tile& tile = model.tiles[span.tile];
        if (tile.first_span == tile.last_span) {
            tile.first_span = tile.last_span = static_cast<std::uint32_t>(model.spans.size());
            offset = 0;
        }
        ++tile.last_span;
        if (!model.spans.push({span.basis, first, last, offset})) return false;
        offset += (last - first) * (3 / rows);
        model.widest_tile = std::max(model.widest_tile, offset);
    }
    return true;
}

}  // namespace

std::size_t packed_bytes(const MatrixView& matrix) {
    const std::size_t numbers = multiplied(padded(matrix.rows), matrix.columns);
    return padded(multiplied(numbers, matrix.number_size()), 64);
}

bool find_tiles(const Description& from, Model& model, TileLayout& layout) {
    const std::size_t vertices = model.vertex_count();
    // Per step of vertices: the number of displacements, and the tile.
    Array<std::uint32_t> displaced(model.memory), tile_of(model.memory);
    if (!displaced.resize(vertices / kTileStep + 1) || !tile_of.resize(displaced.size()))
        return false;
    std::size_t displacements = 0;
    for (const Basis& basis : from.bases) {
        displacements += basis.vertex_count;
        for (std::size_t i = 0; i < basis.vertex_count; ++i)
            ++displaced[static_cast<std::size_t>(basis.vertices[i]) / kTileStep];
    }
    const std::size_t most = std::min(std::max(displacements / kManyTiles, kLeastTile), kMostTile);
    Array<Tile>& tiles = model.tiles;
    for (std::size_t step = 0, here = 0; step < displaced.size();
         ++step, here += displaced[step - 1]) {
        const std::size_t vertex = step * kTileStep;
        if (vertex < vertices && (tiles.empty() || (here && here + displaced[step] > most) ||
                                  vertex - tiles.back().first_vertex >= kTileVertices)) {
            if (!tiles.empty()) tiles.back().last_vertex = static_cast<std::uint32_t>(vertex);
            if (!tiles.push({static_cast<std::uint32_t>(vertex),
                             static_cast<std::uint32_t>(vertices), 0, 0}))
                return false;
            here = 0;
        }
        tile_of[step] = static_cast<std::uint32_t>(tiles.size() - 1);
    }
    if (!layout.entries.resize(displacements) || !layout.starts.reserve(from.bases.size()))
        return false;
    std::size_t start = 0;
    for (std::size_t number = 0; number < from.bases.size(); ++number) {
        const Basis& basis = from.bases[number];
        std::uint32_t* order = layout.entries.data() + start;
        if (!layout.starts.push(start)) return false;
        start += basis.vertex_count;
        for (std::uint32_t i = 0; i < basis.vertex_count; ++i) order[i] = i;
        const auto tile = [&](std::uint32_t entry) {
            return tile_of[static_cast<std::size_t>(basis.vertices[entry]) / kTileStep];
        };
        sort_items(order, basis.vertex_count, [&](std::uint32_t a, std::uint32_t b) {
            return tile(a) != tile(b) ? tile(a) < tile(b) : a < b;
        });
        for (std::uint32_t first = 0, last = 0; first < basis.vertex_count; first = last) {
            while (last < basis.vertex_count && tile(order[last]) == tile(order[first])) ++last;
            if (!layout.spans.push(
                    {static_cast<std::uint32_t>(number), tile(order[first]), first, last}))
                return false;
        }
    }
    sort_items(layout.spans.data(), layout.spans.size(),
               [](const TileLayout::Span& a, const TileLayout::Span& b) {
                   return a.tile != b.tile     ? a.tile < b.tile
                          : a.basis != b.basis ? a.basis < b.basis
                                               : a.first < b.first;
               });
    return true;
}

// Weights are packed in the order in which a call reads them, so that it reads memory sequentially.
// Large nets run layer by layer: all first layers, then all second ones, each a phase. Small nets
// run as a whole in the first phase. Several of them form one task (a group), in which their layers
// alternate, so that no layer waits for the one before it.
bool order_layers(const Description& from, Array<LayerStep>& order) {
    Array<std::size_t> bytes(from.memory), small(from.memory);
    if (!bytes.resize(from.nets.size()) || !order.reserve(from.layers.size())) return false;
    std::size_t total = 0;
    for (std::size_t number = 0; number < from.nets.size(); ++number) {
        const Net& net = from.nets[number];
        for (std::size_t level = 0; level < net.layer_count; ++level)
            bytes[number] =
                added(bytes[number], packed_bytes(from.layers[net.first_layer + level].weight));
        total = added(total, bytes[number]);
    }
    const std::size_t most = std::max(kTaskBytes, total / kNetTasks);
    std::size_t depth = 1;
    for (std::size_t number = 0; number < from.nets.size(); ++number) {
        if (bytes[number] > most) depth = std::max(depth, from.nets[number].layer_count);
        else if (!small.push(number)) return false;
    }
    // Nets that read the same features become neighbours, so that these are gathered once.
    sort_items(small.data(), small.size(), [&](std::size_t a, std::size_t b) {
        if (reads_before(from.nets[a], from.nets[b])) return true;
        return !reads_before(from.nets[b], from.nets[a]) && a < b;
    });
    const auto add_groups = [&] {
        std::size_t group = 0;
        for (std::size_t first = 0, last = 0; first < small.size(); first = last) {
            ++group;
            std::size_t sum = 0, deepest = 0;
            for (; last < small.size() && (last == first || added(sum, bytes[small[last]]) <= most);
                 ++last) {
                sum += bytes[small[last]];
                deepest = std::max(deepest, from.nets[small[last]].layer_count);
            }
            for (std::size_t level = 0; level < deepest; ++level)
                for (std::size_t n = first; n < last; ++n)
                    if (level < from.nets[small[n]].layer_count &&
                        !order.push({small[n], level, 0, group}))
                        return false;
        }
        return true;
    };
    for (std::size_t level = 0; level < depth; ++level) {
        for (std::size_t number = 0; number < from.nets.size(); ++number)
            if (bytes[number] > most && level < from.nets[number].layer_count &&
                !order.push({number, level, level, 0}))
                return false;
        if (level == 0 && !add_groups()) return false;
    }
    return true;
}

bool pack_matrices(const Description& from, const Array<LayerStep>& order, const TileLayout& layout,
                   Model& model, Problem& problem) {
    MatrixPacker packer(model);
    Array<std::size_t> output_offset(model.memory);
    return packer.allocate(from) &&
           pack_layers(from, order, packer, model, output_offset, problem) &&
           pack_coefficients(from, output_offset, model, problem) &&
           pack_bases(from, layout, packer, model, problem) && pack_spans(layout, model);
}

}  // namespace understudy
