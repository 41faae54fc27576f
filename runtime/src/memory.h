// Memory from the host's allocator, and arrays that report when it runs out. The library takes
// memory nowhere else and throws nothing.
#pragma once

#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "../include/understudy.h"
#include "checked.h"

namespace understudy {

using Memory = understudy_allocator;

// The C library's memory. On Linux, arrays of some size that kernels read get large pages.
const Memory& default_memory();

// Kernels read arrays of this alignment.
constexpr std::size_t kAlignment = 64;

// Returns nullptr if memory is short; `bytes` is not 0.
inline void* take_memory(const Memory& memory, std::size_t bytes, std::size_t alignment) {
    return bytes > kTooLarge / 2 ? nullptr : memory.allocate(memory.user, bytes, alignment);
}

inline void give_memory(const Memory& memory, void* data, std::size_t bytes) {
    if (data) memory.release(memory.user, data, bytes);
}

// Creates an object; nullptr: memory is short.
template <class Item, class... Arguments>
Item* create(const Memory& memory, Arguments&&... arguments) {
    void* place = take_memory(memory, sizeof(Item), alignof(Item));
    return place ? new (place) Item(std::forward<Arguments>(arguments)...) : nullptr;
}

// Destroys what `create` made; nullptr is allowed.
template <class Item>
void destroy(const Memory& memory, Item* item) {
    if (!item) return;
    item->~Item();
    give_memory(memory, item, sizeof(Item));
}

// A growing array. Functions that take memory return false if there is none; the array is then as
// it was.
template <class Item, std::size_t Alignment = alignof(Item)>
class Array {
public:
    explicit Array(const Memory& memory) : memory_(&memory) {}
    ~Array() { release(); }
    Array(const Array&) = delete;
    Array& operator=(const Array&) = delete;
    Array(Array&& other) noexcept : memory_(other.memory_) { swap(other); }
    Array& operator=(Array&& other) noexcept {
        swap(other);
        return *this;
    }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(Item); }
    bool empty() const { return size_ == 0; }
    Item* data() { return data_; }
    const Item* data() const { return data_; }
    Item* begin() { return data_; }
    Item* end() { return data_ + size_; }
    const Item* begin() const { return data_; }
    const Item* end() const { return data_ + size_; }
    Item& operator[](std::size_t i) { return data_[i]; }
    const Item& operator[](std::size_t i) const { return data_[i]; }
    Item& back() { return data_[size_ - 1]; }
    const Item& back() const { return data_[size_ - 1]; }

    [[nodiscard]] bool reserve(std::size_t count) {
        if (count <= capacity_) return true;
        void* place = take_memory(*memory_, multiplied(count, sizeof(Item)), Alignment);
        if (!place) return false;
        Item* moved = static_cast<Item*>(place);
        if constexpr (std::is_trivially_copyable_v<Item>) {
            if (size_) std::memcpy(place, data_, size_ * sizeof(Item));
        } else {
            for (std::size_t i = 0; i < size_; ++i) {
                new (moved + i) Item(std::move(data_[i]));
                data_[i].~Item();
            }
        }
        give_memory(*memory_, data_, capacity_ * sizeof(Item));
        data_ = moved;
        capacity_ = count;
        return true;
    }

    [[nodiscard]] bool push(Item item) {
        if (size_ == capacity_ && !reserve(added(size_, added(size_, 8)))) return false;
        new (data_ + size_++) Item(std::move(item));
        return true;
    }

    // Items that are added equal `value`.
    [[nodiscard]] bool resize(std::size_t count, const Item& value) {
        if (!reserve(count)) return false;
        for (; size_ < count; ++size_) new (data_ + size_) Item(value);
        size_ = count;
        return true;
    }

    // Items that are added are zero.
    [[nodiscard]] bool resize(std::size_t count) {
        static_assert(std::is_trivially_copyable_v<Item>, "only plain items can be zeroed");
        if (!reserve(count)) return false;
        if (count > size_)
            std::memset(static_cast<void*>(data_ + size_), 0, (count - size_) * sizeof(Item));
        size_ = count;
        return true;
    }

    // The system provides pages of a large array only when they are written.
    [[nodiscard]] bool resize_without_values(std::size_t count) {
        static_assert(std::is_trivially_copyable_v<Item>, "only plain items can be left out");
        if (!reserve(count)) return false;
        size_ = count;
        return true;
    }

    [[nodiscard]] bool append(const Item* from, std::size_t count) {
        static_assert(std::is_trivially_copyable_v<Item>, "only plain items are copied");
        const std::size_t total = added(size_, count);
        if (total > capacity_ && !reserve(total > 2 * size_ ? total : 2 * size_)) return false;
        if (count) std::memcpy(static_cast<void*>(data_ + size_), from, count * sizeof(Item));
        size_ = total;
        return true;
    }

    // Frees the memory.
    void release() {
        if constexpr (!std::is_trivially_destructible_v<Item>)
            for (std::size_t i = 0; i < size_; ++i) data_[i].~Item();
        give_memory(*memory_, data_, capacity_ * sizeof(Item));
        data_ = nullptr;
        size_ = capacity_ = 0;
    }

    void swap(Array& other) noexcept {
        std::swap(memory_, other.memory_);
        std::swap(data_, other.data_);
        std::swap(size_, other.size_);
        std::swap(capacity_, other.capacity_);
    }

private:
    const Memory* memory_;
    Item* data_ = nullptr;
    std::size_t size_ = 0, capacity_ = 0;
};

// An array that kernels read or write.
template <class Item>
using AlignedArray = Array<Item, kAlignment>;

// Memory of fixed size for numbers of any type.
class Buffer {
public:
    explicit Buffer(const Memory& memory) : bytes_(memory) {}

    // If `zeroed` is false, the system provides pages only when they are written.
    [[nodiscard]] bool allocate(std::size_t bytes, bool zeroed = true) {
        bytes_.release();
        return zeroed ? bytes_.resize(bytes) : bytes_.resize_without_values(bytes);
    }
    void release() { bytes_.release(); }
    std::size_t bytes() const { return bytes_.size(); }
    template <class Scalar>
    Scalar* as() {
        return reinterpret_cast<Scalar*>(bytes_.data());
    }
    template <class Scalar>
    const Scalar* as() const {
        return reinterpret_cast<const Scalar*>(bytes_.data());
    }

private:
    AlignedArray<unsigned char> bytes_;
};

// A text in UTF-8.
class Text {
public:
    explicit Text(const Memory& memory) : bytes_(memory) {}

    std::size_t size() const { return bytes_.size(); }
    bool empty() const { return bytes_.empty(); }
    const char* data() const { return bytes_.data(); }
    // Zero-terminated: `finish` was called.
    const char* c_str() const { return bytes_.empty() ? "" : bytes_.data(); }

    [[nodiscard]] bool reserve(std::size_t count) { return bytes_.reserve(added(count, 1)); }
    [[nodiscard]] bool push(char byte) { return bytes_.push(byte); }
    // Adds the zero behind the end.
    [[nodiscard]] bool finish() {
        if (bytes_.empty()) return true;
        if (!bytes_.reserve(added(bytes_.size(), 1))) return false;
        bytes_.data()[bytes_.size()] = 0;
        return true;
    }
    // Keeps the first bytes of a finished text.
    void cut(std::size_t size) {
        if (bytes_.resize_without_values(size) && size) bytes_.data()[size] = 0;
    }

private:
    Array<char> bytes_;
};

}  // namespace understudy
