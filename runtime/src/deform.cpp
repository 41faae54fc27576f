#include "deform.h"

#include <algorithm>
#include <cmath>

#include "affine.h"
#include "lane_batch.h"

namespace understudy {
namespace {

// A batch of 1 to 16 poses, one after the other in memory: a single pose, the remainder of many,
// and dual quaternions.
class SerialBatch : Batch {
public:
    using Batch::Batch;

    void run(Pool* pool) {
        Batch::run(
            pool, model_.vertex_phases, [] {},
            [this](const Task& task, std::size_t thread) { run_task(task, thread); });
    }

    // Runs what comes before the bases, for one pose.
    void run_to_coefficients(Pool* pool, float* out) {
        compute_features(0, 0);
        run_phases(pool, [](Task::Kind kind) {
            return kind == Task::Kind::layer || kind == Task::Kind::layers;
        });
        for (const CoefficientPlan& plan : model_.coefficients) gather(plan, 0, out + plan.offset);
    }

    // The distance of one pose from the training poses.
    float run_to_distance() {
        compute_features(0, 0);
        return std::sqrt(squared_distance(0));
    }

    // Runs what comes before the skin and does not belong to the correctives, for one pose. The
    // transforms become 3x4 matrices, row by row.
    void run_to_transforms(Pool* pool, float* out) {
        compute_transforms(0);
        run_phases(pool, [](Task::Kind kind) { return kind == Task::Kind::virtual_bones; });
        const float *columns = transforms(0), *shift = centre(0);
        for (std::size_t number = 0; number < model_.transform_count; ++number, columns += 16)
            for (int row = 0; row < 3; ++row, out += 4) {
                for (int column = 0; column < 4; ++column) out[column] = columns[4 * column + row];
                out[3] = (out[3] + shift[4 + row]) + shift[row];
            }
    }

private:
    // Runs the tasks of `phases` that are wanted.
    template <class Wanted>
    void run_phases(Pool* pool, const Wanted& wanted) {
        for (std::size_t number = 0; number < model_.phases.count(); ++number) {
            const Phases::Range phase = model_.phases.phase(number);
            parallel_for(pool, phase.size, [&](std::size_t task, std::size_t thread) {
                if (wanted(phase.tasks[task].kind)) run_task(phase.tasks[task], thread);
            });
        }
    }

    void run_task(const Task& task, std::size_t thread) {
        const bool gives_coefficients = task.kind == Task::Kind::layer ||
                                        task.kind == Task::Kind::layers ||
                                        task.kind == Task::Kind::coefficients;
        if (gives_coefficients && poses_.coefficients) return;
        switch (task.kind) {
            case Task::Kind::layer: {
                const LayerPlan& layer = model_.layers[task.what];
                prefetch_output(values(0) + layer.output_offset + task.first * Panels::kRows,
                                layer.weight.rows_of(task.first, task.last));
                return run_layer(layer, task.first, task.last, inputs_of(layer, thread), thread);
            }
            case Task::Kind::layers: return run_layers(task.first, task.last, thread);
            case Task::Kind::coefficients:
                for (std::size_t number = task.first; number < task.last; ++number)
                    gather(model_.coefficients[number]);
                return;
            case Task::Kind::basis: return run_basis(task.what, task.first, task.last, thread);
            case Task::Kind::bases:
                for (std::size_t number = task.first; number < task.last; ++number)
                    run_basis(number, 0, model_.bases[number].matrix.panel_count(), thread);
                return;
            case Task::Kind::virtual_bones: return blend_virtual_bones(task.first, task.last);
            case Task::Kind::dual_quaternions: return split_transforms(task.first, task.last);
            case Task::Kind::vertices: return move_vertices(task.first, task.last, thread);
            default: return;  // no other kind is in `phases` or `vertex_phases`
        }
    }

    // Prefetches what a task is about to write. For more poses that would be too much.
    void prefetch_output(float* to, std::size_t count) {
        if (poses_.count == 1) kernels_.prefetch_write(to, count);
    }

