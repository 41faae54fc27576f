// Kernels of smooth skinning decomposition (Le & Deng 2012): all loops over vertices or over
// frames.
//
// Letters: V vertices, B bones, K influences, F frames, R rows of motion (3F, or fewer in principal
// directions). All arrays are row-major and owned by the caller; nothing is kept between calls.
// Results do not depend on the number of threads. Large matrix products are left to the caller, who
// has a BLAS.
#pragma once

#include <cstdint>

namespace understudy {

constexpr std::int64_t max_bones = 1000;

// The weights of vertex i minimise w^T R w over the simplex, with R_bc = <M_b v~_i - y_i, M_c v~_i
// - y_i>.
struct WeightProblem {
    std::int64_t vertices;  // V >= 0
    std::int64_t bones;     // 1 <= B <= max_bones
    const double* rest;     // (V,4): v~ = [rest, 1]
    const double* square;   // (V,): |y|^2
    const double* linear;   // (V,4B): y^T M, with the transforms M (R,4B) of all bones side by side
    const double* gram;     // (4B,4B): M^T M
    const std::uint8_t*
        allowed;  // (V,B): 0 where a vertex may not use a bone; null: it may use all
};

struct WeightSearch {
    std::int64_t influences;  // K, 1 <= K <= B
    std::int64_t candidates;  // bones that compete to enter a support in one exchange, >= 1
    std::int64_t exchanges;   // largest number of exchanges, >= 0
    bool
        from_all;  // also reduce the optimal weights over all bones to K bones, and keep the better
    std::int64_t threads;  // >= 1
};

// Skin weights of all vertices.
struct SkinWeights {
    std::int64_t vertices;      // V >= 0
    std::int64_t influences;    // K >= 1
    std::int64_t bones;         // B >= 1
    const double* rest;         // (V,4): v~
    const std::int32_t* index;  // (V,K), 0 <= index < B
    const double* weight;       // (V,K)
};

// Weights of every vertex on at most K bones, never worse than the given ones. index (V,K) and
// weight (V,K): feasible start in (weight 0 marks an unused place), result out, largest weight
// first. value (V,) out: the minimum found.
void solve_weights(const WeightProblem& problem, const WeightSearch& search, std::int32_t* index,
                   double* weight, double* value);

// The design matrix X (V,4B): row i contains w_ib v~_i for the bones of vertex i, else zeros.
void design(const SkinWeights& skin, double* out);

// The normal equations of the transforms: gram (4B,4B) = X^T X and cross (4B,R) = X^T Y, with
// targets Y (V,R).
void normal_equations(const SkinWeights& skin, std::int64_t rows, const double* targets,
                      std::int64_t threads, double* gram, double* cross);

// Sweeps of exact updates of one rigid bone at a time, in every frame: minimises tr(M gram M^T) - 2
// tr(M cross^T), M = [R_0 t_0 | R_1 t_1 | ...]. gram (4B,4B); cross (F,3,4B); transforms (F,3,4B)
// in and out.
void rigid_sweeps(std::int64_t frames, std::int64_t bones, std::int64_t sweeps, const double* gram,
                  const double* cross, std::int64_t threads, double* transforms);

// The rotation nearest to each matrix H (n,3,3): maximises tr(R^T H). For H = 0 it is the identity.
void nearest_rotations(std::int64_t count, const double* matrices, double* rotations);

// Solves (gram + ridge I) X = right for a symmetric, positive semi-definite gram (n,n): right (n,R)
// in, X out. Rows of vanishing pivots become zero.
void solve_positive(std::int64_t size, std::int64_t rows, double ridge, std::int64_t threads,
                    const double* gram, double* right);

}  // namespace understudy
