#include "deform.h"

#include <algorithm>
#include <cmath>

#include "affine.h"

namespace understudy {
namespace {

// One block of poses on its way through the phases.
class Block {
public:
    Block(const Model& model, Scratch& scratch, const Kernels& use, std::size_t poses, const double* world_from_bone, const double* controls,
          float* positions, float* normals)
        : model_(model), about_(*model.description), scratch_(scratch), use_(use), poses_(poses), world_(world_from_bone), controls_(controls),
          positions_(positions), normals_(normals) {}

    void run(Pool* pool) {
        const auto prepare_one = [this](std::uint32_t pose, int thread) { prepare(pose, static_cast<std::size_t>(thread)); };
        if (pool && poses_ > 1) pool->run(static_cast<std::uint32_t>(poses_), prepare_one);
        else for (std::uint32_t pose = 0; pose < poses_; ++pose) prepare_one(pose, 0);
        for (const std::vector<Task>& phase : model_.phases) run_phase(pool, phase);
        if (!normals_) return;
        run_phase(pool, model_.face_normal_tasks);
        run_phase(pool, model_.vertex_normal_tasks);
    }

private:
    void run_phase(Pool* pool, const std::vector<Task>& tasks) {
        const auto work = [this, &tasks](std::uint32_t task, int thread) { run_task(tasks[task], static_cast<std::size_t>(thread)); };
        const std::uint32_t count = static_cast<std::uint32_t>(tasks.size());
        if (pool) return pool->run(count, work);
        for (std::uint32_t task = 0; task < count; ++task) work(task, 0);
    }

    void run_task(const Task& task, std::size_t thread) {
        switch (task.kind) {
            case Task::Kind::layer: return run_layer(model_.layers[task.what], task.first, task.last, thread);
            case Task::Kind::basis: return run_basis(model_.bases[task.what], task.first, task.last, thread);
            case Task::Kind::virtual_bones: return blend_virtual_bones(task.first, task.last);
            case Task::Kind::dual_quaternions: return split_transforms(task.first, task.last);
            case Task::Kind::vertices: return move_vertices(task.first, task.last);
            case Task::Kind::face_normals: return face_normals(task.first, task.last);
            case Task::Kind::vertex_normals: return vertex_normals(task.first, task.last);
        }
    }

    // Features, and the bones' transforms relative to the root: float32 cannot hold millimetres at ten kilometres.
    void prepare(std::size_t pose, std::size_t thread) {
        const std::size_t bones = model_.bone_count();
        const double* world = world_ ? world_ + 12 * bones * pose : nullptr;
        float* centre = scratch_.centres.as<float>() + 8 * pose;
        std::fill(centre, centre + 8, 0.0f);
        if (!bones) {
            static const float identity[16] = {1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0};
            std::copy(identity, identity + 16, scratch_.transforms.as<float>() + pose * scratch_.transform_stride);
        }
        double root[3] = {0, 0, 0};
        if (bones)  // parents come first: bone 0 is a root
            for (int axis = 0; axis < 3; ++axis) {
                root[axis] = world[4 * axis + 3];
                centre[axis] = static_cast<float>(root[axis]);
                centre[4 + axis] = static_cast<float>(root[axis] - centre[axis]);
            }
        float* columns = bone_transforms(pose);
        for (std::size_t bone = 0; bone < bones; ++bone) {
            double local[12], moved[12];
            std::copy(world + 12 * bone, world + 12 * bone + 12, local);
            for (int axis = 0; axis < 3; ++axis) local[4 * axis + 3] -= root[axis];
            compose(local, model_.bone_from_rest.data() + 12 * bone, moved);
            for (int column = 0; column < 4; ++column)
                for (int row = 0; row < 4; ++row) columns[16 * bone + 4 * column + row] = row < 3 ? static_cast<float>(moved[4 * row + column]) : 0.0f;
        }
        if (!about_.feature_columns.empty()) find_features(pose, world, thread);
    }

