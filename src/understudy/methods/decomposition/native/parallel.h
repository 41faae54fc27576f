// Loops on several threads, on the thread pool of the runtime.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <utility>

#if defined(_WIN32)
#include <process.h>
#else
#include <unistd.h>
#endif

#include "pool.h"

namespace understudy {

inline long process_id() {
#if defined(_WIN32)
    return _getpid();
#else
    return getpid();
#endif
}

// A pool of threads that lives as long as the process, because starting a thread takes longer than
// many calls. A forked process has no threads of its parent, so it gets a pool of its own.
inline Pool& pool_of(int threads) {
    static std::mutex mutex;
    static std::map<std::pair<long, int>, Pool*> pools;
    const std::lock_guard<std::mutex> lock(mutex);
    Pool*& pool = pools[{process_id(), threads}];
    if (!pool) {
        auto made = std::make_unique<Pool>(default_memory());
        if (!made->start(threads)) throw std::runtime_error("the system refuses a thread");
        pool = made.release();
    }
    return *pool;
}

// Calls work(first, last) on up to `threads` threads, each with its own contiguous part of
// 0..count.
template <class Work>
void in_parallel(std::int64_t count, std::int64_t threads, const Work& work) {
    threads =
        std::max<std::int64_t>(1, std::min<std::int64_t>({threads, count, Pool::kMostThreads}));
    const auto one = [&](std::uint32_t t, int) {
        work(count * t / threads, count * (t + 1) / threads);
    };
    Pool* pool = threads > 1 ? &pool_of(static_cast<int>(threads)) : nullptr;
    if (pool && pool->acquire()) {
        pool->run(static_cast<std::uint32_t>(threads), one);
        pool->release();
    } else {  // one thread, or another call is using the pool
        for (std::int64_t t = 0; t < threads; ++t) one(static_cast<std::uint32_t>(t), 0);
    }
}

// The same in blocks that idle threads take one after the other, for items of very different cost.
// make_work() is called once per thread and returns work(first, last).
template <class MakeWork>
void in_parallel_blocks(std::int64_t count, std::int64_t block, std::int64_t threads,
                        const MakeWork& make_work) {
    std::atomic<std::int64_t> next{0};
    in_parallel(std::min((count + block - 1) / block, threads), threads,
                [&](std::int64_t, std::int64_t) {
                    auto work = make_work();
                    for (std::int64_t first; (first = next.fetch_add(block)) < count;)
                        work(first, std::min(first + block, count));
                });
}

// The number of threads to use for `work` multiply-adds: one if they are done before a second
// thread has started.
inline std::int64_t useful_threads(std::int64_t threads, std::int64_t work) {
    return work < 1000000 ? 1 : threads;
}

}  // namespace understudy
