// Counts all allocations of the program; a call must make none.
//
//     test_allocations a.understudy ...
#include "check.h"
#include "counted_memory.h"
#include "sample.h"

using counted::allocations;

int main(int count, char** names) {
    CHECK(count > 1);
    const long before_any = allocations.load();
    float* volatile proof = new float[1000];  // volatile: or the compiler removes it
    CHECK(allocations.load() > before_any);   // the counter counts
    delete[] proof;
    for (int i = 1; i < count; ++i) {
        understudy_model* model = understudy_load_file(names[i], nullptr, 0);
        CHECK(model);
        for (const int threads : {1, 2, 4}) {
            understudy_pool* pool = understudy_create_pool(threads);
            understudy_scratch* scratch = understudy_create_scratch(model, pool);
            const Drivers drivers(model, 19);
            const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
            std::vector<float> out(19 * 3 * understudy_vertex_count(model)), normals(out.size());
            const long before = allocations.load();
            for (int call = 0; call < 20; ++call) {
                understudy_deform(model, scratch, bones, controls, out.data(), nullptr);
                understudy_deform(model, scratch, bones, controls, out.data(), normals.data());
                understudy_deform_many(model, scratch, 19, bones, controls, out.data(),
                                       normals.data());
            }
            CHECK(allocations.load() == before);
            understudy_free_scratch(scratch);
            understudy_free_pool(pool);
        }
        understudy_free_model(model);
    }
    std::printf("no allocation in %d files\n", count - 1);
}
