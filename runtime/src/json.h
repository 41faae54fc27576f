// A small JSON reader for file headers: bounded depth and size, UTF-8 out, no recursion beyond the depth limit.
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
    std::vector<Json> items;                                // of an array
    std::vector<std::pair<std::string, Json>> members;      // of an object, as they came

    // The member of that name, or nullptr; of several, the last, as other readers have it.
    const Json* find(const std::string& name) const;
    // The member of that name and kind; ReadError where it is missing or something else.
    const Json& need(const std::string& name, Kind wanted) const;
    // A whole number from 0 to 2^53; ReadError for anything else.
    std::uint64_t whole(const char* what) const;
};

Json parse_json(const char* begin, const char* end);

}  // namespace understudy
