// How much a split tells about numbers.
#pragma once

#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace amforest {

// The gain of a split: by how much it reduces the sum of squares, n_0 n_1 / n (m_0 - m_1)^2 with
// the weights and means of both sides, over the rows whose feature is not missing.
class VarianceGain {
  public:
    using Label = double;

    // Of the sum of squares: splits whose gains differ by less are equal. So rounding, which
    // depends on the unit and the origin of labels, decides nothing.
    static constexpr double kTie = 1e-7;

    void make_room(std::size_t n_rows, std::size_t) {
        labels_.reserve(n_rows);
        weights_.reserve(n_rows);
    }

    std::size_t bytes() const {
        return (labels_.capacity() + weights_.capacity()) * sizeof(double);
    }

    void clear() {
        labels_.clear();
        weights_.clear();
        total_ = {};
        has_equal_weights_ = true;
    }

    // A row of the node. All rows come before the first split is judged.
    void add(Label y, double weight) {
        labels_.push_back(y);
        weights_.push_back(weight);
        has_equal_weights_ &= weight == 1;
    }

    // After the last row: from now on labels are distances from their mean.
    void finish() {
        for (std::size_t i = 0; i < labels_.size(); ++i) total_.add(labels_[i], weights_[i]);
        const double mean = total_.weight > 0 ? total_.sum / total_.weight : 0;
        for (double &y : labels_) y -= mean;
        total_.sum = margin_ = 0;
        for (std::size_t i = 0; i < labels_.size(); ++i) {
            total_.sum += weights_[i] * labels_[i];
            margin_ += kTie * (weights_[i] * labels_[i] * labels_[i]);
        }
    }

    std::size_t size() const { return labels_.size(); }
    double total_weight() const { return total_.weight; }
    double margin() const { return margin_; } // by which a better split must be better

    // `values` of the feature, one for each row.
    double of(std::span<const float> values, float threshold, bool has_gaps) const {
        if (!has_equal_weights_ || has_gaps) return of_any(values, threshold);
        // Four sums, so that one addition need not wait for the last; and no branch, because no
        // processor can predict the sides of rows.
        constexpr std::size_t kLanes = 4;
        std::uint64_t n_left = 0;
        std::array<double, kLanes> sums = {};
        const auto add = [&](std::size_t lane, std::size_t i) {
            const std::uint64_t is_left = values[i] <= threshold ? 1 : 0;
            n_left += is_left;
            sums[lane] +=
                std::bit_cast<double>(std::bit_cast<std::uint64_t>(labels_[i]) & -is_left);
        };
        std::size_t i = 0;
        for (; i + kLanes <= values.size(); i += kLanes)
            for (std::size_t lane = 0; lane < kLanes; ++lane) add(lane, i + lane);
        for (; i < values.size(); ++i) add(0, i);
        return reduction({(sums[0] + sums[1]) + (sums[2] + sums[3]), static_cast<double>(n_left)},
                         total_);
    }

  private:
    struct Sum {
        double sum = 0, weight = 0;
        void add(double y, double w) {
            sum += w * y;
            weight += w;
        }
    };

    static double reduction(const Sum &left, const Sum &node) {
        const double right = node.weight - left.weight;
        if (!(left.weight > 0 && right > 0)) return 0;
        const double distance = left.sum / left.weight - (node.sum - left.sum) / right;
        return left.weight * right / node.weight * (distance * distance);
    }

    double of_any(std::span<const float> values, float threshold) const {
        Sum left, node;
        for (std::size_t i = 0; i < values.size(); ++i) {
            if (std::isnan(values[i])) continue;
            node.add(labels_[i], weights_[i]);
            if (values[i] <= threshold) left.add(labels_[i], weights_[i]);
        }
        return reduction(left, node);
    }

    std::vector<double> labels_, weights_;
    Sum total_;
    double margin_ = 0;
    bool has_equal_weights_ = true; // all are 1
};

} // namespace amforest
