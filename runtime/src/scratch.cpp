#include "scratch.h"

#include <algorithm>

namespace understudy {
namespace {

// Kernels may read one float beyond a displacement, and poses must not share a cache line.
std::size_t stride_of(std::size_t count) { return (count + 32) / 16 * 16; }

AlignedBytes float_array(std::size_t count) { return AlignedBytes(4 * count, false); }

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
      features(float_array(kBatch * feature_stride)),
      values(float_array(kBatch * value_stride)),
      displacements(float_array(kBatch * displacement_stride)),
      bones(float_array(kBatch * bone_stride)),
      transforms(float_array(kBatch * transform_stride)),
      dual_quaternions(given.description->blend == Blend::dual_quaternion
                           ? float_array(kBatch * transform_stride)
                           : AlignedBytes()),
      face_normals(float_array(kBatch * normal_stride)),
      centres(float_array(kBatch * kCentre)),
      coefficients(float_array(stride_of(kBatch * given.coefficient_count))),
      lane_features(float_array(kLanes * feature_stride)),
      lane_bones(float_array(kLanes * std::max(bone_stride, stride_of(16)))),
      lane_transforms(given.virtual_count ? float_array(kLanes * transform_stride)
                                          : AlignedBytes()),
      lane_centres(float_array(kLanes * kCentre)),
      gather_stride(stride_of(kBatch * given.widest_gather)),
      plane_stride(stride_of(3 * kBatch * given.tallest_shared)),
      inverse_stride(stride_of(12 * given.bone_count())),
      tile_stride(stride_of(kLanes * given.widest_tile)),
      wide_bias_stride(stride_of(given.tallest_half_bias)) {
    const std::size_t threads = static_cast<std::size_t>(pool ? pool->threads() : 1);
    gathered = float_array(threads * gather_stride);
    planes = float_array(threads * plane_stride);
    tile_displacements = float_array(threads * tile_stride);
    inverses = AlignedBytes(threads * inverse_stride * sizeof(double), false);
    wide_biases = float_array(threads * wide_bias_stride);
    for (std::size_t thread = 0; given.is_quantized() && thread < threads; ++thread)
        dequantized.push_back({float_array(stride_of(3 * given.most_vertices)),
                               float_array(stride_of(2 * given.most_influences)),
                               float_array(stride_of(given.most_vertices)),
                               float_array(stride_of(given.most_vertices)),
                               float_array(stride_of(given.most_slots))});
}

}  // namespace understudy
