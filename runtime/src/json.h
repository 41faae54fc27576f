// A small JSON reader for file headers. It builds no tree: a `Json` refers to a value inside the
// text, so that a forged header cannot fill the memory.
#pragma once

#include <cstdint>

#include "problem.h"

namespace understudy {

// One value of a text that `parse_json` has checked. The text must outlive it.
class Json {
public:
    enum class Kind { null, boolean, number, text, array, object };

    Json() = default;
    explicit Json(const char* at) : at_(at) {}

    // Whether it is a value at all; see `find`.
    explicit operator bool() const { return at_ != nullptr; }
    Kind kind() const;
    bool truth() const { return *at_ == 't'; }
    double number() const;
    // Whether it is a number without a fraction and an exponent.
    bool is_integer() const;
    // Whether it is this text, in UTF-8.
    bool is(const char* text) const;
    // Of a text: the same as that of `hash_of`.
    std::uint64_t hash() const;
    // The start of a text, for messages.
    Words<128> word(const Memory& memory) const;

    // These return false, with a problem, if the value is not what they read.
    // A text in UTF-8 without zero characters, because C strings end there.
    [[nodiscard]] bool read(Text& text, Problem& problem) const;
    // A whole number from 0 to 2^53; `what` names it.
    [[nodiscard]] bool read_whole(const char* what, std::uint64_t& number, Problem& problem) const;
    // A whole number below 2^31, which fits into any size_t.
    [[nodiscard]] bool read_count(const char* what, std::size_t& count, Problem& problem) const;
    // The member of that name and kind.
    [[nodiscard]] bool need(const char* name, Kind kind, Json& found, Problem& problem) const;

    // The member of that name; false in a condition if there is none or if this is no object.
    Json find(const char* name) const;

    // Calls use(value) for every item of an array until it returns false. Returns whether it never
    // did.
    template <class Use>
    [[nodiscard]] bool each_item(const Use& use) const {
        for (const char* at = first(); at; at = next(at))
            if (!use(Json(at))) return false;
        return true;
    }
    // The same for every member of an object: use(name, value).
    template <class Use>
    [[nodiscard]] bool each_member(const Use& use) const {
        for (const char* at = first(); at; at = next(at)) {
            const Json name(at);
            at = value_of(at);
            if (!use(name, Json(at))) return false;
        }
        return true;
    }

private:
    const char* first() const;
    static const char* next(const char* at);
    static const char* value_of(const char* name);

    const char* at_ = nullptr;
};

std::uint64_t hash_of(const char* text);

// Checks a whole text and finds its value. Returns false, with a problem, unless it is valid JSON
// in valid UTF-8, nested at most 64 deep, whose objects have no name twice.
[[nodiscard]] bool parse_json(const char* begin, const char* end, const Memory& memory, Json& found,
                              Problem& problem);

}  // namespace understudy
