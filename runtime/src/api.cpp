// The C functions of understudy.h. They check the arguments.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "../include/understudy.h"
#include "archive.h"
#include "deform.h"
#include "float_mode.h"
#include "gpu_layout.h"
#include "kernels.h"

struct understudy_model : understudy::Model {
    using Model::Model;
};
struct understudy_pool : understudy::Pool {
    using Pool::Pool;
};
struct understudy_scratch : understudy::Scratch {
    using Scratch::Scratch;
};
struct understudy_render_mesh : understudy::RenderMesh {
    using RenderMesh::RenderMesh;
};

namespace {

using understudy::FloatMode;
using understudy::Memory;

void say(const char* what, char* message, size_t message_size) {
    if (!message || !message_size) return;
    const size_t length = std::min(std::strlen(what), message_size - 1);
    std::memcpy(message, what, length);
    message[length] = 0;
}

const Memory& memory_of(const understudy_allocator* allocator) {
    return allocator ? *allocator : understudy::default_memory();
}

// Destroys an object with its own memory; nullptr is allowed.
template <class Item>
void free_with(Memory memory, Item* item) {
    understudy::destroy(memory, item);
}

// The largest magnitude of a driver. Larger ones could exceed the range of float on their way to a
// position.
constexpr double kLargestDriver = 1e18;

template <class Number>
bool in_range(const Number* values, size_t count) {
    int bad[4] = {0, 0, 0, 0};
    size_t i = 0;
    for (; i + 4 <= count; i += 4)
        for (size_t lane = 0; lane < 4; ++lane)
            bad[lane] |= !(std::abs(values[i + lane]) <= kLargestDriver);  // true for NaN
    for (; i < count; ++i) bad[0] |= !(std::abs(values[i]) <= kLargestDriver);
    return !(bad[0] | bad[1] | bad[2] | bad[3]);
}

// A range of memory; empty if there is none.
struct Range {
    std::uintptr_t begin = 0, end = 0;

    template <class Scalar>
    Range(const Scalar* data, size_t count)
        : begin(reinterpret_cast<std::uintptr_t>(data)), end(begin + count * sizeof(Scalar)) {
        if (!data) begin = end = 0;
    }
    bool overlaps(const Range& other) const { return begin < other.end && other.begin < end; }
};

// Whether there is everything that the model reads. What it does not read is then nullptr.
understudy_status check_drivers(const understudy_model* model, const understudy_scratch* scratch,
                                understudy::Poses& poses) {
    if (!model || !scratch || (model->bone_count() && !poses.world_from_bone) ||
        (model->reads_controls && !poses.controls))
        return UNDERSTUDY_MISSING_ARGUMENT;
    if (&scratch->model != model) return UNDERSTUDY_WRONG_SCRATCH;
    if (!model->bone_count()) poses.world_from_bone = nullptr;
    if (!model->reads_controls) poses.controls = nullptr;
    return UNDERSTUDY_OK;
}

size_t bone_numbers(const understudy_model& model, const understudy::Poses& poses) {
    return poses.world_from_bone ? poses.count * 12 * model.bone_count() : 0;
}

size_t control_numbers(const understudy_model& model, const understudy::Poses& poses) {
    return poses.controls ? poses.count * model.description.control_count() : 0;
}

bool overlaps_drivers(const understudy_model& model, const understudy::Poses& poses,
                      const Range& output) {
    return output.overlaps(Range(poses.world_from_bone, bone_numbers(model, poses))) ||
           output.overlaps(Range(poses.controls, control_numbers(model, poses)));
}

bool are_in_range(const understudy_model& model, const understudy::Poses& poses) {
    return in_range(poses.world_from_bone, bone_numbers(model, poses)) &&
           in_range(poses.controls, control_numbers(model, poses));
}

// A scratch with its memory; nullptr if that is short.
understudy_scratch* allocated(understudy_scratch* scratch) {
    if (scratch && scratch->allocate()) return scratch;
    understudy_free_scratch(scratch);
    return nullptr;
}

// Reads a whole file, unless its first bytes are those of another kind.
bool read_file(std::FILE* file, understudy::Array<std::uint8_t>& data,
               understudy::Problem& problem) {
    const auto read_some = [&](size_t count, size_t& got) {
        const size_t before = data.size();
        if (!data.resize_without_values(understudy::added(before, count))) return false;
        got = std::fread(data.data() + before, 1, count, file);
        return data.resize_without_values(before + got);
    };
    size_t got, ignored;
    if (!read_some(understudy::Archive::kPrefix, got) ||
        !understudy::Archive::header_length(data.data(), data.size(), ignored, problem))
        return false;
    size_t step = 1 << 20;
    do {
        if (!read_some(step, got)) return false;
    } while (got == step && (step *= 2));
    return !std::ferror(file) || problem.say("the file cannot be read");
}

// The model of a file, or of entries.
template <class Item>
understudy_model* loaded(const understudy_allocator* allocator, const Item* items, size_t count,
                         char* message, size_t message_size) {
    const FloatMode mode;
    const Memory& memory = memory_of(allocator);
    understudy::Problem problem;
    understudy_model* model = nullptr;
    if (!items) problem.say("no data was given");
    else if ((model = understudy::create<understudy_model>(memory, memory)) != nullptr &&
             model->load(items, count, problem)) {
        say("", message, message_size);
        return model;
    }
    understudy_free_model(model);
    say(problem.text(), message, message_size);
    return nullptr;
}

}  // namespace

