// See two_layer.h for the problem and its letters.
#include "two_layer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace understudy::two_layer {

namespace {

constexpr int kPad = 8;  // floats; rows are padded to this multiple, so loops over q have no tail
constexpr int kMaxCandidates = 48;  // atoms that a vertex compares at a time
// A vertex keeps its atoms if the relative gain is smaller: rounding must not cause endless search.
constexpr double kMinGain = 1e-7;
// The c bones of an atom are chosen anew every so many updates, and only solved for in between.
constexpr int kReselectPeriod = 4;
// Of the mean curvature: keeps an atom in place in directions that its vertices do not determine.
constexpr double kRidge = 1e-7;
// With coupling, every change of a vertex lets its neighbours gain a little: a search goes on only
// for more than that.
constexpr double kCoupledGain = 0.03;
// And by this share of the squared size of the targets: residuals are floats, and neighbours whose
// errors are rounding errors would improve each other for ever.
constexpr double kRounding = 1e-11;
constexpr int kMaxPoint = 4;       // numbers of a point
constexpr int kFewCandidates = 8;  // atoms tried for a vertex that loses one of its own

// <a, b>, summed in kPad lanes of float.
double dot(const float* a, const float* b, int count) {
    float part[kPad] = {};
    for (int i = 0; i < count; i += kPad)
        for (int l = 0; l < kPad; ++l) part[l] += a[i + l] * b[i + l];
    double sum = 0;
    for (float v : part) sum += v;
    return sum;
}

// Cholesky factor L of a (size,size) matrix, in place in its lower triangle; false if the matrix is
// not positive definite.
bool cholesky(double* a, int size) {
    for (int j = 0; j < size; ++j) {
        double diagonal = a[j * size + j];
        for (int l = 0; l < j; ++l) diagonal -= a[j * size + l] * a[j * size + l];
        if (!(diagonal > 0)) return false;
        diagonal = std::sqrt(diagonal);
        a[j * size + j] = diagonal;
        for (int i = j + 1; i < size; ++i) {
            double value = a[i * size + j];
            for (int l = 0; l < j; ++l) value -= a[i * size + l] * a[j * size + l];
            a[i * size + j] = value / diagonal;
        }
    }
    return true;
}

// Solve L L^T x = b, in place in b.
void cholesky_solve(const double* a, int size, double* b) {
    for (int i = 0; i < size; ++i) {
        for (int l = 0; l < i; ++l) b[i] -= a[i * size + l] * b[l];
        b[i] /= a[i * size + i];
    }
    for (int i = size - 1; i >= 0; --i) {
        for (int l = i + 1; l < size; ++l) b[i] -= a[l * size + i] * b[l];
        b[i] /= a[i * size + i];
    }
}

// The minimum of w^T G w with sum w = 1 over the entries `at` of a Gram matrix G, and its weights.
// Infinity if the entries nearly coincide or a weight exceeds the limit.
double affine_minimum(const double* gram, int width, const int* at, int count, double limit,
                      double* weight) {
    if (count == 1) {
        weight[0] = 1;
        return gram[at[0] * width + at[0]];
    }
    if (count == 2) {
        const double aa = gram[at[0] * width + at[0]], bb = gram[at[1] * width + at[1]],
                     ab = gram[at[0] * width + at[1]];
        const double length = aa - 2 * ab + bb;
        if (!(length > 1e-6 * (aa + bb))) return INFINITY;
        weight[0] = (bb - ab) / length;
        weight[1] = 1 - weight[0];
        if (std::max(std::abs(weight[0]), std::abs(weight[1])) > limit) return INFINITY;
        return std::max(0.0, bb - (bb - ab) * weight[0]);
    }
    double matrix[kMaxPerVertex * kMaxPerVertex];
    double largest = 0;
    for (int i = 0; i < count; ++i) largest = std::max(largest, gram[at[i] * width + at[i]]);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < count; ++j)
            matrix[i * count + j] =
                gram[at[i] * width + at[j]] + largest + (i == j ? 1e-6 * largest : 0.0);
    for (int i = 0; i < count; ++i) weight[i] = 1;
    if (!cholesky(matrix, count)) return INFINITY;
    cholesky_solve(matrix, count, weight);
    const double total = std::accumulate(weight, weight + count, 0.0);
    double value = 0;
    for (int i = 0; i < count; ++i) {
        weight[i] /= total;
        if (!(std::abs(weight[i]) <= limit)) return INFINITY;
    }
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < count; ++j)
            value += weight[i] * weight[j] * gram[at[i] * width + at[j]];
    return std::max(0.0, value);
}

}  // namespace

