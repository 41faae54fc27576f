// The steps that serial and lane batches have in common, written once over a lane type.
#pragma once

#include <cstring>

#include "batch.h"

namespace understudy {

// Lane types: how many poses lie side by side, the arrays of their numbers, and the kernels and
// weights that take them. Number i of such poses starts at i * kPoses.
struct OnePose {
    static constexpr std::size_t kPoses = 1;
    static constexpr auto kFeatures = &Scratch::features, kFades = &Scratch::fades,
                          kBones = &Scratch::bones, kTransforms = &Scratch::transforms;
    static constexpr auto kDense = &Kernels::dense;
    static constexpr auto kBlend = &Kernels::blend, kBlendDense = &Kernels::blend_dense;
    static constexpr auto kVirtualWeights = &Model::virtual_columns;
};

struct SixteenPoses {
    static constexpr std::size_t kPoses = kLanes;
    static constexpr auto kFeatures = &Scratch::lane_features, kFades = &Scratch::lane_fades,
                          kBones = &Scratch::lane_bones, kTransforms = &Scratch::lane_transforms;
    static constexpr auto kDense = &Kernels::dense_lanes;
    static constexpr auto kBlend = &Kernels::blend_lanes, kBlendDense = &Kernels::blend_dense_lanes;
    static constexpr auto kVirtualWeights = &Model::virtual_weights;
};

template <class Lane>
class BatchSteps : protected Batch {
protected:
    using Batch::Batch;

    static constexpr std::size_t kWidth = Lane::kPoses;
    // Poses are taken kWidth at a time: a group.
    std::size_t group_count() const { return poses_.count / kWidth; }
    float* values(std::size_t group) {
        return scratch_.values.data() + group * kWidth * scratch_.value_stride;
    }

    // Runs a task of a kind that both batches have; any other does nothing.
    void run_task(const Task& task, std::size_t thread) {
        const bool gives_coefficients = task.kind == Task::Kind::layer ||
                                        task.kind == Task::Kind::layers ||
                                        task.kind == Task::Kind::coefficients;
        if (gives_coefficients && poses_.coefficients) return;
        switch (task.kind) {
            case Task::Kind::layer: {
                const LayerPlan& layer = model_.layers[task.what];
                const std::size_t first = task.first * Panels::kRows,
                                  count = layer.weight.rows_of(task.first, task.last);
                prefetch_output(values(0) + layer.output_offset + first, count);
                return run_layer(layer, first, count, inputs_of(layer, thread), thread);
            }
            case Task::Kind::layers: return run_layers(task.first, task.last, thread);
            case Task::Kind::coefficients:
                for (std::size_t number = task.first; number < task.last; ++number)
                    for (std::size_t group = 0; group < group_count(); ++group)
                        gather(model_.coefficients[number], group, gathered(number, group));
                return;
            case Task::Kind::virtual_bones: return blend_virtual_bones(task.first, task.last);
            default: return;
        }
    }

    // Prefetches what a task is about to write. For more poses that would be too much.
    void prefetch_output(float* to, std::size_t count) {
        if (poses_.count == 1) kernels_.prefetch_write(to, count);
    }

    // What a product reads: the first of its vectors, and the floats between two.
    struct Inputs {
        const float* x;
        std::size_t stride;
    };

    // The coefficients of one basis, as written by `gather`, `understudy_deform`'s caller or, where
    // they are consecutive values, by the layers.
    Inputs coefficients_of(std::size_t number) {
        const CoefficientPlan& plan = model_.coefficients[number];
        if (plan.contiguous && !poses_.coefficients)
            return {values(0) + plan.writers[0] * kWidth, scratch_.value_stride};
        return {poses_.coefficients ? poses_.coefficients + plan.offset : gathered(number, 0),
                model_.bases[number].matrix.columns * kWidth};
    }

