// Python binding of runtime/include/understudy.h. It checks shapes and types, nothing else.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <deque>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <nanobind/stl/optional.h>

#include "../../../runtime/include/understudy.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

template <class Scalar, int Axes>
using Array = nb::ndarray<Scalar, nb::ndim<Axes>, nb::c_contig, nb::device::cpu>;
using Bones = Array<const double, 4>;
using Controls = Array<const double, 2>;
using Points = Array<float, 3>;
using PoseBones = Array<const double, 3>;
using PoseControls = Array<const double, 1>;
using PosePoints = Array<float, 2>;

void need(bool holds, const std::string& what) {
    if (!holds) throw std::invalid_argument(what);
}

// Calls work() without the GIL.
//
// A daemon thread that asks for the GIL while the interpreter exits never gets it: Python before
// 3.14 ends such a thread with pthread_exit, which glibc implements as an exception. It must not
// leave here, because a noexcept function further up would abort the process. So the thread waits
// for the process to end.
template <class Work>
auto without_gil(const Work& work) {
    PyThreadState* state = PyEval_SaveThread();
    const auto result = work();
    try {
        PyEval_RestoreThread(state);
    } catch (...) {
        for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
    }
    return result;
}

// An entry of a deformer, and what it refers to.
struct Given {
    using Numbers = nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu>;

    Given(nb::handle key, nb::handle value) : name(nb::cast<std::string>(key)) {
        if (nb::isinstance<nb::str>(value)) {
            texts = nb::cast<std::string>(value);
            entry = {name.c_str(), "TEXT", 0, nullptr, texts.c_str()};
        } else if (nb::isinstance<nb::tuple>(value)) {
            for (nb::handle item : value) texts.append(nb::cast<std::string>(item)).push_back('\0');
            lengths.push_back(nb::len(value));
            entry = {name.c_str(), "TEXT", 1, lengths.data(), texts.c_str()};
        } else {
            numbers = nb::cast<Numbers>(value);
            for (std::size_t axis = 0; axis < numbers.ndim(); ++axis)
                lengths.push_back(numbers.shape(axis));
            entry = {name.c_str(), type_of(numbers.dtype()), numbers.ndim(), lengths.data(),
                     numbers.data()};
        }
    }
    Given(const Given&) = delete;

    static const char* type_of(nb::dlpack::dtype type) {
        if (type == nb::dtype<float>()) return "F32";
        if (type == nb::dtype<double>()) return "F64";
        if (type == nb::dtype<std::int32_t>()) return "I32";
        if (type == nb::dtype<bool>()) return "BOOL";
        need(type.code == static_cast<std::uint8_t>(nb::dlpack::dtype_code::Float) &&
                 type.bits == 16,
             "an array of a type that deformers do not use");
        return "F16";
    }

    std::string name, texts;
    std::vector<std::size_t> lengths;
    Numbers numbers;
    understudy_entry entry{};
};

class Model {
public:
    explicit Model(nb::bytes data) {
        char message[512];
        model_ = understudy_load_memory(data.c_str(), data.size(), message, sizeof message);
        need(model_ != nullptr, message);
    }
    // Of arrays, texts and tuples of texts by name.
    explicit Model(nb::dict entries) {
        std::deque<Given> given;
        std::vector<understudy_entry> list;
        for (const auto& [name, value] : entries)
            list.push_back(given.emplace_back(name, value).entry);
        char message[512];
        model_ = understudy_load_entries_with(nullptr, list.data(), list.size(), message,
                                              sizeof message);
        need(model_ != nullptr, message);
    }
    ~Model() { understudy_free_model(model_); }
    Model(const Model&) = delete;
    Model& operator=(const Model&) = delete;
    const understudy_model* get() const { return model_; }
    std::size_t bytes() const { return understudy_model_bytes(model_); }

    // Fills the bones (T,B,3,4) of poses from controls (T,C). Returns false if the controls do not
    // determine them or are not finite.
    bool pose_bones(Controls controls, Array<double, 4> out) const {
        const std::size_t count = understudy_control_count(model_);
        const std::size_t bones = understudy_bone_count(model_);
        need(controls.shape(1) == count, "controls: expected shape (T, C)");
        need(out.shape(0) == controls.shape(0) && out.shape(1) == bones && out.shape(2) == 3 &&
                 out.shape(3) == 4,
             "out: expected shape (T, B, 3, 4)");
        const std::size_t poses = controls.shape(0);
        const double* from = controls.data();
        double* into = out.data();
        return without_gil([&] {
            for (std::size_t t = 0; t < poses; ++t)
                if (understudy_pose_bones(model_, from + t * count, into + t * 12 * bones) !=
                    UNDERSTUDY_OK)
                    return false;
            return true;
        });
    }

    // The members of understudy_gpu_counts.
    nb::tuple gpu_counts() const {
        const understudy_gpu_counts counts = understudy_count_gpu_arrays(model_);
        return nb::make_tuple(counts.vertices, counts.coefficients, counts.entries,
                              counts.matrix_numbers, counts.influences, counts.transforms);
    }