    void find_features(std::size_t pose, const double* world, std::size_t thread) {
        const std::size_t bones = model_.bone_count();
        double* inverses = scratch_.inverses.as<double>() + thread * scratch_.inverse_stride;
        for (std::size_t bone = 0; bone < bones; ++bone)
            if (model_.bone_is_inverted[bone]) bounded_invert(world + 12 * bone, inverses + 12 * bone);
        const double* controls = controls_ ? controls_ + about_.control_names.size() * pose : nullptr;
        float* features = scratch_.features.as<float>() + pose * scratch_.feature_stride;
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

    // What the skin of a pose points into, and where the bones' own transforms go: the same unless there are virtual bones.
    float* transforms(std::size_t pose) { return scratch_.transforms.as<float>() + pose * scratch_.transform_stride; }
    float* bone_transforms(std::size_t pose) {
        return model_.virtual_count ? scratch_.bones.as<float>() + pose * scratch_.bone_stride : transforms(pose);
    }
    float* values(std::size_t pose) { return scratch_.values.as<float>() + pose * scratch_.value_stride; }

    void run_layer(const LayerPlan& layer, std::size_t first, std::size_t last, std::size_t thread) {
        const float* x = values(0) + layer.from;
        std::size_t stride = scratch_.value_stride;
        if (layer.inputs) {
            float* gathered = scratch_.gathered.as<float>() + thread * scratch_.gather_stride;
            stride = layer.weight.columns;
            for (std::size_t pose = 0; pose < poses_; ++pose) {
                const float* features = scratch_.features.as<float>() + pose * scratch_.feature_stride;
                for (std::size_t i = 0; i < stride; ++i) gathered[pose * stride + i] = features[layer.inputs[i]];
            }
            x = gathered;
        }
        use_.dense(layer.weight, first, last, x, stride, poses_, layer.bias, layer.finish, values(0) + layer.to, scratch_.value_stride);
    }

    void run_basis(const BasisPlan& basis, std::size_t first, std::size_t last, std::size_t thread) {
        const std::size_t columns = basis.matrix.columns, named = columns * (basis.shared ? 3 : 1);
        float* gathered = scratch_.gathered.as<float>() + thread * scratch_.gather_stride;
        for (std::size_t pose = 0; pose < poses_; ++pose) gather_coefficients(basis, named, values(pose), gathered + pose * named);
        float* out = scratch_.displacements.as<float>() + basis.to;
        if (!basis.shared)
            return use_.dense(basis.matrix, first, last, gathered, columns, poses_, nullptr, Finish::linear, out, scratch_.displacement_stride);
        // x, y and z as three poses; then side by side.
        const std::size_t row = first * Panels::kRows, height = std::min(basis.matrix.rows, last * Panels::kRows) - row;
        float* planes = scratch_.planes.as<float>() + thread * scratch_.plane_stride;
        use_.dense(basis.matrix, first, last, gathered, columns, 3 * poses_, nullptr, Finish::linear, planes - row, height);
        const std::size_t used = std::min(height, basis.vertex_count - std::min(basis.vertex_count, row));
        for (std::size_t pose = 0; pose < poses_; ++pose)
            for (std::size_t axis = 0; axis < 3; ++axis) {
                const float* plane = planes + (3 * pose + axis) * height;
                float* to = out + pose * scratch_.displacement_stride + 3 * row + axis;
                for (std::size_t n = 0; n < used; ++n) to[3 * n] = plane[n];
            }
    }

    static void gather_coefficients(const BasisPlan& basis, std::size_t named, const float* values, float* to) {
        if (!basis.starts) {
            for (std::size_t p = 0; p < named; ++p) to[p] = values[basis.writers[p]];
            return;
        }
        for (std::size_t p = 0; p < named; ++p) {
            float sum = 0;
            for (std::uint32_t at = basis.starts[p]; at != basis.starts[p + 1]; ++at) sum += values[basis.writers[at]];
            to[p] = sum;
        }
    }

    void blend_virtual_bones(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            if (model_.virtual_weights.empty()) use_.blend(model_.virtual_bones, first, last, bone_transforms(pose), transforms(pose));
            else use_.blend_dense(model_.virtual_weights.data(), model_.bone_count(), first, last, bone_transforms(pose), transforms(pose));
        }
    }

    // Each transform as a rotation and shift (a dual quaternion) after a stretch; see `skin_dual_quaternion`.
    void split_transforms(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_; ++pose)
            for (std::size_t number = first; number < last; ++number) {
                const float* columns = transforms(pose) + 16 * number;
                double x[9], rotation[9], stretch[9], q[4];
                for (int row = 0; row < 3; ++row)
                    for (int column = 0; column < 3; ++column) x[3 * row + column] = columns[4 * column + row];
                polar(x, rotation, stretch);
                quaternion_of(rotation, q);
                const double shift[3] = {columns[12], columns[13], columns[14]};
                const double dual[4] = {-0.5 * (shift[0] * q[1] + shift[1] * q[2] + shift[2] * q[3]),
                                        0.5 * (shift[0] * q[0] + shift[1] * q[3] - shift[2] * q[2]),
                                        0.5 * (shift[1] * q[0] + shift[2] * q[1] - shift[0] * q[3]),
                                        0.5 * (shift[2] * q[0] + shift[0] * q[2] - shift[1] * q[1])};
                float* to = scratch_.dual_quaternions.as<float>() + pose * scratch_.transform_stride + 16 * number;
                for (int i = 0; i < 4; ++i) {
                    to[i] = static_cast<float>(q[i]);
                    to[4 + i] = static_cast<float>(dual[i]);
                }
                const int upper[6] = {0, 1, 2, 4, 5, 8};
                for (int i = 0; i < 8; ++i) to[8 + i] = i < 6 ? static_cast<float>(stretch[upper[i]]) : 0.0f;
            }
    }

