// The mesh that an engine draws: vertices are split where the corners around them have different
// texture coordinates or normals. See `understudy_render_mesh`.
#pragma once

#include "model.h"

namespace understudy {

// Render vertex v is the first copy of vertex v. Further copies follow, ordered by vertex, then by
// normal, then by texture coordinates. A task on some vertices therefore writes consecutive render
// vertices, and consecutive further copies.
//
// A group is the render vertices of one vertex that have the same normal. If the file has no corner
// normals, each vertex is one group. The first copy of a vertex is in its first group.
struct RenderMesh {
    explicit RenderMesh(const Model& given) : model(given), memory(given.memory) {}
    // Returns false if memory is short or there are 2^31 corners or more.
    [[nodiscard]] bool build();

    struct Submesh {
        std::uint32_t material, first_index, index_count;
    };

    const Model& model;
    const Memory memory;                       // a copy: the model may be freed first
    Array<std::uint32_t> vertices{memory};     // per render vertex: the vertex that it copies
    Array<std::uint32_t> copy_starts{memory};  // per vertex: its first further copy; one more
    Array<std::uint32_t> indices{memory};      // triangles of render vertices, by material
    Array<Submesh> submeshes{memory};
    Array<float> uvs{memory};  // 2 per render vertex; empty: there are none

    Array<std::uint32_t> group_starts{memory};   // per group: its first further copy; one more
    Array<std::uint32_t> vertex_groups{memory};  // per vertex: its first group; one more
    // Per group and per render vertex: the triangles around it.
    Array<std::uint32_t> group_around_starts{memory}, group_around{memory};
    Array<std::uint32_t> around_starts{memory}, around{memory};
    // Per triangle: what its edges are multiplied with to give its tangent, and whether its texture
    // is mirrored (-1 or 1). Empty: there are no texture coordinates.
    struct TangentFactors {
        float first, second, sign;
    };
    Array<TangentFactors> tangent_factors{memory};

    std::size_t size() const { return vertices.size(); }
    // Whether all copies of a vertex have the same normal, as in a file without corner normals.
    bool has_one_normal_each() const { return group_starts.size() == copy_starts.size(); }

private:
    bool split_vertices(const Array<std::uint32_t>& triangle_corners,
                        Array<std::uint32_t>& render_of_corner);
    bool find_triangles_around(const Array<std::uint32_t>& triangles);
    bool sort_by_material(const Array<std::uint32_t>& triangles,
                          const Array<std::uint32_t>& triangle_polygons);
    bool find_tangent_factors(const Array<std::uint32_t>& triangles);
};

}  // namespace understudy
