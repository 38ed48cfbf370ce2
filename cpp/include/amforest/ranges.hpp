// The range R_v = [lower, upper] of the points in a node, feature by feature.
//
// Rows of features are padded with zeros to a multiple of eight floats, and sums over features
// run in eight lanes that are then added as a fixed tree: the result does not depend on the
// width of the machine's vectors.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <span>
#include <string_view>

namespace amforest {

inline constexpr std::size_t kLanes = 8;

inline constexpr std::size_t padded(std::size_t n_features) {
    return (n_features + kLanes - 1) / kLanes * kLanes;
}

// Delta_j = (x_j - b_j)_+ + (a_j - x_j)_+, of which one term at the most is not zero.
inline float extension_of(float x, float lower, float upper) {
    return std::max(std::max(x - upper, lower - x), 0.0F);
}

// The two loops that learning spends its time in, over `width` features. They are compiled once
// per instruction set: the compiler turns the inner loop into one vector operation.
namespace kernels {

[[gnu::always_inline]] inline float sum_extension(const float *x, const float *lower,
                                                  const float *upper, std::size_t width) {
    std::array<float, kLanes> sum{};
    for (std::size_t j = 0; j < width; j += kLanes)
        for (std::size_t lane = 0; lane < kLanes; ++lane)
            sum[lane] += extension_of(x[j + lane], lower[j + lane], upper[j + lane]);
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

[[gnu::always_inline]] inline void widen(const float *x, float *lower, float *upper,
                                         std::size_t width) {
    for (std::size_t j = 0; j < width; ++j) {
        lower[j] = std::min(lower[j], x[j]);
        upper[j] = std::max(upper[j], x[j]);
    }
}

struct Table {
    float (*sum_extension)(const float *, const float *, const float *, std::size_t);
    void (*widen)(const float *, float *, float *, std::size_t);
    const char *name;
};

inline constexpr Table kBaseline = {
    [](const float *x, const float *lower, const float *upper, std::size_t width) {
        return sum_extension(x, lower, upper, width);
    },
    [](const float *x, float *lower, float *upper, std::size_t width) {
        widen(x, lower, upper, width);
    },
    "baseline"};

#if defined(__x86_64__)
[[gnu::target("avx2")]] inline float sum_extension_avx2(const float *x, const float *lower,
                                                        const float *upper, std::size_t width) {
    return sum_extension(x, lower, upper, width);
}
[[gnu::target("avx2")]] inline void widen_avx2(const float *x, float *lower, float *upper,
                                               std::size_t width) {
    widen(x, lower, upper, width);
}
inline constexpr Table kAvx2 = {sum_extension_avx2, widen_avx2, "avx2"};
#endif

// The best that this machine runs, or what AMFOREST_SIMD=baseline asks for.
inline const Table &choose() {
    const char *wish = std::getenv("AMFOREST_SIMD");
    if (wish != nullptr && std::string_view(wish) == "baseline") return kBaseline;
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2")) return kAvx2;
#endif
    return kBaseline;
}

inline const Table chosen = choose();

} // namespace kernels

// Views of a node's range. In a leaf that holds one point, lower and upper are the same row.
struct ConstRange {
    const float *lower, *upper;
    std::size_t width;

    // Delta = sum over j of Delta_j.
    float extension(const float *x) const {
        return kernels::chosen.sum_extension(x, lower, upper, width);
    }

    void extension_by_feature(const float *x, std::span<float> delta) const {
        for (std::size_t j = 0; j < delta.size(); ++j)
            delta[j] = extension_of(x[j], lower[j], upper[j]);
    }
};

struct Range {
    float *lower, *upper;
    std::size_t width;

    operator ConstRange() const { return {lower, upper, width}; }

    void widen(const float *x) const { kernels::chosen.widen(x, lower, upper, width); }
};

} // namespace amforest
