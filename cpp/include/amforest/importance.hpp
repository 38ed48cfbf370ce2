// The importances of the features of one tree, learned online: the loss that its splits save.
//
// Let v_0, ..., v_k be the path of a row (x, y) before it is counted, p_i what v_i predicts, and
// reach_i the product of 1 - share over the nodes above v_i. If the path ended at v_i, the tree
// would predict
//     m_i = sum over j < i of reach_j share_j p_j, plus reach_i p_i:
// m_0 is what the root predicts alone, and m_k what the tree predicts. The feature on which v_(i-1)
// splits has saved loss(m_(i-1), y) - loss(m_i, y), times the weight of the row. So all features
// together have saved exactly what the tree predicts better than its root.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amforest/base/require.hpp"
#include "amforest/partition/layout.hpp"

namespace amforest {

class Importance {
  public:
    // One row in so many is credited to a tree, of ten trees each row to another.
    static constexpr std::uint32_t kTurns = 10;
    // No stream saves more: labels on a linear base lie within ±1e80.
    static constexpr double kMostSaved = 1e200;

    explicit Importance(std::size_t n_features) : saved_(n_features) {}

    // A copy with the features of a later layout.
    Importance(const Importance &earlier, const Layout &before, const Layout &layout)
        : saved_(layout.n_features()), weight_(earlier.weight_), turn_(earlier.turn_) {
        const auto numbers = earlier.saved_.begin() + static_cast<std::ptrdiff_t>(before.n_codes());
        std::copy(earlier.saved_.begin(), numbers, saved_.begin());
        std::copy(numbers, earlier.saved_.end(),
                  saved_.begin() + static_cast<std::ptrdiff_t>(layout.n_codes()));
    }

    std::span<const double> saved() const { return saved_; } // by feature
    double weight() const { return weight_; }                // of the rows credited
    std::uint8_t turn() const { return turn_; }
    void set_turn(std::size_t t) { turn_ = static_cast<std::uint8_t>(t % kTurns); }
    std::size_t bytes() const { return saved_.size() * sizeof(double); }

    // Whether it is the tree's turn: where multiples of the golden ratio, which keep step with no
    // period of a stream, fall into the tree's part of the circle.
    bool is_due(std::size_t n_rows) const {
        constexpr std::uint32_t kGolden = 2'654'435'769U, kPart = 429'496'729U; // 2^32 / kTurns
        return static_cast<std::uint32_t>(n_rows) * kGolden - turn_ * kPart < kPart;
    }

    void add(std::size_t feature, double saved) { saved_[feature] += saved; }
    void count(double weight) { weight_ += weight; }
    // What came before counts less.
    void fade(double factor) {
        for (double &saved : saved_) saved *= factor;
        weight_ *= factor;
    }

    // From a model file.
    void restore(std::span<const double> saved, double weight) {
        for (const double value : saved)
            require(std::abs(value) <= kMostSaved && (weight > 0 || value == 0),
                    "importance must lie within ±1e200, and be 0 where no row was credited");
        std::ranges::copy(saved, saved_.begin());
        weight_ = weight;
    }

  private:
    std::vector<double> saved_;
    double weight_ = 0;
    std::uint8_t turn_ = 0;
};

} // namespace amforest