    void gather(const CoefficientPlan& plan, std::size_t group, float* to) {
        sum_writers(plan, values(group), to);
        if (!model_.is_bounded()) return;
        const float *low = model_.coefficient_low.data() + plan.offset,
                    *high = model_.coefficient_high.data() + plan.offset,
                    *fades =
                        (scratch_.*Lane::kFades).data() + group * kWidth * scratch_.fade_stride;
        const std::uint32_t* fades_with = model_.coefficient_group.data() + plan.offset;
        const auto bound = [=](std::size_t p, const float* fade) {
            for (std::size_t n = p * kWidth, lane = 0; lane < kWidth; ++n, ++lane)
                to[n] = std::min(std::max(to[n], low[p]), high[p]) * fade[lane];
        };
        if (plan.one_group && plan.count) {
            float all[kWidth];
            copy(fades + fades_with[0] * kWidth, all);
            for (std::size_t p = 0; p < plan.count; ++p) bound(p, all);
            return;
        }
        for (std::size_t p = 0; p < plan.count; ++p) bound(p, fades + fades_with[p] * kWidth);
    }

private:
    // The size is known at compile time, so that this needs no call.
    static void copy(const float* from, float* to) { std::memcpy(to, from, kWidth * sizeof *to); }

    float* gathered(std::size_t basis, std::size_t group) {
        const CoefficientPlan& plan = model_.coefficients[basis];
        return scratch_.coefficients.data() + plan.offset * scratch_.batch_poses +
               group * kWidth * plan.count;
    }

    Inputs inputs_of(const LayerPlan& layer, std::size_t thread) {
        if (!layer.inputs) return {values(0) + layer.input_offset * kWidth, scratch_.value_stride};
        float* gathered = scratch_.gathered.data() + thread * scratch_.gather_stride;
        const std::size_t count = layer.weight.columns;
        const std::int32_t* inputs = layer.inputs;  // a copy: what is gathered could be `layer`
        for (std::size_t group = 0; group < group_count(); ++group) {
            const float* from =
                (scratch_.*Lane::kFeatures).data() + group * kWidth * scratch_.feature_stride;
            for (std::size_t i = 0; i < count; ++i)
                copy(from + static_cast<std::size_t>(inputs[i]) * kWidth,
                     gathered + (group * count + i) * kWidth);
        }
        return {gathered, count};
    }

    // `count` rows, from row `first`.
    void run_layer(const LayerPlan& layer, std::size_t first, std::size_t count,
                   const Inputs& inputs, std::size_t thread) {
        const Product product{inputs.x,
                              inputs.stride,
                              group_count(),
                              bias_of(layer, first, count, thread),
                              layer.activation,
                              values(0) + (layer.output_offset + first) * kWidth,
                              scratch_.value_stride};
        (kernels_.*Lane::kDense)(layer.weight, first, first + count, product);
    }

    void run_layers(std::size_t first, std::size_t last, std::size_t thread) {
        const std::size_t begin = model_.layers[first].output_offset;
        const LayerPlan& end = model_.layers[last - 1];
        prefetch_output(values(0) + begin, end.output_offset + end.weight.rows - begin);
        Inputs inputs{};
        for (std::size_t number = first; number < last; ++number) {
            const LayerPlan& layer = model_.layers[number];
            if (number == first || !layer.same_inputs) inputs = inputs_of(layer, thread);
            run_layer(layer, 0, layer.weight.rows, inputs, thread);
        }
    }

    static void sum_writers(const CoefficientPlan& plan, const float* from, float* to) {
        for (std::size_t p = 0; p < plan.count; ++p, to += kWidth) {
            if (plan.one_writer_each) {
                copy(from + std::size_t{plan.writers[p]} * kWidth, to);
                continue;
            }
            float sum[kWidth] = {};
            for (std::uint32_t at = plan.ranges[p].first; at != plan.ranges[p].last; ++at)
                for (std::size_t lane = 0; lane < kWidth; ++lane)
                    sum[lane] += from[std::size_t{plan.writers[at]} * kWidth + lane];
            copy(sum, to);
        }
    }

    void blend_virtual_bones(std::size_t first, std::size_t last) {
        assert(kWidth > 1 || first % kWeightRows == 0);
        const AlignedArray<float>& weights = model_.*Lane::kVirtualWeights;
        BlendJob job{model_.virtual_bones, weights.data(), model_.bone_count()};
        for (std::size_t group = 0; group < group_count(); ++group) {
            job.transforms =
                (scratch_.*Lane::kBones).data() + group * kWidth * scratch_.bone_stride;
            job.out =
                (scratch_.*Lane::kTransforms).data() + group * kWidth * scratch_.transform_stride;
            (kernels_.*(weights.empty() ? Lane::kBlend : Lane::kBlendDense))(job, first, last);
        }
    }
};

}  // namespace understudy
