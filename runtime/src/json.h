// A small JSON reader for file headers. It builds no tree: a `Json` refers to a value inside the
// text, so that a forged header cannot fill the memory.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>

#include "checked.h"

namespace understudy {

// What is wrong with a file, in one sentence.
struct ReadError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

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
    // A text in UTF-8. Throws ReadError if it contains a zero byte, because C strings end there.
    std::string text() const;
    // A whole number from 0 to 2^53. Throws ReadError for anything else.
    std::uint64_t whole(const char* what) const;
    // A whole number below 2^31, which fits into any size_t. Throws ReadError for anything else.
    std::size_t count(const char* what) const;

    // The member of that name; false in a condition if there is none or if this is no object. Of
    // duplicates the last one counts, as in other readers.
    Json find(const std::string& name) const;
    // The member of that name and kind. Throws ReadError if there is none.
    Json need(const std::string& name, Kind wanted) const;

    // Calls use(value) for every item of an array.
    template <class Use>
    void each_item(const Use& use) const {
        for (const char* at = first(); at; at = next(at)) use(Json(at));
    }
    // Calls use(name, value) for every member of an object.
    template <class Use>
    void each_member(const Use& use) const {
        for (const char* at = first(); at; at = next(at)) {
            const Json name(at);
            at = value_of(at);
            use(name.text(), Json(at));
        }
    }

private:
    const char* first() const;
    static const char* next(const char* at);
    static const char* value_of(const char* name);

    const char* at_ = nullptr;
};

// Checks a whole text and returns its value. Throws ReadError unless it is valid JSON in valid
// UTF-8, nested at most 64 deep.
Json parse_json(const char* begin, const char* end);

}  // namespace understudy
