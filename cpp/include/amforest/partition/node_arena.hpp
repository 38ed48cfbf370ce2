// Nodes and their feature ranges in flat memory, by NodeId.
//
// An id tells whether a node is inner or a leaf. A node's birth time is stored in its parent, so
// that leaves need no header. Headers are stored apart from ranges, because descending reads no
// ranges.
//
// A leaf keeps one point, or a lower and an upper corner once it is more than a point. An inner
// node keeps the two corners of its range, unless both its children are leaves: then its range is
// the union of theirs. The categories seen are stored behind the corners. Ids never change.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "amforest/base/counters.hpp"
#include "amforest/base/memory.hpp"
#include "amforest/base/prefetch.hpp"
#include "amforest/partition/layout.hpp"
#include "amforest/weights/odds.hpp"

namespace amforest {

using NodeId = std::uint32_t;

inline constexpr NodeId kLeafBit = NodeId{1} << 31;
inline constexpr NodeId kNone = ~NodeId{0};
inline constexpr std::uint32_t kEmpty = kNone - 1; // in place of an upper corner: no point at all
// The stem is an inner node that only carries the root, as its child 0: so the root is a child
// like any other, and it is born at the stem's split time, 0.
inline constexpr NodeId kStem = 0;

inline bool is_leaf(NodeId v) { return (v & kLeafBit) != 0; }
inline std::size_t row_of(NodeId v) { return v & ~kLeafBit; }

struct alignas(64) InnerNode {
    std::array<NodeId, 2> child = {kNone, kNone};
    std::uint32_t feature = 0; // j_v
    // x_j goes to child 1 if s_v < x_j <= ceiling. For numbers the ceiling is infinite; for a
    // category, its code is the only one between the two.
    float threshold = 0; // s_v
    float ceiling = std::numeric_limits<float>::infinity();
    std::uint32_t box = kNone; // row of the range's corners, unless the children are leaves
    double split_time = 0;     // tau of both children
    NodeWeight weight = {};
};
static_assert(sizeof(InnerNode) == 64);

class NodeArena {
  public:
    NodeArena(const Layout &layout, FeatureWeights weights)
        : layout_(layout), weights_(std::move(weights)), n_codes_(layout.n_codes()),
          width_(layout.width()), n_words_(layout.categories.n_words()),
          boxes_(2 * corner_bytes() + set_bytes()), points_(corner_bytes() + set_bytes()),
          uppers_(corner_bytes()) {
        inner_.make_room(1);
        inner_.add(InnerNode{}); // the stem
    }

    // A copy whose rows have the features of a later layout. Nothing was seen of those it adds.
    NodeArena(const NodeArena &earlier, const Layout &layout)
        : NodeArena(layout, earlier.weights_.extended(layout)) {
        make_room(std::max(earlier.n_inner(), earlier.n_leaves()));
        const auto shift = static_cast<std::uint32_t>(n_codes_ - earlier.n_codes_);
        inner_[kStem] = earlier.inner_[kStem];
        for (NodeId v = 1; v <= earlier.n_inner(); ++v) {
            inner_.add(earlier.inner_[v]);
            if (inner_[v].feature >= earlier.n_codes_) inner_[v].feature += shift;
        }
        for (std::size_t row = 0; row < earlier.boxes_.size(); ++row) {
            auto *corners = boxes_.at<float>(boxes_.add());
            const auto *from = earlier.boxes_.at<float>(row);
            copy_corner(earlier, from, corners);
            copy_corner(earlier, from + earlier.width_, corners + width_);
            copy_set(earlier, earlier.boxes_.at<Word>(row) + 2 * earlier.width_,
                     boxes_.at<Word>(row) + 2 * width_);
        }
        for (std::size_t row = 0; row < earlier.points_.size(); ++row) {
            points_.add();
            copy_corner(earlier, earlier.points_.at<float>(row), points_.at<float>(row));
            copy_set(earlier, earlier.points_.at<Word>(row) + earlier.width_,
                     points_.at<Word>(row) + width_);
            upper_of_.add(earlier.upper_of_[row]);
        }
        for (std::size_t row = 0; row < earlier.uppers_.size(); ++row) {
            uppers_.add();
            copy_corner(earlier, earlier.uppers_.at<float>(row), uppers_.at<float>(row));
        }
    }

