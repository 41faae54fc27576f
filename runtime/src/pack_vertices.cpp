// Packs what skinning reads: influences, virtual bones, rest positions and slots.
#include <algorithm>

#include "packing.h"

namespace understudy {
namespace {

// Influences without weight are left out. The first one of a row stays in any case, because dual
// quaternions take their signs from it.
void pack_influences(const Description& from, const Influences& given, const Model& model,
                     AlignedVector<Influence>& entries, AlignedVector<std::uint32_t>& starts,
                     InfluenceRows& rows) {
    if (!given.width) return;
    const std::size_t count = given.index.size() / given.width;
    need_addressable(
        multiplied(16, std::max({from.bone_count(), model.transform_count, given.index.size()})));
    starts.push_back(0);
    bool even = true;
    for (std::size_t row = 0; row < count; ++row) {
        const std::size_t first = entries.size();
        for (std::size_t k = row * given.width; k < (row + 1) * given.width; ++k)
            if (given.weight[k] != 0 ||
                (from.blend == Blend::dual_quaternion && k == row * given.width))
                entries.push_back(
                    {16 * static_cast<std::uint32_t>(given.index[k]), given.weight[k]});
        starts.push_back(static_cast<std::uint32_t>(entries.size()));
        even = even && entries.size() - first == starts[1];
    }
    entries.shrink_to_fit();
    rows.entries = entries.data();
    if (even && count) {
        rows.width = static_cast<std::uint32_t>(entries.size() / count);
        release(starts);
    }
    rows.starts = starts.data();
}

// Virtual bones usually blend most bones. Weights without indices then take half the bytes.
void pack_virtual_bones(const Description& from, Model& model) {
    const Influences& given = from.virtual_bones;
    const std::size_t bones = from.bone_count();
    if (2 * given.width < bones || !given.width) {
        pack_influences(from, given, model, model.storage.virtual_entries,
                        model.storage.virtual_starts, model.virtual_bones);
        return;
    }
    need_addressable(multiplied(16, std::max(model.virtual_count, given.index.size())));
    model.virtual_weights.assign(model.virtual_count * bones, 0.0f);
    for (std::size_t i = 0; i < given.index.size(); ++i)
        model.virtual_weights[i / given.width * bones + static_cast<std::size_t>(given.index[i])] +=
            given.weight[i];
    model.virtual_columns.assign(padded(model.virtual_count, kWeightRows) * bones, 0.0f);
    for (std::size_t row = 0; row < model.virtual_count; ++row)
        for (std::size_t bone = 0; bone < bones; ++bone)
            model.virtual_columns[(row / kWeightRows * bones + bone) * kWeightRows +
                                  row % kWeightRows] = model.virtual_weights[row * bones + bone];
}

void pack_slots(const Description& from, const TileLayout& layout, Model& model) {
    if (from.bases.empty()) return;
    AlignedVector<std::uint32_t>& starts = model.slot_starts;
    starts.assign(model.vertex_count() + 1, 0);
    for (const Basis& basis : from.bases)
        for (std::size_t i = 0; i < basis.vertex_count; ++i)
            ++starts[static_cast<std::size_t>(basis.vertices[i]) + 1];
    for (std::size_t v = 0; v < model.vertex_count(); ++v) starts[v + 1] += starts[v];
    model.slots.resize(starts.back());
    model.tile_slots.resize(model.slots.size());
    std::vector<std::uint32_t> fill(starts.begin(), starts.end() - 1);
    for (std::size_t s = 0; s < layout.spans.size(); ++s) {
        const TileLayout::Span& entries = layout.spans[s];
        const BasisPlan& basis = model.bases[entries.basis];
        const BasisSpan& span = model.spans[s];
        for (std::size_t n = entries.first; n < entries.last; ++n) {
            const std::int32_t vertex =
                from.bases[entries.basis].vertices[layout.orders[entries.basis][n]];
            const std::uint32_t at = fill[static_cast<std::size_t>(vertex)]++;
            model.slots[at] = static_cast<std::uint32_t>(basis.offset + 3 * n);
            model.tile_slots[at] = static_cast<std::uint32_t>(
                span.offset + 3 * n - (basis.shared ? 3 : 1) * span.first_row);
        }
    }
}

}  // namespace

void pack_skin(const Description& from, Model& model) {
    pack_influences(from, from.skin, model, model.storage.skin_entries, model.storage.skin_starts,
                    model.skin);
    pack_virtual_bones(from, model);
    if (from.skinned) return;
    // One identity moves every vertex.
    model.storage.skin_entries.assign(model.vertex_count(), Influence{0, 1.0f});
    model.skin.entries = model.storage.skin_entries.data();
    model.skin.width = 1;
}

void find_rigid_quads(Model& model) {
    model.rigid_quads.assign(model.vertex_count() / 4 + 1, 0);
    const auto start = [&](std::size_t vertex) {
        return model.skin.width ? vertex * model.skin.width : model.skin.starts[vertex];
    };
    const auto alike = [&](std::size_t vertex, std::size_t other) {
        const Influence &a = model.skin.entries[start(vertex)],
                        &b = model.skin.entries[start(other)];
        if (start(other + 1) - start(other) != 1 || b.weight != 1 || a.offset != b.offset)
            return false;
        if (model.slot_starts.empty()) return true;
        const std::uint32_t* starts = model.slot_starts.data();
        return starts[other + 1] - starts[other] == 1 && starts[vertex + 1] - starts[vertex] == 1 &&
               model.slots[starts[other]] == model.slots[starts[vertex]] + 3 * (other - vertex);
    };
    for (std::size_t vertex = 0; vertex + 4 <= model.vertex_count(); vertex += 4)
        model.rigid_quads[vertex / 4] = alike(vertex, vertex) && alike(vertex, vertex + 1) &&
                                        alike(vertex, vertex + 2) && alike(vertex, vertex + 3);
}

void pack_vertices(const Description& from, const TileLayout& layout, Model& model) {
    model.base = AlignedBytes(multiplied(4, from.rest.size() + 4));
    float* base = model.base.as<float>();
    for (std::size_t i = 0; i < from.rest.size(); ++i)
        base[i] = from.rest[i] + (from.mean.empty() ? 0 : from.mean[i]);
    pack_slots(from, layout, model);
    find_rigid_quads(model);
}

}  // namespace understudy
