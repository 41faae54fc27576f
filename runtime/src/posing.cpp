#include "posing.h"

#include <algorithm>
#include <cmath>

#include "archive.h"
#include "sorting.h"

namespace understudy {
namespace {

constexpr double kWidest = 1.25;        // inputs of a degree of 2 or more are clamped to it
constexpr float kLargestVector = 100;   // radians about one axis
constexpr double kLargestAngle = 1000;  // radians; larger angles are this
constexpr const char* kRoles[] = {"hand", "foot", "head", "pelvis", "end"};
constexpr const char* kSides[] = {"left", "right", "middle"};
constexpr int kOrders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
constexpr int kRows[6] = {0, 1, 2, 1, 0, 0}, kColumns[6] = {0, 1, 2, 2, 2, 1};

void multiply(const double* a, const double* b, double* out) {
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 3; ++k)
            out[3 * i + k] = a[3 * i] * b[k] + a[3 * i + 1] * b[3 + k] + a[3 * i + 2] * b[6 + k];
}

void multiply_transposed(const double* a, const double* b, double* out) {
    for (int i = 0; i < 3; ++i)
        for (int k = 0; k < 3; ++k)
            out[3 * i + k] =
                a[3 * i] * b[3 * k] + a[3 * i + 1] * b[3 * k + 1] + a[3 * i + 2] * b[3 * k + 2];
}

// Of an angle of at most kLargestAngle. The C library's functions, which take angles of any size,
// are 11 KB of WebAssembly.
void sine_and_cosine(double angle, double& sine, double& cosine) {
    const double quarters = std::floor(angle * 0.63661977236758134308 + 0.5);
    // Half of pi in two parts, of which the first has few digits.
    const double x =
        (angle - quarters * 1.57079632673412561417e+00) - quarters * 6.07710050650619224932e-11;
    const double square = x * x;
    double s = 1, c = 1;  // Taylor's series, from their last factors; |x| is below 0.79
    for (int k = 16; k > 0; k -= 2) {
        s = 1 - s * square / (k * (k + 1));
        c = 1 - c * square / (k * (k - 1));
    }
    s *= x;
    const int quarter = static_cast<int>(quarters) & 3;
    sine = quarter & 1 ? c : s;
    cosine = quarter & 1 ? s : c;
    if (quarter & 2) sine = -sine;
    if (quarter == 1 || quarter == 2) cosine = -cosine;
}

// The rotation of a rotation vector, by Rodrigues' formula.
void rotation_of_vector(const float* vector, double* out) {
    const double x = vector[0], y = vector[1], z = vector[2];
    const double angle = std::sqrt(x * x + y * y + z * z);
    double sine, cosine;
    sine_and_cosine(angle, sine, cosine);
    const double a = angle > 1e-8 ? sine / angle : 1.0;
    const double b = angle > 1e-8 ? (1 - cosine) / (angle * angle) : 0.5;
    const double k[9] = {0, -z, y, z, 0, -x, -y, x, 0};
    multiply(k, k, out);
    for (int i = 0; i < 9; ++i) out[i] = (i % 4 == 0) + a * k[i] + b * out[i];
}

// R_i(a_i) R_j(a_j) R_k(a_k) of angles about x, y and z.
void rotation_of_angles(const double* angles, const int* order, double* out) {
    double next[9], product[9];
    for (int step = 0; step < 3; ++step) {
        const int axis = order[step], j = (axis + 1) % 3, k = (axis + 2) % 3;
        double sine, cosine;
        sine_and_cosine(std::min(kLargestAngle, std::max(-kLargestAngle, angles[axis])), sine,
                        cosine);
        double* turn = step ? next : out;
        std::fill(turn, turn + 9, 0.0);
        turn[4 * axis] = 1;
        turn[4 * j] = turn[4 * k] = cosine;
        turn[3 * k + j] = sine;
        turn[3 * j + k] = -sine;
        if (!step) continue;
        multiply(out, next, product);
        std::copy(product, product + 9, out);
    }
}

template <std::size_t count>
bool is_one_of(const Text& word, const char* const (&known)[count]) {
    for (const char* one : known)
        if (std::strcmp(word.c_str(), one) == 0) return true;
    return false;
}

std::size_t term_count(std::size_t inputs, std::size_t degree) {
    std::size_t count = 1;  // of at most 16 inputs and degree 7: below 2^18
    for (std::size_t k = 1; k <= degree; ++k) count = count * (inputs + k) / k;
    return count;
}

// Reads the part. Functions return false, with a problem, if something is wrong.
class Reader {
public:
    Reader(const Archive& file, const PosedBones& bones, const Memory& memory, Posing& into)
        : file_(file), bones_(bones), memory_(memory), into_(into), problem_(file.problem()) {}