extern "C" {

const char* understudy_version(void) { return UNDERSTUDY_VERSION; }

const char* understudy_status_text(int status) {
    switch (status) {
        case UNDERSTUDY_OK: return "the call succeeded";
        case UNDERSTUDY_MISSING_ARGUMENT: return "a pointer that this model needs is NULL";
        case UNDERSTUDY_NOT_FINITE:
            return "bones or controls contain NaN, infinity or a magnitude of more than 1e18";
        case UNDERSTUDY_WRONG_SCRATCH:
            return "the scratch was created for another model or purpose";
        case UNDERSTUDY_OVERLAP: return "an output overlaps an input or the other output";
        case UNDERSTUDY_WRONG_STRIDE: return "a stride is less than one item, or no multiple of 4";
    }
    return "no status of this version of the library";
}

understudy_model* understudy_load_memory_with(const understudy_allocator* allocator,
                                              const void* data, size_t size, char* message,
                                              size_t message_size) {
    return loaded(allocator, static_cast<const std::uint8_t*>(data), size, message, message_size);
}

understudy_model* understudy_load_entries_with(const understudy_allocator* allocator,
                                               const understudy_entry* entries, size_t count,
                                               char* message, size_t message_size) {
    return loaded(allocator, entries, count, message, message_size);
}

understudy_model* understudy_load_memory(const void* data, size_t size, char* message,
                                         size_t message_size) {
    return understudy_load_memory_with(nullptr, data, size, message, message_size);
}

understudy_model* understudy_load_file_with(const understudy_allocator* allocator, const char* path,
                                            char* message, size_t message_size) {
    std::FILE* file = path ? std::fopen(path, "rb") : nullptr;
    understudy::Problem problem;
    understudy_model* model = nullptr;
    if (!file) {
        problem.say("no such file, or it cannot be read");
    } else {
        understudy::Array<std::uint8_t> data(memory_of(allocator));
        const bool read = read_file(file, data, problem);
        std::fclose(file);
        if (read)
            return understudy_load_memory_with(allocator, data.data(), data.size(), message,
                                               message_size);
    }
    say(problem.text(), message, message_size);
    return model;
}

understudy_model* understudy_load_file(const char* path, char* message, size_t message_size) {
    return understudy_load_file_with(nullptr, path, message, message_size);
}

void understudy_free_model(understudy_model* model) {
    if (model) free_with(model->memory, model);
}

size_t understudy_vertex_count(const understudy_model* model) { return model->vertex_count(); }
size_t understudy_bone_count(const understudy_model* model) { return model->bone_count(); }
size_t understudy_control_count(const understudy_model* model) {
    return model->description.control_count();
}
int understudy_reads_controls(const understudy_model* model) { return model->reads_controls; }
const char* understudy_bone_name(const understudy_model* model, size_t bone) {
    return model->description.bone_names[bone].c_str();
}
int understudy_bone_parent(const understudy_model* model, size_t bone) {
    return model->description.parents[bone];
}
const char* understudy_control_name(const understudy_model* model, size_t control) {
    return model->description.controls.names[control].c_str();
}
const char* understudy_method(const understudy_model* model) {
    return model->description.method.c_str();
}
const char* understudy_unit(const understudy_model* model) {
    return model->description.unit.c_str();
}
const double* understudy_rest_bones(const understudy_model* model) {
    return model->description.rest_bones.data();
}
const float* understudy_rest_positions(const understudy_model* model) {
    return model->description.rest.data();
}
size_t understudy_triangle_count(const understudy_model* model) {
    return model->description.triangles.size() / 3;
}
const int32_t* understudy_triangles(const understudy_model* model) {
    return model->description.triangles.data();
}
size_t understudy_model_bytes(const understudy_model* model) { return model->bytes; }
size_t understudy_clip_count(const understudy_model* model) {
    return model->description.clips.size();
}
const char* understudy_clip_name(const understudy_model* model, size_t clip) {
    return model->description.clips[clip].name.c_str();
}
size_t understudy_clip_frame_count(const understudy_model* model, size_t clip) {
    return model->description.clips[clip].frame_count;
}
double understudy_clip_frame_rate(const understudy_model* model, size_t clip) {
    return model->description.clips[clip].frame_rate;
}
const double* understudy_clip_frame(const understudy_model* model, size_t clip, size_t frame) {
    return model->description.clips[clip].world_from_bone.data() + 12 * model->bone_count() * frame;
}

const char* understudy_control_unit(const understudy_model* model, size_t control) {
    return model->description.controls.units[control].c_str();
}
const double* understudy_control_low(const understudy_model* model) {
    return model->description.controls.low.data();
}
const double* understudy_control_high(const understudy_model* model) {
    return model->description.controls.high.data();
}
const double* understudy_control_rest(const understudy_model* model) {
    return model->description.controls.rest.data();
}
const char* understudy_up_axis(const understudy_model* model) {
    return model->description.up_axis.c_str();
}
const char* understudy_handedness(const understudy_model* model) {
    return model->description.handedness.c_str();
}

understudy_pool* understudy_create_pool_with(const understudy_allocator* allocator, int threads) {
    const Memory& memory = memory_of(allocator);
    understudy_pool* pool = understudy::create<understudy_pool>(memory, memory);
    if (pool && pool->start(threads)) return pool;
    understudy_free_pool(pool);
    return nullptr;
}

understudy_pool* understudy_create_pool(int threads) {
    return understudy_create_pool_with(nullptr, threads);
}

understudy_pool* understudy_create_pool_from_jobs(const understudy_allocator* allocator,
                                                  const understudy_jobs* jobs) {
    if (!jobs || !jobs->run) return nullptr;
    const Memory& memory = memory_of(allocator);
    understudy_pool* pool = understudy::create<understudy_pool>(memory, memory);
    if (pool && pool->use(*jobs)) return pool;
    understudy_free_pool(pool);
    return nullptr;
}

void understudy_free_pool(understudy_pool* pool) {
    if (pool) free_with(pool->memory(), pool);
}

understudy_scratch* understudy_create_scratch(const understudy_model* model,
                                              understudy_pool* pool) {
    return model ? allocated(understudy::create<understudy_scratch>(model->memory, *model, pool))
                 : nullptr;
}

understudy_scratch* understudy_create_render_scratch(const understudy_model* model,
                                                     understudy_pool* pool,
                                                     const understudy_render_mesh* mesh) {
    if (!model || (mesh && &mesh->model != model)) return nullptr;
    return allocated(understudy::create<understudy_scratch>(model->memory, *model, pool, mesh));
}

void understudy_free_scratch(understudy_scratch* scratch) {
    if (scratch) free_with(scratch->memory, scratch);
}

understudy_status understudy_deform_many(const understudy_model* model, understudy_scratch* scratch,
                                         size_t pose_count, const double* world_from_bone,
                                         const double* controls, float* positions, float* normals) {
    const FloatMode mode;
    if (!pose_count) return UNDERSTUDY_OK;
    understudy::Poses poses{pose_count, world_from_bone, controls, positions, normals};
    if (!positions) return UNDERSTUDY_MISSING_ARGUMENT;
    const understudy_status status = check_drivers(model, scratch, poses);
    if (status != UNDERSTUDY_OK) return status;
    const size_t floats = pose_count * 3 * model->vertex_count();
    const Range points(positions, floats), sides(normals, floats);
    if (points.overlaps(sides) || overlaps_drivers(*model, poses, points) ||
        overlaps_drivers(*model, poses, sides))
        return UNDERSTUDY_OVERLAP;
    if (!are_in_range(*model, poses)) return UNDERSTUDY_NOT_FINITE;
    understudy::deform(*model, *scratch, understudy::kernels(), poses);
    return UNDERSTUDY_OK;
}

understudy_status understudy_deform(const understudy_model* model, understudy_scratch* scratch,
                                    const double* world_from_bone, const double* controls,
                                    float* positions, float* normals) {
    return understudy_deform_many(model, scratch, 1, world_from_bone, controls, positions, normals);
}

int understudy_poses_bones(const understudy_model* model) {
    return model->description.posing.drives_bones;
}

understudy_status understudy_pose_bones(const understudy_model* model, const double* controls,
                                        double* world_from_bone) {
    if (!model || !controls || !world_from_bone || !model->description.posing.drives_bones)
        return UNDERSTUDY_MISSING_ARGUMENT;
    const size_t count = model->description.control_count();
    if (Range(controls, count).overlaps(Range(world_from_bone, 12 * model->bone_count())))
        return UNDERSTUDY_OVERLAP;
    if (!in_range(controls, count)) return UNDERSTUDY_NOT_FINITE;
    understudy::pose_bones(model->description.posing, controls, world_from_bone);
    return UNDERSTUDY_OK;
}

int understudy_shares_coefficients(const understudy_model* model, const understudy_model* other) {
    return model && other && understudy::shares_coefficients(*model, *other);
}

understudy_status understudy_deform_coefficients(const understudy_model* model,
                                                 understudy_scratch* scratch,
                                                 const double* world_from_bone,
                                                 const float* coefficients, float* positions,
                                                 float* normals) {
    const FloatMode mode;
    if (!model || !scratch || !positions || (model->bone_count() && !world_from_bone) ||
        (model->coefficient_count && !coefficients))
        return UNDERSTUDY_MISSING_ARGUMENT;
    if (&scratch->model != model) return UNDERSTUDY_WRONG_SCRATCH;
    understudy::Poses pose{1, model->bone_count() ? world_from_bone : nullptr, nullptr, positions,
                           normals};
    // Where there are none, the pointer only says that they are not computed.
    static const float none[1] = {};
    pose.coefficients = model->coefficient_count ? coefficients : none;
    const size_t floats = 3 * model->vertex_count();
    const Range points(positions, floats), sides(normals, floats),
        given(coefficients, model->coefficient_count);
    if (points.overlaps(sides) || points.overlaps(given) || sides.overlaps(given) ||
        overlaps_drivers(*model, pose, points) || overlaps_drivers(*model, pose, sides))
        return UNDERSTUDY_OVERLAP;
    if (!are_in_range(*model, pose) || !in_range(coefficients, model->coefficient_count))
        return UNDERSTUDY_NOT_FINITE;
    understudy::deform(*model, *scratch, understudy::kernels(), pose);
    return UNDERSTUDY_OK;
}

understudy_render_mesh* understudy_create_render_mesh(const understudy_model* model) {
    const FloatMode mode;
    if (!model) return nullptr;
    understudy_render_mesh* mesh =
        understudy::create<understudy_render_mesh>(model->memory, *model);
    if (mesh && mesh->build()) return mesh;
    understudy_free_render_mesh(mesh);
    return nullptr;
}

void understudy_free_render_mesh(understudy_render_mesh* mesh) {
    if (mesh) free_with(mesh->memory, mesh);
}

size_t understudy_render_vertex_count(const understudy_render_mesh* mesh) { return mesh->size(); }
const uint32_t* understudy_render_vertices(const understudy_render_mesh* mesh) {
    return mesh->vertices.data();
}
const float* understudy_render_uvs(const understudy_render_mesh* mesh) { return mesh->uvs.data(); }
size_t understudy_render_index_count(const understudy_render_mesh* mesh) {
    return mesh->indices.size();
}
const uint32_t* understudy_render_indices(const understudy_render_mesh* mesh) {
    return mesh->indices.data();
}
size_t understudy_submesh_count(const understudy_render_mesh* mesh) {
    return mesh->submeshes.size();
}
understudy_submesh understudy_submesh_at(const understudy_render_mesh* mesh, size_t number) {
    const understudy::RenderMesh::Submesh& found = mesh->submeshes[number];
    return {found.material, found.first_index, found.index_count};
}
size_t understudy_material_count(const understudy_model* model) {
    return model->description.surface.materials.size();
}
const char* understudy_material_name(const understudy_model* model, size_t material) {
    return model->description.surface.materials[material].c_str();
}
size_t understudy_part_count(const understudy_model* model) {
    return model->description.surface.parts.size();
}
const char* understudy_part_name(const understudy_model* model, size_t part) {
    return model->description.surface.parts[part].name.c_str();
}
size_t understudy_part_vertex_count(const understudy_model* model, size_t part) {
    return model->description.surface.parts[part].vertices.size();
}
const int32_t* understudy_part_vertices(const understudy_model* model, size_t part) {
    return model->description.surface.parts[part].vertices.data();
}

understudy_status understudy_deform_render(const understudy_model* model,
                                           understudy_scratch* scratch,
                                           const double* world_from_bone, const double* controls,
                                           const understudy_vertex_buffer* buffer) {
    const FloatMode mode;
    understudy::Poses pose{1, world_from_bone, controls, nullptr, nullptr};
    const understudy_status status = check_drivers(model, scratch, pose);
    if (status != UNDERSTUDY_OK) return status;
    if (!scratch->renders) return UNDERSTUDY_WRONG_SCRATCH;
    if (!buffer || !buffer->positions) return UNDERSTUDY_MISSING_ARGUMENT;
    const understudy::RenderTarget target{scratch->render_mesh, *buffer};
    if (buffer->tangents && (!target.mesh || target.mesh->tangent_factors.empty()))
        return UNDERSTUDY_MISSING_ARGUMENT;
    const auto is_wrong = [](const void* data, size_t stride, size_t size) {
        return data && (stride < size || stride % 4);
    };
    if (is_wrong(buffer->positions, buffer->position_stride, 12) ||
        is_wrong(buffer->normals, buffer->normal_stride, 12) ||
        is_wrong(buffer->tangents, buffer->tangent_stride, 16))
        return UNDERSTUDY_WRONG_STRIDE;
    const size_t count = target.mesh ? target.mesh->size() : model->vertex_count();
    const auto range_of = [&](const void* data, size_t stride, size_t size) {
        return Range(static_cast<const char*>(data), (count - 1) * stride + size);
    };
    for (const Range& output : {range_of(buffer->positions, buffer->position_stride, 12),
                                range_of(buffer->normals, buffer->normal_stride, 12),
                                range_of(buffer->tangents, buffer->tangent_stride, 16)})
        if (overlaps_drivers(*model, pose, output)) return UNDERSTUDY_OVERLAP;
    if (!are_in_range(*model, pose)) return UNDERSTUDY_NOT_FINITE;
    pose.target = &target;
    if (target.has_directions()) pose.positions = scratch->render_positions.data();
    understudy::deform(*model, *scratch, understudy::kernels(), pose);
    return UNDERSTUDY_OK;
}

understudy_status understudy_coefficients(const understudy_model* model,
                                          understudy_scratch* scratch,
                                          const double* world_from_bone, const double* controls,
                                          float* coefficients) {
    const FloatMode mode;
    understudy::Poses pose{1, world_from_bone, controls, nullptr, nullptr};
    const understudy_status status = check_drivers(model, scratch, pose);
    if (status != UNDERSTUDY_OK) return status;
    if (model->coefficient_count && !coefficients) return UNDERSTUDY_MISSING_ARGUMENT;
    if (overlaps_drivers(*model, pose, Range(coefficients, model->coefficient_count)))
        return UNDERSTUDY_OVERLAP;
    if (!are_in_range(*model, pose)) return UNDERSTUDY_NOT_FINITE;
    understudy::compute_coefficients(*model, *scratch, understudy::kernels(), pose, coefficients);
    return UNDERSTUDY_OK;
}

int understudy_is_bounded(const understudy_model* model) { return model->is_bounded(); }

understudy_status understudy_distance_from_data(const understudy_model* model,
                                                understudy_scratch* scratch,
                                                const double* world_from_bone,
                                                const double* controls, float* distance) {
    const FloatMode mode;
    understudy::Poses pose{1, world_from_bone, controls, nullptr, nullptr};
    const understudy_status status = check_drivers(model, scratch, pose);
    if (status != UNDERSTUDY_OK) return status;
    if (!distance) return UNDERSTUDY_MISSING_ARGUMENT;
    if (!are_in_range(*model, pose)) return UNDERSTUDY_NOT_FINITE;
    *distance = understudy::compute_distance(*model, *scratch, understudy::kernels(), pose);
    return UNDERSTUDY_OK;
}

understudy_status understudy_transforms(const understudy_model* model, understudy_scratch* scratch,
                                        const double* world_from_bone, float* transforms) {
    const FloatMode mode;
    if (!model || !scratch || !transforms || (model->bone_count() && !world_from_bone))
        return UNDERSTUDY_MISSING_ARGUMENT;
    if (&scratch->model != model) return UNDERSTUDY_WRONG_SCRATCH;
    const understudy::Poses pose{1, model->bone_count() ? world_from_bone : nullptr, nullptr,
                                 nullptr, nullptr};
    if (overlaps_drivers(*model, pose, Range(transforms, 12 * model->transform_count)))
        return UNDERSTUDY_OVERLAP;
    if (!are_in_range(*model, pose)) return UNDERSTUDY_NOT_FINITE;
    understudy::compute_transforms(*model, *scratch, understudy::kernels(), pose, transforms);
    return UNDERSTUDY_OK;
}

understudy_gpu_counts understudy_count_gpu_arrays(const understudy_model* model) {
    return understudy::count_gpu_arrays(*model);
}

int understudy_fill_gpu_arrays(const understudy_model* model, const understudy_gpu_arrays* arrays) {
    const FloatMode mode;
    return model && arrays && understudy::fill_gpu_arrays(*model, *arrays);
}

const char* understudy_instruction_set(void) { return understudy::kernels().name; }

int understudy_select_instruction_set(const char* name) {
    return name && understudy::select_kernels(name);
}

}  // extern "C"
