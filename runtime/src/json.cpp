#include "json.h"

#include <cmath>
#include <cstring>

namespace understudy {
namespace {

constexpr int kDeepest = 64;

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

// Reads a text once and checks everything. What follows can then do without an end and without
// checks: valid JSON tells by itself where each value ends.
class Checker {
public:
    Checker(const char* begin, const char* end) : at_(begin), end_(end) {}

    void check() {
        value(0);
        skip_space();
        if (at_ != end_) fail("something follows its end");
    }

private:
    [[noreturn]] static void fail(const char* what) {
        throw ReadError(std::string("the header is not valid JSON: ") + what);
    }

    void skip_space() {
        while (at_ != end_ && is_space(*at_)) ++at_;
    }

    char next() {
        if (at_ == end_) fail("it ends too early");
        return *at_++;
    }

    bool skip(char c) {
        skip_space();
        if (at_ == end_ || *at_ != c) return false;
        ++at_;
        return true;
    }

    void expect(const char* word) {
        for (; *word; ++word)
            if (next() != *word) fail("an unknown word");
    }

    void value(int depth) {
        if (depth > kDeepest) fail("it is nested too deeply");
        skip_space();
        switch (next()) {
            case '{': return object(depth);
            case '[': return array(depth);
            case '"': return text();
            case 't': return expect("rue");
            case 'f': return expect("alse");
            case 'n': return expect("ull");
            default: --at_; number();
        }
    }

    void object(int depth) {
        if (skip('}')) return;
        for (;;) {
            if (!skip('"')) fail("a name was expected");
            text();
            if (!skip(':')) fail("a colon was expected");
            value(depth + 1);
            if (skip('}')) return;
            if (!skip(',')) fail("a comma was expected");
        }
    }

    void array(int depth) {
        if (skip(']')) return;
        for (;;) {
            value(depth + 1);
            if (skip(']')) return;
            if (!skip(',')) fail("a comma was expected");
        }
    }

    unsigned hex4() {
        unsigned code = 0;
        for (int digit = 0; digit < 4; ++digit) {
            const char c = next();
            code <<= 4;
            if (is_digit(c)) code |= static_cast<unsigned>(c - '0');
            else if (c >= 'a' && c <= 'f') code |= static_cast<unsigned>(c - 'a' + 10);
            else if (c >= 'A' && c <= 'F') code |= static_cast<unsigned>(c - 'A' + 10);
            else fail("a broken \\u escape");
        }
        return code;
    }

    void text() {
        for (;;) {
            const unsigned char c = static_cast<unsigned char>(next());
            if (c == '"') return;
            if (c < 0x20) fail("a control character in a text");
            if (c >= 0x80) utf8(c);
            if (c == '\\') escape();
        }
    }

    void escape() {
        const char c = next();
        if (c != 'u') {
            if (!std::strchr("\"\\/bfnrt", c) || !c) fail("an unknown escape");
            return;
        }
        const unsigned code = hex4();
        if (code < 0xD800 || code >= 0xE000) return;
        // The first half of a surrogate pair; the second must follow.
        if (code >= 0xDC00 || next() != '\\' || next() != 'u') fail("half of a \\u pair");
        const unsigned low = hex4();
        if (low < 0xDC00 || low >= 0xE000) fail("half of a \\u pair");
    }

    // The rest of a character that starts with `first`: the shortest form, no surrogates, at most
    // U+10FFFF.
    void utf8(unsigned char first) {
        const int more = first >= 0xC2 && first < 0xE0   ? 1
                         : first >= 0xE0 && first < 0xF0 ? 2
                         : first >= 0xF0 && first < 0xF5 ? 3
                                                         : 0;
        if (!more) fail("a text is not valid UTF-8");
        for (int i = 0; i < more; ++i) {
            const unsigned char c = static_cast<unsigned char>(next());
            unsigned char low = 0x80, high = 0xBF;
            if (i == 0 && first == 0xE0) low = 0xA0;
            if (i == 0 && first == 0xED) high = 0x9F;
            if (i == 0 && first == 0xF0) low = 0x90;
            if (i == 0 && first == 0xF4) high = 0x8F;
            if (c < low || c > high) fail("a text is not valid UTF-8");
        }
    }