    float* values(std::size_t pose) {
        return scratch_.values.data() + pose * scratch_.value_stride;
    }

    // What a layer or a basis reads of the first pose, and the floats between two poses.
    struct Inputs {
        const float* x;
        std::size_t stride;
    };

    Inputs inputs_of(const LayerPlan& layer, std::size_t thread) {
        if (!layer.inputs) return {values(0) + layer.input_offset, scratch_.value_stride};
        float* gathered = scratch_.gathered.data() + thread * scratch_.gather_stride;
        const std::size_t count = layer.weight.columns;
        for (std::size_t pose = 0; pose < poses_.count; ++pose) {
            const float* from = features(pose);
            for (std::size_t i = 0; i < count; ++i)
                gathered[pose * count + i] = from[layer.inputs[i]];
        }
        return {gathered, count};
    }

    void run_layer(const LayerPlan& layer, std::size_t first, std::size_t last,
                   const Inputs& inputs, std::size_t thread) {
        const float* bias =
            bias_of(layer, first * Panels::kRows, layer.weight.rows_of(first, last), thread);
        kernels_.dense(layer.weight, first, last,
                       {inputs.x, inputs.stride, poses_.count, bias, layer.activation,
                        values(0) + layer.output_offset, scratch_.value_stride});
    }

    void run_layers(std::size_t first, std::size_t last, std::size_t thread) {
        const std::size_t begin = model_.layers[first].output_offset;
        const LayerPlan& end = model_.layers[last - 1];
        prefetch_output(values(0) + begin, end.output_offset + end.weight.rows - begin);
        Inputs inputs{};
        for (std::size_t number = first; number < last; ++number) {
            const LayerPlan& layer = model_.layers[number];
            if (number == first || !layer.same_inputs) inputs = inputs_of(layer, thread);
            run_layer(layer, 0, layer.weight.panel_count(), inputs, thread);
        }
    }

    void gather(const CoefficientPlan& plan) {
        float* to = scratch_.coefficients.data() + plan.offset * scratch_.batch_poses;
        for (std::size_t pose = 0; pose < poses_.count; ++pose)
            gather(plan, pose, to + pose * plan.count);
    }

    void gather(const CoefficientPlan& plan, std::size_t pose, float* to) {
        sum_writers(plan, values(pose), to);
        if (!model_.is_bounded()) return;
        const float *low = model_.coefficient_low.data() + plan.offset,
                    *high = model_.coefficient_high.data() + plan.offset, *fade = fades(pose);
        const std::uint32_t* group = model_.coefficient_group.data() + plan.offset;
        if (plan.one_group && plan.count) {
            const float all = fade[group[0]];
            for (std::size_t p = 0; p < plan.count; ++p)
                to[p] = std::min(std::max(to[p], low[p]), high[p]) * all;
            return;
        }
        for (std::size_t p = 0; p < plan.count; ++p)
            to[p] = std::min(std::max(to[p], low[p]), high[p]) * fade[group[p]];
    }

    static void sum_writers(const CoefficientPlan& plan, const float* from, float* to) {
        for (std::size_t p = 0; p < plan.count; ++p) {
            if (plan.one_writer_each) {
                to[p] = from[plan.writers[p]];
                continue;
            }
            float sum = 0;
            for (std::uint32_t at = plan.ranges[p].first; at != plan.ranges[p].last; ++at)
                sum += from[plan.writers[at]];
            to[p] = sum;
        }
    }

    Inputs coefficients_of(std::size_t number) {
        const CoefficientPlan& plan = model_.coefficients[number];
        if (poses_.coefficients)
            return {poses_.coefficients + plan.offset, model_.bases[number].matrix.columns};
        if (plan.contiguous) return {values(0) + plan.writers[0], scratch_.value_stride};
        return {scratch_.coefficients.data() + plan.offset * scratch_.batch_poses,
                model_.bases[number].matrix.columns};
    }

