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
            understudy_render_mesh* mesh = understudy_create_render_mesh(model);
            understudy_scratch* scratch = understudy_create_render_scratch(model, pool, mesh);
            const Drivers drivers(model, 19);
            const double *bones = drivers.bones.data(), *controls = drivers.controls.data();
            std::vector<float> out(19 * 3 * understudy_vertex_count(model)), normals(out.size());
            const understudy_gpu_counts counts = understudy_count_gpu_arrays(model);
            std::vector<float> vertices(6 * understudy_render_vertex_count(mesh)),
                coefficients(counts.coefficients + 1), transforms(12 * counts.transforms);
            const understudy_vertex_buffer buffer{vertices.data(), 24, vertices.data() + 3, 24,
                                                  nullptr,         0};
            const long before = allocations.load();
            for (int call = 0; call < 20; ++call) {
                understudy_deform(model, scratch, bones, controls, out.data(), nullptr);
                understudy_deform(model, scratch, bones, controls, out.data(), normals.data());
                understudy_deform_many(model, scratch, 19, bones, controls, out.data(),
                                       normals.data());
                CHECK(understudy_deform_render(model, scratch, bones, controls, &buffer) ==
                      UNDERSTUDY_OK);
                CHECK(understudy_coefficients(model, scratch, bones, controls,
                                              coefficients.data()) == UNDERSTUDY_OK);
                CHECK(understudy_transforms(model, scratch, bones, transforms.data()) ==
                      UNDERSTUDY_OK);
                CHECK(understudy_distance_from_data(model, scratch, bones, controls,
                                                    coefficients.data()) == UNDERSTUDY_OK);
            }
            CHECK(allocations.load() == before);
            understudy_free_scratch(scratch);
            understudy_free_render_mesh(mesh);
            understudy_free_pool(pool);
        }
        understudy_free_model(model);
    }
    std::printf("no allocation in %d files\n", count - 1);
}
