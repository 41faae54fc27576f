// Divides a call into phases of tasks.
#include <algorithm>

#include "packing.h"

namespace understudy {
namespace {

using Kind = Task::Kind;
using Tasks = Array<Task>;

constexpr std::size_t kTaskCoefficients = 8192;
constexpr std::size_t kTaskVirtualBones = 64;  // a multiple of kWeightRows
constexpr std::size_t kTaskTransforms = 32;    // to split into dual quaternions
static_assert(kTaskVirtualBones % kWeightRows == 0, "`blend_dense` starts at a multiple");

bool add_tasks(Tasks& tasks, Kind kind, std::size_t what, std::size_t count, std::size_t step) {
    step = std::max<std::size_t>(1, step);
    for (std::size_t first = 0; first < count; first += step)
        if (!tasks.push({kind, static_cast<std::uint32_t>(what), static_cast<std::uint32_t>(first),
                         static_cast<std::uint32_t>(std::min(count, first + step))}))
            return false;
    return true;
}

std::size_t panels_per_task(const Panels& matrix) {
    return kTaskBytes /
           std::max<std::size_t>(1, Panels::kRows * matrix.columns * matrix.number_size);
}

// Ends a phase.
bool close(Tasks& tasks, Phases& phases) {
    if (!phases.add(tasks)) return false;
    tasks.release();
    return true;
}

// Where they are consecutive values, a batch reads the values.
bool add_coefficients(Tasks& tasks, const Model& model) {
    std::size_t count = kTaskCoefficients;
    for (std::uint32_t number = 0; number < model.coefficients.size(); ++number) {
        const CoefficientPlan& plan = model.coefficients[number];
        if (plan.contiguous) continue;
        // It joins the task before it if that ends here and is small.
        if (count >= kTaskCoefficients || tasks.back().last != number) {
            if (!tasks.push({Kind::coefficients, 0, number, number})) return false;
            count = 0;
        }
        tasks.back().last = number + 1;
        count += plan.count;
    }
    return true;
}

// A large basis is divided into several tasks; several small ones form one.
bool add_bases(Tasks& tasks, Model& model) {
    const auto bytes = [](const Panels& m) { return m.rows * m.columns * m.number_size; };
    for (std::size_t number = 0; number < model.bases.size(); ++number) {
        const Panels& matrix = model.bases[number].matrix;
        const std::size_t step = std::max<std::size_t>(1, panels_per_task(matrix));
        if (model.bases[number].shared)
            model.tallest_shared =
                std::max(model.tallest_shared, std::min(matrix.rows, step * Panels::kRows));
        if (matrix.panel_count() > step) {
            if (!add_tasks(tasks, Kind::basis, number, matrix.panel_count(), step)) return false;
            continue;
        }
        std::size_t last = number + 1, sum = bytes(matrix);
        while (last < model.bases.size() && sum + bytes(model.bases[last].matrix) <= kTaskBytes) {
            if (model.bases[last].shared)
                model.tallest_shared =
                    std::max(model.tallest_shared, model.bases[last].matrix.rows);
            sum += bytes(model.bases[last++].matrix);
        }
        if (!tasks.push({Kind::bases, 0, static_cast<std::uint32_t>(number),
                         static_cast<std::uint32_t>(last)}))
            return false;
        number = last - 1;
    }
    return true;
}

bool add_layers(Tasks& tasks, const Array<LayerStep>& order, Model& model) {
    for (std::size_t number = 0, last = 0; number < order.size(); number = last) {
        if (number && order[number].phase != order[number - 1].phase && !close(tasks, model.phases))
            return false;
        last = number + 1;
        if (order[number].group) {
            while (last < order.size() && order[last].group == order[number].group) ++last;
            if (!tasks.push({Kind::layers, 0, static_cast<std::uint32_t>(number),
                             static_cast<std::uint32_t>(last)}))
                return false;
            continue;
        }
        const Panels& weight = model.layers[number].weight;
        if (!add_tasks(tasks, Kind::layer, number, weight.panel_count(), panels_per_task(weight)))
            return false;
    }
    return true;
}

}  // namespace

bool plan_tasks(const Description& from, const Array<LayerStep>& order, Model& model) {
    Tasks tasks(model.memory);
    const bool dual = from.skinned && from.blend == Blend::dual_quaternion;
    const auto add_dual_quaternions = [&](bool wanted) {
        return !wanted ||
               add_tasks(tasks, Kind::dual_quaternions, 0, model.transform_count, kTaskTransforms);
    };
    return add_tasks(tasks, Kind::virtual_bones, 0, model.virtual_count, kTaskVirtualBones) &&
           add_dual_quaternions(dual && !model.virtual_count) && add_layers(tasks, order, model) &&
           close(tasks, model.phases) && add_coefficients(tasks, model) &&
           close(tasks, model.phases) &&

           add_dual_quaternions(dual && model.virtual_count) && add_bases(tasks, model) &&
           close(tasks, model.vertex_phases) &&
           add_tasks(tasks, Kind::vertices, 0, model.vertex_count(), kTaskVertices) &&
           close(tasks, model.vertex_phases) &&

           add_tasks(tasks, Kind::tiles, 0, model.tiles.size(), 1) &&
           close(tasks, model.tile_phases) &&

           add_tasks(model.face_normal_tasks, Kind::face_normals, 0, from.triangles.size() / 3,
                     4 * kTaskVertices) &&
           add_tasks(model.vertex_normal_tasks, Kind::vertex_normals, 0, model.vertex_count(),
                     kTaskNormals);
}

}  // namespace understudy
