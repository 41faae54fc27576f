// Python binding of decompose.h: checks shapes and types, then calls the kernel.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/optional.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "decompose.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class Scalar, int Axes>
using Array = nb::ndarray<Scalar, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;

void need(bool holds, const char* what) {
    if (!holds) throw std::invalid_argument(what);
}

template <class T>
std::int64_t axis(const T& array, std::size_t number) {
    return static_cast<std::int64_t>(array.shape(number));
}

void check_index(const Array<std::int32_t, 2>& index, std::int64_t bones) {
    for (std::size_t n = 0; n < index.size(); ++n)
        need(index.data()[n] >= 0 && index.data()[n] < bones, "index: expected bones 0 <= b < B");
}

void solve_weights(Array<const double, 2> rest, Array<const double, 1> square,
                   Array<const double, 2> linear, Array<const double, 2> gram,
                   Array<std::int32_t, 2> index, Array<double, 2> weight, Array<double, 1> value,
                   std::int64_t candidates, std::int64_t exchanges, bool from_all,
                   std::int64_t threads, std::optional<Array<const std::uint8_t, 2>> allowed) {
    const std::int64_t vertices = axis(rest, 0), bones = axis(gram, 0) / 4, places = axis(index, 1);
    need(axis(rest, 1) == 4, "rest: expected shape (V, 4)");
    need(axis(square, 0) == vertices, "square: expected shape (V,)");
    need(axis(gram, 0) % 4 == 0 && axis(gram, 1) == axis(gram, 0),
         "gram: expected shape (4 B, 4 B)");
    need(axis(linear, 0) == vertices && axis(linear, 1) == axis(gram, 0),
         "linear: expected shape (V, 4 B)");
    need(bones >= 1 && bones <= understudy::max_bones, "gram: expected 1 to 1000 bones");
    need(axis(value, 0) == vertices, "value: expected shape (V,)");
    need(axis(index, 0) == vertices && axis(weight, 0) == vertices && axis(weight, 1) == places,
         "index and weight: expected shape (V, K)");
    need(places >= 1 && places <= bones, "index: expected 1 <= K <= B");
    need(candidates >= 1 && exchanges >= 0 && threads >= 1,
         "candidates and threads: expected at least 1; exchanges: expected at least 0");
    if (allowed)
        need(axis(*allowed, 0) == vertices && axis(*allowed, 1) == bones,
             "allowed: expected shape (V, B)");
    check_index(index, bones);
    const understudy::WeightProblem problem{vertices,
                                            bones,
                                            rest.data(),
                                            square.data(),
                                            linear.data(),
                                            gram.data(),
                                            allowed ? allowed->data() : nullptr};
    const understudy::WeightSearch search{places, candidates, exchanges, from_all, threads};
    nb::gil_scoped_release release;
    understudy::solve_weights(problem, search, index.data(), weight.data(), value.data());
}

void solve_positive(Array<const double, 2> gram, Array<double, 2> right, double ridge,
                    std::int64_t threads) {
    need(axis(gram, 0) == axis(gram, 1) && axis(right, 0) == axis(gram, 0),
         "gram and right: expected shapes (n, n) and (n, R)");
    need(threads >= 1, "threads: expected at least 1");
    nb::gil_scoped_release release;
    understudy::solve_positive(axis(gram, 0), axis(right, 1), ridge, threads, gram.data(),
                               right.data());
}

// The skin weights of V vertices over width / 4 bones.
understudy::SkinWeights skin_weights(const Array<const double, 2>& rest,
                                     const Array<std::int32_t, 2>& index,
                                     const Array<const double, 2>& weight, std::int64_t width) {
    const std::int64_t vertices = axis(rest, 0), influences = axis(index, 1);
    need(axis(rest, 1) == 4, "rest: expected shape (V, 4)");
    need(axis(index, 0) == vertices && axis(weight, 0) == vertices && axis(weight, 1) == influences,
         "index and weight: expected shape (V, K)");
    check_index(index, width / 4);
    return {vertices, influences, width / 4, rest.data(), index.data(), weight.data()};
}

