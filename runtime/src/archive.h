// The arrays of a safetensors file, by name. Every offset, type and shape is checked before any
// number is read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "json.h"

namespace understudy {

enum class Type { f16, f32, f64, i8, i16, i32, u8, u16, other };

class Archive {
public:
    static constexpr std::size_t kPrefix = 9;  // bytes that tell whether it may be such a file
    // The length of the header, from the first kPrefix bytes of a file of `size` bytes. Throws
    // ReadError if it is no such file.
    static std::uint64_t header_length(const std::uint8_t* data, std::size_t size);

    // `data` must outlive the archive. Throws ReadError unless the file is complete and
    // well-formed.
    Archive(const std::uint8_t* data, std::size_t size);

    // The header of the deformer: the metadata entry "understudy". Throws ReadError if it is
    // missing. It refers to memory of the archive.
    Json header() const;
    std::size_t size() const { return size_; }  // of the file
    // Whether there is such an array, either as numbers or as differences of neighbours ("steps").
    bool has(const std::string& name) const {
        return arrays_.count(name) || arrays_.count(name + ".steps");
    }
    const std::vector<std::size_t>& shape(const std::string& name) const {
        return entry(name).shape;
    }

    // A copy of an array of this type and number of axes. Floats must be finite unless `any` is
    // set; they may be stored as 16-bit numbers on a grid. Integers may be stored in 8 or 16 bits,
    // or as steps.
    std::vector<float> floats(const std::string& name, std::size_t axes, bool any = false) const;
    std::vector<double> doubles(const std::string& name, std::size_t axes) const;
    std::vector<std::int32_t> integers(const std::string& name, std::size_t axes) const;
    std::vector<std::uint16_t> halves(const std::string& name, std::size_t axes) const;

private:
    struct Entry {
        Type type = Type::other;
        std::vector<std::size_t> shape;
        const std::uint8_t* data = nullptr;
        std::size_t bytes = 0;
    };
    const Entry& entry(const std::string& name) const;
    template <class Scalar>
    std::vector<Scalar> copy(const std::string& name, Type type, std::size_t axes) const;
    template <class Scalar>
    std::vector<std::int32_t> widened(const std::string& name, Type type, std::size_t axes) const;
    template <class Scalar>
    std::vector<std::int32_t> summed(const std::string& name, Type type, std::size_t axes) const;
    std::vector<float> from_grid(const std::string& name, std::size_t axes) const;
    void read_entry(const std::string& name, const Json& about, const std::uint8_t* data,
                    std::size_t size);

    std::map<std::string, Entry> arrays_;
    std::size_t size_;
    std::string header_;  // empty: there is none
};

}  // namespace understudy
