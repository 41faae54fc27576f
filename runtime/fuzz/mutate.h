// Changes to .understudy files after which most of them are still safetensors files with a valid
// header, so that the checks behind the header are reached, and the code behind the checks.
//
// A file is taken apart into its description (JSON, kept as it stands in the metadata, with escaped
// quotes) and its arrays, changed and put together again: every offset fits. Some files get random
// bytes instead.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace mutation {

using Bytes = std::vector<std::uint8_t>;
using Random = std::mt19937_64;

inline std::size_t below(Random& random, std::size_t end) { return end ? random() % end : 0; }

template <class Item, std::size_t count>
const Item& one_of(Random& random, const Item (&items)[count]) {
    return items[below(random, count)];
}

struct Entry {
    std::string name, type;
    std::vector<std::size_t> shape;
    Bytes data;
};

inline std::size_t width_of(const std::string& type) {
    if (type == "F64" || type == "I64" || type == "U64") return 8;
    if (type == "F32" || type == "I32" || type == "U32") return 4;
    if (type == "F16" || type == "BF16" || type == "I16" || type == "U16") return 2;
    return 1;
}

struct File {
    std::string description;
    std::vector<Entry> arrays;

    // Takes apart a file in the form that this class and the Python package write. Returns false
    // for any other.
    bool read(const Bytes& file) {
        if (file.size() < 10) return false;
        std::uint64_t length;
        std::memcpy(&length, file.data(), 8);
        if (length > file.size() - 8) return false;
        text_.assign(reinterpret_cast<const char*>(file.data()) + 8, length);
        at_ = 0;
        start_ = 8 + static_cast<std::size_t>(length);
        if (!skip("{\"__metadata__\":{\"understudy\":\"")) return false;
        const std::size_t first = at_;
        while (at_ < text_.size() && text_[at_] != '"') at_ += text_[at_] == '\\' ? 2 : 1;
        if (at_ >= text_.size()) return false;
        description = text_.substr(first, at_ - first);
        if (!skip("\"}")) return false;
        while (skip(",")) {
            Entry entry;
            std::vector<std::size_t> range;
            if (!word(entry.name) || !skip(":{\"dtype\":") || !word(entry.type) ||
                !skip(",\"shape\":") || !numbers(entry.shape) || !skip(",\"data_offsets\":") ||
                !numbers(range) || !skip("}") || range.size() != 2 || range[0] > range[1] ||
                range[1] > file.size() - start_)
                return false;
            entry.data.assign(file.data() + start_ + range[0], file.data() + start_ + range[1]);
            arrays.push_back(entry);
        }
        return skip("}");
    }

    Bytes bytes() const {
        std::string text = "{\"__metadata__\":{\"understudy\":\"" + description + "\"}";
        std::size_t at = 0;
        for (const Entry& entry : arrays) {
            text += ",\"" + entry.name + "\":{\"dtype\":\"" + entry.type + "\",\"shape\":[";
            for (std::size_t i = 0; i < entry.shape.size(); ++i)
                text += (i ? "," : "") + std::to_string(entry.shape[i]);
            text += "],\"data_offsets\":[" + std::to_string(at);
            at += entry.data.size();
            text += "," + std::to_string(at) + "]}";
        }
        text += "}";
        text.resize((text.size() + 7) / 8 * 8, ' ');
        Bytes result(8);
        const std::uint64_t length = text.size();
        std::memcpy(result.data(), &length, 8);
        result.insert(result.end(), text.begin(), text.end());
        for (const Entry& entry : arrays)
            result.insert(result.end(), entry.data.begin(), entry.data.end());
        return result;
    }

private:
    bool skip(const char* expected) {
        const std::size_t length = std::strlen(expected);
        if (text_.compare(at_, length, expected) != 0) return false;
        at_ += length;
        return true;
    }

    bool word(std::string& found) {
        if (!skip("\"")) return false;
        const std::size_t end = text_.find_first_of("\"\\", at_);
        if (end == std::string::npos) return false;
        found = text_.substr(at_, end - at_);
        at_ = end;
        return skip("\"");
    }

    bool numbers(std::vector<std::size_t>& found) {
        if (!skip("[")) return false;
        while (!skip("]")) {
            std::size_t number = 0, digits = 0;
            for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits)
                number = 10 * number + static_cast<std::size_t>(text_[at_] - '0');
            if (!digits || digits > 9) return false;
            found.push_back(number);
            skip(",");
        }
        return true;
    }

    std::string text_;
    std::size_t at_ = 0, start_ = 0;
};

// ---- the description ----

inline bool is_word(char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
           c == '-' || c == '.' || c == '+';
}

inline std::string unusual_number(Random& random) {
    static const char* const numbers[] = {"0",
                                          "1",
                                          "2",
                                          "3",
                                          "-1",
                                          "255",
                                          "256",
                                          "65536",
                                          "2147483647",
                                          "2147483648",
                                          "4294967296",
                                          "9007199254740993",
                                          "18446744073709551615",
                                          "1e308",
                                          "1.5",
                                          "-0",
                                          "null"};
    return random() % 2 ? one_of(random, numbers) : std::to_string(below(random, 300));
}

