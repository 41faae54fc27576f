// Bones from controls, without the rig: the part `posing` of a file, and its evaluation. The
// equations are in core/posing.py and geometry/bone_motion.py. A file whose dofs are channels of
// bones is for posing by hand: it is checked and not kept.
#pragma once

#include <cstdint>

#include "memory.h"
#include "problem.h"

namespace understudy {

class Archive;

constexpr std::size_t kChannels = 12;  // of the motion of a bone
constexpr std::size_t kMostInputs = 16, kMostDegree = 7, kMostTerms = 1024;

// A polynomial of controls that adds to channels of one bone. The numbers are those of `Posing`.
struct Driver {
    std::size_t bone = 0, input_count = 0, channel_count = 0, degree = 0;
    const std::int32_t* inputs = nullptr;
    const std::int32_t* channels = nullptr;
    const float* coefficients = nullptr;  // term after term: one per channel
};

struct Posing {
    explicit Posing(const Memory& memory)
        : parents(memory),
          sequence(memory),
          order(memory),
          axes(memory),
          turned_axes(memory),
          offset(memory),
          rest(memory),
          control(memory),
          middle(memory),
          half(memory),
          drivers(memory),
          driver_starts(memory),
          inputs(memory),
          channels(memory),
          coefficients(memory) {}

    bool drives_bones = false;  // controls determine all bones; else all below is empty
    Array<std::int32_t> parents, sequence, order;
    Array<double> axes, turned_axes;  // 9 per bone: F, and C F
    Array<double> offset, rest;       // 3 and 12 per bone
    // Per dof: the control, and the middle and half the width of its range.
    Array<std::int32_t> control;
    Array<double> middle, half;
    Array<Driver> drivers;  // bone after bone: those of b are driver_starts[b] to [b + 1]
    Array<std::uint32_t> driver_starts;
    Array<std::int32_t> inputs, channels;
    Array<float> coefficients;
};

// What the part refers to, of the rest of the file.
struct PosedBones {
    std::size_t bone_count, control_count;
    const double* rest;  // 12 per bone
};

// Reads the part `posing` of a file. Returns false, with a problem, if anything is wrong with it.
[[nodiscard]] bool read_posing(const Archive& file, const PosedBones& bones, const Memory& memory,
                               Posing& into);

// Fills world_from_bone, 12 numbers per bone, from the controls.
void pose_bones(const Posing& posing, const double* controls, double* world_from_bone);

}  // namespace understudy
