// How much a split tells about classes.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace amforest {

// The gain of a split: sum over classes of n_k log n_k, minus n log n, on the left and on the right
// together, minus the same of the node. n_k is the weight of the rows of class k whose feature is
// not missing.
class ClassGain {
  public:
    using Label = std::uint32_t;

    void make_room(std::size_t n_rows, std::size_t n_classes) {
        labels_.reserve(n_rows);
        weights_.reserve(n_rows);
        present_.reserve(std::min(n_rows, n_classes));
        place_.resize(std::max(place_.size(), n_classes));
        left_.resize(std::max(left_.size(), n_classes));
        right_.resize(left_.size());
        whole_left_.resize(left_.size());
        whole_.resize(left_.size());
    }

    std::size_t bytes() const {
        return labels_.capacity() * sizeof(Label) + weights_.capacity() * sizeof(double) +
               left_.size() * (2 * sizeof(double) + 4 * sizeof(std::uint32_t));
    }

    void clear() {
        for (const Label y : present_) place_[y] = 0;
        present_.clear();
        labels_.clear();
        weights_.clear();
        has_equal_weights_ = true;
    }

    // A row of the node. All rows come before the first split is judged.
    void add(Label y, double weight) {
        if (place_[y] == 0) {
            place_[y] = 1;
            present_.push_back(y);
        }
        labels_.push_back(y);
        weights_.push_back(weight);
        has_equal_weights_ &= weight == 1;
    }

    // After the last row: from now on labels are places among those present, in their order.
    void finish() {
        std::ranges::sort(present_);
        for (std::uint32_t k = 0; k < present_.size(); ++k) place_[present_[k]] = k;
        std::fill_n(whole_.begin(), present_.size(), 0U);
        for (Label &y : labels_) ++whole_[y = place_[y]];
        for (const Label y : present_) place_[y] = 1;
    }

    static double margin() { return 0; } // the first of equal splits is the best
    std::size_t size() const { return labels_.size(); }
    double total_weight() const {
        double sum = 0;
        for (const double weight : weights_) sum += weight;
        return sum;
    }

    // `values` of the feature, one for each row.
    double of(std::span<const float> values, float threshold, bool has_gaps) {
        if (!has_equal_weights_ || has_gaps) return of_any(values, threshold);
        const std::size_t n_classes = present_.size();
        if (n_classes == 2)
            count_two(values, threshold);
        else
            count_many(values, threshold);
        Side left, right, node;
        for (std::size_t k = 0; k < n_classes; ++k) {
            left.add(whole_left_[k]);
            right.add(whole_[k] - whole_left_[k]);
            node.add(whole_[k]);
        }
        return left.value() + right.value() - node.value();
    }

  private:
    static constexpr std::size_t kTableSize = 1025;

    // n log n
    static double entropy_of(double n) { return n > 0 ? n * std::log(n) : 0; }
    static double entropy_of(std::uint32_t n) {
        return n < kTableSize ? kTable[n] : entropy_of(static_cast<double>(n));
    }
    inline static const std::array<double, kTableSize> kTable = [] {
        std::array<double, kTableSize> values{};
        for (std::size_t i = 0; i < kTableSize; ++i) values[i] = entropy_of(static_cast<double>(i));
        return values;
    }();

    // Adds up one side of a split.
    struct SideOfWeights {
        double n = 0, sum = 0;
        void add(double n_k) {
            n += n_k;
            sum += entropy_of(n_k);
        }
        double value() const { return sum - entropy_of(n); }
    };
    struct Side {
        std::uint32_t n = 0;
        double sum = 0;
        void add(std::uint32_t n_k) {
            n += n_k;
            sum += entropy_of(n_k);
        }
        double value() const { return sum - entropy_of(n); }
    };

    void count_two(std::span<const float> values, float threshold) {
        std::uint32_t n = 0, n_second = 0;
        const Label *labels = labels_.data();
        for (std::size_t i = 0; i < values.size(); ++i) {
            const std::uint32_t is_left = values[i] <= threshold ? 1 : 0;
            n += is_left;
            n_second += is_left & labels[i];
        }
        whole_left_[0] = n - n_second;
        whole_left_[1] = n_second;
    }

    void count_many(std::span<const float> values, float threshold) {
        std::fill_n(whole_left_.begin(), present_.size(), 0U);
        for (std::size_t i = 0; i < values.size(); ++i)
            whole_left_[labels_[i]] += values[i] <= threshold ? 1 : 0;
    }

    double of_any(std::span<const float> values, float threshold) {
        std::fill_n(left_.begin(), present_.size(), 0.0);
        std::fill_n(right_.begin(), present_.size(), 0.0);
        for (std::size_t i = 0; i < values.size(); ++i)
            if (!std::isnan(values[i]))
                (values[i] <= threshold ? left_ : right_)[labels_[i]] += weights_[i];
        SideOfWeights left, right, node;
        for (std::size_t k = 0; k < present_.size(); ++k) {
            left.add(left_[k]);
            right.add(right_[k]);
            node.add(left_[k] + right_[k]);
        }
        return left.value() + right.value() - node.value();
    }

    std::vector<Label> labels_, present_;
    std::vector<double> weights_;
    bool has_equal_weights_ = true;    // all are 1
    std::vector<std::uint32_t> place_; // of each class among those present, or whether it is
    std::vector<std::uint32_t> whole_, whole_left_;
    std::vector<double> left_, right_;
};

} // namespace amforest
