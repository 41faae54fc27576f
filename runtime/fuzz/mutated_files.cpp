// Mutated files, so that other implementations can be given the same:
//
//     mutated_files write FOLDER COUNT SEED FILES ...   writes FOLDER/0.understudy, 1.understudy
//     ... mutated_files play FILES ...                      plays each, into FILE.cpp
//
// "play" prints a line for each file: "played", "stopped" if the drivers are refused, or "refused"
// and what is wrong. Played vertices are 32-bit floats, pose after pose. The last line is the most
// memory that the program used, in MB.
#include <cstdlib>
#include <cstring>
#include <string>

#if !defined(_WIN32)
#include <sys/resource.h>
#endif

#include "../tests/check.h"
#include "../tests/sample.h"
#include "mutate.h"

namespace {

constexpr std::size_t kPoses = 2;

void write(const std::string& folder, long count, std::uint64_t seed, char** names, int files) {
    mutation::Random random(seed);
    for (long number = 0; number < count; ++number) {
        const std::vector<char> file = read_bytes(names[number % files]);
        const mutation::Bytes changed = mutation::mutated({file.begin(), file.end()}, random);
        std::ofstream out(folder + "/" + std::to_string(number) + ".understudy", std::ios::binary);
        out.write(reinterpret_cast<const char*>(changed.data()),
                  static_cast<std::streamsize>(changed.size()));
        CHECK(out.good());
    }
}

void play(const std::string& name) {
    char message[200];
    understudy_model* model = understudy_load_file(name.c_str(), message, sizeof message);
    if (!model) {
        std::printf("refused %s\n", message);
        return;
    }
    understudy_scratch* scratch = understudy_create_scratch(model, nullptr);
    CHECK(scratch);
    const Drivers drivers(model, kPoses);
    std::vector<float> positions(kPoses * 3 * understudy_vertex_count(model));
    const understudy_status status =
        understudy_deform_many(model, scratch, kPoses, drivers.bones.data(),
                               drivers.controls.data(), positions.data(), nullptr);
    understudy_free_scratch(scratch);
    understudy_free_model(model);
    std::printf(status == UNDERSTUDY_OK ? "played\n" : "stopped\n");
    std::ofstream out(name + ".cpp", std::ios::binary);
    out.write(reinterpret_cast<const char*>(positions.data()),
              static_cast<std::streamsize>(positions.size() * sizeof(float)));
}

long peak_mb() {
#if defined(_WIN32)
    return 0;
#else
    rusage used;
    getrusage(RUSAGE_SELF, &used);
    return used.ru_maxrss / 1024;
#endif
}

}  // namespace

int main(int count, char** names) {
    CHECK(count > 2);
    if (std::strcmp(names[1], "write") == 0) {
        CHECK(count > 5);
        write(names[2], std::atol(names[3]), static_cast<std::uint64_t>(std::atol(names[4])),
              names + 5, count - 5);
    } else {
        for (int i = 2; i < count; ++i) play(names[i]);
        std::printf("%ld\n", peak_mb());
    }
}
