// A few persistent threads that share the tasks of one call.
//
// Tasks are dealt out in equal shares; who has finished its own takes from the others'. A phase is over when all its tasks are done, not when all
// threads have come by: a helper that does not get a processor (a busy neighbour) costs nothing, because the caller does the work nobody took.
// Helpers spin briefly between phases and calls, then sleep. Nothing here allocates after construction.
//
// Where neighbours keep every processor busy, a scheduler may leave a helper waiting behind its own caller, which never stops working, for seconds.
// A helper that is wanted and does not come for some milliseconds is therefore moved (on Linux) off the processor its caller is on.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

namespace understudy {

class Pool {
public:
    static constexpr int kMostThreads = 64;

    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return threads_; }

    // One call at a time may use the pool; false: it is taken, work alone.
    bool acquire() { return !taken_.exchange(true, std::memory_order_acquire); }
    void release() { taken_.store(false, std::memory_order_release); }

    // Tells sleeping helpers that work is about to come.
    void wake() { announce(); }

    // work(task, thread) for every task below `count`; returns when all are done. Only between acquire and release.
    template <class Work>
    void run(std::uint32_t count, const Work& work) {
        run_phase(count, [](const void* context, std::uint32_t task, int thread) { (*static_cast<const Work*>(context))(task, thread); }, &work);
    }

private:
    using Clock = std::chrono::steady_clock;
    using Call = void (*)(const void* context, std::uint32_t task, int thread);
    struct alignas(64) Share {
        std::atomic<std::uint64_t> word{0};  // the next task in the upper half, the end of the share in the lower
        std::atomic<std::uint32_t> turns{0};  // how often its helper came to look for tasks
        std::uint32_t turns_seen = 0;         // the caller's own notes:
        Clock::time_point came;  // when the helper last came, or was moved
    };

    void run_phase(std::uint32_t count, Call call, const void* context);
    // Does tasks until none is left to take.
    void take_tasks(int thread);
    static bool claim(Share& share, std::uint32_t& task);
    void help(int thread);
    void announce();
    void look_after_helpers(Clock::time_point phase_started);

    const int threads_;
    std::unique_ptr<Share[]> shares_;
    std::unique_ptr<std::thread[]> helpers_;
    // What the tasks are. Written before the shares are, read only by who has claimed a task, which the caller then waits for.
    Call call_ = nullptr;
    const void* context_ = nullptr;
    Clock::time_point last_phase_;
    alignas(64) std::atomic<std::uint32_t> news_{0};  // changes when there may be work
    std::atomic<bool> stop_{false};
    std::atomic<int> sleepers_{0};
    alignas(64) std::atomic<std::uint32_t> remaining_{0};
    std::atomic<bool> caller_sleeps_{false};
    alignas(64) std::atomic<bool> taken_{false};
    std::mutex mutex_;
    std::condition_variable work_comes_, work_done_;
};

}  // namespace understudy
