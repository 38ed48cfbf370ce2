// The linear base of a tree: a ridge regression on the rows that the tree remembers. The tree
// learns its residuals.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "amforest/base/memory.hpp"

namespace amforest {

// Linear parts use no more features than this: bases those that correlate most with the label,
// linear experts the first ones.
inline constexpr std::size_t kMostLinear = 100;

// The largest term of a base, where labels lie within ±1e75. The residual of so many terms is then
// within the ±1e80 that nodes count, also if it is divided by `LinearFit::kLeastLeft`.
inline constexpr double kLargestTerm = 1e76;

// A linear function of the columns of a tree. A missing value counts as the mean of its column,
// and values beyond those remembered as the nearest of these.
class LinearBase {
  public:
    struct Term {
        std::uint32_t column;
        double slope, center, lower, upper;

        // False for NaN, too.
        bool is_bounded() const {
            return std::abs(slope) * std::max(std::abs(lower - center), std::abs(upper - center)) <=
                   kLargestTerm;
        }
    };

    bool is_fitted() const { return is_fitted_; }
    void clear() {
        is_fitted_ = false;
        intercept_ = 0;
        terms_.clear();
    }
    void make_room(std::size_t n_columns) { terms_.reserve(std::min(n_columns, kMostLinear)); }
    std::size_t bytes() const { return terms_.capacity() * sizeof(Term); }

    double of(const float *x) const {
        double sum = 0;
        for (const Term &term : terms_) sum += value_of(term, x);
        return intercept_ + sum;
    }

    // Calls use(column, value) for each summand beside the intercept.
    template <class Use> void for_each_term(const float *x, const Use &use) const {
        for (const Term &term : terms_) use(term.column, value_of(term, x));
    }

    // Calls use(column, saved) for each term z_k: the squared error that it saves of a label y. Of
    // what all terms save, (y - c)^2 - (y - c - sum of z)^2 with the intercept c, its Shapley value
    // is z_k (2 (y - c) - sum of z).
    template <class Use> void credit(const float *x, double y, const Use &use) const {
        if (terms_.empty()) return;
        const double error = 2 * (y - intercept_) - (of(x) - intercept_);
        for (const Term &term : terms_) use(term.column, value_of(term, x) * error);
    }

    double intercept() const { return intercept_; }
    const std::vector<Term> &terms() const { return terms_; }
    void set(double intercept) {
        is_fitted_ = true;
        intercept_ = intercept;
    }
    void add(const Term &term) { terms_.push_back(term); }

  private:
    static double value_of(const Term &term, const float *x) {
        const auto value = static_cast<double>(x[term.column]);
        if (std::isnan(value)) return 0;
        return term.slope * (std::clamp(value, term.lower, term.upper) - term.center);
    }

    bool is_fitted_ = false;
    double intercept_ = 0;
    std::vector<Term> terms_;
};

// Fits a base: moments of all rows, then products of all rows, then solve; then the leverage of a
// row gives the residual of the base without this row.
class LinearFit {
  public:
    static constexpr double kPenalty = 5;      // on standardised features
    static constexpr double kLeastLeft = 0.05; // 1 - h of a row is at least this

    void make_room(std::size_t n_columns) {
        const std::size_t n = std::min(n_columns, kMostLinear);
        ensure_size(columns_, n_columns);
        order_.reserve(n_columns);
        for (std::vector<double> *values : {&z_, &slopes_, &center_, &scale_})
            ensure_size(*values, n); // each for itself: any of them may fail
        ensure_size(gram_, n * (n + 1) / 2);
    }
    std::size_t bytes() const {
        return columns_.size() * sizeof(Moments) + gram_.size() * sizeof(double);
    }
    // Of a fit to so many columns, and of two bases.
    static std::size_t bytes_for(std::size_t n_columns) {
        const std::size_t n = std::min(n_columns, kMostLinear);
        return n_columns * sizeof(Moments) + n * (n + 1) / 2 * sizeof(double) +
               2 * n * sizeof(LinearBase::Term);
    }

    void start(std::size_t n_columns, double first_label) {
        n_columns_ = n_columns;
        reference_ = first_label;
        std::fill_n(columns_.begin(), n_columns, Moments{});
        total_weight_ = total_ = 0;
    }

    // A row that is not fitted only widens the ranges.
    void add_moments(const float *x, double y, double weight, bool is_fitted) {
        const double label = y - reference_;
        if (is_fitted) {
            total_weight_ += weight;
            total_ += weight * label;
        }
        for (std::size_t j = 0; j < n_columns_; ++j) {
            const auto value = static_cast<double>(x[j]);
            if (!std::isnan(value)) columns_[j].add(value, label, is_fitted ? weight : 0);
        }
    }

