// A batch of exactly 16 poses, one lane each: see kernels_lanes.h.
#pragma once

#include "batch_steps.h"

namespace understudy {

class LaneBatch : BatchSteps<SixteenPoses> {
public:
    // Whether lanes can play a deformer. Dual quaternions are blended pose by pose.
    static bool can_play(const Description& about) {
        return !kOnePose && (!about.skinned || about.blend == Blend::linear);
    }

    using BatchSteps::BatchSteps;

    void run(Pool* pool);

private:
    void fill_lanes(Pool* pool);
    void run_task(const Task& task, std::size_t thread);
    void move_tile(const Tile& tile, std::size_t thread);
    VertexJob tile_job(const Tile& tile, std::size_t thread);
    void run_span(const BasisSpan& span, const BasisSpan* next, float* displacements);
};

}  // namespace understudy