Factorization::Factorization(const Problem& problem)
    : problem_(problem), q_((problem.q + kPad - 1) / kPad * kPad) {
    const int n = problem.n, k = problem.k, p = problem.p, q = problem.q;
    target_.assign(static_cast<std::size_t>(n) * q_, 0.0f);
    for (int i = 0; i < n; ++i)
        std::copy_n(problem.target + static_cast<std::size_t>(i) * q, q,
                    target_.begin() + static_cast<std::size_t>(i) * q_);
    bones_.assign(static_cast<std::size_t>(k) * p * q_, 0.0);
    for (int row = 0; row < k * p; ++row)
        std::copy_n(problem.bones + static_cast<std::size_t>(row) * q, q,
                    bones_.begin() + static_cast<std::size_t>(row) * q_);
    for (int a = 0; a < p; ++a)
        for (int b = a; b < p; ++b)
            for (int i = 0; i < k; ++i)
                for (int j = 0; j < k; ++j) {
                    double sum = 0;
                    for (int l = 0; l < q_; ++l) {
                        sum += bones_[(i * p + a) * q_ + l] * bones_[(j * p + b) * q_ + l];
                        if (a != b)
                            sum += bones_[(i * p + b) * q_ + l] * bones_[(j * p + a) * q_ + l];
                    }
                    products_.push_back(sum);
                }
    for (int i = 0; i < n; ++i) {
        const float* y = target_.data() + static_cast<std::size_t>(i) * q_;
        rounding_ += kRounding / n * dot(y, y, q_);
    }
    residual_.assign(static_cast<std::size_t>(n) * q_, 0.0f);
    goal_.assign(q_, 0.0f);
    degree_.assign(n, 0.0);
    if (problem.coupling)
        for (int i = 0; i < n; ++i)
            degree_[i] = std::accumulate(problem.coupling + problem.starts[i],
                                         problem.coupling + problem.starts[i + 1], 0.0);
    scratch_.resize(static_cast<std::size_t>(kMaxCandidates + 1) * q_);
    gram_.resize(kMaxCandidates * kMaxCandidates);
    index_.assign(static_cast<std::size_t>(n) * problem.per_vertex, 0);
    coefficient_.assign(static_cast<std::size_t>(n) * problem.per_vertex, 0.0);
    error_.assign(n, 0.0);
    dense_error_.assign(n, 0.0);
    std::vector<double> x(q);
    for (int i = 0; i < n; ++i) {
        const float* y = problem.target + static_cast<std::size_t>(i) * q;
        std::copy_n(y, q, x.begin());
        for (int b = 0; b < k; ++b) {
            const double weight = problem.weights[static_cast<std::size_t>(i) * k + b];
            if (weight == 0) continue;
            for (int a = 0; a < p; ++a) {
                const double scaled = weight * problem.point[static_cast<std::size_t>(i) * p + a];
                const double* bone = problem.bones + (static_cast<std::size_t>(b) * p + a) * q;
                for (int l = 0; l < q; ++l) x[l] -= scaled * bone[l];
            }
        }
        dense_error_[i] = std::inner_product(x.begin(), x.end(), x.begin(), 0.0);
    }
}

double Factorization::error() const { return std::accumulate(error_.begin(), error_.end(), 0.0); }

double Factorization::value() const {
    if (!problem_.coupling) return error();
    double sum = 0;
    std::vector<float> slope(q_);
    for (int i = 0; i < problem_.n; ++i) {
        coupled_residual(i, slope.data());
        sum += dot(slope.data(), residual_.data() + static_cast<std::size_t>(i) * q_, q_);
    }
    return sum;
}

void Factorization::coupled_residual(int vertex, float* __restrict out) const {
    const float* x = residual_.data() + static_cast<std::size_t>(vertex) * q_;
    const float own = static_cast<float>(1 + degree_[vertex]);
    for (int l = 0; l < q_; ++l) out[l] = own * x[l];
    for (std::int64_t e = problem_.starts[vertex]; e < problem_.starts[vertex + 1]; ++e) {
        const float* y = residual_.data() + static_cast<std::size_t>(problem_.neighbours[e]) * q_;
        const float weight = problem_.coupling[e];
        for (int l = 0; l < q_; ++l) out[l] -= weight * y[l];
    }
}

double Factorization::aim(int vertex) {
    if (!problem_.coupling || !std::isfinite(error_[vertex])) {
        std::fill(goal_.begin(), goal_.end(), 0.0f);
        return error_[vertex];
    }
    // |x|^2 + sum_j c_j |x - x_j|^2 is (1 + d) |x - goal|^2 plus a constant.
    const float* x = residual_.data() + static_cast<std::size_t>(vertex) * q_;
    coupled_residual(vertex, goal_.data());
    const float own = static_cast<float>(1 / (1 + degree_[vertex]));
    float away = 0;
    for (int l = 0; l < q_; ++l) {
        const float step = own * goal_[l];
        goal_[l] = x[l] - step;
        away += step * step;
    }
    return away;
}

