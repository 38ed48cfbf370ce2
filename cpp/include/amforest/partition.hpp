// The restricted Mondrian partition (Algorithm 5). It knows no labels and no weights.
#pragma once

#include <cmath>
#include <limits>
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
    explicit Partition(std::size_t n_features)
        : arena_(n_features), lower_(arena_.width()), upper_(arena_.width()), delta_(n_features) {}

    NodeArena &arena() { return arena_; }
    const NodeArena &arena() const { return arena_; }

    // ExtendCell(root, x), one node at a time: start, then go_down until it returns false. The
    // path then leads from the stem to the leaf of x.
    struct Walk {
        NodeId v = kNone;
        double birth_time = 0;
    };

    Walk start() {
        path_.assign(1, Step{kStem, 0});
        return {arena_.root()};
    }

    // A node for which `stays_whole(v)` holds is not split.
    template <class StaysWhole>
    bool go_down(Walk &walk, const float *x, Rng &rng, const StaysWhole &stays_whole) {
        const NodeId v = walk.v;
        if (v == kNone) {
            hang(arena_.add_leaf(x));
            return false;
        }
        const Descent down = look_down(v, x);
        const double extension = static_cast<double>(arena_.extension(v, x));
        if (extension > 0) {
            if (!stays_whole(v)) {
                const double limit = down.split_time - walk.birth_time;
                const double time = walk.birth_time + rng.exponential_below(limit, extension);
                if (is_leaf(v) || time < down.split_time) {
                    split(v, x, time, rng);
                    return false;
                }
            }
            arena_.widen(v, x);
        }
        if (is_leaf(v)) return false;
        arena_.prefetch_range(down.child);
        path_.push_back({v, down.side});
        walk = {down.child, down.split_time};
        return true;
    }

    std::vector<Step> &path() { return path_; }

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
        return {node.child[side], side, node.split_time};
    }

    // Inserts a node above v, which keeps its id and its subtree, and hangs x's leaf beside v.
    void split(NodeId v, const float *x, double time, Rng &rng) {
        arena_.copy_range(v, lower_.data(), upper_.data());
        for (std::size_t j = 0; j < delta_.size(); ++j)
            delta_[j] = extension_of(x[j], lower_[j], upper_[j]);
        const std::size_t feature = rng.discrete(delta_);
        const bool on_left = x[feature] < lower_[feature];
        const float low = on_left ? x[feature] : upper_[feature];
        const float high = on_left ? lower_[feature] : x[feature];
        const float threshold = threshold_between(low, high, rng.uniform());

        const NodeId leaf = arena_.add_leaf(x);
        const NodeId above = arena_.add_inner({
            .child = on_left ? std::array{leaf, v} : std::array{v, leaf},
            .feature = static_cast<std::uint32_t>(feature),
            .threshold = threshold,
            .split_time = time,
        });
        if (is_leaf(v))
            keep_range_of_parent(x);
        else
            keep_range(above, v, x);
        hang(above);
        path_.push_back({above, on_left ? 0U : 1U});
    }

    // The parent of a leaf that is about to be split will have an inner child.
    void keep_range_of_parent(const float *x) {
        const NodeId parent = path_.back().inner;
        if (parent != kStem && arena_.inner(parent).box == kNone) keep_range(parent, parent, x);
    }

    // Gives `to` a range of its own: that of `from`, widened by x.
    void keep_range(NodeId to, NodeId from, const float *x) {
        arena_.copy_range(from, lower_.data(), upper_.data());
        arena_.set_range(to, lower_.data(), upper_.data());
        arena_.widen(to, x);
    }

    // Puts v at the end of the path.
    void hang(NodeId v) { arena_.inner(path_.back().inner).child[path_.back().side] = v; }

    // Uniform on [low, high], rounded so that low <= s < high: the split separates.
    static float threshold_between(float low, float high, double u) {
        const double from = low, to = high;
        const auto s = static_cast<float>(from + u * (to - from));
        return s < high ? s : std::nextafter(high, -std::numeric_limits<float>::infinity());
    }

    NodeArena arena_;
    std::vector<Step> path_;
    std::vector<float> lower_, upper_, delta_; // of the node that is being split
};

} // namespace amforest
