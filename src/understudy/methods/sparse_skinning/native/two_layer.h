// Two-layer sparse factorisation of skin weights: Algorithms 1 and 2 of Le & Deng 2013.
//
// Plain C++, no Python. `../two_layer.py` states the problem and the departures from the paper,
// `../factorization.py` holds the outer loop of Algorithm 1, `two_layer.cpp` the loops over
// vertices.
//
// One form serves both objectives of the paper. Vertex i has a point u_i (p numbers) and a target
// y_i (q numbers), bone b a matrix A_b (q x p). The residual of vertex i with weights w is
//
//     x_i(w) = sum_b w_b A_b u_i - y_i                 its error: |x_i|^2
//
// Weights alone (Eq. 1):  p = 1, u_i = 1, q = k, A_b = e_b, y_i = w_i.
// Example poses (Eq. 7):  p = 4, u_i = (rest_i, 1), A_b the transforms of the bone over all poses,
//                         y_i the positions of the vertex over all poses.
//
// Letters: n vertices, k bones, m atoms (virtual bones), s atoms per vertex, c bones per atom.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace understudy::two_layer {

constexpr int kMaxPerVertex = 4;

struct Problem {
    int n, k, p, q;
    const float* point;     // (n,p) u
    const float* target;    // (n,q) y
    const double* bones;    // (k,p,q) the transposes of A_b
    const double* weights;  // (n,k) dense weights; a new atom is a copy of a row
    // Neighbours of vertex i: neighbours[starts[i]] .. neighbours[starts[i+1] - 1].
    const std::int64_t* starts;  // (n+1,)
    const std::int32_t* neighbours;
    const std::int32_t* shells;  // (n,) connected component of each vertex, 0 .. shell_count-1
    int shell_count;
    int per_vertex;  // s, 1 .. kMaxPerVertex
    int per_atom;    // c, 1 .. k
    double max_coefficient;  // of a vertex; two atoms that nearly coincide define no line
    bool keep_largest;       // an atom keeps its c largest entries; else those that matter most
    // Weight of each entry of `neighbours`, symmetric, or null: the error is then
    // sum_i |x_i|^2 + sum over edges of weight |x_i - x_j|^2, see `value`.
    const float* coupling;
};

class Factorization {
public:
    explicit Factorization(const Problem& problem);

    int atoms() const { return m_; }
    double error() const;  // sum of |x_i|^2
    double value() const;  // the error and the coupling of neighbours: what the updates lower

    // Lines 1 and 2 of Algorithm 1: the first one or two atoms, and coefficients for them.
    void initialize(int atoms);
    // Lines 4 to 8 of Algorithm 1: `count` atoms, each at the vertex with the largest error.
    void add_atoms(int count);
    // Line 10 of Algorithm 1: every atom in turn, exact for the objective (Eq. 5 for weights).
    void update_dictionary();
    // Line 10 of Algorithm 1 as published: Eq. 5 with the dense weights, for either objective. With
    // example poses it need not lower the error.
    void update_dictionary_from_weights();
    // Lines 11 to 13 of Algorithm 1: Algorithm 2 from every vertex.
    void update_coefficients();
    // Not in the paper: each vertex tries all subsets of the atoms of the `reach` vertices that
    // are nearest to it along edges.
    void search_neighbourhood(int reach);
    // Not in the paper: a share of the atoms, those whose removal costs least, are removed and
    // added again at the vertices with the largest error. Returns their number.
    int relocate(double share);

    // Replace the state: dictionary (m,k), index (n,s), coefficient (n,s).
    void restore(int atoms, const double* dictionary, const std::int32_t* index,
                 const double* coefficient);
    const std::vector<double>& dictionary() const { return dictionary_; }    // (m,k)
    const std::vector<std::int32_t>& index() const { return index_; }        // (n,s)
    const std::vector<double>& coefficient() const { return coefficient_; }  // (n,s)

private:
    // Atoms and coefficients of a vertex, and its error with them.
    struct Combination {
        int atom[kMaxPerVertex];
        double weight[kMaxPerVertex];
        double error;
    };

    // x_i of one atom alone.
    void atom_residual(int vertex, int atom, float* out) const;
    // x_i with the present coefficients.
    void current_residual(int vertex, float* out) const;
    // Set `goal_` to the residual that the neighbours of a vertex ask for, and return the squared
    // distance of its own from it. Without coupling: zero, and the error.
    double aim(int vertex);
    // (Lx)_i + x_i, half the gradient of `value` by x_i.
    void coupled_residual(int vertex, float* out) const;
    // The best combination of at most s of the candidates (Eq. 6 for each subset). Errors are
    // squared distances from `goal_`.
    Combination best_combination(int vertex, const int* candidates, int count);
    // Lines 1 and 2 of Algorithm 2: take the best combination if it lowers the error, and return
    // whether it lowers it enough to offer it to the neighbours.
    bool improve(int vertex, const int* candidates, int count);
    // Lines 3 to 6 of Algorithm 2: continue from a vertex that has just improved.
    void propagate(int vertex);
    // Set an atom to weights (k,), cut to their c largest entries and scaled to sum to one.
    void set_atom(int atom, const double* weights);
    // Compute the matrix of an atom, sum_b d_b A_b, from its row of the dictionary.
    void update_matrix(int atom);
    void refresh_errors();
    // The change of an atom `now` (k,) that lowers the error most and keeps at most c entries.
    void atom_step(const std::vector<double>& hessian, const std::vector<double>& gradient,
                   const double* now, double* step);

    Problem problem_;
    int q_;  // q rounded up: rows of `matrix_` and `target_` are padded with zeros
    int m_ = 0;
    int dictionary_updates_ = 0;
    std::vector<float> target_;           // (n,q_)
    std::vector<double> bones_;           // (k,p,q_)
    std::vector<double> products_;        // (pairs a<=b of p, k, k): <A_b column a, A_c column b>,
                                          // symmetrised
    std::vector<double> dictionary_;      // (m,k)
    std::vector<float> matrix_;           // (m,p,q_) matrix of each atom
    std::vector<std::int32_t> index_;     // (n,s)
    std::vector<double> coefficient_;     // (n,s)
    std::vector<double> error_;           // (n,)
    std::vector<double> dense_error_;     // (n,) E*_i^2 of Eq. 7c: the error of the dense weights
    mutable std::vector<float> scratch_;  // (kMaxCandidates + 1, q_) residuals
    std::vector<float> residual_;         // (n,q_) x
    std::vector<float> goal_;             // (q_,)
    double rounding_ = 0;                 // gains below it are rounding errors
    std::vector<double> degree_;          // (n,) sum of the coupling of each vertex
    std::vector<double> gram_;            // products of candidate residuals
    std::vector<std::pair<int, std::int64_t>> stack_;  // of `propagate`: vertex, next neighbour
};

}  // namespace understudy::two_layer
