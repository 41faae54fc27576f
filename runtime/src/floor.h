// The time to read a model's bytes once, with the same threads and the same instructions: the floor that no runtime can go below.
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
        constexpr std::size_t kPiece = 64 << 10;
        const std::uint8_t* data = data_.as<std::uint8_t>();
        const std::uint32_t count = static_cast<std::uint32_t>((data_.size() + kPiece - 1) / kPiece);
        float sums[Pool::kMostThreads * 16] = {};  // a line of the cache for each thread
        const auto work = [&](std::uint32_t piece, int thread) {
            const std::size_t first = piece * kPiece;
            sums[16 * thread] += kernels().read(data + first, std::min(kPiece, data_.size() - first));
        };
        if (pool && pool->threads() > 1 && pool->acquire()) {
            pool->wake();
            pool->run(count, work);
            pool->release();
        } else {
            for (std::uint32_t piece = 0; piece < count; ++piece) work(piece, 0);
        }
        float total = 0;
        for (const float sum : sums) total += sum;
        return total;
    }

private:
    AlignedBytes data_;
};

}  // namespace understudy
