// Kernels of smooth skinning decomposition (Le & Deng 2012): everything that loops over vertices or over frames.
//
// Letters: V vertices, B bones, K influences, R rows of motion (3 F, or fewer after a change of basis), F frames. All arrays are row-major and
// caller-owned; nothing is kept between calls. Every kernel is deterministic, whatever the number of threads. Large plain products (targets times
// bones, and their like) are the caller's, who has a BLAS.
#pragma once

#include <cstdint>

namespace understudy {

// What the weights are solved against: vertex i is missed by w^T R w, R_bc = <M_b v~_i - y_i, M_c v~_i - y_i>, w on the simplex.
struct WeightProblem {
    std::int64_t vertices;   // V >= 0
    std::int64_t bones;      // 1 <= B <= max_bones
    const double* rest;      // (V,4): v~ = [rest, 1]
    const double* square;    // (V,): |y|^2
    const double* pulls;     // (V,4B): M^T y, the bones M (R,4B) side by side
    const double* gram;      // (4B,4B): M^T M
    const double* anchor;    // (V,B) weights to stay near, or null
    const double* strength;  // (V,): times |w - anchor|^2 is added to the error; null with anchor
};

constexpr std::int64_t max_bones = 1000;

struct WeightSearch {
    std::int64_t influences;  // K, 1 <= K <= B
    std::int64_t candidates;  // bones tried for entry at a time, >= 1
    std::int64_t exchanges;   // most entries in one call, >= 0
    bool from_all;            // also come down from the best weights over all bones, and keep the better
    std::int64_t threads;     // >= 1
};

// Weights of every vertex on the simplex with at most K bones, from the feasible weights given (places with weight 0 are free). Never worse than given.
// index (V,K) and weight (V,K) in and out, heaviest first; value (V,) out: the squared error (anchor term included).
void solve_weights(const WeightProblem& problem, const WeightSearch& search, std::int32_t* index, double* weight, double* value);

// The design (V,4B): row i holds w_ib v~_i for each of its bones, zeros elsewhere.
void design(std::int64_t vertices, std::int64_t influences, std::int64_t bones, const double* rest, const std::int32_t* index, const double* weight,
            double* out);

// The Gram matrix of the design: gram (4B,4B) = sum_i (w_i v~_i)(w_i v~_i)^T, and cross (4B,R) = sum_i (w_i v~_i) y_i^T with motion (V,R).
void normal_equations(std::int64_t vertices, std::int64_t influences, std::int64_t bones, std::int64_t rows, const double* rest,
                      const std::int32_t* index, const double* weight, const double* motion, std::int64_t threads, double* gram, double* cross);

// Sweeps of exact updates of one rigid bone at a time, in every frame: minimise tr(M gram M^T) - 2 tr(M cross^T), M = [R_0 t_0 | R_1 t_1 | ...].
// gram (4B,4B); cross (F,3,4B); moving (B,) 0 for bones to leave alone; transforms (F,3,4B) in and out.
void rigid_sweeps(std::int64_t frames, std::int64_t bones, std::int64_t sweeps, const double* gram, const double* cross, const std::uint8_t* moving,
                  std::int64_t threads, double* transforms);

// The rotation nearest to each matrix (n,3,3): maximises tr(R^T H). With no answer of its own (H = 0) it is the identity.
void nearest_rotations(std::int64_t count, const double* matrices, double* rotations);

// Solves (gram + ridge) X = right for a symmetric, positive gram (n,n): right (n,R) in, X out. Pivots that vanish leave their row at zero.
void solve_positive(std::int64_t size, std::int64_t rows, double ridge, std::int64_t threads, const double* gram, double* right);

}  // namespace understudy
