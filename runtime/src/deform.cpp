#include "deform.h"

#include <algorithm>
#include <cmath>

#include "affine.h"
#include "crowd.h"

namespace understudy {
namespace {

// Poses one after the other in memory: a single one, what is left of a crowd, and dual quaternions.
class FewPoses : Block {
public:
    using Block::Block;

    void run(Pool* pool) {
        Block::run(pool, model_.vertex_phases, [] {}, [this](const Task& task, std::size_t thread) { run_task(task, thread); });
    }

private:
    void run_task(const Task& task, std::size_t thread) {
        switch (task.kind) {
            case Task::Kind::layer: {
                const LayerPlan& layer = model_.layers[task.what];
                claim(values(0) + layer.to + task.first * Panels::kRows, layer.weight.rows_of(task.first, task.last));
                return run_layer(layer, task.first, task.last, inputs_of(layer, thread), thread);
            }
            case Task::Kind::layers: return run_layers(task.first, task.last, thread);
            case Task::Kind::coefficients:
                for (std::size_t number = task.first; number < task.last; ++number) gather(model_.coefficients[number]);
                return;
            case Task::Kind::basis: return run_basis(task.what, task.first, task.last, thread);
            case Task::Kind::bases:
                for (std::size_t number = task.first; number < task.last; ++number)
                    run_basis(number, 0, model_.bases[number].matrix.panel_count(), thread);
                return;
            case Task::Kind::virtual_bones: return blend_virtual_bones(task.first, task.last);
            case Task::Kind::dual_quaternions: return split_transforms(task.first, task.last);
            case Task::Kind::vertices: return move_vertices(task.first, task.last, thread);
            default: return;  // windows are of crowds, normals the block's
        }
    }

    // What a task will write, where that is not much.
    void claim(float* to, std::size_t count) {
        if (poses_ == 1) use_.claim(to, count);
    }

    float* values(std::size_t pose) { return scratch_.values.as<float>() + pose * scratch_.value_stride; }

    // What a layer or a basis reads of every pose, and how far it is from one pose to the next.
    struct Inputs {
        const float* x;
        std::size_t stride;
    };

    Inputs inputs_of(const LayerPlan& layer, std::size_t thread) {
        if (!layer.inputs) return {values(0) + layer.from, scratch_.value_stride};
        float* gathered = scratch_.gathered.as<float>() + thread * scratch_.gather_stride;
        const std::size_t count = layer.weight.columns;
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            const float* from = features(pose);
            for (std::size_t i = 0; i < count; ++i) gathered[pose * count + i] = from[layer.inputs[i]];
        }
        return {gathered, count};
    }

    void run_layer(const LayerPlan& layer, std::size_t first, std::size_t last, const Inputs& inputs, std::size_t thread) {
        const float* bias = bias_of(layer, first * Panels::kRows, layer.weight.rows_of(first, last), thread);
        use_.dense(layer.weight, first, last, inputs.x, inputs.stride, poses_, bias, layer.finish, values(0) + layer.to, scratch_.value_stride);
    }

    void run_layers(std::size_t first, std::size_t last, std::size_t thread) {
        const LayerPlan& end = model_.layers[last - 1];
        claim(values(0) + model_.layers[first].to, end.to + end.weight.rows - model_.layers[first].to);
        Inputs inputs{};
        for (std::size_t number = first; number < last; ++number) {
            const LayerPlan& layer = model_.layers[number];
            if (number == first || !layer.same_inputs) inputs = inputs_of(layer, thread);
            run_layer(layer, 0, layer.weight.panel_count(), inputs, thread);
        }
    }

    void gather(const CoefficientPlan& plan) {
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            const float* from = values(pose);
            float* to = scratch_.coefficients.as<float>() + plan.to * Scratch::kBlock + pose * plan.count;
            for (std::size_t p = 0; p < plan.count; ++p) {
                if (!plan.starts) {
                    to[p] = from[plan.writers[p]];
                    continue;
                }
                float sum = 0;
                for (std::uint32_t at = plan.starts[p]; at != plan.starts[p + 1]; ++at) sum += from[plan.writers[at]];
                to[p] = sum;
            }
        }
    }

    Inputs coefficients_of(std::size_t number) {
        const CoefficientPlan& plan = model_.coefficients[number];
        if (plan.in_a_row) return {values(0) + plan.writers[0], scratch_.value_stride};
        return {scratch_.coefficients.as<float>() + plan.to * Scratch::kBlock, model_.bases[number].matrix.columns};
    }

