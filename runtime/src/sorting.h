// Sorting without memory and with little code; std::sort takes ten times the code.
#pragma once

#include <cstddef>
#include <utility>

namespace understudy {

// Sorts items so that no item is before(...) the one in front of it. Equal items may change places.
template <class Item, class Before>
void sort_items(Item* items, std::size_t count, const Before& before) {
    bool sorted = true;
    for (std::size_t i = 1; i < count && sorted; ++i) sorted = !before(items[i], items[i - 1]);
    if (sorted) return;
    // A heap: no parent is before its children.
    const auto sink = [&](std::size_t parent, std::size_t end) {
        for (std::size_t child; (child = 2 * parent + 1) < end; parent = child) {
            if (child + 1 < end && before(items[child], items[child + 1])) ++child;
            if (!before(items[parent], items[child])) return;
            std::swap(items[parent], items[child]);
        }
    };
    for (std::size_t parent = count / 2; parent > 0; --parent) sink(parent - 1, count);
    for (std::size_t end = count - 1; end > 0; --end) {
        std::swap(items[0], items[end]);
        sink(0, end);
    }
}

}  // namespace understudy
