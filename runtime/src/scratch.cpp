#include "scratch.h"

#include <algorithm>
#include <initializer_list>

#include "lane_batch.h"
#include "padding.h"

namespace understudy {
namespace {

// Below this much memory a batch always has 16 poses; above, it may use a multiple of the file.
constexpr std::size_t kAlwaysAllowed = std::size_t{64} << 20, kTimesTheFile = 16;

std::size_t sum_of(std::initializer_list<std::size_t> counts) {
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum = added(sum, count);
    return sum;
}

// The poses, 1 to 16, of which `floats` floats each fit into `bytes`.
std::size_t poses_within(std::size_t bytes, std::size_t floats) {
    if (kOnePose) return 1;
    return std::min(std::max<std::size_t>(1, bytes / 4 / std::max<std::size_t>(1, floats)), kLanes);
}

}  // namespace

bool Scratch::allocate() {
    const Description& about = model.description;
    const std::size_t threads = static_cast<std::size_t>(pool ? pool->threads() : 1);
    const bool dual = about.blend == Blend::dual_quaternion;
    feature_stride = stride_of(about.feature_columns.size());
    value_stride = stride_of(model.value_count);
    displacement_stride = stride_of(model.displacement_count);
    transform_stride = stride_of(multiplied(16, model.transform_count));
    bone_stride = stride_of(multiplied(16, model.bone_count()));
    normal_stride = stride_of(about.triangles.size());
    fade_stride = stride_of(model.fade_count());
    unit_stride = stride_of(about.bounds.unit_count);
    const std::size_t coefficient_stride = stride_of(model.coefficient_count);

    const std::size_t allowed =
        std::max(kAlwaysAllowed, multiplied(kTimesTheFile, about.file_size));
    const std::size_t shared_floats = sum_of({feature_stride, value_stride, bone_stride,
                                              transform_stride, coefficient_stride, fade_stride});
    serial_poses = poses_within(
        allowed / 2, sum_of({shared_floats, displacement_stride, dual ? transform_stride : 0}));
    normal_poses = poses_within(allowed / 2, normal_stride);
    tile_stride = stride_of(multiplied(kLanes, model.widest_tile));
    const std::size_t lane_floats =
        added(multiplied(kLanes, sum_of({shared_floats, feature_stride, bone_stride, fade_stride,
                                         model.virtual_count ? transform_stride : 0})),
              multiplied(threads, tile_stride));
    lanes = LaneBatch::can_play(about) && multiplied(4, lane_floats) <= allowed;
    if (!lanes) tile_stride = 0;
    batch_poses = lanes ? kLanes : serial_poses;

    gather_stride = stride_of(multiplied(batch_poses, model.widest_gather));
    plane_stride = stride_of(multiplied(3 * serial_poses, model.tallest_shared));
    inverse_stride = stride_of(multiplied(12, model.bone_count()));
    wide_bias_stride = stride_of(model.tallest_half_bias);

    const auto take = [](auto& array, std::size_t count, std::size_t stride) {
        return array.resize_without_values(multiplied(count, stride));
    };
    return take(features, batch_poses, feature_stride) && take(values, batch_poses, value_stride) &&
           take(bones, batch_poses, bone_stride) &&
           take(transforms, batch_poses, transform_stride) && take(centres, batch_poses, kCentre) &&
           take(coefficients, 1, stride_of(multiplied(batch_poses, model.coefficient_count))) &&
           take(displacements, serial_poses, displacement_stride) &&
           take(dual_quaternions, dual ? serial_poses : 0, transform_stride) &&
           take(face_normals, normal_poses, normal_stride) &&
           take(lane_features, lanes ? kLanes : 0, feature_stride) &&
           take(lane_bones, lanes ? kLanes : 0, std::max(bone_stride, stride_of(16))) &&
           take(lane_transforms, lanes && model.virtual_count ? kLanes : 0, transform_stride) &&
           take(fades, batch_poses, fade_stride) &&
           take(lane_fades, lanes ? kLanes : 0, fade_stride) &&
           take(readings, model.is_bounded() ? threads : 0, feature_stride) &&
           take(unit_fades, threads, unit_stride) &&
           take(lane_centres, lanes ? kLanes : 0, kCentre) &&
           take(gathered, threads, gather_stride) && take(planes, threads, plane_stride) &&
           take(tile_displacements, threads, tile_stride) &&
           take(task_positions, renders ? threads : 0, kTaskPositions) &&
           take(render_positions, renders ? 1 : 0, stride_of(about.rest.size())) &&
           take(face_tangents, 1, render_mesh ? 3 * render_mesh->tangent_factors.size() : 0) &&
           take(inverses, threads, inverse_stride) &&
           take(wide_biases, threads, wide_bias_stride) && allocate_dequantized(threads);
}

bool Scratch::allocate_dequantized(std::size_t threads) {
    for (std::size_t thread = 0; model.is_quantized() && thread < threads; ++thread) {
        DequantizedVertices own(memory);
        const std::size_t vertices = stride_of(model.most_vertices);
        if (!own.points.resize_without_values(multiplied(3, vertices)) ||
            !own.influences.resize_without_values(stride_of(model.most_influences)) ||
            !own.influence_starts.resize_without_values(vertices) ||
            !own.slot_starts.resize_without_values(vertices) ||
            !own.slots.resize_without_values(stride_of(model.most_slots)) ||
            !dequantized.push(static_cast<DequantizedVertices&&>(own)))
            return false;
    }
    return true;
}

}  // namespace understudy
