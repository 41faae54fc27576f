// One thread of the operating system. std::thread reports failure by an exception.
#pragma once

#if !defined(UNDERSTUDY_NO_THREADS)

#if defined(_WIN32)
#if !defined(NOMINMAX)
#define NOMINMAX
#endif
#include <windows.h>
#else
#include <pthread.h>
#endif

namespace understudy {

class Thread {
public:
    using Work = void (*)(void* context);

    Thread() = default;
    Thread(const Thread&) = delete;
    Thread& operator=(const Thread&) = delete;

    // Starts work(context). Returns false if the system refuses. The thread must be joined.
    [[nodiscard]] bool start(Work work, void* context) {
        work_ = work;
        context_ = context;
#if defined(_WIN32)
        handle_ = CreateThread(nullptr, 0, run, this, 0, nullptr);
        started_ = handle_ != nullptr;
#else
        started_ = pthread_create(&handle_, nullptr, run, this) == 0;
#endif
        return started_;
    }

    void join() {
        if (!started_) return;
        started_ = false;
#if defined(_WIN32)
        WaitForSingleObject(handle_, INFINITE);
        CloseHandle(handle_);
#else
        pthread_join(handle_, nullptr);
#endif
    }

#if defined(_WIN32)
    HANDLE native_handle() const { return handle_; }
#else
    pthread_t native_handle() const { return handle_; }
#endif

    // Names the calling thread, for debuggers and profilers; where the system has names.
    static void set_name(const char* name) {
#if defined(__linux__)
        pthread_setname_np(pthread_self(), name);
#elif defined(__APPLE__)
        pthread_setname_np(name);
#else
        (void)name;
#endif
    }

private:
#if defined(_WIN32)
    static DWORD WINAPI run(void* self) {
        static_cast<Thread*>(self)->work_(static_cast<Thread*>(self)->context_);
        return 0;
    }
    HANDLE handle_ = nullptr;
#else
    static void* run(void* self) {
        static_cast<Thread*>(self)->work_(static_cast<Thread*>(self)->context_);
        return nullptr;
    }
    pthread_t handle_{};
#endif
    Work work_ = nullptr;
    void* context_ = nullptr;
    bool started_ = false;
};

}  // namespace understudy

#endif
