// Tests of the library through its header and of its parts.
//
//     test_runtime a.understudy b.understudy ...
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__SSE2__)
#include <immintrin.h>
#endif
#if !defined(_WIN32)
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>
#endif

#include "../src/archive.h"
#include "../src/checked.h"
#include "../src/deform.h"
#include "check.h"
#include "sample.h"

namespace {

understudy_model* load(const char* path) {
    char message[200];
    understudy_model* model = understudy_load_file(path, message, sizeof message);
    if (!model) std::fprintf(stderr, "%s: %s\n", path, message);
    CHECK(model);
    CHECK(message[0] == 0);
    return model;
}

std::vector<float> played(const understudy_model* model, int threads, std::size_t poses,
                          bool normals = false) {
    const Drivers drivers(model, poses);
    std::vector<float> out(3 * understudy_vertex_count(model) * poses),
        sides(normals ? out.size() : 0);
    understudy_pool* pool = understudy_create_pool(threads);
    understudy_scratch* scratch = understudy_create_scratch(model, pool);
    CHECK(pool && scratch);
    CHECK(understudy_deform_many(model, scratch, poses, drivers.bones.data(),
                                 drivers.controls.data(), out.data(),
                                 normals ? sides.data() : nullptr) == UNDERSTUDY_OK);
    understudy_free_scratch(scratch);
    understudy_free_pool(pool);
    return normals ? sides : out;
}

float size_of(const understudy_model* model) {
    float low = 0, high = 0;
    for (std::size_t i = 0; i < 3 * understudy_vertex_count(model); ++i) {
        low = std::min(low, understudy_rest_positions(model)[i]);
        high = std::max(high, understudy_rest_positions(model)[i]);
    }
    return high - low;
}

bool is_dual_quaternion(const understudy_model* model) {
    // The API does not say; the library's own type does.
    return reinterpret_cast<const understudy::Model*>(model)->description.blend ==
           understudy::Blend::dual_quaternion;
}

void test_questions(const understudy_model* model) {
    CHECK(understudy_vertex_count(model) >= 1);
    CHECK(understudy_model_bytes(model) >= 6 * understudy_vertex_count(model));
    CHECK(std::strlen(understudy_method(model)) > 0);
    for (std::size_t bone = 0; bone < understudy_bone_count(model); ++bone) {
        CHECK(std::strlen(understudy_bone_name(model, bone)) > 0);
        CHECK(understudy_bone_parent(model, bone) < static_cast<int>(bone));
    }
    for (std::size_t control = 0; control < understudy_control_count(model); ++control) {
        CHECK(std::strlen(understudy_control_name(model, control)) > 0);
        CHECK(understudy_control_unit(model, control));
        CHECK(understudy_control_low(model)[control] <= understudy_control_high(model)[control]);
        CHECK(std::isfinite(understudy_control_rest(model)[control]));
    }
    CHECK(std::strlen(understudy_up_axis(model)) > 0);
    CHECK(std::string(understudy_handedness(model)) == "right");
    CHECK(std::string(understudy_version()) == UNDERSTUDY_VERSION);
    for (std::size_t corner = 0; corner < 3 * understudy_triangle_count(model); ++corner)
        CHECK(static_cast<std::size_t>(understudy_triangles(model)[corner]) <
              understudy_vertex_count(model));
}

void test_threads_change_no_bit(const understudy_model* model) {
    constexpr std::size_t kPoses = understudy::kLanes + 11;
    const std::vector<float> alone = played(model, 1, kPoses);
    for (const float value : alone) CHECK(std::isfinite(value));
    for (const int threads : {2, 5}) CHECK(played(model, threads, kPoses) == alone);
    for (const float value : played(model, 2, 3, true)) CHECK(std::abs(value) <= 1.0001f);
}

// Every instruction set of this processor gives the same as plain C++.
void test_instruction_sets(const understudy_model* model_of_api, const char* path) {
    const std::vector<char> file = read_bytes(path);
    understudy::Problem problem;
    understudy::Model model(understudy::default_memory());
    CHECK(model.load(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(), problem));
    understudy::Scratch scratch(model, nullptr);
    CHECK(scratch.allocate());
    constexpr std::size_t kPoses = understudy::kLanes + 7;  // one lane batch and a remainder
    const Drivers drivers(model_of_api, kPoses);
    const std::size_t count = kPoses * 3 * model.vertex_count();
    std::vector<float> want(count), got(count);
    const understudy::Kernels* const* last = understudy::all_kernels();
    while (last[1]) ++last;
    CHECK(std::string((*last)->name) == "portable");
    understudy::deform(
        model, scratch, **last,
        {kPoses, drivers.bones.data(), drivers.controls.data(), want.data(), nullptr});
    const float tolerance = 1e-5f * size_of(model_of_api);
    for (const understudy::Kernels* const* use = understudy::all_kernels(); *use; ++use) {
        understudy::deform(
            model, scratch, **use,
            {kPoses, drivers.bones.data(), drivers.controls.data(), got.data(), nullptr});
        for (std::size_t i = 0; i < count; ++i) CHECK(std::abs(got[i] - want[i]) <= tolerance);
        const std::size_t one = count / kPoses;  // a single pose uses other code
        understudy::deform(model, scratch, **use,
                           {1, drivers.bones.data(), drivers.controls.data(), got.data(), nullptr});
        for (std::size_t i = 0; i < one; ++i) CHECK(std::abs(got[i] - want[i]) <= tolerance);
    }
}

void test_wrong_calls(const understudy_model* model, const understudy_model* other) {
    Drivers drivers(model, 1);
    std::vector<float> out(3 * understudy_vertex_count(model), 7.0f);
    understudy_scratch* scratch = understudy_create_scratch(model, nullptr);
    CHECK(!understudy_create_scratch(nullptr, nullptr));
    CHECK(understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(), nullptr,
                            nullptr) == UNDERSTUDY_MISSING_ARGUMENT);
    if (understudy_bone_count(model)) {
        CHECK(understudy_deform(model, scratch, nullptr, drivers.controls.data(), out.data(),
                                nullptr) == UNDERSTUDY_MISSING_ARGUMENT);
        for (const double wrong :
             {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
            const double kept = std::exchange(drivers.bones.back(), wrong);
            CHECK(understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(),
                                    out.data(), nullptr) == UNDERSTUDY_NOT_FINITE);
            drivers.bones.back() = kept;
        }
    }
    if (understudy_reads_controls(model))
        CHECK(understudy_deform(model, scratch, drivers.bones.data(), nullptr, out.data(),
                                nullptr) == UNDERSTUDY_MISSING_ARGUMENT);
    if (understudy_bone_count(model)) {
        for (const double large : {1e19, -1e300}) {  // finite, but not as a float
            const double kept = std::exchange(drivers.bones.back(), large);
            CHECK(understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(),
                                    out.data(), nullptr) == UNDERSTUDY_NOT_FINITE);
            drivers.bones.back() = kept;
        }
        CHECK(understudy_deform(model, scratch, reinterpret_cast<double*>(out.data()),
                                drivers.controls.data(), out.data(),
                                nullptr) == UNDERSTUDY_OVERLAP);
    }
    CHECK(understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(),
                            out.data(), out.data()) == UNDERSTUDY_OVERLAP);
    for (const float value : out) CHECK(value == 7.0f);  // nothing was written
    understudy_scratch* foreign = understudy_create_scratch(other, nullptr);
    CHECK(understudy_deform(model, foreign, drivers.bones.data(), drivers.controls.data(),
                            out.data(), nullptr) == UNDERSTUDY_WRONG_SCRATCH);
    understudy_free_scratch(foreign);
    understudy_free_scratch(scratch);
}

