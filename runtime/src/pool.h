// A few persistent threads that work on the tasks of one call.
//
// Each thread has a queue: an equal range of the tasks. A thread that has emptied its own queue
// takes tasks from the others. A phase ends when all its tasks are done, not when all threads have
// arrived. A helper that gets no processor therefore costs nothing: the caller does the remaining
// tasks. Helpers spin briefly between phases and calls, then sleep. Nothing allocates after
// construction.
//
// If other programs keep every processor busy, the scheduler may leave a helper queued behind its
// own caller, which never stops working, for seconds. On Linux, a helper that does not arrive
// within some milliseconds is therefore moved off the processor that its caller uses, among those
// that the helper itself may use.
//
// A pool belongs to the process that created it. In a forked child its helpers do not exist: then
// `acquire` fails, and the destructor leaves alone what the helpers used.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "checked.h"

namespace understudy {

class Pool {
public:
    static constexpr int kMostThreads = 64;

    explicit Pool(int threads);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    int threads() const { return threads_; }

    // Reserves the pool for one call. Returns false if another call holds it: then work alone.
    bool acquire() { return in_own_process() && !taken_.exchange(true, std::memory_order_acquire); }
    void release() { taken_.store(false, std::memory_order_release); }

    // Wakes sleeping helpers, because work is about to follow.
    void wake() { announce(); }

    // Calls work(task, thread) for every task below `count`; returns when all are done. Only
    // between acquire and release.
    template <class Work>
    void run(std::uint32_t count, const Work& work) {
        run_phase(
            count,
            [](const void* context, std::uint32_t task, int thread) {
                (*static_cast<const Work*>(context))(task, thread);
            },
            &work);
    }

private:
    using Clock = std::chrono::steady_clock;
    using Call = void (*)(const void* context, std::uint32_t task, int thread);
    struct alignas(64) Queue {
        // The next task in the upper half, the end of the range in the lower half.
        std::atomic<std::uint64_t> range{0};
        std::atomic<std::uint32_t> arrivals{0};  // how often the helper looked for tasks
        // Only the caller uses these.
        std::uint32_t arrivals_seen = 0;
        Clock::time_point arrived;  // when the helper last arrived or was moved
    };

    // What must not be destroyed in a forked child.
    struct Threads {
        std::mutex mutex;
        std::condition_variable work_comes, work_done;
        std::unique_ptr<std::thread[]> helpers;
    };

    bool in_own_process() const;
    void join_helpers();
    void run_phase(std::uint32_t count, Call call, const void* context);
    // Takes and runs tasks until no queue has any.
    void take_tasks(int thread);
    static bool take(Queue& queue, std::uint32_t& task);
    void help(int thread);
    void announce();
    void move_starving_helpers(Clock::time_point phase_started);

    const int threads_;
    const long process_;
    std::unique_ptr<Queue[]> queues_;
    std::unique_ptr<Threads> shared_;
    // The tasks. Written before the queues; read only by a thread that has taken a task, for which
    // the caller then waits.
    Call call_ = nullptr;
    const void* context_ = nullptr;
    Clock::time_point last_phase_;
    alignas(64) std::atomic<std::uint32_t> news_{0};  // changes when there may be work
    std::atomic<bool> stop_{false};
    std::atomic<int> sleepers_{0};
    alignas(64) std::atomic<std::uint32_t> remaining_{0};
    std::atomic<bool> caller_sleeps_{false};
    alignas(64) std::atomic<bool> taken_{false};
};

// Moves a thread off the processor of the calling one, if it may use another. Its affinity is then
// what it was. Linux only.
void move_off_this_processor(std::thread& thread);

}  // namespace understudy
