#include "pool.h"

#include <algorithm>

#include "float_mode.h"

#if !defined(_WIN32) && !defined(__wasm__)
#include <unistd.h>
#endif
#if defined(__linux__)
#include <sched.h>
#endif
#if defined(__x86_64__) || defined(_M_X64) || defined(__i386__) || defined(_M_IX86)
#include <immintrin.h>
#endif

namespace understudy {
namespace {

long process_id() {
#if defined(_WIN32) || defined(__wasm__)
    return 0;  // there is no fork
#else
    return static_cast<long>(getpid());
#endif
}

}  // namespace

Pool::Pool(const Memory& memory) : memory_(memory), process_(process_id()) {}

Pool::~Pool() {
    if (in_own_process()) join_helpers();
    free_queues();
}

bool Pool::in_own_process() const { return process_ == process_id(); }

bool Pool::make_queues(int threads) {
    void* place =
        take_memory(memory_, sizeof(Queue) * static_cast<std::size_t>(threads), alignof(Queue));
    if (!place) return false;
    queues_ = static_cast<Queue*>(place);
    for (int thread = 0; thread < threads; ++thread) new (queues_ + thread) Queue;
    threads_ = threads;
    return true;
}

void Pool::free_queues() {
    give_memory(memory_, queues_, sizeof(Queue) * static_cast<std::size_t>(threads_));
    queues_ = nullptr;
    threads_ = 1;
}

bool Pool::use(const understudy_jobs& jobs) {
    jobs_ = jobs;
    return make_queues(std::min(std::max(jobs.threads, 1), kMostThreads));
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

std::uint32_t Pool::take_tasks(int thread) {
    std::uint32_t done = 0, task = 0;
    for (int turn = 0; turn < threads_; ++turn) {
        Queue& queue = queues_[(thread + turn) % threads_];
        for (; take(queue, task); ++done) call_(context_, task, thread);
    }
    return done;
}

void Pool::run_job(void* pool, std::uint32_t thread) {
    const FloatMode mode;  // of a thread of the host
    static_cast<Pool*>(pool)->take_tasks(static_cast<int>(thread));
}

#if defined(UNDERSTUDY_NO_THREADS)

bool Pool::start(int) { return true; }
void Pool::join_helpers() {}
void Pool::wake() {}

#else

namespace {

using std::chrono::microseconds;

// Longer than the gap between two phases, and too short to be noticed.
constexpr auto kHelperSpins = microseconds(100);
constexpr auto kCallerSpins = microseconds(20);

// Nanoseconds that a helper may fail to arrive before it is moved, and may take to settle
// afterwards.
constexpr std::int64_t kPatience = 1000000;

std::int64_t now_ns() {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
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
bool spin(Ready ready, microseconds time) {
    for (int i = 0; i < 64; ++i) {  // most waits are shorter than reading the clock
        if (ready()) return true;
        pause();
    }
    const auto end = std::chrono::steady_clock::now() + time;
    do {
        for (int i = 0; i < 32; ++i) {
            if (ready()) return true;
            pause();
        }
    } while (std::chrono::steady_clock::now() < end);
    return false;
}

}  // namespace

struct Pool::Helpers {
    struct Helper {
        Pool* pool;
        int number;
        Thread thread;
    };
    std::mutex mutex;
    std::condition_variable work_comes, work_done;
    Helper helpers[kMostThreads - 1];
};

void move_off_this_processor(Thread& thread) {
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

bool Pool::start(int threads) {
    threads = std::min(std::max(threads, 1), kMostThreads);
    if (threads == 1) return true;
    helpers_ = create<Helpers>(memory_);
    if (!helpers_ || !make_queues(threads)) return false;
    for (int number = 1; number < threads; ++number) {
        Helpers::Helper& helper = helpers_->helpers[number - 1];
        helper.pool = this;
        helper.number = number;
        const auto work = [](void* given) {
            Helpers::Helper& self = *static_cast<Helpers::Helper*>(given);
            Thread::set_name("understudy");
            self.pool->help(self.number);
        };
        if (!helper.thread.start(work, &helper)) return false;  // the destructor ends the others
    }
    return true;
}

void Pool::join_helpers() {
    if (!helpers_) return;
    stop_ = true;
    announce();
    for (Helpers::Helper& helper : helpers_->helpers) helper.thread.join();
    destroy(memory_, helpers_);
    helpers_ = nullptr;
}

void Pool::announce() {
    news_.fetch_add(1);
    if (sleepers_.load() == 0) return;
    // A helper that is about to sleep holds the mutex.
    { const std::lock_guard<std::mutex> lock(helpers_->mutex); }
    helpers_->work_comes.notify_all();
}

void Pool::wake() {
    if (helpers_) announce();
}

void Pool::finish_phase(std::int64_t started) {
    announce();
    remaining_.fetch_sub(take_tasks(0));
    move_starving_helpers(started);
    if (spin([this] { return remaining_.load(std::memory_order_acquire) == 0; }, kCallerSpins))
        return;
    // A helper has taken a task but has no processor: sleeping gives it this one. The helper
    // decrements the count, then reads whether the caller sleeps. The caller announces its sleep,
    // then reads the count. One of them must see what the other wrote, so the caller's read must
    // not overtake its write: all four operations are sequentially consistent. The write is an
    // exchange, because emulators of ARM let a load overtake a plain store.
    std::unique_lock<std::mutex> lock(helpers_->mutex);
    caller_sleeps_.exchange(true);
    helpers_->work_done.wait(lock, [this] { return remaining_.load() == 0; });
    caller_sleeps_.store(false);
}

void Pool::move_starving_helpers(std::int64_t started) {
    const std::int64_t now = now_ns();
    for (int helper = 1; helper < threads_; ++helper) {
        Queue& queue = queues_[helper];
        const std::uint32_t arrivals = queue.arrivals.load(std::memory_order_relaxed);
        if (started - last_phase_ > kPatience)
            queue.arrived = started;  // no helper was needed between calls
        if (arrivals != queue.arrivals_seen) {
            queue.arrived = now;
        } else if (now - queue.arrived > kPatience) {
            move_off_this_processor(helpers_->helpers[helper - 1].thread);
            queue.arrived = now;
        }
        queue.arrivals_seen = arrivals;
    }
    last_phase_ = now;
}

void Pool::help(int thread) {
    const FloatMode mode;  // it was that of the thread that created the pool
    std::uint32_t seen = 0;
    for (;;) {
        const auto news = [this, &seen] { return news_.load(std::memory_order_acquire) != seen; };
        if (!spin(news, kHelperSpins)) {
            std::unique_lock<std::mutex> lock(helpers_->mutex);
            sleepers_.fetch_add(1);
            helpers_->work_comes.wait(lock, [&] { return news_.load() != seen; });
            sleepers_.fetch_sub(1);
        }
        seen = news_.load(std::memory_order_acquire);
        if (stop_.load()) return;
        queues_[thread].arrivals.fetch_add(1, std::memory_order_relaxed);
        const std::uint32_t done = take_tasks(thread);
        if (!done || remaining_.fetch_sub(done) != done || !caller_sleeps_.load()) continue;
        { const std::lock_guard<std::mutex> lock(helpers_->mutex); }
        helpers_->work_done.notify_one();
    }
}

#endif

void Pool::run_phase(std::uint32_t count, Call call, const void* context) {
    if (threads_ == 1 || count == 1) {
        for (std::uint32_t task = 0; task < count; ++task) call(context, task, 0);
        return;
    }
#if !defined(UNDERSTUDY_NO_THREADS)
    const std::int64_t started = jobs_.run ? 0 : now_ns();
#endif
    call_ = call;
    context_ = context;
    remaining_.store(count);
    for (int thread = 0; thread < threads_; ++thread) {
        const std::uint64_t first = std::uint64_t{count} * thread / threads_,
                            end = std::uint64_t{count} * (thread + 1) / threads_;
        queues_[thread].range.store(first << 32 | end, std::memory_order_release);
    }
    if (jobs_.run) {
        const std::uint32_t jobs = std::min(count, static_cast<std::uint32_t>(threads_));
        jobs_.run(jobs_.user, jobs, run_job, this);
        return;
    }
#if !defined(UNDERSTUDY_NO_THREADS)
    finish_phase(started);
#endif
}

}  // namespace understudy