// Coefficients, transforms and the arrays for a GPU, combined as a shader would, give the vertices.
void test_gpu_arrays(const understudy_model* model) {
    const understudy_gpu_counts counts = understudy_count_gpu_arrays(model);
    CHECK(counts.vertices == understudy_vertex_count(model));
    std::vector<float> rest(4 * counts.vertices), matrices(counts.matrix_numbers),
        weights(counts.influences * counts.vertices), coefficients(counts.coefficients),
        transforms(12 * counts.transforms), want(3 * counts.vertices);
    std::vector<std::uint32_t> starts(counts.vertices + 1), entries(4 * counts.entries),
        others(entries.size()), influences(weights.size());
    const understudy_gpu_arrays arrays{rest.data(),     starts.data(),     entries.data(),
                                       matrices.data(), influences.data(), weights.data()};
    CHECK(understudy_fill_gpu_arrays(model, &arrays) == 1);
    CHECK(understudy_fill_gpu_arrays(model, nullptr) == 0);
    understudy_gpu_arrays some{};
    some.entries = others.data();
    CHECK(understudy_fill_gpu_arrays(model, &some) == 1 && others == entries);
    CHECK(starts.back() == counts.entries);
    understudy_pool* pool = understudy_create_pool(2);
    understudy_scratch* scratch = understudy_create_scratch(model, pool);
    Drivers drivers(model, 1);
    const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
    CHECK(understudy_deform(model, scratch, bones, controls, want.data(), nullptr) ==
          UNDERSTUDY_OK);
    CHECK(understudy_coefficients(model, scratch, bones, controls, coefficients.data()) ==
          UNDERSTUDY_OK);
    CHECK(understudy_transforms(model, scratch, bones, transforms.data()) == UNDERSTUDY_OK);
    CHECK(understudy_transforms(model, scratch, bones, nullptr) == UNDERSTUDY_MISSING_ARGUMENT);
    float distance = -1;
    CHECK(understudy_distance_from_data(model, scratch, bones, controls, &distance) ==
          UNDERSTUDY_OK);
    CHECK(understudy_is_bounded(model) ? distance >= 0 : distance == 0);
    CHECK(understudy_distance_from_data(model, scratch, bones, controls, nullptr) ==
          UNDERSTUDY_MISSING_ARGUMENT);
    CHECK(understudy_distance_from_data(nullptr, scratch, bones, controls, &distance) ==
          UNDERSTUDY_MISSING_ARGUMENT);
    if (counts.coefficients)
        CHECK(understudy_coefficients(model, scratch, bones, controls, nullptr) ==
              UNDERSTUDY_MISSING_ARGUMENT);
    if (!drivers.bones.empty()) {
        drivers.bones[0] = std::numeric_limits<double>::quiet_NaN();
        CHECK(understudy_transforms(model, scratch, bones, transforms.data()) ==
              UNDERSTUDY_NOT_FINITE);
        CHECK(understudy_coefficients(model, scratch, bones, controls, coefficients.data()) ==
              UNDERSTUDY_NOT_FINITE);
        CHECK(understudy_distance_from_data(model, scratch, bones, controls, &distance) ==
              UNDERSTUDY_NOT_FINITE);
    }
    understudy_free_scratch(scratch);
    understudy_free_pool(pool);
    if (is_dual_quaternion(model)) return;
    const float tolerance = 1e-5f * size_of(model);
    for (std::size_t vertex = 0; vertex < counts.vertices; ++vertex) {
        float point[4];
        std::memcpy(point, rest.data() + 4 * vertex, sizeof point);
        for (std::uint32_t e = starts[vertex]; e != starts[vertex + 1]; ++e) {
            const std::uint32_t* entry = entries.data() + 4 * e;
            const bool shared = entry[3] >> 31;
            const std::uint32_t count = entry[3] & 0x7FFFFFFF;
            for (std::uint32_t k = 0; k < count; ++k)
                for (std::uint32_t axis = 0; axis < 3; ++axis)
                    point[axis] += matrices[entry[0] + k * entry[1] + (shared ? 0 : axis)] *
                                   coefficients[entry[2] + k + (shared ? axis * count : 0)];
        }
        for (int row = 0; row < 3; ++row) {
            float sum = 0;
            for (std::size_t k = 0; k < counts.influences; ++k) {
                const std::size_t at = vertex * counts.influences + k;
                for (int column = 0; column < 4; ++column)
                    sum += weights[at] * point[column] *
                           transforms[12 * std::size_t{influences[at]} + 4 * row + column];
            }
            CHECK(std::abs(sum - want[3 * vertex + row]) <= tolerance);
        }
    }
}

