// While it exists, the calling thread computes with the default floating-point mode: it rounds to
// the nearest number, keeps numbers near zero, and stops at no exception. Hosts set other modes per
// thread. Without this, a bit of the result could depend on which thread computed it.
//
// Processors other than x86 and 64-bit ARM are left as they are.
#pragma once

#include <cstdint>

#if defined(__SSE__) || defined(_M_X64) || (defined(_M_IX86_FP) && _M_IX86_FP >= 1)
#include <xmmintrin.h>
#define UNDERSTUDY_MODE_SSE
#elif defined(__aarch64__) && defined(__GNUC__)
#define UNDERSTUDY_MODE_ARM
#endif

namespace understudy {

class FloatMode {
public:
    FloatMode() : before_(get()) { set(kDefault); }
    ~FloatMode() { set(before_); }
    FloatMode(const FloatMode&) = delete;
    FloatMode& operator=(const FloatMode&) = delete;

private:
#if defined(UNDERSTUDY_MODE_SSE)
    using Word = unsigned;
    static constexpr Word kDefault = 0x1F80;
    static Word get() { return _mm_getcsr(); }
    static void set(Word word) { _mm_setcsr(word); }
#elif defined(UNDERSTUDY_MODE_ARM)
    using Word = std::uint64_t;
    static constexpr Word kDefault = 0;
    static Word get() {
        Word word;
        asm volatile("mrs %0, fpcr" : "=r"(word));
        return word;
    }
    static void set(Word word) { asm volatile("msr fpcr, %0" : : "r"(word) : "memory"); }
#else
    using Word = int;
    static constexpr Word kDefault = 0;
    static Word get() { return 0; }
    static void set(Word) {}
#endif

    const Word before_;
};

}  // namespace understudy
