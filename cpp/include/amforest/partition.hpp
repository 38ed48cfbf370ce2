// The restricted Mondrian partition (Algorithm 5). It knows no labels and no weights.
#pragma once

#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "amforest/node_arena.hpp"
#include "amforest/rng.hpp"

namespace amforest {

// One step down: from an inner node to its child on a side.
struct Step {
    NodeId inner;
    std::size_t side;
};

class Partition {
  public:
    explicit Partition(std::size_t n_features) : arena_(n_features), delta_(n_features) {}

    NodeArena &arena() { return arena_; }
    const NodeArena &arena() const { return arena_; }

    // ExtendCell(root, x), one node at a time: start, then go_down until it returns false.
    void start() {
        path_.assign(1, Step{kStem, 0});
        birth_time_ = 0;
    }

    // Visits the child at the end of the path. A node for which `stays_whole(v)` holds is not
    // split. At the end the path leads to the leaf that holds x.
    template <class StaysWhole>
    bool go_down(const float *x, Rng &rng, const StaysWhole &stays_whole) {
        const NodeId v = end_of_path();
        if (v == kNone) return hang(arena_.add_leaf(x));
        const Descent down = look_down(v, x);
        const double extension = static_cast<double>(range_of(v).extension(x));
        if (extension > 0) {
            if (!stays_whole(v)) {
                const double limit = down.split_time - birth_time_;
                const double time = birth_time_ + rng.exponential_below(limit, extension);
                if (is_leaf(v) || time < down.split_time) return split(v, x, time, rng);
            }
            arena_.widen(v, x);
        }
        if (is_leaf(v)) return false;
        path_.push_back({v, down.side});
        birth_time_ = down.split_time;
        return true;
    }

    // The steps from the stem to the leaf of x.
    std::vector<Step> &path() { return path_; }

    NodeId end_of_path() const { return arena_.inner(path_.back().inner).child[path_.back().side]; }

  private:
    struct Descent {
        NodeId child = kNone;
        std::size_t side = 0;
        double split_time = std::numeric_limits<double>::infinity();
    };

    // Where x goes below v, fetched while the extension of v is being summed.
    Descent look_down(NodeId v, const float *x) const {
        if (is_leaf(v)) return {};
        const InnerNode &node = arena_.inner(v);
        const std::size_t side = node.side_of(x);
        arena_.prefetch_header(node.child[side]);
        arena_.prefetch_range(node.child[side]);
        return {node.child[side], side, node.split_time};
    }

    ConstRange range_of(NodeId v) const { return arena_.range(v); }

    // Inserts a node above v, which keeps its id and its subtree, and hangs x's leaf beside v.
    bool split(NodeId v, const float *x, double time, Rng &rng) {
        const ConstRange range = range_of(v);
        range.extension_by_feature(x, delta_);
        const std::size_t feature = rng.discrete(delta_);
        const bool on_left = x[feature] < range.lower[feature];
        const float low = on_left ? x[feature] : range.upper[feature];
        const float high = on_left ? range.lower[feature] : x[feature];

        const NodeId leaf = arena_.add_leaf(x);
        const NodeId above = arena_.add_inner(range);
        arena_.range(above).widen(x);
        InnerNode &node = arena_.inner(above);
        node.child = on_left ? std::array{leaf, v} : std::array{v, leaf};
        node.feature = static_cast<std::uint32_t>(feature);
        node.threshold = threshold_between(low, high, rng.uniform());
        node.split_time = time;

        hang(above);
        path_.push_back({above, on_left ? 0U : 1U});
        return false;
    }

    // Puts v at the end of the path.
    bool hang(NodeId v) {
        arena_.inner(path_.back().inner).child[path_.back().side] = v;
        return false;
    }

    // Uniform on [low, high], rounded so that low <= s < high: the split separates.
    static float threshold_between(float low, float high, double u) {
        const double from = low, to = high;
        const auto s = static_cast<float>(from + u * (to - from));
        return s < high ? s : std::nextafter(high, -std::numeric_limits<float>::infinity());
    }

    NodeArena arena_;
    std::vector<Step> path_;
    double birth_time_ = 0; // of the node at the end of the path
    std::vector<float> delta_;
};

} // namespace amforest