// Interleaved vertices of a render mesh, or of the vertices themselves, are copies of what
// `understudy_deform` gives; nothing else in the buffer is written.
void test_render(const understudy_model* model) {
    struct Vertex {
        float before, position[3], between, normal[3], tangent[4], after;
    };
    understudy_render_mesh* mesh = understudy_create_render_mesh(model);
    CHECK(mesh);
    const Drivers drivers(model, 1);
    const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
    const std::size_t floats = 3 * understudy_vertex_count(model);
    std::vector<float> positions(floats), normals(floats);
    for (const int threads : {1, 3})
        for (const understudy_render_mesh* use :
             {static_cast<understudy_render_mesh*>(nullptr), mesh})
            for (const bool directions : {false, true}) {
                understudy_pool* pool = understudy_create_pool(threads);
                understudy_scratch* scratch = understudy_create_render_scratch(model, pool, use);
                CHECK(understudy_deform(model, scratch, bones, controls, positions.data(),
                                        normals.data()) == UNDERSTUDY_OK);
                const std::size_t count =
                    use ? understudy_render_vertex_count(use) : understudy_vertex_count(model);
                const bool tangents = use && understudy_render_uvs(use);
                std::vector<Vertex> out(count, Vertex{7, {7, 7, 7}, 7, {7, 7, 7}, {7, 7, 7, 7}, 7});
                understudy_vertex_buffer buffer{out[0].position,
                                                sizeof(Vertex),
                                                directions ? out[0].normal : nullptr,
                                                sizeof(Vertex),
                                                directions && tangents ? out[0].tangent : nullptr,
                                                sizeof(Vertex)};
                CHECK(understudy_deform_render(model, scratch, bones, controls, &buffer) ==
                      UNDERSTUDY_OK);
                for (std::size_t n = 0; n < count; ++n) {
                    const std::size_t vertex = use ? understudy_render_vertices(use)[n] : n;
                    CHECK(vertex == n || n >= understudy_vertex_count(model));
                    const Vertex& got = out[n];
                    CHECK(got.before == 7 && got.between == 7 && got.after == 7);
                    CHECK(std::memcmp(got.position, positions.data() + 3 * vertex, 12) == 0);
                    if (!directions) CHECK(got.normal[0] == 7 && got.tangent[3] == 7);
                    else if (!use)
                        CHECK(std::memcmp(got.normal, normals.data() + 3 * vertex, 12) == 0);
                    if (!directions || !tangents) continue;
                    const float* t = got.tangent;
                    CHECK(std::abs(t[0] * t[0] + t[1] * t[1] + t[2] * t[2] - 1) < 1e-4f);
                    CHECK(t[3] == 1 || t[3] == -1);
                    CHECK(std::abs(t[0] * got.normal[0] + t[1] * got.normal[1] +
                                   t[2] * got.normal[2]) < 1e-3f);
                }
                buffer.positions = nullptr;
                CHECK(understudy_deform_render(model, scratch, bones, controls, &buffer) ==
                      UNDERSTUDY_MISSING_ARGUMENT);
                buffer = {out[0].position, sizeof(Vertex), nullptr, 0, out[0].tangent, 4};
                if (!tangents)
                    CHECK(understudy_deform_render(model, scratch, bones, controls, &buffer) ==
                          UNDERSTUDY_MISSING_ARGUMENT);
                understudy_free_scratch(scratch);
                understudy_free_pool(pool);
            }
    std::size_t indices = 0;
    for (std::size_t number = 0; number < understudy_submesh_count(mesh); ++number) {
        const understudy_submesh part = understudy_submesh_at(mesh, number);
        CHECK(part.first_index == indices && part.index_count % 3 == 0);
        indices += part.index_count;
    }
    CHECK(indices == understudy_render_index_count(mesh));
    CHECK(indices == 3 * understudy_triangle_count(model));
    understudy_scratch* plain = understudy_create_scratch(model, nullptr);
    understudy_vertex_buffer buffer{positions.data(), 12, nullptr, 0, nullptr, 0};
    CHECK(understudy_deform_render(model, plain, bones, controls, &buffer) ==
          UNDERSTUDY_WRONG_SCRATCH);
    understudy_free_scratch(plain);
    // A stride that gives vertices the same numbers, or none their alignment.
    understudy_scratch* scratch = understudy_create_render_scratch(model, nullptr, mesh);
    std::vector<Vertex> out(understudy_render_vertex_count(mesh));
    const auto play = [&](std::size_t position, std::size_t normal, std::size_t tangent) {
        buffer = {out[0].position, position, out[0].normal, normal, nullptr, sizeof(Vertex)};
        if (understudy_render_uvs(mesh)) buffer.tangents = out[0].tangent;
        buffer.tangent_stride = tangent;
        return understudy_deform_render(model, scratch, bones, controls, &buffer);
    };
    CHECK(play(sizeof(Vertex), sizeof(Vertex), sizeof(Vertex)) == UNDERSTUDY_OK);
    for (const std::size_t wrong : {0, 4, 8, 11, 13, 27}) {
        CHECK(play(wrong, sizeof(Vertex), sizeof(Vertex)) == UNDERSTUDY_WRONG_STRIDE);
        CHECK(play(sizeof(Vertex), wrong, sizeof(Vertex)) == UNDERSTUDY_WRONG_STRIDE);
    }
    if (understudy_render_uvs(mesh))
        CHECK(play(sizeof(Vertex), sizeof(Vertex), 12) == UNDERSTUDY_WRONG_STRIDE);
    understudy_free_scratch(scratch);
    understudy_free_render_mesh(mesh);
    understudy_free_render_mesh(nullptr);
    CHECK(!understudy_create_render_mesh(nullptr));
}

