// Plays a .understudy file and prints the time per frame: play_clip hero.understudy [threads]
//
// Files fitted to a mesh sequence contain their clip. For other files the character moves in a
// circle in its rest pose.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#include "understudy.h"

// Each is freed at the end of its scope, the last one first.
using Model = std::unique_ptr<understudy_model, decltype(&understudy_free_model)>;
using Pool = std::unique_ptr<understudy_pool, decltype(&understudy_free_pool)>;
using Scratch = std::unique_ptr<understudy_scratch, decltype(&understudy_free_scratch)>;

int main(int count, char** arguments) {
    if (count < 2) return std::fprintf(stderr, "usage: play_clip FILE [THREADS]\n"), 2;

    char message[256];
    const Model model(understudy_load_file(arguments[1], message, sizeof message),
                      understudy_free_model);
    if (!model) return std::fprintf(stderr, "%s: %s\n", arguments[1], message), 2;
    const Pool pool(understudy_create_pool(count > 2 ? std::atoi(arguments[2]) : 1),
                    understudy_free_pool);
    const Scratch scratch(understudy_create_scratch(model.get(), pool.get()),
                          understudy_free_scratch);
    if (!pool || !scratch) return std::fprintf(stderr, "not enough memory or threads\n"), 1;

    const size_t bones = understudy_bone_count(model.get());
    const size_t vertices = understudy_vertex_count(model.get());
    const bool has_clip = understudy_clip_count(model.get()) > 0;
    const size_t frames = has_clip ? understudy_clip_frame_count(model.get(), 0) : 100;
    const double* rest = understudy_rest_bones(model.get());
    std::vector<double> pose(rest, rest + 12 * bones);
    const std::vector<double> controls(understudy_control_count(model.get()), 0.0);
    std::vector<float> positions(3 * vertices), normals(3 * vertices);

    double seconds = 0;
    for (size_t frame = 0; frame < frames; ++frame) {
        for (size_t bone = 0; bone < bones && !has_clip; ++bone)
            pose[12 * bone + 3] = rest[12 * bone + 3] + std::sin(0.1 * static_cast<double>(frame));
        const double* drivers =
            has_clip ? understudy_clip_frame(model.get(), 0, frame) : pose.data();
        const auto start = std::chrono::steady_clock::now();
        const understudy_status status = understudy_deform(
            model.get(), scratch.get(), drivers, controls.data(), positions.data(), normals.data());
        seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        if (status != UNDERSTUDY_OK)
            return std::fprintf(stderr, "frame %zu: status %d\n", frame, status), 1;
    }
    std::printf("%zu frames of %zu vertices: %.3f ms per frame with normals\n", frames, vertices,
                1000 * seconds / static_cast<double>(frames));
}
