#include "model.h"

#include <cstring>
#include <limits>

#include "affine.h"
#include "packing.h"

namespace understudy {
namespace {

std::size_t bytes_read(const Model& model) {
    const Model::Storage& s = model.storage;
    return s.matrices.bytes() + s.biases.bytes() + s.half_biases.bytes() + model.base.bytes() +
           model.slot_starts.bytes() + model.slots.bytes() + s.skin_entries.bytes() +
           s.skin_starts.bytes() + s.virtual_entries.bytes() + s.virtual_starts.bytes() +
           model.virtual_weights.bytes() + s.quantized_base.bytes() + s.quantized_axes.bytes() +
           s.quantized_influences.bytes() + s.quantized_ends.bytes() + s.quantized_runs.bytes() +
           s.quantized_starts.bytes() + model.coefficient_low.bytes() +
           model.coefficient_high.bytes() + model.coefficient_group.bytes() +
           model.description.bounds.scale.bytes() + model.description.bounds.centres.bytes();
}

template <class Item>
bool same_items(const Item* a, const Item* b, std::size_t count) {
    return (!a && !b) || (a && b && (!count || !std::memcmp(a, b, count * sizeof(Item))));
}

template <class Items>
bool same_arrays(const Items& a, const Items& b) {
    return a.size() == b.size() && (a.empty() || same_items(a.data(), b.data(), a.size()));
}

bool same_layers(const LayerPlan& a, const LayerPlan& b) {
    const Panels &v = a.weight, &w = b.weight;
    return v.number_size == w.number_size && v.columns == w.columns && v.rows == w.rows &&
           a.activation == b.activation && a.input_offset == b.input_offset &&
           a.output_offset == b.output_offset &&
           same_items(static_cast<const std::uint8_t*>(v.data),
                      static_cast<const std::uint8_t*>(w.data),
                      v.rows * v.columns * v.number_size) &&
           same_items(a.bias, b.bias, v.rows) && same_items(a.half_bias, b.half_bias, v.rows) &&
           same_items(a.inputs, b.inputs, v.columns);
}

bool same_bounds(const Model& a, const Model& b) {
    const Bounds &from = a.description.bounds, &to = b.description.bounds;
    return from.given == to.given && from.fade_end == to.fade_end &&
           from.group_count == to.group_count && from.unit_count == to.unit_count &&
           from.cluster_count == to.cluster_count && same_arrays(from.units, to.units) &&
           same_arrays(from.features, to.features) && same_arrays(from.scale, to.scale) &&
           same_arrays(from.centres, to.centres) &&
           same_arrays(a.coefficient_low, b.coefficient_low) &&
           same_arrays(a.coefficient_high, b.coefficient_high) &&
           same_arrays(a.coefficient_group, b.coefficient_group);
}

bool same_writers(const CoefficientPlan& a, const CoefficientPlan& b) {
    if (a.count != b.count || a.one_writer_each != b.one_writer_each) return false;
    if (a.one_writer_each) return same_items(a.writers, b.writers, a.count);
    for (std::size_t p = 0; p < a.count; ++p) {
        const std::size_t writers = a.ranges[p].last - a.ranges[p].first;
        if (writers != b.ranges[p].last - b.ranges[p].first ||
            !same_items(a.writers + a.ranges[p].first, b.writers + b.ranges[p].first, writers))
            return false;
    }
    return true;
}

}  // namespace

bool shares_coefficients(const Model& a, const Model& b) {
    const Description &from = a.description, &to = b.description;
    if (from.control_count() != to.control_count() || !same_arrays(from.parents, to.parents) ||
        !same_arrays(from.feature_columns, to.feature_columns) ||
        !same_arrays(from.feature_low, to.feature_low) ||
        !same_arrays(from.feature_high, to.feature_high) || a.layers.size() != b.layers.size() ||
        a.coefficients.size() != b.coefficients.size() || !same_bounds(a, b))
        return false;
    for (std::size_t n = 0; n < a.layers.size(); ++n)
        if (!same_layers(a.layers[n], b.layers[n])) return false;
    for (std::size_t n = 0; n < a.coefficients.size(); ++n)
        if (!same_writers(a.coefficients[n], b.coefficients[n])) return false;
    return true;
}

bool Model::load(const std::uint8_t* data, std::size_t size, Problem& problem) {
    return read_description(data, size, description, problem) && pack(problem);
}

bool Model::load(const understudy_entry* entries, std::size_t count, Problem& problem) {
    return read_description(entries, count, description, problem) && pack(problem);
}

bool Model::pack(Problem& problem) {
    Description& from = description;
    if (!need_addressable(added(from.nets.size(), from.bases.size()), problem)) return false;
    TileLayout layout(memory);
    Array<LayerStep> order(memory);
    if (!pack_bones(from, *this) || !find_tiles(from, *this, layout) ||
        !order_layers(from, order) || !pack_matrices(from, order, layout, *this, problem) ||
        !pack_bounds(from, *this) || !pack_skin(from, *this, problem) ||
        !pack_vertices(from, layout, *this) || !quantize_vertices(from, *this) ||
        !pack_adjacency(from, *this, problem) || !plan_tasks(from, order, *this))
        return false;
    bytes = bytes_read(*this);
    // The packed copies replace these.
    from.net_weights.release();
    from.net_first_biases.release();
    from.net_biases.release();
    from.net_half_weights.release();
    from.net_half_biases.release();
    from.basis_values.release();
    from.basis_halves.release();
    from.net_outputs.release();
    from.basis_vertices.release();
    from.basis_coefficients.release();
    from.bounds.low.release();
    from.bounds.high.release();
    from.bounds.group.release();
    return true;
}

VertexJob Model::vertex_job(std::size_t first, std::size_t last) const {
    VertexJob job{};
    job.first = first;
    job.last = last;
    job.base = base.data();
    job.slot_starts = bases.empty() ? nullptr : slot_starts.data();
    job.slots = slots.data();
    job.skin = skin;
    job.rigid_quads = rigid_quads.data();
    return job;
}

bool need_addressable(std::size_t count, Problem& problem) {
    return count <= std::numeric_limits<std::int32_t>::max() ||
           problem.say("the deformer is larger than this runtime can address");
}

bool pack_bones(const Description& from, Model& model) {
    const std::size_t bones = from.bone_count();
    if (!model.bone_from_rest.resize(12 * bones) || !model.bone_is_read.resize(bones) ||
        !model.bone_is_inverted.resize(bones))
        return false;
    for (std::size_t bone = 0; bone < bones; ++bone)
        invert(from.rest_bones.data() + 12 * bone, model.bone_from_rest.data() + 12 * bone);
    for (const std::int32_t column : from.feature_columns) {
        const std::size_t bone = static_cast<std::size_t>(column) / 12;
        if (bone < bones) model.bone_is_read[bone] = 1;
        else model.reads_controls = true;
    }
    for (std::size_t bone = 0; bone < bones; ++bone)
        if (model.bone_is_read[bone] && from.frame_of(bone) >= 0)
            model.bone_is_inverted[static_cast<std::size_t>(from.frame_of(bone))] = 1;
    const Influences& virtual_bones = from.virtual_bones;
    model.virtual_count =
        virtual_bones.width ? virtual_bones.index.size() / virtual_bones.width : 0;
    model.transform_count = !from.skinned ? 1 : model.virtual_count ? model.virtual_count : bones;
    return true;
}

bool pack_bounds(const Description& from, Model& model) {
    const Bounds& bounds = from.bounds;
    if (!bounds.given) return true;
    for (std::size_t b = 0; b < from.bases.size(); ++b) {
        const Basis& basis = from.bases[b];
        CoefficientPlan& plan = model.coefficients[b];
        plan.one_group = true;
        for (std::size_t p = 0; p < plan.count; ++p) {
            const std::size_t n = static_cast<std::size_t>(basis.coefficients[p]);
            const std::uint32_t group = static_cast<std::uint32_t>(
                bounds.group[n] < 0 ? bounds.group_count : std::size_t(bounds.group[n]));
            if (!model.coefficient_low.push(bounds.low[n]) ||
                !model.coefficient_high.push(bounds.high[n]) ||
                !model.coefficient_group.push(group))
                return false;
            plan.one_group = plan.one_group && group == model.coefficient_group[plan.offset];
        }
    }
    return true;
}

bool pack_adjacency(const Description& from, Model& model, Problem& problem) {
    const Array<std::int32_t>& triangles = from.triangles;
    Array<std::uint32_t>& starts = model.around_starts;
    Array<std::uint32_t> fill(model.memory);
    if (!need_addressable(triangles.size(), problem) || !starts.resize(model.vertex_count() + 1) ||
        !model.around.resize(triangles.size()))
        return false;
    for (const std::int32_t vertex : triangles) ++starts[static_cast<std::size_t>(vertex) + 1];
    for (std::size_t v = 0; v < model.vertex_count(); ++v) starts[v + 1] += starts[v];
    if (!fill.append(starts.data(), model.vertex_count())) return false;
    for (std::size_t corner = 0; corner < triangles.size(); ++corner)
        model.around[fill[static_cast<std::size_t>(triangles[corner])]++] =
            static_cast<std::uint32_t>(corner / 3);
    return true;
}

}  // namespace understudy
