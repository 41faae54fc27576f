#include "deform.h"

#include <algorithm>
#include <cmath>

#include "affine.h"
#include "lane_batch.h"

namespace understudy {
namespace {

// A batch of 1 to 16 poses, one after the other in memory: a single pose, the remainder of many,
// and dual quaternions.
class SerialBatch : BatchSteps<OnePose> {
public:
    using BatchSteps::BatchSteps;

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
        switch (task.kind) {
            case Task::Kind::basis: return run_basis(task.what, task.first, task.last, thread);
            case Task::Kind::bases:
                for (std::size_t number = task.first; number < task.last; ++number)
                    run_basis(number, 0, model_.bases[number].matrix.panel_count(), thread);
                return;
            case Task::Kind::dual_quaternions: return split_transforms(task.first, task.last);
            case Task::Kind::vertices: return move_vertices(task.first, task.last, thread);
            default: return BatchSteps::run_task(task, thread);
        }
    }

    void run_basis(std::size_t number, std::size_t first, std::size_t last, std::size_t thread) {
        const BasisPlan& basis = model_.bases[number];
        const Inputs inputs = coefficients_of(number);
        const std::size_t row = first * Panels::kRows, height = basis.matrix.rows_of(first, last),
                          axes = basis.shared ? 3 : 1;
        float* out = scratch_.displacements.data() + basis.offset + axes * row;
        prefetch_output(out, axes * height);
        Product product{inputs.x,           inputs.stride, axes * poses_.count,         nullptr,
                        Activation::linear, out,           scratch_.displacement_stride};
        if (!basis.shared) return kernels_.dense(basis.matrix, row, row + height, product);
        // x, y and z are computed as three poses, then interleaved.
        float* planes = scratch_.planes.data() + thread * scratch_.plane_stride;
        product.y = planes;
        product.y_stride = height;
        kernels_.dense(basis.matrix, row, row + height, product);
        const std::size_t used =
            std::min(height, basis.vertex_count - std::min(basis.vertex_count, row));
        for (std::size_t pose = 0; pose < poses_.count; ++pose) {
            const float* plane = planes + 3 * pose * height;
            float* to = out + pose * scratch_.displacement_stride;
            for (std::size_t n = 0; n < used; ++n)
                for (std::size_t axis = 0; axis < 3; ++axis)
                    to[3 * n + axis] = plane[axis * height + n];
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
