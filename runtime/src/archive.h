// The arrays of a safetensors file, by name. Every offset, type and shape is checked before any
// number is read.
#pragma once

#include <cstdint>

#include "json.h"

namespace understudy {

enum class Type : std::uint8_t { f16, f32, f64, i8, i16, i32, u8, u16, boolean };

// The length of an array along each axis.
struct Shape {
    static constexpr std::size_t kMostAxes = 8;

    std::uint8_t axes = 0;
    std::uint32_t length[kMostAxes] = {};

    std::size_t operator[](std::size_t axis) const { return length[axis]; }
    bool operator==(const Shape& other) const {
        return axes == other.axes && std::memcmp(length, other.length, sizeof length) == 0;
    }
    std::size_t last() const { return axes ? length[axes - 1] : 0; }
};

// Functions return false, with a problem, if the file is not what they read.
class Archive {
public:
    static constexpr std::size_t kPrefix = 9;  // bytes that tell whether it may be such a file
    // Finds the length of the header, from the first kPrefix bytes of a file of `size` bytes.
    [[nodiscard]] static bool header_length(const std::uint8_t* data, std::size_t size,
                                            std::size_t& length, Problem& problem);

    Archive(const Memory& memory, Problem& problem)
        : memory_(memory), problem_(problem), arrays_(memory), header_(memory) {}

    // Reads the list of arrays. `data` must outlive the archive.
    [[nodiscard]] bool open(const std::uint8_t* data, std::size_t size);

    // The header of the deformer: the metadata entry "understudy". It refers to memory of the
    // archive.
    [[nodiscard]] bool read_header(Json& header) const;
    const Memory& memory() const { return memory_; }
    Problem& problem() const { return problem_; }
    std::size_t size() const { return size_; }  // of the file
    // Whether there is such an array, either as numbers or as differences of neighbours ("steps").
    bool has(const char* name) const { return find(name) || find(name, ".steps"); }
    // Of an array that was read before.
    Shape shape(const char* name) const;

    // These copy an array of this type and number of axes. Floats must be finite unless `any` is
    // set; they may be stored as 16-bit numbers on a grid. Integers may be stored in 8 or 16 bits,
    // or as steps.
    [[nodiscard]] bool floats(const char* name, std::size_t axes, Array<float>& into,
                              bool any = false) const;
    [[nodiscard]] bool doubles(const char* name, std::size_t axes, Array<double>& into) const;
    [[nodiscard]] bool integers(const char* name, std::size_t axes,
                                Array<std::int32_t>& into) const;
    [[nodiscard]] bool halves(const char* name, std::size_t axes, Array<std::uint16_t>& into) const;
    // Whether there is an array of `count` booleans; nothing reads their values.
    [[nodiscard]] bool need_booleans(const char* name, std::size_t count) const;

private:
    struct Entry {
        Json name;
        std::uint64_t hash = 0;  // of the name; no two are the same
        const std::uint8_t* data = nullptr;
        std::size_t bytes = 0;
        Shape shape;
        Type type = Type::f32;
    };
    // nullptr: there is none.
    const Entry* find(const char* name, const char* suffix = "") const;
    // The same, as numbers or as steps; nullptr, with a problem, if there is none or both.
    const Entry* need(const char* name) const;
    template <class Scalar>
    bool copy(const char* name, const Entry* entry, Type type, std::size_t axes,
              Array<Scalar>& into) const;
    template <class Scalar>
    bool widen(const char* name, Type type, std::size_t axes, Array<std::int32_t>& into) const;
    bool from_grid(const char* name, std::size_t axes, Array<float>& into) const;
    bool add_entry(const Json& name, const Json& about, const std::uint8_t* data, std::size_t size);
    // As in other readers of safetensors, arrays lie side by side and fill the file.
    bool check_places(const std::uint8_t* data, std::size_t size);
    // Steps and grids are of the right type and belong to an array.
    bool check_names() const;

    const Memory& memory_;
    Problem& problem_;
    Array<Entry> arrays_;  // ordered by hash
    std::size_t size_ = 0;
    Text header_;  // empty: there is none
};

}  // namespace understudy
