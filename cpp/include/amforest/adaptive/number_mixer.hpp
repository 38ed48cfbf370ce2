// The mixer of numbers: a mean, and a distribution around it.
#pragma once

#include <cstddef>
#include <span>

#include "amforest/adaptive/least_squares_mixer.hpp"
#include "amforest/adaptive/predictive_scale.hpp"

namespace amforest {

class NumberMixer {
  public:
    NumberMixer(std::size_t n_experts, double) : mean_(n_experts), scale_(n_experts) {}

    static std::size_t output_size(std::size_t) { return 1 + PredictiveScale::kOutputs; }
    std::span<const double> weights() const { return mean_.weights(); }
    void set_weights(std::span<const double> weights) { mean_.set_weights(weights); }

    // `by_expert` holds the mean and the squared scale of each. `out` gets the mean, and what
    // predictive_scale.hpp tells.
    void mix(std::span<const double> by_expert, std::span<double> out) const {
        out[0] = mean_.mix(by_expert);
        scale_.predict(by_expert, out[0], out.subspan(1));
    }

    // After `mix`. Before the first label all experts predicted 0, which has no meaning.
    void learn(std::span<const double> by_expert, std::span<const double> mixed, double y,
               double weight) {
        n_rows_ += 1;
        if (n_rows_ == 1) return;
        scale_.learn(by_expert, mixed[0], y, weight);
        mean_.learn(by_expert, y, weight);
    }

    // The model file: calls use(value) for each number beside the weights.
    template <class Use> void for_each(const Use &use) {
        use(n_rows_);
        mean_.for_each(use);
        scale_.for_each(use);
    }
    template <class Use> void for_each(const Use &use) const {
        use(n_rows_);
        mean_.for_each(use);
        scale_.for_each(use);
    }
    bool is_valid() const {
        return n_rows_ >= 0 && n_rows_ <= 0x1.0p53 && mean_.is_valid() && scale_.is_valid();
    }

  private:
    double n_rows_ = 0; // learned
    LeastSquaresMixer mean_;
    PredictiveScale scale_;
};

} // namespace amforest