    bool read() {
        dof_count_ = file_.shape(Form::posing_dof_names)[0];
        Array<Text> names(memory_);
        return file_.names(Form::posing_dof_names, names) && read_joints() && read_dofs() &&
               read_about() && read_drivers() && keep();
    }

private:
    // Numbers from `lowest` to below `size`.
    bool integers(Form form, std::size_t size, int lowest, Array<std::int32_t>& into) {
        if (!file_.integers(form, into)) return false;
        for (const std::int32_t value : into)
            if (value < lowest || value >= static_cast<std::int64_t>(size))
                return problem_.say(kForm[static_cast<std::size_t>(form)].name,
                                    ": an index is out of range");
        return true;
    }

    bool vectors(Form form, Array<float>& into) {
        if (!file_.floats(form, into)) return false;
        for (const float value : into)
            if (!(std::abs(value) <= kLargestVector))
                return problem_.say(kForm[static_cast<std::size_t>(form)].name,
                                    ": a rotation vector is too long");
        return true;
    }

    bool read_joints() {
        const std::size_t bones = bones_.bone_count;
        if (!integers(Form::posing_parents, bones, -1, into_.parents) ||
            !integers(Form::posing_order, 6, 0, into_.order) ||
            !vectors(Form::posing_axes, axes_) || !vectors(Form::posing_reference, reference_))
            return false;
        // Children of every bone as linked lists; then all bones, parents first.
        Array<std::int32_t> first(memory_), next(memory_);
        if (!first.resize(bones, -1) || !next.resize(bones, -1) || !into_.sequence.reserve(bones))
            return false;
        for (std::size_t b = bones; b-- > 0;) {
            const std::int32_t parent = into_.parents[b];
            if (parent < 0) continue;
            next[b] = first[static_cast<std::size_t>(parent)];
            first[static_cast<std::size_t>(parent)] = static_cast<std::int32_t>(b);
        }
        for (std::size_t b = 0; b < bones; ++b)
            if (into_.parents[b] < 0 && !into_.sequence.push(static_cast<std::int32_t>(b)))
                return false;
        for (std::size_t at = 0; at < into_.sequence.size(); ++at)
            for (std::int32_t b = first[static_cast<std::size_t>(into_.sequence[at])]; b >= 0;
                 b = next[static_cast<std::size_t>(b)])
                if (!into_.sequence.push(b)) return false;
        return into_.sequence.size() == bones ||
               problem_.say("posing.parents: some bones are their own ancestors");
    }

