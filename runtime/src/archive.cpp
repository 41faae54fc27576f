#include "archive.h"

#include <cmath>
#include <cstring>

namespace understudy {
namespace {

constexpr std::size_t kMostHeader = std::size_t{64} << 20;
constexpr std::size_t kMostAxes = 8;

Type type_of(const std::string& text) {
    if (text == "F16") return Type::f16;
    if (text == "F32") return Type::f32;
    if (text == "F64") return Type::f64;
    if (text == "I8") return Type::i8;
    if (text == "I16") return Type::i16;
    if (text == "I32") return Type::i32;
    if (text == "U8") return Type::u8;
    if (text == "U16") return Type::u16;
    return Type::other;
}

std::size_t bytes_of(Type type) {
    switch (type) {
        case Type::i8:
        case Type::u8: return 1;
        case Type::f16:
        case Type::i16:
        case Type::u16: return 2;
        case Type::f32:
        case Type::i32: return 4;
        case Type::f64: return 8;
        case Type::other: break;
    }
    return 0;
}

}  // namespace

Archive::Archive(const std::uint8_t* data, std::size_t size) : size_(size) {
    const std::uint64_t length = header_length(data, size);
    if (length > size - 8) throw ReadError("the file is truncated: it ends inside its own header");
    const char* text = reinterpret_cast<const char*>(data) + 8;
    const std::size_t start = 8 + static_cast<std::size_t>(length);
    const Json header = parse_json(text, text + length);
    header.each_member([&](const std::string& name, const Json& about) {
        if (about.kind() != Json::Kind::object)
            throw ReadError("the header's entry " + name + " is not an object");
        if (name != "__metadata__") return read_entry(name, about, data + start, size - start);
        const Json found = about.find("understudy");
        if (found && found.kind() == Json::Kind::text) header_ = found.text();
    });
}

std::uint64_t Archive::header_length(const std::uint8_t* data, std::size_t size) {
    std::uint64_t length = 0;
    if (size >= kPrefix)
        for (int byte = 7; byte >= 0; --byte) length = length << 8 | data[byte];
    if (size < kPrefix || data[8] != '{' || length > kMostHeader)
        throw ReadError("not an understudy file");
    return length;
}

void Archive::read_entry(const std::string& name, const Json& about, const std::uint8_t* data,
                         std::size_t size) {
    Entry entry;
    entry.type = type_of(about.need("dtype", Json::Kind::text).text());
    std::uint64_t offsets[2] = {0, 0};
    std::size_t found = 0;
    about.need("data_offsets", Json::Kind::array).each_item([&](const Json& item) {
        if (found < 2) offsets[found] = item.whole("an offset");
        ++found;
    });
    if (found != 2) throw ReadError("array " + name + ": two offsets were expected");
    if (offsets[0] > offsets[1] || offsets[1] > size)
        throw ReadError("array " + name + " lies outside the file: it is damaged or truncated");
    entry.bytes = static_cast<std::size_t>(offsets[1] - offsets[0]);
    // The count never exceeds what the file holds, so no product can overflow.
    std::uint64_t count = 1;
    about.need("shape", Json::Kind::array).each_item([&](const Json& item) {
        if (entry.shape.size() == kMostAxes)
            throw ReadError("array " + name + " has too many axes");
        const std::size_t length = item.count("a length");
        if (length && count > size / length)
            throw ReadError("array " + name + " is larger than the file");
        count *= length;
        entry.shape.push_back(length);
    });
    if (entry.type != Type::other && count * bytes_of(entry.type) != entry.bytes)
        throw ReadError("array " + name + ": its shape and its bytes disagree");
    entry.data = data + offsets[0];
    arrays_[name] = std::move(entry);
}

Json Archive::header() const {
    if (header_.empty()) throw ReadError("a safetensors file, but not an understudy deformer");
    return parse_json(header_.data(), header_.data() + header_.size());
}

const Archive::Entry& Archive::entry(const std::string& name) const {
    const auto found = arrays_.find(name), steps = arrays_.find(name + ".steps");
    if (found != arrays_.end() && steps != arrays_.end())
        throw ReadError("array " + name + " stands there twice, as numbers and as steps");
    if (found == arrays_.end() && steps == arrays_.end())
        throw ReadError("array " + name + " is missing");
    return (found != arrays_.end() ? found : steps)->second;
}

template <class Scalar>
std::vector<Scalar> Archive::copy(const std::string& name, Type type, std::size_t axes) const {
    const Entry& found = entry(name);
    if (found.type != type || found.shape.size() != axes)
        throw ReadError("array " + name + " has the wrong type or number of axes");
    std::vector<Scalar> values(found.bytes / sizeof(Scalar));
    if (!values.empty())
        std::memcpy(values.data(), found.data, found.bytes);  // the file may be unaligned
    return values;
}

template <class Scalar>
std::vector<std::int32_t> Archive::widened(const std::string& name, Type type,
                                           std::size_t axes) const {
    const std::vector<Scalar> narrow = copy<Scalar>(name, type, axes);
    return std::vector<std::int32_t>(narrow.begin(), narrow.end());
}

template <class Scalar>
std::vector<std::int32_t> Archive::summed(const std::string& name, Type type,
                                          std::size_t axes) const {
    std::vector<std::int32_t> values = widened<Scalar>(name, type, axes);
    std::int64_t at = 0;
    for (std::int32_t& value : values) {
        at += value;
        if (at != static_cast<std::int32_t>(at))
            throw ReadError("array " + name + ": a number is larger than 32 bits");
        value = static_cast<std::int32_t>(at);
    }
    return values;
}

// A grid has as many lows as the last axis is long, or one for all, and as many steps.
std::vector<float> Archive::from_grid(const std::string& name, std::size_t axes) const {
    const std::vector<std::uint16_t> numbers = copy<std::uint16_t>(name, Type::u16, axes);
    const std::vector<float> grid =
        copy<float>(name + ".grid", Type::f32, 2);  // NaN is found in the result
    const std::size_t width = shape(name + ".grid")[1];
    if (shape(name + ".grid")[0] != 2 || !width ||
        (width != 1 && (!axes || width != shape(name).back())))
        throw ReadError("array " + name + ".grid does not fit " + name);
    std::vector<float> values(numbers.size());
    for (std::size_t i = 0; i < numbers.size(); ++i)
        values[i] = grid[i % width] + static_cast<float>(numbers[i]) * grid[width + i % width];
    return values;
}

std::vector<float> Archive::floats(const std::string& name, std::size_t axes, bool any) const {
    std::vector<float> values = arrays_.count(name) && entry(name).type == Type::u16
                                    ? from_grid(name, axes)
                                    : copy<float>(name, Type::f32, axes);
    if (!any)
        for (const float value : values)
            if (!std::isfinite(value)) throw ReadError("array " + name + " holds NaN or infinity");
    return values;
}

std::vector<double> Archive::doubles(const std::string& name, std::size_t axes) const {
    std::vector<double> values = copy<double>(name, Type::f64, axes);
    for (const double value : values)
        if (!std::isfinite(value)) throw ReadError("array " + name + " holds NaN or infinity");
    return values;
}

std::vector<std::int32_t> Archive::integers(const std::string& name, std::size_t axes) const {
    const Type type = entry(name).type;
    if (!arrays_.count(name))
        return type == Type::i8 ? summed<std::int8_t>(name, type, axes)
                                : summed<std::int16_t>(name, Type::i16, axes);
    if (type == Type::u8) return widened<std::uint8_t>(name, type, axes);
    if (type == Type::u16) return widened<std::uint16_t>(name, type, axes);
    return copy<std::int32_t>(name, Type::i32, axes);
}

std::vector<std::uint16_t> Archive::halves(const std::string& name, std::size_t axes) const {
    std::vector<std::uint16_t> values = copy<std::uint16_t>(name, Type::f16, axes);
    for (const std::uint16_t value : values)
        if ((value & 0x7C00) == 0x7C00) throw ReadError("array " + name + " holds NaN or infinity");
    return values;
}

}  // namespace understudy
