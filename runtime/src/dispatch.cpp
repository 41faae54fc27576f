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
#if defined(_MSC_VER)
bool bit(const int (&registers)[4], int which, int number) {
    return (registers[which] >> number & 1) != 0;
}

bool has_avx2() {
    int leaf1[4], leaf7[4];
    __cpuid(leaf1, 1);
    __cpuidex(leaf7, 7, 0);
    const bool saved = bit(leaf1, 2, 27) &&
                       (_xgetbv(0) & 6) == 6;  // the operating system saves the wide registers
    return saved && bit(leaf1, 2, 12) && bit(leaf1, 2, 29) && bit(leaf7, 1, 5);
}

bool has_avx512() {
    int leaf7[4];
    __cpuidex(leaf7, 7, 0);
    return has_avx2() && (_xgetbv(0) & 0xE6) == 0xE6 && bit(leaf7, 1, 16) && bit(leaf7, 1, 17) &&
           bit(leaf7, 1, 30) && bit(leaf7, 1, 31);
}
#else
bool has_f16c() {  // older versions of clang do not know its name
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid(1, &a, &b, &c, &d) && (c >> 29 & 1);
}

bool has_avx2() {
    __builtin_cpu_init();
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
}

bool has_avx512() {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl");
}
#endif
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
