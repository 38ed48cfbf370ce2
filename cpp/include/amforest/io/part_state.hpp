// A mixer, or linear experts, as the numbers that their `for_each` visits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "amforest/base/require.hpp"

namespace amforest {

template <class Part> std::size_t state_size(const Part &part) {
    std::size_t size = 0;
    part.for_each([&](double) { ++size; });
    return size;
}

template <class Part> std::vector<double> state_of(const Part &part) {
    std::vector<double> values;
    part.for_each([&](double value) { values.push_back(value); });
    return values;
}

// Throws std::invalid_argument unless the values are the state of such a part.
template <class Part>
void read_state(std::span<const double> values, Part &part, const char *message) {
    std::size_t next = 0;
    part.for_each([&](double &value) {
        require(next < values.size(), message);
        value = values[next++];
    });
    require(next == values.size() && part.is_valid(), message);
}

} // namespace amforest
