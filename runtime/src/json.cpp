#include "json.h"

#include <cmath>
#include <cstring>

#include "sorting.h"

namespace understudy {
namespace {

constexpr int kDeepest = 64;
constexpr std::ptrdiff_t kMostDigits = 1000;  // of a whole number

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a text once and checks everything. What follows can then do without an end and without
// checks: valid JSON tells by itself where each value ends.
class Checker {
public:
    Checker(const char* begin, const char* end, const Memory& memory, Problem& problem)
        : at_(begin), end_(end), memory_(memory), problem_(problem), names_(memory) {}

    bool check() {
        if (!value(0)) return false;
        skip_space();
        return at_ == end_ || fail("something follows its end");
    }

private:
    struct Name {
        std::uint64_t hash;
        Json text;
    };

    bool fail(const char* what) { return problem_.say("the header is not valid JSON: ", what); }

    void skip_space() {
        while (at_ != end_ && is_space(*at_)) ++at_;
    }

    bool next(char& c) {
        if (at_ == end_) return fail("it ends too early");
        c = *at_++;
        return true;
    }

    bool skip(char c) {
        skip_space();
        if (at_ == end_ || *at_ != c) return false;
        ++at_;
        return true;
    }

    bool expect(const char* word) {
        for (char c = 0; *word; ++word)
            if (!next(c) || c != *word) return fail("an unknown word");
        return true;
    }

    bool value(int depth) {
        if (depth > kDeepest) return fail("it is nested too deeply");
        skip_space();
        char c = 0;
        if (!next(c)) return false;
        switch (c) {
            case '{': return object(depth);
            case '[': return array(depth);
            case '"': return text();
            case 't': return expect("rue");
            case 'f': return expect("alse");
            case 'n': return expect("ull");
            default: --at_; return number();
        }
    }

    bool object(int depth) {
        if (skip('}')) return true;
        const std::size_t first = names_.size();
        for (;;) {
            if (!skip('"')) return fail("a name was expected");
            const Json name(at_ - 1);
            if (!text() || !names_.push({name.hash(), name})) return false;
            if (!skip(':')) return fail("a colon was expected");
            if (!value(depth + 1)) return false;
            if (skip('}')) return distinct(first);
            if (!skip(',')) return fail("a comma was expected");
        }
    }

    // Whether the names from this one on, which are those of one object, differ; forgets them.
    // Names of the same hash count as the same.
    bool distinct(std::size_t first) {
        Name* names = names_.data() + first;
        const std::size_t count = names_.size() - first;
        sort_items(names, count, [](const Name& a, const Name& b) { return a.hash < b.hash; });
        for (std::size_t i = 1; i < count; ++i)
            if (names[i].hash == names[i - 1].hash)
                return problem_.say("the header's JSON has the key '",
                                    names[i].text.word(memory_).c_str(), "' twice");
        return names_.resize_without_values(first);
    }

    bool array(int depth) {
        if (skip(']')) return true;
        for (;;) {
            if (!value(depth + 1)) return false;
            if (skip(']')) return true;
            if (!skip(',')) return fail("a comma was expected");
        }
    }

    bool hex4(unsigned& code) {
        code = 0;
        for (int digit = 0; digit < 4; ++digit) {
            char c = 0;
            if (!next(c)) return false;
            code <<= 4;
            if (is_digit(c)) code |= static_cast<unsigned>(c - '0');
            else if (c >= 'a' && c <= 'f') code |= static_cast<unsigned>(c - 'a' + 10);
            else if (c >= 'A' && c <= 'F') code |= static_cast<unsigned>(c - 'A' + 10);
            else return fail("a broken \\u escape");
        }
        return true;
    }

    bool text() {
        for (char c = 0;;) {
            if (!next(c)) return false;
            if (c == '"') return true;
            const unsigned char byte = static_cast<unsigned char>(c);
            if (byte < 0x20) return fail("a control character in a text");
            if (byte >= 0x80 && !utf8(byte)) return fail("a text is not valid UTF-8");
            if (c == '\\' && !escape()) return false;
        }
    }

    bool escape() {
        char c = 0;
        if (!next(c)) return false;
        if (c != 'u') return (c && std::strchr("\"\\/bfnrt", c)) || fail("an unknown escape");
        unsigned code = 0, low = 0;
        if (!hex4(code)) return false;
        if (code < 0xD800 || code >= 0xE000) return true;
        // The first half of a surrogate pair; the second must follow.
        char slash = 0, letter = 0;
        const bool pair = code < 0xDC00 && next(slash) && slash == '\\' && next(letter) &&
                          letter == 'u' && hex4(low) && low >= 0xDC00 && low < 0xE000;
        return pair || fail("half of a \\u pair");
    }

