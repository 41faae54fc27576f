// How a `Description` becomes a `Model`: the steps, in the order they run, and what they share.
#pragma once

#include <cstdint>

#include "model.h"
#include "padding.h"

namespace understudy {

// Returns false, with a problem, if `count` items cannot be addressed with 31 bits.
[[nodiscard]] bool need_addressable(std::size_t count, Problem& problem);

// Bytes of a matrix once it is packed into panels.
std::size_t packed_bytes(const MatrixView& matrix);

// A task reads about this many bytes. Taking a task is then cheap in comparison, and threads finish
// at about the same time.
constexpr std::size_t kTaskBytes = 48 << 10;

// How the vertices of the bases are distributed over tiles.
struct TileLayout {
    explicit TileLayout(const Memory& memory) : entries(memory), starts(memory), spans(memory) {}

    // Entries first..last of a basis's order: those of its vertices that lie in one tile.
    struct Span {
        std::uint32_t basis, tile, first, last;
    };
    // The order of a basis: its entries, tile after tile.
    const std::uint32_t* order(std::size_t basis) const { return entries.data() + starts[basis]; }

    Array<std::uint32_t> entries;  // the orders of all bases
    Array<std::size_t> starts;     // of each basis, in `entries`
    Array<Span> spans;             // tile after tile
};

// One layer of one net, in the order in which layers run.
struct LayerStep {
    std::size_t net, level;
    std::size_t phase;
    std::size_t group;  // of small nets that form one task; 0: large nets, one layer at a time
};

// Functions return false if memory is short, or with a problem.
[[nodiscard]] bool pack_bones(const Description& from, Model& model);
[[nodiscard]] bool pack_bounds(const Description& from, Model& model);
[[nodiscard]] bool find_tiles(const Description& from, Model& model, TileLayout& layout);
[[nodiscard]] bool order_layers(const Description& from, Array<LayerStep>& order);
[[nodiscard]] bool pack_matrices(const Description& from, const Array<LayerStep>& order,
                                 const TileLayout& layout, Model& model, Problem& problem);
[[nodiscard]] bool pack_skin(const Description& from, Model& model, Problem& problem);
[[nodiscard]] bool pack_vertices(const Description& from, const TileLayout& layout, Model& model);
[[nodiscard]] bool find_rigid_quads(Model& model);
[[nodiscard]] bool quantize_vertices(const Description& from, Model& model);
[[nodiscard]] bool pack_adjacency(const Description& from, Model& model, Problem& problem);
[[nodiscard]] bool plan_tasks(const Description& from, const Array<LayerStep>& order, Model& model);

}  // namespace understudy
