// Rows of features: as the caller has them, checked, and made ready for learning.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <vector>

#include "amforest/features.hpp"

namespace amforest {

// Rows of features as the caller has them.
struct Matrix {
    const float *data;
    std::size_t n_rows, n_features;

    Matrix rows(std::size_t first, std::size_t count) const {
        return {data + first * n_features, count, n_features};
    }
    const float *operator[](std::size_t i) const { return data + i * n_features; }
};

// Features beyond this could make a sum of extensions overflow in float32.
inline constexpr float kLargestFeature = 0x1.0p100F;

[[noreturn]] inline void refuse(const Matrix &X, const char *name, std::size_t at,
                                const char *wanted) {
    std::string place = std::to_string(at % X.n_features);
    if (X.n_rows > 1) place = std::to_string(at / X.n_features) + ", " + place;
    throw std::invalid_argument(std::string(name) + "[" + place + "] is " +
                                std::to_string(X.data[at]) + "; " + wanted);
}

// Throws std::invalid_argument, naming the place, unless all values may be given. NaN may. A
// category that is not known may only where `is_learnt(row)` is false.
template <class IsLearnt>
void check_features(const Matrix &X, const Layout &layout, const char *name,
                    const IsLearnt &is_learnt) {
    const auto is_bad = [](float x) { return std::abs(x) > kLargestFeature; };
    for (std::size_t i = 0; i < X.n_rows; ++i) {
        const float *const x = X[i], *const numbers = x + layout.n_codes();
        const std::size_t at = i * X.n_features;
        for (std::size_t f = 0; f < layout.n_codes(); ++f) {
            const auto room = static_cast<float>(layout.categories.room()[f]);
            const bool is_code =
                x[f] >= (is_learnt(i) ? 0 : kUnknown) && x[f] < room && x[f] == std::floor(x[f]);
            if (!is_code && !std::isnan(x[f]))
                refuse(X, name, at + f, "a category must be one that is known");
        }
        if (layout.has_box())
            for (std::size_t j = 0; j < layout.n_numbers; ++j)
                if (!(numbers[j] >= layout.lower[j] && numbers[j] <= layout.upper[j]))
                    refuse(X, name, at + j, "features must lie within bounds, and not be missing");
        const float *bad = std::find_if(numbers, numbers + layout.n_numbers, is_bad);
        if (bad != numbers + layout.n_numbers)
            refuse(X, name, at + static_cast<std::size_t>(bad - x),
                   "features must be finite and lie within ±2**100");
    }
}

inline bool have_gaps(const Matrix &X) {
    return std::any_of(X.data, X.data + X.n_rows * X.n_features,
                       [](float x) { return std::isnan(x); });
}

// Rows for learning, in memory that is used again. Adding 0 turns -0 into 0, so that equal rows
// have equal bits.
class PreparedRows {
  public:
    // Of a block: as many as are worth the call, but few enough to stay in the cache.
    static std::size_t at_once(const Layout &layout) {
        constexpr std::size_t kBytes = 1 << 17, kMost = 256;
        return std::clamp<std::size_t>(kBytes / row_bytes(layout), 1, kMost);
    }

    PreparedRows(const Layout &layout, std::size_t capacity)
        : layout_(layout), row_size_(layout.n_codes() + layout.width()),
          n_words_(layout.categories.n_words()), capacity_(capacity), values_(capacity * row_size_),
          sets_(capacity * n_words_) {}
    PreparedRows(const Layout &layout, const Matrix &X) : PreparedRows(layout, X.n_rows) { set(X); }

    std::size_t capacity() const { return capacity_; }
    std::size_t size() const { return size_; }

    void set(const Matrix &X) {
        size_ = X.n_rows;
        std::ranges::fill(sets_, Word{0});
        for (std::size_t i = 0; i < size_; ++i) {
            std::transform(X[i], X[i] + X.n_features, &values_[i * row_size_],
                           [](float x) { return x + 0.0F; });
            for (std::size_t f = 0; f < layout_.n_codes(); ++f)
                if (const float code = X[i][f]; !std::isnan(code))
                    layout_.categories.insert(f, code, &sets_[i * n_words_]);
        }
    }

    Point operator[](std::size_t i) const {
        return {values_.data() + i * row_size_, sets_.data() + i * n_words_};
    }

  private:
    static std::size_t row_bytes(const Layout &layout) {
        return (layout.n_codes() + layout.width()) * sizeof(float) +
               layout.categories.n_words() * sizeof(Word);
    }

    const Layout &layout_;
    std::size_t row_size_, n_words_, capacity_, size_ = 0;
    std::vector<float> values_;
    std::vector<Word> sets_;
};

} // namespace amforest
