// Sixteen poses at once, one per lane: each number becomes 16 consecutive floats. Weights, skin and
// rest positions are then read once for all 16 poses, and nothing is summed across a register.
// Included after kernels_body.h, under the same rules; also needs V::transpose and V::prefetch.

#if defined(UNDERSTUDY_ONE_POSE)

namespace {
constexpr decltype(Kernels::to_lanes) to_lanes = nullptr;
constexpr decltype(Kernels::dense_lanes) dense_lanes = nullptr;
constexpr decltype(Kernels::blend_lanes) blend_lanes = nullptr;
constexpr decltype(Kernels::blend_dense_lanes) blend_dense_lanes = nullptr;
constexpr decltype(Kernels::skin_lanes) skin_lanes = nullptr;
}  // namespace

#else

// Where code must be small, the inner loops are not copied into each of their callers.
#if defined(UNDERSTUDY_FEW_REGISTERS) && !defined(_MSC_VER)
#define UNDERSTUDY_LANES __attribute__((noinline))
#else
#define UNDERSTUDY_LANES inline
#endif

namespace {

// Transposes `count` numbers of each of 16 poses. `count` is rounded up to a multiple of 16.
void to_lanes(const float* from, std::size_t stride, std::size_t count, float* to) {
    for (std::size_t first = 0; first < count; first += W)
        for (int group = 0; group < kPerUnit; ++group) {
            F block[W];
            for (int i = 0; i < W; ++i) block[i] = V::load(from + (group * W + i) * stride + first);
            V::transpose(block);
            for (int i = 0; i < W; ++i) V::store(to + (first + i) * kLanes + group * W, block[i]);
        }
}

// A number that is known at compile time.
template <int N>
struct Count {
    static constexpr int value = N;
};

// Some columns of some rows of a matrix: the weights of the first column start at `w`, columns are
// `step` floats apart, and `first` of them come before.
//
// Only the first pass over a panel reads it from memory; the others find it in the cache. Each pass
// therefore prefetches some of the next panel, at `ahead`, `ahead_step` bytes per column.
struct LaneRows {
    const float* w;
    std::size_t step, first, columns;
    const char* ahead;
    std::size_t ahead_step;

