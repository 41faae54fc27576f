// Inner loops over contiguous numbers.
#pragma once

#include <cstdint>

// One build runs on every machine and uses wide vectors if the processor has them.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__)
#define UNDERSTUDY_WIDE __attribute__((target_clones("default", "arch=x86-64-v3")))
#else
#define UNDERSTUDY_WIDE
#endif

namespace understudy {

// to += factor * from, both (count,).
void add_scaled(double factor, const double* from, std::int64_t count, double* to);

// Adds to four rows of `count` numbers that are `stride` apart: to_j += factor * four[j] * from.
void add_four_scaled(double factor, const double* four, const double* from, std::int64_t count,
                     std::int64_t stride, double* to);

// The sum of a[n] * b[n].
double dot(const double* a, const double* b, std::int64_t count);

}  // namespace understudy
