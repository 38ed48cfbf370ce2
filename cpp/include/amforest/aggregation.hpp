// The weights of the prunings in the log domain: w-bar_v = 1/2 w_v + 1/2 w-bar_v0 w-bar_v1.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "amforest/node_arena.hpp"

namespace amforest {

struct LogMean {
    double log_mean; // log(1/2 a + 1/2 b)
    double share;    // a / (a + b)
};

inline LogMean log_mean(double log_a, double log_b) {
    // Beyond this gap the smaller term is lost in the rounding of the larger.
    constexpr double kNegligible = 40.0;
    const double gap = std::abs(log_a - log_b);
    if (!(gap < kNegligible))
        return {std::max(log_a, log_b) - std::numbers::ln2, log_a >= log_b ? 1.0 : 0.0};
    const double ratio = std::exp(-gap); // smaller / larger
    return {std::max(log_a, log_b) + std::log(1.0 + ratio) - std::numbers::ln2,
            (log_a >= log_b ? 1.0 : ratio) / (1.0 + ratio)};
}

// Sets v's share and returns log w-bar_v.
inline double aggregate(InnerNode &v) {
    const auto [log_w_bar, share] = log_mean(v.log_w, v.child_log_w_bar[0] + v.child_log_w_bar[1]);
    v.share = share;
    return log_w_bar;
}

} // namespace amforest
