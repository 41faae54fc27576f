#include "json.h"

#include <cmath>
#include <cstring>

namespace understudy {
namespace {

constexpr int kDeepest = 64;
// The limit keeps a forged header from filling the memory.
constexpr std::size_t kMostValues = std::size_t{1} << 22;

class Parser {
public:
    Parser(const char* begin, const char* end) : at_(begin), end_(end) {}

    Json whole() {
        Json value = parse(0);
        skip_space();
        if (at_ != end_) fail("something follows its end");
        return value;
    }

private:
    [[noreturn]] static void fail(const char* what) {
        throw ReadError(std::string("the header is not valid JSON: ") + what);
    }

    void skip_space() {
        while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\n' || *at_ == '\r')) ++at_;
    }

    char next() {
        if (at_ == end_) fail("it ends too early");
        return *at_++;
    }

    void expect(const char* word) {
        for (; *word; ++word)
            if (next() != *word) fail("an unknown word");
    }

    Json parse(int depth) {
        if (depth > kDeepest) fail("it is nested too deeply");
        if (++values_ > kMostValues) fail("it holds too many values");
        skip_space();
        Json value;
        switch (next()) {
            case '{': parse_object(value, depth); break;
            case '[': parse_array(value, depth); break;
            case '"':
                value.kind = Json::Kind::text;
                value.text = parse_text();
                break;
            case 't':
                expect("rue");
                value.kind = Json::Kind::boolean;
                value.truth = true;
                break;
            case 'f':
                expect("alse");
                value.kind = Json::Kind::boolean;
                break;
            case 'n': expect("ull"); break;
            default:
                --at_;
                value.kind = Json::Kind::number;
                value.number = parse_number();
        }
        return value;
    }

    void parse_object(Json& value, int depth) {
        value.kind = Json::Kind::object;
        skip_space();
        if (at_ != end_ && *at_ == '}') {
            ++at_;
            return;
        }
        for (;;) {
            skip_space();
            if (next() != '"') fail("a name was expected");
            std::string name = parse_text();
            skip_space();
            if (next() != ':') fail("a colon was expected");
            value.members.emplace_back(std::move(name), parse(depth + 1));
            skip_space();
            const char c = next();
            if (c == '}') return;
            if (c != ',') fail("a comma was expected");
        }
    }

    void parse_array(Json& value, int depth) {
        value.kind = Json::Kind::array;
        skip_space();
        if (at_ != end_ && *at_ == ']') {
            ++at_;
            return;
        }
        for (;;) {
            value.items.push_back(parse(depth + 1));
            skip_space();
            const char c = next();
            if (c == ']') return;
            if (c != ',') fail("a comma was expected");
        }
    }

    unsigned parse_hex4() {
        unsigned code = 0;
        for (int digit = 0; digit < 4; ++digit) {
            const char c = next();
            code <<= 4;
            if (c >= '0' && c <= '9') code |= static_cast<unsigned>(c - '0');
            else if (c >= 'a' && c <= 'f') code |= static_cast<unsigned>(c - 'a' + 10);
            else if (c >= 'A' && c <= 'F') code |= static_cast<unsigned>(c - 'A' + 10);
            else fail("a broken \\u escape");
        }
        return code;
    }

    static void append_utf8(std::string& text, unsigned code) {
        auto byte = [&](unsigned value) { text.push_back(static_cast<char>(value)); };
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

    std::string parse_text() {
        std::string text;
        for (;;) {
            const char c = next();
            if (c == '"') return text;
            if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a text");
            if (c != '\\') {
                text.push_back(c);
                continue;
            }
            switch (next()) {
                case '"': text.push_back('"'); break;
                case '\\': text.push_back('\\'); break;
                case '/': text.push_back('/'); break;
                case 'b': text.push_back('\b'); break;
                case 'f': text.push_back('\f'); break;
                case 'n': text.push_back('\n'); break;
                case 'r': text.push_back('\r'); break;
                case 't': text.push_back('\t'); break;
                case 'u': {
                    unsigned code = parse_hex4();
                    if (code >= 0xD800 && code < 0xDC00) {  // a surrogate pair
                        if (next() != '\\' || next() != 'u') fail("half of a \\u pair");
                        const unsigned low = parse_hex4();
                        if (low < 0xDC00 || low >= 0xE000) fail("half of a \\u pair");
                        code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
                    } else if (code >= 0xDC00 && code < 0xE000) {
                        fail("half of a \\u pair");
                    }
                    append_utf8(text, code);
                    break;
                }
                default: fail("an unknown escape");
            }
        }
    }

    bool digit() const { return at_ != end_ && *at_ >= '0' && *at_ <= '9'; }

    // The C library's conversion depends on the locale, so this one is our own.
    double parse_number() {
        const bool negative = at_ != end_ && *at_ == '-';
        if (negative) ++at_;
        if (!digit()) fail("an unknown value");
        double value = 0;
        int scale = 0;
        while (digit()) value = 10 * value + (*at_++ - '0');
        if (at_ != end_ && *at_ == '.') {
            ++at_;
            if (!digit()) fail("a broken number");
            for (; digit(); ++at_)
                if (scale > -400) {  // further digits do not matter
                    value = 10 * value + (*at_ - '0');
                    --scale;
                }
        }
        if (at_ != end_ && (*at_ == 'e' || *at_ == 'E')) {
            ++at_;
            const bool below = at_ != end_ && *at_ == '-';
            if (at_ != end_ && (*at_ == '-' || *at_ == '+')) ++at_;
            if (!digit()) fail("a broken number");
            int power = 0;
            for (; digit(); ++at_)
                if (power < 10000) power = 10 * power + (*at_ - '0');
            scale += below ? -power : power;
        }
        value *= std::pow(10.0, scale);
        return negative ? -value : value;
    }

    const char* at_;
    const char* end_;
    std::size_t values_ = 0;
};

}  // namespace

const Json* Json::find(const std::string& name) const {
    for (auto member = members.rbegin(); member != members.rend(); ++member)
        if (member->first == name) return &member->second;
    return nullptr;
}

const Json& Json::need(const std::string& name, Kind wanted) const {
    const Json* found = find(name);
    if (!found || found->kind != wanted)
        throw ReadError("the header's " + name + " is missing or of the wrong kind");
    return *found;
}

std::uint64_t Json::whole(const char* what) const {
    if (kind != Kind::number || !(number >= 0) || number > 9007199254740992.0 ||
        number != std::floor(number))
        throw ReadError(std::string(what) + " is not a whole number");
    return static_cast<std::uint64_t>(number);
}

Json parse_json(const char* begin, const char* end) { return Parser(begin, end).whole(); }

}  // namespace understudy
