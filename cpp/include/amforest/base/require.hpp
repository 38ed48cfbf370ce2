// Checks of what comes from outside.
#pragma once

#include <stdexcept>

namespace amforest {

inline void require(bool holds, const char *message) {
    if (!holds) throw std::invalid_argument(message);
}

} // namespace amforest
