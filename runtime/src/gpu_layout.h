// Bases, rest and skin in arrays that a compute shader reads: see `understudy_gpu_arrays`.
#pragma once

#include "model.h"

namespace understudy {

understudy_gpu_counts count_gpu_arrays(const Model& model);
// Fills the arrays that are not NULL. Returns false if memory is short.
[[nodiscard]] bool fill_gpu_arrays(const Model& model, const understudy_gpu_arrays& to);

}  // namespace understudy
