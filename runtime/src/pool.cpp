#include "pool.h"

#include <algorithm>
#include <chrono>

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

// Longer than the gap between two phases, shorter than anything a user of the processor would notice.
constexpr auto kHelperSpins = std::chrono::microseconds(100);
constexpr auto kCallerSpins = std::chrono::microseconds(20);

// How long a helper may be wanted in vain before it is moved, and then has to settle.
constexpr auto kPatience = std::chrono::milliseconds(1);

// Moves a thread off the processor this one is on. Afterwards it may run anywhere again: it must be free to come back when the caller sleeps.
void move_elsewhere(std::thread& thread) {
#if defined(__linux__)
    cpu_set_t allowed;
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) < 2) return;
    const int here = sched_getcpu();
    if (here < 0) return;
    cpu_set_t others = allowed;
    CPU_CLR(static_cast<unsigned>(here), &others);
    pthread_setaffinity_np(thread.native_handle(), sizeof others, &others);
    pthread_setaffinity_np(thread.native_handle(), sizeof allowed, &allowed);
#else
    (void)thread;
#endif
}

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
    _mm_pause();
#elif defined(__aarch64__) && defined(__GNUC__)
    asm volatile("yield");
#endif
}

// Spins until `ready()` or the time is over; tells which.
template <class Ready>
bool spin(Ready ready, std::chrono::microseconds time) {
    for (int i = 0; i < 64; ++i) {  // most waits are shorter than a look at the clock is worth
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

Pool::Pool(int threads)
    : threads_(std::min(std::max(threads, 1), kMostThreads)),
      shares_(new Share[static_cast<std::size_t>(threads_)]),
      helpers_(new std::thread[static_cast<std::size_t>(threads_ - 1)]) {
    try {
        for (int helper = 1; helper < threads_; ++helper) helpers_[helper - 1] = std::thread([this, helper] { help(helper); });
    } catch (...) {  // no more threads to be had: those that started must end before this object does
        stop_ = true;
        announce();
        for (int helper = 1; helper < threads_; ++helper)
            if (helpers_[helper - 1].joinable()) helpers_[helper - 1].join();
        throw;
    }
}

Pool::~Pool() {
    stop_ = true;
    announce();
    for (int helper = 1; helper < threads_; ++helper) helpers_[helper - 1].join();
}

void Pool::announce() {
    news_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    { const std::lock_guard<std::mutex> lock(mutex_); }  // a helper between its last look and its sleep holds this
    work_comes_.notify_all();
}

bool Pool::claim(Share& share, std::uint32_t& task) {
    std::uint64_t word = share.word.load(std::memory_order_acquire);
    for (;;) {
        task = static_cast<std::uint32_t>(word >> 32);
        if (task >= static_cast<std::uint32_t>(word)) return false;
        // A helper may come late and find a share of a later phase: what it claims is then simply a task of that phase.
        if (share.word.compare_exchange_weak(word, word + (std::uint64_t{1} << 32), std::memory_order_acq_rel, std::memory_order_acquire)) return true;
    }
}

void Pool::take_tasks(int thread) {
    std::uint32_t done = 0, task = 0;
    for (int turn = 0; turn < threads_; ++turn) {
        Share& share = shares_[static_cast<std::size_t>((thread + turn) % threads_)];
        for (; claim(share, task); ++done) call_(context_, task, thread);
    }
    if (!done || remaining_.fetch_sub(done) != done || !caller_sleeps_.load()) return;
    { const std::lock_guard<std::mutex> lock(mutex_); }
    work_done_.notify_one();
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
        const std::uint64_t first = std::uint64_t{count} * thread / threads_, end = std::uint64_t{count} * (thread + 1) / threads_;
        shares_[static_cast<std::size_t>(thread)].word.store(first << 32 | end, std::memory_order_release);
    }
    announce();
    take_tasks(0);
    look_after_helpers(started);
    if (spin([this] { return remaining_.load(std::memory_order_acquire) == 0; }, kCallerSpins)) return;
    // A helper holds a task but not a processor: sleeping gives it ours. The helper counts down and then looks whether we sleep; we say so and then look
    // at the count. One of the two must see what the other did, so our look may not overtake our word: a load in sequential order, where an acquiring
    // one might. (An exchange, since emulators of ARM let any load overtake a store.)
    std::unique_lock<std::mutex> lock(mutex_);
    caller_sleeps_.exchange(true);
    work_done_.wait(lock, [this] { return remaining_.load() == 0; });
    caller_sleeps_.store(false);
}

void Pool::look_after_helpers(Clock::time_point started) {
    const auto now = Clock::now();
    for (int helper = 1; helper < threads_; ++helper) {
        Share& share = shares_[static_cast<std::size_t>(helper)];
        const std::uint32_t turns = share.turns.load(std::memory_order_relaxed);
        if (started - last_phase_ > kPatience) share.came = started;  // between calls nobody was wanted
        if (turns != share.turns_seen) {
            share.came = now;
        } else if (now - share.came > kPatience) {
            move_elsewhere(helpers_[static_cast<std::size_t>(helper - 1)]);
            share.came = now;
        }
        share.turns_seen = turns;
    }
    last_phase_ = now;
}

void Pool::help(int thread) {
    std::uint32_t seen = 0;
    for (;;) {
        const auto news = [this, &seen] { return news_.load(std::memory_order_acquire) != seen; };
        if (!spin(news, kHelperSpins)) {
            std::unique_lock<std::mutex> lock(mutex_);
            sleepers_.fetch_add(1);
            work_comes_.wait(lock, [&] { return news_.load() != seen; });
            sleepers_.fetch_sub(1);
        }
        seen = news_.load(std::memory_order_acquire);
        if (stop_.load()) return;
        shares_[static_cast<std::size_t>(thread)].turns.fetch_add(1, std::memory_order_relaxed);
        take_tasks(thread);
    }
}

}  // namespace understudy