    // Forgets all nodes and keeps the memory.
    void clear() {
        for (Rows *rows : all_rows()) rows->clear();
        inner_.add(InnerNode{}); // the stem, for which there was room
    }

    const Layout &layout() const { return layout_; }
    const FeatureWeights &weights() const { return weights_; }
    FeatureWeights &weights() { return weights_; }
    std::size_t n_inner() const { return inner_.size() - 1; }
    std::size_t n_leaves() const { return points_.size(); }
    // Before the first leaf; and of one more leaf and inner node at most.
    std::size_t empty_bytes() const { return sizeof(InnerNode); }
    std::size_t split_bytes() const {
        return sizeof(InnerNode) + sizeof(std::uint32_t) + 4 * corner_bytes() + 2 * set_bytes();
    }
    std::size_t bytes() const {
        return inner_.bytes() + boxes_.bytes() + points_.bytes() + upper_of_.bytes() +
               uppers_.bytes();
    }

    InnerNode &inner(NodeId v) { return inner_[v]; }
    const InnerNode &inner(NodeId v) const { return inner_[v]; }
    NodeId root() const { return inner(kStem).child[0]; }

    // Room for what `count` rows can add at most.
    void make_room(std::size_t count) {
        for (Rows *rows : all_rows()) rows->make_room(count);
    }

    NodeId add_leaf(Point x) {
        const std::uint32_t row = points_.add();
        std::copy_n(numbers(x), width_, points_.at<float>(row));
        std::copy_n(x.categories, n_words_, points_.at<Word>(row) + width_);
        return upper_of_.add(kNone) | kLeafBit;
    }

    NodeId add_leaf(const Range &range) {
        const std::uint32_t row = points_.add();
        std::copy_n(range.lower.data(), width_, points_.at<float>(row));
        std::copy_n(range.seen.data(), n_words_, points_.at<Word>(row) + width_);
        if (equal(range.lower.data(), range.upper.data())) return upper_of_.add(kNone) | kLeafBit;
        const std::uint32_t upper = uppers_.add();
        std::copy_n(range.upper.data(), width_, uppers_.at<float>(upper));
        return upper_of_.add(upper) | kLeafBit;
    }

    // Leaves of the unrestricted partition: one point, or none.
    NodeId add_empty_leaf() {
        points_.add();
        return upper_of_.add(kEmpty) | kLeafBit;
    }
    bool is_empty(NodeId leaf) const { return upper_of_[row_of(leaf)] == kEmpty; }
    const float *point(NodeId leaf) const { return points_.at<float>(row_of(leaf)); }
    // Whether no split can separate x from the leaf's point.
    bool is_at(NodeId leaf, Point x) const {
        if (weights_.are_ones()) [[likely]]
            return equal(numbers(x), point(leaf));
        return extension(leaf, x) == 0;
    }
    void settle(NodeId leaf, Point x) {
        std::copy_n(numbers(x), width_, points_.at<float>(row_of(leaf)));
        upper_of_[row_of(leaf)] = kNone;
    }

    NodeId add_inner(const InnerNode &node) { return inner_.add(node); }

    // Gives an inner node a box of its own.
    void set_range(NodeId v, const Range &range) {
        const std::uint32_t row = inner(v).box = boxes_.add();
        std::copy_n(range.lower.data(), width_, boxes_.at<float>(row));
        std::copy_n(range.upper.data(), width_, boxes_.at<float>(row) + width_);
        std::copy_n(range.seen.data(), n_words_, boxes_.at<Word>(row) + 2 * width_);
    }

    void copy_range(NodeId v, Range &range) const {
        const auto [first, second, seen] = view(v);
        std::copy_n(first.lower, width_, range.lower.data());
        std::copy_n(first.upper, width_, range.upper.data());
        for (std::size_t w = 0; w < n_words_; ++w) range.seen[w] = seen[w];
        if (second.lower == nullptr) return;
        for (const float *corner : {second.lower, second.upper})
            kernels::chosen.widen(corner, range.lower.data(), range.upper.data(), width_);
    }

