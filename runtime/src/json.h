// A small JSON reader for file headers, with bounded depth and size. Texts become UTF-8.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace understudy {

// What is wrong with a file, in one sentence.
struct ReadError : std::runtime_error {
    using std::runtime_error::runtime_error;
};

struct Json {
    enum class Kind { null, boolean, number, text, array, object };
    Kind kind = Kind::null;
    bool truth = false;
    double number = 0;
    std::string text;
    std::vector<Json> items;                            // if it is an array
    std::vector<std::pair<std::string, Json>> members;  // if it is an object, in file order

    // The member of that name, or nullptr. Of duplicates the last one counts, as in other readers.
    const Json* find(const std::string& name) const;
    // The member of that name and kind. Throws ReadError if there is none.
    const Json& need(const std::string& name, Kind wanted) const;
    // A whole number from 0 to 2^53. Throws ReadError for anything else.
    std::uint64_t whole(const char* what) const;
};

Json parse_json(const char* begin, const char* end);

}  // namespace understudy
