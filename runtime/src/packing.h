// How a `Description` becomes a `Model`: the steps, in the order they run, and what they share.
#pragma once

#include <cstdint>
#include <vector>

#include "checked.h"
#include "model.h"

namespace understudy {

// `padded` to whole units of rows.
inline std::size_t padded(std::size_t rows) { return padded(rows, Panels::kUnit); }

// Returns the memory of a vector to the system, which clear() would not.
template <class Vector>
void release(Vector& items) {
    Vector().swap(items);
}

// Throws ReadError if `count` items cannot be addressed with 31 bits.
void need_addressable(std::size_t count);

// Bytes of a matrix once it is packed into panels.
std::size_t packed_bytes(const MatrixView& matrix);

// Vertices of a serial batch's task; a multiple of what quantized vertices need.
constexpr std::uint32_t kTaskVertices = 256;
// A task reads about this many bytes. Taking a task is then cheap in comparison, and threads finish
// at about the same time.
constexpr std::size_t kTaskBytes = 48 << 10;

// How the vertices of the bases are distributed over tiles.
struct TileLayout {
    // Entries first..last of a basis's order: those of its vertices that lie in one tile.
    struct Span {
        std::uint32_t basis, tile, first, last;
    };
    std::vector<std::vector<std::uint32_t>> orders;  // per basis: its entries, tile after tile
    std::vector<Span> spans;                         // tile after tile
};

// One layer of one net, in the order in which layers run.
struct LayerStep {
    std::size_t net, level;
    std::size_t phase;
    std::size_t group;  // of small nets that form one task; 0: large nets, one layer at a time
};

void pack_bones(const Description& from, Model& model);
TileLayout find_tiles(const Description& from, Model& model);
std::vector<LayerStep> order_layers(const Description& from);
void pack_matrices(const Description& from, const std::vector<LayerStep>& order,
                   const TileLayout& layout, Model& model);
void pack_skin(const Description& from, Model& model);
void pack_vertices(const Description& from, const TileLayout& layout, Model& model);
void find_rigid_quads(Model& model);
void quantize_vertices(const Description& from, Model& model);
void pack_adjacency(const Description& from, Model& model);
void plan_tasks(const Description& from, const std::vector<LayerStep>& order, Model& model);

}  // namespace understudy