// Replaces a number by a number, and a word by a word of this text or of the format.
inline void change_word(std::string& text, Random& random) {
    std::vector<std::pair<std::size_t, std::size_t> > words;  // first, length
    for (std::size_t i = 0; i < text.size(); ++i) {
        if (!is_word(text[i])) continue;
        const std::size_t first = i;
        while (i < text.size() && is_word(text[i])) ++i;
        words.emplace_back(first, i - first);
    }
    if (words.empty()) return;
    const auto [first, length] = words[below(random, words.size())];
    const std::string old = text.substr(first, length);
    std::string with;
    if (old == "true" || old == "false") with = old == "true" ? "false" : "true";
    else if (old[0] == '-' || (old[0] >= '0' && old[0] <= '9')) with = unusual_number(random);
    else if (random() % 2) {
        const auto [other, size] = words[below(random, words.size())];
        with = text.substr(other, size);
    } else {
        static const char* const known[] = {
            "tanh",    "relu",    "gelu",        "linear",         "dual_quaternion",
            "float16", "float32", "clips.names", "skeleton.names", "x",
            ""};
        with = one_of(random, known);
    }
    text.replace(first, length, with);
}

// Repeats or removes an item of a list: a number, a name or an object.
inline void change_list(std::string& text, Random& random) {
    std::vector<std::size_t> starts;
    for (std::size_t i = 0; i + 1 < text.size(); ++i)
        if ((text[i] == '[' || text[i] == ',') && text[i + 1] != ']') starts.push_back(i + 1);
    if (starts.empty()) return;
    const std::size_t first = starts[below(random, starts.size())];
    std::size_t last = first;
    for (int depth = 0; last < text.size(); ++last) {
        const char c = text[last];
        if (c == '{' || c == '[') ++depth;
        if ((c == '}' || c == ']') && --depth < 0) break;
        if (c == ',' && depth == 0) break;
    }
    const std::string item = text.substr(first, last - first);
    if (random() % 2) text.insert(first, item + ",");
    else if (last < text.size() && text[last] == ',') text.erase(first, last - first + 1);
    else text.erase(first - (text[first - 1] == ','), last - first + (text[first - 1] == ','));
}

// ---- arrays ----

// Writes an unusual number of the array's type.
inline void set_number(Entry& entry, std::size_t at, Random& random) {
    static const std::uint32_t words[] = {0,          1,          0xFFFFFFFF, 0x7FC00000,
                                          0x7F800000, 0xFF800000, 0x7F7FFFFF, 0x00000001,
                                          0x80000000, 0x7FFFFFFF, 1000,       0x3F800000,
                                          0xBF800000, 0x60AD78EC, 0x2B8CBCCC};
    static const double doubles[] = {0, 1, -1, 1e-13, 1e18, 1e39, 1e300, 5e-324};
    static const std::uint16_t halves[] = {0, 1, 0xFFFF, 0x7C00, 0x7BFF, 0x7E00, 0x8000, 0x3C00};
    const std::size_t width = width_of(entry.type);
    if (entry.data.size() < width * (at + 1)) return;
    std::uint8_t* to = entry.data.data() + width * at;
    if (random() % 3 == 0) {  // a number of the array, perhaps the next one
        const std::size_t from = below(random, entry.data.size() / width);
        std::memmove(to, entry.data.data() + width * from, width);
        if (entry.type[0] != 'F') *to = static_cast<std::uint8_t>(*to + below(random, 3) - 1);
        return;
    }
    if (width == 8) {
        const double number = one_of(random, doubles);
        std::memcpy(to, &number, 8);
    } else if (width == 4) {
        const std::uint32_t word =
            random() % 4 ? one_of(random, words) : static_cast<std::uint32_t>(below(random, 64));
        std::memcpy(to, &word, 4);
    } else if (width == 2) {
        const std::uint16_t half = one_of(random, halves);
        std::memcpy(to, &half, 2);
    } else {
        *to = static_cast<std::uint8_t>(random());
    }
}

// Makes an axis shorter or longer; rows are repeated.
inline void resize_axis(Entry& entry, std::size_t axis, std::size_t length) {
    std::size_t outer = 1, inner = width_of(entry.type);
    for (std::size_t i = 0; i < entry.shape.size(); ++i)
        (i < axis ? outer : inner) *= i == axis ? 1 : entry.shape[i];
    const std::size_t old = entry.shape[axis], most = 1 << 20;
    if (outer > most || inner > most || length > most) return;
    if (entry.data.size() != outer * old * inner || outer * length * inner > most) return;
    Bytes data;
    for (std::size_t i = 0; i < outer; ++i)
        for (std::size_t j = 0; j < length; ++j) {
            const std::uint8_t* row = entry.data.data() + (i * old + (old ? j % old : 0)) * inner;
            if (old) data.insert(data.end(), row, row + inner);
            else data.resize(data.size() + inner);
        }
    entry.data = data;
    entry.shape[axis] = length;
}

