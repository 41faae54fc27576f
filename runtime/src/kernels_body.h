// The kernels of one to 16 poses, one pose after the other. They are written once over a register
// type `V`, which each instruction set defines before it includes this file:
//
//     V::F                 a register of V::W floats (4, 8 or 16)
//     load store load_half load_u16 set1 zero add sub mul div max min
//     fma(a, b, c)         a b + c
//     load_influences      see `dequantize_influences`
//     transpose(rows)      W registers as a W x W matrix
//     prefetch prefetch_write
//     UNDERSTUDY_FEW_REGISTERS   defined: 16 registers of 4 floats or fewer, and code must be
//     small;
//                                then V::kSums is the number of sums that stay in registers
//     kQuads, moved_quad, store_quad, of_quad    see `skin_quad`; only where Skinning has kPairs
//     V::Narrow            registers for products of halves with one vector:
//                          load_half set1 zero add fma store
//     V::Skinning          registers that skin one pose, of at most 16 floats:
//         load store set1 zero add mul fma
//         apply(matrix, point)   four columns of four times (x, y, z, 1)
//         load4 store4 store3 add4   on Float4, four floats
//         kPairs, moved_pair, store_pair, first_of, second_of   see `skin_pairs`
//
// Everything is in an unnamed namespace and uses no template of the standard library. Otherwise the
// linker could pick a function that was compiled for a newer processor and run it on an older one.

// Values that must stay in registers need functions that are always inlined and short loops over
// arrays of registers that are always unrolled.
#if defined(_MSC_VER)
#define UNDERSTUDY_INLINE __forceinline
#define UNDERSTUDY_UNROLL
#else
#define UNDERSTUDY_INLINE inline __attribute__((always_inline))
#if defined(__clang__)
#define UNDERSTUDY_UNROLL _Pragma("unroll")
#else
#define UNDERSTUDY_UNROLL _Pragma("GCC unroll 8")
#endif
#endif

