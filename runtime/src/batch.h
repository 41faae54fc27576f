// One batch of poses: what `SerialBatch` (pose after pose) and `LaneBatch` (16 in lanes) share.
#pragma once

#include <algorithm>

#include "deform.h"

namespace understudy {

class Batch {
public:
    Batch(const Model& model, Scratch& scratch, const Kernels& kernels, const Poses& poses)
        : model_(model),
          about_(model.description),
          scratch_(scratch),
          kernels_(kernels),
          poses_(poses) {}

protected:
    ~Batch() = default;

    // Runs all phases; `last_phases` are those that differ between the kinds of batch. prepared()
    // is called when every pose has its features and transforms.
    template <class Prepared, class RunTask>
    void run(Pool* pool, const Phases& last_phases, const Prepared& prepared,
             const RunTask& run_task) {
        const std::size_t poses = poses_.count;
        const bool has_features =
            (!about_.feature_columns.empty() || model_.is_bounded()) && !poses_.coefficients;
        const std::size_t jobs = has_features ? 2 * poses : poses;
        parallel_for(pool, jobs, [&](std::size_t job, std::size_t thread) {
            if (job < poses) compute_transforms(job);
            else compute_features(job - poses, thread);
        });
        prepared();
        for (const Phases* phases : {&model_.phases, &last_phases})
            for (std::size_t number = 0; number < phases->count(); ++number) {
                const Phases::Range phase = phases->phase(number);
                parallel_for(pool, phase.size, [&](std::size_t task, std::size_t thread) {
                    run_task(phase.tasks[task], thread);
                });
            }
        const bool has_directions = poses_.target && poses_.target->has_directions();
        if (!poses_.normals && !has_directions) return;
        for (std::size_t first = 0; first < poses; first += scratch_.normal_poses) {
            const std::size_t last = std::min(poses, first + scratch_.normal_poses);
            parallel_for(pool, model_.face_normal_tasks.size(), [&](std::size_t task, std::size_t) {
                compute_face_normals(model_.face_normal_tasks[task], first, last);
            });
            parallel_for(
                pool, model_.vertex_normal_tasks.size(), [&](std::size_t task, std::size_t) {
                    if (has_directions) render_directions(model_.vertex_normal_tasks[task]);
                    else compute_vertex_normals(model_.vertex_normal_tasks[task], first, last);
                });
        }
    }

    void compute_transforms(std::size_t pose);
    void compute_features(std::size_t pose, std::size_t thread);
    // The largest squared distance of a unit from the training poses. The pose of this thread is
    // the last one that `compute_features` was called for.
    float squared_distance(std::size_t thread);

    // Calls work(number, thread) for every number below `count`; `pool` may be nullptr.
    template <class Work>
    static void parallel_for(Pool* pool, std::size_t count, const Work& work) {
        const auto one = [&work](std::uint32_t number, int thread) {
            work(std::size_t{number}, static_cast<std::size_t>(thread));
        };
        if (pool) return pool->run(static_cast<std::uint32_t>(count), one);
        for (std::size_t number = 0; number < count; ++number) work(number, 0);
    }

    // The transforms that the skin refers to, and those of the bones. They are the same array
    // unless there are virtual bones.
    float* transforms(std::size_t pose) {
        return scratch_.transforms.data() + pose * scratch_.transform_stride;
    }
    float* bone_transforms(std::size_t pose) {
        return model_.virtual_count ? scratch_.bones.data() + pose * scratch_.bone_stride
                                    : transforms(pose);
    }
    float* features(std::size_t pose) {
        return scratch_.features.data() + pose * scratch_.feature_stride;
    }
    // One number per group of coefficients, then 1.
    float* fades(std::size_t pose) { return scratch_.fades.data() + pose * scratch_.fade_stride; }
    float* readings(std::size_t thread) {
        return scratch_.readings.data() + thread * scratch_.feature_stride;
    }
    float* centre(std::size_t pose) { return scratch_.centres.data() + pose * Scratch::kCentre; }

    // A layer's bias, of which rows first..first + count are valid.
    const float* bias_of(const LayerPlan& layer, std::size_t first, std::size_t count,
                         std::size_t thread) {
        if (layer.bias) return layer.bias;
        float* wide = scratch_.wide_biases.data() + thread * scratch_.wide_bias_stride;
        kernels_.widen(layer.half_bias + first, count, wide + first);
        return wide;
    }
    // `Model::vertex_job` for quantized vertices. The job's vertex 0 is `first`. Its base points
    // are still to be written; it has no slots.
    VertexJob dequantized_job(std::size_t first, std::size_t last, std::size_t thread);

    bool has_further_copies(std::size_t first, std::size_t last) const {
        const RenderMesh* mesh = poses_.target->mesh;
        return mesh && mesh->copy_starts[first] != mesh->copy_starts[last];
    }
    // Writes the further copies of vertices first..last to the render target.
    void write_further_copies(std::size_t first, std::size_t last, const float* positions);

    const Model& model_;
    const Description& about_;
    Scratch& scratch_;
    const Kernels& kernels_;
    const Poses poses_;

private:
    float squared_distance(std::size_t unit, const float* readings, float enough) const;
    void compute_fades(std::size_t pose, std::size_t thread);
    // Of poses first..last.
    void compute_face_normals(const Task& task, std::size_t first, std::size_t last);
    void compute_vertex_normals(const Task& task, std::size_t first, std::size_t last);
    // Normals and tangents of the render target, for a range of vertices.
    void render_directions(const Task& task);
    void render_normals(const Task& task);
    void compute_face_tangent(std::size_t face, const float* u, const float* v);
    void render_tangent(std::size_t number, const float* normal);
};

}  // namespace understudy
