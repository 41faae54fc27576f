// A character in a small engine, without a window: its own memory, its own job threads, interleaved
// vertices. Plays 100 frames and checks that none of them takes memory:
//
//     engine hero.understudy
//
// Prints the frames, the vertices and the largest number of allocations of a frame, which is 0.
#include <atomic>
#include <cmath>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "understudy.h"

namespace {

// The engine's heap. This one counts; a real one would have a budget for each subsystem.
class Heap {
public:
    std::atomic<long> allocations{0}, bytes{0};

    understudy_allocator functions() {
        return {[](void* user, size_t size, size_t alignment) -> void* {
                    Heap& heap = *static_cast<Heap*>(user);
                    ++heap.allocations;
                    heap.bytes += static_cast<long>(size);
                    // Space for the address that malloc returned, before the aligned block.
                    void* block = std::malloc(size + alignment + sizeof(void*));
                    if (!block) return nullptr;
                    const uintptr_t first = reinterpret_cast<uintptr_t>(block) + sizeof(void*);
                    void** data =
                        reinterpret_cast<void**>((first + alignment - 1) / alignment * alignment);
                    data[-1] = block;
                    return data;
                },
                [](void* user, void* data, size_t size) {
                    static_cast<Heap*>(user)->bytes -= static_cast<long>(size);
                    std::free(static_cast<void**>(data)[-1]);
                },
                this};
    }
};

// The engine's job system: a few threads that wait for numbered jobs.
class Jobs {
public:
    explicit Jobs(int threads) {
        for (int i = 1; i < threads; ++i) threads_.emplace_back([this] { work(); });
    }
    ~Jobs() {
        {
            const std::lock_guard<std::mutex> lock(mutex_);
            stop_ = true;
        }
        wake_.notify_all();
        for (std::thread& thread : threads_) thread.join();
    }

    using Job = void (*)(void* context, uint32_t number);

    void run(uint32_t count, Job job, void* context) {
        std::unique_lock<std::mutex> lock(mutex_);
        job_ = job;
        context_ = context;
        next_ = 0;
        count_ = left_ = count;
        wake_.notify_all();
        while (next_ < count_) run_one(lock);
        done_.wait(lock, [this] { return left_ == 0; });
    }

    understudy_jobs functions() {
        return {[](void* user, uint32_t count, Job job, void* context) {
                    static_cast<Jobs*>(user)->run(count, job, context);
                },
                this, static_cast<int>(threads_.size()) + 1};
    }

private:
    void run_one(std::unique_lock<std::mutex>& lock) {
        const uint32_t number = next_++;
        lock.unlock();
        job_(context_, number);
        lock.lock();
        if (--left_ == 0) done_.notify_all();
    }

    void work() {
        std::unique_lock<std::mutex> lock(mutex_);
        for (;;) {
            wake_.wait(lock, [this] { return stop_ || next_ < count_; });
            if (stop_) return;
            run_one(lock);
        }
    }

    std::mutex mutex_;
    std::condition_variable wake_, done_;
    std::vector<std::thread> threads_;
    Job job_ = nullptr;
    void* context_ = nullptr;
    uint32_t next_ = 0, count_ = 0, left_ = 0;
    bool stop_ = false;
};

// One vertex as the engine's shaders read it.
struct Vertex {
    float position[3];
    float normal[3];
    float uv[2];
};

}  // namespace

