// Rows of features: as the caller has them, validated, and prepared for a tree.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "amforest/base/limits.hpp"
#include "amforest/partition/cell.hpp"
#include "amforest/partition/layout.hpp"
#include "amforest/partition/restricted.hpp"

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

// That of row i; all are 1 where none are given.
inline double weight_at(std::span<const double> weights, std::size_t i) {
    return weights.empty() ? 1.0 : weights[i];
}

[[noreturn]] inline void refuse(const Matrix &X, const char *name, std::size_t at,
                                const char *expected) {
    std::string place = std::to_string(at % X.n_features);
    if (X.n_rows > 1) place = std::to_string(at / X.n_features) + ", " + place;
    throw std::invalid_argument(std::string(name) + "[" + place + "] is " +
                                std::to_string(X.data[at]) + "; " + expected);
}

inline void check_width(const Matrix &X, const Layout &layout, const char *name) {
    if (X.n_features != layout.n_features())
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(X.n_features) +
                                    " features; the forest was built for " +
                                    std::to_string(layout.n_features()));
}

inline void check_domain(const Matrix &, const char *, const Everywhere &) {}
inline void check_domain(const Matrix &X, const char *name, const Bounds &bounds) {
    for (std::size_t i = 0; i < X.n_rows; ++i)
        for (std::size_t j = 0; j < X.n_features; ++j)
            if (!bounds.hold(j, X[i][j]))
                refuse(X, name, i * X.n_features + j,
                       "features must lie within bounds, and not be missing");
}

// Throws std::invalid_argument, naming the place, unless all values are valid. NaN is. An unknown
// category is valid only where `is_learned(row)` is false.
template <class IsLearned>
void check_features(const Matrix &X, const Layout &layout, const char *name,
                    const IsLearned &is_learned) {
    check_width(X, layout, name);
    const auto is_bad = [](float x) { return std::abs(x) > kLargestFeature; };
    for (std::size_t i = 0; i < X.n_rows; ++i) {
        const float *const x = X[i], *const end = x + X.n_features;
        const std::size_t at = i * X.n_features;
        for (std::size_t f = 0; f < layout.n_codes(); ++f) {
            const auto room = static_cast<float>(layout.categories.room()[f]);
            const bool is_code =
                x[f] >= (is_learned(i) ? 0 : kUnknown) && x[f] < room && x[f] == std::floor(x[f]);
            if (!is_code && !std::isnan(x[f]))
                refuse(X, name, at + f, "a category must be a known one");
        }
        const float *bad = std::find_if(x + layout.n_codes(), end, is_bad);
        if (bad != end)
            refuse(X, name, at + static_cast<std::size_t>(bad - x),
                   "features must be finite and lie within ±2**100");
    }
}

inline bool have_gaps(const Matrix &X) {
    return std::any_of(X.data, X.data + X.n_rows * X.n_features,
                       [](float x) { return std::isnan(x); });
}

// Rows prepared for trees, in memory that is reused. Adding 0 turns -0 into 0, so that equal rows
// have equal bits.
class PreparedRows {
  public:
    // The rows of a block: enough to be worth the call, few enough to stay in the cache.
    static std::size_t block_size(const Layout &layout) {
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
