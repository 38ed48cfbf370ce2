// A mean of the experts whose weights follow their squared errors by fixed share.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/adaptive/fixed_share.hpp"

namespace amforest {

// The log-likelihood of expert g is -(y - m_g)^2 / (4 v): half of that of a normal whose variance v
// is the mean of the squared errors of the mix, which forgets.
class SharedMean {
  public:
    static constexpr double kForgetting = 0.998;
    static constexpr double kShare = 0.01;

    explicit SharedMean(std::size_t n_experts)
        : weights_(n_experts, 1 / static_cast<double>(n_experts)), logs_(n_experts) {}

    // The part of each expert in the mix.
    double part(std::size_t g) const { return weights_[g]; }

    // `by_expert` holds the mean and the squared scale of each.
    double mix(std::span<const double> by_expert) const {
        // From the first, so that adding a number to all adds it to the mean.
        double sum = 0;
        for (std::size_t g = 1; g < weights_.size(); ++g)
            sum += weights_[g] * (by_expert[2 * g] - by_expert[0]);
        return by_expert[0] + sum;
    }

    void learn(std::span<const double> by_expert, double y, double weight) {
        weight = std::min(weight, 1.0);
        const double error = y - mix(by_expert);
        squares_ = kForgetting * squares_ + weight * error * error;
        total_ = kForgetting * total_ + weight;
        const double variance = squares_ / total_;
        if (!(variance > 0)) return; // all errors were 0
        for (std::size_t g = 0; g < weights_.size(); ++g) {
            const double distance = y - by_expert[2 * g];
            logs_[g] = -0.25 * distance * distance / variance;
        }
        share(weights_, logs_, kShare, weight);
    }

    template <class Use> void for_each(const Use &use) { visit(*this, use); }
    template <class Use> void for_each(const Use &use) const { visit(*this, use); }
    bool is_valid() const {
        const auto is_sum = [](double value) { return value >= 0 && value <= 1e200; };
        return std::ranges::all_of(weights_, [](double w) { return w > 0 && w <= 1; }) &&
               is_sum(squares_) && is_sum(total_);
    }

  private:
    template <class Self, class Use> static void visit(Self &self, const Use &use) {
        for (auto &weight : self.weights_) use(weight);
        use(self.squares_);
        use(self.total_);
    }

    std::vector<double> weights_;
    double squares_ = 0, total_ = 0;
    std::vector<double> logs_; // scratch
};

} // namespace amforest
