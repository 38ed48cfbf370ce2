// The way of a row down to its leaf, which all partitions share.
#pragma once

#include <cstddef>

#include "amforest/base/memory.hpp"
#include "amforest/partition/node_arena.hpp"

namespace amforest {

// One step down: from an inner node to its child on a side.
struct Step {
    NodeId inner;
    std::size_t side;
};

// The nodes of a partition, and the path of the current row: from the stem to a leaf.
class Descent {
  public:
    explicit Descent(NodeArena arena) : arena_(std::move(arena)) { make_room(0); }

    NodeArena &arena() { return arena_; }
    const NodeArena &arena() const { return arena_; }
    Stack<Step> &path() { return path_; }

    // Room for what `count` splits can add at most, and for the longest path there can be.
    void make_room(std::size_t count) {
        arena_.make_room(count);
        path_.make_room(longest_path(count));
    }

    // One node at a time: start, then descend until it returns false.
    NodeId start() {
        path_.clear();
        path_.push_back({kStem, 0});
        return arena_.root();
    }

    // `side_of(node, x)` is the side of the node's split on which x lies.
    template <class SideOf> bool descend(NodeId &v, const float *x, const SideOf &side_of) {
        if (v != kNone) count_visit();
        if (is_leaf(v)) return false; // or there is no root yet
        count_load(sizeof(InnerNode));
        const InnerNode &node = arena_.inner(v);
        const std::size_t side = side_of(node, x);
        path_.push_back({v, side});
        v = node.child[side];
        arena_.prefetch_header(v);
        if (is_leaf(v)) {
            arena_.prefetch_range(v);
            arena_.prefetch_range(path_.back().inner);
        }
        return true;
    }

  protected:
    std::size_t longest_path(std::size_t n_more) const { return arena_.n_inner() + n_more + 1; }
    NodeId child(const Step &step) const { return arena_.inner(step.inner).child[step.side]; }

    // Puts v at the end of the path.
    void attach(NodeId v) { arena_.inner(path_.back().inner).child[path_.back().side] = v; }

    NodeArena arena_;
    Stack<Step> path_;
};

} // namespace amforest
