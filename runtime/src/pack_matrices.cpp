// Packs nets and bases: the order in which layers run, tiles, weights in panels, coefficients.
#include <algorithm>
#include <limits>
#include <numeric>

#include "packing.h"

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
    return std::lexicographical_compare(a.inputs, a.inputs + a.layers[0].weight.columns, b.inputs,
                                        b.inputs + b.layers[0].weight.columns);
}

bool same_inputs(const Net& a, const Net& b) { return !reads_before(a, b) && !reads_before(b, a); }

// Copies matrices and biases into the model's storage, one after the other.
class MatrixPacker {
public:
    MatrixPacker(const Description& from, Model& model) : storage_(model.storage) {
        std::size_t bytes = 0, biases = 0, half_biases = 0;
        for (const Net& net : from.nets)
            for (const NetLayer& layer : net.layers) {
                bytes = added(bytes, packed_bytes(layer.weight));
                std::size_t& sum = layer.bias ? biases : half_biases;
                sum = added(sum, padded(layer.weight.rows));
            }
        for (const Basis& basis : from.bases) bytes = added(bytes, packed_bytes(basis.matrix));
        storage_.matrices = AlignedBytes(bytes);
        storage_.biases = AlignedBytes(multiplied(4, biases));
        storage_.half_biases = AlignedBytes(multiplied(2, half_biases));
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
        return panels;
    }

    void pack_bias(const NetLayer& layer, LayerPlan& plan) {
        const std::size_t rows = layer.weight.rows;
        if (layer.bias) plan.bias = copy(layer.bias, rows, storage_.biases, biases_used_);
        else plan.half_bias = copy(layer.half_bias, rows, storage_.half_biases, half_biases_used_);
    }

private:
    template <class Scalar>
    static const Scalar* copy(const Scalar* from, std::size_t rows, const AlignedBytes& biases,
                              std::size_t& used) {
        Scalar* to = biases.as<Scalar>() + used;
        std::copy(from, from + rows, to);
        used += padded(rows);
        return to;
    }

    Model::Storage& storage_;
    std::size_t used_ = 0, biases_used_ = 0, half_biases_used_ = 0;
};

// Packs the layers. Returns the offset of each net's last values.
std::vector<std::size_t> pack_layers(const Description& from, const std::vector<LayerStep>& order,
                                     MatrixPacker& packer, Model& model) {
    std::vector<std::size_t> value_offset(from.nets.size());
    const LayerStep* before = nullptr;
    for (const LayerStep& step : order) {
        const Net& net = from.nets[step.net];
        const NetLayer& layer = net.layers[step.level];
        LayerPlan plan;
        plan.weight = packer.pack(layer.weight, [](std::size_t row) { return row; });
        packer.pack_bias(layer, plan);
        if (plan.half_bias)
            model.tallest_half_bias = std::max(model.tallest_half_bias, plan.weight.rows);
        plan.activation = step.level + 1 == net.layers.size() ? Activation::linear : net.activation;
        plan.inputs = step.level == 0 ? net.inputs : nullptr;
        plan.input_offset = value_offset[step.net];
        plan.output_offset = value_offset[step.net] = model.value_count;
        plan.same_inputs = before && before->level == 0 && step.level == 0 &&
                           same_inputs(from.nets[before->net], net);
        before = &step;
        if (step.level == 0)
            model.widest_gather = std::max(model.widest_gather, layer.weight.columns);
        model.value_count = added(model.value_count, padded(layer.weight.rows));
        need_addressable(model.value_count);
        model.layers.push_back(plan);
    }
    return value_offset;
}

