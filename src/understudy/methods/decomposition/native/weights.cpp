// The weight step: a quadratic program on the simplex per vertex, with a search for its bones.
//
// For vertex i, R_bc = <M_b v~ - y, M_c v~ - y>, and the value of weights w that sum to one is
// w^T R w. A support is a set of bones. Within a support, an active set method finds the best
// weights. Bones then enter a support, and others leave, while that lowers the value.
#include <algorithm>
#include <cmath>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "decompose.h"
#include "parallel.h"
#include "vector_loops.h"

namespace understudy {
namespace {

// Relative to the numbers that cancelled: smaller differences are rounding noise.
constexpr double kRounding = 1e-14;
constexpr double kMinGain = 1e-9;  // relative decrease below which an exchange is not made

// `count` entries of one row of R: out[b] = sum_k products[k] * pairs[k][b] - linear[b] + own. See
// `bone_pairs` for the ten products; `own` is the square less the linear term of the row's bone.
UNDERSTUDY_WIDE void residual_row(const double* pairs, const double* products, const double* linear,
                                  double own, std::int64_t bones, std::int64_t count, double* out) {
    for (std::int64_t b = 0; b < count; ++b) {
        double sum = own - linear[b];
        for (int k = 0; k < 10; ++k) sum += products[k] * pairs[k * bones + b];
        out[b] = sum;
    }
}

// A support: some bones, their weights and the value w^T R w. It lives on the stack; a copy copies
// only the bones in use.
template <int Capacity>
struct Support {
    std::int64_t count = 0;
    double value = std::numeric_limits<double>::infinity();
    std::int32_t bone[Capacity];
    double weight[Capacity];

    Support() {}
    Support(const Support& other) { *this = other; }
    Support& operator=(const Support& other) {
        count = other.count, value = other.value;
        std::copy(other.bone, other.bone + count, bone);
        std::copy(other.weight, other.weight + count, weight);
        return *this;
    }
    bool has(std::int32_t b) const { return std::find(bone, bone + count, b) != bone + count; }
    void add(std::int32_t b, double w) { bone[count] = b, weight[count++] = w; }
    void drop(std::int64_t out) {
        std::copy(bone + out + 1, bone + count, bone + out);
        std::copy(weight + out + 1, weight + count, weight + out);
        --count;
    }
};

// The weight problem of one vertex. Rows of R are computed when they are first needed.
template <int Capacity>
class Vertex {
public:
    using Set = Support<Capacity>;

    Vertex(const WeightProblem& problem, const double* pairs)
        : problem_(problem),
          pairs_(pairs),
          bones_(problem.bones),
          rows_(bones_ * bones_),
          computed_(bones_),
          linear_(bones_),
          diagonal_(bones_),
          slope_(bones_) {
        const std::size_t largest =
            static_cast<std::size_t>(std::min<std::int64_t>(Capacity, bones_));
        stride_ = static_cast<std::int64_t>(largest);
        factor_.resize(Capacity <= 16 ? Capacity * Capacity : largest * largest);
        for (auto* per_bone : {&forward_, &pivot_, &goal_, &inverse_}) per_bone->resize(largest);
        entering_.reserve(static_cast<std::size_t>(bones_));
        leaving_.reserve(largest);
    }

    // Prepares the problem of another vertex.
    void open(std::int64_t vertex) {
        const double* v = problem_.rest + 4 * vertex;
        for (int j = 0, k = 0; j < 4; ++j)
            for (int l = j; l < 4; ++l, ++k) products_[k] = v[j] * v[l];
        double largest = 0;
        square_ = problem_.square[vertex];
        const double* linear = problem_.linear + 4 * bones_ * vertex;
        for (std::int64_t b = 0; b < bones_; ++b)
            linear_[b] = linear[4 * b] * v[0] + linear[4 * b + 1] * v[1] +
                         linear[4 * b + 2] * v[2] + linear[4 * b + 3] * v[3];
        for (std::int64_t b = 0; b < bones_; ++b) {
            const double* pairs = pairs_ + 10 * bones_ * b + b;
            double sum = 0;
            for (int k = 0; k < 10; ++k) sum += products_[k] * pairs[k * bones_];
            largest = std::max(largest, sum);
            diagonal_[b] = sum - 2 * linear_[b] + square_;
        }
        if (problem_.allowed) {
            const std::uint8_t* allowed = problem_.allowed + bones_ * vertex;
            for (std::int64_t b = 0; b < bones_; ++b)
                if (!allowed[b]) diagonal_[b] = std::numeric_limits<double>::infinity();
        }
        noise_ = kRounding * (largest + square_) + 1e-290;
        std::fill(computed_.begin(), computed_.end(), 0);
        factored_.count = 0;
        shift_ = 0;
    }

