// Fuzz target for the file reader: any bytes give an error or a model that plays, never a crash.
//
// With clang it is a libFuzzer target (UNDERSTUDY_LIBFUZZER). Otherwise it mutates the given files:
//
//     fuzz_reader SECONDS|Ncount SEED a.understudy b.understudy ...
//
// "60" runs for a minute, "N1000" tries a thousand mutations of each file.
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "../tests/check.h"
#include "../tests/sample.h"

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

// Loads the bytes and plays what loads. Returns whether it loaded.
bool try_bytes(const std::uint8_t* data, std::size_t size) {
    char message[100];
    const std::unique_ptr<understudy_model, FreeModel> model(
        understudy_load_memory(data, size, message, sizeof message));
    if (!model) {
        CHECK(message[0] != 0);  // an error says something
        return false;
    }
    understudy_scratch* scratch = understudy_create_scratch(model.get(), nullptr);
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

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    try_bytes(data, size);
    return 0;
}

#else

#include <chrono>
#include <random>

namespace {

using Random = std::mt19937_64;

std::size_t below(Random& random, std::size_t end) { return end ? random() % end : 0; }

std::size_t header_end(const std::vector<char>& file) {
    std::uint64_t length = 0;
    for (int byte = 7; byte >= 0; --byte)
        length = length << 8 | static_cast<std::uint8_t>(file[static_cast<std::size_t>(byte)]);
    return static_cast<std::size_t>(std::min<std::uint64_t>(8 + length, file.size()));
}

// Replaces a number of the header (a size, a shape, an offset). Updates the header's length.
void change_number(std::vector<char>& file, Random& random) {
    const std::size_t end = header_end(file);
    std::size_t at = 8 + below(random, end - 8);
    while (at < end && (file[at] < '0' || file[at] > '9')) ++at;
    std::size_t last = at;
    while (last < end && file[last] >= '0' && file[last] <= '9') ++last;
    if (at == last) return;
    static const char* const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "-1",
                                          "65536",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9007199254740993",
                                          "18446744073709551615",
                                          "1e308",
                                          "1.5",
                                          "null",
                                          "\"3\"",
                                          "[]"};
    const std::string number =
        random() % 2 ? numbers[below(random, 16)] : std::to_string(below(random, 300));
    file.erase(file.begin() + static_cast<std::ptrdiff_t>(at),
               file.begin() + static_cast<std::ptrdiff_t>(last));
    file.insert(file.begin() + static_cast<std::ptrdiff_t>(at), number.begin(), number.end());
    const std::uint64_t length = end - 8 - (last - at) + number.size();
    for (int byte = 0; byte < 8; ++byte)
        file[static_cast<std::size_t>(byte)] = static_cast<char>(length >> (8 * byte));
}

// Replaces a number of the data by an unusual one.
void change_data(std::vector<char>& file, Random& random) {
    const std::size_t start = header_end(file);
    if (file.size() < start + 4) return;
    static const std::uint32_t words[] = {0,          1,          0xFFFFFFFF, 0x7FC00000,
                                          0x7F800000, 0x7F7FFFFF, 0x00000001, 0x80000000,
                                          0x7C007C00, 1000,       0x3F800000, 0xBF800000};
    const std::uint32_t word = words[below(random, 12)];
    std::memcpy(file.data() + start + below(random, (file.size() - start) / 4) * 4, &word, 4);
}

void mutate(std::vector<char>& file, Random& random) {
    for (std::size_t times = 1 + below(random, 4); times; --times) {
        if (file.size() < 16) return;
        switch (random() % 6) {
            case 0: file[below(random, file.size())] = static_cast<char>(random()); break;
            case 1: file[below(random, header_end(file))] = static_cast<char>(random()); break;
            case 2: change_number(file, random); break;
            case 3: change_data(file, random); break;
            case 4:
                file[8 + below(random, header_end(file) - 8)] ^=
                    static_cast<char>(1 << below(random, 8));
                break;
            case 5:
                if (random() % 8 == 0) file.resize(below(random, file.size()));
                break;
        }
    }
}

}  // namespace

int main(int count, char** names) {
    CHECK(count > 3);
    const bool counted = names[1][0] == 'N';
    const long limit = std::atol(names[1] + (counted ? 1 : 0));
    Random random(static_cast<std::uint64_t>(std::atol(names[2])));
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(limit);
    long tried = 0, loaded = 0;
    std::vector<std::vector<char> > seeds;
    for (int i = 3; i < count; ++i) {
        seeds.push_back(read_bytes(names[i]));
        CHECK(try_bytes(reinterpret_cast<const std::uint8_t*>(seeds.back().data()),
                        seeds.back().size()));
    }
    for (long round = 0; counted ? round < limit : std::chrono::steady_clock::now() < end; ++round)
        for (const std::vector<char>& seed : seeds) {
            std::vector<char> file = seed;
            mutate(file, random);
            loaded += try_bytes(reinterpret_cast<const std::uint8_t*>(file.data()), file.size());
            ++tried;
        }
    std::printf("%ld mutated files: %ld refused, %ld played\n", tried, tried - loaded, loaded);
}

#endif
