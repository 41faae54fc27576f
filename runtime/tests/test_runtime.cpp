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

#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
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
             {understudy::Activation::linear, understudy::Activation::tanh,
              understudy::Activation::relu, understudy::Activation::gelu,
              understudy::Activation::rbf})
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
    bool refused = false;
    try {
        understudy::AlignedBytes too_large(kTooLarge);
    } catch (const std::bad_alloc&) {
        refused = true;
    }
    CHECK(refused);
}

bool is_json(const std::string& text) {
    try {
        understudy::parse_json(text.data(), text.data() + text.size());
        return true;
    } catch (const understudy::ReadError&) {
        return false;
    }
}

void test_json() {
    const std::string text =
        R"( {"a": [1, -2.5e1, true, null, "x\u00e9\ud83d\ude00\n"], "b": {}, "a ": 7, "b": [3]} )";
    const understudy::Json json = understudy::parse_json(text.data(), text.data() + text.size());
    std::vector<understudy::Json> items;
    json.need("a", understudy::Json::Kind::array).each_item([&](const understudy::Json& item) {
        items.push_back(item);
    });
    CHECK(items.size() == 5);
    CHECK(items[0].whole("it") == 1 && items[1].number() == -25 && items[2].truth());
    CHECK(items[3].kind() == understudy::Json::Kind::null);
    CHECK(items[4].text() == "x\xc3\xa9\xf0\x9f\x98\x80\n");
    CHECK(json.find("b").kind() == understudy::Json::Kind::array);  // the last of duplicates
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
                            "[] []"})
        CHECK(!is_json(bad));
    CHECK(is_json(std::string(60, '[') + std::string(60, ']')));
    CHECK(!is_json(std::string(1000, '[') + std::string(1000, ']')));
    const std::string zero = "[\"a\\u0000b\"]";  // valid, but no C string can hold it
    bool refused = false;
    understudy::parse_json(zero.data(), zero.data() + zero.size())
        .each_item([&](const understudy::Json& item) {
            try {
                item.text();
            } catch (const understudy::ReadError&) {
                refused = true;
            }
        });
    CHECK(refused);
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
    std::thread pinned([&] {
        while (!stop) std::this_thread::yield();
    });
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
    const pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        bool right = true;
        for (int call = 0; call < 20; ++call) right = right && play();
        understudy_free_scratch(scratch);
        understudy_free_pool(pool);
        _exit(right ? 0 : 1);
    }
    int status = -1;
    for (int tenths = 0; tenths < 600; ++tenths) {  // a minute
        if (waitpid(child, &status, WNOHANG) == child) break;
        status = -1;
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
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
    test_sizes_never_wrap();
    test_json();
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
#if !defined(_WIN32) && !defined(__SANITIZE_THREAD__)
        if (i == 1) test_a_forked_child_works_alone(model);
#endif
        understudy_free_model(other);
        understudy_free_model(model);
    }
    std::printf("%d files, %s\n", count - 1, understudy_instruction_set());
}
