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
        if (!find_grid(model.base.as<float>() + axis, model.vertex_count(), 3, axes[axis]))
            return false;
    static_assert(sizeof(Influence) == 2 * sizeof(float), "weights are every other float");
    const AlignedVector<Influence>& entries = model.storage.skin_entries;
    return !entries.empty() && find_grid(&entries[0].weight, entries.size(), 2, weights);
}

// The most items of any `together` neighbours that start at a multiple of `together`.
std::uint32_t most_between(const AlignedVector<std::uint32_t>& starts, std::size_t together) {
    std::uint32_t most = 0;
    for (std::size_t i = 0; i + 1 < starts.size(); i += together)
        most = std::max(most, starts[std::min(i + together, starts.size() - 1)] - starts[i]);
    return most;
}

void quantize_base(const Grid (&axes)[3], Model& model) {
    const std::size_t count = 3 * model.vertex_count();
    model.storage.quantized_base = AlignedBytes(multiplied(2, count + Panels::kUnit - 1));
    std::uint16_t* numbers = model.storage.quantized_base.as<std::uint16_t>();
    for (std::size_t i = 0; i < count; ++i)
        numbers[i] = axes[i % 3].number(model.base.as<float>()[i]);
    constexpr std::size_t kAxes = QuantizedVertices::kAxes;
    model.storage.quantized_axes = AlignedBytes(2 * kAxes * sizeof(float));
    float* lows = model.storage.quantized_axes.as<float>();
    float* steps = lows + kAxes;
    for (std::size_t i = 0; i < kAxes; ++i) {
        lows[i] = axes[i % 3].low;
        steps[i] = axes[i % 3].step;
    }
    model.quantized.base = numbers;
    model.quantized.lows = lows;
    model.quantized.steps = steps;
}

void quantize_skin(const Grid& weights, Model& model) {
    AlignedVector<std::uint16_t>& numbers = model.storage.quantized_influences;
    numbers.reserve(2 * model.storage.skin_entries.size() + Panels::kUnit - 1);
    for (const Influence& entry : model.storage.skin_entries) {
        numbers.push_back(static_cast<std::uint16_t>(entry.offset / 16));
        numbers.push_back(weights.number(entry.weight));
    }
    numbers.resize(numbers.size() + Panels::kUnit - 1);
    const AlignedVector<std::uint32_t>& starts = model.storage.skin_starts;
    std::vector<std::uint8_t>& ends = model.storage.quantized_ends;
    constexpr std::size_t kGroup = QuantizedVertices::kGroup;
    for (std::size_t i = 0; i + 1 < starts.size(); ++i)
        ends.push_back(static_cast<std::uint8_t>(starts[i + 1] - starts[i - i % kGroup]));
    while (ends.size() % kGroup) ends.push_back(ends.back());
    model.quantized.influences = numbers.data();
    model.quantized.weight_low = weights.low;
    model.quantized.weight_step = weights.step;
    model.quantized.ends = ends.empty() ? nullptr : ends.data();
    model.quantized.width = model.skin.width;
}

// Replaces the slots of each vertex by runs and the slots of each run's first vertex.
void find_runs(Model& model) {
    const AlignedVector<std::uint32_t> slots = std::move(model.slots),
                                       tile_slots = std::move(model.tile_slots);
    model.slots = model.tile_slots = {};
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
    std::vector<VertexRun>& runs = model.storage.quantized_runs;
    for (std::size_t vertex = 0; vertex < model.vertex_count(); ++vertex) {
        const bool block = vertex % QuantizedVertices::kBlock == 0;
        const std::size_t influence =
            model.skin.width ? vertex * model.skin.width : model.storage.skin_starts[vertex];
        if (block)
            model.storage.quantized_starts.push_back(
                {static_cast<std::uint32_t>(influence), static_cast<std::uint32_t>(runs.size()),
                 static_cast<std::uint32_t>(model.slots.size())});
        if (!block && continues_run(vertex)) {
            ++runs.back().length;
            continue;
        }
        const std::uint32_t first = start(vertex), last = start(vertex + 1);
        runs.push_back({1, static_cast<std::uint16_t>(last - first)});
        model.slots.insert(model.slots.end(), slots.begin() + first, slots.begin() + last);
        model.tile_slots.insert(model.tile_slots.end(), tile_slots.begin() + first,
                                tile_slots.begin() + last);
    }
    model.quantized.runs = runs.data();
    model.quantized.starts = model.storage.quantized_starts.data();
}

// The sizes of the scratch memory that one job needs.
void find_largest_job(Model& model) {
    const auto check = [&](std::size_t first, std::size_t last) {
        const auto between = [&](const AlignedVector<std::uint32_t>& starts) {
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
void quantize_vertices(const Description& from, Model& model) {
    Grid axes[3], weights;
    if (!from.half_precision || !find_grids(model, axes, weights)) return;
    if (model.transform_count > 65536 || most_between(model.slot_starts, 1) > 65535) return;
    if (most_between(model.storage.skin_starts, QuantizedVertices::kGroup) > 255) return;
    quantize_base(axes, model);
    quantize_skin(weights, model);
    find_runs(model);
    find_largest_job(model);
    release(model.slot_starts);
    find_rigid_quads(model);  // again: displacements are now part of the points
    model.base = AlignedBytes();
    model.skin = {};
    release(model.storage.skin_entries);
    release(model.storage.skin_starts);
}

}  // namespace understudy
