// The equations at the top of deformer.py, on packed weights and several threads.
#pragma once

#include "scratch.h"

namespace understudy {

// Positions, and normals where wanted, of `poses` poses. Bones and controls are finite and there where the model needs them.
void deform(const Model& model, Scratch& scratch, const Kernels& use, std::size_t poses, const double* world_from_bone, const double* controls,
            float* positions, float* normals);

}  // namespace understudy
