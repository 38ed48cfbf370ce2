// The prior of the prunings.
#pragma once

#include <cmath>
#include <cstddef>

namespace amforest {

// Chipman, George and McCulloch: a pruning continues below a node with probability
// a = alpha (1 + depth)^-beta. The paper's prior is alpha = 1/2, beta = 0.
struct SplitPrior {
    double alpha = 0.5, beta = 0;

    double at(std::size_t depth) const {
        return beta == 0 ? alpha : alpha * std::pow(1.0 + static_cast<double>(depth), -beta);
    }
};

} // namespace amforest