    void run_basis(std::size_t number, std::size_t first, std::size_t last, std::size_t thread) {
        const BasisPlan& basis = model_.bases[number];
        const Inputs inputs = coefficients_of(number);
        float* out = scratch_.displacements.data() + basis.offset;
        const std::size_t row = first * Panels::kRows, height = basis.matrix.rows_of(first, last),
                          axes = basis.shared ? 3 : 1;
        prefetch_output(out + axes * row, axes * height);
        Product product{inputs.x,
                        inputs.stride,
                        poses_.count,
                        nullptr,
                        Activation::linear,
                        out,
                        scratch_.displacement_stride};
        if (!basis.shared) return kernels_.dense(basis.matrix, first, last, product);
        // x, y and z are computed as three poses, then interleaved.
        float* planes = scratch_.planes.data() + thread * scratch_.plane_stride;
        product.poses = 3 * poses_.count;
        product.y = planes - row;
        product.y_stride = height;
        kernels_.dense(basis.matrix, first, last, product);
        const std::size_t used =
            std::min(height, basis.vertex_count - std::min(basis.vertex_count, row));
        for (std::size_t pose = 0; pose < poses_.count; ++pose) {
            const float* plane = planes + 3 * pose * height;
            float* to = out + pose * scratch_.displacement_stride + 3 * row;
            for (std::size_t n = 0; n < used; ++n)
                for (std::size_t axis = 0; axis < 3; ++axis)
                    to[3 * n + axis] = plane[axis * height + n];
        }
    }

    void blend_virtual_bones(std::size_t first, std::size_t last) {
        assert(first % kWeightRows == 0);
        BlendJob job{model_.virtual_bones, model_.virtual_columns.data(), model_.bone_count()};
        for (std::size_t pose = 0; pose < poses_.count; ++pose) {
            job.transforms = bone_transforms(pose);
            job.out = transforms(pose);
            if (model_.virtual_columns.empty()) kernels_.blend(job, first, last);
            else kernels_.blend_dense(job, first, last);
        }
    }

    // Splits each transform into a stretch and a rigid motion: see `skin_dual_quaternion`.
    void split_transforms(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_.count; ++pose)
            for (std::size_t number = first; number < last; ++number)
                split_transform(transforms(pose) + 16 * number,
                                scratch_.dual_quaternions.data() +
                                    pose * scratch_.transform_stride + 16 * number);
    }

    static void split_transform(const float* columns, float* to) {
        double x[9], rotation[9], stretch[9], q[4];
        for (int row = 0; row < 3; ++row)
            for (int column = 0; column < 3; ++column)
                x[3 * row + column] = columns[4 * column + row];
        polar(x, rotation, stretch);
        quaternion_of(rotation, q);
        const double shift[3] = {columns[12], columns[13], columns[14]};
        const double dual[4] = {-0.5 * (shift[0] * q[1] + shift[1] * q[2] + shift[2] * q[3]),
                                0.5 * (shift[0] * q[0] + shift[1] * q[3] - shift[2] * q[2]),
                                0.5 * (shift[1] * q[0] + shift[2] * q[1] - shift[0] * q[3]),
                                0.5 * (shift[2] * q[0] + shift[0] * q[2] - shift[1] * q[1])};
        for (int i = 0; i < 4; ++i) {
            to[i] = static_cast<float>(q[i]);
            to[4 + i] = static_cast<float>(dual[i]);
        }
        const int upper[6] = {0, 1, 2, 4, 5, 8};
        for (int i = 0; i < 8; ++i)
            to[8 + i] = i < 6 ? static_cast<float>(stretch[upper[i]]) : 0.0f;
    }

