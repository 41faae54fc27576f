#include "archive.h"

#include <algorithm>
#include <cmath>

#include "sorting.h"

namespace understudy {
namespace {

constexpr std::size_t kMostHeader = std::size_t{64} << 20;

template <class Word>  // compares itself with texts
bool type_of(const Word& text, Type& type) {
    static constexpr struct {
        const char* name;
        Type type;
    } known[] = {{"F16", Type::f16}, {"F32", Type::f32}, {"F64", Type::f64},
                 {"I8", Type::i8},   {"I16", Type::i16}, {"I32", Type::i32},
                 {"U8", Type::u8},   {"U16", Type::u16}, {"BOOL", Type::boolean}};
    for (const auto& one : known)
        if (text.is(one.name)) {
            type = one.type;
            return true;
        }
    return false;
}

std::size_t bytes_of(Type type) {
    switch (type) {
        case Type::boolean:
        case Type::i8:
        case Type::u8:
        case Type::words: return 1;
        case Type::f16:
        case Type::i16:
        case Type::u16: return 2;
        case Type::f32:
        case Type::i32: return 4;
        case Type::f64: return 8;
    }
    return 0;
}

bool is_finite(float value) { return std::isfinite(value); }
bool is_finite(double value) { return std::isfinite(value); }
bool is_finite(std::uint16_t half) { return (half & 0x7C00) != 0x7C00; }

template <class Scalar>
bool all_finite(const Words<64>& name, const Array<Scalar>& values, Problem& problem) {
    for (const Scalar value : values)
        if (!is_finite(value)) return problem.say("array ", name.c_str(), " holds NaN or infinity");
    return true;
}

// A text in memory, with the comparison that `type_of` uses.
struct Plain {
    const char* text;
    bool is(const char* other) const { return std::strcmp(text, other) == 0; }
};

// Whether a name is that of a pattern, in which # stands for a number.
bool matches(const char* pattern, const char* name, const char* end, std::uint32_t& number) {
    for (; *pattern; ++pattern) {
        if (*pattern != '#') {
            if (name == end || *name++ != *pattern) return false;
            continue;
        }
        const char* first = name;
        number = 0;
        for (; name != end && *name >= '0' && *name <= '9' && name - first < 9; ++name)
            number = 10 * number + static_cast<std::uint32_t>(*name - '0');
        if (name == first || (*first == '0' && name - first > 1)) return false;
    }
    return name == end;
}

}  // namespace

bool Archive::open(const std::uint8_t* data, std::size_t size) {
    size_ = size;
    std::size_t length;
    if (!header_length(data, size, length, problem_)) return false;
    if (length > size - 8)
        return problem_.say("the file is truncated: it ends inside its own header");
    const char* text = reinterpret_cast<const char*>(data) + 8;
    Json header;
    if (!parse_json(text, text + length, memory_, header, problem_)) return false;
    const std::uint8_t* arrays = data + 8 + length;
    const std::size_t array_bytes = size - 8 - length;
    return header.each_member([&](const Json& name, const Json& about) {
        if (about.kind() != Json::Kind::object)
            return problem_.say("the header's entry ", name.word(memory_).c_str(),
                                " is not an object");
        if (!name.is("__metadata__")) return add_array(name, about, arrays, array_bytes);
        if (!about.each_member([&](const Json&, const Json& value) {
                return value.kind() == Json::Kind::text ||
                       problem_.say("the metadata has something else than texts");
            }))
            return false;
        const Json found = about.find("understudy");
        if (!found) return true;
        Text header_text(memory_);
        if (!found.read(header_text, problem_)) return false;
        header_ = static_cast<Text&&>(header_text);
        return true;
    }) && (!unknown_.empty() || check_places(arrays, array_bytes)) &&
           read_header() && check_form(true);
}

bool Archive::open(const understudy_entry* entries, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
        const understudy_entry& given = entries[i];
        Entry entry;
        if (!given.name || !resolve(given.name, std::strlen(given.name), entry))
            return problem_.say("an entry has the name ", unknown_.c_str(), ", which is none of ",
                                "the form");
        if (given.axes > Shape::kMostAxes || !given.type)
            return problem_.say("entry ", given.name, ": too many axes, or no type");
        const bool words = std::strcmp(given.type, "TEXT") == 0;
        if (words) entry.type = Type::words;
        else if (!type_of(Plain{given.type}, entry.type))
            return problem_.say("entry ", given.name, " has a type that deformers do not use");
        std::size_t numbers = 1;
        for (std::size_t axis = 0; axis < given.axes; ++axis) {
            if (given.lengths[axis] >> 31) return problem_.say(given.name, ": too long");
            entry.shape.length[axis] = static_cast<std::uint32_t>(given.lengths[axis]);
            numbers = multiplied(numbers, given.lengths[axis]);
        }
        entry.shape.axes = static_cast<std::uint8_t>(given.axes);
        entry.data = static_cast<const std::uint8_t*>(given.data);
        if (!words) entry.bytes = multiplied(numbers, bytes_of(entry.type));
        size_ = added(size_, entry.bytes);
        if (size_ == kTooLarge) return problem_.say(given.name, ": too large");
        if (!entries_.push(entry)) return false;
    }
    return check_form(false);
}