    // The rest of a character that starts with `first`: the shortest form, no surrogates, at most
    // U+10FFFF.
    bool utf8(unsigned char first) {
        const int more = first >= 0xC2 && first < 0xE0   ? 1
                         : first >= 0xE0 && first < 0xF0 ? 2
                         : first >= 0xF0 && first < 0xF5 ? 3
                                                         : 0;
        if (!more) return false;
        for (int i = 0; i < more; ++i) {
            if (at_ == end_) return false;
            const unsigned char c = static_cast<unsigned char>(*at_++);
            unsigned char low = 0x80, high = 0xBF;
            if (i == 0 && first == 0xE0) low = 0xA0;
            if (i == 0 && first == 0xED) high = 0x9F;
            if (i == 0 && first == 0xF0) low = 0x90;
            if (i == 0 && first == 0xF4) high = 0x8F;
            if (c < low || c > high) return false;
        }
        return true;
    }

    bool digit() const { return at_ != end_ && is_digit(*at_); }

    bool digits(const char* otherwise) {
        if (!digit()) return fail(otherwise);
        while (digit()) ++at_;
        return true;
    }

    bool number() {
        if (at_ != end_ && *at_ == '-') ++at_;
        const char* first = at_;
        if (at_ != end_ && *at_ == '0') {
            ++at_;
            if (digit()) return fail("a number starts with a zero");
        } else if (!digits("an unknown value")) {
            return false;
        }
        const char* whole_end = at_;
        if (at_ != end_ && *at_ == '.') {
            ++at_;
            if (!digits("a broken number")) return false;
        }
        if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            if (at_ != end_ && (*at_ == '-' || *at_ == '+')) ++at_;
            if (!digits("a broken number")) return false;
        }
        if (at_ == whole_end && at_ - first > kMostDigits)
            return fail("a number has too many digits");
        // A number at the end of the text would leave readers no sign that it ends.
        return at_ != end_ || fail("it ends too early");
    }

    const char* at_;
    const char* end_;
    const Memory& memory_;
    Problem& problem_;
    Array<Name> names_;  // of the objects that `at_` is in, the outermost first
};

// What follows reads checked texts.

const char* skip_space(const char* at) {
    while (is_space(*at)) ++at;
    return at;
}

// `at` is behind the opening quote; the result is behind the closing one.
const char* skip_text(const char* at) {
    for (; *at != '"'; ++at)
        if (*at == '\\') ++at;
    return at + 1;
}

const char* skip_value(const char* at) {
    int depth = 0;
    do {
        switch (*at) {
            case '{':
            case '[': ++depth, ++at; break;
            case '}':
            case ']': --depth, ++at; break;
            case '"': at = skip_text(at + 1); break;
            case ',':
            case ':': ++at; break;
            default:
                if (is_space(*at)) ++at;
                else
                    while (*at == '-' || *at == '+' || *at == '.' || is_digit(*at) ||
                           (*at >= 'a' && *at <= 'z') || *at == 'E')
                        ++at;
        }
    } while (depth);
    return at;
}

unsigned hex4(const char* at) {
    unsigned code = 0;
    for (int digit = 0; digit < 4; ++digit) {
        const char c = at[digit];
        const int value = is_digit(c) ? c - '0' : (c | 0x20) - 'a' + 10;
        code = code << 4 | static_cast<unsigned>(value);
    }
    return code;
}

// Calls use(byte) for every byte of a text in UTF-8 until it returns false; `at` is behind the
// opening quote. Returns whether it never did.
template <class Use>
bool each_byte(const char* at, const Use& use) {
    const auto byte = [&](unsigned value) { return use(static_cast<char>(value)); };
    const auto rest = [&](unsigned code, int shift) { return byte(0x80 | (code >> shift & 63)); };
    for (; *at != '"'; ++at) {
        if (*at != '\\') {
            if (!use(*at)) return false;
            continue;
        }
        unsigned code = 0;
        switch (*++at) {
            case 'b': code = '\b'; break;
            case 'f': code = '\f'; break;
            case 'n': code = '\n'; break;
            case 'r': code = '\r'; break;
            case 't': code = '\t'; break;
            case 'u':
                code = hex4(at + 1);
                at += 4;
                if (code >= 0xD800 && code < 0xDC00) {  // a surrogate pair
                    code = 0x10000 + ((code - 0xD800) << 10) + (hex4(at + 3) - 0xDC00);
                    at += 6;
                }
                break;
            default: code = static_cast<unsigned char>(*at);
        }
        const bool used =
            code < 0x80    ? byte(code)
            : code < 0x800 ? byte(0xC0 | code >> 6) && rest(code, 0)
            : code < 0x10000
                ? byte(0xE0 | code >> 12) && rest(code, 6) && rest(code, 0)
                : byte(0xF0 | code >> 18) && rest(code, 12) && rest(code, 6) && rest(code, 0);
        if (!used) return false;
    }
    return true;
}

// FNV-1a.
constexpr std::uint64_t kHashStart = 14695981039346656037u;
std::uint64_t hash_next(std::uint64_t hash, char byte) {
    return (hash ^ static_cast<unsigned char>(byte)) * 1099511628211u;
}

}  // namespace

