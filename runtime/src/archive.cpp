#include "archive.h"

#include <algorithm>
#include <cmath>

#include "sorting.h"

namespace understudy {
namespace {

constexpr std::size_t kMostHeader = std::size_t{64} << 20;

bool type_of(const Json& text, Type& type) {
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
        case Type::u8: return 1;
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
bool all_finite(const char* name, const Array<Scalar>& values, Problem& problem) {
    for (const Scalar value : values)
        if (!is_finite(value)) return problem.say("array ", name, " holds NaN or infinity");
    return true;
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
    const bool read = header.each_member([&](const Json& name, const Json& about) {
        if (about.kind() != Json::Kind::object)
            return problem_.say("the header's entry ", name.word(memory_).c_str(),
                                " is not an object");
        if (!name.is("__metadata__")) return add_entry(name, about, arrays, array_bytes);
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
    });
    if (!read || !check_places(arrays, array_bytes)) return false;
    sort_items(arrays_.data(), arrays_.size(),
               [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
    return check_names();
}

bool Archive::check_places(const std::uint8_t* data, std::size_t size) {
    sort_items(arrays_.data(), arrays_.size(), [](const Entry& a, const Entry& b) {
        return a.data != b.data ? a.data < b.data : a.bytes < b.bytes;
    });
    const std::uint8_t* at = data;
    for (const Entry& entry : arrays_) {
        if (entry.data != at)
            return problem_.say("array ", entry.name.word(memory_).c_str(),
                                " does not lie beside another: the file is damaged");
        at += entry.bytes;
    }
    return at == data + size || problem_.say("the file is longer than its arrays");
}

bool Archive::check_names() const {
    for (const Entry& entry : arrays_) {
        Text name(memory_);
        if (!entry.name.read(name, problem_)) return false;
        const auto ends_in = [&](const char* suffix) {
            const std::size_t length = std::strlen(suffix);
            if (name.size() < length ||
                std::strcmp(name.c_str() + name.size() - length, suffix) != 0)
                return false;
            name.cut(name.size() - length);
            return true;
        };
        if (ends_in(".steps")) {
            if (entry.type != Type::i8 && entry.type != Type::i16)
                return problem_.say("array ", name, ".steps has the wrong type");
            if (find(name.c_str()))
                return problem_.say("array ", name, " stands there twice, as numbers and as steps");
        } else if (ends_in(".grid")) {
            const Entry* of = find(name.c_str());
            const Shape& shape = entry.shape;
            if (!of || of->type != Type::u16 || !of->shape.axes || entry.type != Type::f32 ||
                shape.axes != 2 || shape[0] != 2 || (shape[1] != 1 && shape[1] != of->shape.last()))
                return problem_.say("array ", name, ".grid does not fit an array");
        }
    }
    return true;
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

bool Archive::add_entry(const Json& name, const Json& about, const std::uint8_t* data,
                        std::size_t size) {
    const auto fail = [&](const char* what) {
        return problem_.say("array ", name.word(memory_).c_str(), what);
    };
    Entry entry;
    entry.name = name;
    entry.hash = name.hash();
    Json type, offset_list, lengths;
    if (!about.need("dtype", Json::Kind::text, type, problem_) ||
        !about.need("data_offsets", Json::Kind::array, offset_list, problem_) ||
        !about.need("shape", Json::Kind::array, lengths, problem_))
        return false;
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
    return arrays_.push(entry);
}

bool Archive::read_header(Json& header) const {
    if (header_.empty()) return problem_.say("a safetensors file, but not an understudy deformer");
    return parse_json(header_.data(), header_.data() + header_.size(), memory_, header, problem_);
}

const Archive::Entry* Archive::find(const char* name, const char* suffix) const {
    const Words<128> full(name, suffix);
    const std::uint64_t hash = hash_of(full.c_str());
    const Entry* at = std::lower_bound(
        arrays_.begin(), arrays_.end(), hash,
        [](const Entry& entry, std::uint64_t value) { return entry.hash < value; });
    return at != arrays_.end() && at->hash == hash && at->name.is(full.c_str()) ? at : nullptr;
}

const Archive::Entry* Archive::need(const char* name) const {
    const Entry* found = find(name);
    if (!found) found = find(name, ".steps");
    if (!found) problem_.say("array ", name, " is missing");
    return found;
}

Shape Archive::shape(const char* name) const {
    const Entry* found = find(name);
    if (!found) found = find(name, ".steps");
    return found ? found->shape : Shape();
}

template <class Scalar>
bool Archive::copy(const char* name, const Entry* entry, Type type, std::size_t axes,
                   Array<Scalar>& into) const {
    if (!entry) return false;
    if (entry->type != type || entry->shape.axes != axes)
        return problem_.say("array ", name, " has the wrong type or number of axes");
    Array<Scalar> values(memory_);
    if (!values.resize_without_values(entry->bytes / sizeof(Scalar))) return false;
    // The file may be unaligned.
    if (!values.empty()) std::memcpy(values.data(), entry->data, entry->bytes);
    into = static_cast<Array<Scalar>&&>(values);
    return true;
}

template <class Scalar>
bool Archive::widen(const char* name, Type type, std::size_t axes,
                    Array<std::int32_t>& into) const {
    Array<Scalar> narrow(memory_);
    Array<std::int32_t> values(memory_);
    if (!copy(name, need(name), type, axes, narrow) || !values.reserve(narrow.size())) return false;
    for (const Scalar value : narrow)
        if (!values.push(value)) return false;
    into = static_cast<Array<std::int32_t>&&>(values);
    return true;
}

// A grid has as many lows as the last axis is long, or one for all, and as many steps.
bool Archive::from_grid(const char* name, std::size_t axes, Array<float>& into) const {
    const Words<128> grid_name(name, ".grid");
    const char* grid_text = grid_name.c_str();
    Array<std::uint16_t> numbers(memory_);
    Array<float> grid(memory_), values(memory_);  // NaN is found in the result
    if (!copy(name, need(name), Type::u16, axes, numbers) ||
        !copy(grid_text, need(grid_text), Type::f32, 2, grid))
        return false;
    const std::size_t width = shape(grid_text)[1];  // checked
    if (!values.resize_without_values(numbers.size())) return false;
    for (std::size_t i = 0; i < numbers.size(); ++i)
        values[i] = grid[i % width] + static_cast<float>(numbers[i]) * grid[width + i % width];
    into = static_cast<Array<float>&&>(values);
    return true;
}

bool Archive::floats(const char* name, std::size_t axes, Array<float>& into, bool any) const {
    const Entry* found = find(name);
    const bool grid = found && found->type == Type::u16;
    if (!(grid ? from_grid(name, axes, into) : copy(name, need(name), Type::f32, axes, into)))
        return false;
    return any || all_finite(name, into, problem_);
}

bool Archive::doubles(const char* name, std::size_t axes, Array<double>& into) const {
    return copy(name, need(name), Type::f64, axes, into) && all_finite(name, into, problem_);
}

bool Archive::integers(const char* name, std::size_t axes, Array<std::int32_t>& into) const {
    const Entry* found = need(name);
    if (!found) return false;
    if (find(name)) {
        if (found->type == Type::u8) return widen<std::uint8_t>(name, Type::u8, axes, into);
        if (found->type == Type::u16) return widen<std::uint16_t>(name, Type::u16, axes, into);
        return copy(name, found, Type::i32, axes, into);
    }
    if (!(found->type == Type::i8 ? widen<std::int8_t>(name, Type::i8, axes, into)
                                  : widen<std::int16_t>(name, Type::i16, axes, into)))
        return false;
    std::int64_t sum = 0;  // the numbers are differences of neighbours
    for (std::int32_t& value : into) {
        sum += value;
        if (sum != static_cast<std::int32_t>(sum))
            return problem_.say("array ", name, ": a number is larger than 32 bits");
        value = static_cast<std::int32_t>(sum);
    }
    return true;
}

bool Archive::halves(const char* name, std::size_t axes, Array<std::uint16_t>& into) const {
    return copy(name, need(name), Type::f16, axes, into) && all_finite(name, into, problem_);
}

bool Archive::need_booleans(const char* name, std::size_t count) const {
    const Entry* found = need(name);
    if (!found) return false;
    return (found->type == Type::boolean && found->shape.axes == 1 && found->shape[0] == count) ||
           problem_.say("array ", name, " has the wrong type or shape");
}

}  // namespace understudy