bool Archive::check_places(const std::uint8_t* data, std::size_t size) {
    sort_items(entries_.data(), entries_.size(), [](const Entry& a, const Entry& b) {
        return a.data != b.data ? a.data < b.data : a.bytes < b.bytes;
    });
    const std::uint8_t* at = data;
    for (const Entry& entry : entries_) {
        if (entry.data != at)
            return problem_.say("array ", name_of(entry).c_str(),
                                " does not lie beside another: the file is damaged");
        at += entry.bytes;
    }
    return at == data + size || problem_.say("the file is longer than its arrays");
}

bool Archive::header_length(const std::uint8_t* data, std::size_t size, std::size_t& length,
                            Problem& problem) {
    std::uint64_t found = 0;
    if (size >= kPrefix)
        for (int byte = 7; byte >= 0; --byte) found = found << 8 | data[byte];
    if (size < kPrefix || data[8] != '{' || found > kMostHeader)
        return problem.say("not an understudy file");
    length = static_cast<std::size_t>(found);
    return true;
}

bool Archive::add_array(const Json& name, const Json& about, const std::uint8_t* data,
                        std::size_t size) {
    const auto fail = [&](const char* what) {
        return problem_.say("array ", name.word(memory_).c_str(), what);
    };
    Entry entry;
    Text plain(memory_);
    Json type, offset_list, lengths;
    if (!name.read(plain, problem_) || !about.need("dtype", Json::Kind::text, type, problem_) ||
        !about.need("data_offsets", Json::Kind::array, offset_list, problem_) ||
        !about.need("shape", Json::Kind::array, lengths, problem_))
        return false;
    if (!resolve(plain.c_str(), plain.size(), entry)) return true;  // see `read_header`
    if (!type_of(type, entry.type)) return fail(" has a type that deformers do not use");
    std::uint64_t offsets[2] = {0, 0}, ignored;
    std::size_t found = 0;
    if (!offset_list.each_item([&](const Json& item) {
            const bool read =
                item.read_whole("an offset", found < 2 ? offsets[found] : ignored, problem_);
            ++found;
            return read;
        }))
        return false;
    if (found != 2) return fail(": two offsets were expected");
    if (offsets[0] > offsets[1] || offsets[1] > size)
        return fail(" lies outside the file: it is damaged or truncated");
    entry.bytes = static_cast<std::size_t>(offsets[1] - offsets[0]);
    // The count never exceeds what the file holds, so no product can overflow.
    std::uint64_t count = 1;
    if (!lengths.each_item([&](const Json& item) {
            if (entry.shape.axes == Shape::kMostAxes) return fail(" has too many axes");
            std::size_t length;
            if (!item.read_count("a length", length, problem_)) return false;
            if (length && count > size / length) return fail(" is larger than the file");
            count *= length;
            entry.shape.length[entry.shape.axes++] = static_cast<std::uint32_t>(length);
            return true;
        }))
        return false;
    if (count * bytes_of(entry.type) != entry.bytes)
        return fail(": its shape and its bytes disagree");
    entry.data = data + offsets[0];
    return entries_.push(entry);
}

