// Drivers for any file: slightly moved rest bones, or bones that follow the controls; and controls.
#pragma once

#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "understudy.h"

inline std::vector<char> read_bytes(const char* path) {
    std::ifstream file(path, std::ios::binary);
    return std::vector<char>(std::istreambuf_iterator<char>(file), {});
}

struct Drivers {
    std::vector<double> bones, controls;

    Drivers(const understudy_model* model, std::size_t poses) {
        const std::size_t count = 12 * understudy_bone_count(model);
        for (std::size_t pose = 0; pose < poses; ++pose) {
            for (std::size_t i = 0; i < count; ++i)
                bones.push_back(understudy_rest_bones(model)[i] +
                                0.1 * std::sin(1.0 + 7.0 * i + 3.0 * pose));
            for (std::size_t i = 0; i < understudy_control_count(model); ++i)
                controls.push_back(std::sin(2.0 * i + pose));
            if (count && understudy_poses_bones(model))
                understudy_pose_bones(model, &controls[pose * understudy_control_count(model)],
                                      &bones[pose * count]);
        }
    }
};
