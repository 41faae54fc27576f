// Plays a model: the equations at the top of core/deformer.py, on packed weights and on threads.
#pragma once

#include "scratch.h"

namespace understudy {

// The drivers of some poses and the arrays to fill, pose after pose. All numbers are finite;
// pointers that the model does not need are nullptr.
struct Poses {
    std::size_t count;
    const double* world_from_bone;
    const double* controls;
    float* positions;
    float* normals;  // nullptr: not wanted

    // Poses first..first + number of these, which are poses of `model`.
    Poses part(const Model& model, std::size_t first, std::size_t number) const;
};

void deform(const Model& model, Scratch& scratch, const Kernels& kernels, const Poses& poses);
// The coefficients of one pose, basis after basis: see `understudy_coefficients`.
void compute_coefficients(const Model& model, Scratch& scratch, const Kernels& kernels,
                          const Poses& pose, float* coefficients);
// The transforms that the skin refers to, of one pose: see `understudy_transforms`.
void compute_transforms(const Model& model, Scratch& scratch, const Kernels& kernels,
                        const Poses& pose, float* transforms);

}  // namespace understudy
