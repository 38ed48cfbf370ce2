// Nodes and their feature ranges in flat memory, by NodeId.
//
// An id says whether a node is inner or a leaf, and is enough to compute where its header and its
// range lie: a child can be fetched before anything of it is known. Headers lie apart from ranges,
// because predicting reads no ranges. What a node's parent must know of it (its birth time, its
// log w-bar) is stored in the parent, so that learning never visits a sibling. Ids never change
// and nothing is ever moved.
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
    double log_w = 0;            // log w_v, which is log w-bar_v too
    std::uint32_t upper = kNone; // row of the upper corner, once the leaf is more than a point
    std::uint32_t reserved = 0;
};

class NodeArena {
  public:
    explicit NodeArena(std::size_t n_features)
        : width_(padded(n_features)), inner_(sizeof(InnerNode)), boxes_(2 * row_bytes()),
          leaves_(sizeof(Leaf)), points_(row_bytes()), uppers_(row_bytes()) {
        inner_.make_room(1);
        boxes_.make_room(1);
        *inner_.at<InnerNode>(inner_.add()) = InnerNode{};
        boxes_.add();
    }

    std::size_t width() const { return width_; }
    std::size_t n_inner() const { return inner_.size() - 1; }
    std::size_t n_leaves() const { return leaves_.size(); }
    std::size_t bytes() const {
        return inner_.bytes() + boxes_.bytes() + leaves_.bytes() + points_.bytes() +
               uppers_.bytes();
    }

    InnerNode &inner(NodeId v) { return *inner_.at<InnerNode>(v); }
    const InnerNode &inner(NodeId v) const { return *inner_.at<InnerNode>(v); }
    Leaf &leaf(NodeId v) { return *leaves_.at<Leaf>(row_of(v)); }
    const Leaf &leaf(NodeId v) const { return *leaves_.at<Leaf>(row_of(v)); }

    NodeId root() const { return inner(kStem).child[0]; }
    double log_w(NodeId v) const { return is_leaf(v) ? leaf(v).log_w : inner(v).log_w; }

    Range range(NodeId v) {
        if (!is_leaf(v)) {
            auto *lower = boxes_.at<float>(v);
            return {lower, lower + width_, width_};
        }
        auto *lower = points_.at<float>(row_of(v));
        const std::uint32_t upper = leaf(v).upper;
        return {lower, upper == kNone ? lower : uppers_.at<float>(upper), width_};
    }
    ConstRange range(NodeId v) const { return const_cast<NodeArena &>(*this).range(v); }

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
        for (Rows *rows : {&inner_, &boxes_, &leaves_, &points_, &uppers_}) rows->make_room(count);
    }

    NodeId add_leaf(const float *x) {
        const NodeId v = leaves_.add() | kLeafBit;
        leaf(v) = Leaf{};
        std::copy_n(x, width_, points_.at<float>(points_.add()));
        return v;
    }

    NodeId add_inner(const ConstRange &range_of_v) {
        const NodeId v = inner_.add();
        inner(v) = InnerNode{};
        auto *lower = boxes_.at<float>(boxes_.add());
        std::copy_n(range_of_v.lower, width_, lower);
        std::copy_n(range_of_v.upper, width_, lower + width_);
        return v;
    }

    void prefetch_header(NodeId v) const {
        __builtin_prefetch(is_leaf(v) ? leaves_.at<char>(row_of(v)) : inner_.at<char>(v));
    }

    void prefetch_range(NodeId v) const {
        if (is_leaf(v))
            prefetch_lines(points_.at<char>(row_of(v)), row_bytes());
        else
            prefetch_lines(boxes_.at<char>(v), 2 * row_bytes());
    }

  private:
    // Beyond this many bytes the hardware, which follows sequential loads, does better.
    static constexpr std::size_t kPrefetchBytes = 512;

    static void prefetch_lines(const char *start, std::size_t bytes) {
        for (std::size_t offset = 0; offset < std::min(bytes, kPrefetchBytes); offset += 64)
            __builtin_prefetch(start + offset);
    }

    std::size_t row_bytes() const { return width_ * sizeof(float); }

    std::size_t width_;    // floats in a row of features
    Rows inner_, boxes_;   // InnerNode; lower and upper corner
    Rows leaves_, points_; // Leaf; its point, or its lower corner
    Rows uppers_;          // upper corners of leaves that are more than a point
};

} // namespace amforest
