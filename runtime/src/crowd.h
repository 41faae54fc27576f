// Sixteen poses of a crowd or a clip at once, one lane each: see kernels_lanes.h.
#pragma once

#include "block.h"

namespace understudy {

class Crowd : Block {
public:
    // Dual quaternions are blended pose by pose.
    static bool can_play(const Description& about) { return !about.skinned || about.blend == Blend::linear; }

    // Of exactly kLanes poses.
    using Block::Block;

    void run(Pool* pool);

private:
    void spread(Pool* pool);
    void run_task(const Task& task, std::size_t thread);
    const float* inputs_of(const LayerPlan& layer, std::size_t thread);
    void run_layer(const LayerPlan& layer, std::size_t first_panel, std::size_t last_panel, const float* x, std::size_t thread);
    void run_layers(std::size_t first, std::size_t last, std::size_t thread);
    void move_window(const Window& window, std::size_t thread);
    VertexJob window_job(const Window& window, std::size_t thread);
    void gather(const CoefficientPlan& plan);
    void run_basis(const BasisPart& part, const BasisPart* next, float* displacements);
    void blend_virtual_bones(const Task& task);

    float* values() { return scratch_.values.as<float>(); }
};

}  // namespace understudy
