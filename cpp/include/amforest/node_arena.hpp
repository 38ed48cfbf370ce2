// Nodes and their feature ranges in flat memory, by NodeId.
//
// An id says whether a node is inner or a leaf. A node's birth time is stored in its parent, so
// that leaves need no header. Headers lie apart from ranges, because going down reads no ranges.
//
// A leaf keeps one point, or a lower and an upper corner once it is more than a point. An inner
// node keeps the two corners of its range, unless both its children are leaves: then their ranges
// make up its own. Ids never change and nothing is ever moved.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>

#include "amforest/counters.hpp"
#include "amforest/memory.hpp"
#include "amforest/ranges.hpp"
#include "amforest/scaled.hpp"

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
    Scaled odds = {1, 0};      // w_v / (w-bar_v0 w-bar_v1)
    double share = 0;          // 1/2 w_v / w-bar_v, kept so that predicting need not divide
    std::uint32_t box = kNone; // row of the range's corners, unless the children are leaves
};

class NodeArena {
  public:
    explicit NodeArena(std::size_t n_features)
        : width_(padded(n_features)), boxes_(2 * row_bytes()), points_(row_bytes()),
          uppers_(row_bytes()) {
        inner_.make_room(1);
        inner_.add(InnerNode{}); // the stem
    }

    std::size_t width() const { return width_; }
    std::size_t n_inner() const { return inner_.size() - 1; }
    std::size_t n_leaves() const { return points_.size(); }
    std::size_t bytes() const {
        return inner_.bytes() + boxes_.bytes() + points_.bytes() + upper_of_.bytes() +
               uppers_.bytes();
    }

    InnerNode &inner(NodeId v) { return inner_[v]; }
    const InnerNode &inner(NodeId v) const { return inner_[v]; }
    NodeId root() const { return inner(kStem).child[0]; }

    // Room for what `count` samples can add at the most.
    void make_room(std::size_t count) {
        for (Rows *rows :
             std::initializer_list<Rows *>{&inner_, &boxes_, &points_, &upper_of_, &uppers_})
            rows->make_room(count);
    }

    NodeId add_leaf(const float *x) {
        std::copy_n(x, width_, points_.at<float>(points_.add()));
        return upper_of_.add(kNone) | kLeafBit;
    }

    NodeId add_inner(const InnerNode &node) { return inner_.add(node); }

    // Gives an inner node a box of its own.
    void set_range(NodeId v, const float *lower, const float *upper) {
        inner(v).box = boxes_.add();
        auto *corners = boxes_.at<float>(inner(v).box);
        std::copy_n(lower, width_, corners);
        std::copy_n(upper, width_, corners + width_);
    }

    void copy_range(NodeId v, float *lower, float *upper) const {
        const auto [first, second] = boxes_of(v);
        std::copy_n(first.lower, width_, lower);
        std::copy_n(first.upper, width_, upper);
        if (second.lower == nullptr) return;
        kernels::chosen.widen(second.lower, lower, upper, width_);
        kernels::chosen.widen(second.upper, lower, upper, width_);
    }

    // How far x lies outside the range of v, summed over features.
    float extension(NodeId v, const float *x) const {
        const auto [first, second] = boxes_of(v);
        count_load(bytes_of(first) + bytes_of(second));
        return second.lower == nullptr ? kernels::chosen.extension(x, first, width_)
                                       : kernels::chosen.extension_of_two(x, first, second, width_);
    }

    bool holds(NodeId v, const float *x) const {
        const auto [first, second] = boxes_of(v);
        return amforest::holds(x, first, second.lower == nullptr ? first : second, width_);
    }

    // R_v becomes the smallest box that holds R_v and x. Where two leaves make up R_v, theirs do.
    void widen(NodeId v, const float *x) {
        if (!is_leaf(v)) {
            if (inner(v).box == kNone) return;
            auto *corners = boxes_.at<float>(inner(v).box);
            return kernels::chosen.widen(x, corners, corners + width_, width_);
        }
        std::uint32_t &upper = upper_of_[row_of(v)];
        auto *lower = points_.at<float>(row_of(v));
        if (upper == kNone) {
            upper = uppers_.add();
            std::copy_n(lower, width_, uppers_.at<float>(upper));
        }
        kernels::chosen.widen(x, lower, uppers_.at<float>(upper), width_);
    }

    void prefetch_header(NodeId v) const {
        if (!is_leaf(v)) __builtin_prefetch(&inner_[v]);
    }

    // Reads the header: better ask for that before.
    void prefetch_range(NodeId v) const {
        if (is_leaf(v)) {
            prefetch_lines(points_.at<char>(row_of(v)), row_bytes());
        } else if (const InnerNode &node = inner(v); node.box != kNone) {
            prefetch_lines(boxes_.at<char>(node.box), 2 * row_bytes());
        } else {
            for (const NodeId child : node.child)
                prefetch_lines(points_.at<char>(row_of(child)), row_bytes());
        }
    }

  private:
    // Beyond this many bytes the hardware, which follows sequential loads, does better.
    static constexpr std::size_t kPrefetchBytes = 512;

    static void prefetch_lines(const char *start, std::size_t bytes) {
        for (std::size_t offset = 0; offset < std::min(bytes, kPrefetchBytes); offset += 64)
            __builtin_prefetch(start + offset);
    }

    std::size_t row_bytes() const { return width_ * sizeof(float); }

    // One box, or two whose union is meant.
    struct Boxes {
        Box first, second = {nullptr, nullptr};
    };

    Boxes boxes_of(NodeId v) const {
        if (is_leaf(v)) return {leaf_box(v)};
        const InnerNode &node = inner(v);
        if (node.box == kNone) return {leaf_box(node.child[0]), leaf_box(node.child[1])};
        const auto *corners = boxes_.at<float>(node.box);
        return {{corners, corners + width_}};
    }

    std::size_t bytes_of(Box box) const {
        if (box.lower == nullptr) return 0;
        return (box.lower == box.upper ? 1 : 2) * row_bytes();
    }

    Box leaf_box(NodeId v) const {
        const auto *lower = points_.at<float>(row_of(v));
        const std::uint32_t upper = upper_of_[row_of(v)];
        return {lower, upper == kNone ? lower : uppers_.at<float>(upper)};
    }

    std::size_t width_; // floats in a row of features
    Pool<InnerNode> inner_;
    Rows boxes_;                   // lower and upper corners of inner nodes
    Rows points_;                  // a leaf's point, or its lower corner
    Pool<std::uint32_t> upper_of_; // row of a leaf's upper corner, or kNone
    Rows uppers_;
};

} // namespace amforest
