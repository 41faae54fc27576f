// Skinning kernels for one pose and for 16, on arrays that are exactly as long as `VertexJob` says:
// any number of vertices from any first one, every layout of influences, with and without
// displacements. Every instruction set gives the same as plain C++ and writes no other vertex, and
// the same bits to an interleaved buffer.
#include <cmath>
#include <cstdio>
#include <vector>

#include "../src/kernels.h"
#include "check.h"

namespace {

using understudy::Influence;
using understudy::Kernels;
using understudy::kLanes;
using understudy::VertexJob;

constexpr std::size_t kVertices = 150, kTransforms = 13;
constexpr int kRagged = 0;
constexpr float kUntouched = 12345.0f;

float some(std::size_t i) { return std::sin(1.0f + 12.9f * static_cast<float>(i % 1009)); }

// Numbers for a job. `lanes` is 1 or kLanes; in lanes every number is repeated with small changes.
struct Numbers {
    std::vector<float> base, displacements, transforms, centre;
    std::vector<std::uint32_t> slot_starts, slots, starts;
    std::vector<Influence> entries;
    std::vector<std::uint8_t> rigid_quads;
    VertexJob job{};

    static std::vector<float> values(std::size_t count, std::size_t lanes, std::size_t beyond) {
        std::vector<float> all(count * lanes + beyond);
        for (std::size_t i = 0; i < all.size(); ++i)
            all[i] = some(i / lanes) + 0.01f * static_cast<float>(i % lanes);
        return all;
    }

    Numbers(int width, bool displaced, std::size_t lanes) : rigid_quads(kVertices / 4 + 1, 0) {
        base = values(3 * kVertices, 1, 1);
        transforms = values(16 * kTransforms, lanes, 0);
        if (lanes == 1)
            for (std::size_t i = 3; i < transforms.size(); i += 4)
                transforms[i] = 0;  // the last number of every column
        centre = values(8, lanes, 0);
        slot_starts.push_back(0);
        starts.push_back(0);
        for (std::size_t vertex = 0; vertex < kVertices; ++vertex) {
            for (std::size_t n = 0; n < vertex % 3; ++n)
                slots.push_back(static_cast<std::uint32_t>(3 * slots.size()));
            slot_starts.push_back(static_cast<std::uint32_t>(slots.size()));
            const std::size_t count =
                width == kRagged ? 1 + vertex * 7 % 12 : static_cast<std::size_t>(width);
            for (std::size_t n = 0; n < count; ++n)
                entries.push_back(
                    {static_cast<std::uint32_t>(16 * ((vertex + 5 * n) % kTransforms)),
                     width == 1 ? 1.0f : some(vertex + 31 * n)});
            starts.push_back(static_cast<std::uint32_t>(entries.size()));
        }
        displacements = values(3 * slots.size(), lanes, 1);
        job.base = base.data();
        job.slot_starts = displaced ? slot_starts.data() : nullptr;
        job.slots = slots.data();
        job.displacements = displacements.data();
        job.skin = {entries.data(), starts.data(), static_cast<std::uint32_t>(width)};
        job.rigid_quads = rigid_quads.data();
        job.transforms = transforms.data();
        job.centre = centre.data();
        job.pose_stride = 3 * kVertices;
    }