    LaneRows from(std::size_t row) const {
        return {w + row, step, first, columns, ahead, ahead_step};
    }
};

// y = W x, or y += W x if columns came before, for as many rows as keep the sums in registers and
// for W of the 16 poses.
template <int Rows>
UNDERSTUDY_LANES void lanes_of_rows(const LaneRows& rows, const float* x, float* y,
                                    std::size_t y_row) {
    const float* w = rows.w;
    const char* ahead = rows.ahead;
    F sum[Rows];
    for (int r = 0; r < Rows; ++r) sum[r] = rows.first ? V::load(y + r * y_row) : V::zero();
    for (std::size_t k = 0; k < rows.columns;
         ++k, w += rows.step, x += kLanes, ahead += rows.ahead_step) {
        V::prefetch(ahead);
        const F at = V::load(x);
        for (int r = 0; r < Rows; ++r) sum[r] = V::fma(V::set1(w[r]), at, sum[r]);
    }
    for (int r = 0; r < Rows; ++r) V::store(y + r * y_row, sum[r]);
}

// `Rows` rows (4 to 16) for all vectors and poses.
template <int Rows>
inline void rows_lanes(const LaneRows& rows, const Product& product, float* y) {
    // As many rows as keep the sums in registers.
    constexpr int kTogether = W == 16 || Rows < 8 ? Rows : 8;
    constexpr int kRest = Rows % kTogether;
    for (std::size_t v = 0; v < product.vectors; ++v)
        for (int group = 0; group < kPerUnit; ++group) {
            const float* x = product.x + v * product.x_stride + rows.first * kLanes + group * W;
            float* to = y + v * product.y_stride + group * W;
            for (int row = 0; row + kTogether <= Rows; row += kTogether)
                lanes_of_rows<kTogether>(rows.from(row), x, to + row * product.y_row,
                                         product.y_row);
            if constexpr (kRest != 0)
                lanes_of_rows<kRest>(rows.from(Rows - kRest), x,
                                     to + (Rows - kRest) * product.y_row, product.y_row);
        }
}

// `Rows` rows, from row `offset`, of a unit whose weights start at `w` in a panel of `height` rows.
template <int Rows>
void unit_lanes(const float* w, std::size_t offset, std::size_t height, std::size_t columns,
                const char* ahead, const Product& product, float* y) {
    rows_lanes<Rows>({w + offset, height, 0, columns, ahead, height * sizeof *w}, product, y);
}

// The same for halves. Some columns at a time are widened once for all vectors and poses.
template <int Rows>
void unit_lanes(const std::uint16_t* w, std::size_t offset, std::size_t height, std::size_t columns,
                const char* ahead, const Product& product, float* y) {
    constexpr std::size_t kColumns = 128;
    alignas(64) float wide[kColumns * Panels::kUnit];
    for (std::size_t first = 0; first == 0 || first < columns; first += kColumns) {
        const std::size_t count = columns - first < kColumns ? columns - first : kColumns;
        const std::uint16_t* from = w + first * height;
        for (std::size_t r = 0; r < Panels::kUnit; r += W)
            for (std::size_t k = 0; k < count; ++k)
                V::store(wide + k * Panels::kUnit + r, V::load_half(from + k * height + r));
        rows_lanes<Rows>({wide + offset, Panels::kUnit, first, count,
                          ahead + first * height * sizeof *w, height * sizeof *w},
                         product, y);
    }
}

template <class Weight>
void panels_lanes(const Panels& matrix, std::size_t first, std::size_t last,
                  const Product& product) {
    for (std::size_t unit = first / Panels::kUnit * Panels::kUnit; unit < last;
         unit += Panels::kUnit) {
        const std::size_t top = unit / Panels::kRows * Panels::kRows, left = matrix.rows - top,
                          height = left < Panels::kRows ? left : Panels::kRows;
        const std::size_t begin = unit < first ? first : unit,
                          end = last < unit + Panels::kUnit ? last : unit + Panels::kUnit;
        const Weight* w =
            static_cast<const Weight*>(matrix.data) + top * matrix.columns + (unit - top);
        const Weight* ahead = product.next && top + height >= last
                                  ? static_cast<const Weight*>(product.next) + (unit - top)
                                  : w + height * matrix.columns;
        float* y = product.y + (begin - first) * product.y_row;
        const auto compute = [&](auto rows, std::size_t row) {
            unit_lanes<decltype(rows)::value>(w, row - unit, height, matrix.columns,
                                              reinterpret_cast<const char*>(ahead), product,
                                              y + (row - begin) * product.y_row);
        };
#if defined(UNDERSTUDY_FEW_REGISTERS)
        std::size_t row = begin;
        for (; row + 8 <= end; row += 8) compute(Count<8>(), row);
        if (row < end) compute(Count<4>(), row);
#else
        if (end - begin == 16) compute(Count<16>(), begin);
        else if (end - begin == 12) compute(Count<12>(), begin);
        else if (end - begin == 8) compute(Count<8>(), begin);
        else compute(Count<4>(), begin);
#endif
        if (!product.bias) continue;
        for (std::size_t v = 0; v < product.vectors; ++v)
            for (std::size_t r = begin; r < end; ++r)
                for (int group = 0; group < kPerUnit; ++group) {
                    float* at = y + v * product.y_stride + (r - begin) * product.y_row + group * W;
                    V::store(at,
                             activated(V::load(at), V::set1(product.bias[r]), product.activation));
                }
    }
}

void dense_lanes(const Panels& w, std::size_t first, std::size_t last, const Product& product) {
    if (w.number_size == 2) panels_lanes<std::uint16_t>(w, first, last, product);
    else panels_lanes<float>(w, first, last, product);
}

// The 12 numbers of a transform that are not always zero: three in each of four columns.
constexpr int kNumbers = 12;
inline std::size_t number_at(int i) { return static_cast<std::size_t>(i / 3 * 4 + i % 3) * kLanes; }

void blend_lanes(const BlendJob& job, std::size_t first, std::size_t last) {
    const InfluenceRows rows = job.rows;
    const float* transforms = job.transforms;
    float* out = job.out;
    for (std::size_t number = first; number < last; ++number)
        for (int group = 0; group < kPerUnit; ++group) {
            F sum[kNumbers];
            for (F& s : sum) s = V::zero();
            const Row row(rows, number);
            for (const Influence* at = row.begin; at != row.end; ++at) {
                const float* t = transforms + std::size_t{at->offset} * kLanes + group * W;
                const F weight = V::set1(at->weight);
                for (int i = 0; i < kNumbers; ++i)
                    sum[i] = V::fma(V::load(t + number_at(i)), weight, sum[i]);
            }
            for (int i = 0; i < kNumbers; ++i)
                V::store(out + 16 * kLanes * number + number_at(i) + group * W, sum[i]);
        }
}

template <int Rows>
inline void blend_rows_lanes(const float* weights, std::size_t count, const float* transforms,
                             float* out) {
    F sum[Rows][kNumbers];
    for (int row = 0; row < Rows; ++row)
        for (F& s : sum[row]) s = V::zero();
    for (std::size_t k = 0; k < count; ++k, transforms += 16 * kLanes) {
        F weight[Rows];
        for (int row = 0; row < Rows; ++row) weight[row] = V::set1(weights[row * count + k]);
        for (int i = 0; i < kNumbers; ++i) {
            const F number = V::load(transforms + number_at(i));
            for (int row = 0; row < Rows; ++row)
                sum[row][i] = V::fma(number, weight[row], sum[row][i]);
        }
    }
    for (int row = 0; row < Rows; ++row)
        for (int i = 0; i < kNumbers; ++i)
            V::store(out + 16 * kLanes * row + number_at(i), sum[row][i]);
}

void blend_dense_lanes(const BlendJob& job, std::size_t first, std::size_t last) {
    const float *weights = job.weights, *transforms = job.transforms;
    const std::size_t count = job.count;
    float* out = job.out;
    constexpr int kTogether = W == 8 ? 1 : 2;  // as many as keep the sums in registers
    for (int group = 0; group < kPerUnit; ++group) {
        const float* from = transforms + group * W;
        float* to = out + group * W;
        std::size_t row = first;
        for (; row + kTogether <= last; row += kTogether)
            blend_rows_lanes<kTogether>(weights + row * count, count, from, to + 16 * kLanes * row);
        for (; row < last; ++row)
            blend_rows_lanes<1>(weights + row * count, count, from, to + 16 * kLanes * row);
    }
}

// One vertex of W poses. Each influence moves the point, then the results are weighted: that takes
// fewer products than blending the transforms first.
inline void move_lanes(const VertexJob& job, std::size_t vertex, int group, float* to) {
    F point[3], sum[3];
    for (int axis = 0; axis < 3; ++axis) point[axis] = V::set1(job.base[3 * vertex + axis]);
    if (job.slot_starts)
        for (std::uint32_t slot = job.slot_starts[vertex]; slot != job.slot_starts[vertex + 1];
             ++slot) {
            const float* moved =
                job.displacements + std::size_t{job.slots[slot]} * kLanes + group * W;
            for (int axis = 0; axis < 3; ++axis)
                point[axis] = V::add(point[axis], V::load(moved + axis * kLanes));
        }
    for (int axis = 0; axis < 3; ++axis) sum[axis] = V::zero();
    const Row row(job.skin, vertex);
    for (const Influence* at = row.begin; at != row.end; ++at) {
        const float* t = job.transforms + std::size_t{at->offset} * kLanes + group * W;
        const F weight = V::set1(at->weight);
        for (int axis = 0; axis < 3; ++axis) {
            F moved =
                V::fma(V::load(t + axis * kLanes), point[0], V::load(t + (12 + axis) * kLanes));
            moved = V::fma(V::load(t + (4 + axis) * kLanes), point[1], moved);
            moved = V::fma(V::load(t + (8 + axis) * kLanes), point[2], moved);
            sum[axis] = V::fma(moved, weight, sum[axis]);
        }
    }
    for (int axis = 0; axis < 3; ++axis) {
        const float* centre = job.centre + axis * kLanes + group * W;
        V::store(to + axis * kLanes,
                 V::add(V::add(sum[axis], V::load(centre + 4 * kLanes)), V::load(centre)));
    }
}

// Moves 16 vertices at a time, then transposes their 48 floats from lanes to poses.
void skin_lanes(const VertexJob& job) {
    constexpr std::size_t kVertices = 16;
    alignas(64) float buffer[3 * kVertices * kLanes];
    for (std::size_t vertex = job.first; vertex < job.last; vertex += kVertices) {
        const std::size_t count = job.last - vertex < kVertices ? job.last - vertex : kVertices;
        float* out = job.positions + 3 * vertex;
        // These are more streams than the hardware prefetcher follows.
        for (std::size_t pose = 0; pose < kLanes; ++pose)
            for (std::size_t i = 0; i < 4; ++i)
                V::prefetch(reinterpret_cast<const char*>(out + pose * job.pose_stride) + 64 * i);
        for (std::size_t n = 0; n < count; ++n)
            for (int group = 0; group < kPerUnit; ++group)
                move_lanes(job, vertex + n, group, buffer + 3 * n * kLanes + group * W);
        if (count < kVertices) {
            for (std::size_t pose = 0; pose < kLanes; ++pose)
                for (std::size_t i = 0; i < 3 * count; ++i)
                    out[pose * job.pose_stride + i] = buffer[i * kLanes + pose];
            continue;
        }
        for (int group = 0; group < kPerUnit; ++group)
            for (std::size_t first = 0; first < 3 * kVertices; first += W) {
                F block[W];
                for (int i = 0; i < W; ++i)
                    block[i] = V::load(buffer + (first + i) * kLanes + group * W);
                V::transpose(block);
                for (int i = 0; i < W; ++i)
                    V::store(out + (group * W + i) * job.pose_stride + first, block[i]);
            }
    }
}

}  // namespace

#endif