// Several callers share a model and a pool; each has its own scratch.
void test_callers_share_a_model(const understudy_model* model) {
    const std::vector<float> want = played(model, 1, 2);
    understudy_pool* pool = understudy_create_pool(2);
    std::vector<std::thread> callers;
    for (int caller = 0; caller < 4; ++caller)
        callers.emplace_back([&] {
            const Drivers drivers(model, 2);
            std::vector<float> out(want.size());
            understudy_scratch* scratch = understudy_create_scratch(model, pool);
            for (int call = 0; call < 50; ++call) {
                CHECK(understudy_deform_many(model, scratch, 2, drivers.bones.data(),
                                             drivers.controls.data(), out.data(),
                                             nullptr) == UNDERSTUDY_OK);
                CHECK(out == want);
            }
            understudy_free_scratch(scratch);
        });
    for (std::thread& caller : callers) caller.join();
    understudy_free_pool(pool);
}

// A row whose weight is 1 applies an activation to its input.
void test_activations() {
    alignas(64) float weights[16], y[16];
    for (float& weight : weights) weight = 1;
    understudy::Panels one;
    one.data = weights;
    one.columns = 1;
    one.rows = 16;
    for (const understudy::Kernels* const* use = understudy::all_kernels(); *use; ++use) {
        const auto value = [&](float x, understudy::Activation activation) {
            (*use)->dense(one, 0, 16, {&x, 1, 1, nullptr, activation, y, 16});
            for (const float other : y) CHECK(other == y[0] || std::isnan(x));
            return double{y[0]};
        };
        for (float x = -20; x <= 20; x += 0.001f) {
            CHECK(std::abs(value(x, understudy::Activation::tanh) - std::tanh(double{x})) < 4e-7);
            CHECK(std::abs(value(x, understudy::Activation::gelu) -
                           0.5 * x * std::erfc(-x / std::sqrt(2.0))) < 2e-6);
            if (std::abs(x) < 5.5f)
                CHECK(std::abs(value(x, understudy::Activation::gelu) -
                               0.5 * x * std::erfc(-x / std::sqrt(2.0))) < 1e-6);
        }
        for (const understudy::Activation activation :
             {understudy::Activation::linear, understudy::Activation::tanh,
              understudy::Activation::relu, understudy::Activation::gelu})
            CHECK(std::isnan(value(std::numeric_limits<float>::quiet_NaN(), activation)));
    }
}

void test_sizes_never_wrap() {
    using understudy::kTooLarge;
    CHECK(understudy::added(2, 3) == 5);
    CHECK(understudy::added(kTooLarge - 1, 2) == kTooLarge);
    CHECK(understudy::multiplied(6, 7) == 42);
    CHECK(understudy::multiplied(kTooLarge / 2, 3) == kTooLarge);
    CHECK(understudy::multiplied(kTooLarge, 0) == 0);
    CHECK(understudy::padded(kTooLarge, 64) >= kTooLarge - 63);
    understudy::Buffer too_large(understudy::default_memory());
    CHECK(!too_large.allocate(kTooLarge));
    understudy::Array<double> doubles(understudy::default_memory());
    CHECK(!doubles.resize(kTooLarge / 4));
    CHECK(doubles.empty());
}

bool is_json(const std::string& text) {
    understudy::Problem problem;
    understudy::Json ignored;
    return understudy::parse_json(text.data(), text.data() + text.size(),
                                  understudy::default_memory(), ignored, problem);
}

