#include "scratch.h"

#include <algorithm>

namespace understudy {
namespace {

// One float beyond a displacement may be read; and poses must not share a line of the cache.
std::size_t stride_of(std::size_t count) { return (count + 32) / 16 * 16; }

AlignedBytes floats(std::size_t count) { return AlignedBytes(4 * count, false); }

}  // namespace

Scratch::Scratch(const Model& given, Pool* helpers)
    : model(given),
      pool(helpers),
      feature_stride(stride_of(given.description->feature_columns.size())),
      value_stride(stride_of(given.value_count)),
      displacement_stride(stride_of(given.displacement_count)),
      transform_stride(stride_of(16 * given.transform_count)),
      bone_stride(stride_of(16 * given.bone_count())),
      normal_stride(stride_of(given.description->triangles.size())),
      features(floats(kBlock * feature_stride)),
      values(floats(kBlock * value_stride)),
      displacements(floats(kBlock * displacement_stride)),
      bones(floats(kBlock * bone_stride)),
      transforms(floats(kBlock * transform_stride)),
      dual_quaternions(given.description->blend == Blend::dual_quaternion ? floats(kBlock * transform_stride) : AlignedBytes()),
      face_normals(floats(kBlock * normal_stride)),
      centres(floats(kBlock * kCentre)),
      coefficients(floats(stride_of(kBlock * given.coefficient_count))),
      lane_features(floats(kLanes * feature_stride)),
      lane_bones(floats(kLanes * std::max(bone_stride, stride_of(16)))),
      lane_transforms(given.virtual_count ? floats(kLanes * transform_stride) : AlignedBytes()),
      lane_centres(floats(kLanes * kCentre)),
      gather_stride(stride_of(kBlock * given.widest_gather)),
      plane_stride(stride_of(3 * kBlock * given.tallest_shared)),
      inverse_stride(stride_of(12 * given.bone_count())),
      window_stride(stride_of(kLanes * given.widest_window)),
      wide_bias_stride(stride_of(given.tallest_half_bias)) {
    const std::size_t threads = static_cast<std::size_t>(pool ? pool->threads() : 1);
    gathered = floats(threads * gather_stride);
    planes = floats(threads * plane_stride);
    window_displacements = floats(threads * window_stride);
    inverses = AlignedBytes(threads * inverse_stride * sizeof(double), false);
    wide_biases = floats(threads * wide_bias_stride);
    for (std::size_t thread = 0; given.is_packed() && thread < threads; ++thread)
        unpacked.push_back({floats(stride_of(3 * given.most_vertices)), floats(stride_of(2 * given.most_influences)), floats(stride_of(given.most_vertices)),
                            floats(stride_of(given.most_vertices)), floats(stride_of(given.most_slots))});
}

}  // namespace understudy
