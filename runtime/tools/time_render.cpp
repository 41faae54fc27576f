// Compares the time of `understudy_deform_render`, into interleaved vertices, with that of
// `understudy_deform`, into tight arrays, in turns:
//
//     time_render THREADS a.understudy ...
//
// Prints the lowest of several block medians of one pose, without and with normals, and what the
// memory traffic alone takes: a loop that reads as many bytes per vertex and writes as many
// positions at the same places.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "understudy.h"

namespace {

struct Vertex {  // as engines have it
    float position[3], normal[3], tangent[4], uv[2];
};

template <class Call>
double median_ms(const Call& call) {
    std::vector<double> times;
    for (int i = 0; i < 30; ++i) {
        const auto start = std::chrono::steady_clock::now();
        call();
        times.push_back(
            std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                .count());
    }
    std::nth_element(times.begin(), times.begin() + 15, times.end());
    return times[15];
}

// Brings every line of `bytes` into the cache and writes `count` positions, `stride` floats apart.
void touch(const std::vector<float>& bytes, std::size_t count, std::size_t stride, float* to) {
    const std::size_t each = std::min<std::size_t>(16, bytes.size() / count);
    const float *from = bytes.data(), *end = from + bytes.size();
    for (std::size_t n = 0; n < count; ++n, from += each, to += stride)
        to[0] = to[1] = to[2] = from < end ? *from : 0;
    for (; from < end; from += 16) to[-1] += *from;
}

}  // namespace

int main(int count, char** names) {
    if (count < 3) return std::fprintf(stderr, "usage: time_render THREADS FILE ...\n"), 2;
    understudy_pool* pool = understudy_create_pool(std::atoi(names[1]));
    for (int i = 2; i < count; ++i) {
        char message[256];
        understudy_model* model = understudy_load_file(names[i], message, sizeof message);
        if (!model) return std::fprintf(stderr, "%s: %s\n", names[i], message), 2;
        understudy_render_mesh* mesh = understudy_create_render_mesh(model);
        understudy_scratch* scratch = understudy_create_render_scratch(model, pool, mesh);
        const std::vector<double> controls(understudy_control_count(model), 0.1);
        const double* bones = understudy_rest_bones(model);
        std::vector<float> positions(3 * understudy_vertex_count(model)), normals(positions.size());
        std::vector<Vertex> vertices(understudy_render_vertex_count(mesh));
        const std::vector<float> bytes(understudy_model_bytes(model) / sizeof(float));
        double best[6] = {1e30, 1e30, 1e30, 1e30, 1e30, 1e30};
        for (int block = 0; block < 40; ++block)
            for (int kind = 0; kind < 6; ++kind) {
                const bool with_normals = kind == 2 || kind == 3;
                const understudy_vertex_buffer buffer{vertices[0].position,
                                                      sizeof(Vertex),
                                                      with_normals ? vertices[0].normal : nullptr,
                                                      sizeof(Vertex),
                                                      nullptr,
                                                      0};
                best[kind] =
                    std::min(best[kind], median_ms([&] {
                                 if (kind == 4)
                                     touch(bytes, positions.size() / 3, 3, positions.data());
                                 else if (kind == 5)
                                     touch(bytes, vertices.size(), sizeof(Vertex) / sizeof(float),
                                           vertices[0].position);
                                 else if (kind % 2)
                                     understudy_deform_render(model, scratch, bones,
                                                              controls.data(), &buffer);
                                 else
                                     understudy_deform(model, scratch, bones, controls.data(),
                                                       positions.data(),
                                                       with_normals ? normals.data() : nullptr);
                             }));
            }
        std::printf("%s: %zu vertices, %zu render vertices\n", names[i], positions.size() / 3,
                    vertices.size());
        const char* const what[] = {"positions", "with normals", "memory traffic alone"};
        for (int kind = 0; kind < 3; ++kind)
            std::printf("    %-20s %.4f -> %.4f ms (x %.3f)\n", what[kind], best[2 * kind],
                        best[2 * kind + 1], best[2 * kind + 1] / best[2 * kind]);
        understudy_free_scratch(scratch);
        understudy_free_render_mesh(mesh);
        understudy_free_model(model);
    }
    understudy_free_pool(pool);
}
