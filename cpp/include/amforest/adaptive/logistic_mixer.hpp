// The mixer of classes: one prediction from those of the groups, by online gradient descent on
// log-loss.
//
//     l_gk = log((1 - eps) p_g(k) + eps / K),   p(k) ~ exp(sum over g of u_g l_gk).
//
// Averages of trees are too cautious: the sum of the u learns how much to sharpen them, and their
// ratios which group to trust.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

namespace amforest {

class LogisticMixer {
  public:
    static constexpr double kSmoothing = 1e-4; // eps
    // A row of a large weight moves the weights no further than so many rows of weight 1.
    static constexpr double kMostWeight = 10;

    LogisticMixer(std::size_t n_groups, double rate)
        : rate_(rate), weights_(n_groups, 1.0 / static_cast<double>(n_groups)) {}

    static std::size_t output_size(std::size_t n_classes) { return n_classes; }
    std::span<const double> weights() const { return weights_; }
    double part(std::size_t g) const { return weights_[g]; }
    void set_weights(std::span<const double> weights) {
        std::ranges::copy(weights, weights_.begin());
    }

    // `by_group` holds p_g(k), groups x classes, and becomes l_gk; the prediction goes to `out`.
    void mix(std::span<double> by_group, std::span<double> out) const {
        const std::size_t n_classes = out.size();
        const double floor = kSmoothing / static_cast<double>(n_classes);
        for (double &p : by_group) p = std::log((1 - kSmoothing) * p + floor);
        std::ranges::fill(out, 0.0);
        for (std::size_t g = 0; g < weights_.size(); ++g)
            for (std::size_t k = 0; k < n_classes; ++k)
                out[k] += weights_[g] * by_group[g * n_classes + k];
        const double largest = *std::ranges::max_element(out);
        double sum = 0;
        for (double &p : out) sum += p = std::exp(p - largest);
        for (double &p : out) p /= sum;
    }

    // What is watched for drift: the probability that other classes get.
    static double loss(std::span<const double> prediction, std::size_t y) {
        return 1 - prediction[y];
    }

    // One gradient step on -log p(y), after `mix` and before y is learned.
    void learn(std::span<const double> logs, std::span<const double> prediction, std::size_t y,
               double weight) {
        const std::size_t n_classes = prediction.size();
        const double step = rate_ * std::min(weight, kMostWeight);
        for (std::size_t g = 0; g < weights_.size(); ++g) {
            const double *of_group = &logs[g * n_classes];
            double mean = 0;
            for (std::size_t k = 0; k < n_classes; ++k) mean += prediction[k] * of_group[k];
            weights_[g] += step * (of_group[y] - mean);
        }
    }

  private:
    double rate_;
    std::vector<double> weights_; // u
};

} // namespace amforest
