// Columns of the model file, and how they are read: from whatever bytes, checked.
#pragma once

#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <type_traits>
#include <vector>

#include "amforest/base/limits.hpp"
#include "amforest/base/require.hpp"

namespace amforest {

template <class T> using Owned = std::vector<T>;        // a column to be written
template <class T> using Borrowed = std::span<const T>; // a column that was read

inline constexpr std::size_t kVector = std::numeric_limits<std::size_t>::max(); // has no rows

template <class T>
std::span<const T> row_at(std::span<const T> column, std::size_t row, std::size_t width) {
    require((row + 1) * width <= column.size(), "columns must be as long as there are nodes");
    return column.subspan(row * width, width);
}

template <class T> T value_at(std::span<const T> column, std::size_t row) {
    require(row < column.size(), "columns must be as long as there are nodes");
    return column[row];
}

// False for NaN.
template <class Count> bool is_between(Count value, Count least, Count most) {
    return !(value < least) && !(value > most) && value == value;
}

// Whether weights can have added up to this.
template <class Count> bool is_sum_of_weights(Count sum) {
    return sum == 0 || static_cast<double>(sum) >= kLeastWeight;
}

// Sums of whole numbers must be exact; real ones were added in another order.
template <class Count> void require_sum(double sum, Count expected, double n, const char *message) {
    const double rounding = std::is_integral_v<Count> ? 0 : 1e-6 * n;
    require(std::abs(sum - static_cast<double>(expected)) <= rounding, message);
}

} // namespace amforest