    std::vector<float> moved(void (*skin)(const VertexJob&), std::size_t first, std::size_t count,
                             std::size_t poses) {
        std::vector<float> positions(3 * kVertices * poses, kUntouched);
        job.first = first;
        job.last = first + count;
        job.positions = positions.data();
        skin(job);
        return positions;
    }
};

constexpr std::size_t kStep = 5;  // floats from one vertex of the interleaved buffer to the next

// Skins into an interleaved buffer, with and without tight positions.
void check_interleaved(Numbers& numbers, void (*skin)(const VertexJob&), std::size_t first,
                       std::size_t count) {
    const std::vector<float> want = numbers.moved(skin, first, count, 1);
    for (const bool both : {true, false}) {
        if (!both && numbers.job.slot_starts) continue;
        // Exactly as long as it must be: nothing beyond the last position may be touched.
        std::vector<float> positions(3 * kVertices, kUntouched),
            out(kStep * (first + count - 1) + 3, kUntouched);
        numbers.job.positions = both ? positions.data() : nullptr;
        numbers.job.interleaved = {reinterpret_cast<char*>(out.data()), kStep * sizeof(float)};
        skin(numbers.job);
        numbers.job.interleaved = {};
        if (both) CHECK(positions == want);
        for (std::size_t i = 0; i < out.size(); ++i) {
            const std::size_t vertex = i / kStep, axis = i % kStep;
            CHECK(out[i] == (vertex >= first && axis < 3 ? want[3 * vertex + axis] : kUntouched));
        }
    }
}

// Positions of vertices in any order, copied to consecutive items.
void test_copies(const Kernels& use) {
    const std::uint32_t vertices[] = {3, 0, 0, 7, 8, 1};
    const std::vector<float> positions = Numbers::values(27, 1, 1);
    std::vector<float> out(kStep * 5 + 3, kUntouched);
    use.copy_positions(positions.data(), vertices, 6,
                       {reinterpret_cast<char*>(out.data()), kStep * sizeof(float)});
    for (std::size_t i = 0; i < out.size(); ++i)
        CHECK(out[i] ==
              (i % kStep < 3 ? positions[3 * vertices[i / kStep] + i % kStep] : kUntouched));
}

void check_same(const std::vector<float>& got, const std::vector<float>& want, std::size_t first,
                std::size_t last) {
    for (std::size_t i = 0; i < got.size(); ++i) {
        const std::size_t vertex = i / 3 % kVertices;
        if (vertex < first || vertex >= last) CHECK(got[i] == kUntouched);
        else CHECK(std::abs(got[i] - want[i]) <= 1e-4f);
    }
}

void test_linear(const Kernels& use, const Kernels& plain, int width, bool displaced) {
    Numbers one(width, displaced, 1), crowd(width, displaced, kLanes);
    for (const std::size_t first : {0, 4, 7, 64})
        for (const std::size_t count :
             {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 18, 64, 65, 80}) {
            check_same(one.moved(use.skin_linear, first, count, 1),
                       one.moved(plain.skin_linear, first, count, 1), first, first + count);
            check_interleaved(one, use.skin_linear, first, count);
            if (width == kRagged) check_interleaved(one, use.skin_dual_quaternion, first, count);
            check_same(crowd.moved(use.skin_lanes, first, count, kLanes),
                       crowd.moved(plain.skin_lanes, first, count, kLanes), first, first + count);
        }
}

// One transform for all vertices, which some instruction sets move four at a time.
void test_simple(const Kernels& use, const Kernels& plain) {
    Numbers numbers(1, false, 1);
    for (Influence& entry : numbers.entries) entry.offset = 16;
    for (const bool all : {true, false}) {
        for (std::size_t four = 0; four < numbers.rigid_quads.size(); ++four)
            numbers.rigid_quads[four] = all || four % 2;
        for (const std::size_t first : {0, 2, 3, 4})
            for (const std::size_t count : {1, 2, 4, 5, 8, 14}) {
                check_same(numbers.moved(use.skin_linear, first, count, 1),
                           numbers.moved(plain.skin_linear, first, count, 1), first, first + count);
                check_interleaved(numbers, use.skin_linear, first, count);
            }
    }
}

// Plain C++ against a direct evaluation of linear blend skinning.
void test_plain(const Kernels& plain) {
    Numbers numbers(3, false, 1);
    const std::vector<float> got = numbers.moved(plain.skin_linear, 0, kVertices, 1);
    for (std::size_t vertex = 0; vertex < kVertices; ++vertex)
        for (std::size_t axis = 0; axis < 3; ++axis) {
            double sum = numbers.centre[axis] + numbers.centre[4 + axis];
            for (std::size_t n = 3 * vertex; n < 3 * vertex + 3; ++n) {
                const float* t = numbers.transforms.data() + numbers.entries[n].offset;
                double part = t[12 + axis];
                for (std::size_t column = 0; column < 3; ++column)
                    part += t[4 * column + axis] * numbers.base[3 * vertex + column];
                sum += numbers.entries[n].weight * part;
            }
            CHECK(std::abs(got[3 * vertex + axis] - sum) <= 1e-4);
        }
}

}  // namespace

int main() {
    const Kernels* const* last = understudy::all_kernels();
    while (last[1]) ++last;
    test_plain(**last);
    int count = 0;
    for (const Kernels* const* use = understudy::all_kernels(); *use; ++use, ++count) {
        for (const int width : {1, 2, 3, 4, 5, kRagged})
            for (const bool displaced : {false, true}) test_linear(**use, **last, width, displaced);
        test_simple(**use, **last);
        test_copies(**use);
    }
    std::printf("%d instruction sets\n", count);
}
