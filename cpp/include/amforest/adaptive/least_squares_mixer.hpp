// The mixer of numbers: one prediction from those of the experts, by recursive least squares.
//
//     y - m-bar = sum over g of u_g (m_g - m-bar),   m-bar the plain mean of the m_g,
// with forgetting, and a ridge of 5 v, v being the mean of (y - m-bar)^2.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace amforest {

class LeastSquaresMixer {
  public:
    static constexpr double kForgetting = 0.998;
    static constexpr double kRidge = 5;
    static constexpr double kMostWeight = 10; // of a row, as in the mixer of classes
    // A row whose error, or distance of an m_g from m-bar, is so many times sqrt(v) or more has no
    // more influence than one of so many: a wrong label is also in the m_g of trees that learned
    // it.
    static constexpr double kMostDeviations = 30;

    explicit LeastSquaresMixer(std::size_t n_experts)
        : n_(n_experts), weights_(n_, 0.0), products_(n_ * (n_ + 1) / 2), targets_(n_),
          factor_(products_.size()), distances_(n_) {}

    std::span<const double> weights() const { return weights_; }
    void set_weights(std::span<const double> weights) {
        std::ranges::copy(weights, weights_.begin());
    }

    // The part of each expert in the mix, where nothing is clipped; they add up to 1.
    double part(std::size_t g) const {
        double sum = 0;
        for (const double weight : weights_) sum += weight;
        return weights_[g] + (1 - sum) / static_cast<double>(n_);
    }

    // `by_expert` holds the mean and the squared scale of each.
    double mix(std::span<const double> by_expert) const {
        const auto [mixed, lowest, highest] = mix_all(by_expert);
        const double lower = by_expert[2 * lowest], upper = by_expert[2 * highest];
        const double margin = (upper - lower) / 2;
        return std::clamp(mixed, lower - margin, upper + margin);
    }

    // Calls use(g, part) for the experts whose sum of part * mean is the mix: where it is clipped,
    // for those that bound it.
    template <class Use>
    void for_each_part(std::span<const double> by_expert, const Use &use) const {
        const auto [mixed, lowest, highest] = mix_all(by_expert);
        const double lower = by_expert[2 * lowest], upper = by_expert[2 * highest];
        const double margin = (upper - lower) / 2;
        if (mixed < lower - margin || mixed > upper + margin) {
            const bool is_low = mixed < lower;
            use(lowest, is_low ? 1.5 : -0.5);
            use(highest, is_low ? -0.5 : 1.5);
        } else {
            double sum = 0;
            for (const double weight : weights_) sum += weight;
            for (std::size_t g = 0; g < n_; ++g)
                use(g, weights_[g] + (1 - sum) / static_cast<double>(n_));
        }
    }

    void learn(std::span<const double> by_expert, double y, double weight) {
        weight = std::min(weight, kMostWeight);
        const double center = mean_of(by_expert), error = y - center;
        double largest = error * error;
        for (std::size_t g = 0; g < n_; ++g) {
            distances_[g] = by_expert[2 * g] - center;
            largest = std::max(largest, distances_[g] * distances_[g]);
        }
        if (squares_ > 0) {
            const double most = kMostDeviations * kMostDeviations * (squares_ / total_);
            weight *= std::min(1.0, most / largest);
        }
        squares_ = kForgetting * squares_ + weight * error * error;
        total_ = kForgetting * total_ + weight;
        for (std::size_t g = 0; g < n_; ++g) {
            targets_[g] = kForgetting * targets_[g] + weight * distances_[g] * error;
            double *row = &products_[g * (g + 1) / 2];
            for (std::size_t h = 0; h <= g; ++h)
                row[h] = kForgetting * row[h] + weight * distances_[g] * distances_[h];
        }
        solve(kRidge * squares_ / total_);
    }

