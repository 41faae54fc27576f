#include "crowd.h"

#include <algorithm>
#include <cstring>

namespace understudy {
namespace {

constexpr std::size_t kTaskNumbers = 512;  // turned into lanes by one task

// Of a size known here: copied without a call.
void copy_lanes(const float* from, float* to) { std::memcpy(to, from, kLanes * sizeof *to); }

}  // namespace

void Crowd::run(Pool* pool) {
    Block::run(pool, model_.window_phases, [this, pool] { spread(pool); }, [this](const Task& task, std::size_t thread) { run_task(task, thread); });
}

// Transforms and features, found pose by pose, into lanes.
void Crowd::spread(Pool* pool) {
    const std::size_t feature_count = about_.feature_columns.size(), numbers = 16 * std::max<std::size_t>(1, model_.bone_count());
    const std::size_t bone_stride = model_.virtual_count ? scratch_.bone_stride : scratch_.transform_stride;
    const std::size_t pieces = (numbers + kTaskNumbers - 1) / kTaskNumbers, feature_pieces = (feature_count + kTaskNumbers - 1) / kTaskNumbers;
    share(pool, pieces + feature_pieces, [&](std::size_t piece, std::size_t) {
        if (!piece) use_.to_lanes(centre(0), Scratch::kCentre, Scratch::kCentre, scratch_.lane_centres.as<float>());
        const std::size_t first = (piece < pieces ? piece : piece - pieces) * kTaskNumbers;
        if (piece < pieces)
            use_.to_lanes(bone_transforms(0) + first, bone_stride, std::min(kTaskNumbers, numbers - first), scratch_.lane_bones.as<float>() + first * kLanes);
        else
            use_.to_lanes(features(0) + first, scratch_.feature_stride, std::min(kTaskNumbers, feature_count - first),
                          scratch_.lane_features.as<float>() + first * kLanes);
    });
}

void Crowd::run_task(const Task& task, std::size_t thread) {
    switch (task.kind) {
        case Task::Kind::layer: return run_layer(model_.layers[task.what], task.first, task.last, inputs_of(model_.layers[task.what], thread), thread);
        case Task::Kind::layers: return run_layers(task.first, task.last, thread);
        case Task::Kind::coefficients:
            for (std::size_t number = task.first; number < task.last; ++number) gather(model_.coefficients[number]);
            return;
        case Task::Kind::virtual_bones: return blend_virtual_bones(task);
        case Task::Kind::windows:
            for (std::size_t number = task.first; number < task.last; ++number) move_window(model_.windows[number], thread);
            return;
        default: return;  // `can_play`: no dual quaternions; bases and vertices come in windows, normals are the block's
    }
}

const float* Crowd::inputs_of(const LayerPlan& layer, std::size_t thread) {
    if (!layer.inputs) return values() + layer.from * kLanes;
    float* to = scratch_.gathered.as<float>() + thread * scratch_.gather_stride;
    for (std::size_t i = 0; i < layer.weight.columns; ++i)
        copy_lanes(scratch_.lane_features.as<float>() + static_cast<std::size_t>(layer.inputs[i]) * kLanes, to + i * kLanes);
    return to;
}

void Crowd::run_layer(const LayerPlan& layer, std::size_t first_panel, std::size_t last_panel, const float* x, std::size_t thread) {
    const std::size_t first = first_panel * Panels::kRows, count = layer.weight.rows_of(first_panel, last_panel);
    const float* bias = bias_of(layer, first, count, thread);
    use_.dense_lanes(layer.weight, first, first + count, {x, 1, 0, bias, layer.finish, values() + (layer.to + first) * kLanes, kLanes, 0});
}

void Crowd::run_layers(std::size_t first, std::size_t last, std::size_t thread) {
    const float* x = nullptr;
    for (std::size_t number = first; number < last; ++number) {
        const LayerPlan& layer = model_.layers[number];
        if (number == first || !layer.same_inputs) x = inputs_of(layer, thread);
        run_layer(layer, 0, layer.weight.panel_count(), x, thread);
    }
}

void Crowd::move_window(const Window& window, std::size_t thread) {
    float* displacements = scratch_.window_displacements.as<float>() + thread * scratch_.window_stride;
    for (std::size_t number = window.first_part; number < window.last_part; ++number)
        run_basis(model_.parts[number], number + 1 < model_.parts.size() ? &model_.parts[number + 1] : nullptr, displacements);
    VertexJob job = window_job(window, thread);
    job.displacements = displacements;
    job.transforms = (model_.virtual_count ? scratch_.lane_transforms : scratch_.lane_bones).as<float>();
    job.centre = scratch_.lane_centres.as<float>();
    job.positions = positions_ + 3 * (window.first_vertex - job.first);
    job.pose_stride = 3 * model_.vertex_count();
    use_.skin_lanes(job);
}

VertexJob Crowd::window_job(const Window& window, std::size_t thread) {
    if (!model_.is_packed()) {
        VertexJob job = model_.vertex_job(window.first_vertex, window.last_vertex);
        job.slots = model_.window_slots.data();
        return job;
    }
    VertexJob job = unpacked_job(window.first_vertex, window.last_vertex, thread);
    const Unpacked& to = scratch_.unpacked[thread];
    use_.place_points(model_.packed, window.first_vertex, window.last_vertex, nullptr, nullptr, to.points.as<float>());
    // Displacements are in lanes, far more numbers than there are slots: each vertex gets its own again.
    std::uint32_t *starts = to.slot_starts.as<std::uint32_t>(), *slots = to.slots.as<std::uint32_t>(), at = 0;
    const PackedVertices::Start& start = model_.packed.starts[window.first_vertex / PackedVertices::kStep];
    const VertexRun* run = model_.packed.runs + start.run;
    const std::uint32_t* places = model_.window_slots.data() + start.place;
    for (std::size_t vertex = 0; vertex < job.last; places += run->places, ++run)
        for (std::uint32_t n = 0; n < run->length; ++n) {
            starts[vertex++] = at;
            for (std::uint32_t p = 0; p < run->places; ++p) slots[at++] = places[p] + 3 * n;
        }
    starts[job.last] = at;
    job.slot_starts = model_.bases.empty() ? nullptr : starts;
    job.slots = slots;
    return job;
}

void Crowd::gather(const CoefficientPlan& plan) {
    float* to = scratch_.coefficients.as<float>() + plan.to * kLanes;
    for (std::size_t p = 0; p < plan.count; ++p) {
        if (!plan.starts) {
            copy_lanes(values() + std::size_t{plan.writers[p]} * kLanes, to + p * kLanes);
            continue;
        }
        float sum[kLanes] = {};
        for (std::uint32_t at = plan.starts[p]; at != plan.starts[p + 1]; ++at)
            for (std::size_t lane = 0; lane < kLanes; ++lane) sum[lane] += values()[std::size_t{plan.writers[at]} * kLanes + lane];
        copy_lanes(sum, to + p * kLanes);
    }
}

void Crowd::run_basis(const BasisPart& part, const BasisPart* next, float* displacements) {
    const BasisPlan& basis = model_.bases[part.basis];
    const std::size_t axes = basis.shared ? 3 : 1;
    const float* x = scratch_.coefficients.as<float>() + model_.coefficients[part.basis].to * kLanes;
    use_.dense_lanes(basis.matrix, part.first, part.last,
                     {x, axes, basis.matrix.columns * kLanes, nullptr, Finish::linear, displacements + part.to * kLanes, axes * kLanes, kLanes,
                      next ? model_.bases[next->basis].matrix.row(next->first) : nullptr});
}

void Crowd::blend_virtual_bones(const Task& task) {
    const float* from = scratch_.lane_bones.as<float>();
    float* to = scratch_.lane_transforms.as<float>();
    if (model_.virtual_weights.empty()) use_.blend_lanes(model_.virtual_bones, task.first, task.last, from, to);
    else use_.blend_dense_lanes(model_.virtual_weights.data(), model_.bone_count(), task.first, task.last, from, to);
}

}  // namespace understudy
