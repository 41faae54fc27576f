// Stores the vertices of a model in 16 bits: see `QuantizedVertices`.
#include <algorithm>
#include <cmath>

#include "packing.h"

namespace understudy {
namespace {

static_assert(kTaskVertices % QuantizedVertices::kBlock == 0, "jobs start at a quantized block");

// 16-bit numbers for floats: low + number * step. The step is a power of two, so that the product
// is exact and the sum is the same on every processor.
struct Grid {
    float low = 0, step = 1;

    std::uint16_t number(float value) const {
        return static_cast<std::uint16_t>((double{value} - low) / step + 0.5);
    }
    bool holds(float value) const {
        return low + static_cast<float>(number(value)) * step == value;
    }
};

// Finds the finest grid over values that are `stride` apart. Returns whether it holds all of them.
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
    if (high > low)
        grid.step = static_cast<float>(
            std::ldexp(1.0, std::max(mantissa == 0.5 ? exponent - 1 : exponent, -126)));
    for (std::size_t i = 0; i < count; ++i)
        if (!grid.holds(values[i * stride])) return false;
    return true;
}

bool find_grids(const Model& model, Grid (&axes)[3], Grid& weights) {
    for (std::size_t axis = 0; axis < 3; ++axis)
        if (!find_grid(model.base.data() + axis, model.vertex_count(), 3, axes[axis])) return false;
    static_assert(sizeof(Influence) == 2 * sizeof(float), "weights are every other float");
    const AlignedArray<Influence>& entries = model.storage.skin_entries;
    return !entries.empty() && find_grid(&entries[0].weight, entries.size(), 2, weights);
}

// The most items of any `together` neighbours that start at a multiple of `together`.
std::uint32_t most_between(const AlignedArray<std::uint32_t>& starts, std::size_t together) {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i + 1 < starts.size(); i += together)
        most = std::max(most, starts[std::min(i + together, starts.size() - 1)] - starts[i]);
    return most;
}

bool quantize_base(const Grid (&axes)[3], Model& model) {
    const std::size_t count = 3 * model.vertex_count();
    constexpr std::size_t kAxes = QuantizedVertices::kAxes;
    AlignedArray<std::uint16_t>& numbers = model.storage.quantized_base;
    if (!numbers.resize(count + kBeyondNumbers) || !model.storage.quantized_axes.resize(2 * kAxes))
        return false;
    for (std::size_t i = 0; i < count; ++i) numbers[i] = axes[i % 3].number(model.base[i]);
    float* lows = model.storage.quantized_axes.data();
    float* steps = lows + kAxes;
    for (std::size_t i = 0; i < kAxes; ++i) {
        lows[i] = axes[i % 3].low;
        steps[i] = axes[i % 3].step;
    }
    model.quantized.base = numbers.data();
    model.quantized.lows = lows;
    model.quantized.steps = steps;
    return true;
}

bool quantize_skin(const Grid& weights, Model& model) {
    const AlignedArray<Influence>& entries = model.storage.skin_entries;
    AlignedArray<std::uint16_t>& numbers = model.storage.quantized_influences;
    if (!numbers.resize(2 * entries.size() + kBeyondNumbers)) return false;
    for (std::size_t i = 0; i < entries.size(); ++i) {
        numbers[2 * i] = static_cast<std::uint16_t>(entries[i].offset / 16);
        numbers[2 * i + 1] = weights.number(entries[i].weight);
    }
    const AlignedArray<std::uint32_t>& starts = model.storage.skin_starts;
    Array<std::uint8_t>& ends = model.storage.quantized_ends;
    constexpr std::size_t kGroup = QuantizedVertices::kGroup;
    if (!starts.empty()) {
        const std::size_t rows = starts.size() - 1;
        if (!ends.resize(padded(rows, kGroup))) return false;
        for (std::size_t i = 0; i < ends.size(); ++i)
            ends[i] = static_cast<std::uint8_t>(starts[std::min(i, rows - 1) + 1] -
                                                starts[i - i % kGroup]);
    }
    model.quantized.influences = numbers.data();
    model.quantized.weight_low = weights.low;
    model.quantized.weight_step = weights.step;
    model.quantized.ends = ends.empty() ? nullptr : ends.data();
    model.quantized.width = model.skin.width;
    return true;
}