namespace {

using F = V::F;
constexpr int W = V::W;
constexpr int kPerUnit = 16 / W;  // registers for 16 rows

// x P(x^2) / Q(x^2), both of degree `Degree`, coefficients in rising powers.
// tools/activations.py fits them.
template <int Degree>
inline F odd_ratio(F x, const float (&p)[Degree + 1], const float (&q)[Degree + 1]) {
    const F square = V::mul(x, x);
    F top = V::set1(p[Degree]), bottom = V::set1(q[Degree]);
    for (int i = Degree - 1; i >= 0; --i) {
        top = V::fma(top, square, V::set1(p[i]));
        bottom = V::fma(bottom, square, V::set1(q[i]));
    }
    return V::div(V::mul(x, top), bottom);
}

// Bounds are the first operands of min and max here and below: NaN then stays NaN on every
// processor.
inline F tanh_of(F x) {
    // Beyond 8.5, tanh differs from 1 by less than 8e-8. The error stays below 4e-7.
    constexpr float p[] = {0.999999946f, 0.134062054f, 0.00352581857f, 2.11215628e-05f,
                           1.40992415e-08f};
    constexpr float q[] = {1.0f, 0.467395168f, 0.0259911326f, 0.000333568934f, 8.07361617e-07f};
    return odd_ratio<4>(V::min(V::set1(8.5f), V::max(V::set1(-8.5f), x)), p, q);
}

inline F gelu_of(F x) {
    // x Phi(x) = max(x, 0) - |x| (1/2 - (Phi(|x|) - 1/2)). Beyond 5.6 the second term is below
    // 6e-8. The error stays below 1e-6.
    constexpr float p[] = {0.398941901f,    0.0358472817f,   0.00480542568f,
                           0.000190156266f, 6.59058276e-06f, 2.17105027e-08f};
    constexpr float q[] = {1.0f,           0.256518554f,    0.0298040153f,
                           0.00200336017f, 8.10112884e-05f, 1.18515131e-06f};
    const F size = V::min(V::set1(5.6f), V::max(x, V::sub(V::zero(), x)));
    return V::sub(V::max(V::zero(), x),
                  V::mul(size, V::sub(V::set1(0.5f), odd_ratio<5>(size, p, q))));
}

#if defined(UNDERSTUDY_FEW_REGISTERS) && !defined(_MSC_VER)
__attribute__((noinline))  // code must be small
#else
inline
#endif
F activated(F sum, F bias, Activation activation) {
    switch (activation) {
        case Activation::linear: return V::add(sum, bias);
        case Activation::tanh: return tanh_of(V::add(sum, bias));
        case Activation::relu: return V::max(V::zero(), V::add(sum, bias));
        case Activation::gelu: return gelu_of(V::add(sum, bias));
    }
    return sum;
}

template <class R>
inline typename R::F load_weight(const float* w) {
    return R::load(w);
}
template <class R>
inline typename R::F load_weight(const std::uint16_t* w) {
    return R::load_half(w);
}

#if defined(UNDERSTUDY_FEW_REGISTERS)

// Finishes `count` sums.
void activate(float* y, std::size_t count, const float* bias, Activation activation) {
    for (std::size_t row = 0; row < count; row += W)
        V::store(y + row,
                 activated(V::load(y + row), bias ? V::load(bias + row) : V::zero(), activation));
}

// The sums of one pose over some registers of a panel, whose columns are `step` numbers apart;
// added to y if `more` is set.
template <int Registers, class Weight>
void sum_rows(const Weight* w, std::size_t step, std::size_t columns, const float* x, bool more,
              float* y) {
    F sum[Registers];
    for (int r = 0; r < Registers; ++r) sum[r] = more ? V::load(y + r * W) : V::zero();
    for (std::size_t k = 0; k < columns; ++k, w += step) {
        const F at = V::set1(x[k]);
        for (int r = 0; r < Registers; ++r) sum[r] = V::fma(load_weight<V>(w + r * W), at, sum[r]);
    }
    for (int r = 0; r < Registers; ++r) V::store(y + r * W, sum[r]);
}

// One panel and one pose. Some columns at a time, so that memory is read almost sequentially though
// the registers hold the sums of a part of the rows only.
template <class Weight>
void panel(const Weight* w, std::size_t height, std::size_t columns, const float* x, float* y) {
    constexpr std::size_t kColumns = 32;
    for (std::size_t first = 0; first == 0 || first < columns; first += kColumns) {
        const std::size_t count = columns - first < kColumns ? columns - first : kColumns;
        const Weight* from = w + first * height;
        std::size_t row = 0;
        for (; row + V::kSums * W <= height; row += V::kSums * W)
            sum_rows<V::kSums>(from + row, height, count, x + first, first != 0, y + row);
        if constexpr (V::kSums * W > 16)
            for (; row < height; row += 16)
                sum_rows<kPerUnit>(from + row, height, count, x + first, first != 0, y + row);
    }
}

template <class Weight>
void panels(const Panels& matrix, std::size_t first, std::size_t last, const Product& of) {
    for (std::size_t top = first; top < last; top += Panels::kRows) {
        const std::size_t left = matrix.rows - top,
                          height = left < Panels::kRows ? left : Panels::kRows;
        const Weight* w = static_cast<const Weight*>(matrix.data) + top * matrix.columns;
        for (std::size_t v = 0; v < of.vectors; ++v) {
            float* y = of.y + v * of.y_stride + (top - first);
            panel(w, height, matrix.columns, of.x + v * of.x_stride, y);
            activate(y, height, of.bias ? of.bias + top : nullptr, of.activation);
        }
    }
}

void dense(const Panels& w, std::size_t first, std::size_t last, const Product& of) {
    if (w.number_size == 2) panels<std::uint16_t>(w, first, last, of);
    else panels<float>(w, first, last, of);
}

#else

// The registers that multiply weights of a type with one vector: see `V::Narrow`.
template <class Weight>
struct RegistersFor {
    using R = V::Narrow;
};
template <>
struct RegistersFor<float> {
    using R = V;
};

// The sums of one pose over a panel of `Units` units. Each register is summed in `Chains`
// independent chains, so that additions need not wait for each other. Memory is read sequentially;
// prefetching by hand was slower at every distance tried.
template <int Units, int Chains, class Weight>
inline void panel_one(const Weight* w, std::size_t columns, const float* x,
                      F (&sum)[Units * kPerUnit]) {
    using R = typename RegistersFor<Weight>::R;
    constexpr int kRegisters = Units * 16 / R::W;
    typename R::F partial[Chains][kRegisters];
    for (int c = 0; c < Chains; ++c)
        for (int r = 0; r < kRegisters; ++r) partial[c][r] = R::zero();
    std::size_t k = 0;
    for (; k + Chains <= columns; k += Chains)
        for (int c = 0; c < Chains; ++c, w += Units * 16) {
            const typename R::F at = R::set1(x[k + c]);
            for (int r = 0; r < kRegisters; ++r)
                partial[c][r] = R::fma(load_weight<R>(w + r * R::W), at, partial[c][r]);
        }
    for (; k < columns; ++k, w += Units * 16) {
        const typename R::F at = R::set1(x[k]);
        for (int r = 0; r < kRegisters; ++r)
            partial[0][r] = R::fma(load_weight<R>(w + r * R::W), at, partial[0][r]);
    }
    for (int c = 1; c < Chains; ++c)
        for (int r = 0; r < kRegisters; ++r) partial[0][r] = R::add(partial[0][r], partial[c][r]);
    alignas(64) float sums[Units * 16];  // from registers of R to registers of V
    for (int r = 0; r < kRegisters; ++r) R::store(sums + r * R::W, partial[0][r]);
    for (int r = 0; r < Units * kPerUnit; ++r) sum[r] = V::load(sums + r * W);
}

// The sums of `Poses` poses over some registers of a panel, whose columns are `step` numbers apart.
template <int Registers, int Poses, class Weight>
inline void panel_many(const Weight* w, std::size_t step, std::size_t columns, const float* x,
                       std::size_t x_stride, F (&sum)[Poses][Registers]) {
    for (int p = 0; p < Poses; ++p)
        for (int r = 0; r < Registers; ++r) sum[p][r] = V::zero();
    for (std::size_t k = 0; k < columns; ++k, w += step) {
        F weight[Registers];
        for (int r = 0; r < Registers; ++r) weight[r] = load_weight<V>(w + r * W);
        for (int p = 0; p < Poses; ++p) {
            const F at = V::set1(x[p * x_stride + k]);
            for (int r = 0; r < Registers; ++r) sum[p][r] = V::fma(weight[r], at, sum[p][r]);
        }
    }
}

// What all poses of some rows share.
struct Rows {
    const float* bias;
    Activation activation;