void Factorization::atom_residual(int vertex, int atom, float* __restrict out) const {
    const int p = problem_.p;
    const float* u = problem_.point + static_cast<std::size_t>(vertex) * p;
    const float* __restrict y = target_.data() + static_cast<std::size_t>(vertex) * q_;
    const float* __restrict t = matrix_.data() + static_cast<std::size_t>(atom) * p * q_;
    if (p == 4) {
        const float u0 = u[0], u1 = u[1], u2 = u[2], u3 = u[3];
        for (int l = 0; l < q_; ++l)
            out[l] = u0 * t[l] + u1 * t[q_ + l] + u2 * t[2 * q_ + l] + u3 * t[3 * q_ + l] - y[l];
        return;
    }
    for (int l = 0; l < q_; ++l) out[l] = u[0] * t[l] - y[l];
    for (int a = 1; a < p; ++a)
        for (int l = 0; l < q_; ++l) out[l] += u[a] * t[a * q_ + l];
}

void Factorization::current_residual(int vertex, float* out) const {
    const int s = problem_.per_vertex;
    float* one = scratch_.data() + static_cast<std::size_t>(kMaxCandidates) * q_;
    std::fill(out, out + q_, 0.0f);
    for (int place = 0; place < s; ++place) {
        const float weight =
            static_cast<float>(coefficient_[static_cast<std::size_t>(vertex) * s + place]);
        if (weight == 0) continue;
        atom_residual(vertex, index_[static_cast<std::size_t>(vertex) * s + place], one);
        for (int l = 0; l < q_; ++l) out[l] += weight * one[l];
    }
}

Factorization::Combination Factorization::best_combination(int vertex, const int* candidates,
                                                           int count) {
    const int s = std::min(problem_.per_vertex, count);
    for (int i = 0; i < count; ++i) {
        float* one = scratch_.data() + static_cast<std::size_t>(i) * q_;
        atom_residual(vertex, candidates[i], one);
        for (int l = 0; l < q_; ++l) one[l] -= goal_[l];
    }
    for (int i = 0; i < count; ++i)
        for (int j = 0; j <= i; ++j) {
            const double value = dot(scratch_.data() + static_cast<std::size_t>(i) * q_,
                                     scratch_.data() + static_cast<std::size_t>(j) * q_, q_);
            gram_[i * count + j] = gram_[j * count + i] = value;
        }
    Combination found{};
    found.error = INFINITY;
    // All single candidates, then all subsets of s candidates in lexicographic order. The single
    // ones are needed where two candidates coincide.
    int at[kMaxPerVertex];
    double weight[kMaxPerVertex];
    for (int i = 0; i < count; ++i)
        if (gram_[i * count + i] < found.error) {
            found = Combination{};
            found.atom[0] = candidates[i];
            found.weight[0] = 1;
            found.error = gram_[i * count + i];
        }
    if (s < 2) return found;
    std::iota(at, at + s, 0);
    while (true) {
        const double value = affine_minimum(gram_.data(), count, at, s, problem_.max_coefficient, weight);
        if (value < found.error) {
            found = Combination{};
            found.error = value;
            for (int place = 0; place < s; ++place)
                found.atom[place] = candidates[at[place]], found.weight[place] = weight[place];
        }
        int place = s - 1;
        while (place >= 0 && at[place] == count - s + place) --place;
        if (place < 0) break;
        ++at[place];
        for (int after = place + 1; after < s; ++after) at[after] = at[after - 1] + 1;
    }
    return found;
}

bool Factorization::improve(int vertex, const int* candidates, int count) {
    const double now = aim(vertex);
    Combination found = best_combination(vertex, candidates, count);
    if (!(found.error < now * (1 - kMinGain))) return false;
    // The products of float residuals lose digits by cancellation: compare the length of the
    // combined residual itself.
    float* x = scratch_.data() + static_cast<std::size_t>(kMaxCandidates) * q_;
    std::fill(x, x + q_, 0.0f);
    for (int place = 0; place < problem_.per_vertex; ++place) {
        if (found.weight[place] == 0) continue;
        const int at = static_cast<int>(
            std::find(candidates, candidates + count, found.atom[place]) - candidates);
        const float weight = static_cast<float>(found.weight[place]);
        const float* part = scratch_.data() + static_cast<std::size_t>(at) * q_;
        for (int l = 0; l < q_; ++l) x[l] += weight * part[l];
    }
    found.error = dot(x, x, q_);
    if (!(found.error < now * (1 - kMinGain))) return false;
    const int s = problem_.per_vertex;
    for (int place = 0; place < s; ++place) {
        index_[static_cast<std::size_t>(vertex) * s + place] = found.atom[place];
        coefficient_[static_cast<std::size_t>(vertex) * s + place] = found.weight[place];
    }
    float* kept = residual_.data() + static_cast<std::size_t>(vertex) * q_;
    for (int l = 0; l < q_; ++l) kept[l] = x[l] + goal_[l];
    error_[vertex] = dot(kept, kept, q_);
    return !problem_.coupling ||
           (found.error < now * (1 - kCoupledGain) && now - found.error > rounding_);
}