    void fill_gpu_arrays(Array<float, 2> rest, Array<std::uint32_t, 1> entry_starts,
                         Array<std::uint32_t, 2> entries, Array<float, 1> matrices,
                         Array<std::uint32_t, 2> influence_transforms,
                         Array<float, 2> influence_weights) const {
        const understudy_gpu_counts counts = understudy_count_gpu_arrays(model_);
        need(rest.shape(0) == counts.vertices && rest.shape(1) == 4, "rest: expected (V, 4)");
        need(entry_starts.shape(0) == counts.vertices + 1, "entry_starts: expected (V + 1,)");
        need(entries.shape(0) == counts.entries && entries.shape(1) == 4,
             "entries: expected (E, 4)");
        need(matrices.shape(0) == counts.matrix_numbers, "matrices: expected (M,)");
        need(influence_transforms.shape(0) == counts.vertices &&
                 influence_transforms.shape(1) == counts.influences &&
                 influence_weights.shape(0) == counts.vertices &&
                 influence_weights.shape(1) == counts.influences,
             "influences: expected (V, K)");
        const understudy_gpu_arrays arrays{
            rest.data(),     entry_starts.data(),         entries.data(),
            matrices.data(), influence_transforms.data(), influence_weights.data()};
        if (!understudy_fill_gpu_arrays(model_, &arrays)) throw std::bad_alloc();
    }

private:
    understudy_model* model_;
};

class Pool {
public:
    explicit Pool(int threads) : pool_(understudy_create_pool(threads)) {
        need(pool_ != nullptr, "threads: the system refuses to start that many");
    }
    ~Pool() { understudy_free_pool(pool_); }
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;
    understudy_pool* get() const { return pool_; }

private:
    understudy_pool* pool_;
};

class Scratch {
public:
    Scratch(const Model& model, const Pool& pool)
        : scratch_(understudy_create_scratch(model.get(), pool.get())), model_(model) {
        if (!scratch_) throw std::bad_alloc();
    }
    ~Scratch() { understudy_free_scratch(scratch_); }
    Scratch(const Scratch&) = delete;
    Scratch& operator=(const Scratch&) = delete;

    // Fills positions (T,V,3), and normals if given. Returns false if bones or controls are not
    // finite or larger than the library takes.
    bool deform(std::optional<Bones> bones, std::optional<Controls> controls, Points positions,
                std::optional<Points> normals) {
        const understudy_model* model = model_.get();
        const std::size_t poses = positions.shape(0), vertices = understudy_vertex_count(model);
        need(positions.shape(1) == vertices && positions.shape(2) == 3,
             "positions: expected shape (T, V, 3)");
        if (normals)
            need(normals->shape(0) == poses && normals->shape(1) == vertices &&
                     normals->shape(2) == 3,
                 "normals: expected shape (T, V, 3)");
        if (bones)
            need(bones->shape(0) == poses && bones->shape(1) == understudy_bone_count(model) &&
                     bones->shape(2) == 3 && bones->shape(3) == 4,
                 "world_from_bone: expected shape (T, B, 3, 4)");
        if (controls)
            need(controls->shape(0) == poses &&
                     controls->shape(1) == understudy_control_count(model),
                 "controls: expected shape (T, C)");
        const double* bone_data = bones ? bones->data() : nullptr;
        const double* control_data = controls ? controls->data() : nullptr;
        float* position_data = positions.data();
        float* normal_data = normals ? normals->data() : nullptr;
        const understudy_status status = without_gil([&] {
            return understudy_deform_many(model, scratch_, poses, bone_data, control_data,
                                          position_data, normal_data);
        });
        need(status != UNDERSTUDY_MISSING_ARGUMENT, "world_from_bone or controls are missing");
        need(status != UNDERSTUDY_OVERLAP, "out: overlaps world_from_bone or controls");
        return status == UNDERSTUDY_OK;
    }

    // Fills positions (V,3) with one pose. Returns false if an array is missing or has the wrong
    // shape, or if a number is not finite.
    bool play(std::optional<PoseBones> bones, std::optional<PoseControls> controls,
              PosePoints positions) {
        const understudy_model* model = model_.get();
        const std::size_t bone_count = understudy_bone_count(model);
        const bool reads = understudy_reads_controls(model) || !bone_count;
        if (!bone_count && !understudy_control_count(model)) return false;  // it has no drivers
        if (positions.shape(0) != understudy_vertex_count(model) || positions.shape(1) != 3)
            return false;
        if (bone_count && !(bones && bones->shape(0) == bone_count && bones->shape(1) == 3 &&
                            bones->shape(2) == 4))
            return false;
        if (reads && !(controls && controls->shape(0) == understudy_control_count(model)))
            return false;
        const double* bone_data = bone_count ? bones->data() : nullptr;
        const double* control_data = reads ? controls->data() : nullptr;
        float* position_data = positions.data();
        return without_gil([&] {
                   return understudy_deform(model, scratch_, bone_data, control_data, position_data,
                                            nullptr);
               }) == UNDERSTUDY_OK;
    }