bool Archive::read_header() {
    if (header_.empty()) return problem_.say("a safetensors file, but not an understudy deformer");
    Json header, stated;
    std::uint64_t version = 0;
    if (!parse_json(header_.data(), header_.data() + header_.size(), memory_, header, problem_) ||
        !header.need("format_version", Json::Kind::number, stated, problem_) ||
        !stated.read_whole("the format version", version, problem_))
        return false;
    if (version < 1) return problem_.say("the header has no valid format version");
    if (!header.each_member([&](const Json& name, const Json& value) {
            if (name.is("format_version")) return true;
            Text plain(memory_);
            Entry entry;
            if (!name.read(plain, problem_)) return false;
            if (!resolve(plain.c_str(), plain.size(), entry)) return true;
            entry.type = Type::words;
            entry.words = value;
            return entries_.push(entry);
        }))
        return false;
    if (version > kFormatVersion)
        return problem_.say("has ", unknown_.empty() ? "values" : unknown_.c_str(), " of format ",
                            version, ", and this understudy reads up to format ", kFormatVersion,
                            "; upgrade to read it");
    return unknown_.empty() || problem_.say(unknown_.c_str(), " is no entry of this format");
}

bool Archive::resolve(const char* name, std::size_t length, Entry& entry) {
    const char* end = name + length;
    const auto ends_in = [&](const char* suffix) {
        const std::size_t size = std::strlen(suffix);
        return static_cast<std::size_t>(end - name) > size &&
               std::memcmp(end - size, suffix, size) == 0;
    };
    if (ends_in(".steps")) entry.suffix = Suffix::steps;
    else if (ends_in(".grid")) entry.suffix = Suffix::grid;
    if (entry.suffix != Suffix::none) end -= entry.suffix == Suffix::steps ? 6 : 5;
    for (std::size_t i = 0; i < sizeof kForm / sizeof *kForm; ++i)
        if (matches(kForm[i].name, name, end, entry.number)) {
            entry.form = static_cast<Form>(i);
            return true;
        }
    if (unknown_.empty()) unknown_ = Words<64>(name);
    if (unknown_.empty()) unknown_ = Words<64>("an entry without a name");
    return false;
}

Words<64> Archive::name_of(Form form, std::uint32_t number) {
    Words<64> name;
    for (const char* at = about(form).name; *at; ++at) {
        const char letter[] = {*at, 0};
        if (*at == '#') name.add(std::uint64_t{number});
        else name.add(letter);
    }
    return name;
}

bool Archive::check_form(bool whole) {
    sort_items(entries_.data(), entries_.size(),
               [](const Entry& a, const Entry& b) { return a.key() < b.key(); });
    bool half = false;
    if (find(Form::storage, 0, Suffix::none)) {
        Text storage(memory_);
        if (!text(Form::storage, storage)) return false;
        half = std::strcmp(storage.c_str(), "float16") == 0;
    }
    std::int64_t lengths[128];  // of the letters of axes
    for (std::int64_t& length : lengths) length = -1;
    for (std::size_t part = 0; part < sizeof kAlways; ++part) part_is_given_[part] = kAlways[part];
    for (Entry& entry : entries_) {
        if (!check_type(entry, half)) return false;
        if (about(entry.form).type == FormType::texts && !entry.data) {
            entry.shape.axes = 1;
            if (!entry.words.each_item([&](const Json&) { return ++entry.shape.length[0] > 0; }))
                return false;
        }
        if (!check_shape(entry, lengths)) return false;
        part_is_given_[static_cast<std::size_t>(about(entry.form).part)] = true;
    }
    for (std::size_t i = 0; i < sizeof kForm / sizeof *kForm; ++i)
        if (kForm[i].needed && part_is_given_[static_cast<std::size_t>(kForm[i].part)] &&
            !has(static_cast<Form>(i)) && (whole || kForm[i].type != FormType::object))
            return problem_.say(kForm[i].name, " is missing");
    return true;
}

