#include "pool.h"

#include <algorithm>
#include <chrono>

#if !defined(_WIN32)
#include <unistd.h>
#endif
#if defined(__linux__)
#include <pthread.h>
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
#include <immintrin.h>
#endif

namespace understudy {
namespace {

using Clock = std::chrono::steady_clock;

// Longer than the gap between two phases, and too short to be noticed.
constexpr auto kHelperSpins = std::chrono::microseconds(100);
constexpr auto kCallerSpins = std::chrono::microseconds(20);

// How long a helper may fail to arrive before it is moved, and may take to settle afterwards.
constexpr auto kPatience = std::chrono::milliseconds(1);

long process_id() {
#if defined(_WIN32)
    return 0;  // there is no fork
#else
    return static_cast<long>(getpid());
#endif
}

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
    _mm_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    asm volatile("yield");
#endif
}

// Spins until `ready()` or until the time is over. Returns whether it is ready.
template <class Ready>
bool spin(Ready ready, std::chrono::microseconds time) {
    for (int i = 0; i < 64; ++i) {  // most waits are shorter than reading the clock
        if (ready()) return true;
        pause();
    }
    const auto end = Clock::now() + time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (ready()) return true;
            pause();
        }
    } while (Clock::now() < end);
    return false;
}

}  // namespace

void move_off_this_processor(std::thread& thread) {
#if defined(__linux__)
    cpu_set_t allowed;
    const int here = sched_getcpu();
    if (here < 0 || pthread_getaffinity_np(thread.native_handle(), sizeof allowed, &allowed) != 0)
        return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<unsigned>(here), &others);
    if (CPU_COUNT(&others) == 0) return;
    pthread_setaffinity_np(thread.native_handle(), sizeof others, &others);
    // It must be free to come back when the caller sleeps.
    pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
#else
    (void)thread;
#endif
}

Pool::Pool(int threads)
    : threads_(std::min(std::max(threads, 1), kMostThreads)),
      process_(process_id()),
      queues_(new Queue[static_cast<std::size_t>(threads_)]),
      shared_(new Threads) {
    shared_->helpers.reset(new std::thread[static_cast<std::size_t>(threads_ - 1)]);
    try {
        for (int helper = 1; helper < threads_; ++helper)
            shared_->helpers[helper - 1] = std::thread([this, helper] { help(helper); });
    } catch (...) {  // the system refused a thread; those that started must end first
        join_helpers();
        throw;
    }
}

Pool::~Pool() {
    if (in_own_process()) join_helpers();
    else (void)shared_.release();
}

bool Pool::in_own_process() const { return process_ == process_id(); }

void Pool::join_helpers() {
    stop_ = true;
    announce();
    for (int helper = 1; helper < threads_; ++helper)
        if (shared_->helpers[helper - 1].joinable()) shared_->helpers[helper - 1].join();
}

void Pool::announce() {
    news_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    // A helper that is about to sleep holds the mutex.
    { const std::lock_guard<std::mutex> lock(shared_->mutex); }
    shared_->work_comes.notify_all();
}

bool Pool::take(Queue& queue, std::uint32_t& task) {
    std::uint64_t range = queue.range.load(std::memory_order_acquire);
    for (;;) {
        task = static_cast<std::uint32_t>(range >> 32);
        if (task >= static_cast<std::uint32_t>(range)) return false;
        // A late helper may find the queue of a later phase. It then takes a task of that phase.
        if (queue.range.compare_exchange_weak(range, range + (std::uint64_t{1} << 32),
                                              std::memory_order_acq_rel, std::memory_order_acquire))
            return true;
    }
}

void Pool::take_tasks(int thread) {
    std::uint32_t done = 0, task = 0;
    for (int turn = 0; turn < threads_; ++turn) {
        Queue& queue = queues_[static_cast<std::size_t>((thread + turn) % threads_)];
        for (; take(queue, task); ++done) call_(context_, task, thread);
    }
    if (!done || remaining_.fetch_sub(done) != done || !caller_sleeps_.load()) return;
    { const std::lock_guard<std::mutex> lock(shared_->mutex); }
    shared_->work_done.notify_one();
}

void Pool::run_phase(std::uint32_t count, Call call, const void* context) {
    if (threads_ == 1 || count == 1) {
        for (std::uint32_t task = 0; task < count; ++task) call(context, task, 0);
        return;
    }
    const auto started = Clock::now();
    call_ = call;
    context_ = context;
    remaining_.store(count);
    for (int thread = 0; thread < threads_; ++thread) {
        const std::uint64_t first = std::uint64_t{count} * thread / threads_,
                            end = std::uint64_t{count} * (thread + 1) / threads_;
        queues_[static_cast<std::size_t>(thread)].range.store(first << 32 | end,
                                                              std::memory_order_release);
    }
    announce();
    take_tasks(0);
    move_starving_helpers(started);
    if (spin([this] { return remaining_.load(std::memory_order_acquire) == 0; }, kCallerSpins))
        return;
    // A helper has taken a task but has no processor: sleeping gives it this one. The helper
    // decrements the count, then reads whether the caller sleeps. The caller announces its sleep,
    // then reads the count. One of them must see what the other wrote, so the caller's read must
    // not overtake its write: all four operations are sequentially consistent. The write is an
    // exchange, because emulators of ARM let a load overtake a plain store.
    std::unique_lock<std::mutex> lock(shared_->mutex);
    caller_sleeps_.exchange(true);
    shared_->work_done.wait(lock, [this] { return remaining_.load() == 0; });
    caller_sleeps_.store(false);
}

void Pool::move_starving_helpers(Clock::time_point started) {
    const auto now = Clock::now();
    for (int helper = 1; helper < threads_; ++helper) {
        Queue& queue = queues_[static_cast<std::size_t>(helper)];
        const std::uint32_t arrivals = queue.arrivals.load(std::memory_order_relaxed);
        if (started - last_phase_ > kPatience)
            queue.arrived = started;  // no helper was needed between calls
        if (arrivals != queue.arrivals_seen) {
            queue.arrived = now;
        } else if (now - queue.arrived > kPatience) {
            move_off_this_processor(shared_->helpers[static_cast<std::size_t>(helper - 1)]);
            queue.arrived = now;
        }
        queue.arrivals_seen = arrivals;
    }
    last_phase_ = now;
}

void Pool::help(int thread) {
    std::uint32_t seen = 0;
    for (;;) {
        const auto news = [this, &seen] { return news_.load(std::memory_order_acquire) != seen; };
        if (!spin(news, kHelperSpins)) {
            std::unique_lock<std::mutex> lock(shared_->mutex);
            sleepers_.fetch_add(1);
            shared_->work_comes.wait(lock, [&] { return news_.load() != seen; });
            sleepers_.fetch_sub(1);
        }
        seen = news_.load(std::memory_order_acquire);
        if (stop_.load()) return;
        queues_[static_cast<std::size_t>(thread)].arrivals.fetch_add(1, std::memory_order_relaxed);
        take_tasks(thread);
    }
}

}  // namespace understudy