Json::Kind Json::kind() const {
    switch (*at_) {
        case '{': return Kind::object;
        case '[': return Kind::array;
        case '"': return Kind::text;
        case 't':
        case 'f': return Kind::boolean;
        case 'n': return Kind::null;
        default: return Kind::number;
    }
}

// The C library's conversion depends on the locale, so this one is our own.
double Json::number() const {
    const char* at = at_;
    const bool negative = *at == '-';
    if (negative) ++at;
    double value = 0;
    int scale = 0;
    while (is_digit(*at)) value = 10 * value + (*at++ - '0');
    if (*at == '.')
        for (++at; is_digit(*at); ++at)
            if (scale > -400) {  // further digits do not matter
                value = 10 * value + (*at - '0');
                --scale;
            }
    if (*at == 'e' || *at == 'E') {
        ++at;
        const bool below = *at == '-';
        if (*at == '-' || *at == '+') ++at;
        int power = 0;
        for (; is_digit(*at); ++at)
            if (power < 10000) power = 10 * power + (*at - '0');
        scale += below ? -power : power;
    }
    double power = 1, square = 10;  // 10 to the power of |scale|; std::pow takes more code
    for (int rest = scale < 0 ? -scale : scale; rest; rest /= 2, square *= square)
        if (rest % 2) power *= square;
    value = scale < 0 ? value / power : value * power;
    return negative ? -value : value;
}

bool Json::is_integer() const {
    const char* at = *at_ == '-' ? at_ + 1 : at_;
    if (!is_digit(*at)) return false;
    while (is_digit(*at)) ++at;
    return *at != '.' && *at != 'e' && *at != 'E';
}

bool Json::is(const char* text) const {
    if (kind() != Kind::text) return false;
    const bool same = each_byte(at_ + 1, [&](char byte) { return *text && *text++ == byte; });
    return same && !*text;
}

std::uint64_t Json::hash() const {
    std::uint64_t hash = kHashStart;
    (void)each_byte(at_ + 1, [&](char byte) {
        hash = hash_next(hash, byte);
        return true;
    });
    return hash;
}

std::uint64_t hash_of(const char* text) {
    std::uint64_t hash = kHashStart;
    for (; *text; ++text) hash = hash_next(hash, *text);
    return hash;
}

bool Json::read(Text& text, Problem& problem) const {
    if (kind() != Kind::text) return problem.say("the header has something else for a text");
    // UTF-8 is never longer than the text with its escapes.
    if (!text.reserve(static_cast<std::size_t>(skip_text(at_ + 1) - at_))) return false;
    return each_byte(at_ + 1,
                     [&](char byte) {
                         if (!byte)
                             return problem.say("a text of the header contains a zero character");
                         return text.push(byte);
                     }) &&
           text.finish();
}

Words<128> Json::word(const Memory& memory) const {
    Text text(memory);
    Problem ignored;
    return Words<128>(read(text, ignored) ? text.c_str() : "?");
}

bool Json::read_whole(const char* what, std::uint64_t& number, Problem& problem) const {
    const double value = is_integer() && *at_ != '-' ? this->number() : -1;
    if (!(value >= 0) || value > 9007199254740992.0)
        return problem.say(what, " is not a whole number");
    number = static_cast<std::uint64_t>(value);
    return true;
}

bool Json::read_count(const char* what, std::size_t& count, Problem& problem) const {
    std::uint64_t value;
    if (!read_whole(what, value, problem)) return false;
    if (value > 0x7FFFFFFF) return problem.say(what, " is larger than 2^31");
    count = static_cast<std::size_t>(value);
    return true;
}

Json Json::find(const char* name) const {
    Json found;
    if (kind() != Kind::object) return found;
    (void)each_member([&](const Json& member, const Json& value) {
        if (member.is(name)) found = value;
        return !found;
    });
    return found;
}

bool Json::need(const char* name, Kind wanted, Json& found, Problem& problem) const {
    found = find(name);
    if (!found || found.kind() != wanted)
        return problem.say("the header's ", name, " is missing or of the wrong kind");
    return true;
}

// The first item or the first member's name; nullptr if there is none.
const char* Json::first() const {
    const char* at = skip_space(at_ + 1);
    return *at == ']' || *at == '}' ? nullptr : at;
}

// The item or the member's name that follows a value; nullptr if there is none.
const char* Json::next(const char* at) {
    at = skip_space(skip_value(at));
    return *at == ',' ? skip_space(at + 1) : nullptr;
}

const char* Json::value_of(const char* name) {
    const char* colon = skip_space(skip_text(name + 1));
    return skip_space(colon + 1);
}

bool parse_json(const char* begin, const char* end, const Memory& memory, Json& found,
                Problem& problem) {
    if (!Checker(begin, end, memory, problem).check()) return false;
    found = Json(skip_space(begin));
    return true;
}

}  // namespace understudy
