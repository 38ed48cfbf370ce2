// Groups of trees with memories of different length, and when their trees are regrown.
#pragma once

#include <cmath>
#include <cstddef>

#include "amforest/base/limits.hpp"

namespace amforest {

struct Group {
    std::size_t memory =
        kUnlimited;         // rows from which a tree is regrown; unlimited: all in the store
    bool is_honest = false; // some rows choose splits, the others are charged
    bool is_plain = false;  // labels choose no splits
    bool has_base = false;  // trees learn the residuals of a linear regression
};

// A tree is regrown when the number of rows doubles, then `regrows_per_memory` times while as many
// rows come as its memory holds. One whose memory is unlimited is not regrown after `last` rows,
// and one that is plain only to settle the scales of features.
class Schedule {
  public:
    static constexpr std::size_t kNever = kUnlimited;
    static constexpr double kFirst = 16;
    static constexpr std::size_t kPlainRows = 1024;

    // `phase` in [0, 1) keeps the trees apart.
    Schedule(const Group &group, double phase, std::size_t store_size,
             std::size_t regrows_per_memory)
        : phase_(phase), last_(group.is_plain ? kPlainRows : store_size),
          period_(group.memory == kUnlimited ? 0
                                             : static_cast<double>(group.memory) /
                                                   static_cast<double>(regrows_per_memory)) {
        while (end_of_doublings_ < period_) end_of_doublings_ *= 2;
    }

    // The first regrow after row number `now`.
    std::size_t next(std::size_t now) const {
        const double n = static_cast<double>(now);
        double doubling = kFirst * std::pow(2.0, phase_);
        while (std::floor(doubling) <= n) doubling *= 2;
        const auto next = static_cast<std::size_t>(doubling);
        if (period_ == 0) return next <= last_ ? next : kNever;
        if (doubling < end_of_doublings_) return next;
        double cycle = std::fmax(std::floor((n - end_of_doublings_) / period_ - phase_), 0);
        while (row_of_cycle(cycle) <= n) cycle += 1;
        return static_cast<std::size_t>(row_of_cycle(cycle));
    }

  private:
    // The summand covers rounding: trees whose rows are 1 apart must not meet.
    double row_of_cycle(double cycle) const {
        return std::floor(end_of_doublings_ + period_ * (cycle + phase_) + 1e-6);
    }

    double phase_;
    std::size_t last_;
    double period_; // 0: none
    // The same for all trees of a group, so that no doubling falls on a later regrow of another.
    double end_of_doublings_ = kFirst;
};

} // namespace amforest
