// What is wrong with a file, in one sentence, in memory of fixed size.
#pragma once

#include <cstdint>

#include "memory.h"

namespace understudy {

// A text of up to Size - 1 bytes, put together from words and numbers. What does not fit is cut off
// at the end of a character.
template <std::size_t Size>
class Words {
public:
    template <class... Parts>
    explicit Words(const Parts&... parts) {
        (add(parts), ...);
    }

    const char* c_str() const { return text_; }
    bool empty() const { return length_ == 0; }

    void add(const char* word) {
        for (; *word && length_ + 1 < Size; ++word) text_[length_++] = *word;
        // If the next byte continues a character, its first bytes go too.
        for (bool continues = is_continuation(*word); continues && length_;)
            continues = is_continuation(text_[--length_]);
        text_[length_] = 0;
    }
    void add(const Text& text) { add(text.c_str()); }
    void add(std::uint64_t number) {
        char digits[21];
        char* at = digits + 20;
        *at = 0;
        do {
            *--at = static_cast<char>('0' + number % 10);
            number /= 10;
        } while (number);
        add(at);
    }

private:
    static bool is_continuation(char byte) {
        return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
    }

    char text_[Size] = {};
    std::size_t length_ = 0;
};

// Functions that read a file return false if they fail. The problem then says why; if it says
// nothing, memory is short.
class Problem {
public:
    // Returns false. The first problem counts.
    template <class... Parts>
    bool say(const Parts&... parts) {
        return put(plain(parts)...);
    }

    const char* text() const {
        return text_.empty() ? "not enough memory for this file" : text_.c_str();
    }

private:
    // Literals of different lengths are different types; as pointers they share one function.
    static const char* plain(const char* word) { return word; }
    template <class Part>
    static const Part& plain(const Part& part) {
        return part;
    }

    template <class... Parts>
    bool put(const Parts&... parts) {
        if (text_.empty()) text_ = Words<256>(parts...);
        return false;
    }

    Words<256> text_;
};

}  // namespace understudy
