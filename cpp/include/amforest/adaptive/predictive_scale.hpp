// The distribution around a mixed mean m: y = m + s T.
//
// The scale of a row is s^2 = sum over g of pi_g (v_g + (m_g - m)^2), from the experts' means and
// squared scales; T is a mixture of Student-t's of several widths and degrees of freedom. Both
// kinds of weights follow the rows by fixed share. Beside it, levels are tracked: level a_k is
// such that a part q_k of the labels has been below the a_k-quantile.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numbers>
#include <span>
#include <vector>

#include "amforest/adaptive/fixed_share.hpp"
#include "amforest/labels/gamma.hpp"

namespace amforest {

class PredictiveScale {
  public:
    static constexpr std::array<double, 7> kWidths = {0.25, 0.35, 0.5, 0.7, 1, 1.4, 2};
    static constexpr std::array<double, 3> kDegrees = {3, 6, 30}; // of freedom
    static constexpr std::array<double, 11> kLevels = {0.005, 0.025, 0.05, 0.1,   0.25, 0.5,
                                                       0.75,  0.9,   0.95, 0.975, 0.995};
    static constexpr std::size_t kComponents = kWidths.size() * kDegrees.size();
    static constexpr double kShareOfComponents = 0.005, kShareOfExperts = 0.01;
    static constexpr double kLevelRate = 0.005;

    explicit PredictiveScale(std::size_t n_experts)
        : experts_(n_experts, 1 / static_cast<double>(n_experts)), likelihoods_(n_experts) {
        components_.fill(1 / static_cast<double>(kComponents));
        levels_ = kLevels;
    }

    // The scale, the weights of the components (widths within degrees) and the levels.
    static constexpr std::size_t kOutputs = 1 + kComponents + kLevels.size();

    void predict(std::span<const double> by_expert, double mean, std::span<double> out) const {
        out[0] = scale_of(by_expert, mean);
        std::ranges::copy(components_, out.begin() + 1);
        std::ranges::copy(levels_, out.begin() + 1 + kComponents);
    }

    void learn(std::span<const double> by_expert, double mean, double y, double weight) {
        const double scale = scale_of(by_expert, mean), distance = y - mean;
        if (!(scale > 0)) return; // all labels were equal
        const double below = cdf(distance / scale);
        for (std::size_t k = 0; k < kLevels.size(); ++k) {
            const double q = kLevels[k];
            const double rate = std::min(kLevelRate, 0.1 * std::min(q, 1 - q));
            const double step = q - (below < levels_[k] ? 1.0 : 0.0);
            levels_[k] =
                std::clamp(levels_[k] + std::min(weight, 1.0) * rate * step, kLeast, 1 - kLeast);
        }
        std::array<double, kComponents> logs;
        for_each_component([&](std::size_t c, double width, double nu) {
            logs[c] = kLogConstants[c / kWidths.size()] +
                      log_density(distance / scale / width, nu) - std::log(width);
        });
        share(components_, logs, kShareOfComponents, weight);
        for (std::size_t g = 0; g < experts_.size(); ++g) {
            const double variance = by_expert[2 * g + 1];
            if (!(variance > 0)) return; // one of them knows too little
            const double spread = std::sqrt(variance);
            // In units of the scale, so that rounding does not depend on the unit of labels.
            likelihoods_[g] = log_density(distance / spread, 6) - std::log(spread / scale);
        }
        share(experts_, likelihoods_, kShareOfExperts, weight);
    }

    template <class Use> void for_each(const Use &use) { visit(*this, use); }
    template <class Use> void for_each(const Use &use) const { visit(*this, use); }
    bool is_valid() const {
        const auto is_probability = [](double value) { return value > 0 && value <= 1; };
        return std::ranges::all_of(experts_, is_probability) &&
               std::ranges::all_of(components_, is_probability) &&
               std::ranges::all_of(levels_, is_probability);
    }

  private:
    static constexpr double kLeast = 1e-5; // of a level

    template <class Self, class Use> static void visit(Self &self, const Use &use) {
        for (auto &weight : self.experts_) use(weight);
        for (auto &weight : self.components_) use(weight);
        for (auto &level : self.levels_) use(level);
    }

    template <class Use> static void for_each_component(const Use &use) {
        std::size_t c = 0;
        for (const double nu : kDegrees)
            for (const double width : kWidths) use(c++, width, nu);
    }

    double scale_of(std::span<const double> by_expert, double mean) const {
        double sum = 0;
        for (std::size_t g = 0; g < experts_.size(); ++g) {
            const double distance = by_expert[2 * g] - mean;
            sum += experts_[g] * (by_expert[2 * g + 1] + distance * distance);
        }
        return std::sqrt(std::max(sum, 0.0));
    }

    // log of the density of t with nu degrees of freedom, up to its constant.
    static double log_density(double t, double nu) {
        const double near = std::clamp(t, -1e100, 1e100); // whose square is finite
        return -0.5 * (nu + 1) * std::log1p(near * near / nu);
    }
    // log of Gamma((nu + 1) / 2) / Gamma(nu / 2) / sqrt(pi nu), by degrees of freedom.
    inline static const std::array<double, kDegrees.size()> kLogConstants = [] {
        std::array<double, kDegrees.size()> values{};
        for (std::size_t d = 0; d < kDegrees.size(); ++d)
            values[d] =
                log_rising(kDegrees[d] / 2, 0.5) - 0.5 * std::log(std::numbers::pi * kDegrees[d]);
        return values;
    }();

    // Of T.
    double cdf(double t) const {
        double sum = 0;
        for_each_component([&](std::size_t c, double width, double nu) {
            sum += components_[c] * cdf(t / width, nu);
        });
        return sum;
    }
    static double cdf(double t, double nu) {
        const double u = t / std::sqrt(nu), cosine = 1 / (1 + u * u); // squared
        if (nu == 3) return 0.5 + (u * cosine + std::atan(u)) / std::numbers::pi;
        double term = 1, sum = 1; // nu is even: a finite sum
        for (double j = 1; j < nu / 2; ++j) {
            term *= (2 * j - 1) / (2 * j) * cosine;
            sum += term;
        }
        return 0.5 + 0.5 * sum * u * std::sqrt(cosine);
    }

    std::vector<double> experts_;                // pi
    std::array<double, kComponents> components_; // of T
    std::array<double, kLevels.size()> levels_;
    std::vector<double> likelihoods_; // scratch
};

} // namespace amforest
