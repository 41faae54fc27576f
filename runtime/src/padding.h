// How arrays are padded for kernels, which read and write whole registers. Every array that a
// kernel gets is sized with these rules; tests/test_skin.cpp checks them on arrays of exactly that
// length.
//
//     rows of a matrix, biases, values   whole units of kUnit rows
//     base positions, displacements      kBeyondPoint floats beyond the last may be read
//     quantized numbers                  kBeyondNumbers beyond the last may be read
//     dequantized points, influences     kBeyondNumbers floats beyond the last may be written
//     arrays of several poses            `stride_of`: what is beyond one pose is not the next one
#pragma once

#include <cassert>
#include <cstddef>

#include "checked.h"

namespace understudy {

constexpr std::size_t kWidestRegister = 16;  // floats
constexpr std::size_t kUnit = 16;            // rows
constexpr std::size_t kBeyondPoint = 1;
constexpr std::size_t kBeyondNumbers = kWidestRegister - 1;
static_assert(kUnit % kWidestRegister == 0, "a unit fills whole registers");

// Rows in whole units.
inline std::size_t padded(std::size_t rows) { return padded(rows, kUnit); }

// Numbers from one pose, or one thread, to the next. Poses do not share a cache line.
inline std::size_t stride_of(std::size_t count) {
    constexpr std::size_t kBeyond = kWidestRegister + kBeyondPoint, kLine = 16;
    static_assert(kBeyond >= kBeyondNumbers, "whatever a kernel may touch is inside");
    return padded(added(count, kBeyond), kLine);
}

}  // namespace understudy