bool Archive::check_type(const Entry& entry, bool half) const {
    const FormEntry& of = about(entry.form);
    const Type type = entry.type;
    const bool narrow = of.narrow == Narrow::whole;
    const auto fits = [&] {
        if (entry.suffix == Suffix::steps)
            return narrow && (type == Type::i8 || type == Type::i16) &&
                   !find(entry.form, entry.number, Suffix::none);
        if (entry.suffix == Suffix::grid) {
            const Entry* numbers = find(entry.form, entry.number, Suffix::none);
            const Shape& shape = entry.shape;
            return of.narrow == Narrow::grid && numbers && numbers->type == Type::u16 &&
                   numbers->shape.axes && type == Type::f32 && shape.axes == 2 && shape[0] == 2 &&
                   (shape[1] == 1 || shape[1] == numbers->shape.last());
        }
        switch (of.type) {
            case FormType::float32:
                if (of.narrow == Narrow::half) return type == (half ? Type::f16 : Type::f32);
                return find(entry.form, entry.number, Suffix::grid) ? type == Type::u16
                                                                    : type == Type::f32;
            case FormType::float64: return type == Type::f64;
            case FormType::int32:
                return type == Type::i32 || (narrow && (type == Type::u8 || type == Type::u16));
            case FormType::boolean: return type == Type::boolean;
            case FormType::text:
            case FormType::texts:
            case FormType::object: break;
        }
        if (type != Type::words || entry.data) return type == Type::words;
        const Json::Kind kind = entry.words.kind();
        return kind == (of.type == FormType::text    ? Json::Kind::text
                        : of.type == FormType::texts ? Json::Kind::array
                                                     : Json::Kind::object);
    };
    return fits() || problem_.say("entry ", name_of(entry).c_str(), " has the wrong type");
}

bool Archive::check_shape(const Entry& entry, std::int64_t* lengths) const {
    if (entry.suffix == Suffix::grid) return true;
    const FormEntry& of = about(entry.form);
    bool fits = of.axes == entry.shape.axes;
    for (std::size_t axis = 0; axis < of.axes && fits; ++axis) {
        const std::int64_t length = static_cast<std::int64_t>(entry.shape[axis]);
        const int wanted = of.lengths[axis];
        if (wanted < 0 && lengths[-wanted] < 0) lengths[-wanted] = length;
        fits = !wanted || (wanted > 0 ? wanted : lengths[-wanted]) == length;
    }
    return fits || problem_.say("entry ", name_of(entry).c_str(),
                                " has the wrong shape, or one that does not fit another");
}

const Archive::Entry* Archive::find(Form form, std::uint32_t number, Suffix suffix) const {
    const std::uint64_t key = key_of(form, number, suffix);
    const Entry* at = std::lower_bound(
        entries_.begin(), entries_.end(), key,
        [](const Entry& entry, std::uint64_t value) { return entry.key() < value; });
    return at != entries_.end() && at->key() == key ? at : nullptr;
}

const Archive::Entry* Archive::need(Form form, std::uint32_t number) const {
    const Entry* found = find(form, number, Suffix::none);
    if (!found) found = find(form, number, Suffix::steps);
    if (!found) problem_.say("array ", name_of(form, number).c_str(), " is missing");
    return found;
}

Shape Archive::shape(Form form, std::uint32_t number) const {
    const Entry* found = find(form, number, Suffix::none);
    if (!found) found = find(form, number, Suffix::steps);
    return found ? found->shape : Shape();
}

template <class Scalar>
bool Archive::copy(const Entry* entry, Array<Scalar>& into) const {
    if (!entry) return false;
    Array<Scalar> values(memory_);
    if (!values.resize_without_values(entry->bytes / sizeof(Scalar))) return false;
    // The file may be unaligned.
    if (!values.empty()) std::memcpy(values.data(), entry->data, entry->bytes);
    into = static_cast<Array<Scalar>&&>(values);
    return true;
}

template <class Scalar>
bool Archive::widen(const Entry* entry, Array<std::int32_t>& into) const {
    Array<Scalar> narrow(memory_);
    Array<std::int32_t> values(memory_);
    if (!copy(entry, narrow) || !values.reserve(narrow.size())) return false;
    for (const Scalar value : narrow)
        if (!values.push(value)) return false;
    into = static_cast<Array<std::int32_t>&&>(values);
    return true;
}

// A grid has as many lows as the last axis is long, or one for all, and as many steps.
bool Archive::from_grid(const Entry& of, const Entry& on, Array<float>& into) const {
    Array<std::uint16_t> numbers(memory_);
    Array<float> grid(memory_), values(memory_);
    if (!copy(&of, numbers) || !copy(&on, grid) || !all_finite(name_of(of), grid, problem_))
        return false;
    const std::size_t width = on.shape[1];  // checked
    if (!values.resize_without_values(numbers.size())) return false;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        values[i] = grid[i % width] + static_cast<float>(numbers[i]) * grid[width + i % width];
    into = static_cast<Array<float>&&>(values);
    return true;
}