void test_json() {
    using understudy::Json;
    const std::string text =
        R"( {"a": [1, -2.5e1, true, null, "x\u00e9\ud83d\ude00\n"], "b": {}, "a ": {"a": 7}} )";
    understudy::Problem problem;
    Json json, list;
    const understudy::Memory& memory = understudy::default_memory();
    CHECK(understudy::parse_json(text.data(), text.data() + text.size(), memory, json, problem));
    CHECK(json.need("a", Json::Kind::array, list, problem));
    std::vector<Json> items;
    CHECK(list.each_item([&](const Json& item) {
        items.push_back(item);
        return true;
    }));
    CHECK(items.size() == 5);
    std::uint64_t whole = 0;
    CHECK(items[0].read_whole("it", whole, problem) && whole == 1);
    CHECK(items[1].number() == -25 && items[2].truth());
    CHECK(items[3].kind() == Json::Kind::null);
    const char* wanted = "x\xc3\xa9\xf0\x9f\x98\x80\n";
    understudy::Text read(understudy::default_memory());
    CHECK(items[4].read(read, problem));
    CHECK(std::string(read.c_str()) == wanted && items[4].is(wanted));
    CHECK(!items[4].is("x") && !items[4].is("x\xc3\xa9\xf0\x9f\x98\x80\n!"));
    CHECK(items[4].hash() == understudy::hash_of(wanted));
    CHECK(!items[1].read_whole("it", whole, problem));
    CHECK(std::string(problem.text()) == "it is not a whole number");
    CHECK(json.find("b").kind() == Json::Kind::object);
    CHECK(!json.find("c") && !items[0].find("c"));
    for (const char* good :
         {"[]", "{\"\": [[], {}]}", "[0, 10, 0.5, 1E5]", "[\"\xf4\x8f\xbf\xbf\"]"})
        CHECK(is_json(good));
    for (const char* bad : {"",
                            "[",
                            "[1",
                            "[1}",
                            "[1,]",
                            "{1:2}",
                            "{\"a\" 1}",
                            "[01]",
                            "[1.]",
                            "[.5]",
                            "[+1]",
                            "[--1]",
                            "[1e]",
                            "[tru]",
                            "[\"a]",
                            "[\"\\x\"]",
                            "[\"\\u12\"]",
                            "[\"\\ud800\"]",
                            "[\"\\udc00\"]",
                            "[\"\x80\"]",
                            "[\"\xc0\xaf\"]",
                            "[\"\xe0\x80\x80\"]",
                            "[\"\xed\xa0\x80\"]",
                            "[\"\xf5\x80\x80\x80\"]",
                            "[\"\xc3\"]",
                            "[\"\n\"]",
                            "{\"a\": 1, \"b\": {\"a\": 1}, \"a\": 1}",
                            "[{\"b\": {\"a\": 1, \"\\u0061\": {}}}]",
                            "[] []"})
        CHECK(!is_json(bad));
    CHECK(is_json(std::string(60, '[') + std::string(60, ']')));
    CHECK(!is_json(std::string(1000, '[') + std::string(1000, ']')));
    CHECK(is_json("[-" + std::string(1000, '1') + "]"));
    CHECK(is_json("[" + std::string(1001, '1') + ".0]"));
    CHECK(!is_json("[" + std::string(1001, '1') + "]"));
    const std::string zero = "[\"a\\u0000b\"]";  // valid, but no C string can hold it
    understudy::Problem found;
    CHECK(understudy::parse_json(zero.data(), zero.data() + zero.size(), memory, json, found));
    CHECK(!json.each_item([&](const Json& item) {
        understudy::Text ignored(understudy::default_memory());
        return item.read(ignored, found);
    }));
    CHECK(std::string(found.text()).find("zero character") != std::string::npos);
}

// A message is cut at the end of a character.
void test_words() {
    CHECK(std::string(understudy::Words<8>("ab", std::uint64_t{120}, "cdef").c_str()) == "ab120cd");
    CHECK(std::string(understudy::Words<4>("a\xf0\x9f\x98\x80").c_str()) == "a");
    CHECK(std::string(understudy::Words<4>("ab\xc3\xa9").c_str()) == "ab");
    CHECK(std::string(understudy::Words<5>("ab\xc3\xa9").c_str()) == "ab\xc3\xa9");
}

template <class Number>
void test_bone_formats(understudy_number number) {
    // A quarter turn about z after a scale of (2, 3, 4), then a shift.
    const double want[12] = {0, -3, 0, 5, 2, 0, 0, 6, 0, 0, 4, 7};
    const Number half = static_cast<Number>(std::sqrt(0.5));
    struct Bone {
        Number rows[12] = {0, -3, 0, 5, 2, 0, 0, 6, 0, 0, 4, 7};
        Number columns[16] = {0, 2, 0, 0, -3, 0, 0, 0, 0, 0, 4, 0, 5, 6, 7, 1};
        Number parts[10] = {5, 6, 7, 0, 0, 0, 0, 2, 3, 4};
    } bones[2];
    for (Bone& bone : bones) bone.parts[5] = bone.parts[6] = half;
    const std::pair<understudy_bone_format, const Number*> formats[] = {
        {UNDERSTUDY_BONES_3X4_ROWS, bones[0].rows},
        {UNDERSTUDY_BONES_4X4_COLUMNS, bones[0].columns},
        {UNDERSTUDY_BONES_PARTS, bones[0].parts}};
    for (const auto& format : formats) {
        double got[24];
        for (const std::size_t wrong : {std::size_t{0}, 9 * sizeof(Number)})
            CHECK(understudy_convert_bones(format.first, number, format.second, wrong, 2, got) ==
                  UNDERSTUDY_WRONG_STRIDE);
        CHECK(understudy_convert_bones(format.first, number, format.second, 0, 1, got) ==
              UNDERSTUDY_OK);
        CHECK(understudy_convert_bones(format.first, number, format.second, sizeof(Bone), 2, got) ==
              UNDERSTUDY_OK);
        for (int i = 0; i < 24; ++i) CHECK(std::abs(got[i] - want[i % 12]) < 1e-6);
        CHECK(understudy_convert_bones(format.first, number, nullptr, sizeof(Bone), 2, got) ==
              UNDERSTUDY_MISSING_ARGUMENT);
    }
}

// Memory of the host: every byte comes from it and goes back to it, and it may run out at any time.
struct Host {
    long taken = 0, left = -1;  // left: allocations that succeed, -1: all
    std::size_t bytes = 0;

    understudy_allocator functions() {
        return {[](void* user, std::size_t size, std::size_t alignment) -> void* {
                    Host& host = *static_cast<Host*>(user);
                    CHECK(size && alignment <= 64 && (alignment & (alignment - 1)) == 0);
                    if (host.left == 0) return nullptr;
                    if (host.left > 0) --host.left;
                    ++host.taken;
                    host.bytes += size;
                    return understudy::default_memory().allocate(nullptr, size, alignment);
                },
                [](void* user, void* data, std::size_t size) {
                    Host& host = *static_cast<Host*>(user);
                    --host.taken;
                    host.bytes -= size;
                    understudy::default_memory().release(nullptr, data, size);
                },
                this};
    }
};

