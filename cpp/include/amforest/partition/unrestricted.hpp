// The unrestricted Mondrian partition (Algorithm 2): it splits a box until each leaf holds one
// point at most.
#pragma once

#include <array>
#include <cstddef>
#include <limits>
#include <utility>
#include <vector>

#include "amforest/base/require.hpp"
#include "amforest/base/rng.hpp"
#include "amforest/partition/cell.hpp"
#include "amforest/partition/descent.hpp"

namespace amforest {

class Unrestricted : public Descent {
  public:
    using Domain = Bounds;
    // A row may add any number of nodes: room is made row by row, once its splits are drawn.
    static constexpr bool kSplitsOnce = false;

    Unrestricted(const Layout &layout, const Bounds &bounds, FeatureWeights weights)
        : Descent(NodeArena(layout, std::move(weights))), bounds_(bounds) {}

    // A copy. The box settles the features: the layout is the same.
    Unrestricted(const Unrestricted &earlier, const Layout &layout)
        : Descent(NodeArena(earlier.arena_, layout)), bounds_(earlier.bounds_) {
        require(layout == earlier.arena_.layout(), "bounds settle the features");
    }

    // The cell of all rows.
    Cell whole_cell() const { return {bounds_, arena_.weights()}; }

    // After the descent, in two parts, between which room is made for the splits. The leaf of x
    // holds one other point at most: its cell is split until x is alone, but not more than `most`
    // times. Returns how many splits are drawn.
    std::size_t draw_cuts(Point x, Rng &rng, std::size_t most) {
        cuts_.clear();
        if (arena_.root() == kNone || most == 0) return 0;
        const NodeId leaf = child(path_.back());
        if (arena_.is_empty(leaf) || arena_.is_at(leaf, x)) return 0;
        Cell cell = whole_cell();
        for (std::size_t i = 1; i < path_.size(); ++i) {
            const InnerNode &node = arena_.inner(path_[i].inner);
            cell.narrow(node.feature, node.threshold, path_[i].side);
        }
        double time = arena_.inner(path_.back().inner).split_time;
        do {
            cuts_.push_back(cell.split(time, x.values, arena_.point(leaf), rng));
            time = cuts_.back().time;
        } while (cuts_.back().x_side == cuts_.back().other_side && cuts_.size() < most);
        return cuts_.size();
    }

    void extend(Point x) {
        if (arena_.root() == kNone) return attach(arena_.add_leaf(x));
        const NodeId leaf = child(path_.back());
        if (arena_.is_empty(leaf)) return arena_.settle(leaf, x);
        for (const CellCut &cut : cuts_) {
            const bool is_last = cut.x_side != cut.other_side;
            std::array<NodeId, 2> child{};
            child[cut.other_side] = leaf; // until the next cut replaces it
            child[1 - cut.other_side] = is_last ? arena_.add_leaf(x) : arena_.add_empty_leaf();
            const NodeId v = arena_.add_inner({.child = child,
                                               .feature = static_cast<std::uint32_t>(cut.feature),
                                               .threshold = cut.threshold,
                                               .split_time = cut.time});
            attach(v);
            path_.push_back({v, cut.x_side});
        }
    }

    // How many inner nodes the last extension has added; they are the last ones.
    std::size_t n_new_inner() const { return cuts_.size(); }

    static constexpr bool has_gaps() { return false; }
    void expect_gaps() {} // there are none in a box

    // The point of a leaf; NaN where there is none.
    void copy_range(NodeId v, Range &range) const {
        if (is_leaf(v) && !arena_.is_empty(v)) return arena_.copy_range(v, range);
        std::ranges::fill(range.lower, std::numeric_limits<float>::quiet_NaN());
        std::ranges::fill(range.upper, std::numeric_limits<float>::quiet_NaN());
    }

  private:
    Bounds bounds_;
    std::vector<CellCut> cuts_;
};

} // namespace amforest