    std::int64_t best_single() const {
        return std::min_element(diagonal_.begin(), diagonal_.end()) - diagonal_.begin();
    }

    // The value if the vertex follows bone b alone.
    double single_value(std::int64_t b) const {
        double own;
        residual_row(pairs_ + 10 * bones_ * b + b, products_, linear_.data() + b,
                     square_ - linear_[b], bones_, 1, &own);
        return std::max(own, 0.0);
    }

    // Finds the best weights within a support, from feasible ones, and drops bones whose weight
    // becomes zero. An active set method: it walks towards the minimum without sign constraints and
    // stops where a weight reaches zero.
    void settle(Set& s) {
        while (true) {
            if (s.count == 1) {
                s.weight[0] = 1;
                break;
            }
            solve(s);
            double step = 1;
            std::int64_t out = -1;
            for (std::int64_t a = 0; a < s.count; ++a)
                if (goal_[a] <= 0) {
                    const double ratio =
                        s.weight[a] <= 0 ? 0 : s.weight[a] / (s.weight[a] - goal_[a]);
                    if (out < 0 || ratio < step) step = ratio, out = a;
                }
            double total = 0;
            for (std::int64_t a = 0; a < s.count; ++a) {
                s.weight[a] =
                    a == out ? 0 : std::max(0.0, s.weight[a] + step * (goal_[a] - s.weight[a]));
                total += s.weight[a];
            }
            for (std::int64_t a = 0; a < s.count; ++a) s.weight[a] /= total;
            if (out < 0) break;
            s.drop(out);
        }
        s.value = value(s);
    }

    // Adds bones, and removes another one if there are already K, while that lowers the value.
    void exchange(Set& s, std::int64_t influences, std::int64_t candidates,
                  std::int64_t exchanges) {
        for (std::int64_t count = 0; count < exchanges; ++count) {
            rank(s, candidates);
            Set best = s;
            for (const auto& entry : entering_) {
                Set with = s;
                with.add(entry.second, 0);
                settle(with);
                if (with.count <= influences) {
                    if (with.value < best.value) best = with;
                    continue;
                }
                if (with.value < best.value) best_without_one(with, entry.second, best);
            }
            if (!(best.value < s.value - kMinGain * s.value - noise_)) break;
            s = best;
        }
    }

    // Reduces a support to K bones; each step removes the bone whose removal raises the value
    // least.
    void reduce(Set& s, std::int64_t influences) {
        while (s.count > influences) {
            Set best;
            solve(s);
            best_without_one(s, -1, best);
            s = best;
        }
    }

private:
    const double* row(std::int64_t b) {
        double* out = rows_.data() + bones_ * b;
        if (!computed_[b]) {
            computed_[b] = 1;
            residual_row(pairs_ + 10 * bones_ * b, products_, linear_.data(), square_ - linear_[b],
                         bones_, bones_, out);
        }
        return out;
    }