// Finds the values that are summed into each coefficient of each basis.
void pack_coefficients(const Description& from, const std::vector<std::size_t>& output_offset,
                       Model& model) {
    // The offsets of all net outputs, grouped by the coefficient they write.
    std::vector<std::uint32_t> starts(from.coefficient_count + 1, 0), writers;
    for (const std::int32_t output : from.net_outputs)
        ++starts[static_cast<std::size_t>(output) + 1];
    for (std::size_t c = 0; c < from.coefficient_count; ++c) starts[c + 1] += starts[c];
    writers.resize(from.net_outputs.size());
    std::vector<std::uint32_t> fill(starts.begin(), starts.end());
    for (std::size_t number = 0; number < from.nets.size(); ++number) {
        const Net& net = from.nets[number];
        for (std::size_t i = 0; i < net.layers.back().weight.rows; ++i)
            writers[fill[static_cast<std::size_t>(net.outputs[i])]++] =
                static_cast<std::uint32_t>(output_offset[number] + i);
    }
    // A basis whose coefficients have one writer each lists these. Others refer to the ranges of
    // their coefficients in the common list, so that memory stays proportional to the file.
    AlignedVector<std::uint32_t>& lists = model.storage.writers;
    lists.assign(writers.begin(), writers.end());
    std::vector<std::size_t> begins;  // they become pointers when the vectors no longer grow
    AlignedVector<WriterRange>& ranges = model.storage.writer_ranges;
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
        begins.push_back(one_each ? lists.size() : ranges.size());
        for (std::size_t p = 0; p < named; ++p) {
            const WriterRange range = range_of(basis.coefficients[p]);
            if (one_each) lists.push_back(writers[range.first]);
            else ranges.push_back(range);
        }
        model.coefficients.push_back(plan);
        model.coefficient_count = added(model.coefficient_count, named);
        need_addressable(model.coefficient_count);
    }
    for (std::size_t b = 0; b < from.bases.size(); ++b) {
        CoefficientPlan& plan = model.coefficients[b];
        plan.writers = lists.data();
        if (!plan.one_writer_each) {
            plan.ranges = ranges.data() + begins[b];
            continue;
        }
        plan.writers += begins[b];
        plan.contiguous = plan.count && !from.bases[b].shared;
        for (std::size_t p = 1; p < plan.count && plan.contiguous; ++p)
            plan.contiguous = plan.writers[p] == plan.writers[p - 1] + 1;
    }
}

void pack_bases(const Description& from, const TileLayout& layout, MatrixPacker& packer,
                Model& model) {
    for (std::size_t b = 0; b < from.bases.size(); ++b) {
        const Basis& basis = from.bases[b];
        const std::vector<std::uint32_t>& order = layout.orders[b];
        BasisPlan plan;
        plan.vertex_count = basis.vertex_count;
        plan.shared = basis.shared;
        plan.offset = model.displacement_count;
        if (basis.shared)
            plan.matrix =
                packer.pack(basis.matrix, [&](std::size_t row) { return std::size_t{order[row]}; });
        else
            plan.matrix = packer.pack(basis.matrix, [&](std::size_t row) {
                return 3 * std::size_t{order[row / 3]} + row % 3;
            });
        model.displacement_count =
            added(model.displacement_count, padded(multiplied(3, padded(plan.vertex_count))));
        need_addressable(model.displacement_count);
        model.bases.push_back(plan);
    }
}

// The rows of every basis that every tile needs.
void pack_spans(const TileLayout& layout, Model& model) {
    std::size_t offset = 0;
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
        model.spans.push_back({span.basis, first, last, offset});
        offset += (last - first) * (3 / rows);
        model.widest_tile = std::max(model.widest_tile, offset);
    }
}

}  // namespace

std::size_t packed_bytes(const MatrixView& matrix) {
    const std::size_t numbers = multiplied(padded(matrix.rows), matrix.columns);
    return padded(multiplied(numbers, matrix.number_size()), 64);
}

