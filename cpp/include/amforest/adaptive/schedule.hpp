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
};

// A tree is regrown when the number of rows doubles; once its memory is full, every half memory.
// One whose memory is unlimited is not regrown after `last` rows, and one that is plain only to
// settle the scales of features.
class Schedule {
  public:
    static constexpr std::size_t kNever = kUnlimited;
    static constexpr double kFirst = 16;
    static constexpr std::size_t kPlainRows = 1024;

    // `phase` in [0, 1) keeps the trees apart.
    Schedule(const Group &group, double phase, std::size_t store_size)
        : phase_(phase), last_(group.is_plain ? kPlainRows : store_size),
          period_(group.memory == kUnlimited ? 0 : static_cast<double>(group.memory) / 2) {}

    // The first regrow after row number `now`.
    std::size_t next(std::size_t now) const {
        const double n = static_cast<double>(now);
        double doubling = kFirst * std::pow(2.0, phase_);
        while (std::floor(doubling) <= n) doubling *= 2;
        const auto next = static_cast<std::size_t>(doubling);
        if (period_ == 0) return next <= last_ ? next : kNever;
        if (doubling < period_) return next;
        const double from = std::fmax(n, kFirst - 1);
        double cycle = std::floor(from / period_ - phase_);
        while (std::floor(period_ * (cycle + phase_)) <= from) cycle += 1;
        return static_cast<std::size_t>(period_ * (cycle + phase_));
    }

  private:
    double phase_;
    std::size_t last_;
    double period_; // 0: none
};

} // namespace amforest
