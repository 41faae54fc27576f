// A few persistent threads that work on the tasks of one call.
//
// Each thread has a queue: an equal range of the tasks. A thread that has emptied its own queue
// takes tasks from the others. A phase ends when all its tasks are done, not when all threads have
// arrived. A helper that gets no processor therefore costs nothing: the caller does the remaining
// tasks. Helpers spin briefly between phases and calls, then sleep. Nothing allocates after
// `start`.
//
// If other programs keep every processor busy, the scheduler may leave a helper queued behind its
// own caller, which never stops working, for seconds. On Linux, a helper that does not arrive
// within some milliseconds is therefore moved off the processor that its caller uses, among those
// that the helper itself may use.
//
// A pool belongs to the process that created it. In a forked child its helpers do not exist: then
// `acquire` fails, and the destructor leaves alone what the helpers used.
//
// Instead of helpers a pool may use the host's threads: see `understudy_jobs`. A phase is then one
// call of the host's function, with one job per thread; each job takes tasks as a helper does.
//
// With UNDERSTUDY_NO_THREADS there are no helpers: every pool has one thread, unless the host
// provides more.
#pragma once

#include <atomic>
#include <cstdint>

#include "memory.h"

#if !defined(UNDERSTUDY_NO_THREADS)
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "thread.h"
#endif

namespace understudy {

class Pool {
public:
    static constexpr int kMostThreads = 64;

    // It has one thread, the caller, until one of the two functions below succeeds.
    explicit Pool(const Memory& memory);
    ~Pool();
    Pool(const Pool&) = delete;
    Pool& operator=(const Pool&) = delete;

    // Starts threads - 1 helpers; `threads` is clamped to 1..kMostThreads. Returns false if memory
    // is short or the system refuses a thread.
    [[nodiscard]] bool start(int threads);
    // Uses the host's threads from now on.
    [[nodiscard]] bool use(const understudy_jobs& jobs);

    const Memory& memory() const { return memory_; }
    int threads() const { return threads_; }

    // Reserves the pool for one call. Returns false if another call holds it: then work alone.
    bool acquire() { return in_own_process() && !taken_.exchange(true, std::memory_order_acquire); }
    void release() { taken_.store(false, std::memory_order_release); }

    // Wakes sleeping helpers, because work is about to follow.
    void wake();

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
    using Call = void (*)(const void* context, std::uint32_t task, int thread);
    struct alignas(64) Queue {
        // The next task in the upper half, the end of the range in the lower half.
        std::atomic<std::uint64_t> range{0};
        std::atomic<std::uint32_t> arrivals{0};  // how often the helper looked for tasks
        // Only the caller uses these. Times are in nanoseconds.
        std::uint32_t arrivals_seen = 0;
        std::int64_t arrived = 0;  // when the helper last arrived or was moved
    };
    struct Helpers;  // what must not be destroyed in a forked child

    bool in_own_process() const;
    bool make_queues(int threads);
    void free_queues();
    void join_helpers();
    void run_phase(std::uint32_t count, Call call, const void* context);
    void finish_phase(std::int64_t started);
    // Takes and runs tasks until no queue has any. Returns how many.
    std::uint32_t take_tasks(int thread);
    static bool take(Queue& queue, std::uint32_t& task);
    static void run_job(void* pool, std::uint32_t thread);
    void help(int thread);
    void announce();
    void move_starving_helpers(std::int64_t phase_started);

    const Memory memory_;
    const long process_;
    int threads_ = 1;
    Queue* queues_ = nullptr;  // one per thread
    Helpers* helpers_ = nullptr;
    understudy_jobs jobs_{};  // run is nullptr: the pool has helpers of its own
    // The tasks. Written before the queues; read only by a thread that has taken a task, for which
    // the caller then waits.
    Call call_ = nullptr;
    const void* context_ = nullptr;
    std::int64_t last_phase_ = 0;
    alignas(64) std::atomic<std::uint32_t> news_{0};  // changes when there may be work
    std::atomic<bool> stop_{false};
    std::atomic<int> sleepers_{0};
    alignas(64) std::atomic<std::uint32_t> remaining_{0};
    std::atomic<bool> caller_sleeps_{false};
    alignas(64) std::atomic<bool> taken_{false};
};

#if !defined(UNDERSTUDY_NO_THREADS)
// Moves a thread off the processor of the calling one, if it may use another. Its affinity is then
// what it was. Linux only.
void move_off_this_processor(Thread& thread);
#endif

}  // namespace understudy