    // The model file: calls use(value) for each number beside the weights.
    template <class Use> void for_each(const Use &use) { visit(*this, use); }
    template <class Use> void for_each(const Use &use) const { visit(*this, use); }
    template <class Use> void for_each_weight(const Use &use) {
        for (double &weight : weights_) use(weight);
    }
    template <class Use> void for_each_weight(const Use &use) const {
        for (const double weight : weights_) use(weight);
    }
    bool is_valid() const {
        bool is_valid = squares_ >= 0 && total_ >= 0;
        for_each_weight([&](double weight) { is_valid &= std::abs(weight) <= 1e12; });
        for_each([&](double value) { is_valid &= std::abs(value) <= 1e200; });
        return is_valid;
    }

  private:
    template <class Self, class Use> static void visit(Self &self, const Use &use) {
        for (auto *values : {&self.products_, &self.targets_})
            for (auto &value : *values) use(value);
        use(self.squares_);
        use(self.total_);
    }

    // The mix before it is clipped, and the experts with the lowest and the highest mean.
    struct Mix {
        double mixed;
        std::size_t lowest, highest;
    };
    Mix mix_all(std::span<const double> by_expert) const {
        const double center = mean_of(by_expert);
        std::size_t lowest = 0, highest = 0;
        double sum = 0;
        for (std::size_t g = 0; g < n_; ++g) {
            const double mean = by_expert[2 * g];
            if (mean < by_expert[2 * lowest]) lowest = g;
            if (mean > by_expert[2 * highest]) highest = g;
            sum += weights_[g] * (mean - center);
        }
        return {center + sum, lowest, highest};
    }

    double mean_of(std::span<const double> by_expert) const {
        // From the first, so that adding a number to all adds it to the mean.
        double sum = 0;
        for (std::size_t g = 1; g < n_; ++g) sum += by_expert[2 * g] - by_expert[0];
        return by_expert[0] + sum / static_cast<double>(n_);
    }

    // (products + ridge) u = targets, by Cholesky.
    void solve(double ridge) {
        if (!(ridge > 0)) return; // all errors were 0
        const auto at = [](std::size_t k, std::size_t j) { return k * (k + 1) / 2 + j; };
        for (std::size_t k = 0; k < n_; ++k) {
            for (std::size_t j = 0; j < k; ++j) {
                double sum = products_[at(k, j)];
                for (std::size_t i = 0; i < j; ++i) sum -= factor_[at(k, i)] * factor_[at(j, i)];
                factor_[at(k, j)] = sum / factor_[at(j, j)];
            }
            double sum = products_[at(k, k)] + ridge;
            for (std::size_t i = 0; i < k; ++i) sum -= factor_[at(k, i)] * factor_[at(k, i)];
            factor_[at(k, k)] = std::sqrt(std::max(sum, ridge / 2)); // it is at least the ridge
            sum = targets_[k];
            for (std::size_t i = 0; i < k; ++i) sum -= factor_[at(k, i)] * weights_[i];
            weights_[k] = sum / factor_[at(k, k)];
        }
        for (std::size_t k = n_; k-- > 0;) {
            double sum = weights_[k];
            for (std::size_t i = k + 1; i < n_; ++i) sum -= factor_[at(i, k)] * weights_[i];
            weights_[k] = sum / factor_[at(k, k)];
        }
        // Only sums out of a file can be so far from those of any errors.
        const auto is_sound = [](double weight) { return std::abs(weight) <= 1e6; };
        if (!std::ranges::all_of(weights_, is_sound)) std::ranges::fill(weights_, 0.0);
    }

    std::size_t n_;
    std::vector<double> weights_;  // u
    std::vector<double> products_; // sum of (m_g - m-bar) (m_h - m-bar), the lower triangle
    std::vector<double> targets_;  // sum of (m_g - m-bar) (y - m-bar)
    double squares_ = 0, total_ = 0;
    std::vector<double> factor_, distances_; // scratch
};

} // namespace amforest