void test_memory_of_the_host(const char* path, const std::vector<float>& want) {
    Host host;
    const understudy_allocator memory = host.functions();
    const auto play = [&] {
        char message[100];
        understudy_model* model = understudy_load_file_with(&memory, path, message, sizeof message);
        CHECK(model || std::string(message) == "not enough memory for this file");
        understudy_pool* pool = understudy_create_pool_with(&memory, 2);
        understudy_scratch* scratch =
            model && pool ? understudy_create_scratch(model, pool) : nullptr;
        bool played = false;
        if (scratch) {
            const Drivers drivers(model, 2);
            std::vector<float> out(want.size());
            const Host before = host;
            CHECK(understudy_deform_many(model, scratch, 2, drivers.bones.data(),
                                         drivers.controls.data(), out.data(),
                                         nullptr) == UNDERSTUDY_OK);
            CHECK(host.taken == before.taken && out == want);
            played = true;
        }
        understudy_free_scratch(scratch);
        understudy_free_pool(pool);
        understudy_free_model(model);
        CHECK(host.taken == 0 && host.bytes == 0);
        return played;
    };
    CHECK(play());
    bool played = false;
    for (long count = 0; !played; ++count) {
        CHECK(count < 2000);
        host.left = count;
        played = play();
    }
}

// What was created may be freed in any order; freed memory is unreadable.
void test_any_order_of_freeing(const char* path) {
    int order[] = {0, 1, 2, 3};
    do {
        Host host;
        understudy_allocator memory = host.functions();
        memory.release = [](void* user, void* data, std::size_t size) {
            std::memset(data, 0xDD, size);
            static_cast<Host*>(user)->functions().release(user, data, size);
        };
        understudy_model* model = understudy_load_file_with(&memory, path, nullptr, 0);
        understudy_pool* pool = understudy_create_pool_with(&memory, 2);
        understudy_render_mesh* mesh = understudy_create_render_mesh(model);
        understudy_scratch* scratch = understudy_create_render_scratch(model, pool, mesh);
        const Drivers drivers(model, 1);
        std::vector<float> out(3 * understudy_vertex_count(model));
        CHECK(understudy_deform(model, scratch, drivers.bones.data(), drivers.controls.data(),
                                out.data(), nullptr) == UNDERSTUDY_OK);
        for (const int what : order) {
            if (what == 0) understudy_free_model(model);
            if (what == 1) understudy_free_pool(pool);
            if (what == 2) understudy_free_render_mesh(mesh);
            if (what == 3) understudy_free_scratch(scratch);
        }
        CHECK(host.taken == 0 && host.bytes == 0);
    } while (std::next_permutation(order, order + 4));
}

// Processor modes of a host: numbers near zero are flushed, and the rounding is another.
#if defined(__SSE2__)
using Mode = unsigned;
Mode get_mode() { return _mm_getcsr() & ~0x3Fu; }  // without what happened so far
void set_mode(Mode mode) { _mm_setcsr(mode); }
constexpr Mode kFlush = 0x8040, kUpwards = 0x4000;
#elif defined(__aarch64__) && defined(__GNUC__)
using Mode = std::uint64_t;
Mode get_mode() {
    Mode mode;
    asm volatile("mrs %0, fpcr" : "=r"(mode));
    return mode;
}
void set_mode(Mode mode) { asm volatile("msr fpcr, %0" : : "r"(mode)); }
constexpr Mode kFlush = 1 << 24, kUpwards = 1 << 22;
#else
using Mode = int;
Mode get_mode() { return 0; }
void set_mode(Mode) {}
constexpr Mode kFlush = 0, kUpwards = 0;
#endif

// A host may change the mode of its threads at any time: no bit of a result changes, and the mode
// is the host's after the call.
void test_the_mode_of_the_processor(const understudy_model* model) {
    constexpr std::size_t kPoses = understudy::kLanes + 3;
    Drivers drivers(model, kPoses);
    for (double& number : drivers.bones) number *= 1e-39;  // positions are denormal
    const understudy_gpu_counts counts = understudy_count_gpu_arrays(model);
    const std::size_t floats = 3 * understudy_vertex_count(model) * kPoses;
    const auto all = [&](understudy_scratch* scratch, bool render) {
        const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
        std::vector<float> out(2 * floats + counts.coefficients + 12 * counts.transforms + 1);
        float *positions = out.data(), *normals = positions + floats,
              *coefficients = normals + floats, *transforms = coefficients + counts.coefficients;
        const understudy_vertex_buffer buffer{normals, 12, nullptr, 0, nullptr, 0};
        CHECK(understudy_deform_many(model, scratch, kPoses, bones, controls, positions,
                                     render ? nullptr : normals) == UNDERSTUDY_OK);
        if (render)
            CHECK(understudy_deform_render(model, scratch, bones, controls, &buffer) ==
                  UNDERSTUDY_OK);
        CHECK(understudy_coefficients(model, scratch, bones, controls, coefficients) ==
              UNDERSTUDY_OK);
        CHECK(understudy_transforms(model, scratch, bones, transforms) == UNDERSTUDY_OK);
        CHECK(understudy_distance_from_data(model, scratch, bones, controls, &out.back()) ==
              UNDERSTUDY_OK);
        return out;
    };
    const Mode before = get_mode();
    const auto at_once = [](void*, std::uint32_t count, void (*job)(void*, std::uint32_t),
                            void* context) {
        std::vector<std::thread> threads;
        for (std::uint32_t number = 1; number < count; ++number)
            threads.emplace_back([=] {
                set_mode(get_mode() | kUpwards);
                const Mode own = get_mode();
                job(context, number);
                CHECK(get_mode() == own);
            });
        job(context, 0);
        for (std::thread& thread : threads) thread.join();
    };
    const understudy_jobs jobs{at_once, nullptr, 3};
    for (const bool own_threads : {true, false}) {
        understudy_pool* pool = own_threads ? understudy_create_pool(3)
                                            : understudy_create_pool_from_jobs(nullptr, &jobs);
        understudy_scratch* scratch = understudy_create_render_scratch(model, pool, nullptr);
        for (const bool render : {false, true}) {
            set_mode(before);
            const std::vector<float> want = all(scratch, render);
            for (const Mode mode : {before | kFlush, before | kUpwards}) {
                set_mode(mode);
                const std::vector<float> got = all(scratch, render);
                CHECK(get_mode() == mode);
                set_mode(before);
                CHECK(std::memcmp(got.data(), want.data(), 4 * got.size()) == 0);
            }
        }
        understudy_free_scratch(scratch);
        understudy_free_pool(pool);
    }
}