    // Fills the coefficients of one pose; drivers have a first axis of one pose.
    void coefficients(std::optional<Bones> bones, std::optional<Controls> controls,
                      Array<float, 1> out) {
        const understudy_model* model = model_.get();
        need(out.shape(0) >= understudy_count_gpu_arrays(model).coefficients,
             "out: expected (coefficient_count,)");
        need_one_pose(bones, controls);
        need(understudy_coefficients(model, scratch_, bones ? bones->data() : nullptr,
                                     controls ? controls->data() : nullptr,
                                     out.data()) == UNDERSTUDY_OK,
             "drivers: missing, or not finite");
    }

    // How far one pose lies from the training poses; drivers have a first axis of one pose.
    float distance_from_data(std::optional<Bones> bones, std::optional<Controls> controls) {
        const understudy_model* model = model_.get();
        need_one_pose(bones, controls);
        float distance = 0;
        need(understudy_distance_from_data(model, scratch_, bones ? bones->data() : nullptr,
                                           controls ? controls->data() : nullptr,
                                           &distance) == UNDERSTUDY_OK,
             "drivers: missing, or not finite");
        return distance;
    }

    void transforms(std::optional<PoseBones> bones, Array<float, 3> out) {
        const understudy_model* model = model_.get();
        need(out.shape(0) == understudy_count_gpu_arrays(model).transforms && out.shape(1) == 3 &&
                 out.shape(2) == 4,
             "out: expected shape (transform_count, 3, 4)");
        if (bones)
            need(bones->shape(0) == understudy_bone_count(model) && bones->shape(1) == 3 &&
                     bones->shape(2) == 4,
                 "world_from_bone: expected shape (B, 3, 4)");
        need(understudy_transforms(model, scratch_, bones ? bones->data() : nullptr, out.data()) ==
                 UNDERSTUDY_OK,
             "world_from_bone: missing, or not finite");
    }

private:
    void need_one_pose(const std::optional<Bones>& bones, const std::optional<Controls>& controls) {
        const understudy_model* model = model_.get();
        if (bones)
            need(bones->shape(0) == 1 && bones->shape(1) == understudy_bone_count(model) &&
                     bones->shape(2) == 3 && bones->shape(3) == 4,
                 "world_from_bone: expected shape (1, B, 3, 4)");
        if (controls)
            need(controls->shape(0) == 1 && controls->shape(1) == understudy_control_count(model),
                 "controls: expected shape (1, C)");
    }

    understudy_scratch* scratch_;
    const Model& model_;  // nanobind keeps it alive
};

}  // namespace

NB_MODULE(_runtime, m) {
    nb::set_leak_warnings(false);  // thread pools live as long as the process
    nb::class_<Model>(m, "Model")
        .def(nb::init<nb::bytes>(), "data"_a)
        .def(nb::init<nb::dict>(), "entries"_a)
        .def_prop_ro("bytes", &Model::bytes)
        .def("pose_bones", &Model::pose_bones, "controls"_a, "out"_a.noconvert())
        .def("gpu_counts", &Model::gpu_counts)
        .def("fill_gpu_arrays", &Model::fill_gpu_arrays, "rest"_a.noconvert(),
             "entry_starts"_a.noconvert(), "entries"_a.noconvert(), "matrices"_a.noconvert(),
             "influence_transforms"_a.noconvert(), "influence_weights"_a.noconvert());
    nb::class_<Pool>(m, "Pool").def(nb::init<int>(), "threads"_a);
    nb::class_<Scratch>(m, "Scratch")
        .def(nb::init<const Model&, const Pool&>(), "model"_a, "pool"_a, nb::keep_alive<1, 2>(),
             nb::keep_alive<1, 3>())
        .def("play", &Scratch::play, "world_from_bone"_a.noconvert().none(),
             "controls"_a.noconvert().none(), "positions"_a.noconvert())
        .def(
            "play",
            [](Scratch&, nb::handle, nb::handle, nb::handle) {
                return false;
            },  // for arrays of any other type
            "world_from_bone"_a.none(), "controls"_a.none(), "positions"_a.none())
        .def("deform", &Scratch::deform, "world_from_bone"_a.none(), "controls"_a.none(),
             "positions"_a, "normals"_a.none() = nb::none())
        .def("coefficients", &Scratch::coefficients, "world_from_bone"_a.none(),
             "controls"_a.none(), "out"_a.noconvert())
        .def("distance_from_data", &Scratch::distance_from_data, "world_from_bone"_a.none(),
             "controls"_a.none())
        .def("transforms", &Scratch::transforms, "world_from_bone"_a.none(), "out"_a.noconvert());
    m.def("instruction_set", &understudy_instruction_set);
    m.def(
        "select_instruction_set",
        [](const std::string& name) {
            return understudy_select_instruction_set(name.c_str()) == 1;
        },
        "name"_a);
}
