#include "lane_batch.h"

#include <algorithm>

namespace understudy {
namespace {

constexpr std::size_t kTaskNumbers = 512;  // numbers that one task transposes into lanes

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
    if (task.kind != Task::Kind::tiles) return BatchSteps::run_task(task, thread);
    for (std::size_t number = task.first; number < task.last; ++number)
        move_tile(model_.tiles[number], thread);
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

void LaneBatch::run_span(const BasisSpan& span, const BasisSpan* next, float* displacements) {
    assert(span.first_row % kLaneRows == 0 && span.last_row % kLaneRows == 0);
    const BasisPlan& basis = model_.bases[span.basis];
    assert(span.last_row <= basis.matrix.rows);
    const Inputs inputs = coefficients_of(span.basis);
    const std::size_t axes = basis.shared ? 3 : 1;
    Product product{inputs.x, inputs.stride,      axes,
                    nullptr,  Activation::linear, displacements + span.offset * kLanes,
                    kLanes,   axes * kLanes};
    if (next) product.next = model_.bases[next->basis].matrix.row(next->first_row);
    kernels_.dense_lanes(basis.matrix, span.first_row, span.last_row, product);
}

}  // namespace understudy