    void move_vertices(std::size_t first, std::size_t last) {
        const bool dual = about_.skinned && about_.blend == Blend::dual_quaternion;
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            VertexJob job;
            job.first = first;
            job.last = last;
            job.base = model_.base.as<float>();
            job.slot_starts = model_.bases.empty() ? nullptr : model_.slot_starts.data();
            job.slots = model_.slots.data();
            job.displacements = scratch_.displacements.as<float>() + pose * scratch_.displacement_stride;
            job.skin = model_.skin;
            job.simple = model_.simple.data();
            job.transforms = dual ? scratch_.dual_quaternions.as<float>() + pose * scratch_.transform_stride : transforms(pose);
            job.centre = scratch_.centres.as<float>() + 8 * pose;
            job.positions = positions_ + 3 * model_.vertex_count() * pose;
            (dual ? use_.skin_dual_quaternion : use_.skin_linear)(job);
        }
    }

    // Twice the area of each triangle along its normal, so that their sum at a vertex is weighted by area.
    void face_normals(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            const float* positions = positions_ + 3 * model_.vertex_count() * pose;
            float* normals = scratch_.face_normals.as<float>() + pose * scratch_.normal_stride;
            for (std::size_t face = first; face < last; ++face) {
                const std::int32_t* corner = about_.triangles.data() + 3 * face;
                const float *a = positions + 3 * corner[0], *b = positions + 3 * corner[1], *c = positions + 3 * corner[2];
                const float u[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]}, v[3] = {c[0] - a[0], c[1] - a[1], c[2] - a[2]};
                normals[3 * face] = u[1] * v[2] - u[2] * v[1];
                normals[3 * face + 1] = u[2] * v[0] - u[0] * v[2];
                normals[3 * face + 2] = u[0] * v[1] - u[1] * v[0];
            }
        }
    }

    void vertex_normals(std::size_t first, std::size_t last) {
        for (std::size_t pose = 0; pose < poses_; ++pose) {
            const float* faces = scratch_.face_normals.as<float>() + pose * scratch_.normal_stride;
            float* normals = normals_ + 3 * model_.vertex_count() * pose;
            for (std::size_t vertex = first; vertex < last; ++vertex) {
                float sum[3] = {0, 0, 0};
                for (std::uint32_t at = model_.around_starts[vertex]; at != model_.around_starts[vertex + 1]; ++at)
                    for (int axis = 0; axis < 3; ++axis) sum[axis] += faces[3 * std::size_t{model_.around[at]} + axis];
                const float length = std::sqrt(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2]);
                const float scale = length > 0 ? 1 / length : 0;  // a vertex without area around it has no normal
                for (int axis = 0; axis < 3; ++axis) normals[3 * vertex + axis] = scale * sum[axis];
            }
        }
    }

    const Model& model_;
    const Description& about_;
    Scratch& scratch_;
    const Kernels& use_;
    const std::size_t poses_;
    const double* const world_;
    const double* const controls_;
    float* const positions_;
    float* const normals_;
};

}  // namespace

void deform(const Model& model, Scratch& scratch, const Kernels& use, std::size_t poses, const double* world_from_bone, const double* controls,
            float* positions, float* normals) {
    // A pool that another call holds, or one of a single thread, is no help.
    Pool* pool = scratch.pool && scratch.pool->threads() > 1 && scratch.pool->acquire() ? scratch.pool : nullptr;
    if (pool) pool->wake();
    const std::size_t bones = 12 * model.bone_count(), controls_per = model.description->control_names.size(), floats = 3 * model.vertex_count();
    for (std::size_t first = 0; first < poses; first += Scratch::kBlock) {
        const std::size_t count = std::min(Scratch::kBlock, poses - first);
        Block(model, scratch, use, count, world_from_bone ? world_from_bone + bones * first : nullptr, controls ? controls + controls_per * first : nullptr,
              positions + floats * first, normals ? normals + floats * first : nullptr)
            .run(pool);
    }
    if (pool) pool->release();
}

}  // namespace understudy