// Replaces the slots of each vertex by runs and the slots of each run's first vertex.
bool find_runs(Model& model) {
    AlignedArray<std::uint32_t> slots(model.memory), tile_slots(model.memory);
    slots.swap(model.slots);
    tile_slots.swap(model.tile_slots);
    const auto start = [&](std::size_t vertex) {
        return model.slot_starts.empty() ? 0 : model.slot_starts[vertex];
    };
    const auto continues_run = [&](std::size_t vertex) {
        const std::uint32_t before = start(vertex - 1), here = start(vertex),
                            count = start(vertex + 1) - here;
        if (here - before != count) return false;
        for (std::uint32_t k = 0; k < count; ++k)
            if (slots[here + k] != slots[before + k] + 3 ||
                tile_slots[here + k] != tile_slots[before + k] + 3)
                return false;
        return true;
    };
    Array<VertexRun>& runs = model.storage.quantized_runs;
    for (std::size_t vertex = 0; vertex < model.vertex_count(); ++vertex) {
        const bool block = vertex % QuantizedVertices::kBlock == 0;
        const std::size_t influence =
            model.skin.width ? vertex * model.skin.width : model.storage.skin_starts[vertex];
        if (block &&
            !model.storage.quantized_starts.push({static_cast<std::uint32_t>(influence),
                                                  static_cast<std::uint32_t>(runs.size()),
                                                  static_cast<std::uint32_t>(model.slots.size())}))
            return false;
        if (!block && continues_run(vertex)) {
            ++runs.back().length;
            continue;
        }
        const std::uint32_t first = start(vertex), count = start(vertex + 1) - first;
        if (!runs.push({1, static_cast<std::uint16_t>(count)}) ||
            !model.slots.append(slots.data() + first, count) ||
            !model.tile_slots.append(tile_slots.data() + first, count))
            return false;
    }
    model.quantized.runs = runs.data();
    model.quantized.starts = model.storage.quantized_starts.data();
    return true;
}

// The sizes of the scratch memory that one job needs.
void find_largest_job(Model& model) {
    const auto check = [&](std::size_t first, std::size_t last) {
        const auto between = [&](const AlignedArray<std::uint32_t>& starts) {
            return starts.empty() ? 0 : starts[last] - starts[first];
        };
        model.most_vertices = std::max(model.most_vertices, last - first);
        model.most_influences =
            std::max<std::size_t>(model.most_influences, model.skin.width * (last - first) +
                                                             between(model.storage.skin_starts));
        model.most_slots = std::max<std::size_t>(model.most_slots, between(model.slot_starts));
    };
    for (const Tile& tile : model.tiles) check(tile.first_vertex, tile.last_vertex);
    for (std::size_t first = 0; first < model.vertex_count(); first += kTaskVertices)
        check(first, std::min<std::size_t>(model.vertex_count(), first + kTaskVertices));
}

}  // namespace

// Does nothing where a number is not on a grid or is too large for its field.
bool quantize_vertices(const Description& from, Model& model) {
    Grid axes[3], weights;
    if (!from.half_precision || !find_grids(model, axes, weights)) return true;
    if (model.transform_count > 65536 || most_between(model.slot_starts, 1) > 65535) return true;
    if (most_between(model.storage.skin_starts, QuantizedVertices::kGroup) > 255) return true;
    if (!quantize_base(axes, model) || !quantize_skin(weights, model) || !find_runs(model))
        return false;
    find_largest_job(model);
    model.slot_starts.release();
    // Again: displacements are now part of the points.
    if (!find_rigid_quads(model)) return false;
    model.base.release();
    model.skin = {};
    model.storage.skin_entries.release();
    model.storage.skin_starts.release();
    return true;
}

}  // namespace understudy
