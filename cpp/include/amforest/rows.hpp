// Rows of features: as the caller has them, validated, and prepared for a tree.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "amforest/base/limits.hpp"
#include "amforest/partition/cell.hpp"
#include "amforest/partition/layout.hpp"
#include "amforest/partition/restricted.hpp"

namespace amforest {

// Rows of features as the caller has them. They may be of an earlier layout than the forest's, with
// fewer codes or fewer numbers: what they lack is missing.
struct Matrix {
    static constexpr std::size_t kAsForest = std::numeric_limits<std::size_t>::max();

    const float *data;
    std::size_t n_rows, n_features;
    std::size_t n_codes = kAsForest; // how many of the features are codes

    std::size_t n_numbers() const { return n_features - n_codes; }
    Matrix resolved(const Layout &layout) const {
        return {data, n_rows, n_features, n_codes == kAsForest ? layout.n_codes() : n_codes};
    }
    bool is_of(const Layout &layout) const {
        return n_codes == layout.n_codes() && n_features == layout.n_features();
    }
    Matrix rows(std::size_t first, std::size_t count) const {
        return {data + first * n_features, count, n_features, n_codes};
    }
    const float *operator[](std::size_t i) const { return data + i * n_features; }
};

[[noreturn]] inline void refuse(const Matrix &X, const char *name, std::size_t at,
                                const char *expected) {
    std::string place = std::to_string(at % X.n_features);
    if (X.n_rows > 1) place = std::to_string(at / X.n_features) + ", " + place;
    throw std::invalid_argument(std::string(name) + "[" + place + "] is " +
                                std::to_string(X.data[at]) + "; " + expected);
}

// Of the forest's layout, unless the number of codes is given: then an earlier one will do.
inline void check_width(const Matrix &X, const Layout &layout, const char *name) {
    const bool is_valid = X.n_codes == Matrix::kAsForest
                              ? X.n_features == layout.n_features()
                              : X.n_codes <= X.n_features && X.n_codes <= layout.n_codes() &&
                                    X.n_numbers() <= layout.n_numbers;
    if (is_valid) return;
    throw std::invalid_argument(std::string(name) + " has " + std::to_string(X.n_features) +
                                " features; the forest was built for " +
                                std::to_string(layout.n_features()));
}

inline void check_domain(const Matrix &, const char *, const Everywhere &) {}
inline void check_domain(const Matrix &X, const char *name, const Bounds &bounds) {
    if (X.n_features < bounds.lower.size())
        throw std::invalid_argument(std::string(name) + " has " + std::to_string(X.n_features) +
                                    " features; there are bounds of " +
                                    std::to_string(bounds.lower.size()));
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
    const auto is_bad = [](float x) { return std::abs(x) > kLargestFeature; };
    for (std::size_t i = 0; i < X.n_rows; ++i) {
        const float *const x = X[i], *const end = x + X.n_features;
        const std::size_t at = i * X.n_features;
        for (std::size_t f = 0; f < X.n_codes; ++f) {
            const auto room = static_cast<float>(layout.categories.room()[f]);
            const bool is_code =
                x[f] >= (is_learned(i) ? 0 : kUnknown) && x[f] < room && x[f] == std::floor(x[f]);
            if (!is_code && !std::isnan(x[f]))
                refuse(X, name, at + f, "a category must be a known one");
        }
        const float *bad = std::find_if(x + X.n_codes, end, is_bad);
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
        : layout_(layout), n_numbers_(layout.n_numbers),
          row_size_(layout.n_codes() + layout.width()), n_words_(layout.categories.n_words()),
          capacity_(capacity), values_(capacity * row_size_), sets_(capacity * n_words_) {}
    PreparedRows(const Layout &layout, const Matrix &X) : PreparedRows(layout, X.n_rows) { set(X); }

    std::size_t capacity() const { return capacity_; }
    std::size_t size() const { return size_; }

    // Whether rows still fit the layout, which may have grown since.
    bool are_current() const {
        return n_numbers_ == layout_.n_numbers &&
               row_size_ == layout_.n_codes() + layout_.width() &&
               n_words_ == layout_.categories.n_words();
    }

    void set(const Matrix &X) {
        size_ = X.n_rows;
        std::ranges::fill(sets_, Word{0});
        for (std::size_t i = 0; i < size_; ++i) {
            float *codes = &values_[i * row_size_];
            copy(X[i], X.n_codes, layout_.n_codes(), codes);
            copy(X[i] + X.n_codes, X.n_numbers(), n_numbers_, codes + layout_.n_codes());
            for (std::size_t f = 0; f < X.n_codes; ++f)
                if (!std::isnan(codes[f]))
                    layout_.categories.insert(f, codes[f], &sets_[i * n_words_]);
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

    static void copy(const float *from, std::size_t count, std::size_t n_all, float *to) {
        std::transform(from, from + count, to, [](float x) { return x + 0.0F; });
        std::fill(to + count, to + n_all, std::numeric_limits<float>::quiet_NaN());
    }

    const Layout &layout_;
    std::size_t n_numbers_, row_size_, n_words_, capacity_, size_ = 0;
    std::vector<float> values_;
    std::vector<Word> sets_;
};

} // namespace amforest
