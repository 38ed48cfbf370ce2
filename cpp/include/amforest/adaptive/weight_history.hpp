// The weights in a mixer along the stream.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/base/require.hpp"

namespace amforest {

// There is a point after each multiple of a number of rows, which doubles as often as there would
// be too many points: it follows from the number of rows learned, and so do the rows of the points,
// however the stream is cut into batches. The last points may be the only ones: earlier versions
// recorded none.
class WeightHistory {
  public:
    static constexpr std::size_t kMostPoints = 256, kLeastEvery = 4;

    explicit WeightHistory(std::size_t n_weights) : n_weights_(n_weights) {}

    std::size_t n_points() const { return values_.size() / n_weights_; }
    std::size_t row(std::size_t point) const {
        return last_row_ - (n_points() - 1 - point) * every_;
    }
    std::span<const double> values() const { return values_; } // points x weights
    std::size_t bytes() const { return values_.capacity() * sizeof(double); }

    void clear() { values_.clear(); }

    // For all points up to so many rows.
    void make_room(std::size_t n_rows) {
        const std::size_t n_most = std::min(n_rows / every_, kMostPoints) * n_weights_;
        if (values_.capacity() < n_most)
            values_.reserve(
                std::min(std::max(n_most, 2 * values_.capacity()), kMostPoints * n_weights_));
    }

    // After `row` rows; weight(g) is that of expert g.
    template <class Weight> void add(std::size_t row, const Weight &weight) {
        if (row % every_ != 0) return;
        last_row_ = row;
        for (std::size_t g = 0; g < n_weights_; ++g) values_.push_back(weight(g));
        if (row / every_ >= kMostPoints) drop_every_other();
    }

    // Those of a model file, the last of `n_rows` rows.
    void restore(std::span<const double> values, std::size_t n_rows) {
        while (n_rows / every_ >= kMostPoints) every_ *= 2;
        require(values.size() % n_weights_ == 0 && values.size() / n_weights_ <= n_rows / every_ &&
                    std::ranges::all_of(values, [](double w) { return std::isfinite(w); }),
                "weight_history must have finite weights for each group or expert, at no more "
                "points than fit the rows");
        last_row_ = n_rows - n_rows % every_;
        values_.assign(values.begin(), values.end());
    }

  private:
    void drop_every_other() {
        std::size_t n_kept = 0;
        for (std::size_t k = 0; k < n_points(); ++k) {
            if (row(k) % (2 * every_) != 0) continue;
            std::copy_n(&values_[k * n_weights_], n_weights_, &values_[n_kept * n_weights_]);
            ++n_kept;
        }
        values_.resize(n_kept * n_weights_);
        every_ *= 2;
        last_row_ -= last_row_ % every_;
    }

    std::size_t n_weights_, every_ = kLeastEvery, last_row_ = 0;
    std::vector<double> values_;
};

} // namespace amforest
