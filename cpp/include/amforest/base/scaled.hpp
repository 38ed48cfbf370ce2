// Positive numbers that neither overflow nor underflow.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <utility>

namespace amforest {

// value * 2^(256 scale), with 2^-128 <= value < 2^128. The scale is an integer, in a double because
// exp(-eta loss) may be as small as exp(-1e250).
struct Scaled {
    double value = 1, scale = 0;

    static constexpr double kLargest = 0x1.0p128, kSmallest = 0x1.0p-128;
    static constexpr auto kLargestBits = std::bit_cast<std::uint64_t>(kLargest);
    static constexpr auto kSmallestBits = std::bit_cast<std::uint64_t>(kSmallest);

    // Whether kSmallest <= value < kLargest: the exponent tells.
    static bool is_plain(double value) {
        constexpr int kMantissa = 52;
        return (std::bit_cast<std::uint64_t>(value) >> kMantissa) - (kSmallestBits >> kMantissa) <
               (kLargestBits - kSmallestBits) >> kMantissa;
    }
    bool is_unscaled() const { return std::bit_cast<std::uint64_t>(scale) == 0; }

    static Scaled of(double value, double scale = 0) {
        while (!is_plain(value)) [[unlikely]] {
            const bool large = value >= kLargest;
            value *= large ? 0x1.0p-256 : 0x1.0p256;
            scale += large ? 1 : -1;
        }
        return {value, scale};
    }

    static Scaled exp(double x) {
        constexpr double kPerScale = 256 * std::numbers::ln2;
        const double scale = std::nearbyint(x / kPerScale);
        // Where x is huge the difference is rounding alone.
        const double rest = std::clamp(x - scale * kPerScale, -kPerScale / 2, kPerScale / 2);
        return of(std::exp(rest), scale);
    }

    // As a double; what is beyond [kSmallest, kLargest] becomes the bound.
    double clamped() const {
        // As integers, which the compiler selects without a branch that cannot be predicted.
        const std::uint64_t at_least =
            scale < 0 ? kSmallestBits : std::bit_cast<std::uint64_t>(value);
        return std::bit_cast<double>(scale > 0 ? kLargestBits : at_least);
    }

    friend Scaled operator*(Scaled a, Scaled b) { return of(a.value * b.value, a.scale + b.scale); }
    friend Scaled operator/(Scaled a, Scaled b) { return of(a.value / b.value, a.scale - b.scale); }

    friend Scaled operator+(Scaled a, Scaled b) {
        if (a.scale == b.scale) return of(a.value + b.value, a.scale);
        if (a.scale < b.scale) std::swap(a, b);
        if (a.scale > b.scale + 1) return a; // b is lost in rounding
        return of(a.value + b.value * 0x1.0p-256, a.scale);
    }
};

} // namespace amforest
