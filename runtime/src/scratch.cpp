#include "scratch.h"

#include <algorithm>
#include <initializer_list>

#include "checked.h"
#include "lane_batch.h"

namespace understudy {
namespace {

// Below this much memory a batch always has 16 poses; above, it may use a multiple of the file.
constexpr std::size_t kAlwaysAllowed = std::size_t{64} << 20, kTimesTheFile = 16;

// Kernels may read one float beyond a displacement, and poses must not share a cache line.
std::size_t stride_of(std::size_t count) { return padded(added(count, 17), 16); }

AlignedBytes float_array(std::size_t count) { return AlignedBytes(multiplied(4, count), false); }

std::size_t sum_of(std::initializer_list<std::size_t> counts) {
    std::size_t sum = 0;
    for (const std::size_t count : counts) sum = added(sum, count);
    return sum;
}

// The poses, 1 to 16, of which `floats` floats each fit into `bytes`.
std::size_t poses_within(std::size_t bytes, std::size_t floats) {
    return std::min(std::max<std::size_t>(1, bytes / 4 / std::max<std::size_t>(1, floats)), kLanes);
}

}  // namespace

Scratch::Scratch(const Model& given, Pool* helpers) : model(given), pool(helpers) {
    const Description& about = *given.description;
    const std::size_t threads = static_cast<std::size_t>(pool ? pool->threads() : 1);
    const bool dual = about.blend == Blend::dual_quaternion;
    feature_stride = stride_of(about.feature_columns.size());
    value_stride = stride_of(given.value_count);
    displacement_stride = stride_of(given.displacement_count);
    transform_stride = stride_of(multiplied(16, given.transform_count));
    bone_stride = stride_of(multiplied(16, given.bone_count()));
    normal_stride = stride_of(about.triangles.size());
    const std::size_t coefficient_stride = stride_of(given.coefficient_count);

    const std::size_t allowed =
        std::max(kAlwaysAllowed, multiplied(kTimesTheFile, about.file_size));
    const std::size_t shared_floats =
        sum_of({feature_stride, value_stride, bone_stride, transform_stride, coefficient_stride});
    serial_poses = poses_within(
        allowed / 2, sum_of({shared_floats, displacement_stride, dual ? transform_stride : 0}));
    normal_poses = poses_within(allowed / 2, normal_stride);
    tile_stride = stride_of(multiplied(kLanes, given.widest_tile));
    const std::size_t lane_floats =
        added(multiplied(kLanes, sum_of({shared_floats, feature_stride, bone_stride,
                                         given.virtual_count ? transform_stride : 0})),
              multiplied(threads, tile_stride));
    lanes = LaneBatch::can_play(about) && multiplied(4, lane_floats) <= allowed;
    if (!lanes) tile_stride = 0;
    batch_poses = lanes ? kLanes : serial_poses;

    const auto per_batch = [&](std::size_t stride) {
        return float_array(multiplied(batch_poses, stride));
    };
    features = per_batch(feature_stride);
    values = per_batch(value_stride);
    bones = per_batch(bone_stride);
    transforms = per_batch(transform_stride);
    centres = per_batch(kCentre);
    coefficients = float_array(stride_of(multiplied(batch_poses, given.coefficient_count)));
    displacements = float_array(multiplied(serial_poses, displacement_stride));
    if (dual) dual_quaternions = float_array(multiplied(serial_poses, transform_stride));
    face_normals = float_array(multiplied(normal_poses, normal_stride));
    if (lanes) {
        lane_features = per_batch(feature_stride);
        lane_bones = per_batch(std::max(bone_stride, stride_of(16)));
        if (given.virtual_count) lane_transforms = per_batch(transform_stride);
        lane_centres = per_batch(kCentre);
    }

    gather_stride = stride_of(multiplied(batch_poses, given.widest_gather));
    plane_stride = stride_of(multiplied(3 * serial_poses, given.tallest_shared));
    inverse_stride = stride_of(multiplied(12, given.bone_count()));
    wide_bias_stride = stride_of(given.tallest_half_bias);
    gathered = float_array(multiplied(threads, gather_stride));
    planes = float_array(multiplied(threads, plane_stride));
    tile_displacements = float_array(multiplied(threads, tile_stride));
    inverses = float_array(multiplied(2 * threads, inverse_stride));
    wide_biases = float_array(multiplied(threads, wide_bias_stride));
    for (std::size_t thread = 0; given.is_quantized() && thread < threads; ++thread)
        dequantized.push_back({float_array(stride_of(multiplied(3, given.most_vertices))),
                               float_array(stride_of(multiplied(2, given.most_influences))),
                               float_array(stride_of(given.most_vertices)),
                               float_array(stride_of(given.most_vertices)),
                               float_array(stride_of(given.most_slots))});
}

}  // namespace understudy