    void run_basis(std::size_t number, std::size_t first, std::size_t last, std::size_t thread) {
        const BasisPlan& basis = model_.bases[number];
        const Inputs inputs = coefficients_of(number);
        float* out = scratch_.displacements.as<float>() + basis.to;
        const std::size_t row = first * Panels::kRows, height = basis.matrix.rows_of(first, last), axes = basis.shared ? 3 : 1;
        claim(out + axes * row, axes * height);
        if (!basis.shared)
            return use_.dense(basis.matrix, first, last, inputs.x, inputs.stride, poses_, nullptr, Finish::linear, out, scratch_.displacement_stride);
        // x, y and z as three poses; then side by side.
        float* planes = scratch_.planes.as<float>() + thread * scratch_.plane_stride;
        use_.dense(basis.matrix, first, last, inputs.x, inputs.stride, 3 * poses_, nullptr, Finish::linear, planes - row, height);
        const std::size_t used = std::min(height, basis.vertex_count - std::min(basis.vertex_count, row));
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            const float* plane = planes + 3 * pose * height;
            float* to = out + pose * scratch_.displacement_stride + 3 * row;
            for (std::size_t n = 0; n < used; ++n)
                for (std::size_t axis = 0; axis < 3; ++axis) to[3 * n + axis] = plane[axis * height + n];
        }
    }

    void blend_virtual_bones(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            if (model_.virtual_columns.empty()) use_.blend(model_.virtual_bones, first, last, bone_transforms(pose), transforms(pose));
            else use_.blend_dense(model_.virtual_columns.data(), model_.bone_count(), first, last, bone_transforms(pose), transforms(pose));
        }
    }

    // Each transform as a rotation and shift (a dual quaternion) after a stretch; see `skin_dual_quaternion`.
    void split_transforms(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_; ++pose)
            for (std::size_t number = first; number < last; ++number) {
                const float* columns = transforms(pose) + 16 * number;
                double x[9], rotation[9], stretch[9], q[4];
                for (int row = 0; row < 3; ++row)
                    for (int column = 0; column < 3; ++column) x[3 * row + column] = columns[4 * column + row];
                polar(x, rotation, stretch);
                quaternion_of(rotation, q);
                const double shift[3] = {columns[12], columns[13], columns[14]};
                const double dual[4] = {-0.5 * (shift[0] * q[1] + shift[1] * q[2] + shift[2] * q[3]),
                                        0.5 * (shift[0] * q[0] + shift[1] * q[3] - shift[2] * q[2]),
                                        0.5 * (shift[1] * q[0] + shift[2] * q[1] - shift[0] * q[3]),
                                        0.5 * (shift[2] * q[0] + shift[0] * q[2] - shift[1] * q[1])};
                float* to = scratch_.dual_quaternions.as<float>() + pose * scratch_.transform_stride + 16 * number;
                for (int i = 0; i < 4; ++i) {
                    to[i] = static_cast<float>(q[i]);
                    to[4 + i] = static_cast<float>(dual[i]);
                }
                const int upper[6] = {0, 1, 2, 4, 5, 8};
                for (int i = 0; i < 8; ++i) to[8 + i] = i < 6 ? static_cast<float>(stretch[upper[i]]) : 0.0f;
            }
    }

    void move_vertices(std::size_t first, std::size_t last, std::size_t thread) {
        const bool dual = about_.skinned && about_.blend == Blend::dual_quaternion;
        VertexJob job = model_.is_packed() ? unpacked_job(first, last, thread) : model_.vertex_job(first, last);
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            job.displacements = scratch_.displacements.as<float>() + pose * scratch_.displacement_stride;
            job.transforms = dual ? scratch_.dual_quaternions.as<float>() + pose * scratch_.transform_stride : transforms(pose);
            job.centre = centre(pose);
            job.positions = positions_ + 3 * (model_.vertex_count() * pose + first - job.first);
            if (model_.is_packed())
                use_.place_points(model_.packed, first, last, model_.slots.data(), job.displacements, scratch_.unpacked[thread].points.as<float>());
            (dual ? use_.skin_dual_quaternion : use_.skin_linear)(job);
        }
    }
};

}  // namespace

void deform(const Model& model, Scratch& scratch, const Kernels& use, std::size_t poses, const double* world_from_bone, const double* controls,
            float* positions, float* normals) {
    // A pool that another call holds, or one of a single thread, is no help.
    Pool* pool = scratch.pool && scratch.pool->threads() > 1 && scratch.pool->acquire() ? scratch.pool : nullptr;
    if (pool) pool->wake();
    const std::size_t bones = 12 * model.bone_count(), controls_per = model.description->control_names.size(), floats = 3 * model.vertex_count();
    const bool crowd = Crowd::can_play(*model.description);
    for (std::size_t first = 0, count; first < poses; first += count) {
        const double* world = world_from_bone ? world_from_bone + bones * first : nullptr;
        const double* values = controls ? controls + controls_per * first : nullptr;
        float* normals_here = normals ? normals + floats * first : nullptr;
        count = std::min(Scratch::kBlock, poses - first);
        float* positions_here = positions + floats * first;
        if (crowd && count == kLanes) Crowd(model, scratch, use, count, world, values, positions_here, normals_here).run(pool);
        else FewPoses(model, scratch, use, count, world, values, positions_here, normals_here).run(pool);
    }
    if (pool) pool->release();
}

}  // namespace understudy