    void move_vertices(std::size_t first, std::size_t last, std::size_t thread) {
        assert(first % kTaskVertices == 0 && last - first <= kTaskVertices);
        const bool dual = about_.skinned && about_.blend == Blend::dual_quaternion;
        VertexJob job = model_.is_quantized() ? dequantized_job(first, last, thread)
                                              : model_.vertex_job(first, last);
        for (std::size_t pose = 0; pose < poses_.count; ++pose) {
            job.displacements = scratch_.displacements.data() + pose * scratch_.displacement_stride;
            job.transforms =
                dual ? scratch_.dual_quaternions.data() + pose * scratch_.transform_stride
                     : transforms(pose);
            job.centre = centre(pose);
            set_output(first, last, pose, thread, job);
            if (model_.is_quantized())
                kernels_.dequantize_points(model_.quantized, first, last, model_.slots.data(),
                                           job.displacements,
                                           scratch_.dequantized[thread].points.data());
            (dual ? kernels_.skin_dual_quaternion : kernels_.skin_linear)(job);
            if (poses_.target && job.positions)
                write_further_copies(first, last, job.positions + 3 * job.first);
        }
    }

    // Positions go to `Poses::positions`, to the render target, or to both. Without the first, the
    // further copies of a render mesh are made from positions of this task that stay in the cache.
    void set_output(std::size_t first, std::size_t last, std::size_t pose, std::size_t thread,
                    VertexJob& job) {
        float* out = nullptr;
        if (poses_.positions) out = poses_.positions + 3 * (model_.vertex_count() * pose + first);
        else if (job.slot_starts || has_further_copies(first, last))
            out = scratch_.task_positions.data() + thread * Scratch::kTaskPositions;
        job.positions = out ? out - 3 * job.first : nullptr;
        if (!poses_.target) return;
        const understudy_vertex_buffer& to = poses_.target->buffer;
        job.interleaved = {
            static_cast<char*>(to.positions) + (first - job.first) * to.position_stride,
            to.position_stride};
    }
};

}  // namespace

Poses Poses::part(const Model& model, std::size_t first, std::size_t number) const {
    const std::size_t bones = 12 * model.bone_count(),
                      controls_per_pose = model.description.control_count(),
                      floats = 3 * model.vertex_count();
    return {number,
            world_from_bone ? world_from_bone + bones * first : nullptr,
            controls ? controls + controls_per_pose * first : nullptr,
            positions ? positions + floats * first : nullptr,
            normals ? normals + floats * first : nullptr,
            target,
            coefficients};
}

namespace {

// Calls use(pool). A pool that another call holds, or that has a single thread, is not used.
template <class Use>
void with_pool(const Scratch& scratch, const Use& use) {
    Pool* pool = scratch.pool && scratch.pool->threads() > 1 && scratch.pool->acquire()
                     ? scratch.pool
                     : nullptr;
    if (pool) pool->wake();
    use(pool);
    if (pool) pool->release();
}

}  // namespace

void deform(const Model& model, Scratch& scratch, const Kernels& kernels, const Poses& poses) {
    with_pool(scratch, [&](Pool* pool) {
        for (std::size_t first = 0, count; first < poses.count; first += count) {
            const bool lanes = scratch.lanes && poses.count - first >= kLanes;
            count = lanes ? kLanes : std::min(scratch.serial_poses, poses.count - first);
            const Poses batch = poses.part(model, first, count);
            if (kOnePose || !lanes) SerialBatch(model, scratch, kernels, batch).run(pool);
            else LaneBatch(model, scratch, kernels, batch).run(pool);
        }
    });
}

void compute_coefficients(const Model& model, Scratch& scratch, const Kernels& kernels,
                          const Poses& pose, float* coefficients) {
    with_pool(scratch, [&](Pool* pool) {
        SerialBatch(model, scratch, kernels, pose).run_to_coefficients(pool, coefficients);
    });
}

float compute_distance(const Model& model, Scratch& scratch, const Kernels& kernels,
                       const Poses& pose) {
    return model.is_bounded() ? SerialBatch(model, scratch, kernels, pose).run_to_distance() : 0;
}

void compute_transforms(const Model& model, Scratch& scratch, const Kernels& kernels,
                        const Poses& pose, float* transforms) {
    with_pool(scratch, [&](Pool* pool) {
        SerialBatch(model, scratch, kernels, pose).run_to_transforms(pool, transforms);
    });
}

}  // namespace understudy