inline std::size_t other_length(std::size_t length, Random& random) {
    const std::size_t lengths[] = {0, 1, length - (length > 0), length + 1, 2 * length, 3};
    return one_of(random, lengths);
}

// Makes all axes of one length shorter or longer, and changes that number in the description: the
// sizes of vertices, bones or controls still agree.
inline void resize_together(File& file, Random& random) {
    std::vector<std::size_t> lengths;
    for (const Entry& entry : file.arrays)
        lengths.insert(lengths.end(), entry.shape.begin(), entry.shape.end());
    if (lengths.empty()) return;
    const std::size_t old = lengths[below(random, lengths.size())];
    const std::size_t length = other_length(old, random);
    for (Entry& entry : file.arrays)
        for (std::size_t axis = 0; axis < entry.shape.size(); ++axis)
            if (entry.shape[axis] == old) resize_axis(entry, axis, length);
    std::string& text = file.description;
    const std::string was = std::to_string(old), now = std::to_string(length);
    for (std::size_t at = text.find(was); at != std::string::npos; at = text.find(was, at)) {
        const bool whole = (!at || !is_word(text[at - 1])) &&
                           (at + was.size() == text.size() || !is_word(text[at + was.size()]));
        if (whole) text.replace(at, was.size(), now);
        at += whole ? now.size() : was.size();
    }
}

inline void change_array(File& file, Random& random) {
    if (file.arrays.empty()) return;
    const std::size_t number = below(random, file.arrays.size());
    Entry& entry = file.arrays[number];
    const std::size_t count = entry.data.size() / width_of(entry.type);
    switch (random() % 12) {
        case 0:
            if (!entry.shape.empty()) {
                const std::size_t axis = below(random, entry.shape.size());
                resize_axis(entry, axis, other_length(entry.shape[axis], random));
            }
            break;
        case 1: resize_together(file, random); break;
        case 2: {  // the same bytes as another type
            static const char* const types[] = {"F64", "F32", "F16", "I32", "I16",
                                                "I8",  "U16", "U8",  "BOOL"};
            const std::string type = one_of(random, types);
            if (width_of(type) == width_of(entry.type)) entry.type = type;
            break;
        }
        case 3: {  // under another name
            static const char* const names[] = {"mean",
                                                "mesh.corner_uvs",
                                                "mesh.corner_normals",
                                                "mesh.polygon_material",
                                                "skin.virtual_index",
                                                "skin.virtual_weight",
                                                "nets.biases",
                                                "bases.matrices"};
            const std::string old = entry.name;
            switch (random() % 5) {
                case 0: entry.name += ".steps"; break;
                case 1: entry.name += ".grid"; break;
                case 2: entry.name = one_of(random, names); break;
                case 3: entry.name = old.substr(0, old.rfind('.')); break;
                case 4: file.arrays.erase(file.arrays.begin() + static_cast<long>(number));
            }
            break;
        }
        case 4:  // all numbers
            for (std::size_t i = 0; i < count; ++i) {
                if (i == 0) set_number(entry, 0, random);
                else
                    std::memcpy(entry.data.data() + i * width_of(entry.type), entry.data.data(),
                                width_of(entry.type));
            }
            break;
        case 5:  // another number of axes
            if (entry.shape.size() > 1 && random() % 2) {
                entry.shape[entry.shape.size() - 2] *= entry.shape.back();
                entry.shape.pop_back();
            } else {
                entry.shape.push_back(1);
            }
            break;
        default:
            for (std::size_t times = 1 + below(random, 3); times && count; --times)
                set_number(entry, below(random, count), random);
    }
}

// ---- whole files ----

inline void change_bytes(Bytes& file, Random& random) {
    if (file.empty()) return;
    switch (random() % 4) {
        case 0: file[below(random, file.size())] = static_cast<std::uint8_t>(random()); break;
        case 1:
            file[below(random, std::min<std::size_t>(file.size(), 4096))] ^=
                static_cast<std::uint8_t>(1 << below(random, 8));
            break;
        case 2: file.resize(below(random, file.size())); break;
        case 3: {
            const std::size_t from = below(random, file.size());
            const Bytes part(file.begin() + static_cast<long>(from),
                             file.begin() + static_cast<long>(std::min(from + 16, file.size())));
            file.insert(file.begin() + static_cast<long>(below(random, file.size())), part.begin(),
                        part.end());
        }
    }
}

// Returns a changed copy.
inline Bytes mutated(const Bytes& bytes, Random& random) {
    File file;
    if (random() % 12 == 0 || !file.read(bytes)) {
        Bytes result = bytes;
        change_bytes(result, random);
        return result;
    }
    for (std::size_t times = 1 + below(random, 3); times; --times) switch (random() % 6) {
            case 0: change_word(file.description, random); break;
            case 1: change_list(file.description, random); break;
            default: change_array(file, random);
        }
    return file.bytes();
}

}  // namespace mutation
