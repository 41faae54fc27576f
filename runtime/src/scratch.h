// The memory that one call writes besides its output, for one batch of poses.
#pragma once

#include <vector>

#include "memory.h"
#include "model.h"
#include "pool.h"

namespace understudy {

// The vertices of one job of a quantized model.
struct DequantizedVertices {
    AlignedBytes points, influences, influence_starts, slot_starts, slots;
};

struct Scratch {
    static constexpr std::size_t kCentre = 16;  // floats per pose: see `VertexJob::centre`

    Scratch(const Model& model, Pool* pool);

    const Model& model;
    Pool* const pool;

    // Poses that go through the products together, so that each weight is read once for all of
    // them. There are 16 unless that would take too much memory; then there are fewer and no lanes.
    bool lanes;                // 16 poses run as a lane batch
    std::size_t serial_poses;  // most poses of a serial batch
    std::size_t batch_poses;   // most poses of either
    std::size_t normal_poses;  // poses whose normals are computed together

    // Per pose, `*_stride` floats apart.
    std::size_t feature_stride, value_stride, displacement_stride, transform_stride, bone_stride,
        normal_stride;
    AlignedBytes features, values, displacements, bones, transforms, dual_quaternions, face_normals;
    AlignedBytes centres;
    AlignedBytes coefficients;  // basis after basis; per basis, of all poses of a batch
    // Lane batches only. `values` serves both kinds of batch.
    AlignedBytes lane_features, lane_bones, lane_transforms, lane_centres;

    // Per thread, `*_stride` items apart.
    std::size_t gather_stride, plane_stride, inverse_stride, tile_stride, wide_bias_stride;
    AlignedBytes gathered, planes, tile_displacements, wide_biases;
    AlignedBytes inverses;                         // 12 doubles per bone
    std::vector<DequantizedVertices> dequantized;  // empty unless the model is quantized
};

}  // namespace understudy