// The recursion of Algorithm 2 with an explicit stack: the neighbours of a vertex that improved try
// its atoms beside their own, depth first.
void Factorization::propagate(int vertex) {
    const int s = problem_.per_vertex;
    stack_.clear();
    stack_.emplace_back(vertex, problem_.starts[vertex]);
    while (!stack_.empty()) {
        const int from = stack_.back().first;
        const std::int64_t next = stack_.back().second++;
        if (next == problem_.starts[from + 1]) {
            stack_.pop_back();
            continue;
        }
        const int to = problem_.neighbours[next];
        int candidates[2 * kMaxPerVertex], count = 0, own = 0;
        for (int place = 0; place < s; ++place)
            if (coefficient_[static_cast<std::size_t>(to) * s + place] != 0)
                candidates[count++] = index_[static_cast<std::size_t>(to) * s + place];
        own = count;
        for (int place = 0; place < s; ++place) {
            const int atom = index_[static_cast<std::size_t>(from) * s + place];
            if (coefficient_[static_cast<std::size_t>(from) * s + place] == 0 ||
                std::find(candidates, candidates + own, atom) != candidates + own)
                continue;
            candidates[count++] = atom;
        }
        if (count > own && improve(to, candidates, count))
            stack_.emplace_back(to, problem_.starts[to]);
    }
}

void Factorization::update_matrix(int atom) {
    const int p = problem_.p, k = problem_.k;
    std::vector<double> sum(static_cast<std::size_t>(p) * q_, 0.0);
    for (int b = 0; b < k; ++b) {
        const double weight = dictionary_[static_cast<std::size_t>(atom) * k + b];
        if (weight == 0) continue;
        const double* bone = bones_.data() + static_cast<std::size_t>(b) * p * q_;
        for (int l = 0; l < p * q_; ++l) sum[l] += weight * bone[l];
    }
    std::copy(sum.begin(), sum.end(), matrix_.begin() + static_cast<std::size_t>(atom) * p * q_);
}

void Factorization::set_atom(int atom, const double* weights) {
    const int k = problem_.k, c = problem_.per_atom;
    double* row = dictionary_.data() + static_cast<std::size_t>(atom) * k;
    std::copy_n(weights, k, row);
    if (c < k) {
        std::vector<int> order(k);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return std::abs(weights[a]) > std::abs(weights[b]); });
        for (int place = c; place < k; ++place) row[order[place]] = 0;
        const double total = std::accumulate(row, row + k, 0.0);
        for (int b = 0; b < k; ++b) row[b] /= total;
    }
    update_matrix(atom);
}

void Factorization::initialize(int atoms) {
    const int n = problem_.n, k = problem_.k;
    const auto at = [&](int vertex) {
        return problem_.weights + static_cast<std::size_t>(vertex) * k;
    };
    const auto product = [&](int a, int b) {
        return std::inner_product(at(a), at(a) + k, at(b), 0.0);
    };
    int first = 0, second = 0;
    for (int i = 0; i < n; ++i)
        if (product(i, i) > product(first, first)) first = i;
    for (int i = 0; i < n; ++i)
        if (product(i, first) < product(second, first)) second = i;
    m_ = atoms;
    dictionary_.assign(static_cast<std::size_t>(m_) * k, 0.0);
    matrix_.assign(static_cast<std::size_t>(m_) * problem_.p * q_, 0.0f);
    set_atom(0, at(first));
    if (m_ > 1) set_atom(1, at(second));
    error_.assign(n, INFINITY);
    const int both[2] = {0, 1};
    for (int i = 0; i < n; ++i) improve(i, both, m_);
}

void Factorization::add_atoms(int count) {
    const int n = problem_.n, k = problem_.k, s = problem_.per_vertex;
    std::vector<int> worst(problem_.shell_count);
    for (int added = 0; added < count; ++added) {
        std::fill(worst.begin(), worst.end(), -1);
        int p = 0;
        for (int i = 0; i < n; ++i) {
            int& here = worst[problem_.shells[i]];
            if (here < 0 || error_[i] - dense_error_[i] > error_[here] - dense_error_[here])
                here = i;
            if (error_[i] - dense_error_[i] > error_[p] - dense_error_[p]) p = i;
        }
        const int atom = m_++;
        dictionary_.resize(static_cast<std::size_t>(m_) * k);
        matrix_.resize(static_cast<std::size_t>(m_) * problem_.p * q_);
        set_atom(atom, problem_.weights + static_cast<std::size_t>(p) * k);
        // Offer the new atom to the worst vertex of every shell: a search along edges stays in the
        // shell of p.
        for (const int from : worst) {
            int candidates[kMaxPerVertex + 1], have = 0;
            for (int place = 0; place < s; ++place)
                if (coefficient_[static_cast<std::size_t>(from) * s + place] != 0)
                    candidates[have++] = index_[static_cast<std::size_t>(from) * s + place];
            candidates[have++] = atom;
            if (improve(from, candidates, have)) propagate(from);
        }
    }
}

