// Python binding of two_layer.h: checks shapes, types and ranges, then calls the core.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <stdexcept>

#include "two_layer.h"

namespace nb = nanobind;
using namespace nb::literals;
using understudy::two_layer::Factorization;
using understudy::two_layer::Problem;

namespace {

template <class Scalar, int Axes>
using Array = nb::ndarray<const Scalar, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;

void need(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

void in_range(const std::int32_t* values, std::size_t count, std::int64_t size, const char* what) {
    need(std::all_of(values, values + count, [size](std::int32_t v) { return v >= 0 && v < size; }),
         what);
}

// A factorisation and the arrays that it reads, which must live as long as it does.
class Bound {
public:
    Bound(Array<float, 2> point, Array<float, 2> target, Array<double, 3> bones,
          Array<double, 2> weights, Array<std::int64_t, 1> starts,
          Array<std::int32_t, 1> neighbours, Array<std::int32_t, 1> shells, int per_vertex,
          int per_atom, double max_coefficient, bool keep_largest,
          std::optional<Array<float, 1>> coupling)
        : point_(point),
          target_(target),
          bones_(bones),
          weights_(weights),
          starts_(starts),
          neighbours_(neighbours),
          shells_(shells) {
        const std::size_t n = point.shape(0), p = point.shape(1), k = bones.shape(0),
                          q = bones.shape(2);
        need(n >= 1 && n < (1u << 30) && p >= 1 && k >= 1 && q >= 1,
             "point and bones: expected shapes (V, p) and (B, p, q), none of them empty");
        need(bones.shape(1) == p, "bones: expected shape (B, p, q)");
        need(target.shape(0) == n && target.shape(1) == q, "target: expected shape (V, q)");
        need(weights.shape(0) == n && weights.shape(1) == k, "weights: expected shape (V, B)");
        need(starts.shape(0) == n + 1 && starts.data()[0] == 0,
             "starts: expected shape (V + 1,), beginning with 0");
        need(std::is_sorted(starts.data(), starts.data() + n + 1),
             "starts: entries must not decrease");
        need(static_cast<std::size_t>(starts.data()[n]) == neighbours.shape(0),
             "starts: the last entry must be the number of neighbours");
        need(shells.shape(0) == n, "shells: expected shape (V,)");
        in_range(neighbours.data(), neighbours.shape(0), static_cast<std::int64_t>(n),
                 "neighbours: a vertex index is out of range");
        in_range(shells.data(), n, static_cast<std::int64_t>(n),
                 "shells: a shell index is out of range");
        const int shell_count = *std::max_element(shells.data(), shells.data() + n) + 1;
        need(per_vertex >= 1 && per_vertex <= understudy::two_layer::kMaxPerVertex,
             "per_vertex: expected 1 to 4");
        need(per_atom >= 1 && per_atom <= static_cast<int>(k), "per_atom: expected 1 to B");
        need(p <= 4, "point: expected at most 4 columns");
        need(!coupling || coupling->shape(0) == neighbours.shape(0),
             "coupling: expected one number per neighbour");
        if (coupling) coupling_ = *coupling;
        need(max_coefficient >= 1, "max_coefficient: expected at least 1");
        problem_ = Problem{static_cast<int>(n), static_cast<int>(k),
                           static_cast<int>(p), static_cast<int>(q),
                           point.data(),        target.data(),
                           bones.data(),        weights.data(),
                           starts.data(),       neighbours.data(),
                           shells.data(),       shell_count,
                           per_vertex,          per_atom,
                           max_coefficient,     keep_largest,
                           coupling ? coupling->data() : nullptr};
        core_ = std::make_unique<Factorization>(problem_);
    }

    Factorization& core() { return *core_; }

    void initialize(int atoms) {
        need(atoms == 1 || atoms == 2, "atoms: expected 1 or 2");
        core_->initialize(atoms);
    }

    void add_atoms(int count) {
        need(core_->atoms() > 0, "add_atoms: call initialize first");
        need(count >= 0, "count: must not be negative");
        core_->add_atoms(count);
    }

    void search_neighbourhood(int reach) {
        need(reach >= 1, "reach: expected at least 1");
        core_->search_neighbourhood(reach);
    }

    int relocate(double share) {
        need(core_->atoms() > 0, "relocate: call initialize first");
        need(share > 0 && share <= 1, "share: expected a number above 0 and at most 1");
        return core_->relocate(share);
    }

    nb::tuple state() {
        return nb::make_tuple(copy<double>(core_->dictionary(), core_->atoms(), problem_.k),
                              copy<std::int32_t>(core_->index(), problem_.n, problem_.per_vertex),
                              copy<double>(core_->coefficient(), problem_.n, problem_.per_vertex));
    }

    void restore(Array<double, 2> dictionary, Array<std::int32_t, 2> index,
                 Array<double, 2> coefficient) {
        const std::size_t n = problem_.n, s = problem_.per_vertex;
        need(
            dictionary.shape(0) >= 1 && dictionary.shape(1) == static_cast<std::size_t>(problem_.k),
            "dictionary: expected shape (m, B)");
        need(index.shape(0) == n && index.shape(1) == s && coefficient.shape(0) == n &&
                 coefficient.shape(1) == s,
             "index and coefficient: expected shape (V, s)");
        in_range(index.data(), index.size(), static_cast<std::int64_t>(dictionary.shape(0)),
                 "index: an atom index is out of range");
        core_->restore(static_cast<int>(dictionary.shape(0)), dictionary.data(), index.data(),
                       coefficient.data());
    }

private:
    template <class Scalar>
    static nb::object copy(const std::vector<Scalar>& values, int rows, int columns) {
        auto* owned = new Scalar[values.size()];
        std::copy(values.begin(), values.end(), owned);
        nb::capsule owner(owned, [](void* p) noexcept { delete[] static_cast<Scalar*>(p); });
        return nb::cast(nb::ndarray<nb::numpy, Scalar, nb::ndim<2>>(
            owned, {static_cast<std::size_t>(rows), static_cast<std::size_t>(columns)}, owner));
    }

    Array<float, 2> point_, target_;
    Array<double, 3> bones_;
    Array<double, 2> weights_;
    Array<std::int64_t, 1> starts_;
    Array<std::int32_t, 1> neighbours_, shells_;
    Array<float, 1> coupling_;
    Problem problem_{};
    std::unique_ptr<Factorization> core_;
};

}  // namespace

NB_MODULE(_two_layer, m) {
    using Free = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Bound>(m, "Factorization")
        .def(nb::init<Array<float, 2>, Array<float, 2>, Array<double, 3>, Array<double, 2>,
                      Array<std::int64_t, 1>, Array<std::int32_t, 1>, Array<std::int32_t, 1>, int,
                      int, double, bool, std::optional<Array<float, 1>>>(),
             "point"_a, "target"_a, "bones"_a, "weights"_a, "starts"_a, "neighbours"_a, "shells"_a,
             "per_vertex"_a, "per_atom"_a, "max_coefficient"_a = 50.0, "keep_largest"_a = false,
             "coupling"_a = nb::none())
        .def("initialize", &Bound::initialize, "atoms"_a, Free())
        .def("add_atoms", &Bound::add_atoms, "count"_a, Free())
        .def(
            "update_dictionary", [](Bound& self) { self.core().update_dictionary(); }, Free())
        .def(
            "update_coefficients", [](Bound& self) { self.core().update_coefficients(); }, Free())
        .def(
            "update_dictionary_from_weights",
            [](Bound& self) { self.core().update_dictionary_from_weights(); }, Free())
        .def("search_neighbourhood", &Bound::search_neighbourhood, "reach"_a, Free())
        .def("relocate", &Bound::relocate, "share"_a, Free())
        .def("error", [](Bound& self) { return self.core().error(); })
        .def("value", [](Bound& self) { return self.core().value(); })
        .def("atoms", [](Bound& self) { return self.core().atoms(); })
        .def("state", &Bound::state)
        .def("restore", &Bound::restore, "dictionary"_a, "index"_a, "coefficient"_a);
}
