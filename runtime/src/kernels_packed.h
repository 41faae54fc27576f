// From 16 bits to what the other kernels read: see `PackedVertices`. Included like kernels_body.h, and after it.

namespace {

void widen(const std::uint16_t* halves, std::size_t count, float* out) {
    for (std::size_t i = 0; i < count; i += W) V::store(out + i, V::load_half(halves + i));
}

// What lies beyond the end of a run is written too, and then again by the next run.
void place_points(const PackedVertices& from, std::size_t first, std::size_t last, const std::uint32_t* places, const float* displacements, float* out) {
    const PackedVertices::Start& start = from.starts[first / PackedVertices::kStep];
    const std::uint16_t* numbers = from.base + 3 * first;
    const float *lows = from.lows, *steps = from.steps;
    if (displacements) places += start.place;
    const VertexRun* run = from.runs + start.run;
    for (const float* end = out + 3 * (last - first); out < end; ++run) {
        const std::size_t count = 3 * std::size_t{run->length};
        const std::uint32_t* next = displacements ? places + run->places : places;
        std::size_t i = 0, axis = 0;
        do {
            F point = V::fma(V::load_u16(numbers + i), V::load(steps + axis), V::load(lows + axis));
            for (const std::uint32_t* place = places; place != next; ++place) point = V::add(point, V::load(displacements + *place + i));
            V::store(out + i, point);
            i += W;
            axis = axis + W < PackedVertices::kAxes ? axis + W : 0;
        } while (i < count);
        numbers += count;
        out += count;
        places = next;
    }
}

void unpack_influences(const PackedVertices& from, std::size_t first, std::size_t last, Influence* entries, std::uint32_t* starts) {
    constexpr std::size_t kTogether = PackedVertices::kTogether;
    std::size_t count = from.width * (last - first);
    if (from.ends) {
        std::uint32_t at = 0;
        starts[0] = 0;
        for (std::size_t vertex = first; vertex < last; vertex += kTogether, starts += kTogether) {
            std::uint8_t ends[kTogether];  // a copy: bytes may otherwise be anything, `starts` too, and would be read one by one
            for (std::size_t n = 0; n < kTogether; ++n) ends[n] = from.ends[vertex + n];
            for (std::size_t n = 0; n < kTogether; ++n) starts[n + 1] = at + ends[n];
            at += ends[kTogether - 1];
        }
        count = at;
    }
    static_assert(sizeof(Influence) == 2 * sizeof(float), "an influence is two numbers");
    const std::uint16_t* numbers = from.influences + 2 * std::size_t{from.starts[first / PackedVertices::kStep].influence};
    const F low = V::set1(from.weight_low), step = V::set1(from.weight_step);
    float* to = reinterpret_cast<float*>(entries);
    for (std::size_t i = 0; i < 2 * count; i += W) V::store(to + i, V::load_influences(numbers + i, low, step));
}

}  // namespace