// The host's threads: any order, one after the other or at once.
void test_jobs_of_the_host(const understudy_model* model, const std::vector<float>& want) {
    using Job = void (*)(void*, std::uint32_t);
    const auto backwards = [](void* user, std::uint32_t count, Job job, void* context) {
        ++*static_cast<int*>(user);
        while (count) job(context, --count);
    };
    const auto at_once = [](void* user, std::uint32_t count, Job job, void* context) {
        ++*static_cast<int*>(user);
        std::vector<std::thread> threads;
        for (std::uint32_t number = 1; number < count; ++number)
            threads.emplace_back(job, context, number);
        job(context, 0);
        for (std::thread& thread : threads) thread.join();
    };
    int calls = 0;
    CHECK(!understudy_create_pool_from_jobs(nullptr, nullptr));
    for (const understudy_jobs& jobs :
         {understudy_jobs{backwards, &calls, 3}, understudy_jobs{at_once, &calls, 3}}) {
        understudy_pool* pool = understudy_create_pool_from_jobs(nullptr, &jobs);
        understudy_scratch* scratch = understudy_create_scratch(model, pool);
        const Drivers drivers(model, 2);
        std::vector<float> out(want.size());
        calls = 0;
        CHECK(understudy_deform_many(model, scratch, 2, drivers.bones.data(),
                                     drivers.controls.data(), out.data(),
                                     nullptr) == UNDERSTUDY_OK);
        CHECK(out == want && calls > 0);
        understudy_free_scratch(scratch);
        understudy_free_pool(pool);
    }
}

#if defined(__linux__)
// A thread that is pinned to one processor stays pinned.
void test_affinity_is_not_widened() {
    cpu_set_t all, one, found;
    CHECK(sched_getaffinity(0, sizeof all, &all) == 0);
    int first = 0;
    while (!CPU_ISSET(first, &all)) ++first;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    std::atomic<bool> stop{false};
    understudy::Thread pinned;
    CHECK(pinned.start(
        [](void* end) {
            while (!*static_cast<std::atomic<bool>*>(end)) std::this_thread::yield();
        },
        &stop));
    CHECK(pthread_setaffinity_np(pinned.native_handle(), sizeof one, &one) == 0);
    for (int i = 0; i < 10; ++i) understudy::move_off_this_processor(pinned);
    CHECK(pthread_getaffinity_np(pinned.native_handle(), sizeof found, &found) == 0);
    CHECK(CPU_EQUAL(&found, &one));
    stop = true;
    pinned.join();
}
#endif

