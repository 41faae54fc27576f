// Plays a clip of a .understudy file and says how long a frame takes: play_clip hero.understudy [threads]
// A file that was fitted to a mesh sequence brings its clips along; for any other the bones turn about their rest pose.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "understudy.h"

int main(int count, char** arguments) {
    char message[200];
    understudy_model* model = count > 1 ? understudy_load_file(arguments[1], message, sizeof message) : nullptr;
    if (!model) return std::fprintf(stderr, "%s\n", count > 1 ? message : "usage: play_clip FILE [THREADS]"), 2;
    understudy_pool* pool = understudy_create_pool(count > 2 ? std::atoi(arguments[2]) : 1);
    understudy_scratch* scratch = understudy_create_scratch(model, pool);
    const size_t bones = understudy_bone_count(model), vertices = understudy_vertex_count(model);
    const size_t frames = understudy_clip_count(model) ? understudy_clip_frame_count(model, 0) : 100;
    std::vector<double> pose(understudy_rest_bones(model), understudy_rest_bones(model) + 12 * bones);
    std::vector<double> controls(understudy_control_count(model), 0.0);
    std::vector<float> positions(3 * vertices), normals(3 * vertices);
    double travelled = 0, seconds = 0;
    for (size_t frame = 0; frame < frames; ++frame) {
        const double* drive = pose.data();
        if (understudy_clip_count(model)) drive = understudy_clip_frame(model, 0, frame);
        else if (bones)  // carry the whole character along in a circle
            for (size_t bone = 0; bone < bones; ++bone) pose[12 * bone + 3] = understudy_rest_bones(model)[12 * bone + 3] + std::sin(0.1 * frame);
        const auto start = std::chrono::steady_clock::now();
        const understudy_status status = understudy_deform(model, scratch, drive, controls.data(), positions.data(), normals.data());
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (status != UNDERSTUDY_OK) return std::fprintf(stderr, "frame %zu: status %d\n", frame, status), 1;
        for (size_t i = 0; i < 3 * vertices; ++i) travelled += std::abs(positions[i] - understudy_rest_positions(model)[i]) / (3.0 * vertices);
    }
    std::printf("%zu frames of %zu vertices: mean %.3f ms a frame with normals, %.3g %s from rest on average\n", frames, vertices, 1000 * seconds / frames,
                travelled / frames, understudy_unit(model));
    understudy_free_scratch(scratch);
    understudy_free_pool(pool);
    understudy_free_model(model);
}
