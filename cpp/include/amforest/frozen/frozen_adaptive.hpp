// An adaptive forest that no longer learns: its trees, and the mixer and the experts of that
// moment.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "amforest/adaptive/category_numbers.hpp"
#include "amforest/adaptive/linear_base.hpp"
#include "amforest/frozen/frozen_forest.hpp"

namespace amforest {

// The number of each category in each tree, as tables by code: also of unknown ones, whose code is
// -1.
class FrozenNumbers {
  public:
    explicit FrozenNumbers(const Categories &categories) {
        for (const std::uint32_t room : categories.room())
            starts_.push_back(starts_.back() + 1 + room);
    }

    std::size_t width() const { return starts_.back(); } // of a tree
    std::size_t bytes() const { return values_.size() * sizeof(float); }
    const std::vector<float> &values() const { return values_; }

    void add(const CategoryNumbers &numbers) {
        for (std::size_t f = 0; f + 1 < starts_.size(); ++f)
            for (std::size_t k = 0; k < starts_[f + 1] - starts_[f]; ++k)
                values_.push_back(numbers.of(f, static_cast<float>(k) + kUnknown));
    }
    void set(std::span<const float> values) { values_.assign(values.begin(), values.end()); }

    // NaN stays missing.
    float of(std::size_t tree, std::size_t f, float code) const {
        if (std::isnan(code)) return code;
        return values_[tree * width() + starts_[f] + static_cast<std::size_t>(code - kUnknown)];
    }

  private:
    std::vector<std::size_t> starts_ = {0}; // of each feature's table, and the end
    std::vector<float> values_;
};

// `Task` as in adaptive_forest.hpp.
template <class Task> class FrozenAdaptive {
  public:
    using Mixer = typename Task::Mixer;
    using Experts = typename Task::Experts;

    struct Common {
        Layout layout;                      // of rows: codes of categories, then numbers
        std::vector<std::uint32_t> columns; // of trees: the feature of each
        std::size_t n_outputs;              // of a tree
        std::size_t n_groups, n_estimators;
        std::size_t n_rows; // that the live forest had learned

        std::size_t n_trees() const { return n_groups * n_estimators; }
        std::size_t n_experts() const { return n_groups + Experts::size(); }
        Layout tree_layout() const { return {Categories(), columns.size()}; }
    };
    // What was learned beside the trees.
    struct Parts {
        FrozenNumbers numbers;
        std::vector<LinearBase> bases; // of the trees, if there are any
        Mixer mixer;
        Experts experts;
    };

    FrozenAdaptive(Common common, Parts parts, const std::vector<PlainTree> &trees)
        : common_(std::move(common)), parts_(std::move(parts)) {
        trees_.reserve(trees.size());
        for (const PlainTree &tree : trees) trees_.emplace_back(tree, 0, common_.n_outputs);
    }

    const Common &common() const { return common_; }
    const Parts &parts() const { return parts_; }
    const Layout &layout() const { return common_.layout; }
    std::size_t n_outputs() const { return common_.n_outputs; }
    std::size_t prediction_size() const { return Mixer::output_size(common_.n_outputs); }
    std::size_t n_rows() const { return common_.n_rows; }
    std::span<const FrozenTree> trees() const { return trees_; }
    std::size_t bytes() const {
        std::size_t sum = parts_.numbers.bytes() + parts_.experts.bytes();
        for (const FrozenTree &tree : trees_) sum += tree.bytes();
        for (const LinearBase &base : parts_.bases) sum += base.bytes();
        return sum;
    }

    void check(const Matrix &X, const char *name) const { check_frozen_rows(X, layout(), name); }

    // out[row][output]
    void predict(const Matrix &X, double *out, std::size_t n_threads) const {
        const std::size_t n_each = common_.n_experts() * common_.n_outputs;
        for_each_frozen_block(X.n_rows, n_threads, [&](std::size_t first, std::size_t last) {
            std::vector<double> by_expert((last - first) * n_each);
            predict_experts(X.rows(first, last - first), by_expert);
            for (std::size_t i = first; i < last; ++i)
                parts_.mixer.mix(std::span(by_expert).subspan((i - first) * n_each, n_each),
                                 {out + i * prediction_size(), prediction_size()});
        });
    }

  private:
    // by_expert[row][expert][output of a tree], 0 at the start.
    void predict_experts(const Matrix &X, std::span<double> by_expert) const {
        const std::size_t size = common_.n_outputs, n_each = common_.n_experts() * size;
        const std::size_t width = common_.columns.size(), n = common_.n_estimators;
        std::vector<float> rows(X.n_rows * width);
        encode_numbers(X, rows);
        const auto row_of = [&](std::size_t i) { return &rows[i * width]; };
        const Values kind = have_missing(X) ? Values::kNumbersWithGaps : Values::kNumbers;
        std::vector<std::uint32_t> leaves(X.n_rows);
        for (std::size_t t = 0; t < trees_.size(); ++t) {
            encode_codes(X, t, rows);
            trees_[t].find_leaves(row_of, leaves, kind);
            for (std::size_t i = 0; i < X.n_rows; ++i) {
                const std::span<double> group = by_expert.subspan(i * n_each + t / n * size, size);
                const std::span<const double> values = trees_[t].values(leaves[i]);
                if constexpr (Task::kHasBases) {
                    const std::array moved = {values[0] + parts_.bases[t].of(row_of(i)), values[1]};
                    Task::add_tree(group, moved, t % n, n);
                } else {
                    Task::add_tree(group, values, t % n, n);
                }
            }
        }
        std::vector<double> scratch(parts_.experts.scratch_size());
        for (std::size_t i = 0; i < X.n_rows; ++i)
            parts_.experts.predict(
                X[i],
                by_expert.subspan(i * n_each + common_.n_groups * size, Experts::size() * size),
                scratch);
    }

    // The rows as the trees see them: numbers are the same for all of them, codes are not.
    void encode_numbers(const Matrix &X, std::span<float> rows) const {
        const std::size_t width = common_.columns.size();
        for (std::size_t i = 0; i < X.n_rows; ++i)
            for (std::size_t c = 0; c < width; ++c) rows[i * width + c] = X[i][common_.columns[c]];
    }
    void encode_codes(const Matrix &X, std::size_t tree, std::span<float> rows) const {
        if (layout().n_codes() == 0) return;
        const std::size_t width = common_.columns.size();
        for (std::size_t c = 0; c < width; ++c)
            if (const std::size_t f = common_.columns[c]; f < layout().n_codes())
                for (std::size_t i = 0; i < X.n_rows; ++i)
                    rows[i * width + c] = parts_.numbers.of(tree, f, X[i][f]);
    }

    Common common_;
    Parts parts_;
    std::vector<FrozenTree> trees_; // group after group
};

} // namespace amforest
