// The transform step: normal equations, affine transforms by Cholesky, rigid ones bone by bone.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "decompose.h"
#include "parallel.h"
#include "vector_loops.h"

namespace understudy {

void design(const SkinWeights& skin, double* out) {
    std::fill(out, out + skin.vertices * 4 * skin.bones, 0.0);
    for (std::int64_t i = 0; i < skin.vertices; ++i)
        for (std::int64_t k = i * skin.influences; k < (i + 1) * skin.influences; ++k)
            for (int j = 0; j < 4; ++j)
                out[4 * (i * skin.bones + skin.index[k]) + j] +=
                    skin.weight[k] * skin.rest[4 * i + j];
}

void normal_equations(const SkinWeights& skin, std::int64_t rows, const double* targets,
                      std::int64_t threads, double* gram, double* cross) {
    const std::int64_t width = 4 * skin.bones, blocks = (rows + 15) / 16;
    std::fill(gram, gram + width * width, 0.0);
    std::fill(cross, cross + width * rows, 0.0);
    // Each thread owns some columns of `cross` and the rows of some bones in `gram`, so that no sum
    // depends on the number of threads.
    const auto add_share = [&](std::int64_t thread) {
        const std::int64_t begin = 16 * (blocks * thread / threads),
                           end = std::min(16 * (blocks * (thread + 1) / threads), rows);
        for (std::int64_t i = 0; i < skin.vertices; ++i) {
            const double* v = skin.rest + 4 * i;
            const std::int32_t* index = skin.index + i * skin.influences;
            const double* weight = skin.weight + i * skin.influences;
            for (std::int64_t k = 0; k < skin.influences; ++k) {
                const double w = weight[k];
                const std::int64_t bone = index[k];
                if (w == 0) continue;
                if (end > begin)
                    add_four_scaled(w, v, targets + i * rows + begin, end - begin, rows,
                                    cross + 4 * bone * rows + begin);
                if (bone % threads != thread) continue;
                double outer[16];
                for (int j = 0; j < 4; ++j)
                    for (int l = 0; l < 4; ++l) outer[4 * j + l] = w * v[j] * v[l];
                for (std::int64_t c = 0; c < skin.influences; ++c) {
                    const std::int64_t other = index[c];
                    const double factor = weight[c];
                    if (other < bone || factor == 0) continue;  // the lower half is mirrored below
                    double* block = gram + 4 * bone * width + 4 * other;
                    for (int j = 0; j < 4; ++j)
                        for (int l = 0; l < 4; ++l)
                            block[j * width + l] += factor * outer[4 * j + l];
                }
            }
        }
    };
    in_parallel(threads, threads, [&](std::int64_t first, std::int64_t last) {
        for (std::int64_t thread = first; thread < last; ++thread) add_share(thread);
    });
    for (std::int64_t a = 0; a < width; ++a)
        for (std::int64_t b = a + 1; b < width; ++b) gram[b * width + a] = gram[a * width + b];
}

void rigid_sweeps(std::int64_t frames, std::int64_t bones, std::int64_t sweeps, const double* gram,
                  const double* cross, std::int64_t threads, double* transforms) {
    const std::int64_t width = 4 * bones;
    in_parallel(
        frames, useful_threads(threads, 12 * frames * width * bones * sweeps),
        [&](std::int64_t first, std::int64_t last) {
            for (std::int64_t f = first; f < last; ++f) {
                double* m = transforms + 3 * width * f;
                const double* target = cross + 3 * width * f;
                for (std::int64_t sweep = 0; sweep < sweeps; ++sweep)
                    for (std::int64_t b = 0; b < bones; ++b) {
                        const double* own = gram + 4 * b * width +
                                            4 * b;  // own[j * width + l]: the 4x4 block of the bone
                        const double mass = own[3 * width + 3];
                        if (!(mass > 0)) continue;
                        double d[3][4];  // what the other bones leave for this one
                        for (int a = 0; a < 3; ++a)
                            for (int j = 0; j < 4; ++j) {
                                double others =
                                    dot(m + a * width, gram + (4 * b + j) * width, width);
                                for (int l = 0; l < 4; ++l)
                                    others -= m[a * width + 4 * b + l] * own[l * width + j];
                                d[a][j] = target[a * width + 4 * b + j] - others;
                            }
                        double h[9], r[9];
                        const double spread = own[0] + own[width + 1] + own[2 * width + 2];
                        // The small multiple of the present rotation decides where the vertices of
                        // the bone do not determine the new one.
                        for (int a = 0; a < 3; ++a)
                            for (int j = 0; j < 3; ++j)
                                h[3 * a + j] = d[a][j] - d[a][3] * own[3 * width + j] / mass +
                                               1e-9 * spread * m[a * width + 4 * b + j];
                        nearest_rotations(1, h, r);
                        for (int a = 0; a < 3; ++a) {
                            double translation = d[a][3];
                            for (int j = 0; j < 3; ++j) {
                                m[a * width + 4 * b + j] = r[3 * a + j];
                                translation -= r[3 * a + j] * own[3 * width + j];
                            }
                            m[a * width + 4 * b + 3] = translation / mass;
                        }
                    }
            }
        });
}

void solve_positive(std::int64_t size, std::int64_t rows, double ridge, std::int64_t threads,
                    const double* gram, double* right) {
    std::vector<double> factor(gram, gram + size * size);
    double largest = 0;
    for (std::int64_t a = 0; a < size; ++a) largest = std::max(largest, gram[a * size + a] + ridge);
    for (std::int64_t a = 0; a < size; ++a) {  // row a of the Cholesky factor
        double* row = factor.data() + a * size;
        for (std::int64_t b = 0; b < a; ++b)
            row[b] = (row[b] - dot(row, factor.data() + b * size, b)) / factor[b * size + b];
        const double pivot = row[a] + ridge - dot(row, row, a);
        row[a] =
            pivot > 1e-15 * largest ? std::sqrt(pivot) : std::numeric_limits<double>::infinity();
    }
    in_parallel((rows + 15) / 16, useful_threads(threads, size * size * rows),
                [&](std::int64_t first, std::int64_t last) {
                    const std::int64_t begin = 16 * first,
                                       count = std::min(16 * last, rows) - begin;
                    if (count <= 0) return;
                    for (std::int64_t a = 0; a < size; ++a) {
                        double* x = right + a * rows + begin;
                        for (std::int64_t b = 0; b < a; ++b)
                            add_scaled(-factor[a * size + b], right + b * rows + begin, count, x);
                        for (std::int64_t n = 0; n < count; ++n) x[n] /= factor[a * size + a];
                    }
                    for (std::int64_t a = size - 1; a >= 0; --a) {
                        double* x = right + a * rows + begin;
                        for (std::int64_t b = a + 1; b < size; ++b)
                            add_scaled(-factor[b * size + a], right + b * rows + begin, count, x);
                        for (std::int64_t n = 0; n < count; ++n) x[n] /= factor[a * size + a];
                    }
                });
}

}  // namespace understudy
