// One random stream: xoshiro256++ and the three distributions a Mondrian tree draws from.
// Written out because std::*_distribution differs between standard libraries.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>

namespace amforest {

class Rng {
  public:
    using State = std::array<std::uint64_t, 4>;

    explicit Rng(const State &state) : state_(state) {}

    const State &state() const { return state_; }

    // Uniform on [0, 1): the 53 high bits.
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }

    // Uniform on 0, ..., count - 1.
    std::size_t below(std::size_t count) {
        return static_cast<std::size_t>(uniform() * static_cast<double>(count));
    }

    // The state of another generator, whose stream is independent of this one's.
    State fork() { return {next(), next(), next(), next()}; }

    // Exp(rate), by inversion.
    double exponential(double rate) { return -std::log1p(-uniform()) / rate; }

    // Draws E ~ Exp(rate) and returns it if it is below the limit, infinity otherwise: the number
    // of exponential(rate), mostly without its logarithm. -log(1 - u) >= u, and the margin covers
    // all rounding.
    double exponential_below(double limit, double rate) {
        constexpr double kMargin = 1 + 0x1.0p-40;
        const double u = uniform();
        if (u > kMargin * (limit * rate)) return std::numeric_limits<double>::infinity();
        return -std::log1p(-u) / rate;
    }

    // Index j with probability weights[j] / sum(weights); weights are >= 0 and not all 0.
    std::size_t discrete(std::span<const float> weights) {
        double total = 0;
        for (const float weight : weights) total += static_cast<double>(weight);
        const double target = uniform() * total;
        double sum = 0;
        std::size_t last_positive = 0;
        for (std::size_t j = 0; j < weights.size(); ++j) {
            sum += static_cast<double>(weights[j]);
            if (sum > target) return j;
            if (weights[j] > 0) last_positive = j;
        }
        return last_positive; // uniform() * total was rounded up to total
    }

  private:
    std::uint64_t next() {
        const std::uint64_t result = std::rotl(state_[0] + state_[3], 23) + state_[0];
        const std::uint64_t shifted = state_[1] << 17;
        state_[2] ^= state_[0];
        state_[3] ^= state_[1];
        state_[1] ^= state_[2];
        state_[0] ^= state_[3];
        state_[2] ^= shifted;
        state_[3] = std::rotl(state_[3], 45);
        return result;
    }

    State state_;
};

} // namespace amforest
