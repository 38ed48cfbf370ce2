// The cells of the unrestricted Mondrian partition (Algorithm 1), and how one is split.
#pragma once

#include <vector>

#include "amforest/features.hpp"
#include "amforest/rng.hpp"

namespace amforest {

// A split of a cell, and the sides of two points on it.
struct CellCut {
    std::size_t feature;
    float threshold;
    double time;
    std::size_t x_side, other_side;
};

class Cell {
  public:
    explicit Cell(const Layout &layout)
        : lower_(layout.lower), upper_(layout.upper), delta_(lower_.size()) {}

    // Becomes the part of the cell that a split has on one side.
    void narrow(std::size_t feature, float threshold, std::size_t side) {
        (side == 0 ? upper_ : lower_)[feature] = threshold;
    }

    // Splits the cell, which was born at some time, and goes on with the part that holds x.
    CellCut split(double birth_time, const float *x, const float *other, Rng &rng) {
        const auto side_length = [this](std::size_t j) { return upper_[j] - lower_[j]; };
        for (std::size_t j = 0; j < delta_.size(); ++j) delta_[j] = side_length(j);
        const float size = kernels::plain::sum_in_lanes(delta_.size(), side_length); // |C|
        const double time = birth_time + rng.exponential(static_cast<double>(size));
        const std::size_t j = rng.discrete(delta_);
        const float s = threshold_between(lower_[j], upper_[j], rng.uniform());
        const auto side_of = [=](const float *point) { return point[j] > s ? 1U : 0U; };
        narrow(j, s, side_of(x));
        return {j, s, time, side_of(x), side_of(other)};
    }

  private:
    std::vector<float> lower_, upper_, delta_;
};

} // namespace amforest
