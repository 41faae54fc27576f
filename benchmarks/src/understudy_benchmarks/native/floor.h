// A lower bound for the time of a call: its bytes read once, and its multiply-adds done in
// registers, with the same threads and instructions.
#pragma once

#include <algorithm>
#include <cstdint>

#include "checked.h"
#include "floor_loops.h"
#include "memory.h"
#include "pool.h"

namespace understudy {

class Floor {
public:
    // `instruction_set` is the one of the runtime, as `understudy_instruction_set` names it.
    explicit Floor(const char* instruction_set) : loops_(floor_loops(instruction_set)) {}

    // Returns false if memory is short.
    [[nodiscard]] bool allocate(std::size_t bytes) { return data_.allocate(padded(bytes, 256)); }

    // Reads everything; `pool` may be nullptr. The sum keeps the compiler from removing the reads.
    float read(Pool* pool) const {
        const std::uint8_t* data = data_.as<std::uint8_t>();
        return sum_over(pool, data_.bytes(), [&](std::size_t first, std::size_t count) {
            return loops_.read(data + first, count);
        });
    }

    // Does `count` multiply-adds on numbers in registers.
    float multiply_add(Pool* pool, std::size_t count) const {
        return sum_over(pool, count,
                        [&](std::size_t, std::size_t some) { return loops_.multiply_add(some); });
    }

private:
    static constexpr std::size_t kChunk = 64 << 10;

    // The sum of work(first, count) over chunks of 0..size.
    template <class Work>
    static float sum_over(Pool* pool, std::size_t size, const Work& work) {
        const std::uint32_t chunks = static_cast<std::uint32_t>((size + kChunk - 1) / kChunk);
        alignas(64) float sums[Pool::kMostThreads * 16];  // one cache line per thread
        const int threads = pool ? pool->threads() : 1;
        for (int thread = 0; thread < threads; ++thread) sums[16 * thread] = 0;
        const auto one = [&](std::uint32_t number, int thread) {
            const std::size_t first = number * kChunk;
            sums[16 * thread] += work(first, std::min(kChunk, size - first));
        };
        if (threads > 1 && pool->acquire()) {
            pool->wake();
            pool->run(chunks, one);
            pool->release();
        } else {
            for (std::uint32_t number = 0; number < chunks; ++number) one(number, 0);
        }
        float total = 0;
        for (int thread = 0; thread < threads; ++thread) total += sums[16 * thread];
        return total;
    }

    const FloorLoops& loops_;
    Buffer data_{default_memory()};
};

}  // namespace understudy
