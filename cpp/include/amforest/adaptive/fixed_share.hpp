// Fixed share: each weight is multiplied by its likelihood, and all give a part away.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

namespace amforest {

// `logs` are log-likelihoods; a row of weight w counts as min(w, 1) rows.
inline void share(std::span<double> weights, std::span<const double> logs, double part,
                  double weight) {
    const double largest = *std::ranges::max_element(logs);
    double sum = 0;
    for (std::size_t k = 0; k < weights.size(); ++k)
        sum += weights[k] *= std::exp(std::min(weight, 1.0) * (logs[k] - largest));
    const double each = part / static_cast<double>(weights.size());
    for (double &value : weights) value = (1 - part) * (value / sum) + each;
}

} // namespace amforest