    bool read_dofs() {
        Array<double> low(memory_), high(memory_), rest(memory_);
        Array<std::int32_t> bone(memory_);
        if (!integers(Form::posing_dof_bone, bones_.bone_count, -1, bone) ||
            !integers(Form::posing_dof_channel, kTooLarge >> 1, 0, into_.control) ||
            !file_.doubles(Form::posing_dof_low, low) ||
            !file_.doubles(Form::posing_dof_high, high) ||
            !file_.doubles(Form::posing_dof_rest, rest) || !into_.middle.reserve(dof_count_) ||
            !into_.half.reserve(dof_count_))
            return false;
        of_controls_ = dof_count_ > 0;
        for (std::size_t j = 0; j < dof_count_; ++j) {
            const bool control = bone[j] < 0;
            of_controls_ = of_controls_ && control;
            if (static_cast<std::size_t>(into_.control[j]) >=
                (control ? bones_.control_count : kChannels))
                return problem_.say("posing.dof_channel: an index is out of range");
            if (!(low[j] < high[j]) || rest[j] < low[j] || rest[j] > high[j])
                return problem_.say("posing: the limits of a dof are not in order");
            if (!into_.middle.push(0.5 * (low[j] + high[j])) ||
                !into_.half.push(0.5 * (high[j] - low[j])))
                return false;
        }
        return true;
    }

    // What only people and pages read.
    bool read_about() {
        const std::size_t bones = bones_.bone_count, controls = bones_.control_count;
        Array<std::int32_t> ignored(memory_), axis(memory_);
        Array<Text> parts(memory_), notes(memory_), names(memory_), roles(memory_), sides(memory_);
        if (!file_.names(Form::posing_parts, parts) || !file_.texts(Form::posing_notes, notes) ||
            !integers(Form::posing_bone_part, parts.size(), 0, ignored) ||
            !integers(Form::posing_mirror_bone, bones, 0, ignored) ||
            !integers(Form::posing_mirror_control, controls, 0, ignored) ||
            !integers(Form::posing_mirror_axis, 3, -1, axis) ||
            !file_.names(Form::posing_handle_names, names) ||
            !file_.texts(Form::posing_handle_roles, roles) ||
            !file_.texts(Form::posing_handle_sides, sides) ||
            !integers(Form::posing_handle_bones, bones, 0, ignored))
            return false;
        for (std::size_t i = 0; i < names.size(); ++i)
            if (!is_one_of(roles[i], kRoles) || !is_one_of(sides[i], kSides))
                return problem_.say("posing: a handle of unknown role or side");
        const Json errors = file_.object(Form::posing_errors);
        return !errors || errors.each_member([&](const Json&, const Json& value) {
            return value.kind() == Json::Kind::number ||
                   problem_.say("posing.errors: an error is not a number");
        });
    }

    bool read_drivers() {
        Array<std::int32_t> bone(memory_), degree(memory_), input_counts(memory_),
            channel_counts(memory_);
        if (!integers(Form::posing_driver_bone, bones_.bone_count, 0, bone) ||
            !integers(Form::posing_driver_degree, kMostDegree + 1, 0, degree) ||
            !integers(Form::posing_driver_input_counts, kMostInputs + 1, 0, input_counts) ||
            !integers(Form::posing_driver_channel_counts, kChannels + 1, 0, channel_counts) ||
            !integers(Form::posing_driver_inputs, dof_count_, 0, into_.inputs) ||
            !integers(Form::posing_driver_channels, kChannels, 0, into_.channels) ||
            !file_.floats(Form::posing_driver_coefficients, into_.coefficients))
            return false;
        std::size_t input = 0, channel = 0, coefficient = 0;
        for (std::size_t number = 0; number < bone.size(); ++number) {
            Driver driver;
            driver.bone = static_cast<std::size_t>(bone[number]);
            driver.degree = static_cast<std::size_t>(degree[number]);
            driver.input_count = static_cast<std::size_t>(input_counts[number]);
            driver.channel_count = static_cast<std::size_t>(channel_counts[number]);
            const std::size_t terms = term_count(driver.input_count, driver.degree);
            if (terms > kMostTerms) return problem_.say("posing: a driver has too many terms");
            if (driver.input_count > into_.inputs.size() - input ||
                driver.channel_count > into_.channels.size() - channel ||
                terms * driver.channel_count > into_.coefficients.size() - coefficient)
                return problem_.say("posing: drivers ask for more numbers than there are");
            driver.inputs = into_.inputs.data() + input;
            driver.channels = into_.channels.data() + channel;
            driver.coefficients = into_.coefficients.data() + coefficient;
            input += driver.input_count;
            channel += driver.channel_count;
            coefficient += terms * driver.channel_count;
            unsigned set = 0;
            for (std::size_t k = 0; k < driver.channel_count; ++k) {
                const unsigned bit = 1u << driver.channels[k];
                if (set & bit) return problem_.say("posing: a driver names a channel twice");
                set |= bit;
            }
            if (!into_.drivers.push(driver)) return false;
        }
        return (input == into_.inputs.size() && channel == into_.channels.size() &&
                coefficient == into_.coefficients.size()) ||
               problem_.say("posing: holds more numbers than its drivers account for");
    }