bool Archive::floats(Form form, Array<float>& into, std::uint32_t number, bool any) const {
    const Entry *found = need(form, number), *grid = find(form, number, Suffix::grid);
    if (!found || !(grid ? from_grid(*found, *grid, into) : copy(found, into))) return false;
    return any || all_finite(name_of(form, number), into, problem_);
}

bool Archive::doubles(Form form, Array<double>& into, std::uint32_t number) const {
    return copy(need(form, number), into) && all_finite(name_of(form, number), into, problem_);
}

bool Archive::integers(Form form, Array<std::int32_t>& into, std::uint32_t number) const {
    const Entry* found = need(form, number);
    if (!found) return false;
    if (found->suffix == Suffix::none) {
        if (found->type == Type::u8) return widen<std::uint8_t>(found, into);
        if (found->type == Type::u16) return widen<std::uint16_t>(found, into);
        return copy(found, into);
    }
    if (!(found->type == Type::i8 ? widen<std::int8_t>(found, into)
                                  : widen<std::int16_t>(found, into)))
        return false;
    std::int64_t sum = 0;  // the numbers are differences of neighbours
    for (std::int32_t& value : into) {
        sum += value;
        if (sum != static_cast<std::int32_t>(sum))
            return problem_.say("array ", name_of(*found).c_str(),
                                ": a number is larger than 32 bits");
        value = static_cast<std::int32_t>(sum);
    }
    return true;
}

bool Archive::halves(Form form, Array<std::uint16_t>& into) const {
    return copy(need(form, 0), into) && all_finite(name_of(form, 0), into, problem_);
}

bool Archive::truths(Form form, Array<std::uint8_t>& into, std::uint32_t number) const {
    if (!copy(need(form, number), into)) return false;
    for (const std::uint8_t value : into)
        if (value > 1)
            return problem_.say("array ", name_of(form, number).c_str(),
                                ": a truth value is neither 0 nor 1");
    return true;
}

// Calls use(text) for every text of an entry until it returns false.
template <class Use>
bool Archive::each_text(Form form, const Use& use) const {
    const Entry* found = find(form, 0, Suffix::none);
    if (!found) return problem_.say(about(form).name, " is missing");
    if (!found->data) {
        const auto read = [&](const Json& item) {
            Text text(memory_);
            if (item.kind() != Json::Kind::text)
                return problem_.say(about(form).name, ": expected texts");
            return item.read(text, problem_) && use(text);
        };
        return about(form).type == FormType::texts ? found->words.each_item(read)
                                                   : read(found->words);
    }
    const char* at = reinterpret_cast<const char*>(found->data);
    const std::size_t count = found->shape.axes ? found->shape[0] : 1;
    for (std::size_t i = 0; i < count; ++i, ++at) {
        Text text(memory_);
        for (; *at; ++at)
            if (!text.push(*at)) return false;
        if (!text.finish() || !use(text)) return false;
    }
    return true;
}

bool Archive::text(Form form, Text& into) const {
    return each_text(form, [&](Text& text) {
        into = static_cast<Text&&>(text);
        return true;
    });
}

bool Archive::texts(Form form, Array<Text>& into) const {
    return each_text(form, [&](Text& text) { return into.push(static_cast<Text&&>(text)); });
}

bool Archive::names(Form form, Array<Text>& into) const {
    Array<std::uint64_t> hashes(memory_);
    if (!texts(form, into) || !hashes.reserve(into.size())) return false;
    for (const Text& name : into) {
        if (name.empty()) return problem_.say(about(form).name, ": a name is missing");
        if (!hashes.push(hash_of(name.c_str()))) return false;
    }
    sort_items(hashes.data(), hashes.size(),
               [](std::uint64_t a, std::uint64_t b) { return a < b; });
    for (std::size_t i = 1; i < hashes.size(); ++i)
        if (hashes[i] == hashes[i - 1])
            return problem_.say(about(form).name, ": two names are the same");
    return true;
}

Json Archive::object(Form form) const {
    const Entry* found = find(form, 0, Suffix::none);
    return found && !found->data ? found->words : Json();
}

}  // namespace understudy
