#include "block.h"

#include <algorithm>
#include <cmath>

#include "affine.h"

namespace understudy {

// The bones' transforms relative to the root: float32 cannot hold millimetres at ten kilometres.
void Block::place_bones(std::size_t pose) {
    const std::size_t bones = model_.bone_count();
    const double* world = world_ ? world_ + 12 * bones * pose : nullptr;
    float* centre = this->centre(pose);
    std::fill(centre, centre + Scratch::kCentre, 0.0f);
    if (!bones) {
        static const float identity[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
        std::copy(identity, identity + 16, transforms(pose));
    }
    double root[3] = {0, 0, 0};
    if (bones)  // parents come first: bone 0 is a root
        for (int axis = 0; axis < 3; ++axis) {
            root[axis] = world[4 * axis + 3];
            centre[axis] = static_cast<float>(root[axis]);
            centre[4 + axis] = static_cast<float>(root[axis] - centre[axis]);
        }
    float* columns = bone_transforms(pose);
    use_.claim(columns, 16 * bones);
    for (std::size_t bone = 0; bone < bones; ++bone) {
        double local[12], moved[12];
        std::copy(world + 12 * bone, world + 12 * bone + 12, local);
        for (int axis = 0; axis < 3; ++axis) local[4 * axis + 3] -= root[axis];
        compose(local, model_.bone_from_rest.data() + 12 * bone, moved);
        for (int column = 0; column < 4; ++column)
            for (int row = 0; row < 4; ++row) columns[16 * bone + 4 * column + row] = row < 3 ? static_cast<float>(moved[4 * row + column]) : 0.0f;
    }
}

void Block::find_features(std::size_t pose, std::size_t thread) {
    const std::size_t bones = model_.bone_count();
    const double* world = world_ ? world_ + 12 * bones * pose : nullptr;
    use_.claim(features(pose), about_.feature_columns.size());
    double* inverses = scratch_.inverses.as<double>() + thread * scratch_.inverse_stride;
    for (std::size_t bone = 0; bone < bones; ++bone)
        if (model_.bone_is_inverted[bone]) bounded_invert(world + 12 * bone, inverses + 12 * bone);
    const double* controls = controls_ ? controls_ + about_.control_names.size() * pose : nullptr;
    float* features = this->features(pose);
    std::size_t known = bones;  // the bone whose matrix is in `local`; columns of one bone mostly follow each other
    double local[12];
    for (std::size_t i = 0; i < about_.feature_columns.size(); ++i) {
        const std::size_t column = static_cast<std::size_t>(about_.feature_columns[i]), bone = column / 12;
        double raw;
        if (bone >= bones) {
            raw = controls[column - 12 * bones];
        } else {
            if (bone != known) {
                const std::int32_t parent = about_.parents[bone];
                if (parent < 0) std::copy(world + 12 * bone, world + 12 * bone + 12, local);
                else compose(inverses + 12 * parent, world + 12 * bone, local);
                known = bone;
            }
            raw = local[column - 12 * bone];
        }
        features[i] = std::min(std::max(static_cast<float>(raw), about_.feature_low[i]), about_.feature_high[i]);
    }
}

VertexJob Block::unpacked_job(std::size_t first, std::size_t last, std::size_t thread) {
    const Unpacked& to = scratch_.unpacked[thread];
    use_.unpack_influences(model_.packed, first, last, to.influences.as<Influence>(), to.influence_starts.as<std::uint32_t>());
    VertexJob job{};
    job.last = last - first;
    job.base = to.points.as<float>();
    job.skin = {to.influences.as<Influence>(), to.influence_starts.as<std::uint32_t>(), static_cast<std::uint32_t>(model_.packed.width)};
    job.simple = model_.simple.data() + first / 4;
    return job;
}

// Twice the area of each triangle along its normal, so that their sum at a vertex is weighted by area.
void Block::face_normals(const Task& task) {
    for (std::size_t pose = 0; pose < poses_; ++pose) {
        const float* positions = positions_ + 3 * model_.vertex_count() * pose;
        float* normals = scratch_.face_normals.as<float>() + pose * scratch_.normal_stride;
        for (std::size_t face = task.first; face < task.last; ++face) {
            const std::int32_t* corner = about_.triangles.data() + 3 * face;
            const float *a = positions + 3 * corner[0], *b = positions + 3 * corner[1], *c = positions + 3 * corner[2];
            const float u[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]}, v[3] = {c[0] - a[0], c[1] - a[1], c[2] - a[2]};
            normals[3 * face] = u[1] * v[2] - u[2] * v[1];
            normals[3 * face + 1] = u[2] * v[0] - u[0] * v[2];
            normals[3 * face + 2] = u[0] * v[1] - u[1] * v[0];
        }
    }
}

void Block::vertex_normals(const Task& task) {
    for (std::size_t pose = 0; pose < poses_; ++pose) {
        const float* faces = scratch_.face_normals.as<float>() + pose * scratch_.normal_stride;
        float* normals = normals_ + 3 * model_.vertex_count() * pose;
        for (std::size_t vertex = task.first; vertex < task.last; ++vertex) {
            float sum[3] = {0, 0, 0};
            for (std::uint32_t at = model_.around_starts[vertex]; at != model_.around_starts[vertex + 1]; ++at)
                for (int axis = 0; axis < 3; ++axis) sum[axis] += faces[3 * std::size_t{model_.around[at]} + axis];
            const float length = std::sqrt(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]);
            const float scale = length > 0 ? 1 / length : 0;  // a vertex without area around it has no normal
            for (int axis = 0; axis < 3; ++axis) normals[3 * vertex + axis] = scale * sum[axis];
        }
    }
}

}  // namespace understudy
