#include "batch.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "affine.h"

namespace understudy {
namespace {

float dot(const float* a, const float* b) { return a[0] * b[0] + a[1] * b[1] + a[2] * b[2]; }

// Normalises a vector whose squares may not fit into a float. Zero stays zero.
void normalise_extreme(const float* sum, float* normal) {
    const double x = sum[0], y = sum[1], z = sum[2];
    const double length = std::sqrt(x * x + y * y + z * z);
    for (int axis = 0; axis < 3; ++axis)
        normal[axis] = length > 0 ? static_cast<float>(sum[axis] / length) : 0.0f;
}

void normalise(const float* sum, float* normal) {
    const float length = std::sqrt(dot(sum, sum));
    if (!(length > 1e-15f && length < 1e15f)) return normalise_extreme(sum, normal);
    const float scale = 1 / length;
    for (int axis = 0; axis < 3; ++axis) normal[axis] = scale * sum[axis];
}

// The sum of the normals (or tangents) of some triangles.
void sum_around(const float* faces, const std::uint32_t* at, const std::uint32_t* end, float* sum) {
    sum[0] = sum[1] = sum[2] = 0;
    for (; at != end; ++at)
        for (int axis = 0; axis < 3; ++axis) sum[axis] += faces[3 * std::size_t{*at} + axis];
}

// The place of an item in an interleaved buffer.
float* item_of(void* base, std::size_t stride, std::size_t number) {
    return reinterpret_cast<float*>(static_cast<char*>(base) + number * stride);
}

}  // namespace

// Transforms are relative to the root, because float32 cannot represent millimetres at a distance
// of ten kilometres. The root's position is added to the skinned vertices.
void Batch::compute_transforms(std::size_t pose) {
    const std::size_t bones = model_.bone_count();
    float* centre = this->centre(pose);
    std::fill(centre, centre + Scratch::kCentre, 0.0f);
    if (!bones) {
        static const float identity[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
        std::copy(identity, identity + 16, transforms(pose));
        return;
    }
    const double* world = poses_.world_from_bone + 12 * bones * pose;
    double root[3];
    for (int axis = 0; axis < 3; ++axis) {  // parents come first: bone 0 is a root
        root[axis] = world[4 * axis + 3];
        centre[axis] = static_cast<float>(root[axis]);
        centre[4 + axis] = static_cast<float>(root[axis] - centre[axis]);
    }
    float* columns = bone_transforms(pose);
    kernels_.prefetch_write(columns, 16 * bones);
    for (std::size_t bone = 0; bone < bones; ++bone) {
        double local[12], moved[12];
        std::copy(world + 12 * bone, world + 12 * bone + 12, local);
        for (int axis = 0; axis < 3; ++axis) local[4 * axis + 3] -= root[axis];
        compose(local, model_.bone_from_rest.data() + 12 * bone, moved);
        for (int column = 0; column < 4; ++column)
            for (int row = 0; row < 4; ++row)
                columns[16 * bone + 4 * column + row] =
                    row < 3 ? static_cast<float>(moved[4 * row + column]) : 0.0f;
    }
}

void Batch::compute_features(std::size_t pose, std::size_t thread) {
    const std::size_t bones = model_.bone_count();
    const double* world =
        poses_.world_from_bone ? poses_.world_from_bone + 12 * bones * pose : nullptr;
    const double* controls =
        poses_.controls ? poses_.controls + about_.control_count() * pose : nullptr;
    kernels_.prefetch_write(features(pose), about_.feature_columns.size());
    double* inverses = scratch_.inverses.data() + thread * scratch_.inverse_stride;
    for (std::size_t bone = 0; bone < bones; ++bone)
        if (model_.bone_is_inverted[bone]) bounded_invert(world + 12 * bone, inverses + 12 * bone);
    float* features = this->features(pose);
    float* bounded = model_.is_bounded() ? readings(thread) : nullptr;
    std::size_t known = bones;  // the bone whose transform is in `local`; features of one bone are
    double local[12];           // usually neighbours
    for (std::size_t i = 0; i < about_.feature_columns.size(); ++i) {
        const std::size_t column = static_cast<std::size_t>(about_.feature_columns[i]),
                          bone = column / 12;
        double raw;
        if (bone >= bones) {
            raw = controls[column - 12 * bones];
        } else {
            if (bone != known) {
                const std::int32_t parent = about_.frame_of(bone);
                if (parent < 0) std::copy(world + 12 * bone, world + 12 * bone + 12, local);
                else compose(inverses + 12 * parent, world + 12 * bone, local);
                known = bone;
            }
            raw = local[column - 12 * bone];
        }
        const float reading = static_cast<float>(raw);
        features[i] = std::min(std::max(reading, about_.feature_low[i]), about_.feature_high[i]);
        if (bounded) bounded[i] = std::min(std::max(reading, -kLargestFeature), kLargestFeature);
    }
    if (bounded) compute_fades(pose, thread);
}

// The squared distance of a unit from the nearest cluster of its training poses, or that from any
// cluster that is at most `enough`.
float Batch::squared_distance(std::size_t unit, const float* readings, float enough) const {
    const Bounds& bounds = about_.bounds;
    const std::size_t width = bounds.features_per_unit;
    const std::int32_t* features = bounds.features.data() + unit * width;
    const float *scale = bounds.scale.data() + unit * width,
                *centre = bounds.centres.data() + unit * width * bounds.cluster_count;
    float nearest = std::numeric_limits<float>::infinity();
    for (std::size_t k = 0; k < bounds.cluster_count; ++k, centre += width) {
        const auto term = [&](std::size_t d) {
            const float off = readings[features[d]] - centre[d];
            return off * off * scale[d];
        };
        float sums[3] = {};  // that do not wait for each other
        std::size_t d = 0;
        for (; d + 3 <= width; d += 3)
            for (std::size_t i = 0; i < 3; ++i) sums[i] += term(d + i);
        for (; d < width; ++d) sums[0] += term(d);
        nearest = std::min(nearest, sums[0] + sums[1] + sums[2]);
        if (nearest <= enough) break;
    }
    return nearest;
}

float Batch::squared_distance(std::size_t thread) {
    float largest = 0;
    for (std::size_t unit = 0; unit < about_.bounds.unit_count; ++unit)
        largest = std::max(largest, squared_distance(unit, readings(thread), -1));
    return largest;
}

void Batch::compute_fades(std::size_t pose, std::size_t thread) {
    const Bounds& bounds = about_.bounds;
    float *of_units = scratch_.unit_fades.data() + thread * scratch_.unit_stride,
          *fades = this->fades(pose);
    const float end = bounds.fade_end * bounds.fade_end, slope = 1 / (end - 1);
    float least = 1;
    for (std::size_t unit = 0; unit < bounds.unit_count; ++unit) {
        // Most poses are inside the first cluster: nothing fades up to 1.
        const float distance = squared_distance(unit, readings(thread), 1),
                    s = std::min(std::max((end - distance) * slope, 0.0f), 1.0f);
        of_units[unit] = s * s * (3 - 2 * s);
        least = std::min(least, s);
    }
    std::fill(fades, fades + bounds.group_count + 1, 1.0f);
    if (least == 1) return;  // inside the data
    const std::int32_t* unit = bounds.units.data();
    for (std::size_t group = 0; group < bounds.group_count; ++group)
        for (std::size_t n = 0; n < bounds.units_per_group; ++n)
            fades[group] = std::min(fades[group], of_units[*unit++]);
}

VertexJob Batch::dequantized_job(std::size_t first, std::size_t last, std::size_t thread) {
    assert(first % QuantizedVertices::kBlock == 0 && last - first <= model_.most_vertices);
    DequantizedVertices& to = scratch_.dequantized[thread];
    kernels_.dequantize_influences(model_.quantized, first, last, to.influences.data(),
                                   to.influence_starts.data());
    VertexJob job{};
    job.last = last - first;
    job.base = to.points.data();
    job.skin = {to.influences.data(), to.influence_starts.data(),
                static_cast<std::uint32_t>(model_.quantized.width)};
    job.rigid_quads = model_.rigid_quads.data() + first / 4;
    return job;
}

// The length of a face's normal is twice its area, so that the sum at a vertex is weighted by area.
void Batch::compute_face_normals(const Task& task, std::size_t first, std::size_t last) {
    for (std::size_t pose = first; pose < last; ++pose) {
        const float* positions = poses_.positions + 3 * model_.vertex_count() * pose;
        float* normals = scratch_.face_normals.data() + (pose - first) * scratch_.normal_stride;
        for (std::size_t face = task.first; face < task.last; ++face) {
            const std::int32_t* corner = about_.triangles.data() + 3 * face;
            const float* a = positions + 3 * static_cast<std::size_t>(corner[0]);
            const float* b = positions + 3 * static_cast<std::size_t>(corner[1]);
            const float* c = positions + 3 * static_cast<std::size_t>(corner[2]);
            const float u[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
            const float v[3] = {c[0] - a[0], c[1] - a[1], c[2] - a[2]};
            normals[3 * face] = u[1] * v[2] - u[2] * v[1];
            normals[3 * face + 1] = u[2] * v[0] - u[0] * v[2];
            normals[3 * face + 2] = u[0] * v[1] - u[1] * v[0];
            if (poses_.target && poses_.target->buffer.tangents) compute_face_tangent(face, u, v);
        }
    }
}

void Batch::compute_vertex_normals(const Task& task, std::size_t first, std::size_t last) {
    for (std::size_t pose = first; pose < last; ++pose) {
        const float* faces = scratch_.face_normals.data() + (pose - first) * scratch_.normal_stride;
        float* normals = poses_.normals + 3 * model_.vertex_count() * pose;
        for (std::size_t vertex = task.first; vertex < task.last; ++vertex) {
            const std::uint32_t* around = model_.around.data();
            float sum[3];
            sum_around(faces, around + model_.around_starts[vertex],
                       around + model_.around_starts[vertex + 1], sum);
            normalise(sum, normals + 3 * vertex);
        }
    }
}

void Batch::write_further_copies(std::size_t first, std::size_t last, const float* positions) {
    const RenderMesh* mesh = poses_.target->mesh;
    if (!mesh) return;
    const understudy_vertex_buffer& to = poses_.target->buffer;
    const std::size_t begin = mesh->copy_starts[first], end = mesh->copy_starts[last];
    kernels_.copy_positions(
        positions - 3 * first, mesh->vertices.data() + begin, end - begin,
        {static_cast<char*>(to.positions) + begin * to.position_stride, to.position_stride});
}

void Batch::compute_face_tangent(std::size_t face, const float* u, const float* v) {
    const RenderMesh::TangentFactors factors = poses_.target->mesh->tangent_factors[face];
    float* tangent = scratch_.face_tangents.data() + 3 * face;
    for (int axis = 0; axis < 3; ++axis)
        tangent[axis] = factors.first * u[axis] + factors.second * v[axis];
}

void Batch::render_directions(const Task& task) {
    const understudy_vertex_buffer to = poses_.target->buffer;
    const RenderMesh* mesh = poses_.target->mesh;
    if (!to.tangents && (!mesh || mesh->has_one_normal_each())) return render_normals(task);
    const float* faces = scratch_.face_normals.data();
    const std::uint32_t *starts = mesh->group_around_starts.data(),
                        *around = mesh->group_around.data(), *groups = mesh->vertex_groups.data(),
                        *copies = mesh->group_starts.data();
    const auto write = [&](std::size_t number, const float* normal) {
        if (to.normals) {
            float* out = item_of(to.normals, to.normal_stride, number);
            for (int axis = 0; axis < 3; ++axis) out[axis] = normal[axis];
        }
        if (to.tangents) render_tangent(number, normal);
    };
    for (std::size_t vertex = task.first; vertex < task.last; ++vertex)
        for (std::size_t group = groups[vertex]; group < groups[vertex + 1]; ++group) {
            float sum[3], normal[3];
            sum_around(faces, around + starts[group], around + starts[group + 1], sum);
            normalise(sum, normal);
            if (group == groups[vertex]) write(vertex, normal);
            for (std::size_t n = copies[group]; n < copies[group + 1]; ++n) write(n, normal);
        }
}

void Batch::render_normals(const Task& task) {
    const understudy_vertex_buffer to = poses_.target->buffer;
    const RenderMesh* mesh = poses_.target->mesh;
    const float* faces = scratch_.face_normals.data();
    const std::uint32_t *starts = model_.around_starts.data(), *around = model_.around.data();
    float* out = item_of(to.normals, to.normal_stride, task.first);
    const std::size_t step = to.normal_stride / sizeof *out;
    float own[3 * kTaskNormals + 1];
    for (std::size_t vertex = task.first; vertex < task.last; ++vertex, out += step) {
        float sum[3];
        sum_around(faces, around + starts[vertex], around + starts[vertex + 1], sum);
        float* normal = own + 3 * (vertex - task.first);
        normalise(sum, normal);
        for (int axis = 0; axis < 3; ++axis) out[axis] = normal[axis];
    }
    if (!mesh) return;
    const std::size_t begin = mesh->copy_starts[task.first], end = mesh->copy_starts[task.last];
    out = item_of(to.normals, to.normal_stride, begin);
    for (std::size_t n = begin; n < end; ++n, out += step)
        for (std::size_t axis = 0; axis < 3; ++axis)
            out[axis] = own[3 * (mesh->vertices[n] - task.first) + axis];
}

void Batch::render_tangent(std::size_t number, const float* normal) {
    const RenderMesh& mesh = *poses_.target->mesh;
    const std::uint32_t *begin = mesh.around.data() + mesh.around_starts[number],
                        *end = mesh.around.data() + mesh.around_starts[number + 1];
    float sum[3], sign = 0;
    sum_around(scratch_.face_tangents.data(), begin, end, sum);
    for (const std::uint32_t* at = begin; at != end; ++at) sign += mesh.tangent_factors[*at].sign;
    const float along = dot(sum, normal);
    for (int axis = 0; axis < 3; ++axis) sum[axis] -= along * normal[axis];
    const understudy_vertex_buffer& to = poses_.target->buffer;
    float* out = item_of(to.tangents, to.tangent_stride, number);
    normalise(sum, out);
    if (dot(out, out) == 0) {  // any direction in the surface: across the normal's smallest axis
        const int least = std::abs(normal[0]) < std::abs(normal[1])
                              ? (std::abs(normal[0]) < std::abs(normal[2]) ? 0 : 2)
                              : (std::abs(normal[1]) < std::abs(normal[2]) ? 1 : 2);
        for (int axis = 0; axis < 3; ++axis)
            sum[axis] = (axis == least ? 1.0f : 0.0f) - normal[least] * normal[axis];
        normalise(sum, out);
    }
    out[3] = sign < 0 ? -1.0f : 1.0f;
}

}  // namespace understudy
