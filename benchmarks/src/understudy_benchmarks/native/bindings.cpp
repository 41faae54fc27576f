// Python binding of `Floor`.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <new>
#include <string>

#include "floor.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

class Floor {
public:
    Floor(std::size_t bytes, int threads, const std::string& instruction_set)
        : floor_(instruction_set.c_str()), pool_(understudy::default_memory()) {
        if (!floor_.allocate(bytes) || !pool_.start(threads)) throw std::bad_alloc();
    }
    float read() {
        const nb::gil_scoped_release unlocked;
        return floor_.read(&pool_);
    }
    float multiply_add(std::size_t count) {
        const nb::gil_scoped_release unlocked;
        return floor_.multiply_add(&pool_, count);
    }

private:
    understudy::Floor floor_;
    understudy::Pool pool_;
};

}  // namespace

NB_MODULE(_floor, m) {
    nb::class_<Floor>(m, "Floor")
        .def(nb::init<std::size_t, int, const std::string&>(), "bytes"_a, "threads"_a,
             "instruction_set"_a)
        .def("read", &Floor::read)
        .def("multiply_add", &Floor::multiply_add, "count"_a);
}
