// The memory that one call writes besides its output, for one batch of poses.
#pragma once

#include "memory.h"
#include "model.h"
#include "pool.h"
#include "render_mesh.h"

namespace understudy {

// A build for hosts that play single poses, such as web pages: every batch has one pose, which
// takes less memory and less code.
#if defined(UNDERSTUDY_ONE_POSE)
constexpr bool kOnePose = true;
#else
constexpr bool kOnePose = false;
#endif

// The vertices of one job of a quantized model.
struct DequantizedVertices {
    explicit DequantizedVertices(const Memory& memory)
        : points(memory),
          influences(memory),
          influence_starts(memory),
          slot_starts(memory),
          slots(memory) {}

    AlignedArray<float> points;
    AlignedArray<Influence> influences;
    AlignedArray<std::uint32_t> influence_starts, slot_starts, slots;
};

struct Scratch {
    static constexpr std::size_t kCentre = 16;  // floats per pose: see `VertexJob::centre`

    // `allocate` must succeed before it is used.
    Scratch(const Model& given, Pool* helpers)
        : model(given), pool(helpers), memory(given.memory) {}
    // For `understudy_deform_render` too. `mesh` is nullptr: render vertices are the vertices.
    Scratch(const Model& given, Pool* helpers, const RenderMesh* mesh)
        : model(given), pool(helpers), memory(given.memory), renders(true), render_mesh(mesh) {}
    [[nodiscard]] bool allocate();

    const Model& model;
    Pool* const pool;
    const Memory memory;  // a copy: the model may be freed first
    const bool renders = false;
    const RenderMesh* const render_mesh = nullptr;

    // Poses that go through the products together, so that each weight is read once for all of
    // them. There are 16 unless that would take too much memory; then there are fewer and no lanes.
    bool lanes = false;            // 16 poses run as a lane batch
    std::size_t serial_poses = 0;  // most poses of a serial batch
    std::size_t batch_poses = 0;   // most poses of either
    std::size_t normal_poses = 0;  // poses whose normals are computed together

    // Per pose, `*_stride` floats apart.
    std::size_t feature_stride = 0, value_stride = 0, displacement_stride = 0, transform_stride = 0,
                bone_stride = 0, normal_stride = 0, fade_stride = 0;
    using Floats = AlignedArray<float>;
    Floats features{memory}, values{memory}, displacements{memory}, bones{memory},
        transforms{memory}, dual_quaternions{memory}, face_normals{memory}, centres{memory},
        fades{memory};
    Floats coefficients{memory};  // basis after basis; per basis, of all poses of a batch
    // Lane batches only. `values` serves both kinds of batch.
    Floats lane_features{memory}, lane_bones{memory}, lane_transforms{memory}, lane_centres{memory},
        lane_fades{memory};

    // Per thread, `*_stride` items apart.
    std::size_t gather_stride = 0, plane_stride = 0, inverse_stride = 0, tile_stride = 0,
                wide_bias_stride = 0, unit_stride = 0;
    Floats readings{memory}, unit_fades{memory};  // of the bounds; `feature_stride` apart
    Floats gathered{memory}, planes{memory}, tile_displacements{memory}, wide_biases{memory};
    // Rendering only: all positions of the pose, tangents of the triangles, and per thread the
    // positions of one task.
    Floats render_positions{memory}, face_tangents{memory}, task_positions{memory};
    static constexpr std::size_t kTaskPositions = 3 * kTaskVertices + kWidestRegister;
    AlignedArray<double> inverses{memory};           // 12 per bone
    Array<DequantizedVertices> dequantized{memory};  // empty unless the model is quantized

private:
    bool allocate_dequantized(std::size_t threads);
};

}  // namespace understudy
