// What a call is held against, with the same threads and the same instructions: the same bytes, read once, and as many multiply-adds in registers.
#pragma once

#include <algorithm>
#include <cstdint>

#include "kernels.h"
#include "memory.h"
#include "pool.h"

namespace understudy {

class Floor {
public:
    explicit Floor(std::size_t bytes) : data_((bytes + 255) / 256 * 256) {}

    // Reads everything; `pool` may be nullptr. The sum only keeps the compiler from leaving it out.
    float read(Pool* pool) const {
        const std::uint8_t* data = data_.as<std::uint8_t>();
        return share(pool, data_.size(), [&](std::size_t first, std::size_t count) { return kernels().read(data + first, count); });
    }

    // Does as many multiply-adds, with numbers that need not be fetched.
    static float multiply_add(Pool* pool, std::size_t count) {
        return share(pool, count, [](std::size_t, std::size_t some) { return kernels().multiply_add(some); });
    }

private:
    static constexpr std::size_t kPiece = 64 << 10;

    // The sum of work(first, count) over pieces of 0..size.
    template <class Work>
    static float share(Pool* pool, std::size_t size, const Work& work) {
        const std::uint32_t pieces = static_cast<std::uint32_t>((size + kPiece - 1) / kPiece);
        alignas(64) float sums[Pool::kMostThreads * 16];  // a line of the cache for each thread
        const int threads = pool ? pool->threads() : 1;
        for (int thread = 0; thread < threads; ++thread) sums[16 * thread] = 0;
        const auto one = [&](std::uint32_t number, int thread) {
            const std::size_t first = number * kPiece;
            sums[16 * thread] += work(first, std::min(kPiece, size - first));
        };
        if (threads > 1 && pool->acquire()) {
            pool->wake();
            pool->run(pieces, one);
            pool->release();
        } else {
            for (std::uint32_t number = 0; number < pieces; ++number) one(number, 0);
        }
        float total = 0;
        for (int thread = 0; thread < threads; ++thread) total += sums[16 * thread];
        return total;
    }

    AlignedBytes data_;
};

}  // namespace understudy
