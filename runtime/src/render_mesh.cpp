#include "render_mesh.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "sorting.h"

namespace understudy {
namespace {

// The lists of items by key: list[starts[k]] to list[starts[k + 1]] are the items of key k, in
// rising order.
template <class KeyOf>
bool list_by_key(std::size_t keys, std::size_t items, const KeyOf& key_of,
                 Array<std::uint32_t>& starts, Array<std::uint32_t>& list) {
    if (!starts.resize(keys + 1) || !list.resize(items)) return false;
    for (std::size_t item = 0; item < items; ++item) ++starts[key_of(item) + 1];
    for (std::size_t key = 0; key < keys; ++key) starts[key + 1] += starts[key];
    for (std::size_t item = items; item > 0; --item) {
        // Filled from the end: starts[k + 1] moves down to where k's items start.
        list[--starts[key_of(item - 1) + 1]] = static_cast<std::uint32_t>(item - 1);
    }
    for (std::size_t key = 0; key < keys; ++key) starts[key] = starts[key + 1];
    starts[keys] = static_cast<std::uint32_t>(items);
    return true;
}

int compare(const float* a, const float* b, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i)
        if (a[i] != b[i]) return a[i] < b[i] ? -1 : 1;
    return 0;
}

}  // namespace

bool RenderMesh::build() {
    const Description& about = model.description;
    const Array<std::int32_t>& sizes = about.surface.polygon_sizes;
    // The corners and the polygon of each triangle.
    Array<std::uint32_t> corners(memory), polygons(memory), render_of_corner(memory);
    std::size_t corner_count = 0;
    for (std::size_t polygon = 0; polygon < sizes.size(); ++polygon) {
        for (std::int32_t n = 1; n + 1 < sizes[polygon]; ++n) {
            for (const std::int32_t offset : {0, n, n + 1})
                if (!corners.push(static_cast<std::uint32_t>(corner_count) +
                                  static_cast<std::uint32_t>(offset)))
                    return false;
            if (!polygons.push(static_cast<std::uint32_t>(polygon))) return false;
        }
        corner_count += static_cast<std::size_t>(sizes[polygon]);
    }
    if (corner_count > std::numeric_limits<std::int32_t>::max() ||
        !render_of_corner.resize(corner_count))
        return false;
    if (!split_vertices(corners, render_of_corner)) return false;
    for (std::uint32_t& corner : corners) corner = render_of_corner[corner];
    const Array<std::uint32_t>& triangles = corners;
    return find_triangles_around(triangles) && find_tangent_factors(triangles) &&
           sort_by_material(triangles, polygons);
}

bool RenderMesh::split_vertices(const Array<std::uint32_t>& triangle_corners,
                                Array<std::uint32_t>& render_of_corner) {
    const Description& about = model.description;
    const float* corner_uvs = about.surface.corner_uvs.data();
    const float* corner_normals = about.surface.corner_normals.data();
    const std::size_t vertex_count = model.vertex_count(), corners = render_of_corner.size();
    // Every corner of a polygon is a corner of one of its triangles.
    Array<std::uint32_t> vertex_of(memory), starts(memory), list(memory);
    if (!vertex_of.resize(corners)) return false;
    for (std::size_t i = 0; i < triangle_corners.size(); ++i)
        vertex_of[triangle_corners[i]] = static_cast<std::uint32_t>(about.triangles[i]);
    if (!list_by_key(
            vertex_count, corners, [&](std::size_t c) { return vertex_of[c]; }, starts, list))
        return false;
    const auto compare_normals = [&](std::uint32_t a, std::uint32_t b) {
        return corner_normals ? compare(corner_normals + 3 * std::size_t{a},
                                        corner_normals + 3 * std::size_t{b}, 3)
                              : 0;
    };
    const auto compare_uvs = [&](std::uint32_t a, std::uint32_t b) {
        return corner_uvs
                   ? compare(corner_uvs + 2 * std::size_t{a}, corner_uvs + 2 * std::size_t{b}, 2)
                   : 0;
    };
    if (!vertices.resize(vertex_count) || (corner_uvs && !uvs.resize(2 * vertex_count)))
        return false;
    for (std::size_t vertex = 0; vertex < vertex_count; ++vertex) {
        vertices[vertex] = static_cast<std::uint32_t>(vertex);
        if (!copy_starts.push(static_cast<std::uint32_t>(vertices.size())) ||
            !vertex_groups.push(static_cast<std::uint32_t>(group_starts.size())) ||
            !group_starts.push(static_cast<std::uint32_t>(vertices.size())))
            return false;
        std::uint32_t* own = list.data() + starts[vertex];
        const std::size_t count = starts[vertex + 1] - starts[vertex];
        sort_items(own, count, [&](std::uint32_t a, std::uint32_t b) {
            const int normals = compare_normals(a, b), coordinates = compare_uvs(a, b);
            return normals ? normals < 0 : coordinates ? coordinates < 0 : a < b;
        });
        std::size_t copy = vertex;
        for (std::size_t n = 0; n < count; ++n) {
            const float* uv = corner_uvs ? corner_uvs + 2 * std::size_t{own[n]} : nullptr;
            const bool new_group = n && compare_normals(own[n - 1], own[n]);
            if (new_group && !group_starts.push(static_cast<std::uint32_t>(vertices.size())))
                return false;
            if (n == 0 && uv) std::copy(uv, uv + 2, uvs.data() + 2 * vertex);
            if (new_group || (n && compare_uvs(own[n - 1], own[n]))) {
                copy = vertices.size();
                if (!vertices.push(static_cast<std::uint32_t>(vertex)) ||
                    (uv && !uvs.append(uv, 2)))
                    return false;
            }
            render_of_corner[own[n]] = static_cast<std::uint32_t>(copy);
        }
    }
    return copy_starts.push(static_cast<std::uint32_t>(vertices.size())) &&
           vertex_groups.push(static_cast<std::uint32_t>(group_starts.size())) &&
           group_starts.push(static_cast<std::uint32_t>(vertices.size()));
}

