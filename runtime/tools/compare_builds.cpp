// Compares the speed of two builds of the shared library in one process, call by call in turns:
//
//     compare_builds OLD.so NEW.so THREADS a.understudy ...
//
// Prints the lowest of several block medians of one pose for each build, and their ratio.
#include <dlfcn.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../include/understudy.h"

namespace {

struct Build {
    void* library;
    understudy_model* model = nullptr;
    understudy_pool* pool = nullptr;
    understudy_scratch* scratch = nullptr;
    double best[2] = {1e30, 1e30};  // milliseconds: one pose; one of 16

    template <class Function>
    Function* find(const char* name) const {
        return reinterpret_cast<Function*>(dlsym(library, name));
    }

    bool load(const char* path, int threads) {
        char message[256];
        model = find<decltype(understudy_load_file)>("understudy_load_file")(path, message,
                                                                             sizeof message);
        if (!model) return std::fprintf(stderr, "%s: %s\n", path, message), false;
        pool = find<decltype(understudy_create_pool)>("understudy_create_pool")(threads);
        scratch =
            find<decltype(understudy_create_scratch)>("understudy_create_scratch")(model, pool);
        return pool && scratch;
    }

    void free() {
        find<decltype(understudy_free_scratch)>("understudy_free_scratch")(scratch);
        find<decltype(understudy_free_pool)>("understudy_free_pool")(pool);
        find<decltype(understudy_free_model)>("understudy_free_model")(model);
    }
};

}  // namespace

int main(int count, char** names) {
    if (count < 5) return std::fprintf(stderr, "usage: see the first lines of the source\n"), 2;
    Build builds[2];
    for (int b = 0; b < 2; ++b) {
        builds[b].library = dlopen(names[1 + b], RTLD_NOW | RTLD_LOCAL);
        if (!builds[b].library) return std::fprintf(stderr, "%s\n", dlerror()), 2;
    }
    for (int i = 4; i < count; ++i) {
        for (Build& build : builds) {
            if (!build.load(names[i], std::atoi(names[3]))) return 1;
            build.best[0] = build.best[1] = 1e30;
        }
        const std::size_t bones = builds[1].find<decltype(understudy_bone_count)>(
            "understudy_bone_count")(builds[1].model);
        const std::size_t vertices = builds[1].find<decltype(understudy_vertex_count)>(
            "understudy_vertex_count")(builds[1].model);
        const std::size_t controls = builds[1].find<decltype(understudy_control_count)>(
            "understudy_control_count")(builds[1].model);
        const double* rest = builds[1].find<decltype(understudy_rest_bones)>(
            "understudy_rest_bones")(builds[1].model);
        std::vector<double> drivers, values(16 * controls, 0.1);
        for (int pose = 0; pose < 16; ++pose)
            drivers.insert(drivers.end(), rest, rest + 12 * bones);
        std::vector<float> out(16 * 3 * vertices);
        for (int block = 0; block < 40; ++block)
            for (int turn = 0; turn < 2; ++turn) {
                Build& build = builds[(block + turn) % 2];
                const auto deform =
                    build.find<decltype(understudy_deform_many)>("understudy_deform_many");
                for (int many = 0; many < 2; ++many) {
                    std::vector<double> times;
                    for (int call = 0; call < (many ? 4 : 30); ++call) {
                        const auto start = std::chrono::steady_clock::now();
                        deform(build.model, build.scratch, many ? 16 : 1, drivers.data(),
                               values.data(), out.data(), nullptr);
                        times.push_back(std::chrono::duration<double, std::milli>(
                                            std::chrono::steady_clock::now() - start)
                                            .count() /
                                        (many ? 16 : 1));
                    }
                    std::nth_element(times.begin(), times.begin() + times.size() / 2, times.end());
                    build.best[many] = std::min(build.best[many], times[times.size() / 2]);
                }
            }
        std::printf("%s: one pose %.4f -> %.4f ms (x %.3f), of 16 %.4f -> %.4f ms (x %.3f)\n",
                    names[i], builds[0].best[0], builds[1].best[0],
                    builds[1].best[0] / builds[0].best[0], builds[0].best[1], builds[1].best[1],
                    builds[1].best[1] / builds[0].best[1]);
        for (Build& build : builds) build.free();
    }
}
