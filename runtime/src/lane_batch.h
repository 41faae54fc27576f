// A batch of exactly 16 poses, one lane each: see kernels_lanes.h.
#pragma once

#include "batch.h"

namespace understudy {

class LaneBatch : Batch {
public:
    // Whether lanes can play a deformer. Dual quaternions are blended pose by pose.
    static bool can_play(const Description& about) {
        return !kOnePose && (!about.skinned || about.blend == Blend::linear);
    }

    using Batch::Batch;

    void run(Pool* pool);

private:
    void fill_lanes(Pool* pool);
    void run_task(const Task& task, std::size_t thread);
    const float* inputs_of(const LayerPlan& layer, std::size_t thread);
    void run_layer(const LayerPlan& layer, std::size_t first_panel, std::size_t last_panel,
                   const float* x, std::size_t thread);
    void run_layers(std::size_t first, std::size_t last, std::size_t thread);
    void move_tile(const Tile& tile, std::size_t thread);
    VertexJob tile_job(const Tile& tile, std::size_t thread);
    void gather(const CoefficientPlan& plan);
    void sum_writers(const CoefficientPlan& plan, float* to);
    void run_span(const BasisSpan& span, const BasisSpan* next, float* displacements);
    void blend_virtual_bones(const Task& task);

    float* values() { return scratch_.values.data(); }
};

}  // namespace understudy
