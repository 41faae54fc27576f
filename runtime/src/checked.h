// Arithmetic on sizes that cannot wrap around, and what every source file relies on.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>

#if defined(__FAST_MATH__) || defined(_M_FP_FAST) || \
    (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "understudy must not be compiled with -ffast-math or /fp:fast: it has to find NaN"
#endif

namespace understudy {

// The largest size: no allocation of it succeeds. Sums and products that would exceed it become it.
constexpr std::size_t kTooLarge = std::numeric_limits<std::size_t>::max();

inline std::size_t added(std::size_t a, std::size_t b) {
    return a > kTooLarge - b ? kTooLarge : a + b;
}

inline std::size_t multiplied(std::size_t a, std::size_t b) {
    return b && a > kTooLarge / b ? kTooLarge : a * b;
}

// The smallest multiple of `unit` that is not less than `count`.
inline std::size_t padded(std::size_t count, std::size_t unit) {
    return added(count, unit - 1) / unit * unit;
}

}  // namespace understudy
