// Fuzz target for the file reader: any bytes give an error or a model that plays, never a crash.
//
// With clang it is a libFuzzer target (UNDERSTUDY_LIBFUZZER). Otherwise it mutates the given files:
//
//     fuzz_reader SECONDS|Ncount SEED a.understudy b.understudy ...
//
// "60" runs for a minute, "N1000" tries a thousand mutations of each file. Both use mutate.h.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../tests/check.h"
#include "../tests/sample.h"
#include "mutate.h"

namespace {

struct FreeModel {
    void operator()(understudy_model* model) const { understudy_free_model(model); }
};

// The render mesh and the arrays for a GPU.
void render(const understudy_model* model, const Drivers& drivers) {
    const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
    understudy_render_mesh* mesh = understudy_create_render_mesh(model);
    understudy_scratch* scratch =
        mesh ? understudy_create_render_scratch(model, nullptr, mesh) : nullptr;
    if (scratch) {
        std::vector<float> vertices(10 * understudy_render_vertex_count(mesh));
        const bool tangents =
            understudy_render_uvs(mesh) && understudy_render_index_count(mesh) > 0;
        const understudy_vertex_buffer buffer{vertices.data(),
                                              40,
                                              vertices.data() + 3,
                                              40,
                                              tangents ? vertices.data() + 6 : nullptr,
                                              40};
        understudy_deform_render(model, scratch, bones, controls, &buffer);
        for (std::size_t i = 0; i < understudy_render_index_count(mesh); ++i)
            CHECK(understudy_render_indices(mesh)[i] < understudy_render_vertex_count(mesh));
        const understudy_gpu_counts counts = understudy_count_gpu_arrays(model);
        std::vector<float> coefficients(counts.coefficients), transforms(12 * counts.transforms);
        understudy_coefficients(model, scratch, bones, controls, coefficients.data());
        understudy_transforms(model, scratch, bones, transforms.data());
        std::vector<std::uint32_t> starts(counts.vertices + 1), entries(4 * counts.entries);
        std::vector<float> matrices(counts.matrix_numbers);
        const understudy_gpu_arrays arrays{nullptr,         starts.data(), entries.data(),
                                           matrices.data(), nullptr,       nullptr};
        understudy_fill_gpu_arrays(model, &arrays);
    }
    understudy_free_scratch(scratch);
    understudy_free_render_mesh(mesh);
}

// Loads the bytes and plays what loads, every second file with two threads. Returns whether it
// loaded.
bool try_bytes(const std::uint8_t* data, std::size_t size) {
    static understudy_pool* const helpers = understudy_create_pool(2);
    char message[100];
    const std::unique_ptr<understudy_model, FreeModel> model(
        understudy_load_memory(data, size, message, sizeof message));
    if (!model) {
        CHECK(message[0] != 0);  // an error says something
        return false;
    }
    understudy_scratch* scratch =
        understudy_create_scratch(model.get(), data[size - 1] % 2 ? helpers : nullptr);
    if (!scratch) return true;
    constexpr std::size_t kPoses = 19;  // one lane batch and a remainder
    const Drivers drivers(model.get(), kPoses);
    std::vector<float> out(kPoses * 3 * understudy_vertex_count(model.get())), normals(out.size());
    understudy_deform_many(model.get(), scratch, kPoses, drivers.bones.data(),
                           drivers.controls.data(), out.data(), normals.data());
    understudy_deform(model.get(), scratch, drivers.bones.data(), drivers.controls.data(),
                      out.data(), nullptr);
    for (std::size_t clip = 0; clip < understudy_clip_count(model.get()); ++clip)
        understudy_deform(model.get(), scratch,
                          understudy_clip_frame(model.get(), clip,
                                                understudy_clip_frame_count(model.get(), clip) - 1),
                          drivers.controls.data(), out.data(), nullptr);
    understudy_free_scratch(scratch);
    render(model.get(), drivers);
    return true;
}

}  // namespace

#if defined(UNDERSTUDY_LIBFUZZER)

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t size, std::size_t most);

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size,
                                               std::size_t most, unsigned seed) {
    if (seed % 16 == 0) return LLVMFuzzerMutate(data, size, most);
    mutation::Random random(seed);
    const mutation::Bytes changed = mutation::mutated({data, data + size}, random);
    if (changed.size() > most) return LLVMFuzzerMutate(data, size, most);
    if (!changed.empty()) std::memcpy(data, changed.data(), changed.size());
    return changed.size();
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try_bytes(data, size);
    return 0;
}

#else

#include <chrono>

int main(int count, char** names) {
    CHECK(count > 3);
    const bool counted = names[1][0] == 'N';
    const long limit = std::atol(names[1] + (counted ? 1 : 0));
    mutation::Random random(static_cast<std::uint64_t>(std::atol(names[2])));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit);
    long tried = 0, loaded = 0;
    std::vector<mutation::Bytes> seeds;
    for (int i = 3; i < count; ++i) {
        const std::vector<char> file = read_bytes(names[i]);
        seeds.emplace_back(file.begin(), file.end());
        CHECK(try_bytes(seeds.back().data(), seeds.back().size()));
    }
    for (long round = 0; counted ? round < limit : std::chrono::steady_clock::now() < end; ++round)
        for (const mutation::Bytes& seed : seeds) {
            const mutation::Bytes file = mutation::mutated(seed, random);
            loaded += try_bytes(file.data(), file.size());
            ++tried;
        }
    std::printf("%ld mutated files: %ld refused, %ld played\n", tried, tried - loaded, loaded);
}

#endif
