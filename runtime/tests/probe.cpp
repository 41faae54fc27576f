// Loads one file, plays it if it loads, and prints what happened and the most memory in use:
//
//     probe FILE          "played 123456" or "refused 123456 what is wrong"
#if !defined(UNDERSTUDY_SANITIZED)  // sanitizers have their own allocator
#include "counted_memory.h"
#endif

#include <cstdio>
#include <vector>

#include "sample.h"

namespace {

long long peak() {
#if defined(UNDERSTUDY_SANITIZED)
    return 0;
#else
    return counted::peak;
#endif
}

}  // namespace

int main(int count, char** names) {
    if (count != 2) return 2;
    char message[300];
    understudy_model* model = understudy_load_file(names[1], message, sizeof message);
    if (!model) {
        std::printf("refused %lld %s\n", peak(), message);
        return 0;
    }
    understudy_scratch* scratch = understudy_create_scratch(model, nullptr);
    const long long most = peak();  // without the output
    if (!scratch) {
        std::printf("refused %lld no scratch\n", most);
        return 0;
    }
    constexpr std::size_t kPoses = 17;  // one lane batch and a remainder
    const Drivers drivers(model, kPoses);
    std::vector<float> positions(kPoses * 3 * understudy_vertex_count(model)),
        normals(positions.size());
    const understudy_status status =
        understudy_deform_many(model, scratch, kPoses, drivers.bones.data(),
                               drivers.controls.data(), positions.data(), normals.data());
    understudy_free_scratch(scratch);
    understudy_free_model(model);
    if (status != UNDERSTUDY_OK) return 1;
    std::printf("played %lld\n", most);
}
