// Sums over a run of labels of any length, also a fraction, in closed form.
#pragma once

#include <cmath>

namespace amforest {

// The series below are summed from here on, where they are exact to rounding.
inline constexpr double kAsymptotic = 16;

// log of a (a+1) ... (a+w-1) = log Gamma(a+w) - log Gamma(a), for a, w > 0.
inline double log_rising(double a, double w) {
    double sum = 0;
    for (; a < kAsymptotic; ++a) sum -= std::log1p(w / a);
    // Stirling; the difference is taken in each term, so that nothing large cancels.
    const auto tail = [](double x) {
        const double u = 1 / (x * x);
        return (1.0 / 12 - u * (1.0 / 360 - u * (1.0 / 1260 - u / 1680))) / x;
    };
    const double main = (a - 0.5) * std::log1p(w / a) + w * (std::log(a + w) - 1);
    return sum + (main + (tail(a + w) - tail(a)));
}

// 1/n^2 + 1/(n+1)^2 + ... + 1/(n+w-1)^2 = psi_1(n) - psi_1(n+w), for n, w > 0.
inline double inverse_squares(double n, double w) {
    double sum = 0;
    for (; n < kAsymptotic; ++n) {
        const double from = 1 / n, to = 1 / (n + w);
        sum += from * from - to * to;
    }
    const auto tail = [](double x) {
        const double u = 1 / (x * x);
        return u * (0.5 + (1.0 / 6 - u * (1.0 / 30 - u * (1.0 / 42 - u / 30))) / x);
    };
    return sum + (w / (n * (n + w)) + (tail(n) - tail(n + w)));
}

} // namespace amforest