#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)  // it cannot follow a fork
// A child of fork() has the pool but not its helpers: it works alone, keeps its affinity, and frees
// everything.
void test_a_forked_child_works_alone(const understudy_model* model) {
    const std::vector<float> want = played(model, 1, 2);
    understudy_pool* pool = understudy_create_pool(3);
    understudy_scratch* scratch = understudy_create_scratch(model, pool);
    const Drivers drivers(model, 2);
    std::vector<float> out(want.size());
    const auto play = [&] {
        return understudy_deform_many(model, scratch, 2, drivers.bones.data(),
                                      drivers.controls.data(), out.data(),
                                      nullptr) == UNDERSTUDY_OK &&
               out == want;
    };
    CHECK(play());
    understudy::Pool direct(understudy::default_memory());
    CHECK(direct.start(3));
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        // A call that held the pool would wait for helpers and move them to other processors; glibc
        // has no thread id for them here, so that would move the caller.
        bool right = !direct.acquire();
        for (int call = 0; call < 20; ++call) right = right && play();
        understudy_free_scratch(scratch);
        understudy_free_pool(pool);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    for (int hundredths = 0; hundredths < 6000; ++hundredths) {  // a minute
        if (waitpid(child, &status, WNOHANG) == child) break;
        status = -1;
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    if (status == -1) kill(child, SIGKILL);
    CHECK(status == 0);
    CHECK(play());
    understudy_free_scratch(scratch);
    understudy_free_pool(pool);
}
#endif

// A helper works longer than the caller spins: the caller sleeps and is woken every time.
void test_a_caller_sleeps_and_wakes() {
    understudy::Pool pool(understudy::default_memory());
    CHECK(pool.start(2));
    for (int phase = 0; phase < 2000; ++phase) {
        std::atomic<int> done{0};
        CHECK(pool.acquire());
        pool.run(2, [&](std::uint32_t, int thread) {
            const auto end = std::chrono::steady_clock::now() +
                             std::chrono::microseconds(thread ? 21 + phase % 8 : 0);
            while (std::chrono::steady_clock::now() < end) {}
            ++done;
        });
        CHECK(done == 2);
        pool.release();
    }
}

// Coefficients that were computed once give the same bits as the whole call; also those of another
// model with the same networks.
void test_given_coefficients(const understudy_model* model, const understudy_model* same) {
    CHECK(understudy_shares_coefficients(model, same) == 1);
    CHECK(understudy_shares_coefficients(model, nullptr) == 0);
    const Drivers drivers(model, 1);
    const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
    const std::size_t floats = 3 * understudy_vertex_count(model);
    std::vector<float> coefficients(understudy_count_gpu_arrays(model).coefficients + 1, 1e30f);
    std::vector<float> want(floats), want_normals(floats), got(floats), normals(floats);
    for (const int threads : {1, 3}) {
        understudy_pool* pool = understudy_create_pool(threads);
        understudy_scratch* scratch = understudy_create_scratch(model, pool);
        understudy_scratch* other = understudy_create_scratch(same, pool);
        CHECK(understudy_deform(model, scratch, bones, controls, want.data(),
                                want_normals.data()) == UNDERSTUDY_OK);
        CHECK(understudy_coefficients(model, scratch, bones, controls, coefficients.data()) ==
              UNDERSTUDY_OK);
        CHECK(understudy_deform_coefficients(same, other, bones, coefficients.data(), got.data(),
                                             normals.data()) == UNDERSTUDY_OK);
        CHECK(got == want && normals == want_normals);
        CHECK(understudy_deform_coefficients(model, other, bones, coefficients.data(), got.data(),
                                             nullptr) == UNDERSTUDY_WRONG_SCRATCH);
        CHECK(understudy_deform_coefficients(same, other, bones, coefficients.data(), nullptr,
                                             nullptr) == UNDERSTUDY_MISSING_ARGUMENT);
        CHECK(understudy_deform_coefficients(same, other, bones, coefficients.data(), got.data(),
                                             got.data()) == UNDERSTUDY_OVERLAP);
        if (coefficients.size() > 1) {
            CHECK(understudy_deform_coefficients(same, other, bones, nullptr, got.data(),
                                                 nullptr) == UNDERSTUDY_MISSING_ARGUMENT);
            coefficients[0] = std::nanf("");
            CHECK(understudy_deform_coefficients(same, other, bones, coefficients.data(),
                                                 got.data(), nullptr) == UNDERSTUDY_NOT_FINITE);
        }
        understudy_free_scratch(other);
        understudy_free_scratch(scratch);
        understudy_free_pool(pool);
    }
}

void test_selecting_an_instruction_set() {
    const std::string best = understudy_instruction_set();
    CHECK(understudy_select_instruction_set("portable") == 1);
    CHECK(std::string(understudy_instruction_set()) == "portable");
    CHECK(understudy_select_instruction_set("mmx") == 0);
    CHECK(understudy_select_instruction_set(nullptr) == 0);
    CHECK(understudy_select_instruction_set(best.c_str()) == 1);
    CHECK(understudy_instruction_set() == best);
}

void test_every_status_has_a_text() {
    std::vector<std::string> texts;
    for (int status = UNDERSTUDY_OK; status <= UNDERSTUDY_WRONG_STRIDE; ++status)
        texts.push_back(understudy_status_text(status));
    texts.push_back(understudy_status_text(100));
    for (const std::string& text : texts) {
        CHECK(!text.empty());
        CHECK(std::count(texts.begin(), texts.end(), text) == 1);
    }
    CHECK(texts.back() == understudy_status_text(-1));
    CHECK(texts[UNDERSTUDY_OVERLAP].find("overlaps") != std::string::npos);
}

void test_what_is_no_file() {
    char message[8];
    CHECK(!understudy_load_file("no/such/file", message, sizeof message));
    CHECK(std::strlen(message) == 7);  // cut, and ended
    CHECK(!understudy_load_file(nullptr, nullptr, 0));
    CHECK(!understudy_load_memory(nullptr, 0, nullptr, 0));
    CHECK(!understudy_load_memory("12345678{", 9, nullptr, 0));
    understudy_free_model(nullptr);
    understudy_free_pool(nullptr);
    understudy_free_scratch(nullptr);
}

}  // namespace

int main(int count, char** names) {
    CHECK(count > 1);
    test_what_is_no_file();
    test_selecting_an_instruction_set();
    test_activations();
    test_sizes_never_wrap();
    test_json();
    test_words();
    test_every_status_has_a_text();
    test_bone_formats<float>(UNDERSTUDY_FLOAT);
    test_bone_formats<double>(UNDERSTUDY_DOUBLE);
#if defined(__linux__)
    test_affinity_is_not_widened();
#endif
    test_a_caller_sleeps_and_wakes();
    for (int i = 1; i < count; ++i) {
        understudy_model* model = load(names[i]);
        understudy_model* other = load(names[i]);
        test_questions(model);
        test_threads_change_no_bit(model);
        test_instruction_sets(model, names[i]);
        test_wrong_calls(model, other);
        test_callers_share_a_model(model);
        test_gpu_arrays(model);
        test_render(model);
        test_given_coefficients(model, other);
        const std::vector<float> want = played(model, 1, 2);
        test_memory_of_the_host(names[i], want);
        test_any_order_of_freeing(names[i]);
        test_the_mode_of_the_processor(model);
        test_jobs_of_the_host(model, want);
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
        if (i == 1) test_a_forked_child_works_alone(model);
#endif
        understudy_free_model(other);
        understudy_free_model(model);
    }
    std::printf("%d files, %s\n", count - 1, understudy_instruction_set());
}