void Factorization::refresh_errors() {
    for (int i = 0; i < problem_.n; ++i) {
        float* x = residual_.data() + static_cast<std::size_t>(i) * q_;
        current_residual(i, x);
        error_[i] = dot(x, x, q_);
    }
}

// Minimise 1/2 d^T H d + g^T d over steps d with sum d = 0, with at most c entries in now + d.
void Factorization::atom_step(const std::vector<double>& hessian,
                              const std::vector<double>& gradient, const double* now,
                              double* step) {
    const int k = problem_.k, c = problem_.per_atom;
    double trace = 0;
    for (int b = 0; b < k; ++b) trace += hessian[b * k + b];
    const double mean = std::max(trace / k, 1e-300);
    std::vector<int> support;
    for (int b = 0; b < k; ++b)
        if (now[b] != 0) support.push_back(b);
    if (static_cast<int>(support.size()) < c || dictionary_updates_ % kReselectPeriod == 0) {
        support.resize(k);
        std::iota(support.begin(), support.end(), 0);
    }
    std::vector<double> matrix, right, ones;
    while (true) {
        const int size = static_cast<int>(support.size());
        matrix.resize(static_cast<std::size_t>(size) * size);
        right.assign(size, 0.0);
        ones.assign(size, 1.0);
        // Solve for w = now + d on the support, sum w = 1: minimise 1/2 w^T H w + (g - H now)^T w.
        // Entries outside the support become zero.
        for (int i = 0; i < size; ++i) {
            const int a = support[i];
            right[i] = -gradient[a] + kRidge * mean * now[a];
            for (int b = 0; b < k; ++b) right[i] += hessian[a * k + b] * now[b];
            for (int j = 0; j < size; ++j)
                matrix[i * size + j] =
                    hessian[a * k + support[j]] + mean + (i == j ? kRidge * mean : 0.0);
        }
        if (!cholesky(matrix.data(), size)) {
            std::fill(step, step + k, 0.0);
            return;
        }
        cholesky_solve(matrix.data(), size, right.data());
        cholesky_solve(matrix.data(), size, ones.data());
        const double lift = (1 - std::accumulate(right.begin(), right.end(), 0.0)) /
                            std::accumulate(ones.begin(), ones.end(), 0.0);
        for (int i = 0; i < size; ++i) right[i] += lift * ones[i];
        if (size <= c) break;
        if (problem_.keep_largest) {
            std::vector<int> order(size);
            std::iota(order.begin(), order.end(), 0);
            std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
                return std::abs(right[a]) > std::abs(right[b]);
            });
            double total = 0;
            for (int place = 0; place < c; ++place) total += right[order[place]];
            for (int place = c; place < size; ++place) right[order[place]] = 0;
            for (double& weight : right) weight /= total;
            break;
        }
        // Removing entry i costs w_i^2 / (H^-1)_ii (optimal brain surgeon). Remove the cheapest,
        // half of the surplus at a time. (H^-1)_ii is the squared length of column i of L^-1.
        std::vector<double> cost(size), column(size);
        for (int j = 0; j < size; ++j) {
            double diagonal = 0;
            for (int i = j; i < size; ++i) {
                double value = i == j ? 1.0 : 0.0;
                for (int l = j; l < i; ++l) value -= matrix[i * size + l] * column[l];
                column[i] = value / matrix[i * size + i];
                diagonal += column[i] * column[i];
            }
            cost[j] = right[j] * right[j] / std::max(diagonal, 1e-300);
        }
        std::vector<int> order(size);
        std::iota(order.begin(), order.end(), 0);
        std::stable_sort(order.begin(), order.end(),
                         [&](int a, int b) { return cost[a] > cost[b]; });
        order.resize(size - std::max(1, (size - c) / 2));
        std::sort(order.begin(), order.end());
        std::vector<int> kept;
        for (const int place : order) kept.push_back(support[place]);
        support = kept;
    }
    for (int b = 0; b < k; ++b) step[b] = -now[b];
    for (std::size_t i = 0; i < support.size(); ++i) step[support[i]] += right[i];
}