    // Sets `best` to the better of itself and s without one bone other than `kept`; s must be the
    // support solved last. Without sign constraints, the value after a removal follows from the
    // inverse matrix. It bounds the constrained value from below, so bones are tried in the order
    // of their bounds, until no bound is below the best value.
    void best_without_one(const Set& s, std::int32_t kept, Set& best) {
        const std::int64_t n = s.count;
        leaving_.clear();
        with_size(n, [&](auto size) { invert_diagonal(size); });
        for (std::int64_t out = 0; out < n; ++out) {
            if (s.bone[out] == kept) continue;
            const double left = total_ * (1 - goal_[out] * goal_[out] * total_ / inverse_[out]);
            leaving_.emplace_back(
                left > 0 ? 1 / left - shift_ : std::numeric_limits<double>::infinity(),
                static_cast<std::int32_t>(out));
        }
        std::sort(leaving_.begin(), leaving_.end());
        const double tolerance = 1e-11 * shift_ + noise_;
        for (const auto& [bound, out] : leaving_) {
            if (bound - tolerance >= best.value) break;
            Set without = dropped(s, out);
            settle(without);
            if (without.value < best.value) best = without;
        }
    }

    static Set dropped(const Set& s, std::int64_t out) {
        Set result = s;
        result.drop(out);
        double total = 0;
        for (std::int64_t a = 0; a < result.count; ++a) total += result.weight[a];
        for (std::int64_t a = 0; a < result.count; ++a)
            result.weight[a] =
                total > 0 ? result.weight[a] / total : 1.0 / static_cast<double>(result.count);
        return result;
    }

    double value(const Set& s) {
        double sum = 0;
        for (std::int64_t a = 0; a < s.count; ++a) {
            const double* r = row(s.bone[a]);
            double inner = 0;
            for (std::int64_t c = 0; c < s.count; ++c) inner += r[s.bone[c]] * s.weight[c];
            sum += s.weight[a] * inner;
        }
        return std::max(sum, 0.0);
    }

    // Sets goal_ to the minimum of w^T R w over sum w = 1 within the support. R plus a multiple of
    // the all-ones matrix has the same minimum and is regular. Also sets factor_ to its Cholesky
    // factor, pivot_ to the inverse of the factor's diagonal, shift_ to the multiple, and total_ to
    // the sum of the entries of the inverse. Supports tried one after the other often begin with
    // the same bones; the rows of the factor that belong to those are reused.
    void solve(const Set& s) {
        double size = noise_;
        for (std::int64_t a = 0; a < s.count; ++a) size = std::max(size, diagonal_[s.bone[a]]);
        if (size > 4 * shift_ || 4 * size < shift_) shift_ = size, factored_.count = 0;
        std::int64_t same = 0;
        while (same < std::min(s.count, factored_.count) && s.bone[same] == factored_.bone[same])
            ++same;
        factored_.count = s.count;
        std::copy(s.bone + same, s.bone + s.count, factored_.bone + same);
        with_size(s.count, [&](auto n) { solve_from(same, n); });
    }

    template <class Size>
    void solve_from(std::int64_t same, Size n) {
        double goal[capacity(n)];
        for (std::int64_t a = 0; a < n; ++a)
            if (a >= same) factor_row(a);
        double total = 0;
        for (std::int64_t a = n - 1; a >= 0; --a) {
            double sum = forward_[a];
            for (std::int64_t k = a + 1; k < n; ++k) sum -= factor_[k * stride() + a] * goal[k];
            goal[a] = sum * pivot_[a];
            total += goal[a];
        }
        const double share = 1 / total;
        for (std::int64_t a = 0; a < n; ++a) goal_[a] = goal[a] * share;
        total_ = total;
    }

    // Computes row a of the factor and of forward_, the inverse of the factor times a vector of
    // ones.
    void factor_row(std::int64_t a) {
        const double* r = row(factored_.bone[a]);
        double* const mine = &factor_[a * stride()];
        double own = r[factored_.bone[a]] + (1 + 1e-13) * shift_ + 0.1 * noise_, left = 1;
        for (std::int64_t c = 0; c < a; ++c) {
            const double* const other = &factor_[c * stride()];
            double sum = r[factored_.bone[c]] + shift_;
            for (std::int64_t k = 0; k < c; ++k) sum -= mine[k] * other[k];
            sum *= pivot_[c];
            mine[c] = sum;
            own -= sum * sum;
            left -= sum * forward_[c];
        }
        pivot_[a] = 1 / std::sqrt(std::max(own, 1e-14 * shift_));
        forward_[a] = left * pivot_[a];
    }

