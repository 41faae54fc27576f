// Packs what skinning reads: influences, virtual bones, rest positions and slots.
#include <algorithm>

#include "packing.h"

namespace understudy {
namespace {

// Influences without weight are left out. The first one of a row stays in any case, because dual
// quaternions take their signs from it.
bool pack_influences(const Description& from, const Influences& given, const Model& model,
                     AlignedArray<Influence>& entries, AlignedArray<std::uint32_t>& starts,
                     InfluenceRows& rows, Problem& problem) {
    if (!given.width) return true;
    const std::size_t count = given.index.size() / given.width,
                      largest =
                          std::max({from.bone_count(), model.transform_count, given.index.size()});
    if (!need_addressable(multiplied(16, largest), problem)) return false;
    const auto is_kept = [&](std::size_t k) {
        return given.weight[k] != 0 ||
               (from.blend == Blend::dual_quaternion && k % given.width == 0);
    };
    std::size_t kept = 0;
    for (std::size_t k = 0; k < given.index.size(); ++k) kept += is_kept(k);
    if (!entries.reserve(kept) || !starts.reserve(count + 1) || !starts.push(0)) return false;
    bool even = true;
    for (std::size_t row = 0; row < count; ++row) {
        const std::size_t first = entries.size();
        for (std::size_t k = row * given.width; k < (row + 1) * given.width; ++k)
            if (is_kept(k) &&
                !entries.push({16 * static_cast<std::uint32_t>(given.index[k]), given.weight[k]}))
                return false;
        if (!starts.push(static_cast<std::uint32_t>(entries.size()))) return false;
        even = even && entries.size() - first == starts[1];
    }
    rows.entries = entries.data();
    if (even && count) {
        rows.width = static_cast<std::uint32_t>(entries.size() / count);
        starts.release();
    }
    rows.starts = starts.data();
    return true;
}

// Virtual bones usually blend most bones. Weights without indices then take half the bytes.
bool pack_virtual_bones(const Description& from, Model& model, Problem& problem) {
    const Influences& given = from.virtual_bones;
    const std::size_t bones = from.bone_count();
    if (2 * given.width < bones || !given.width)
        return pack_influences(from, given, model, model.storage.virtual_entries,
                               model.storage.virtual_starts, model.virtual_bones, problem);
    if (!need_addressable(multiplied(16, std::max(model.virtual_count, given.index.size())),
                          problem) ||
        !model.virtual_weights.resize(multiplied(model.virtual_count, bones)) ||
        !model.virtual_columns.resize(multiplied(padded(model.virtual_count, kWeightRows), bones)))
        return false;
    for (std::size_t i = 0; i < given.index.size(); ++i)
        model.virtual_weights[i / given.width * bones + static_cast<std::size_t>(given.index[i])] +=
            given.weight[i];
    for (std::size_t row = 0; row < model.virtual_count; ++row)
        for (std::size_t bone = 0; bone < bones; ++bone)
            model.virtual_columns[(row / kWeightRows * bones + bone) * kWeightRows +
                                  row % kWeightRows] = model.virtual_weights[row * bones + bone];
    return true;
}

bool pack_slots(const Description& from, const TileLayout& layout, Model& model) {
    if (from.bases.empty()) return true;
    AlignedArray<std::uint32_t>& starts = model.slot_starts;
    Array<std::uint32_t> fill(model.memory);
    if (!starts.resize(model.vertex_count() + 1)) return false;
    for (const Basis& basis : from.bases)
        for (std::size_t i = 0; i < basis.vertex_count; ++i)
            ++starts[static_cast<std::size_t>(basis.vertices[i]) + 1];
    for (std::size_t v = 0; v < model.vertex_count(); ++v) starts[v + 1] += starts[v];
    if (!model.slots.resize(starts.back()) || !model.tile_slots.resize(starts.back()) ||
        !fill.append(starts.data(), model.vertex_count()))
        return false;
    for (std::size_t s = 0; s < layout.spans.size(); ++s) {
        const TileLayout::Span& entries = layout.spans[s];
        const BasisPlan& basis = model.bases[entries.basis];
        const BasisSpan& span = model.spans[s];
        for (std::size_t n = entries.first; n < entries.last; ++n) {
            const std::int32_t vertex =
                from.bases[entries.basis].vertices[layout.order(entries.basis)[n]];
            const std::uint32_t at = fill[static_cast<std::size_t>(vertex)]++;
            model.slots[at] = static_cast<std::uint32_t>(basis.offset + 3 * n);
            model.tile_slots[at] = static_cast<std::uint32_t>(
                span.offset + 3 * n - (basis.shared ? 3 : 1) * span.first_row);
        }
    }
    return true;
}

}  // namespace

bool pack_skin(const Description& from, Model& model, Problem& problem) {
    if (!pack_influences(from, from.skin, model, model.storage.skin_entries,
                         model.storage.skin_starts, model.skin, problem) ||
        !pack_virtual_bones(from, model, problem))
        return false;
    if (from.skinned) return true;
    // One identity moves every vertex.
    if (!model.storage.skin_entries.resize(model.vertex_count(), Influence{0, 1.0f})) return false;
    model.skin.entries = model.storage.skin_entries.data();
    model.skin.width = 1;
    return true;
}

bool find_rigid_quads(Model& model) {
    if (!model.rigid_quads.resize(model.vertex_count() / 4 + 1)) return false;
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
    return true;
}

bool pack_vertices(const Description& from, const TileLayout& layout, Model& model) {
    if (!model.base.resize(added(from.rest.size(), kBeyondPoint))) return false;
    for (std::size_t i = 0; i < from.rest.size(); ++i)
        model.base[i] = from.rest[i] + (from.mean.empty() ? 0 : from.mean[i]);
    return pack_slots(from, layout, model) && find_rigid_quads(model);
}

}  // namespace understudy