    // Gives an inner node the range of its children, unless both are leaves. `left` and `right` are
    // set to the children's ranges; then `left` to their union.
    void join_ranges(NodeId v, Range &left, Range &right) {
        if (is_leaf(inner(v).child[0]) && is_leaf(inner(v).child[1])) return;
        for (const float *corner : {right.lower.data(), right.upper.data()})
            kernels::chosen.widen(corner, left.lower.data(), left.upper.data(), width_);
        for (std::size_t w = 0; w < n_words_; ++w) left.seen[w] |= right.seen[w];
        set_range(v, left);
    }

    // How far x lies outside the range of v: the sum of lambda_j Delta_j over features.
    float extension(NodeId v, Point x) const {
        const auto [first, second, seen] = view(v);
        count_load(bytes_of(first) + bytes_of(second) + set_bytes());
        const float of_numbers = extension_of_numbers(numbers(x), first, second);
        if (n_words_ == 0) return of_numbers;
        const auto weight_of = [this](std::size_t f) { return weights_.of_code(f); };
        return of_numbers + layout_.categories.extension(x.values, x.categories, seen, weight_of);
    }

    // Calls use(feature, lambda_j Delta_j) for each feature by which x lies outside the range of v.
    template <class Use> void for_each_extension(NodeId v, Point x, const Use &use) const {
        const auto [first, second, seen] = view(v);
        for (std::size_t f = 0; f < n_codes_; ++f)
            if (const std::size_t n = layout_.categories.changed(f, x.values[f], seen).size; n > 0)
                use(f, static_cast<double>(weights_.of_code(f)) * static_cast<double>(n));
        for (std::size_t j = 0; j < layout_.n_numbers; ++j) {
            const bool is_one = second.lower == nullptr;
            const float lower = is_one ? first.lower[j] : least(first.lower[j], second.lower[j]);
            const float upper = is_one ? first.upper[j] : largest(first.upper[j], second.upper[j]);
            if (const float delta = extension_of(numbers(x)[j], lower, upper); delta > 0)
                use(n_codes_ + j,
                    static_cast<double>(weights_.of_number(j)) * static_cast<double>(delta));
        }
    }

    bool holds(NodeId v, Point x) const {
        const auto [first, second, seen] = view(v);
        return kernels::chosen.holds(numbers(x), first, second.lower == nullptr ? first : second,
                                     width_) &&
               layout_.categories.includes(seen, x.categories);
    }

    // R_v becomes the smallest box that holds R_v and x. Where two leaves make up R_v, theirs do.
    void widen(NodeId v, Point x) {
        if (!is_leaf(v)) {
            if (inner(v).box == kNone) return;
            auto *corners = boxes_.at<float>(inner(v).box);
            kernels::chosen.widen(numbers(x), corners, corners + width_, width_);
            return insert(x, boxes_.at<Word>(inner(v).box) + 2 * width_);
        }
        insert(x, points_.at<Word>(row_of(v)) + width_);
        std::uint32_t &upper = upper_of_[row_of(v)];
        auto *lower = points_.at<float>(row_of(v));
        if (upper == kNone) {
            if (equal(numbers(x), lower)) return;
            upper = uppers_.add();
            std::copy_n(lower, width_, uppers_.at<float>(upper));
        }
        kernels::chosen.widen(numbers(x), lower, uppers_.at<float>(upper), width_);
    }

    void prefetch_header(NodeId v) const {
        if (!is_leaf(v)) prefetch_line(&inner_[v]);
    }

    // Reads the header, which should have been prefetched before.
    void prefetch_range(NodeId v) const {
        if (is_leaf(v)) {
            prefetch_lines(points_.at<char>(row_of(v)), corner_bytes() + set_bytes());
        } else if (const InnerNode &node = inner(v); node.box != kNone) {
            prefetch_lines(boxes_.at<char>(node.box), 2 * corner_bytes() + set_bytes());
        } else {
            for (const NodeId child : node.child)
                prefetch_lines(points_.at<char>(row_of(child)), corner_bytes() + set_bytes());
        }
    }

