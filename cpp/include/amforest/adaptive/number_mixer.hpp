// The mixer of numbers: a mean, and a distribution around it.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>

#include "amforest/adaptive/least_squares_mixer.hpp"
#include "amforest/adaptive/predictive_scale.hpp"
#include "amforest/adaptive/shared_mean.hpp"

namespace amforest {

// The mean has two levels. Least squares over many experts are exact, but need many rows; so a
// second least squares mixes three candidates: the first one, a mean by fixed share, which follows
// the best experts at once, and the mean of all labels, which is the last expert.
class NumberMixer {
  public:
    NumberMixer(std::size_t n_experts, double)
        : first_(n_experts), shared_(n_experts), second_(kCandidates), scale_(n_experts) {}

    static std::size_t output_size(std::size_t) { return 1 + PredictiveScale::kOutputs; }
    std::span<const double> weights() const { return first_.weights(); }
    void set_weights(std::span<const double> weights) { first_.set_weights(weights); }

    // The part of each expert in the mean, where nothing is clipped; they add up to 1.
    double part(std::size_t g) const {
        if (!has_second_) return first_.part(g);
        const double is_mean = g + 1 == weights().size() ? 1 : 0;
        return second_.part(0) * first_.part(g) + second_.part(1) * shared_.part(g) +
               second_.part(2) * is_mean;
    }

    // `by_expert` holds the mean and the squared scale of each. `out` gets the mean, and what
    // predictive_scale.hpp tells.
    void mix(std::span<const double> by_expert, std::span<double> out) const {
        out[0] = has_second_ ? second_.mix(candidates(by_expert)) : first_.mix(by_expert);
        scale_.predict(by_expert, out[0], out.subspan(1));
    }

    // Contributions are to the mean, which is the sum of slope_g m_g. Where a level is clipped to
    // the ends of its candidates, these are linear in the two that bound it.
    void linearise(std::span<const double> by_expert, std::span<const double>,
                   std::span<double> slopes, std::span<double> intercept) const {
        std::ranges::fill(slopes, 0.0);
        intercept[0] = 0;
        const auto add_first = [&](double part) {
            first_.for_each_part(by_expert,
                                 [&](std::size_t g, double own) { slopes[g] += part * own; });
        };
        if (!has_second_) return add_first(1);
        second_.for_each_part(candidates(by_expert), [&](std::size_t candidate, double part) {
            if (candidate == 0) add_first(part);
            if (candidate == 1)
                for (std::size_t g = 0; g < slopes.size(); ++g) slopes[g] += part * shared_.part(g);
            if (candidate == 2) slopes.back() += part;
        });
    }
    static void center(std::span<double>) {} // a mean counts as it is
    // What is watched for drift: the absolute error.
    static double loss(std::span<const double> mixed, double y) { return std::abs(mixed[0] - y); }

    // What the mixer and the linear experts learn of the label y: where it is further from the
    // means of all experts than 20 of their scales, no more than that. Otherwise one wrong label
    // would determine sums of squares for thousands of rows. Trees learn y itself: it ends in a
    // leaf.
    double limit(std::span<const double> by_expert, double y) const {
        if (n_rows_ < kLeastRows) return y;
        double lower = std::numeric_limits<double>::infinity(), upper = -lower;
        for (std::size_t g = 0; 2 * g < by_expert.size(); ++g) {
            const double reach = kMostScales * std::sqrt(by_expert[2 * g + 1]);
            lower = std::min(lower, by_expert[2 * g] - reach);
            upper = std::max(upper, by_expert[2 * g] + reach);
        }
        return lower < upper ? std::clamp(y, lower, upper) : y; // or all labels were equal
    }

    // After `mix`. Before the first label all experts predicted 0, which has no meaning.
    void learn(std::span<const double> by_expert, std::span<const double> mixed, double y,
               double weight) {
        n_rows_ += 1;
        if (n_rows_ == 1) return;
        scale_.learn(by_expert, mixed[0], y, weight);
        if (has_second_) {
            second_.learn(candidates(by_expert), y, weight);
            shared_.learn(by_expert, y, weight);
        }
        first_.learn(by_expert, y, weight);
    }

    // The model file: calls use(value) for each number beside the weights.
    template <class Use> void for_each(const Use &use) { visit(*this, use); }
    template <class Use> void for_each(const Use &use) const { visit(*this, use); }
    bool is_valid() const {
        return n_rows_ >= 0 && n_rows_ <= 0x1.0p53 && first_.is_valid() && scale_.is_valid() &&
               shared_.is_valid() && second_.is_valid();
    }

    // Early files have one level: their models continue as they did.
    std::size_t second_level_size() const {
        std::size_t size = 0;
        visit_second_level(*this, [&](double) { ++size; });
        return size;
    }
    void remove_second_level() { has_second_ = false; }

  private:
    static constexpr std::size_t kCandidates = 3;
    static constexpr double kMostScales = 20;
    static constexpr double kLeastRows = 50; // scales of fewer are uncertain
    using Candidates = std::array<double, 2 * kCandidates>;

    // In the form of `by_expert`; the mean of a mixer does not depend on squared scales.
    Candidates candidates(std::span<const double> by_expert) const {
        const double mean = by_expert[by_expert.size() - 2];
        return {first_.mix(by_expert), 0, shared_.mix(by_expert), 0, mean, 0};
    }

    template <class Self, class Use> static void visit(Self &self, const Use &use) {
        use(self.n_rows_);
        self.first_.for_each(use);
        self.scale_.for_each(use);
        if (self.has_second_) visit_second_level(self, use);
    }
    template <class Self, class Use> static void visit_second_level(Self &self, const Use &use) {
        self.shared_.for_each(use);
        self.second_.for_each_weight(use);
        self.second_.for_each(use);
    }

    double n_rows_ = 0; // learned
    bool has_second_ = true;
    LeastSquaresMixer first_;
    SharedMean shared_;
    LeastSquaresMixer second_;
    PredictiveScale scale_;
};

} // namespace amforest