    bool digit() const { return at_ != end_ && is_digit(*at_); }

    void digits(const char* otherwise) {
        if (!digit()) fail(otherwise);
        while (digit()) ++at_;
    }

    void number() {
        if (at_ != end_ && *at_ == '-') ++at_;
        if (at_ != end_ && *at_ == '0') {
            ++at_;
            if (digit()) fail("a number starts with a zero");
        } else {
            digits("an unknown value");
        }
        if (at_ != end_ && *at_ == '.') {
            ++at_;
            digits("a broken number");
        }
        if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            if (at_ != end_ && (*at_ == '-' || *at_ == '+')) ++at_;
            digits("a broken number");
        }
        // A number at the end of the text would leave readers no sign that it ends.
        if (at_ == end_) fail("it ends too early");
    }

    const char* at_;
    const char* end_;
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

void append_utf8(std::string& text, unsigned code) {
    const auto byte = [&](unsigned value) { text.push_back(static_cast<char>(value)); };
    if (code < 0x80) {
        byte(code);
    } else if (code < 0x800) {
        byte(0xC0 | (code >> 6));
        byte(0x80 | (code & 63));
    } else if (code < 0x10000) {
        byte(0xE0 | (code >> 12));
        byte(0x80 | ((code >> 6) & 63));
        byte(0x80 | (code & 63));
    } else {
        byte(0xF0 | (code >> 18));
        byte(0x80 | ((code >> 12) & 63));
        byte(0x80 | ((code >> 6) & 63));
        byte(0x80 | (code & 63));
    }
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
    value *= std::pow(10.0, scale);
    return negative ? -value : value;
}

std::string Json::text() const {
    std::string text;
    for (const char* at = at_ + 1; *at != '"'; ++at) {
        if (*at != '\\') {
            text.push_back(*at);
            continue;
        }
        switch (*++at) {
            case 'b': text.push_back('\b'); break;
            case 'f': text.push_back('\f'); break;
            case 'n': text.push_back('\n'); break;
            case 'r': text.push_back('\r'); break;
            case 't': text.push_back('\t'); break;
            case 'u': {
                unsigned code = hex4(at + 1);
                at += 4;
                if (code >= 0xD800 && code < 0xDC00) {  // a surrogate pair
                    code = 0x10000 + ((code - 0xD800) << 10) + (hex4(at + 3) - 0xDC00);
                    at += 6;
                }
                if (!code) throw ReadError("a text of the header contains a zero character");
                append_utf8(text, code);
                break;
            }
            default: text.push_back(*at);
        }
    }
    return text;
}

std::uint64_t Json::whole(const char* what) const {
    const double value = kind() == Kind::number ? number() : -1;
    if (!(value >= 0) || value > 9007199254740992.0 || value != std::floor(value))
        throw ReadError(std::string(what) + " is not a whole number");
    return static_cast<std::uint64_t>(value);
}

std::size_t Json::count(const char* what) const {
    const std::uint64_t value = whole(what);
    if (value > 0x7FFFFFFF) throw ReadError(std::string(what) + " is larger than 2^31");
    return static_cast<std::size_t>(value);
}

Json Json::find(const std::string& name) const {
    Json found;
    if (kind() != Kind::object) return found;
    each_member([&](const std::string& member, const Json& value) {
        if (member == name) found = value;
    });
    return found;
}

Json Json::need(const std::string& name, Kind wanted) const {
    const Json found = find(name);
    if (!found || found.kind() != wanted)
        throw ReadError("the header's " + name + " is missing or of the wrong kind");
    return found;
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

Json parse_json(const char* begin, const char* end) {
    Checker(begin, end).check();
    return Json(skip_space(begin));
}

}  // namespace understudy
