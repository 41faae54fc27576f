#include "model.h"

#include <limits>

#include "affine.h"
#include "json.h"
#include "packing.h"

namespace understudy {
namespace {

template <class Vector>
std::size_t bytes_in(const Vector& items) {
    return items.size() * sizeof(typename Vector::value_type);
}

std::size_t bytes_read(const Model& model) {
    const Model::Storage& s = model.storage;
    return s.matrices.size() + s.biases.size() + s.half_biases.size() + model.base.size() +
           bytes_in(model.slot_starts) + bytes_in(model.slots) + bytes_in(s.skin_entries) +
           bytes_in(s.skin_starts) + bytes_in(s.virtual_entries) + bytes_in(s.virtual_starts) +
           bytes_in(model.virtual_weights) + s.quantized_base.size() + s.quantized_axes.size() +
           bytes_in(s.quantized_influences) + bytes_in(s.quantized_ends) +
           bytes_in(s.quantized_runs) + bytes_in(s.quantized_starts);
}

}  // namespace

Model::Model(std::unique_ptr<Description> given) : description(std::move(given)) {
    const Description& from = *description;
    need_addressable(from.nets.size() + from.bases.size());
    pack_bones(from, *this);
    const TileLayout layout = find_tiles(from, *this);
    const std::vector<LayerStep> order = order_layers(from);
    pack_matrices(from, order, layout, *this);
    pack_skin(from, *this);
    pack_vertices(from, layout, *this);
    quantize_vertices(from, *this);
    pack_adjacency(from, *this);
    plan_tasks(from, order, *this);
    bytes = bytes_read(*this);
    // The packed copies replace these.
    release(description->net_values);
    release(description->net_halves);
    release(description->basis_values);
    release(description->basis_halves);
    release(description->net_outputs);
    release(description->basis_vertices);
    release(description->basis_coefficients);
}

VertexJob Model::vertex_job(std::size_t first, std::size_t last) const {
    VertexJob job{};
    job.first = first;
    job.last = last;
    job.base = base.as<float>();
    job.slot_starts = bases.empty() ? nullptr : slot_starts.data();
    job.slots = slots.data();
    job.skin = skin;
    job.rigid_quads = rigid_quads.data();
    return job;
}

void need_addressable(std::size_t count) {
    if (count > std::numeric_limits<std::int32_t>::max())
        throw ReadError("the deformer is larger than this runtime can address");
}

void pack_bones(const Description& from, Model& model) {
    const std::size_t bones = from.bone_count();
    model.bone_from_rest.resize(12 * bones);
    for (std::size_t bone = 0; bone < bones; ++bone)
        invert(from.rest_bones.data() + 12 * bone, model.bone_from_rest.data() + 12 * bone);
    model.bone_is_read.assign(bones, 0);
    model.bone_is_inverted.assign(bones, 0);
    for (const std::int32_t column : from.feature_columns) {
        const std::size_t bone = static_cast<std::size_t>(column) / 12;
        if (bone < bones) model.bone_is_read[bone] = 1;
        else model.reads_controls = true;
    }
    for (std::size_t bone = 0; bone < bones; ++bone)
        if (model.bone_is_read[bone] && from.parents[bone] >= 0)
            model.bone_is_inverted[static_cast<std::size_t>(from.parents[bone])] = 1;
    const Influences& virtual_bones = from.virtual_bones;
    model.virtual_count =
        virtual_bones.width ? virtual_bones.index.size() / virtual_bones.width : 0;
    model.transform_count = !from.skinned ? 1 : model.virtual_count ? model.virtual_count : bones;
}

void pack_adjacency(const Description& from, Model& model) {
    const std::vector<std::int32_t>& triangles = from.triangles;
    need_addressable(triangles.size());
    std::vector<std::uint32_t>& starts = model.around_starts;
    starts.assign(model.vertex_count() + 1, 0);
    for (const std::int32_t vertex : triangles) ++starts[static_cast<std::size_t>(vertex) + 1];
    for (std::size_t v = 0; v < model.vertex_count(); ++v) starts[v + 1] += starts[v];
    model.around.resize(triangles.size());
    std::vector<std::uint32_t> fill(starts.begin(), starts.end() - 1);
    for (std::size_t corner = 0; corner < triangles.size(); ++corner)
        model.around[fill[static_cast<std::size_t>(triangles[corner])]++] =
            static_cast<std::uint32_t>(corner / 3);
}

}  // namespace understudy
