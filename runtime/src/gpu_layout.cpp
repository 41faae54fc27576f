#include "gpu_layout.h"

namespace understudy {
namespace {

constexpr std::uint32_t kShared = 0x80000000u;

float number_at(const Panels& matrix, std::size_t row, std::size_t column) {
    const std::size_t top = row / Panels::kRows * Panels::kRows, left = matrix.rows - top,
                      height = left < Panels::kRows ? left : Panels::kRows,
                      at = top * matrix.columns + column * height + (row - top);
    return matrix.number_size == 2
               ? float_of_half(static_cast<const std::uint16_t*>(matrix.data)[at])
               : static_cast<const float*>(matrix.data)[at];
}

// Floats of a basis per vertex and component.
std::size_t numbers_of(const BasisPlan& basis) { return basis.shared ? 1 : 3; }

void fill_matrices(const Model& model, float* to) {
    for (const BasisPlan& basis : model.bases)
        for (std::size_t column = 0; column < basis.matrix.columns; ++column)
            for (std::size_t row = 0; row < numbers_of(basis) * basis.vertex_count; ++row)
                *to++ = number_at(basis.matrix, row, column);
}

// `starts` is written by `fill_starts`.
bool fill_entries(const Model& model, const std::uint32_t* starts, std::uint32_t* to) {
    Array<std::uint32_t> fill(model.memory);
    if (!fill.append(starts, model.vertex_count())) return false;
    std::size_t matrix = 0;
    for (std::size_t b = 0; b < model.bases.size(); ++b) {
        const BasisPlan& basis = model.bases[b];
        const std::size_t numbers = numbers_of(basis), step = numbers * basis.vertex_count;
        for (std::size_t n = 0; n < basis.vertex_count; ++n) {
            std::uint32_t* entry =
                to + 4 * std::size_t{fill[model.basis_vertices[basis.first_vertex + n]]++};
            entry[0] = static_cast<std::uint32_t>(matrix + numbers * n);
            entry[1] = static_cast<std::uint32_t>(step);
            entry[2] = static_cast<std::uint32_t>(model.coefficients[b].offset);
            entry[3] =
                static_cast<std::uint32_t>(basis.matrix.columns) | (basis.shared ? kShared : 0u);
        }
        matrix += step * basis.matrix.columns;
    }
    return true;
}

void fill_starts(const Model& model, std::uint32_t* to) {
    const std::size_t vertices = model.vertex_count();
    std::memset(to, 0, (vertices + 1) * sizeof *to);
    for (const std::uint32_t vertex : model.basis_vertices) ++to[vertex + 1];
    for (std::size_t vertex = 0; vertex < vertices; ++vertex) to[vertex + 1] += to[vertex];
}

}  // namespace

understudy_gpu_counts count_gpu_arrays(const Model& model) {
    understudy_gpu_counts counts{};
    counts.vertices = model.vertex_count();
    counts.coefficients = model.coefficient_count;
    counts.entries = model.basis_vertices.size();
    for (const BasisPlan& basis : model.bases)
        counts.matrix_numbers =
            added(counts.matrix_numbers,
                  multiplied(numbers_of(basis) * basis.vertex_count, basis.matrix.columns));
    counts.influences = model.description.skinned ? model.description.skin.width : 1;
    counts.transforms = model.transform_count;
    return counts;
}

bool fill_gpu_arrays(const Model& model, const understudy_gpu_arrays& to) {
    const Description& about = model.description;
    for (std::size_t vertex = 0; to.rest && vertex < model.vertex_count(); ++vertex) {
        for (std::size_t axis = 0; axis < 3; ++axis)
            to.rest[4 * vertex + axis] =
                about.rest[3 * vertex + axis] +
                (about.mean.empty() ? 0.0f : about.mean[3 * vertex + axis]);
        to.rest[4 * vertex + 3] = 1;
    }
    const std::size_t influences = count_gpu_arrays(model).influences * model.vertex_count();
    for (std::size_t i = 0; i < influences; ++i) {
        if (to.influence_transforms)
            to.influence_transforms[i] =
                about.skinned ? static_cast<std::uint32_t>(about.skin.index[i]) : 0;
        if (to.influence_weights)
            to.influence_weights[i] = about.skinned ? about.skin.weight[i] : 1.0f;
    }
    if (to.matrices) fill_matrices(model, to.matrices);
    Array<std::uint32_t> own(model.memory);
    std::uint32_t* starts = to.entry_starts;
    if (!starts && to.entries) {
        if (!own.resize(model.vertex_count() + 1)) return false;
        starts = own.data();
    }
    if (starts) fill_starts(model, starts);
    return !to.entries || fill_entries(model, starts, to.entries);
}

}  // namespace understudy