void Factorization::update_dictionary() {
    const int n = problem_.n, k = problem_.k, p = problem_.p, s = problem_.per_vertex;
    // The vertices that use each atom, as places in index_.
    std::vector<int> starts(m_ + 1, 0), members;
    for (std::size_t e = 0; e < index_.size(); ++e)
        if (coefficient_[e] != 0) ++starts[index_[e] + 1];
    std::partial_sum(starts.begin(), starts.end(), starts.begin());
    members.resize(starts[m_]);
    std::vector<int> cursor(starts.begin(), starts.end() - 1);
    for (std::size_t e = 0; e < index_.size(); ++e)
        if (coefficient_[e] != 0) members[cursor[index_[e]]++] = static_cast<int>(e);

    refresh_errors();
    // Half the gradient by the residual of each vertex; without coupling, the residual.
    std::vector<float> x = residual_;
    if (problem_.coupling)
        for (int i = 0; i < n; ++i)
            coupled_residual(i, x.data() + static_cast<std::size_t>(i) * q_);
    std::vector<double> coefficient_of(problem_.coupling ? n : 0, 0.0);
    std::vector<double> pull(static_cast<std::size_t>(p) * q_),
        hessian(static_cast<std::size_t>(k) * k), gradient(k), step(k);
    std::vector<double> moments(p * (p + 1) / 2), change(static_cast<std::size_t>(p) * q_);
    std::vector<float> shift(static_cast<std::size_t>(p) * q_);
    for (int atom = 0; atom < m_; ++atom) {
        if (starts[atom] == starts[atom + 1]) continue;
        std::fill(pull.begin(), pull.end(), 0.0);
        std::fill(moments.begin(), moments.end(), 0.0);
        if (problem_.coupling)
            for (int e = starts[atom]; e < starts[atom + 1]; ++e)
                coefficient_of[members[e] / s] = coefficient_[members[e]];
        for (int e = starts[atom]; e < starts[atom + 1]; ++e) {
            const int vertex = members[e] / s;
            const double weight = coefficient_[members[e]];
            // The vertex's share of the second derivative, and that of its neighbours.
            std::array<double, kMaxPoint> row_of{};
            const float* u = problem_.point + static_cast<std::size_t>(vertex) * p;
            const float* r = x.data() + static_cast<std::size_t>(vertex) * q_;
            for (int a = 0; a < p; ++a) row_of[a] = weight * u[a] * (1 + degree_[vertex]);
            if (problem_.coupling)
                for (std::int64_t o = problem_.starts[vertex]; o < problem_.starts[vertex + 1];
                     ++o) {
                    const int other = problem_.neighbours[o];
                    const double scaled = coefficient_of[other] * problem_.coupling[o];
                    if (scaled == 0) continue;
                    for (int a = 0; a < p; ++a)
                        row_of[a] -= scaled * problem_.point[static_cast<std::size_t>(other) * p + a];
                }
            for (int a = 0, pair = 0; a < p; ++a) {
                const double scaled = weight * u[a];
                double* row = pull.data() + static_cast<std::size_t>(a) * q_;
                for (int l = 0; l < q_; ++l) row[l] += scaled * r[l];
                for (int b = a; b < p; ++b, ++pair) moments[pair] += scaled * row_of[b];
            }
        }
        for (int b = 0; b < k; ++b) {
            const double* bone = bones_.data() + static_cast<std::size_t>(b) * p * q_;
            double part[4] = {};
            for (int l = 0; l < p * q_; l += 4)
                for (int lane = 0; lane < 4; ++lane) part[lane] += bone[l + lane] * pull[l + lane];
            gradient[b] = part[0] + part[1] + part[2] + part[3];
        }
        std::fill(hessian.begin(), hessian.end(), 0.0);
        for (std::size_t pair = 0; pair < moments.size(); ++pair) {
            const double* product = products_.data() + pair * k * k;
            const double scaled = moments[pair];
            for (int e = 0; e < k * k; ++e) hessian[e] += scaled * product[e];
        }
        double* row = dictionary_.data() + static_cast<std::size_t>(atom) * k;
        atom_step(hessian, gradient, row, step.data());
        double gain = 0;
        for (int a = 0; a < k; ++a) {
            double curve = 0;
            for (int b = 0; b < k; ++b) curve += hessian[a * k + b] * step[b];
            gain -= step[a] * (gradient[a] + 0.5 * curve);
        }
        if (problem_.coupling)
            for (int e = starts[atom]; e < starts[atom + 1]; ++e)
                coefficient_of[members[e] / s] = 0;
        if (!(gain > 0)) continue;  // a new support of c entries may be worse than the old one
        for (int b = 0; b < k; ++b) row[b] += step[b];
        std::fill(change.begin(), change.end(), 0.0);
        for (int b = 0; b < k; ++b) {
            if (step[b] == 0) continue;
            const double* bone = bones_.data() + static_cast<std::size_t>(b) * p * q_;
            for (int l = 0; l < p * q_; ++l) change[l] += step[b] * bone[l];
        }
        std::copy(change.begin(), change.end(), shift.begin());
        for (int e = starts[atom]; e < starts[atom + 1]; ++e) {
            const int vertex = members[e] / s;
            const float weight = static_cast<float>(coefficient_[members[e]]);
            const float* u = problem_.point + static_cast<std::size_t>(vertex) * p;
            float* r = x.data() + static_cast<std::size_t>(vertex) * q_;
            for (int a = 0; a < p; ++a) {
                const float scaled = weight * u[a];
                const float* by = shift.data() + static_cast<std::size_t>(a) * q_;
                const float own = static_cast<float>(1 + degree_[vertex]) * scaled;
                for (int l = 0; l < q_; ++l) r[l] += own * by[l];
                if (!problem_.coupling) continue;
                for (std::int64_t o = problem_.starts[vertex]; o < problem_.starts[vertex + 1];
                     ++o) {
                    float* other =
                        x.data() + static_cast<std::size_t>(problem_.neighbours[o]) * q_;
                    const float moved = problem_.coupling[o] * scaled;
                    for (int l = 0; l < q_; ++l) other[l] -= moved * by[l];
                }
            }
        }
        update_matrix(atom);
    }
    refresh_errors();
    ++dictionary_updates_;
}