void design(Array<const double, 2> rest, Array<std::int32_t, 2> index,
            Array<const double, 2> weight, Array<double, 2> out) {
    need(axis(out, 0) == axis(rest, 0) && axis(out, 1) % 4 == 0, "out: expected shape (V, 4 B)");
    const understudy::SkinWeights skin = skin_weights(rest, index, weight, axis(out, 1));
    nb::gil_scoped_release release;
    understudy::design(skin, out.data());
}

void normal_equations(Array<const double, 2> rest, Array<std::int32_t, 2> index,
                      Array<const double, 2> weight, Array<const double, 2> targets,
                      std::int64_t threads, Array<double, 2> gram, Array<double, 2> cross) {
    const std::int64_t width = axis(gram, 0), rows = axis(targets, 1);
    need(axis(targets, 0) == axis(rest, 0), "targets: expected shape (V, R)");
    need(width % 4 == 0 && axis(gram, 1) == width, "gram: expected shape (4 B, 4 B)");
    need(axis(cross, 0) == width && axis(cross, 1) == rows, "cross: expected shape (4 B, R)");
    need(threads >= 1, "threads: expected at least 1");
    const understudy::SkinWeights skin = skin_weights(rest, index, weight, width);
    nb::gil_scoped_release release;
    understudy::normal_equations(skin, rows, targets.data(), threads, gram.data(), cross.data());
}

void rigid_sweeps(Array<const double, 2> gram, Array<const double, 3> cross,
                  Array<double, 3> transforms, std::int64_t sweeps, std::int64_t threads) {
    const std::int64_t width = axis(gram, 0), frames = axis(cross, 0);
    need(width % 4 == 0 && axis(gram, 1) == width, "gram: expected shape (4 B, 4 B)");
    need(axis(cross, 1) == 3 && axis(cross, 2) == width, "cross: expected shape (F, 3, 4 B)");
    need(axis(transforms, 0) == frames && axis(transforms, 1) == 3 && axis(transforms, 2) == width,
         "transforms: expected shape (F, 3, 4 B)");
    need(sweeps >= 0 && threads >= 1, "sweeps: expected at least 0; threads: expected at least 1");
    nb::gil_scoped_release release;
    understudy::rigid_sweeps(frames, width / 4, sweeps, gram.data(), cross.data(), threads,
                             transforms.data());
}

void nearest_rotations(Array<const double, 3> matrices, Array<double, 3> rotations) {
    need(axis(matrices, 1) == 3 && axis(matrices, 2) == 3, "matrices: expected shape (n, 3, 3)");
    need(axis(rotations, 0) == axis(matrices, 0) && axis(rotations, 1) == 3 &&
             axis(rotations, 2) == 3,
         "rotations: expected shape (n, 3, 3)");
    understudy::nearest_rotations(axis(matrices, 0), matrices.data(), rotations.data());
}

}  // namespace

NB_MODULE(_decompose, m) {
    m.def("solve_weights", &solve_weights, "rest"_a, "square"_a, "linear"_a, "gram"_a,
          "index"_a.noconvert(), "weight"_a.noconvert(), "value"_a.noconvert(), "candidates"_a,
          "exchanges"_a, "from_all"_a, "threads"_a, "allowed"_a = nb::none());
    m.def("solve_positive", &solve_positive, "gram"_a, "right"_a.noconvert(), "ridge"_a,
          "threads"_a);
    m.def("design", &design, "rest"_a, "index"_a, "weight"_a, "out"_a.noconvert());
    m.def("normal_equations", &normal_equations, "rest"_a, "index"_a, "weight"_a, "targets"_a,
          "threads"_a, "gram"_a.noconvert(), "cross"_a.noconvert());
    m.def("rigid_sweeps", &rigid_sweeps, "gram"_a, "cross"_a, "transforms"_a.noconvert(),
          "sweeps"_a, "threads"_a);
    m.def("nearest_rotations", &nearest_rotations, "matrices"_a, "rotations"_a.noconvert());
}
