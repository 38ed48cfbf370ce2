// Boxes of features, and the loops over them that learning spends its time in.
//
// Rows of features are padded with zeros to a multiple of four floats, and sums over features run
// in eight lanes that are then added as a fixed tree: the result does not depend on the width of
// the machine's vectors.
//
// NaN is a missing value: in a row it adds no extension and widens nothing; in a range it means
// that no value was seen yet, and the first one is not an extension either.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <span>
#include <string_view>

// The loops by hand need GNU's attributes, and vectors on the stack that are aligned: GCC's are not
// on Windows.
#if defined(__x86_64__) && defined(__GNUC__) && !defined(_WIN32)
#define AMFOREST_HAS_AVX2
#include <immintrin.h>
#endif

namespace amforest {

inline constexpr std::size_t kLanes = 8;

inline constexpr std::size_t padded(std::size_t n_features) { return (n_features + 3) / 4 * 4; }

// The corners of a box; a point has one row for both.
struct Box {
    const float *lower, *upper;
};

// Delta_j = (x_j - b_j)_+ + (a_j - x_j)_+, of which one term at the most is not zero.
inline float extension_of(float x, float lower, float upper) {
    return std::max(0.0F, std::max(x - upper, lower - x)); // in this order 0 for NaN
}

// Uniform on [low, high], rounded so that low <= s < high: the split separates.
inline float threshold_between(float low, float high, double u) {
    const double from = low, to = high;
    const auto s = static_cast<float>(from + u * (to - from));
    return s < high ? s : std::nextafter(high, -std::numeric_limits<float>::infinity());
}

// The smaller and the larger of two values, either of which may be missing.
inline float least(float a, float b) { return b < a || std::isnan(a) ? b : a; }
inline float largest(float a, float b) { return b > a || std::isnan(a) ? b : a; }

// The loops, in plain code and once more by hand for AVX2; the tests compare the two.
namespace kernels {

struct Table {
    // Delta = sum over j of Delta_j.
    float (*extension)(const float *x, Box box, std::size_t width);
    // The same for the smallest box that holds two others.
    float (*extension_of_two)(const float *x, Box a, Box b, std::size_t width);
    // sum over j of lambda_j Delta_j, for one box and for two.
    float (*weighted_extension)(const float *x, Box box, const float *weights, std::size_t width);
    float (*weighted_extension_of_two)(const float *x, Box a, Box b, const float *weights,
                                       std::size_t width);
    // Whether the smallest box that holds two others holds x: its extension may be 0 without that,
    // where values were missing or do not count.
    bool (*holds)(const float *x, Box a, Box b, std::size_t width);
    // Widens a box so that it holds x.
    void (*widen)(const float *x, float *lower, float *upper, std::size_t width);
    // The smallest box that holds some rows of a matrix, in which no value is missing.
    void (*enclose)(const float *matrix, std::span<const std::uint32_t> rows, float *lower,
                    float *upper, std::size_t width);
};

namespace plain {

template <class ExtensionAt> float sum_in_lanes(std::size_t width, const ExtensionAt &at) {
    std::array<float, kLanes> sum{};
    for (std::size_t j = 0; j < width; ++j) sum[j % kLanes] += at(j);
    return ((sum[0] + sum[4]) + (sum[2] + sum[6])) + ((sum[1] + sum[5]) + (sum[3] + sum[7]));
}

inline float extension(const float *x, Box box, std::size_t width) {
    return sum_in_lanes(
        width, [=](std::size_t j) { return extension_of(x[j], box.lower[j], box.upper[j]); });
}

inline float extension_of_two(const float *x, Box a, Box b, std::size_t width) {
    return sum_in_lanes(width, [=](std::size_t j) {
        return extension_of(x[j], least(a.lower[j], b.lower[j]), largest(a.upper[j], b.upper[j]));
    });
}

inline float weighted_extension(const float *x, Box box, const float *weights, std::size_t width) {
    return sum_in_lanes(width, [=](std::size_t j) {
        return weights[j] * extension_of(x[j], box.lower[j], box.upper[j]);
    });
}

inline float weighted_extension_of_two(const float *x, Box a, Box b, const float *weights,
                                       std::size_t width) {
    return sum_in_lanes(width, [=](std::size_t j) {
        return weights[j] *
               extension_of(x[j], least(a.lower[j], b.lower[j]), largest(a.upper[j], b.upper[j]));
    });
}

inline bool holds(const float *x, Box a, Box b, std::size_t width) {
    for (std::size_t j = 0; j < width; ++j)
        if (!std::isnan(x[j]) &&
            !(least(a.lower[j], b.lower[j]) <= x[j] && x[j] <= largest(a.upper[j], b.upper[j])))
            return false;
    return true;
}

[[gnu::always_inline]] inline void widen(const float *x, float *lower, float *upper,
                                         std::size_t width) {
    for (std::size_t j = 0; j < width; ++j) {
        lower[j] = least(lower[j], x[j]);
        upper[j] = largest(upper[j], x[j]);
    }
}

inline void enclose(const float *matrix, std::span<const std::uint32_t> rows, float *lower,
                    float *upper, std::size_t width) {
    for (std::size_t j = 0; j < width; ++j) {
        lower[j] = upper[j] = matrix[rows[0] * width + j];
        for (const std::size_t row : rows.subspan(1)) {
            lower[j] = std::min(lower[j], matrix[row * width + j]);
            upper[j] = std::max(upper[j], matrix[row * width + j]);
        }
    }
}

inline constexpr Table kTable = {
    extension, extension_of_two, weighted_extension, weighted_extension_of_two, holds,
    widen,     enclose};

} // namespace plain

#if defined(AMFOREST_HAS_AVX2)
namespace avx2 {

[[gnu::target("avx2")]] inline __m256 load8(const float *from) { return _mm256_loadu_ps(from); }
[[gnu::target("avx2")]] inline __m128 load4(const float *from) { return _mm_loadu_ps(from); }

// min and max return the second operand if either is NaN: right unless it is the second.
[[gnu::target("avx2")]] inline __m256 least8(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}
[[gnu::target("avx2")]] inline __m256 largest8(__m256 a, __m256 b) {
    return _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
}
[[gnu::target("avx2")]] inline __m128 least4(__m128 a, __m128 b) {
    return _mm_blendv_ps(_mm_min_ps(a, b), a, _mm_cmp_ps(b, b, _CMP_UNORD_Q));
}
[[gnu::target("avx2")]] inline __m128 largest4(__m128 a, __m128 b) {
    return _mm_blendv_ps(_mm_max_ps(a, b), a, _mm_cmp_ps(b, b, _CMP_UNORD_Q));
}

[[gnu::target("avx2")]] inline __m256 extension8(__m256 x, __m256 lower, __m256 upper) {
    return _mm256_max_ps(_mm256_max_ps(_mm256_sub_ps(x, upper), _mm256_sub_ps(lower, x)),
                         _mm256_setzero_ps());
}

[[gnu::target("avx2")]] inline __m128 extension4(__m128 x, __m128 lower, __m128 upper) {
    return _mm_max_ps(_mm_max_ps(_mm_sub_ps(x, upper), _mm_sub_ps(lower, x)), _mm_setzero_ps());
}

// Adds the lanes: four to four, two to two, one to one. `tail` are lanes 0 to 3 of a last half.
[[gnu::target("avx2")]] inline float sum_lanes(__m256 sum, __m128 tail) {
    const __m128 low = _mm_add_ps(_mm256_castps256_ps128(sum), tail);
    const __m128 four = _mm_add_ps(low, _mm256_extractf128_ps(sum, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
}

[[gnu::target("avx2")]] inline float extension(const float *x, Box box, std::size_t width) {
    __m256 sum = _mm256_setzero_ps();
    const float *const end = x + width / kLanes * kLanes;
    for (; x < end; x += kLanes, box.lower += kLanes, box.upper += kLanes)
        sum = _mm256_add_ps(sum, extension8(load8(x), load8(box.lower), load8(box.upper)));
    if (width % kLanes == 0) return sum_lanes(sum, _mm_setzero_ps());
    return sum_lanes(sum, extension4(load4(x), load4(box.lower), load4(box.upper)));
}

[[gnu::target("avx2")]] inline float extension_of_two(const float *x, Box a, Box b,
                                                      std::size_t width) {
    __m256 sum = _mm256_setzero_ps();
    std::size_t j = 0;
    for (; j + kLanes <= width; j += kLanes)
        sum = _mm256_add_ps(sum,
                            extension8(load8(x + j), least8(load8(a.lower + j), load8(b.lower + j)),
                                       largest8(load8(a.upper + j), load8(b.upper + j))));
    if (j == width) return sum_lanes(sum, _mm_setzero_ps());
    return sum_lanes(sum, extension4(load4(x + j), least4(load4(a.lower + j), load4(b.lower + j)),
                                     largest4(load4(a.upper + j), load4(b.upper + j))));
}

[[gnu::target("avx2")]] inline float weighted_extension(const float *x, Box box,
                                                        const float *weights, std::size_t width) {
    __m256 sum = _mm256_setzero_ps();
    std::size_t j = 0;
    for (; j + kLanes <= width; j += kLanes)
        sum = _mm256_add_ps(
            sum, _mm256_mul_ps(load8(weights + j), extension8(load8(x + j), load8(box.lower + j),
                                                              load8(box.upper + j))));
    if (j == width) return sum_lanes(sum, _mm_setzero_ps());
    return sum_lanes(
        sum, _mm_mul_ps(load4(weights + j),
                        extension4(load4(x + j), load4(box.lower + j), load4(box.upper + j))));
}

[[gnu::target("avx2")]] inline float
weighted_extension_of_two(const float *x, Box a, Box b, const float *weights, std::size_t width) {
    __m256 sum = _mm256_setzero_ps();
    std::size_t j = 0;
    for (; j + kLanes <= width; j += kLanes) {
        const __m256 lower = least8(load8(a.lower + j), load8(b.lower + j));
        const __m256 upper = largest8(load8(a.upper + j), load8(b.upper + j));
        sum = _mm256_add_ps(
            sum, _mm256_mul_ps(load8(weights + j), extension8(load8(x + j), lower, upper)));
    }
    if (j == width) return sum_lanes(sum, _mm_setzero_ps());
    const __m128 lower = least4(load4(a.lower + j), load4(b.lower + j));
    const __m128 upper = largest4(load4(a.upper + j), load4(b.upper + j));
    return sum_lanes(sum, _mm_mul_ps(load4(weights + j), extension4(load4(x + j), lower, upper)));
}

[[gnu::target("avx2")]] inline bool holds(const float *x, Box a, Box b, std::size_t width) {
    std::size_t j = 0;
    for (; j + kLanes <= width; j += kLanes) {
        const __m256 lower = least8(load8(a.lower + j), load8(b.lower + j));
        const __m256 upper = largest8(load8(a.upper + j), load8(b.upper + j));
        const __m256 value = load8(x + j);
        const __m256 is_inside = _mm256_and_ps(_mm256_cmp_ps(lower, value, _CMP_LE_OQ),
                                               _mm256_cmp_ps(value, upper, _CMP_LE_OQ));
        const __m256 is_missing = _mm256_cmp_ps(value, value, _CMP_UNORD_Q);
        constexpr int kAll = 0xff;
        if (_mm256_movemask_ps(_mm256_or_ps(is_inside, is_missing)) != kAll) return false;
    }
    return plain::holds(x + j, {a.lower + j, a.upper + j}, {b.lower + j, b.upper + j}, width - j);
}

// Eight columns at a time, whose ends stay in registers.
[[gnu::target("avx2")]] inline void enclose(const float *matrix,
                                            std::span<const std::uint32_t> rows, float *lower,
                                            float *upper, std::size_t width) {
    std::size_t j = 0;
    for (; j + kLanes <= width; j += kLanes) {
        __m256 low = load8(matrix + rows[0] * width + j), high = low;
        for (const std::size_t row : rows.subspan(1)) {
            const __m256 value = load8(matrix + row * width + j);
            low = _mm256_min_ps(value, low);
            high = _mm256_max_ps(value, high);
        }
        _mm256_storeu_ps(lower + j, low);
        _mm256_storeu_ps(upper + j, high);
    }
    if (j == width) return;
    __m128 low = load4(matrix + rows[0] * width + j), high = low;
    for (const std::size_t row : rows.subspan(1)) {
        const __m128 value = load4(matrix + row * width + j);
        low = _mm_min_ps(value, low);
        high = _mm_max_ps(value, high);
    }
    _mm_storeu_ps(lower + j, low);
    _mm_storeu_ps(upper + j, high);
}

// The compiler vectorises this one by itself.
[[gnu::target("avx2")]] inline void widen(const float *x, float *lower, float *upper,
                                          std::size_t width) {
    plain::widen(x, lower, upper, width);
}

inline constexpr Table kTable = {
    extension, extension_of_two, weighted_extension, weighted_extension_of_two, holds,
    widen,     enclose};

} // namespace avx2
#endif

// The fastest that this machine runs, or the plain one where AMFOREST_SIMD=plain requests it.
inline Table choose() {
    const char *requested = std::getenv("AMFOREST_SIMD");
    if (requested != nullptr && std::string_view(requested) == "plain") return plain::kTable;
#if defined(AMFOREST_HAS_AVX2)
    if (__builtin_cpu_supports("avx2")) return avx2::kTable;
#endif
    return plain::kTable;
}

inline const Table chosen = choose();

} // namespace kernels
} // namespace amforest