void Factorization::update_dictionary_from_weights() {
    const int n = problem_.n, k = problem_.k, s = problem_.per_vertex;
    std::vector<std::vector<int>> members(m_);  // places in index_
    for (std::size_t e = 0; e < index_.size(); ++e)
        if (coefficient_[e] != 0) members[index_[e]].push_back(static_cast<int>(e));
    // w_i - D a_i. Its sum over the vertices of atom j, times their coefficients, is
    // gamma_j - D phi_j of Eq. 5.
    std::vector<double> rest(problem_.weights,
                             problem_.weights + static_cast<std::size_t>(n) * k);
    for (std::size_t e = 0; e < index_.size(); ++e) {
        const double* atom = dictionary_.data() + static_cast<std::size_t>(index_[e]) * k;
        double* row = rest.data() + e / s * k;
        for (int b = 0; b < k; ++b) row[b] -= coefficient_[e] * atom[b];
    }
    std::vector<double> next(k);
    for (int atom = 0; atom < m_; ++atom) {
        double square = 0;
        std::fill(next.begin(), next.end(), 0.0);
        for (const int e : members[atom]) {
            const double weight = coefficient_[e];
            const double* row = rest.data() + static_cast<std::size_t>(e / s) * k;
            square += weight * weight;
            for (int b = 0; b < k; ++b) next[b] += weight * row[b];
        }
        if (!(square > 0)) continue;
        std::vector<double> before(dictionary_.begin() + static_cast<std::size_t>(atom) * k,
                                   dictionary_.begin() + static_cast<std::size_t>(atom + 1) * k);
        for (int b = 0; b < k; ++b) next[b] = before[b] + next[b] / square;
        const double total = std::accumulate(next.begin(), next.end(), 0.0);
        if (!(std::abs(total) > 1e-6)) continue;  // cannot be scaled to sum to one
        for (double& weight : next) weight /= total;
        set_atom(atom, next.data());
        const double* after = dictionary_.data() + static_cast<std::size_t>(atom) * k;
        for (const int e : members[atom]) {
            double* row = rest.data() + static_cast<std::size_t>(e / s) * k;
            for (int b = 0; b < k; ++b) row[b] -= coefficient_[e] * (after[b] - before[b]);
        }
    }
    refresh_errors();
}

void Factorization::update_coefficients() {
    const int n = problem_.n, s = problem_.per_vertex;
    for (int i = 0; i < n; ++i) {
        int candidates[kMaxPerVertex], count = 0;
        for (int place = 0; place < s; ++place)
            if (coefficient_[static_cast<std::size_t>(i) * s + place] != 0)
                candidates[count++] = index_[static_cast<std::size_t>(i) * s + place];
        if (improve(i, candidates, count)) propagate(i);
    }
}

void Factorization::search_neighbourhood(int reach) {
    const int n = problem_.n, s = problem_.per_vertex;
    // There are about count^s subsets.
    const int most = s <= 2 ? kMaxCandidates : 2 * kMaxPerVertex;
    std::vector<int> seen(n, -1), around;
    for (int i = 0; i < n; ++i) {
        int candidates[kMaxCandidates], count = 0;
        const auto offer = [&](int vertex) {
            for (int place = 0; place < s; ++place) {
                const std::size_t e = static_cast<std::size_t>(vertex) * s + place;
                if (coefficient_[e] == 0 || count == most ||
                    std::find(candidates, candidates + count, index_[e]) != candidates + count)
                    continue;
                candidates[count++] = index_[e];
            }
        };
        // Breadth first, so the nearest vertices come first.
        around.assign(1, i);
        seen[i] = i;
        for (std::size_t at = 0;
             at < around.size() && at < static_cast<std::size_t>(reach) && count < most; ++at) {
            const int vertex = around[at];
            offer(vertex);
            for (std::int64_t e = problem_.starts[vertex]; e < problem_.starts[vertex + 1]; ++e) {
                const int next = problem_.neighbours[e];
                if (seen[next] == i) continue;
                seen[next] = i;
                around.push_back(next);
            }
        }
        improve(i, candidates, count);
    }
}

