// One block of poses on its way through the phases: what both ways of working share. `FewPoses` keeps pose after pose, `Crowd` 16 poses in lanes.
#pragma once

#include "scratch.h"

namespace understudy {

class Block {
public:
    Block(const Model& model, Scratch& scratch, const Kernels& use, std::size_t poses, const double* world_from_bone, const double* controls,
          float* positions, float* normals)
        : model_(model), about_(*model.description), scratch_(scratch), use_(use), poses_(poses), world_(world_from_bone), controls_(controls),
          positions_(positions), normals_(normals) {}

protected:
    ~Block() = default;

    // prepared(pool) is called when every pose has its features and transforms, run_task(task, thread) for every task of the model's phases, whose
    // last are `vertex_phases`.
    template <class Prepared, class RunTask>
    void run(Pool* pool, const Model::Phases& vertex_phases, const Prepared& prepared, const RunTask& run_task) {
        const std::size_t parts = about_.feature_columns.empty() ? 1 : 2;
        share(pool, parts * poses_, [this](std::size_t part, std::size_t thread) {
            if (part < poses_) place_bones(part);
            else find_features(part - poses_, thread);
        });
        prepared();
        for (const Model::Phases* phases : {&model_.phases, &vertex_phases})
            for (const std::vector<Task>& phase : *phases)
                share(pool, phase.size(), [&](std::size_t task, std::size_t thread) { run_task(phase[task], thread); });
        if (!normals_) return;
        share(pool, model_.face_normal_tasks.size(), [this](std::size_t task, std::size_t) { face_normals(model_.face_normal_tasks[task]); });
        share(pool, model_.vertex_normal_tasks.size(), [this](std::size_t task, std::size_t) { vertex_normals(model_.vertex_normal_tasks[task]); });
    }

    // work(number, thread) for every number below `count`, on the pool where there is one.
    template <class Work>
    static void share(Pool* pool, std::size_t count, const Work& work) {
        const auto one = [&work](std::uint32_t number, int thread) { work(std::size_t{number}, static_cast<std::size_t>(thread)); };
        if (pool) return pool->run(static_cast<std::uint32_t>(count), one);
        for (std::size_t number = 0; number < count; ++number) work(number, 0);
    }

    // What the skin of a pose points into, and where the bones' own transforms go: the same unless there are virtual bones.
    float* transforms(std::size_t pose) { return scratch_.transforms.as<float>() + pose * scratch_.transform_stride; }
    float* bone_transforms(std::size_t pose) {
        return model_.virtual_count ? scratch_.bones.as<float>() + pose * scratch_.bone_stride : transforms(pose);
    }
    float* features(std::size_t pose) { return scratch_.features.as<float>() + pose * scratch_.feature_stride; }
    float* centre(std::size_t pose) { return scratch_.centres.as<float>() + pose * Scratch::kCentre; }

    // Rows first..first + count of a layer's bias; the pointer is that of row 0.
    const float* bias_of(const LayerPlan& layer, std::size_t first, std::size_t count, std::size_t thread) {
        if (layer.bias) return layer.bias;
        float* wide = scratch_.wide_biases.as<float>() + thread * scratch_.wide_bias_stride;
        use_.widen(layer.half_bias + first, count, wide + first);
        return wide;
    }
    // `Model::vertex_job` for packed vertices, whose first is then the job's number 0. Its points are still to be placed, and have no slots.
    VertexJob unpacked_job(std::size_t first, std::size_t last, std::size_t thread);

    const Model& model_;
    const Description& about_;
    Scratch& scratch_;
    const Kernels& use_;
    const std::size_t poses_;
    const double* const world_;
    const double* const controls_;
    float* const positions_;
    float* const normals_;

private:
    void place_bones(std::size_t pose);
    void find_features(std::size_t pose, std::size_t thread);
    void face_normals(const Task& task);
    void vertex_normals(const Task& task);
};

}  // namespace understudy