    // Chooses the columns.
    void finish_moments() {
        mean_ = total_weight_ > 0 ? total_ / total_weight_ : 0;
        order_.clear();
        for (std::uint32_t j = 0; j < n_columns_; ++j)
            if (columns_[j].spread() > 0) order_.push_back(j);
        const auto correlates_more = [this](std::uint32_t a, std::uint32_t b) {
            const double of_a = columns_[a].correlation(mean_);
            const double of_b = columns_[b].correlation(mean_);
            return of_a != of_b ? of_a > of_b : a < b;
        };
        if (order_.size() > kMostLinear) {
            std::ranges::nth_element(order_, order_.begin() + kMostLinear, correlates_more);
            order_.resize(kMostLinear);
            std::ranges::sort(order_);
        }
        std::fill_n(gram_.begin(), size() * (size() + 1) / 2, 0.0);
        std::fill_n(slopes_.begin(), size(), 0.0);
        for (std::size_t k = 0; k < size(); ++k) {
            at(k, k) = kPenalty;
            center_[k] = columns_[order_[k]].mean();
            scale_[k] = 1 / columns_[order_[k]].spread();
        }
    }

    std::size_t size() const { return order_.size(); }

    void add_products(const float *x, double y, double weight) {
        standardise(x);
        const double label = weight * (y - reference_ - mean_);
        for (std::size_t k = 0; k < size(); ++k) {
            const double scaled = weight * z_[k];
            double *row = &at(k, 0);
            for (std::size_t j = 0; j <= k; ++j) row[j] += scaled * z_[j];
            slopes_[k] += z_[k] * label;
        }
    }

    // Cholesky; then the base.
    void solve(LinearBase &base) {
        for (std::size_t k = 0; k < size(); ++k) {
            for (std::size_t j = 0; j < k; ++j) {
                double sum = at(k, j);
                for (std::size_t i = 0; i < j; ++i) sum -= at(k, i) * at(j, i);
                at(k, j) = sum / at(j, j);
            }
            double sum = at(k, k);
            for (std::size_t i = 0; i < k; ++i) sum -= at(k, i) * at(k, i);
            at(k, k) = std::sqrt(std::max(sum, kPenalty / 2)); // it is at least the penalty
        }
        solve_lower(slopes_);
        for (std::size_t k = size(); k-- > 0;) {
            double sum = slopes_[k];
            for (std::size_t i = k + 1; i < size(); ++i) sum -= at(i, k) * slopes_[i];
            slopes_[k] = sum / at(k, k);
        }
        base.clear();
        base.set(reference_ + mean_);
        for (std::size_t k = 0; k < size(); ++k) {
            const Moments &own = columns_[order_[k]];
            LinearBase::Term term{order_[k], slopes_[k] * scale_[k], center_[k], own.lower,
                                  own.upper};
            if (!term.is_bounded()) term.slope = 0;
            base.add(term);
        }
    }

    // The residual of the base without this row: e / (1 - h).
    double left_over(const float *x, double y, double weight, const LinearBase &base) {
        if (weight == 0) return y - base.of(x); // it was not fitted
        standardise(x);
        solve_lower(z_);
        double leverage = 1 / total_weight_;
        for (std::size_t k = 0; k < size(); ++k) leverage += z_[k] * z_[k];
        return (y - base.of(x)) / std::max(1 - weight * leverage, kLeastLeft);
    }

  private:
    // Of a column, with distances from its first value and from the reference label.
    struct Moments {
        double weight = 0, first = 0;
        double sum = 0, squares = 0, label = 0, product = 0;
        double lower = std::numeric_limits<double>::infinity(), upper = -lower;

        void add(double value, double y, double w) {
            if (lower > upper) first = value;
            lower = std::min(lower, value);
            upper = std::max(upper, value);
            const double distance = value - first;
            weight += w;
            sum += w * distance;
            squares += w * distance * distance;
            label += w * y;
            product += w * distance * y;
        }

        double mean() const { return first + (weight > 0 ? sum / weight : 0); }
        // The standard deviation; 0 where rounding is all that is left of it.
        double spread() const {
            if (!(weight > 0)) return 0;
            const double mean = sum / weight, square = squares / weight;
            const double variance = square - mean * mean;
            return variance > 1e-12 * square ? std::sqrt(variance) : 0;
        }
        double correlation(double label_mean) const {
            return std::abs(product - sum * label_mean -
                            sum / weight * (label - weight * label_mean)) /
                   (spread() * std::sqrt(weight));
        }
    };

    double &at(std::size_t k, std::size_t j) { return gram_[k * (k + 1) / 2 + j]; }

    void standardise(const float *x) {
        for (std::size_t k = 0; k < size(); ++k) {
            const auto value = static_cast<double>(x[order_[k]]);
            z_[k] = std::isnan(value) ? 0 : (value - center_[k]) * scale_[k];
        }
    }

    // L u = v, in place.
    void solve_lower(std::vector<double> &v) {
        for (std::size_t k = 0; k < size(); ++k) {
            const double *row = &at(k, 0);
            double sum = v[k];
            for (std::size_t i = 0; i < k; ++i) sum -= row[i] * v[i];
            v[k] = sum / row[k];
        }
    }

    std::size_t n_columns_ = 0;
    double reference_ = 0, mean_ = 0, total_ = 0, total_weight_ = 0;
    std::vector<Moments> columns_;
    std::vector<std::uint32_t> order_;                // the columns that are used
    std::vector<double> z_, slopes_, center_, scale_; // of these
    std::vector<double> gram_; // its lower triangle, then its Cholesky factor
};

} // namespace amforest