    Rows from(std::size_t row) const { return {bias ? bias + row : nullptr, activation}; }
};

template <int Registers>
inline void write_rows(const F (&sum)[Registers], const Rows& rows, float* y) {
    for (int r = 0; r < Registers; ++r)
        V::store(y + r * W, activated(sum[r], rows.bias ? V::load(rows.bias + r * W) : V::zero(),
                                      rows.activation));
}

// The functions below take the fields of `Product` one by one: gcc generates slower loops for
// halves where they are passed in a struct.

template <int Units, int Poses, class Weight>
void poses_of_panel(const Weight* w, std::size_t columns, const float* x, std::size_t x_stride,
                    const Rows& rows, float* y, std::size_t y_stride) {
    // As many units at a time as keep the sums in registers: 32 registers of 16 floats, else 16 or
    // more of fewer floats.
    constexpr int kTogether = W == 16 ? Units : 1;
    for (int unit = 0; unit < Units; unit += kTogether) {
        F sum[Poses][kTogether * kPerUnit];
        panel_many<kTogether * kPerUnit, Poses>(w + unit * 16, Units * 16, columns, x, x_stride,
                                                sum);
        for (int p = 0; p < Poses; ++p)
            write_rows(sum[p], rows.from(unit * 16), y + p * y_stride + unit * 16);
    }
}

template <int Units, class Weight>
void panel(const Weight* w, std::size_t columns, const float* x, std::size_t x_stride,
           std::size_t poses, const Rows& rows, float* y, std::size_t y_stride) {
    if (poses == 1) {
        F sum[Units * kPerUnit];
        panel_one<Units, 4 / Units>(w, columns, x, sum);
        return write_rows(sum, rows, y);
    }
    for (; poses >= 4; poses -= 4, x += 4 * x_stride, y += 4 * y_stride)
        poses_of_panel<Units, 4>(w, columns, x, x_stride, rows, y, y_stride);
    if (poses == 3) poses_of_panel<Units, 3>(w, columns, x, x_stride, rows, y, y_stride);
    if (poses == 2) poses_of_panel<Units, 2>(w, columns, x, x_stride, rows, y, y_stride);
    if (poses == 1) poses_of_panel<Units, 1>(w, columns, x, x_stride, rows, y, y_stride);
}

template <class Weight>
void panels(const Panels& matrix, std::size_t first, std::size_t last, const float* x,
            std::size_t x_stride, std::size_t poses, const Rows& all, float* y,
            std::size_t y_stride) {
    for (std::size_t row = first; row < last; row += Panels::kRows, y += Panels::kRows) {
        const std::size_t left = matrix.rows - row, columns = matrix.columns;
        const Weight* w = static_cast<const Weight*>(matrix.data) + row * columns;
        const Rows rows = all.from(row);
        if (left >= 64) panel<4>(w, columns, x, x_stride, poses, rows, y, y_stride);
        else if (left == 48) panel<3>(w, columns, x, x_stride, poses, rows, y, y_stride);
        else if (left == 32) panel<2>(w, columns, x, x_stride, poses, rows, y, y_stride);
        else panel<1>(w, columns, x, x_stride, poses, rows, y, y_stride);
    }
}

void dense(const Panels& w, std::size_t first, std::size_t last, const Product& of) {
    const Rows rows{of.bias, of.activation};
    if (w.number_size == 2)
        panels<std::uint16_t>(w, first, last, of.x, of.x_stride, of.vectors, rows, of.y,
                              of.y_stride);
    else panels<float>(w, first, last, of.x, of.x_stride, of.vectors, rows, of.y, of.y_stride);
}

#endif

// The influences of a row, in either of the two layouts.
struct Row {
    const Influence* begin;
    const Influence* end;
    Row(const InfluenceRows& rows, std::size_t row)
        : begin(rows.entries + (rows.width ? row * rows.width : rows.starts[row])),
          end(rows.entries + (rows.width ? (row + 1) * rows.width : rows.starts[row + 1])) {}
};

// Transforms of one pose are blended in registers `S`; one transform takes kOfMatrix of them.
using S = V::Skinning;
constexpr int kOfMatrix = 16 / S::W;
using Matrix = S::F[kOfMatrix];

UNDERSTUDY_INLINE void blended(const Influence* at, const Influence* end, const float* transforms,
                               Matrix& matrix) {
    S::F weight = S::set1(at->weight);
    for (int r = 0; r < kOfMatrix; ++r)
        matrix[r] = S::mul(S::load(transforms + at->offset + r * S::W), weight);
    ++at;
    if (end - at >= 8) {  // long rows: two sums, so that additions need not wait for each other
        Matrix other;
        for (int r = 0; r < kOfMatrix; ++r) other[r] = S::zero();
        for (; end - at >= 2; at += 2) {
            weight = S::set1(at[0].weight);
            const S::F second = S::set1(at[1].weight);
            for (int r = 0; r < kOfMatrix; ++r) {
                matrix[r] =
                    S::fma(S::load(transforms + at[0].offset + r * S::W), weight, matrix[r]);
                other[r] = S::fma(S::load(transforms + at[1].offset + r * S::W), second, other[r]);
            }
        }
        for (int r = 0; r < kOfMatrix; ++r) matrix[r] = S::add(matrix[r], other[r]);
    }
    for (; at != end; ++at) {
        weight = S::set1(at->weight);
        for (int r = 0; r < kOfMatrix; ++r)
            matrix[r] = S::fma(S::load(transforms + at->offset + r * S::W), weight, matrix[r]);
    }
}

void blend(const BlendJob& job, std::size_t first, std::size_t last) {
    const InfluenceRows rows = job.rows;
    const float* transforms = job.transforms;
    float* out = job.out;
    for (std::size_t number = first; number < last; ++number) {
        const Row row(rows, number);
        Matrix matrix;
        blended(row.begin, row.end, transforms, matrix);
        for (int r = 0; r < kOfMatrix; ++r) S::store(out + 16 * number + r * S::W, matrix[r]);
    }
}

// W rows at once, one per lane, so that the numbers of a transform that are always zero cost
// nothing. The result is transposed into rows.
inline void blend_rows(const float* weights, std::size_t count, const float* transforms,
                       F (&sum)[kPerUnit][W]) {
    for (int n = 0; n < 16; ++n) sum[n / W][n % W] = V::zero();
    for (std::size_t k = 0; k < count; ++k, weights += kWeightRows, transforms += 16) {
        const F weight = V::load(weights);
        for (int column = 0; column < 16; column += 4)
            for (int n = column; n < column + 3; ++n)
                sum[n / W][n % W] = V::fma(weight, V::set1(transforms[n]), sum[n / W][n % W]);
    }
    for (int group = 0; group < kPerUnit; ++group) V::transpose(sum[group]);
}

void blend_dense(const BlendJob& job, std::size_t first, std::size_t last) {
    const float *weights = job.weights, *transforms = job.transforms;
    const std::size_t count = job.count;
    float* out = job.out;
    for (std::size_t row = first; row < last; row += W) {
        F rows[kPerUnit][W];
        blend_rows(weights + row / kWeightRows * kWeightRows * count + row % kWeightRows, count,
                   transforms, rows);
        for (int n = 0; n < W && row + n < last; ++n)
            for (int group = 0; group < kPerUnit; ++group)
                V::store(out + 16 * (row + n) + group * W, rows[group][n]);
    }
}

// Rest plus mean plus every displacement of a vertex.
UNDERSTUDY_INLINE S::Float4 point_of(const VertexJob& job, std::size_t vertex) {
    S::Float4 point = S::load4(job.base + 3 * vertex);
    if (job.slot_starts)
        for (std::uint32_t slot = job.slot_starts[vertex]; slot != job.slot_starts[vertex + 1];
             ++slot)
            point = S::add4(point, S::load4(job.displacements + job.slots[slot]));
    return point;
}

// The blended transform of a vertex. `Width` as in `InfluenceRows`; a width known at compile time
// saves a test per vertex.
template <int Width>
UNDERSTUDY_INLINE void matrix_of(const VertexJob& job, std::size_t vertex, Matrix& matrix) {
    if constexpr (Width != 0) {
        const Influence* at = job.skin.entries + vertex * Width;
        blended(at, at + Width, job.transforms, matrix);
    } else {
        const Row row(job.skin, vertex);
        blended(row.begin, row.end, job.transforms, matrix);
    }
}

// Where positions are written: `VertexJob::positions`, `VertexJob::interleaved` or both. Known at
// compile time, because stores compete with the loads that skinning waits for.
enum class Output { tight, interleaved, both };

// Moves four vertices at once if the instruction set supports it (`V::kQuads`) and the four form a
// rigid quad. Returns whether it did.
template <Output To, class Registers>
UNDERSTUDY_INLINE bool skin_quad(const VertexJob& job, std::size_t vertex) {
    if constexpr (Registers::kQuads) {
        if (vertex % 4 || vertex + 4 > job.last || !job.rigid_quads[vertex / 4]) return false;
        const Row row(job.skin, vertex);
        const float* moved =
            job.slot_starts ? job.displacements + job.slots[job.slot_starts[vertex]] : nullptr;
        const auto quad = Registers::moved_quad(job.base + 3 * vertex, moved,
                                                job.transforms + row.begin->offset, job.centre);
        if constexpr (To != Output::interleaved)
            Registers::store_quad(job.positions + 3 * vertex, quad);
        if constexpr (To != Output::tight) {
            S::store3(job.interleaved.at(vertex), Registers::template of_quad<0>(quad));
            S::store3(job.interleaved.at(vertex + 1), Registers::template of_quad<1>(quad));
            S::store3(job.interleaved.at(vertex + 2), Registers::template of_quad<2>(quad));
            S::store3(job.interleaved.at(vertex + 3), Registers::template of_quad<3>(quad));
        }
        return true;
    } else {
        return false;
    }
}

// Moves `Count` vertices, two by two. All their transforms are blended before the first is used, so
// that no operation waits for the one before it. May write two floats beyond the vertices in
// `positions`.
template <int Width, Output To, int Count, class Registers>
UNDERSTUDY_INLINE void skin_pairs(const VertexJob& job, std::size_t first,
                                  const typename Registers::Centre& centre) {
    Matrix matrix[Count];
    UNDERSTUDY_UNROLL
    for (int n = 0; n < Count; ++n) matrix_of<Width>(job, first + n, matrix[n]);
    UNDERSTUDY_UNROLL
    for (int n = 0; n < Count; n += 2) {
        const std::size_t vertex = first + n;
        const auto pair = Registers::moved_pair(matrix[n], matrix[n + 1], point_of(job, vertex),
                                                point_of(job, vertex + 1), centre);
        if constexpr (To != Output::interleaved)
            Registers::store_pair(job.positions + 3 * vertex, pair);
        if constexpr (To != Output::tight) {
            S::store3(job.interleaved.at(vertex), Registers::first_of(pair));
            S::store3(job.interleaved.at(vertex + 1), Registers::second_of(pair));
        }
    }
}

// Moves as many vertices together as the instruction set allows (`S::kPairs`). Returns the first
// vertex that is left; at most two are.
template <int Width, Output To, class Registers>
UNDERSTUDY_INLINE std::size_t skin_most(const VertexJob& job) {
    std::size_t vertex = job.first;
    if constexpr (Registers::kPairs) {
        const typename Registers::Centre centre(job.centre);
        constexpr int kTogether = Width == 0 ? 2
                                  : W == 16  ? 8
                                             : 4;  // as many as keep their transforms in registers
        constexpr bool kMayBeRigid = Width == 0 || Width == 1;
        for (; !kMayBeRigid && vertex + kTogether < job.last; vertex += kTogether)
            skin_pairs<Width, To, kTogether, Registers>(job, vertex, centre);
        while (vertex + 2 < job.last) {
            if (kMayBeRigid && skin_quad<To, V>(job, vertex)) {
                vertex += 4;
                continue;
            }
            skin_pairs<Width, To, 2, Registers>(job, vertex, centre);
            vertex += 2;
        }
    }
    return vertex;
}

template <int Width, bool Displaced, Output To>
inline void skin_linear_of(const VertexJob& given) {
    VertexJob job = given;  // a copy, because writing positions could change `given` as far as the
                            // compiler knows
    if (!Displaced) job.slot_starts = nullptr;
    const S::Float4 centre = S::load4(job.centre), rounding = S::load4(job.centre + 4);
    for (std::size_t vertex = skin_most<Width, To, S>(job); vertex < job.last; ++vertex) {
        Matrix matrix;
        matrix_of<Width>(job, vertex, matrix);
        const S::Float4 local = S::apply(matrix, point_of(job, vertex));
        const S::Float4 position = S::add4(S::add4(local, rounding), centre);
        if (To != Output::interleaved) S::store3(job.positions + 3 * vertex, position);
        if (To != Output::tight) S::store3(job.interleaved.at(vertex), position);
    }
}

template <int Width>
inline void skin_linear_of(const VertexJob& job) {
    if constexpr (S::kPairs) {
        if (job.interleaved.first && job.slot_starts)
            return skin_linear_of<Width, true, Output::both>(job);
        if (job.interleaved.first && job.positions)
            return skin_linear_of<Width, false, Output::both>(job);
        if (job.interleaved.first) return skin_linear_of<Width, false, Output::interleaved>(job);
    }
    if (job.slot_starts) skin_linear_of<Width, true, Output::tight>(job);
    else skin_linear_of<Width, false, Output::tight>(job);
}

void skin_linear_to_any(const VertexJob& job) {
    switch (job.skin.width) {
        case 1: return skin_linear_of<1>(job);
        case 2: return skin_linear_of<2>(job);
        case 3: return skin_linear_of<3>(job);
        case 4: return skin_linear_of<4>(job);
        default: return skin_linear_of<0>(job);
    }
}

void skin_linear(const VertexJob& job) {
    if (S::kPairs || !job.interleaved.first) return skin_linear_to_any(job);
    // Other instruction sets gain nothing from writing both at once.
    constexpr std::size_t kTogether = 64;
    float own[3 * kTogether];
    VertexJob some = job;
    for (; some.first < job.last; some.first = some.last) {
        some.last = job.last - some.first < kTogether ? job.last : some.first + kTogether;
        // The position of vertex `first` is the start of `own`. As an integer, since no pointer may
        // leave its array.
        if (!job.positions)
            some.positions = reinterpret_cast<float*>(reinterpret_cast<std::uintptr_t>(own) -
                                                      3 * some.first * sizeof *own);
        skin_linear_to_any(some);
        for (std::size_t vertex = some.first; vertex < some.last; ++vertex)
            std::memcpy(job.interleaved.at(vertex), some.positions + 3 * vertex, 3 * sizeof *own);
    }
}

// A transform here is a real quaternion (4 numbers), a dual quaternion (4) and a stretch (6: xx xy
// xz yy yz zz). The stretch is applied before the rotation and translation.
void skin_dual_quaternion(const VertexJob& job) {
    for (std::size_t vertex = job.first; vertex != job.last; ++vertex) {
        const Row row(job.skin, vertex);
        const float* pivot =
            job.transforms +
            row.begin->offset;  // q and -q are the same rotation; signs follow the first influence
        float sum[16] = {};
        for (const Influence* at = row.begin; at != row.end; ++at) {
            const float* t = job.transforms + at->offset;
            const float along =
                pivot[0] * t[0] + pivot[1] * t[1] + pivot[2] * t[2] + pivot[3] * t[3];
            const float turn = along < 0 ? -at->weight : at->weight;
            for (int i = 0; i < 8; ++i) sum[i] += turn * t[i];
            for (int i = 8; i < 16; ++i) sum[i] += at->weight * t[i];
        }
        float p[4];
        S::store4(p, point_of(job, vertex));
        const float* s = sum + 8;
        const float x = s[0] * p[0] + s[1] * p[1] + s[2] * p[2];
        const float y = s[1] * p[0] + s[3] * p[1] + s[4] * p[2];
        const float z = s[2] * p[0] + s[4] * p[1] + s[5] * p[2];
        const float scale =
            1 / S::root(sum[0] * sum[0] + sum[1] * sum[1] + sum[2] * sum[2] + sum[3] * sum[3]);
        const float w = sum[0] * scale, a = sum[1] * scale, b = sum[2] * scale, c = sum[3] * scale;
        const float ew = sum[4] * scale, ea = sum[5] * scale, eb = sum[6] * scale,
                    ec = sum[7] * scale;
        // Rotate: v + 2 w (q x v) + 2 q x (q x v); shift: 2 (w e - ew q + q x e).
        const float tx = 2 * (b * z - c * y), ty = 2 * (c * x - a * z), tz = 2 * (a * y - b * x);
        const float local[3] = {
            x + w * tx + b * tz - c * ty + 2 * (w * ea - ew * a + b * ec - c * eb),
            y + w * ty + c * tx - a * tz + 2 * (w * eb - ew * b + c * ea - a * ec),
            z + w * tz + a * ty - b * tx + 2 * (w * ec - ew * c + a * eb - b * ea)};
        for (int axis = 0; axis < 3; ++axis) {
            const float position = (local[axis] + job.centre[4 + axis]) + job.centre[axis];
            if (job.positions) job.positions[3 * vertex + axis] = position;
            if (job.interleaved.first) job.interleaved.at(vertex)[axis] = position;
        }
    }
}

void copy_positions(const float* positions, const std::uint32_t* vertices, std::size_t count,
                    const InterleavedPositions& to) {
    char* out = to.first;
    const std::size_t stride = to.stride;
    // Three floats and no more: another thread may write the vertex behind.
    for (const std::uint32_t* end = vertices + count; vertices != end; ++vertices, out += stride)
        std::memcpy(out, positions + 3 * std::size_t{*vertices}, 3 * sizeof *positions);
}

void prefetch_write(float* data, std::size_t count) {
    for (std::size_t i = 0; i < count; i += 16) V::prefetch_write(data + i);
}

}  // namespace