    // Prepares what `pose_bones` reads, or drops it all.
    bool keep() {
        if (!of_controls_) {
            into_ = Posing(memory_);
            return true;
        }
        const std::size_t bones = bones_.bone_count;
        if (!into_.axes.resize(9 * bones) || !into_.turned_axes.resize(9 * bones) ||
            !into_.offset.resize(3 * bones) || !into_.rest.append(bones_.rest, 12 * bones) ||
            !into_.driver_starts.resize(bones + 1))
            return false;
        for (std::size_t b = 0; b < bones; ++b) {
            double reference[9];
            rotation_of_vector(axes_.data() + 3 * b, into_.axes.data() + 9 * b);
            rotation_of_vector(reference_.data() + 3 * b, reference);
            multiply(reference, into_.axes.data() + 9 * b, into_.turned_axes.data() + 9 * b);
            const std::int32_t parent = into_.parents[b];
            for (std::size_t i = 0; i < 3; ++i) {
                const std::size_t at = 4 * i + 3;
                into_.offset[3 * b + i] =
                    bones_.rest[12 * b + at] -
                    (parent < 0 ? 0.0 : bones_.rest[12 * static_cast<std::size_t>(parent) + at]);
            }
        }
        sort_items(into_.drivers.data(), into_.drivers.size(),
                   [](const Driver& a, const Driver& b) {
                       return a.bone != b.bone ? a.bone < b.bone : a.coefficients < b.coefficients;
                   });
        for (const Driver& driver : into_.drivers) ++into_.driver_starts[driver.bone + 1];
        for (std::size_t b = 0; b < bones; ++b)
            into_.driver_starts[b + 1] += into_.driver_starts[b];
        into_.drives_bones = true;
        return true;
    }

    const Archive& file_;
    const PosedBones& bones_;
    const Memory& memory_;
    Posing& into_;
    Problem& problem_;
    std::size_t dof_count_ = 0;
    bool of_controls_ = false;
    Array<float> axes_{memory_}, reference_{memory_};
};

// Adds a driver to the motion of its bone.
void drive(const Posing& posing, const Driver& driver, const double* controls, double* motion) {
    double x[kMostInputs];
    for (std::size_t i = 0; i < driver.input_count; ++i) {
        const auto dof = static_cast<std::size_t>(driver.inputs[i]);
        const double value = controls[static_cast<std::size_t>(posing.control[dof])];
        x[i] = (value - posing.middle[dof]) / posing.half[dof];
        if (driver.degree >= 2) x[i] = std::min(kWidest, std::max(-kWidest, x[i]));
    }
    const float* coefficient = driver.coefficients;
    const auto add = [&](double product) {
        for (std::size_t k = 0; k < driver.channel_count; ++k)
            motion[driver.channels[k]] += product * static_cast<double>(*coefficient++);
    };
    add(1.0);
    // Products of one power after the other: factors that do not decrease, in order.
    std::size_t factor[kMostDegree] = {};
    double product[kMostDegree + 1] = {1.0};
    for (std::size_t power = 1; power <= driver.degree && driver.input_count; ++power) {
        for (std::size_t k = 0; k < power; ++k) {
            factor[k] = 0;
            product[k + 1] = product[k] * x[0];
        }
        for (;;) {
            add(product[power]);
            std::size_t k = power;
            while (k > 0 && factor[k - 1] + 1 == driver.input_count) --k;
            if (!k) break;
            const std::size_t next = factor[k - 1] + 1;
            for (; k <= power; ++k) {
                factor[k - 1] = next;
                product[k] = product[k - 1] * x[next];
            }
        }
    }
}

}  // namespace