  private:
    std::array<Rows *, 5> all_rows() { return {&inner_, &boxes_, &points_, &upper_of_, &uppers_}; }

    // Beyond this many bytes the hardware's own prefetching of sequential loads does better.
    static constexpr std::size_t kPrefetchBytes = 512;

    static void prefetch_lines(const char *start, std::size_t bytes) {
        for (std::size_t offset = 0; offset < std::min(bytes, kPrefetchBytes); offset += 64)
            prefetch_line(start + offset);
    }

    float extension_of_numbers(const float *x, Box first, Box second) const {
        const bool is_one = second.lower == nullptr;
        const kernels::Table &kernel = kernels::chosen;
        if (weights_.are_ones()) [[likely]]
            return is_one ? kernel.extension(x, first, width_)
                          : kernel.extension_of_two(x, first, second, width_);
        const float *weights = weights_.numbers();
        const float sum = is_one
                              ? kernel.weighted_extension(x, first, weights, width_)
                              : kernel.weighted_extension_of_two(x, first, second, weights, width_);
        return std::min(sum, std::numeric_limits<float>::max()); // lambda_j Delta_j may overflow
    }

    void copy_corner(const NodeArena &earlier, const float *from, float *to) const {
        const std::size_t old = earlier.layout_.n_numbers, now = layout_.n_numbers;
        std::copy_n(from, old, to);
        std::fill_n(to + old, now - old, std::numeric_limits<float>::quiet_NaN());
        std::fill_n(to + now, width_ - now, 0.0F);
    }

    void copy_set(const NodeArena &earlier, const Word *from, Word *to) const {
        layout_.categories.copy_set(earlier.layout_.categories, from, to);
    }

    const float *numbers(Point x) const { return x.values + n_codes_; }
    std::size_t corner_bytes() const { return width_ * sizeof(float); }
    std::size_t set_bytes() const { return n_words_ * sizeof(Word); }

    // Bit for bit; without numbers there may be no memory to look at.
    bool equal(const float *a, const float *b) const {
        return width_ == 0 || std::memcmp(a, b, corner_bytes()) == 0;
    }

    // The range of a node where it lies: one box, or two whose union is meant.
    struct View {
        Box first, second;
        Sets seen;
    };

    View view(NodeId v) const {
        if (is_leaf(v)) return {leaf_box(v), {nullptr, nullptr}, {leaf_set(v), leaf_set(v)}};
        const InnerNode &node = inner(v);
        const auto [left, right] = node.child;
        if (node.box == kNone)
            return {leaf_box(left), leaf_box(right), {leaf_set(left), leaf_set(right)}};
        const auto *corners = boxes_.at<float>(node.box);
        const Word *seen = boxes_.at<Word>(node.box) + 2 * width_;
        return {{corners, corners + width_}, {nullptr, nullptr}, {seen, seen}};
    }

    std::size_t bytes_of(Box box) const {
        if (box.lower == nullptr) return 0;
        return (box.lower == box.upper ? 1 : 2) * corner_bytes();
    }

    Box leaf_box(NodeId v) const {
        const auto *lower = points_.at<float>(row_of(v));
        const std::uint32_t upper = upper_of_[row_of(v)];
        return {lower, upper == kNone ? lower : uppers_.at<float>(upper)};
    }

    const Word *leaf_set(NodeId v) const { return points_.at<Word>(row_of(v)) + width_; }

    void insert(Point x, Word *seen) const {
        for (std::size_t w = 0; w < n_words_; ++w) seen[w] |= x.categories[w];
    }

    Layout layout_;
    FeatureWeights weights_;
    std::size_t n_codes_; // before the numbers of a row
    std::size_t width_;   // floats in a corner
    std::size_t n_words_; // in a set of categories
    Pool<InnerNode> inner_;
    Rows boxes_;                   // lower and upper corners of inner nodes, and their sets
    Rows points_;                  // a leaf's point, or its lower corner, and its set
    Pool<std::uint32_t> upper_of_; // row of a leaf's upper corner, or kNone
    Rows uppers_;
};

} // namespace amforest