    // Sets inverse_ to the diagonal of the inverse of the matrix solved last: the squared columns
    // of the inverse of its factor.
    template <class Size>
    void invert_diagonal(Size n) {
        double column[capacity(n)];
        for (std::int64_t b = 0; b < n; ++b) {
            column[b] = pivot_[b];
            double square = column[b] * column[b];
            for (std::int64_t a = b + 1; a < n; ++a) {
                double sum = 0;
                for (std::int64_t k = b; k < a; ++k) sum -= factor_[a * stride() + k] * column[k];
                column[a] = sum * pivot_[a];
                square += column[a] * column[a];
            }
            inverse_[b] = square;
        }
    }

    // Calls work(count) with small counts as compile-time constants, so that the compiler unrolls
    // its loops.
    template <class Work>
    static void with_size(std::int64_t count, const Work& work) {
        switch (count) {
            case 2: return work(Known<2>());
            case 3: return work(Known<3>());
            case 4: return work(Known<4>());
            case 5: return work(Known<5>());
            case 6: return work(Known<6>());
            default: return work(count);
        }
    }
    template <std::int64_t N>
    using Known = std::integral_constant<std::int64_t, N>;
    template <std::int64_t N>
    static constexpr std::int64_t capacity(Known<N>) {
        return N;
    }
    static constexpr std::int64_t capacity(std::int64_t) { return Capacity; }
    std::int64_t stride() const { return Capacity <= 16 ? Capacity : stride_; }

    // Sets entering_ to the `candidates` bones outside the support with the largest gain of a line
    // search towards the bone, best first. A bone whose slope is not below the value cannot lower
    // it, whichever bone leaves.
    void rank(const Set& s, std::int64_t candidates) {
        std::fill(slope_.begin(), slope_.end(), 0.0);
        for (std::int64_t a = 0; a < s.count; ++a)
            add_scaled(s.weight[a], row(s.bone[a]), bones_, slope_.data());
        entering_.clear();
        for (std::int64_t b = 0; b < bones_; ++b) {
            const double gap = s.value - slope_[b];
            if (!(gap > 1e-9 * s.value + noise_) || std::isinf(diagonal_[b]) ||
                s.has(static_cast<std::int32_t>(b)))
                continue;
            const double length = std::max(diagonal_[b] - 2 * slope_[b] + s.value, noise_);
            const double gain = gap < length ? gap * gap / length : 2 * gap - length;
            entering_.emplace_back(-gain, static_cast<std::int32_t>(b));
        }
        const auto keep =
            std::min<std::size_t>(entering_.size(), static_cast<std::size_t>(candidates));
        std::partial_sort(entering_.begin(), entering_.begin() + static_cast<std::ptrdiff_t>(keep),
                          entering_.end());
        entering_.resize(keep);
    }