int main(int count, char** arguments) {
    if (count != 2) return std::fprintf(stderr, "usage: engine FILE\n"), 2;
    Heap heap;
    Jobs jobs(3);
    const understudy_allocator memory = heap.functions();
    const understudy_jobs threads = jobs.functions();

    // Loading takes memory: model, render mesh, scratch.
    char message[256];
    understudy_model* model =
        understudy_load_file_with(&memory, arguments[1], message, sizeof message);
    if (!model) return std::fprintf(stderr, "%s: %s\n", arguments[1], message), 1;
    understudy_pool* pool = understudy_create_pool_from_jobs(&memory, &threads);
    understudy_render_mesh* mesh = understudy_create_render_mesh(model);
    understudy_scratch* scratch = understudy_create_render_scratch(model, pool, mesh);
    if (!pool || !mesh || !scratch) return std::fprintf(stderr, "not enough memory\n"), 1;

    // The vertex buffer: texture coordinates are constant, the rest is written every frame.
    std::vector<Vertex> vertices(understudy_render_vertex_count(mesh));
    const float* uvs = understudy_render_uvs(mesh);
    for (size_t i = 0; i < vertices.size() && uvs; ++i)
        for (int axis = 0; axis < 2; ++axis) vertices[i].uv[axis] = uvs[2 * i + axis];
    const understudy_vertex_buffer buffer{vertices[0].position, sizeof(Vertex), vertices[0].normal,
                                          sizeof(Vertex),       nullptr,        0};

    // The engine animates translation, rotation and scale in floats.
    const size_t bones = understudy_bone_count(model);
    const double* rest = understudy_rest_bones(model);
    std::vector<float> matrices(16 * bones);
    std::vector<double> world_from_bone(12 * bones), controls(understudy_control_count(model));

    constexpr int kFrames = 100;
    long most = 0;
    for (int frame = 0; frame < kFrames; ++frame) {
        const long before = heap.allocations;
        for (size_t i = 0; i < 16 * bones; ++i) {  // 4x4, column after column
            const size_t bone = i / 16, row = i % 4, column = i % 16 / 4;
            matrices[i] = row == 3 ? (column == 3 ? 1.0f : 0.0f)
                                   : static_cast<float>(rest[12 * bone + 4 * row + column]);
        }
        for (size_t bone = 0; bone < bones; ++bone)  // the whole character sways
            matrices[16 * bone + 12] += 0.1f * std::sin(0.1f * static_cast<float>(frame));
        for (size_t i = 0; i < controls.size(); ++i)
            controls[i] = understudy_control_rest(model)[i];
        understudy_convert_bones(UNDERSTUDY_BONES_4X4_COLUMNS, UNDERSTUDY_FLOAT, matrices.data(),
                                 16 * sizeof(float), bones, world_from_bone.data());
        const understudy_status status = understudy_deform_render(
            model, scratch, world_from_bone.data(), controls.data(), &buffer);
        if (status != UNDERSTUDY_OK)
            return std::fprintf(stderr, "frame %d: status %d\n", frame, status), 1;
        if (heap.allocations - before > most) most = heap.allocations - before;
    }

    // A quick look at the last frame, as a renderer would draw it.
    double area = 0;
    const uint32_t* indices = understudy_render_indices(mesh);
    for (size_t i = 0; i < understudy_render_index_count(mesh); i += 3) {
        const float *a = vertices[indices[i]].position, *b = vertices[indices[i + 1]].position,
                    *c = vertices[indices[i + 2]].position;
        const double u[3] = {b[0] - a[0], b[1] - a[1], b[2] - a[2]};
        const double v[3] = {c[0] - a[0], c[1] - a[1], c[2] - a[2]};
        const double x = u[1] * v[2] - u[2] * v[1], y = u[2] * v[0] - u[0] * v[2],
                     z = u[0] * v[1] - u[1] * v[0];
        area += std::sqrt(x * x + y * y + z * z) / 2;
    }
    std::printf("%d frames of %zu vertices, area %.3f, %ld bytes, allocations per frame: %ld\n",
                kFrames, vertices.size(), area, heap.bytes.load(), most);

    understudy_free_scratch(scratch);
    understudy_free_render_mesh(mesh);
    understudy_free_pool(pool);
    understudy_free_model(model);
    if (heap.bytes != 0) return std::fprintf(stderr, "%ld bytes leak\n", heap.bytes.load()), 1;
    return most == 0 && std::isfinite(area) ? 0 : 1;
}
