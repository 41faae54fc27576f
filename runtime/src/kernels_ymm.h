// Registers of eight floats, for x86 with and without AVX-512. Included inside an unnamed
// namespace, after <immintrin.h>.
//
// AVX-512 uses them to skin a single pose and to widen halves. A transform takes two of them, and
// one broadcast weight serves both. See "Kernels" in DESIGN.md for why 16 floats are not faster.

struct Ymm {
    using F = __m256;
    using Float4 = __m128;
    static constexpr int W = 8;
    static F load(const float* p) { return _mm256_loadu_ps(p); }
    static F load_half(const std::uint16_t* p) {
        return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
    }
    static void store(float* p, F a) { _mm256_storeu_ps(p, a); }
    static F set1(float a) { return _mm256_set1_ps(a); }
    static F zero() { return _mm256_setzero_ps(); }
    static F add(F a, F b) { return _mm256_add_ps(a, b); }
    static F sub(F a, F b) { return _mm256_sub_ps(a, b); }
    static F mul(F a, F b) { return _mm256_mul_ps(a, b); }
    static F fma(F a, F b, F c) { return _mm256_fmadd_ps(a, b, c); }
    static Float4 load4(const float* p) { return _mm_loadu_ps(p); }
    static void store4(float* p, Float4 a) { _mm_storeu_ps(p, a); }
    static void store3(float* p, Float4 a) {
#if defined(__AVX512VL__)
#if defined(__GNUC__)
        // Otherwise gcc merges this with the extraction of `a` from a wider register, which is
        // slow on Zen 4.
        asm("" : "+v"(a));
#endif
        _mm_mask_storeu_ps(p, 7, a);
#else
        _mm_storel_pi(reinterpret_cast<__m64*>(p), a);
        _mm_store_ss(p + 2, _mm_movehl_ps(a, a));
#endif
    }
    static Float4 add4(Float4 a, Float4 b) { return _mm_add_ps(a, b); }
    static void prefetch_write(float* p) {
#if defined(_MSC_VER) && !defined(__clang__)
        _m_prefetchw(p);
#else
        __builtin_prefetch(p, 1, 3);
#endif
    }
    static float root(float a) { return _mm_cvtss_f32(_mm_sqrt_ss(_mm_set_ss(a))); }

    static Float4 apply(const F (&matrix)[2], Float4 point) {
        const F both = _mm256_insertf128_ps(_mm256_castps128_ps256(point), point, 1),
                one = _mm256_set1_ps(1.0f);
        const F left = _mm256_permutevar_ps(both, _mm256_set_epi32(1, 1, 1, 1, 0, 0, 0, 0));
        const F right = _mm256_blend_ps(_mm256_permute_ps(both, 0xAA), one, 0xF0);
        const F sum = fma(matrix[0], left, mul(matrix[1], right));
        return add4(_mm256_castps256_ps128(sum), _mm256_extractf128_ps(sum, 1));
    }

    // Two vertices side by side. One register holds the same column of both transforms; each
    // coordinate of a point fills its half of a register.
    static constexpr bool kPairs = true;
    struct Centre {
        F whole, rounding;
        explicit Centre(const float* at) : whole(twice(at)), rounding(twice(at + 4)) {}
        static F twice(const float* at) {
            return _mm256_broadcast_ps(reinterpret_cast<const __m128*>(at));
        }
    };
    static F moved_pair(const F (&matrix)[2], const F (&next)[2], Float4 point, Float4 next_point,
                        const Centre& centre) {
        const F points = _mm256_insertf128_ps(_mm256_castps128_ps256(point), next_point, 1);
        F sum = add(_mm256_permute2f128_ps(matrix[1], next[1], 0x31), centre.rounding);
        sum = fma(_mm256_permute2f128_ps(matrix[0], next[0], 0x20), _mm256_permute_ps(points, 0x00),
                  sum);
        sum = fma(_mm256_permute2f128_ps(matrix[0], next[0], 0x31), _mm256_permute_ps(points, 0x55),
                  sum);
        sum = fma(_mm256_permute2f128_ps(matrix[1], next[1], 0x20), _mm256_permute_ps(points, 0xAA),
                  sum);
        return add(sum, centre.whole);
    }
    static void store_pair(float* out, F pair) {
        _mm256_storeu_ps(out,
                         _mm256_permutevar8x32_ps(pair, _mm256_set_epi32(7, 7, 6, 5, 4, 2, 1, 0)));
    }
    static Float4 first_of(F pair) { return _mm256_castps256_ps128(pair); }
    static Float4 second_of(F pair) { return _mm256_extractf128_ps(pair, 1); }
};
