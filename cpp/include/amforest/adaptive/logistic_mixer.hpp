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
#include <cstdint>
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

    // Contributions are to the scores s_k = sum over g of u_g l_gk. Between the base values of the
    // groups and their predictions p_g(k) these are replaced by the secant: s_k = intercept_k + sum
    // over g of slope_gk p_g(k).
    void linearise(std::span<const double> by_group, std::span<const double> bases,
                   std::span<double> slopes, std::span<double> intercept) const {
        const std::size_t n_classes = intercept.size();
        const double floor = kSmoothing / static_cast<double>(n_classes);
        std::ranges::fill(intercept, 0.0);
        for (std::size_t g = 0; g < weights_.size(); ++g)
            for (std::size_t k = 0; k < n_classes; ++k) {
                const std::size_t i = g * n_classes + k;
                const double from = (1 - kSmoothing) * bases[i] + floor;
                const double ratio = (1 - kSmoothing) * (by_group[i] - bases[i]) / from;
                // log1p(z) / z, which does not cancel where z is tiny.
                const double relative = ratio == 0 ? 1 : std::log1p(ratio) / ratio;
                slopes[i] = weights_[g] * (1 - kSmoothing) / from * relative;
                intercept[k] += weights_[g] * std::log(from) - slopes[i] * bases[i];
            }
    }
    // Scores count only relative to each other: those given become those with the mean 0.
    static void center(std::span<double> scores) {
        double sum = 0;
        for (const double score : scores) sum += score;
        for (double &score : scores) score -= sum / static_cast<double>(scores.size());
    }
    // What is watched for drift: the probability that other classes get.
    static double loss(std::span<const double> prediction, std::size_t y) {
        return 1 - prediction[y];
    }

    // What is learned of the label y: all of it, because no class is far from others.
    static std::uint32_t limit(std::span<const double>, std::uint32_t y) { return y; }

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
