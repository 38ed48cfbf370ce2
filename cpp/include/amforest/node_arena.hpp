// Nodes and their feature ranges in flat memory, by NodeId.
//
// What a visit needs lies side by side: an inner node is one 64-byte header followed by its range,
// a leaf is a short header followed by its point. An id says which of the two it is and is enough
// to compute the address, so a child can be fetched before anything of it is known.
//
// What a node's parent must know of it (its birth time, its log w-bar) is stored in the parent,
// so that learning never visits a sibling. Ids never change and nothing is ever moved.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "amforest/memory.hpp"
#include "amforest/ranges.hpp"

namespace amforest {

using NodeId = std::uint32_t;

inline constexpr NodeId kLeafBit = NodeId{1} << 31;
inline constexpr NodeId kNone = ~NodeId{0};
// The stem is an inner node that only carries the root, as its child 0: so the root is a child
// like any other, and it is born at the stem's split time, 0.
inline constexpr NodeId kStem = 0;

inline bool is_leaf(NodeId v) { return (v & kLeafBit) != 0; }
inline std::size_t row_of(NodeId v) { return v & ~kLeafBit; }

struct alignas(64) InnerNode {
    std::array<NodeId, 2> child = {kNone, kNone};
    std::uint32_t feature = 0; // j_v
    float threshold = 0;       // s_v: x_j <= s_v goes to child 0
    double split_time = 0;     // tau of both children
    double log_w = 0;          // log w_v
    std::array<double, 2> child_log_w_bar = {0, 0};
    double share = 0; // 1/2 w_v / w-bar_v, kept so that predicting needs no exponential

    std::size_t side_of(const float *x) const { return x[feature] <= threshold ? 0 : 1; }
};

struct Leaf {
    double log_w = 0;           // log w_v, which is log w-bar_v too
    std::uint32_t upper = kNone; // row of the upper corner, once the leaf is more than a point
    std::uint32_t reserved = 0;
};

class NodeArena {
  public:
    explicit NodeArena(std::size_t n_features)
        : width_(padded(n_features)),
          inner_(sizeof(InnerNode) + 2 * width_ * sizeof(float)),
          leaves_(sizeof(Leaf) + width_ * sizeof(float)), uppers_(width_ * sizeof(float)) {
        inner_.make_room(1);
        *inner_.at<InnerNode>(inner_.add()) = InnerNode{};
    }

    std::size_t width() const { return width_; }
    std::size_t n_inner() const { return inner_.size() - 1; }
    std::size_t n_leaves() const { return leaves_.size(); }
    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes() + uppers_.bytes(); }

    InnerNode &inner(NodeId v) { return *inner_.at<InnerNode>(v); }
    const InnerNode &inner(NodeId v) const { return *inner_.at<InnerNode>(v); }
    Leaf &leaf(NodeId v) { return *leaves_.at<Leaf>(row_of(v)); }
    const Leaf &leaf(NodeId v) const { return *leaves_.at<Leaf>(row_of(v)); }

    NodeId root() const { return inner(kStem).child[0]; }
    double log_w(NodeId v) const { return is_leaf(v) ? leaf(v).log_w : inner(v).log_w; }

    Range range(NodeId v) const {
        // A view: constness of the arena is not that of the floats it hands out.
        auto &self = const_cast<NodeArena &>(*this);
        if (!is_leaf(v)) {
            auto *lower = reinterpret_cast<float *>(&self.inner(v) + 1);
            return {lower, lower + width_, width_};
        }
        Leaf &leaf = self.leaf(v);
        auto *lower = reinterpret_cast<float *>(&leaf + 1);
        auto *upper = leaf.upper == kNone ? lower : self.uppers_.at<float>(leaf.upper);
        return {lower, upper, width_};
    }

    // Widening a leaf that holds one point gives it an upper corner of its own.
    void widen(NodeId v, const float *x) {
        if (is_leaf(v) && leaf(v).upper == kNone) {
            leaf(v).upper = uppers_.add();
            const Range point = range(v);
            std::copy_n(point.lower, width_, point.upper);
        }
        range(v).widen(x);
    }

    // Room for what `count` samples can add at the most.
    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
        uppers_.make_room(count);
    }

    NodeId add_leaf(const float *x) {
        const NodeId v = leaves_.add() | kLeafBit;
        leaf(v) = Leaf{};
        std::copy_n(x, width_, range(v).lower);
        return v;
    }

    // An inner node with v's range.
    NodeId add_inner(const Range &like) {
        const NodeId v = inner_.add();
        inner(v) = InnerNode{};
        const Range own = range(v);
        std::copy_n(like.lower, width_, own.lower);
        std::copy_n(like.upper, width_, own.upper);
        return v;
    }

    void prefetch(NodeId v) const {
        const bool leaf = is_leaf(v);
        const auto *start = leaf ? leaves_.at<char>(row_of(v)) : inner_.at<char>(v);
        const std::size_t bytes = leaf ? sizeof(Leaf) + width_ * sizeof(float)
                                       : sizeof(InnerNode) + 2 * width_ * sizeof(float);
        for (std::size_t offset = 0; offset < std::min(bytes, kPrefetchBytes); offset += 64)
            __builtin_prefetch(start + offset);
    }

  private:
    // Beyond this the hardware, which follows sequential loads, does better.
    static constexpr std::size_t kPrefetchBytes = 512;

    std::size_t width_; // floats in a row of features
    Rows inner_;        // InnerNode, lower, upper
    Rows leaves_;       // Leaf, point
    Rows uppers_;       // upper corners of leaves that are more than a point
};

} // namespace amforest
