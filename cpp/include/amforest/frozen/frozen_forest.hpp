// The mean of trees that no longer learn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "amforest/base/parallel.hpp"
#include "amforest/frozen/frozen_tree.hpp"
#include "amforest/rows.hpp"

namespace amforest {

// Rows of a block: enough that a tree's upper nodes are in the cache for most of them, few enough
// that the rows and their sums are, too.
inline constexpr std::size_t kFrozenBlock = 1024;

// Calls work(first, last) on blocks of rows that keep every thread busy.
template <class Work>
void for_each_frozen_block(std::size_t n_rows, std::size_t n_threads, const Work &work) {
    constexpr std::size_t kLeast = 64; // for less, starting a thread takes too long
    const std::size_t of_thread = (n_rows + n_threads - 1) / n_threads;
    const std::size_t block = std::clamp(of_thread, kLeast, kFrozenBlock);
    for_each_index((n_rows + block - 1) / block, n_threads, [&](std::size_t b, std::size_t) {
        work(b * block, std::min(n_rows, (b + 1) * block));
    });
}

// Without branches, so that vectors of values are compared at once: whether all are numbers that
// need no further check, and whether some are missing.
inline bool are_plain(const Matrix &X) {
    bool is_plain = true;
    for (std::size_t i = 0; i < X.n_rows * X.n_features; ++i)
        is_plain &= std::abs(X.data[i]) <= kLargestFeature;
    return is_plain;
}

inline bool have_missing(const Matrix &X) {
    bool have_missing = false;
    for (std::size_t i = 0; i < X.n_rows * X.n_features; ++i) have_missing |= std::isnan(X.data[i]);
    return have_missing;
}

// Throws std::invalid_argument unless the rows can be predicted.
inline void check_frozen_rows(const Matrix &X, const Layout &layout, const char *name) {
    check_width(X, layout, name);
    if (layout.n_codes() == 0 && are_plain(X)) return;
    check_features(X, layout, name, [](std::size_t) { return false; });
}

class FrozenForest {
  public:
    // What trees are made from.
    struct Common {
        Layout layout;
        std::size_t n_outputs;
        std::size_t n_rows; // that the live forest had learned
    };

    FrozenForest(Common common, const std::vector<PlainTree> &trees) : common_(std::move(common)) {
        trees_.reserve(trees.size());
        for (const PlainTree &tree : trees)
            trees_.emplace_back(tree, common_.layout.n_codes(), common_.n_outputs);
    }

    const Layout &layout() const { return common_.layout; }
    std::size_t n_outputs() const { return common_.n_outputs; }
    std::size_t prediction_size() const { return common_.n_outputs; }
    std::size_t n_rows() const { return common_.n_rows; }
    std::span<const FrozenTree> trees() const { return trees_; }
    std::size_t bytes() const {
        std::size_t sum = 0;
        for (const FrozenTree &tree : trees_) sum += tree.bytes();
        return sum;
    }

    void check(const Matrix &X, const char *name) const { check_frozen_rows(X, layout(), name); }

    // out[row][output], summed in the order of the trees.
    void predict(const Matrix &X, double *out, std::size_t n_threads) const {
        const std::size_t size = common_.n_outputs;
        const auto n_trees = static_cast<double>(trees_.size());
        for_each_frozen_block(X.n_rows, n_threads, [&](std::size_t first, std::size_t last) {
            const Matrix rows = X.rows(first, last - first);
            double *const to = out + first * size;
            std::fill_n(to, rows.n_rows * size, 0.0);
            std::vector<std::uint32_t> leaves(rows.n_rows);
            const Values kind = kind_of(rows);
            for (const FrozenTree &tree : trees_) {
                tree.find_leaves([&](std::size_t i) { return rows[i]; }, leaves, kind);
                for (std::size_t i = 0; i < rows.n_rows; ++i) {
                    const double *const values = tree.values(leaves[i]).data();
                    for (std::size_t k = 0; k < size; ++k) to[i * size + k] += values[k];
                }
            }
            for (std::size_t k = 0; k < rows.n_rows * size; ++k) to[k] /= n_trees;
        });
    }

  private:
    Values kind_of(const Matrix &rows) const {
        if (common_.layout.n_codes() > 0) return Values::kAny;
        return have_missing(rows) ? Values::kNumbersWithGaps : Values::kNumbers;
    }

    Common common_;
    std::vector<FrozenTree> trees_;
};

} // namespace amforest
