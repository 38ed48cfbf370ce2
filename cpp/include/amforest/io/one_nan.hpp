// Missing values with the same bits everywhere: their signs and payloads mean nothing.
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <vector>

namespace amforest {

inline float with_one_nan(float value) {
    return std::isnan(value) ? std::numeric_limits<float>::quiet_NaN() : value;
}

inline void append_with_one_nan(std::vector<float> &column, std::span<const float> values) {
    for (const float value : values) column.push_back(with_one_nan(value));
}

} // namespace amforest