bool RenderMesh::find_triangles_around(const Array<std::uint32_t>& triangles) {
    Array<std::uint32_t> group_of(memory);
    if (!group_of.resize(vertices.size())) return false;
    for (std::size_t vertex = 0; vertex + 1 < vertex_groups.size(); ++vertex)
        group_of[vertex] = vertex_groups[vertex];
    for (std::size_t group = 0; group + 1 < group_starts.size(); ++group)
        for (std::uint32_t r = group_starts[group]; r < group_starts[group + 1]; ++r)
            group_of[r] = static_cast<std::uint32_t>(group);
    if (!list_by_key(
            group_starts.size() - 1, triangles.size(),
            [&](std::size_t i) { return group_of[triangles[i]]; }, group_around_starts,
            group_around) ||
        !list_by_key(
            vertices.size(), triangles.size(), [&](std::size_t i) { return triangles[i]; },
            around_starts, around))
        return false;
    for (std::uint32_t& corner : group_around) corner /= 3;
    for (std::uint32_t& corner : around) corner /= 3;
    return true;
}

bool RenderMesh::find_tangent_factors(const Array<std::uint32_t>& triangles) {
    if (uvs.empty()) return true;
    if (!tangent_factors.resize(triangles.size() / 3)) return false;
    for (std::size_t triangle = 0; triangle < tangent_factors.size(); ++triangle) {
        const float* a = uvs.data() + 2 * std::size_t{triangles[3 * triangle]};
        const float* b = uvs.data() + 2 * std::size_t{triangles[3 * triangle + 1]};
        const float* c = uvs.data() + 2 * std::size_t{triangles[3 * triangle + 2]};
        const float du = b[0] - a[0], dv = b[1] - a[1], eu = c[0] - a[0], ev = c[1] - a[1];
        const float sign = du * ev - eu * dv < 0 ? -1.0f : 1.0f;
        // The direction counts, weighted by the area on the surface: no division by the area of the
        // texture, which may be zero.
        const float length = std::sqrt(dv * dv + ev * ev + du * du + eu * eu);
        const float scale = length > 0 ? sign / length : 0;
        tangent_factors[triangle] = {scale * ev, -scale * dv, sign};
    }
    return true;
}

bool RenderMesh::sort_by_material(const Array<std::uint32_t>& triangles,
                                  const Array<std::uint32_t>& triangle_polygons) {
    const Surface& surface = model.description.surface;
    const std::size_t materials = std::max<std::size_t>(1, surface.materials.size());
    Array<std::uint32_t> starts(memory), list(memory);
    const auto material_of = [&](std::size_t triangle) {
        return surface.polygon_material.empty()
                   ? 0
                   : static_cast<std::size_t>(
                         surface.polygon_material[triangle_polygons[triangle]]);
    };
    if (!list_by_key(materials, triangle_polygons.size(), material_of, starts, list) ||
        !indices.reserve(triangles.size()))
        return false;
    for (const std::uint32_t triangle : list)
        if (!indices.append(triangles.data() + 3 * std::size_t{triangle}, 3)) return false;
    for (std::size_t material = 0; material < materials; ++material)
        if (starts[material + 1] > starts[material] &&
            !submeshes.push({static_cast<std::uint32_t>(material), 3 * starts[material],
                             3 * (starts[material + 1] - starts[material])}))
            return false;
    return true;
}

}  // namespace understudy
