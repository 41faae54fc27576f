// The C functions of understudy.h. They check the arguments and let no exception out.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <vector>

#include "../include/understudy.h"
#include "archive.h"
#include "deform.h"
#include "description.h"
#include "json.h"
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

namespace {

void say(const char* what, char* message, size_t message_size) {
    if (!message || !message_size) return;
    const size_t length = std::min(std::strlen(what), message_size - 1);
    std::memcpy(message, what, length);
    message[length] = 0;
}

// The largest magnitude of a driver. Larger ones could exceed the range of float on their way to a
// position.
constexpr double kLargestDriver = 1e18;

bool in_range(const double* values, size_t count) {
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

struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
};

// Appends up to `count` bytes of a file. Returns whether there were as many.
bool read_some(std::FILE* file, size_t count, std::vector<std::uint8_t>& data) {
    const size_t before = data.size();
    data.resize(before + count);
    const size_t got = std::fread(data.data() + before, 1, count, file);
    data.resize(before + got);
    return got == count;
}

}  // namespace

extern "C" {

understudy_model* understudy_load_memory(const void* data, size_t size, char* message,
                                         size_t message_size) {
    say("", message, message_size);
    try {
        if (!data) throw understudy::ReadError("no data was given");
        auto description = std::make_unique<understudy::Description>();
        understudy::read_description(static_cast<const std::uint8_t*>(data), size, *description);
        return new understudy_model(std::move(description));
    } catch (const understudy::ReadError& problem) {
        say(problem.what(), message, message_size);
    } catch (const std::exception&) {  // bad_alloc, length_error
        say("not enough memory for this file", message, message_size);
    }
    return nullptr;
}

understudy_model* understudy_load_file(const char* path, char* message, size_t message_size) {
    say("", message, message_size);
    try {
        const std::unique_ptr<std::FILE, CloseFile> file(path ? std::fopen(path, "rb") : nullptr);
        if (!file) throw understudy::ReadError("no such file, or it cannot be read");
        std::vector<std::uint8_t> data;
        read_some(file.get(), understudy::Archive::kPrefix, data);
        understudy::Archive::header_length(data.data(),
                                           data.size());  // throws if it is no such file
        for (std::size_t step = 1 << 20; read_some(file.get(), step, data);) step *= 2;
        if (std::ferror(file.get())) throw understudy::ReadError("the file cannot be read");
        return understudy_load_memory(data.data(), data.size(), message, message_size);
    } catch (const understudy::ReadError& problem) {
        say(problem.what(), message, message_size);
    } catch (const std::exception&) {
        say("not enough memory for this file", message, message_size);
    }
    return nullptr;
}

void understudy_free_model(understudy_model* model) { delete model; }

size_t understudy_vertex_count(const understudy_model* model) { return model->vertex_count(); }
size_t understudy_bone_count(const understudy_model* model) { return model->bone_count(); }
size_t understudy_control_count(const understudy_model* model) {
    return model->description->control_names.size();
}
int understudy_reads_controls(const understudy_model* model) { return model->reads_controls; }
const char* understudy_bone_name(const understudy_model* model, size_t bone) {
    return model->description->bone_names[bone].c_str();
}
int understudy_bone_parent(const understudy_model* model, size_t bone) {
    return model->description->parents[bone];
}
const char* understudy_control_name(const understudy_model* model, size_t control) {
    return model->description->control_names[control].c_str();
}
const char* understudy_method(const understudy_model* model) {
    return model->description->method.c_str();
}
const char* understudy_unit(const understudy_model* model) {
    return model->description->unit.c_str();
}
const double* understudy_rest_bones(const understudy_model* model) {
    return model->description->rest_bones.data();
}
const float* understudy_rest_positions(const understudy_model* model) {
    return model->description->rest.data();
}
size_t understudy_triangle_count(const understudy_model* model) {
    return model->description->triangles.size() / 3;
}
const int32_t* understudy_triangles(const understudy_model* model) {
    return model->description->triangles.data();
}
size_t understudy_model_bytes(const understudy_model* model) { return model->bytes; }
size_t understudy_clip_count(const understudy_model* model) {
    return model->description->clips.size();
}
const char* understudy_clip_name(const understudy_model* model, size_t clip) {
    return model->description->clips[clip].name.c_str();
}
size_t understudy_clip_frame_count(const understudy_model* model, size_t clip) {
    return model->description->clips[clip].frame_count;
}
double understudy_clip_frame_rate(const understudy_model* model, size_t clip) {
    return model->description->clips[clip].frame_rate;
}
const double* understudy_clip_frame(const understudy_model* model, size_t clip, size_t frame) {
    return model->description->clips[clip].world_from_bone.data() +
           12 * model->bone_count() * frame;
}

understudy_pool* understudy_create_pool(int threads) {
    try {
        return new understudy_pool(threads);
    } catch (const std::exception&) {  // bad_alloc, or the system refused a thread
        return nullptr;
    }
}

void understudy_free_pool(understudy_pool* pool) { delete pool; }

understudy_scratch* understudy_create_scratch(const understudy_model* model,
                                              understudy_pool* pool) {
    if (!model) return nullptr;
    try {
        return new understudy_scratch(*model, pool);
    } catch (const std::exception&) {
        return nullptr;
    }
}

void understudy_free_scratch(understudy_scratch* scratch) { delete scratch; }

understudy_status understudy_deform_many(const understudy_model* model, understudy_scratch* scratch,
                                         size_t pose_count, const double* world_from_bone,
                                         const double* controls, float* positions, float* normals) {
    if (!pose_count) return UNDERSTUDY_OK;
    if (!model || !scratch || !positions || (model->bone_count() && !world_from_bone) ||
        (model->reads_controls && !controls))
        return UNDERSTUDY_MISSING_ARGUMENT;
    if (&scratch->model != model) return UNDERSTUDY_WRONG_SCRATCH;
    // What the model does not read is not looked at.
    if (!model->bone_count()) world_from_bone = nullptr;
    if (!model->reads_controls) controls = nullptr;
    const size_t bone_numbers = pose_count * 12 * model->bone_count(),
                 control_numbers = pose_count * model->description->control_names.size(),
                 floats = pose_count * 3 * model->vertex_count();
    const Range bones(world_from_bone, bone_numbers), values(controls, control_numbers),
        points(positions, floats), sides(normals, floats);
    if (points.overlaps(bones) || points.overlaps(values) || points.overlaps(sides) ||
        sides.overlaps(bones) || sides.overlaps(values))
        return UNDERSTUDY_OVERLAP;
    if (world_from_bone && !in_range(world_from_bone, bone_numbers)) return UNDERSTUDY_NOT_FINITE;
    if (controls && !in_range(controls, control_numbers)) return UNDERSTUDY_NOT_FINITE;
    understudy::deform(*model, *scratch, understudy::kernels(),
                       {pose_count, world_from_bone, controls, positions, normals});
    return UNDERSTUDY_OK;
}

understudy_status understudy_deform(const understudy_model* model, understudy_scratch* scratch,
                                    const double* world_from_bone, const double* controls,
                                    float* positions, float* normals) {
    return understudy_deform_many(model, scratch, 1, world_from_bone, controls, positions, normals);
}

const char* understudy_instruction_set(void) { return understudy::kernels().name; }

}  // extern "C"