    const WeightProblem& problem_;
    const double* pairs_;
    std::int64_t bones_;
    std::vector<double> rows_;    // R, row by row
    std::vector<char> computed_;  // whether each row of R is
    std::vector<double> linear_, diagonal_, slope_, factor_, forward_, pivot_, goal_, inverse_;
    std::int64_t stride_ = 0;
    Set factored_;  // the bones of the factor's rows; the weights are unused
    std::vector<std::pair<double, std::int32_t>> entering_, leaving_;
    double products_[10] = {}, square_ = 0, noise_ = 0, total_ = 0, shift_ = 0;
};

// Coefficients (B,10,B) of <M_b v~, M_c v~> in the ten products v~_j v~_l, j <= l, of the
// coordinates of v~.
std::vector<double> bone_pairs(const WeightProblem& problem) {
    const std::int64_t bones = problem.bones, width = 4 * bones;
    const double* gram = problem.gram;
    std::vector<double> pairs(10 * bones * bones);
    const auto at = [&](std::int64_t a, std::int64_t b) {
        return a <= b ? gram[a * width + b] : gram[b * width + a];
    };
    for (std::int64_t b = 0; b < bones; ++b)
        for (std::int64_t c = 0; c < bones; ++c)
            for (int j = 0, k = 0; j < 4; ++j)
                for (int l = j; l < 4; ++l, ++k)
                    pairs[(10 * b + k) * bones + c] =
                        at(4 * b + j, 4 * c + l) + (j == l ? 0.0 : at(4 * b + l, 4 * c + j));
    return pairs;
}

constexpr std::int64_t kBlock = 64;  // vertices that a thread takes at a time

// Writes a support into one row of index and weight, largest weight first.
template <int Capacity>
void write_sorted(const Support<Capacity>& support, std::int64_t places,
                  std::vector<std::int64_t>& order, std::int32_t* index, double* weight) {
    order.resize(support.count);
    for (std::int64_t k = 0; k < support.count; ++k) order[k] = k;
    std::sort(order.begin(), order.end(), [&](std::int64_t a, std::int64_t b) {
        return support.weight[a] != support.weight[b] ? support.weight[a] > support.weight[b]
                                                      : support.bone[a] < support.bone[b];
    });
    for (std::int64_t k = 0; k < places; ++k) {
        index[k] = k < support.count ? support.bone[order[k]] : 0;
        weight[k] = k < support.count ? support.weight[order[k]] : 0;
    }
}

template <int Capacity>
void solve_with_capacity(const WeightProblem& problem, const WeightSearch& search,
                         std::int32_t* index, double* weight, double* value) {
    const std::int64_t places = search.influences;
    const bool single = places == 1 && !search.exchanges &&
                        !search.from_all;  // assignment to clusters: all weights are one
    const std::vector<double> pairs = bone_pairs(problem);
    // Opening a vertex takes 14 multiply-adds per bone; solving for weights takes many times that.
    const std::int64_t work = problem.vertices * problem.bones * (single ? 14 : 1000);
    in_parallel_blocks(problem.vertices, kBlock, useful_threads(search.threads, work), [&] {
        return
            [&, vertex = Vertex<Capacity>(problem, pairs.data()),
             order = std::vector<std::int64_t>()](std::int64_t first, std::int64_t last) mutable {
                for (std::int64_t i = first; i < last; ++i) {
                    vertex.open(i);
                    if (single) {
                        if (!(weight[i] > 0))
                            index[i] = static_cast<std::int32_t>(vertex.best_single());
                        weight[i] = 1;
                        value[i] = vertex.single_value(index[i]);
                        continue;
                    }
                    Support<Capacity> now;
                    for (std::int64_t k = 0; k < places; ++k)
                        if (weight[i * places + k] > 0)
                            now.add(index[i * places + k], weight[i * places + k]);
                    if (!now.count) now.add(static_cast<std::int32_t>(vertex.best_single()), 1);
                    vertex.settle(now);
                    if (search.from_all && places < problem.bones) {
                        Support<Capacity> all = now;
                        vertex.exchange(all, Capacity - 2, 1, 4 * problem.bones);
                        vertex.reduce(all, places);
                        vertex.exchange(all, places, search.candidates, search.exchanges);
                        vertex.exchange(now, places, search.candidates, search.exchanges);
                        if (all.value < now.value) now = all;
                    } else {
                        vertex.exchange(now, places, search.candidates, search.exchanges);
                    }
                    write_sorted(now, places, order, index + i * places, weight + i * places);
                    value[i] = now.value;
                }
            };
    });
}

}  // namespace

void solve_weights(const WeightProblem& problem, const WeightSearch& search, std::int32_t* index,
                   double* weight, double* value) {
    // Starting from all bones, supports grow to at most 14 bones or K before they are reduced.
    const std::int64_t largest =
        search.from_all
            ? std::max<std::int64_t>(search.influences, std::min<std::int64_t>(problem.bones, 14))
            : search.influences;
    if (largest <= 6) solve_with_capacity<8>(problem, search, index, weight, value);
    else if (largest <= 14) solve_with_capacity<16>(problem, search, index, weight, value);
    else if (largest <= 62) solve_with_capacity<64>(problem, search, index, weight, value);
    else solve_with_capacity<max_bones + 2>(problem, search, index, weight, value);
}

}  // namespace understudy
