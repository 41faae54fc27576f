// Tests of the library through its header and of its parts.
//
//     test_runtime a.understudy b.understudy ...
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <thread>
#include <utility>

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

void test_questions(const understudy_model* model) {
    CHECK(understudy_vertex_count(model) >= 1);
    CHECK(understudy_model_bytes(model) >= 6 * understudy_vertex_count(model));
    CHECK(std::strlen(understudy_method(model)) > 0);
    for (std::size_t bone = 0; bone < understudy_bone_count(model); ++bone) {
        CHECK(std::strlen(understudy_bone_name(model, bone)) > 0);
        CHECK(understudy_bone_parent(model, bone) < static_cast<int>(bone));
    }
    for (std::size_t control = 0; control < understudy_control_count(model); ++control)
        CHECK(std::strlen(understudy_control_name(model, control)) > 0);
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
    auto description = std::make_unique<understudy::Description>();
    understudy::read_description(reinterpret_cast<const std::uint8_t*>(file.data()), file.size(),
                                 *description);
    const understudy::Model model(std::move(description));
    understudy::Scratch scratch(model, nullptr);
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
    for (const float value : out) CHECK(value == 7.0f);  // nothing was written
    understudy_scratch* foreign = understudy_create_scratch(other, nullptr);
    CHECK(understudy_deform(model, foreign, drivers.bones.data(), drivers.controls.data(),
                            out.data(), nullptr) == UNDERSTUDY_WRONG_SCRATCH);
    understudy_free_scratch(foreign);
    understudy_free_scratch(scratch);
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
            (*use)->dense(one, 0, 1, {&x, 1, 1, nullptr, activation, y, 16});
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
             {understudy::Activation::tanh, understudy::Activation::gelu})
            CHECK(std::isnan(value(std::numeric_limits<float>::quiet_NaN(), activation)));
    }
}

// A helper works longer than the caller spins: the caller sleeps and is woken every time.
void test_a_caller_sleeps_and_wakes() {
    understudy::Pool pool(2);
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
    test_activations();
    test_a_caller_sleeps_and_wakes();
    for (int i = 1; i < count; ++i) {
        understudy_model* model = load(names[i]);
        understudy_model* other = load(names[i]);
        test_questions(model);
        test_threads_change_no_bit(model);
        test_instruction_sets(model, names[i]);
        test_wrong_calls(model, other);
        test_callers_share_a_model(model);
        understudy_free_model(other);
        understudy_free_model(model);
    }
    std::printf("%d files, %s\n", count - 1, understudy_instruction_set());
}
