// The entries of a deformer by their place in the written form: of a safetensors file, or of arrays
// in memory. Every offset, name, type and shape is checked before any number is read.
#pragma once

#include <cstdint>

#include "../include/understudy.h"
#include "form.h"
#include "json.h"

namespace understudy {

enum class Type : std::uint8_t { f16, f32, f64, i8, i16, i32, u8, u16, boolean, words };

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

// Functions return false, with a problem, if the entries are not what they read. `number` is that
// of a name with a number.
class Archive {
public:
    static constexpr std::size_t kPrefix = 9;  // bytes that tell whether it may be such a file
    // Finds the length of the header, from the first kPrefix bytes of a file of `size` bytes.
    [[nodiscard]] static bool header_length(const std::uint8_t* data, std::size_t size,
                                            std::size_t& length, Problem& problem);

    Archive(const Memory& memory, Problem& problem)
        : memory_(memory), problem_(problem), entries_(memory), header_(memory) {}

    // Reads the list of entries. What they refer to must outlive the archive.
    [[nodiscard]] bool open(const std::uint8_t* data, std::size_t size);
    [[nodiscard]] bool open(const understudy_entry* entries, std::size_t count);

    Problem& problem() const { return problem_; }
    std::size_t size() const { return size_; }  // in bytes
    bool has(Form form, std::uint32_t number = 0) const {
        return find(form, number, Suffix::none) || find(form, number, Suffix::steps);
    }
    bool has(FormPart part) const { return part_is_given_[static_cast<std::size_t>(part)]; }
    // Of a list of texts, the number of them.
    Shape shape(Form form, std::uint32_t number = 0) const;

    // These copy an array. Floats must be finite unless `any` is set.
    [[nodiscard]] bool floats(Form form, Array<float>& into, std::uint32_t number = 0,
                              bool any = false) const;
    [[nodiscard]] bool doubles(Form form, Array<double>& into, std::uint32_t number = 0) const;
    [[nodiscard]] bool integers(Form form, Array<std::int32_t>& into,
                                std::uint32_t number = 0) const;
    [[nodiscard]] bool halves(Form form, Array<std::uint16_t>& into) const;
    [[nodiscard]] bool truths(Form form, Array<std::uint8_t>& into, std::uint32_t number = 0) const;
    // Copies a text, or texts.
    [[nodiscard]] bool text(Form form, Text& into) const;
    [[nodiscard]] bool texts(Form form, Array<Text>& into) const;
    // The same of names: none is empty, and no two are the same.
    [[nodiscard]] bool names(Form form, Array<Text>& into) const;
    // An object of the header; none: it was not given.
    Json object(Form form) const;

private:
    enum class Suffix : std::uint8_t { none, steps, grid };
    struct Entry {
        Form form{};
        Suffix suffix = Suffix::none;
        Type type = Type::f32;
        std::uint32_t number = 0;
        Shape shape;
        std::size_t bytes = 0;
        const std::uint8_t* data = nullptr;  // of words in memory: texts that end in zeros
        Json words;                          // of words in a file

        std::uint64_t key() const { return key_of(form, number, suffix); }
    };
    static std::uint64_t key_of(Form form, std::uint32_t number, Suffix suffix) {
        return static_cast<std::uint64_t>(form) << 40 | static_cast<std::uint64_t>(number) << 4 |
               static_cast<std::uint64_t>(suffix);
    }
    static const FormEntry& about(Form form) { return kForm[static_cast<std::size_t>(form)]; }
    // The name of an entry.
    static Words<64> name_of(Form form, std::uint32_t number);
    static Words<64> name_of(const Entry& entry) { return name_of(entry.form, entry.number); }
    // Finds the place of a name; if there is none, keeps the first such name.
    bool resolve(const char* name, std::size_t length, Entry& entry);

    const Entry* find(Form form, std::uint32_t number, Suffix suffix) const;
    // As numbers or as steps; nullptr, with a problem, if there is neither.
    const Entry* need(Form form, std::uint32_t number) const;
    template <class Scalar>
    bool copy(const Entry* entry, Array<Scalar>& into) const;
    template <class Scalar>
    bool widen(const Entry* entry, Array<std::int32_t>& into) const;
    bool from_grid(const Entry& numbers, const Entry& grid, Array<float>& into) const;
    template <class Use>
    bool each_text(Form form, const Use& use) const;

    bool add_array(const Json& name, const Json& about, const std::uint8_t* data, std::size_t size);
    bool read_header();
    // As in other readers of safetensors, arrays lie side by side and fill the file.
    bool check_places(const std::uint8_t* data, std::size_t size);
    // Sorts the entries and checks them against the form; objects are needed if `whole` is set.
    bool check_form(bool whole);
    bool check_type(const Entry& entry, bool half) const;
    bool check_shape(const Entry& entry, std::int64_t* lengths) const;

    const Memory& memory_;
    Problem& problem_;
    Array<Entry> entries_;  // ordered by key
    std::size_t size_ = 0;
    Text header_;  // its JSON
    Words<64> unknown_;
    bool part_is_given_[sizeof kAlways] = {};
};

}  // namespace understudy
