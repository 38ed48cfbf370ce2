// The range R_v = [lower, upper] of the points in a node, feature by feature.
//
// Rows of features are padded with zeros to a multiple of eight floats, and sums over features
// run in eight lanes that are then added as a fixed tree: the result does not depend on the
// width of the machine's vectors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

namespace amforest {

inline constexpr std::size_t kLanes = 8;

inline constexpr std::size_t padded(std::size_t n_features) {
    return (n_features + kLanes - 1) / kLanes * kLanes;
}

// Delta_j = (x_j - b_j)_+ + (a_j - x_j)_+, of which one term at the most is not zero.
inline float extension_of(float x, float lower, float upper) {
    return std::max(std::max(x - upper, lower - x), 0.0F);
}

// A view of a node's range. In a leaf that holds one point, lower and upper are the same row.
struct Range {
    float *lower, *upper;
    std::size_t width;

    // Delta = sum over j of Delta_j.
    float extension(const float *x) const {
        std::array<float, kLanes> sum{};
        for (std::size_t j = 0; j < width; j += kLanes)
            for (std::size_t lane = 0; lane < kLanes; ++lane)
                sum[lane] += extension_of(x[j + lane], lower[j + lane], upper[j + lane]);
        return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
    }

    void extension_by_feature(const float *x, std::span<float> delta) const {
        for (std::size_t j = 0; j < delta.size(); ++j)
            delta[j] = extension_of(x[j], lower[j], upper[j]);
    }

    void widen(const float *x) const {
        for (std::size_t j = 0; j < width; ++j) {
            lower[j] = std::min(lower[j], x[j]);
            upper[j] = std::max(upper[j], x[j]);
        }
    }
};

} // namespace amforest