TileLayout find_tiles(const Description& from, Model& model) {
    const std::size_t vertices = model.vertex_count();
    // Per step of vertices: the number of displacements, and the tile.
    std::vector<std::uint32_t> displaced(vertices / kTileStep + 1, 0), tile_of(displaced.size());
    std::size_t displacements = 0;
    for (const Basis& basis : from.bases) {
        displacements += basis.vertex_count;
        for (std::size_t i = 0; i < basis.vertex_count; ++i)
            ++displaced[static_cast<std::size_t>(basis.vertices[i]) / kTileStep];
    }
    const std::size_t most = std::min(std::max(displacements / kManyTiles, kLeastTile), kMostTile);
    std::vector<Tile>& tiles = model.tiles;
    for (std::size_t step = 0, here = 0; step < displaced.size();
         ++step, here += displaced[step - 1]) {
        const std::size_t vertex = step * kTileStep;
        if (vertex < vertices && (tiles.empty() || (here && here + displaced[step] > most) ||
                                  vertex - tiles.back().first_vertex >= kTileVertices)) {
            if (!tiles.empty()) tiles.back().last_vertex = static_cast<std::uint32_t>(vertex);
            tiles.push_back(
                {static_cast<std::uint32_t>(vertex), static_cast<std::uint32_t>(vertices), 0, 0});
            here = 0;
        }
        tile_of[step] = static_cast<std::uint32_t>(tiles.size() - 1);
    }
    TileLayout layout;
    for (const Basis& basis : from.bases) {
        std::vector<std::uint32_t> order(basis.vertex_count);
        std::iota(order.begin(), order.end(), 0u);
        const auto tile = [&](std::uint32_t entry) {
            return tile_of[static_cast<std::size_t>(basis.vertices[entry]) / kTileStep];
        };
        std::stable_sort(order.begin(), order.end(),
                         [&](std::uint32_t a, std::uint32_t b) { return tile(a) < tile(b); });
        const std::uint32_t number = static_cast<std::uint32_t>(layout.orders.size());
        for (std::uint32_t first = 0, last = 0; first < order.size(); first = last) {
            while (last < order.size() && tile(order[last]) == tile(order[first])) ++last;
            layout.spans.push_back({number, tile(order[first]), first, last});
        }
        layout.orders.push_back(std::move(order));
    }
    std::stable_sort(
        layout.spans.begin(), layout.spans.end(),
        [](const TileLayout::Span& a, const TileLayout::Span& b) { return a.tile < b.tile; });
    return layout;
}

// Weights are packed in the order in which a call reads them, so that it reads memory sequentially.
// Large nets run layer by layer: all first layers, then all second ones, each a phase. Small nets
// run as a whole in the first phase. Several of them form one task (a group), in which their layers
// alternate, so that no layer waits for the one before it.
std::vector<LayerStep> order_layers(const Description& from) {
    std::vector<std::size_t> bytes(from.nets.size(), 0), small;
    for (std::size_t number = 0; number < from.nets.size(); ++number)
        for (const NetLayer& layer : from.nets[number].layers)
            bytes[number] = added(bytes[number], packed_bytes(layer.weight));
    const std::size_t total = std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}, added);
    const std::size_t most = std::max(kTaskBytes, total / kNetTasks);
    std::size_t depth = 1;
    for (std::size_t number = 0; number < from.nets.size(); ++number) {
        if (bytes[number] > most) depth = std::max(depth, from.nets[number].layers.size());
        else small.push_back(number);
    }
    // Nets that read the same features become neighbours, so that these are gathered once.
    std::stable_sort(small.begin(), small.end(), [&](std::size_t a, std::size_t b) {
        return reads_before(from.nets[a], from.nets[b]);
    });
    std::vector<LayerStep> order;
    const auto add_groups = [&] {
        std::size_t group = 0;
        for (std::size_t first = 0, last = 0; first < small.size(); first = last) {
            ++group;
            std::size_t sum = 0, deepest = 0;
            for (; last < small.size() && (last == first || added(sum, bytes[small[last]]) <= most);
                 ++last) {
                sum += bytes[small[last]];
                deepest = std::max(deepest, from.nets[small[last]].layers.size());
            }
            for (std::size_t level = 0; level < deepest; ++level)
                for (std::size_t n = first; n < last; ++n)
                    if (level < from.nets[small[n]].layers.size())
                        order.push_back({small[n], level, 0, group});
        }
    };
    for (std::size_t level = 0; level < depth; ++level) {
        for (std::size_t number = 0; number < from.nets.size(); ++number)
            if (bytes[number] > most && level < from.nets[number].layers.size())
                order.push_back({number, level, level, 0});
        if (level == 0) add_groups();
    }
    return order;
}

void pack_matrices(const Description& from, const std::vector<LayerStep>& order,
                   const TileLayout& layout, Model& model) {
    MatrixPacker packer(from, model);
    const std::vector<std::size_t> output_offset = pack_layers(from, order, packer, model);
    pack_coefficients(from, output_offset, model);
    pack_bases(from, layout, packer, model);
    pack_spans(layout, model);
}

}  // namespace understudy
