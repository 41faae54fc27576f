#include "vector_loops.h"

namespace understudy {

UNDERSTUDY_WIDE void add_scaled(double factor, const double* from, std::int64_t count, double* to) {
    for (std::int64_t n = 0; n < count; ++n) to[n] += factor * from[n];
}

UNDERSTUDY_WIDE void add_four_scaled(double factor, const double* four,
                                     const double* __restrict from, std::int64_t count,
                                     std::int64_t stride, double* __restrict to) {
    const double a = factor * four[0], b = factor * four[1], c = factor * four[2],
                 d = factor * four[3];
    double* __restrict second = to + stride;
    double* __restrict third = second + stride;
    double* __restrict fourth = third + stride;
    for (std::int64_t n = 0; n < count; ++n) {
        const double x = from[n];
        to[n] += a * x, second[n] += b * x, third[n] += c * x, fourth[n] += d * x;
    }
}

UNDERSTUDY_WIDE double dot(const double* a, const double* b, std::int64_t count) {
    double sum[8] = {0, 0, 0, 0, 0, 0, 0, 0};
    std::int64_t n = 0;
    for (; n + 8 <= count; n += 8)
        for (int lane = 0; lane < 8; ++lane) sum[lane] += a[n + lane] * b[n + lane];
    double total = 0;
    for (double lane : sum) total += lane;
    for (; n < count; ++n) total += a[n] * b[n];
    return total;
}

}  // namespace understudy