int Factorization::relocate(double share) {
    const int n = problem_.n, k = problem_.k, s = problem_.per_vertex;
    // Value of an atom: the rise of the error if its vertices used their other atoms and those of
    // their neighbours.
    std::vector<double> value(m_, 0.0);
    for (int i = 0; i < n; ++i)
        for (int place = 0; place < s; ++place) {
            const std::size_t e = static_cast<std::size_t>(i) * s + place;
            if (coefficient_[e] == 0) continue;
            int others[kMaxCandidates], count = 0;
            const auto offer = [&](int vertex) {
                for (int at = 0; at < s; ++at) {
                    const std::size_t o = static_cast<std::size_t>(vertex) * s + at;
                    if (coefficient_[o] == 0 || index_[o] == index_[e] || count == kFewCandidates ||
                        std::find(others, others + count, index_[o]) != others + count)
                        continue;
                    others[count++] = index_[o];
                }
            };
            offer(i);
            for (std::int64_t o = problem_.starts[i]; o < problem_.starts[i + 1]; ++o)
                offer(problem_.neighbours[o]);
            if (!count) {
                value[index_[e]] = INFINITY;
                continue;
            }
            const double now = aim(i);
            value[index_[e]] += std::max(0.0, best_combination(i, others, count).error - now);
        }
    std::vector<int> order(m_);
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return value[a] < value[b]; });
    const int count = std::max(1, static_cast<int>(share * m_));
    std::vector<char> removed(m_, 0);
    for (int place = 0; place < count && place < m_ - 2; ++place)
        removed[order[place]] = std::isfinite(value[order[place]]);
    // Remove the atoms from the dictionary; vertices that lose one choose among the atoms of their
    // neighbours.
    std::vector<int> new_index(m_, -1);
    int kept = 0;
    for (int atom = 0; atom < m_; ++atom)
        if (!removed[atom]) new_index[atom] = kept++;
    const int left = m_ - kept;
    std::vector<char> affected(n, 0);
    for (int atom = 0; atom < m_; ++atom) {
        if (removed[atom]) continue;
        std::copy_n(dictionary_.begin() + static_cast<std::size_t>(atom) * k, k,
                    dictionary_.begin() + static_cast<std::size_t>(new_index[atom]) * k);
        const std::size_t size = static_cast<std::size_t>(problem_.p) * q_;
        std::copy_n(matrix_.begin() + atom * size, size, matrix_.begin() + new_index[atom] * size);
    }
    for (int i = 0; i < n; ++i)
        for (int place = 0; place < s; ++place) {
            const std::size_t e = static_cast<std::size_t>(i) * s + place;
            if (coefficient_[e] != 0 && removed[index_[e]]) {
                affected[i] = 1;
                coefficient_[e] = 0;
            }
            index_[e] = coefficient_[e] == 0 ? 0 : new_index[index_[e]];
        }
    m_ = kept;
    dictionary_.resize(static_cast<std::size_t>(m_) * k);
    matrix_.resize(static_cast<std::size_t>(m_) * problem_.p * q_);
    for (int i = 0; i < n; ++i) {
        if (!affected[i]) continue;
        error_[i] = INFINITY;
        int candidates[kMaxCandidates], have = 0;
        const auto offer = [&](int vertex) {
            for (int place = 0; place < s; ++place) {
                const std::size_t e = static_cast<std::size_t>(vertex) * s + place;
                if (coefficient_[e] == 0 || have == kFewCandidates ||
                    std::find(candidates, candidates + have, index_[e]) != candidates + have)
                    continue;
                candidates[have++] = index_[e];
            }
        };
        offer(i);
        for (std::int64_t e = problem_.starts[i]; e < problem_.starts[i + 1]; ++e)
            offer(problem_.neighbours[e]);
        if (!have) candidates[have++] = 0;
        improve(i, candidates, have);
    }
    add_atoms(left);
    return left;
}

void Factorization::restore(int atoms, const double* dictionary, const std::int32_t* index,
                            const double* coefficient) {
    m_ = atoms;
    dictionary_.assign(dictionary, dictionary + static_cast<std::size_t>(atoms) * problem_.k);
    matrix_.assign(static_cast<std::size_t>(atoms) * problem_.p * q_, 0.0f);
    for (int atom = 0; atom < atoms; ++atom) update_matrix(atom);
    index_.assign(index, index + index_.size());
    coefficient_.assign(coefficient, coefficient + coefficient_.size());
    refresh_errors();
}

}  // namespace understudy::two_layer
