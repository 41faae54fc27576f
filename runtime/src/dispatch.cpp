// Chooses the table of kernels for this processor.
#include "kernels.h"

#include <atomic>
#include <cstring>

// The compiler decides, not the build system: a universal build for macOS compiles this file once
// per architecture.
#if defined(__x86_64__) || defined(_M_X64)
#define UNDERSTUDY_X86 1
#else
#define UNDERSTUDY_X86 0
#endif
#if defined(__aarch64__) || defined(_M_ARM64)
#define UNDERSTUDY_NEON 1
#else
#define UNDERSTUDY_NEON 0
#endif

#if UNDERSTUDY_X86 && defined(_MSC_VER)
#include <immintrin.h>
#include <intrin.h>
#elif UNDERSTUDY_X86
#include <cpuid.h>
#endif

namespace understudy {

#if defined(__wasm_simd128__)
extern const Kernels kSimd128;  // the only one: a module without SIMD is a file of its own
#else
extern const Kernels kPortable;
#endif
#if UNDERSTUDY_X86
extern const Kernels kAvx2, kAvx512;
#endif
#if UNDERSTUDY_NEON
extern const Kernels kNeon;
#endif

namespace {

#if UNDERSTUDY_X86
// __builtin_cpu_supports needs a part of the compiler's library that not every build for Windows
// has.
struct Registers {
    unsigned a = 0, b = 0, c = 0, d = 0;
};

Registers cpuid(unsigned leaf) {
    Registers r;
#if defined(_MSC_VER)
    int found[4], most[4];
    __cpuid(most, 0);
    if (leaf > static_cast<unsigned>(most[0])) return r;
    __cpuidex(found, static_cast<int>(leaf), 0);
    r.a = static_cast<unsigned>(found[0]);
    r.b = static_cast<unsigned>(found[1]);
    r.c = static_cast<unsigned>(found[2]);
    r.d = static_cast<unsigned>(found[3]);
#else
    if (leaf <= static_cast<unsigned>(__get_cpuid_max(0, nullptr)))
        __cpuid_count(leaf, 0, r.a, r.b, r.c, r.d);
#endif
    return r;
}

bool bit(unsigned number, int which) { return (number >> which & 1) != 0; }

// Which registers the operating system saves; 0 if it does not tell.
unsigned saved_registers() {
    if (!bit(cpuid(1).c, 27)) return 0;
#if defined(_MSC_VER)
    return static_cast<unsigned>(_xgetbv(0));
#else
    unsigned low = 0, high = 0;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
#endif
}

bool has_avx2() {
    const unsigned c = cpuid(1).c;
    const bool fma = bit(c, 12), f16c = bit(c, 29);
    return (saved_registers() & 6) == 6 && fma && f16c && bit(cpuid(7).b, 5);
}

bool has_avx512() {
#if defined(__APPLE__)  // it saves the registers from their first use on, and says so only then
    const unsigned needed = 6;
#else
    const unsigned needed = 0xE6;
#endif
    const unsigned b = cpuid(7).b;  // F, DQ, BW, VL
    return has_avx2() && (saved_registers() & needed) == needed && bit(b, 16) && bit(b, 17) &&
           bit(b, 30) && bit(b, 31);
}
#endif

struct Tables {
    const Kernels* found[4] = {};
    // The one in use. Setting it is atomic, so that calls on other threads see one table or
    // another.
    std::atomic<const Kernels*> used{nullptr};

    Tables() {
        int count = 0;
#if UNDERSTUDY_X86
        if (has_avx512()) found[count++] = &kAvx512;
        if (has_avx2()) found[count++] = &kAvx2;
#endif
#if UNDERSTUDY_NEON
        found[count++] = &kNeon;
#endif
#if defined(__wasm_simd128__)
        found[count] = &kSimd128;
#else
        found[count] = &kPortable;
#endif
        used = found[0];
    }
};

Tables& tables() {
    static Tables once;
    return once;
}

}  // namespace

const Kernels& kernels() { return *tables().used.load(std::memory_order_relaxed); }
const Kernels* const* all_kernels() { return tables().found; }

bool select_kernels(const char* name) {
    for (const Kernels* const* table = all_kernels(); *table; ++table)
        if (std::strcmp((*table)->name, name) == 0) {
            tables().used = *table;
            return true;
        }
    return false;
}

}  // namespace understudy
