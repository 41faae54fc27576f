// The loops of `Floor`: what a processor can do at best, in the widest registers that the runtime
// uses.
#pragma once

#include <cstddef>

namespace understudy {

struct FloorLoops {
    const char* instruction_set;  // as `understudy_instruction_set` names it
    // Reads every byte once; `size` is a multiple of 256.
    float (*read)(const void* data, std::size_t size);
    // At least `count` multiply-adds on numbers that stay in registers.
    float (*multiply_add)(std::size_t count);
};

// The loops for an instruction set that this processor has; plain C++ where there are none.
const FloorLoops& floor_loops(const char* instruction_set);

}  // namespace understudy
