// Converts `QuantizedVertices` to what the other kernels read. Included after kernels_body.h, under
// the same rules.

namespace {

void widen(const std::uint16_t* halves, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; i += W) V::store(out + i, V::load_half(halves + i));
}

// Writes beyond the end of a run; the next run overwrites that.
void dequantize_points(const QuantizedVertices& from, std::size_t first, std::size_t last,
                       const std::uint32_t* slots, const float* displacements, float* out) {
    const QuantizedVertices::BlockStart& start = from.starts[first / QuantizedVertices::kBlock];
    const std::uint16_t* numbers = from.base + 3 * first;
    const float *lows = from.lows, *steps = from.steps;
    if (displacements) slots += start.slot;
    const VertexRun* run = from.runs + start.run;
    for (const float* end = out + 3 * (last - first); out < end; ++run) {
        const std::size_t count = 3 * std::size_t{run->length};
        const std::uint32_t* next = displacements ? slots + run->slot_count : slots;
        std::size_t i = 0, axis = 0;
        do {
            F point = V::fma(V::load_u16(numbers + i), V::load(steps + axis), V::load(lows + axis));
            for (const std::uint32_t* slot = slots; slot != next; ++slot)
                point = V::add(point, V::load(displacements + *slot + i));
            V::store(out + i, point);
            i += W;
            axis = axis + W < QuantizedVertices::kAxes ? axis + W : 0;
        } while (i < count);
        numbers += count;
        out += count;
        slots = next;
    }
}

void dequantize_influences(const QuantizedVertices& from, std::size_t first, std::size_t last,
                           Influence* entries, std::uint32_t* starts) {
    constexpr std::size_t kGroup = QuantizedVertices::kGroup;
    std::size_t count = from.width * (last - first);
    if (from.ends) {
        std::uint32_t at = 0;
        starts[0] = 0;
        for (std::size_t vertex = first; vertex < last; vertex += kGroup, starts += kGroup) {
            // A copy: bytes may alias `starts`, which would prevent vectorization.
            std::uint8_t ends[kGroup];
            for (std::size_t n = 0; n < kGroup; ++n) ends[n] = from.ends[vertex + n];
            for (std::size_t n = 0; n < kGroup; ++n) starts[n + 1] = at + ends[n];
            at += ends[kGroup - 1];
        }
        count = at;
    }
    static_assert(sizeof(Influence) == 2 * sizeof(float), "an influence is two numbers");
    const std::uint16_t* numbers =
        from.influences + 2 * std::size_t{from.starts[first / QuantizedVertices::kBlock].influence};
    const F low = V::set1(from.weight_low), step = V::set1(from.weight_step);
    float* to = reinterpret_cast<float*>(entries);
    for (std::size_t i = 0; i < 2 * count; i += W)
        V::store(to + i, V::load_influences(numbers + i, low, step));
}

}  // namespace
