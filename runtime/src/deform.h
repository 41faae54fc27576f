// Plays a model: the equations at the top of core/deformer.py, on packed weights and on threads.
#pragma once

#include "render_mesh.h"
#include "scratch.h"

namespace understudy {

// The engine's vertices of one pose: positions, and normals and tangents if wanted, at the render
// vertices of a mesh or, if that is nullptr, at the vertices.
struct RenderTarget {
    const RenderMesh* mesh;
    understudy_vertex_buffer buffer;

    bool has_directions() const { return buffer.normals || buffer.tangents; }
};

// The drivers of some poses and the arrays to fill, pose after pose. All numbers are finite;
// pointers that the model does not need are nullptr.
struct Poses {
    std::size_t count;
    const double* world_from_bone;
    const double* controls;
    float* positions;
    float* normals;  // nullptr: not wanted
    // Of a single pose: what to fill besides. `positions` is then nullptr unless normals or
    // tangents are computed from it, and `normals` is nullptr.
    const RenderTarget* target = nullptr;
    // Of a single pose: its coefficients, which are then not computed; nullptr: they are.
    const float* coefficients = nullptr;

    // Poses first..first + number of these, which are poses of `model`.
    Poses part(const Model& model, std::size_t first, std::size_t number) const;
};

void deform(const Model& model, Scratch& scratch, const Kernels& kernels, const Poses& poses);
// The coefficients of one pose, basis after basis: see `understudy_coefficients`.
void compute_coefficients(const Model& model, Scratch& scratch, const Kernels& kernels,
                          const Poses& pose, float* coefficients);
// How far one pose lies from the training poses: see `understudy_distance_from_data`.
float compute_distance(const Model& model, Scratch& scratch, const Kernels& kernels,
                       const Poses& pose);
// The transforms that the skin refers to, of one pose: see `understudy_transforms`.
void compute_transforms(const Model& model, Scratch& scratch, const Kernels& kernels,
                        const Poses& pose, float* transforms);

}  // namespace understudy
