#include "lane_batch.h"

#include <algorithm>
#include <cstring>

namespace understudy {
namespace {

constexpr std::size_t kTaskNumbers = 512;  // numbers that one task transposes into lanes

// The size is known at compile time, so that this needs no call.
void copy_lanes(const float* from, float* to) { std::memcpy(to, from, kLanes * sizeof *to); }

}  // namespace

void LaneBatch::run(Pool* pool) {
    Batch::run(
        pool, model_.tile_phases, [&] { fill_lanes(pool); },
        [&](const Task& task, std::size_t thread) { run_task(task, thread); });
}

// Transposes transforms and features, which were computed pose by pose.
void LaneBatch::fill_lanes(Pool* pool) {
    const std::size_t feature_count = about_.feature_columns.size();
    const std::size_t numbers = 16 * std::max<std::size_t>(1, model_.bone_count());
    const std::size_t bone_stride =
        model_.virtual_count ? scratch_.bone_stride : scratch_.transform_stride;
    const std::size_t bone_tasks = (numbers + kTaskNumbers - 1) / kTaskNumbers;
    const std::size_t feature_tasks = (feature_count + kTaskNumbers - 1) / kTaskNumbers;
    parallel_for(pool, bone_tasks + feature_tasks, [&](std::size_t task, std::size_t) {
        if (!task) {
            kernels_.to_lanes(centre(0), Scratch::kCentre, Scratch::kCentre,
                              scratch_.lane_centres.data());
            if (model_.is_bounded())
                kernels_.to_lanes(fades(0), scratch_.fade_stride, model_.fade_count(),
                                  scratch_.lane_fades.data());
        }
        if (task < bone_tasks) {
            const std::size_t first = task * kTaskNumbers;
            kernels_.to_lanes(bone_transforms(0) + first, bone_stride,
                              std::min(kTaskNumbers, numbers - first),
                              scratch_.lane_bones.data() + first * kLanes);
        } else {
            const std::size_t first = (task - bone_tasks) * kTaskNumbers;
            kernels_.to_lanes(features(0) + first, scratch_.feature_stride,
                              std::min(kTaskNumbers, feature_count - first),
                              scratch_.lane_features.data() + first * kLanes);
        }
    });
}

void LaneBatch::run_task(const Task& task, std::size_t thread) {
    switch (task.kind) {
        case Task::Kind::layer: {
            const LayerPlan& layer = model_.layers[task.what];
            return run_layer(layer, task.first, task.last, inputs_of(layer, thread), thread);
        }
        case Task::Kind::layers: return run_layers(task.first, task.last, thread);
        case Task::Kind::coefficients:
            for (std::size_t number = task.first; number < task.last; ++number)
                gather(model_.coefficients[number]);
            return;
        case Task::Kind::virtual_bones: return blend_virtual_bones(task);
        case Task::Kind::tiles:
            for (std::size_t number = task.first; number < task.last; ++number)
                move_tile(model_.tiles[number], thread);
            return;
        default: return;  // no other kind is in `phases` or `tile_phases` of such a deformer
    }
}

const float* LaneBatch::inputs_of(const LayerPlan& layer, std::size_t thread) {
    if (!layer.inputs) return values() + layer.input_offset * kLanes;
    float* to = scratch_.gathered.data() + thread * scratch_.gather_stride;
    const float* from = scratch_.lane_features.data();
    for (std::size_t i = 0; i < layer.weight.columns; ++i)
        copy_lanes(from + static_cast<std::size_t>(layer.inputs[i]) * kLanes, to + i * kLanes);
    return to;
}

void LaneBatch::run_layer(const LayerPlan& layer, std::size_t first_panel, std::size_t last_panel,
                          const float* x, std::size_t thread) {
    const std::size_t first = first_panel * Panels::kRows,
                      count = layer.weight.rows_of(first_panel, last_panel);
    LaneProduct product{};
    product.x = x;
    product.sets = 1;
    product.bias = bias_of(layer, first, count, thread);
    product.activation = layer.activation;
    product.y = values() + (layer.output_offset + first) * kLanes;
    product.y_row = kLanes;
    kernels_.dense_lanes(layer.weight, first, first + count, product);
}

void LaneBatch::run_layers(std::size_t first, std::size_t last, std::size_t thread) {
    const float* x = nullptr;
    for (std::size_t number = first; number < last; ++number) {
        const LayerPlan& layer = model_.layers[number];
        if (number == first || !layer.same_inputs) x = inputs_of(layer, thread);
        run_layer(layer, 0, layer.weight.panel_count(), x, thread);
    }
}

void LaneBatch::move_tile(const Tile& tile, std::size_t thread) {
    float* displacements = scratch_.tile_displacements.data() + thread * scratch_.tile_stride;
    const Array<BasisSpan>& spans = model_.spans;
    for (std::size_t number = tile.first_span; number < tile.last_span; ++number)
        run_span(spans[number], number + 1 < spans.size() ? &spans[number + 1] : nullptr,
                 displacements);
    VertexJob job = tile_job(tile, thread);
    job.displacements = displacements;
    job.transforms = (model_.virtual_count ? scratch_.lane_transforms : scratch_.lane_bones).data();
    job.centre = scratch_.lane_centres.data();
    job.positions = poses_.positions + 3 * (tile.first_vertex - job.first);
    job.pose_stride = 3 * model_.vertex_count();
    kernels_.skin_lanes(job);
}

VertexJob LaneBatch::tile_job(const Tile& tile, std::size_t thread) {
    if (!model_.is_quantized()) {
        VertexJob job = model_.vertex_job(tile.first_vertex, tile.last_vertex);
        job.slots = model_.tile_slots.data();
        return job;
    }
    VertexJob job = dequantized_job(tile.first_vertex, tile.last_vertex, thread);
    DequantizedVertices& to = scratch_.dequantized[thread];
    kernels_.dequantize_points(model_.quantized, tile.first_vertex, tile.last_vertex, nullptr,
                               nullptr, to.points.data());
    // Displacements are in lanes, far more numbers than there are slots. So each vertex gets its
    // own slots again.
    std::uint32_t* starts = to.slot_starts.data();
    std::uint32_t* slots = to.slots.data();
    std::uint32_t at = 0;
    const QuantizedVertices::BlockStart& start =
        model_.quantized.starts[tile.first_vertex / QuantizedVertices::kBlock];
    const VertexRun* run = model_.quantized.runs + start.run;
    const std::uint32_t* run_slots = model_.tile_slots.data() + start.slot;
    for (std::size_t vertex = 0; vertex < job.last; run_slots += run->slot_count, ++run)
        for (std::uint32_t n = 0; n < run->length; ++n) {
            starts[vertex++] = at;
            for (std::uint32_t s = 0; s < run->slot_count; ++s) slots[at++] = run_slots[s] + 3 * n;
        }
    starts[job.last] = at;
    job.slot_starts = model_.bases.empty() ? nullptr : starts;
    job.slots = slots;
    return job;
}

void LaneBatch::gather(const CoefficientPlan& plan) {
    float* to = scratch_.coefficients.data() + plan.offset * kLanes;
    sum_writers(plan, to);
    if (!model_.is_bounded()) return;
    const float *low = model_.coefficient_low.data() + plan.offset,
                *high = model_.coefficient_high.data() + plan.offset;
    const std::uint32_t* group = model_.coefficient_group.data() + plan.offset;
    for (std::size_t p = 0; p < plan.count; ++p, to += kLanes) {
        const float* fade = scratch_.lane_fades.data() + std::size_t{group[p]} * kLanes;
        for (std::size_t lane = 0; lane < kLanes; ++lane)
            to[lane] = std::min(std::max(to[lane], low[p]), high[p]) * fade[lane];
    }
}

void LaneBatch::sum_writers(const CoefficientPlan& plan, float* to) {
    for (std::size_t p = 0; p < plan.count; ++p) {
        if (plan.one_writer_each) {
            copy_lanes(values() + std::size_t{plan.writers[p]} * kLanes, to + p * kLanes);
            continue;
        }
        float sum[kLanes] = {};
        for (std::uint32_t at = plan.ranges[p].first; at != plan.ranges[p].last; ++at) {
            const float* from = values() + std::size_t{plan.writers[at]} * kLanes;
            for (std::size_t lane = 0; lane < kLanes; ++lane) sum[lane] += from[lane];
        }
        copy_lanes(sum, to + p * kLanes);
    }
}

void LaneBatch::run_span(const BasisSpan& span, const BasisSpan* next, float* displacements) {
    assert(span.first_row % kLaneRows == 0 && span.last_row % kLaneRows == 0);
    const BasisPlan& basis = model_.bases[span.basis];
    assert(span.last_row <= basis.matrix.rows);
    const std::size_t axes = basis.shared ? 3 : 1;
    LaneProduct product{};
    product.x = scratch_.coefficients.data() + model_.coefficients[span.basis].offset * kLanes;
    product.sets = axes;
    product.x_set = basis.matrix.columns * kLanes;
    product.activation = Activation::linear;
    product.y = displacements + span.offset * kLanes;
    product.y_row = axes * kLanes;
    product.y_set = kLanes;
    product.next = next ? model_.bases[next->basis].matrix.row(next->first_row) : nullptr;
    kernels_.dense_lanes(basis.matrix, span.first_row, span.last_row, product);
}

void LaneBatch::blend_virtual_bones(const Task& task) {
    const BlendJob job{model_.virtual_bones, model_.virtual_weights.data(), model_.bone_count(),
                       scratch_.lane_bones.data(), scratch_.lane_transforms.data()};
    if (model_.virtual_weights.empty()) kernels_.blend_lanes(job, task.first, task.last);
    else kernels_.blend_dense_lanes(job, task.first, task.last);
}

}  // namespace understudy
