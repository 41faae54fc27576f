// Two-layer sparse factorisation of skin weights (Le & Deng 2013, Algorithms 1 and 2). No Python in here; `two_layer.cpp` has the algorithms.
//
// One form serves both objectives of the paper. Vertex i has a point u_i (p numbers) and a target y_i (q numbers), bone b a matrix A_b (q x p):
//
//     x_i(w) = sum_b w_b A_b u_i - y_i                     error of vertex i: |x_i|^2
//
// Weights alone (Eq. 1):    p = 1, u_i = 1, q = k, A_b = e_b, y_i = w_i.
// Example poses (Eq. 7):    p = 4, u_i = (rest_i, 1), A_b the bone's transforms over all poses, y_i the vertex over all poses.
//
// Letters: n vertices, k bones, m atoms (virtual bones), s atoms per vertex, c bones per atom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace understudy::two_layer {

constexpr int kMostPerVertex = 4;

struct Problem {
    int n, k, p, q;
    const float* point;           // (n,p)
    const float* target;          // (n,q)
    const double* bones;          // (k,p,q)
    const double* weights;        // (n,k) the weights a new atom is copied from
    const std::int64_t* starts;   // (n+1,) neighbours of vertex i: neighbours[starts[i]] .. neighbours[starts[i+1]]
    const std::int32_t* neighbours;
    const std::int32_t* shells;   // (n,) connected piece of each vertex, 0 .. shell_count-1
    int shell_count;
    int per_vertex;               // s, 1 .. kMostPerVertex
    int per_atom;                 // c, 1 .. k
};

class Factorization {
public:
    explicit Factorization(const Problem& problem);

    int atoms() const { return m_; }
    double error() const;                    // sum of |x_i|^2
    void start(int atoms);                   // the first one or two atoms (section 3.2, Initialization)
    void grow(int count);                    // lines 4 to 8 of Algorithm 1
    void update_dictionary();                // Eq. 5, exact for the objective, each atom in turn
    void update_coefficients();              // Algorithm 2 from every vertex
    void search_rings(int reach);            // each vertex tries every pair among the atoms of the `reach` vertices nearest along edges
    int relocate(double share);              // atoms that matter least start again at the worst vertices; how many

    void restore(int atoms, const double* dictionary, const std::int32_t* index, const double* coefficient);
    const std::vector<double>& dictionary() const { return dictionary_; }      // (m,k)
    const std::vector<std::int32_t>& index() const { return index_; }          // (n,s)
    const std::vector<double>& coefficient() const { return coefficient_; }    // (n,s)

private:
    struct Choice {
        int atom[kMostPerVertex];
        double weight[kMostPerVertex];
        double error;
    };

    void residual(int vertex, int atom, float* out) const;
    Choice best(int vertex, const int* candidates, int count);
    bool improve(int vertex, const int* candidates, int count);
    void propagate(int vertex);
    void put_atom(int atom, const double* weights);
    void write_matrix(int atom);
    void refresh_errors();
    void current_residual(int vertex, float* out) const;
    void sparse_step(const std::vector<double>& hessian, const std::vector<double>& gradient, const double* now, double* step);

    Problem problem_;
    int q_;                                  // q rounded up: rows of `matrix_` and `target_` are padded with zeros
    int m_ = 0;
    int dictionary_updates_ = 0;
    std::vector<float> target_;              // (n,q_)
    std::vector<double> bones_;              // (k,p,q_)
    std::vector<double> products_;           // (pairs a<=b of p, k, k): <A_b column a, A_c column b>, symmetrised
    std::vector<double> dictionary_;         // (m,k)
    std::vector<float> matrix_;              // (m,p,q_)
    std::vector<std::int32_t> index_;        // (n,s)
    std::vector<double> coefficient_;        // (n,s)
    std::vector<double> error_;              // (n,)
    std::vector<double> floor_;              // (n,) E*_i^2 of Eq. 7c: the error its own dense weights leave
    std::vector<float> scratch_;
    std::vector<double> gram_;
    std::vector<std::pair<int, std::int64_t>> stack_;
};

}  // namespace understudy::two_layer