bool read_posing(const Archive& file, const PosedBones& bones, const Memory& memory, Posing& into) {
    return Reader(file, bones, memory, into).read();
}

void pose_bones(const Posing& posing, const double* controls, double* world_from_bone) {
    // First the rotation since rest and the place of every bone, which children need; then its
    // stretch. Both are kept in the output.
    for (int pass = 0; pass < 2; ++pass) {
        for (const std::int32_t number : posing.sequence) {
            const auto b = static_cast<std::size_t>(number);
            double motion[kChannels] = {};
            for (std::uint32_t d = posing.driver_starts[b]; d < posing.driver_starts[b + 1]; ++d) {
                const Driver& driver = posing.drivers[d];
                bool needed = false;
                for (std::size_t k = 0; k < driver.channel_count; ++k)
                    needed = needed || (driver.channels[k] >= 6) == (pass == 1);
                if (needed) drive(posing, driver, controls, motion);
            }
            double* out = world_from_bone + 12 * b;
            const double* axes = posing.axes.data() + 9 * b;
            double turn[9], product[9];
            if (pass == 0) {
                double local[9];
                rotation_of_angles(motion, kOrders[posing.order[b]], turn);
                multiply(posing.turned_axes.data() + 9 * b, turn, product);
                multiply_transposed(product, axes, local);
                const std::int32_t parent = posing.parents[b];
                double move[3];
                for (std::size_t i = 0; i < 3; ++i)
                    move[i] = posing.offset[3 * b + i] + axes[3 * i] * motion[3] +
                              axes[3 * i + 1] * motion[4] + axes[3 * i + 2] * motion[5];
                if (parent < 0) {
                    std::copy(local, local + 9, turn);
                } else {
                    const double* above = world_from_bone + 12 * static_cast<std::size_t>(parent);
                    double carried[9], placed[3];
                    for (std::size_t i = 0; i < 9; ++i) carried[i] = above[i / 3 * 4 + i % 3];
                    multiply(carried, local, turn);
                    for (std::size_t i = 0; i < 3; ++i)
                        placed[i] = above[4 * i + 3] + carried[3 * i] * move[0] +
                                    carried[3 * i + 1] * move[1] + carried[3 * i + 2] * move[2];
                    std::copy(placed, placed + 3, move);
                }
                for (std::size_t i = 0; i < 3; ++i) {
                    for (std::size_t k = 0; k < 3; ++k) out[4 * i + k] = turn[3 * i + k];
                    out[4 * i + 3] = move[i];
                }
                continue;
            }
            double within[9], stretch[9], linear[9];
            for (std::size_t i = 0; i < 6; ++i)
                within[3 * kRows[i] + kColumns[i]] = within[3 * kColumns[i] + kRows[i]] =
                    motion[6 + i];
            multiply(axes, within, product);
            multiply_transposed(product, axes, stretch);
            for (std::size_t i = 0; i < 9; i += 4) stretch[i] += 1;
            for (std::size_t i = 0; i < 9; ++i) {
                turn[i] = out[i / 3 * 4 + i % 3];
                linear[i] = posing.rest[12 * b + i / 3 * 4 + i % 3];
            }
            multiply(stretch, linear, product);
            multiply(turn, product, linear);
            for (std::size_t i = 0; i < 9; ++i) out[i / 3 * 4 + i % 3] = linear[i];
        }
    }
}

}  // namespace understudy
