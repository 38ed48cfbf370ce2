// The cells of the unrestricted Mondrian partition (Algorithm 1), and how one is split.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "amforest/base/rng.hpp"
#include "amforest/partition/layout.hpp"

namespace amforest {

// The box that the unrestricted partition splits.
struct Bounds {
    std::vector<float> lower, upper;

    bool hold(std::size_t j, float x) const { return lower[j] <= x && x <= upper[j]; } // not NaN
};

// A split of a cell, and the sides of two points on it.
struct CellCut {
    std::size_t feature;
    float threshold;
    double time;
    std::size_t x_side, other_side;
};

class Cell {
  public:
    Cell(const Bounds &bounds, const FeatureWeights &weights)
        : lower_(bounds.lower), upper_(bounds.upper), delta_(lower_.size()), weights_(weights) {}

    // Becomes the part of the cell that a split has on one side.
    void narrow(std::size_t feature, float threshold, std::size_t side) {
        (side == 0 ? upper_ : lower_)[feature] = threshold;
    }

    // Splits the cell at a time after its birth, and continues with the part that holds x.
    CellCut split(double birth_time, const float *x, const float *other, Rng &rng) {
        // Where no float lies between the ends, a split would change nothing.
        const auto side_length = [&](std::size_t j) {
            const bool is_flat = std::nextafter(lower_[j], upper_[j]) >= upper_[j];
            const float length = upper_[j] - lower_[j];
            return is_flat && x[j] == other[j] ? 0.0F : weights_.of_number(j) * length;
        };
        for (std::size_t j = 0; j < delta_.size(); ++j) delta_[j] = side_length(j);
        const float size = kernels::plain::sum_in_lanes(delta_.size(), side_length); // |C|
        const double time = birth_time + rng.exponential(static_cast<double>(size));
        const std::size_t j = rng.discrete(delta_);
        const float s = threshold_between(lower_[j], upper_[j], rng.uniform());
        const auto side_of = [=](const float *point) { return point[j] > s ? 1U : 0U; };
        narrow(j, s, side_of(x));
        return {j, s, time, side_of(x), side_of(other)};
    }

    // E[a^K], K being the number of splits of the cell until one separates x from another point.
    //
    // Lengths count by lambda_j. The points are separated at a time T ~ Exp(delta), delta =
    // |x - other|_1. Until then each of the 2 d distances s from the two points to the walls of the
    // cell shrinks to a uniform part of itself at rate s, independently. If it has done so N_t
    // times until t, then E[a^N_t] = M(1 - a, 1, -s t), with Kummer's function M. So
    //     E[a^K] = a int_0^inf delta exp(-delta t) prod_s M(1 - a, 1, -s t) dt,
    // by the trapezoidal rule in log(delta t), whose error falls as exp(-9.9 / step).
    double mean_power(double a, const float *x, const float *other) const {
        double delta = 0;
        std::vector<double> slacks;
        for (std::size_t j = 0; j < lower_.size(); ++j) {
            const auto [low, high] = std::minmax(x[j], other[j]);
            const auto length = [weight = static_cast<double>(weights_.of_number(j))](float from,
                                                                                      float to) {
                return weight * (static_cast<double>(to) - static_cast<double>(from));
            };
            delta += length(low, high);
            slacks.push_back(length(lower_[j], low));
            slacks.push_back(length(high, upper_[j]));
        }
        constexpr double kStep = 0.25, kFrom = -40, kTo = 4;
        double sum = 0;
        for (double u = kFrom; u <= kTo; u += kStep) {
            double product = std::exp(u - std::exp(u));
            for (const double slack : slacks)
                product *= kummer(1 - a, slack * (std::exp(u) / delta));
            sum += product;
        }
        return a * kStep * sum;
    }

  private:
    // M(b, 1, -z), 0 < b < 1, z >= 0: exp(-z) M(1 - b, 1, z) as a sum of positive terms, or for
    // large z the asymptotic series z^-b / Gamma(1 - b) sum of ((b)_n)^2 / (n! z^n).
    static double kummer(double b, double z) {
        constexpr double kLarge = 45, kPrecision = 0x1.0p-54;
        double term = 1, sum = 1;
        if (z > kLarge) {
            for (double n = 0; term > kPrecision * sum && n < kLarge; ++n)
                sum += term *= (b + n) * (b + n) / ((n + 1) * z);
            return std::pow(z, -b) / std::tgamma(1 - b) * sum;
        }
        for (double n = 0; term > kPrecision * sum; ++n)
            sum += term *= (1 - b + n) * z / ((n + 1) * (n + 1));
        return std::exp(-z) * sum;
    }

    std::vector<float> lower_, upper_, delta_;
    const FeatureWeights &weights_;
};

} // namespace amforest
