// Everything one call writes besides its output, for up to `kBlock` poses at a time.
#pragma once

#include <vector>

#include "memory.h"
#include "model.h"
#include "pool.h"

namespace understudy {

// What packed vertices of one job become.
struct Unpacked {
    AlignedBytes points, influences, influence_starts, slot_starts, slots;
};

struct Scratch {
    // Poses that go through the matrix products together: each weight is read once for all of them.
    static constexpr std::size_t kBlock = kLanes;
    static constexpr std::size_t kCentre = 16;  // floats per pose: what is added to positions, see `VertexJob`

    Scratch(const Model& model, Pool* pool);

    const Model& model;
    Pool* const pool;

    // Per pose, `*_stride` floats apart.
    std::size_t feature_stride, value_stride, displacement_stride, transform_stride, bone_stride, normal_stride;
    AlignedBytes features, values, displacements, bones, transforms, dual_quaternions, face_normals;
    AlignedBytes centres;
    AlignedBytes coefficients;  // basis after basis, of all poses of each
    AlignedBytes lane_features, lane_bones, lane_transforms, lane_centres;  // of `Crowd`; values serve both ways of working
    // Per thread.
    std::size_t gather_stride, plane_stride, inverse_stride, window_stride;
    AlignedBytes gathered, planes, window_displacements;
    AlignedBytes inverses;  // 12 doubles per bone
    AlignedBytes wide_biases;
    std::size_t wide_bias_stride;
    std::vector<Unpacked> unpacked;  // empty where the model's vertices are not packed
};

}  // namespace understudy
