// A forest from flat arrays, all of which are validated.
//
// Whatever they hold, restoring them gives a valid forest or throws std::invalid_argument, in
// linear time, and in memory of a small multiple of the arrays'.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "amforest/io/flatten.hpp"
#include "amforest/io/one_nan.hpp"

namespace amforest {

// A leaf as the arrays have it.
struct FlatLeaf {
    LeafKind kind;
    std::span<const float> lower, upper;
    const Range &range;
};

// The checks that differ between partitions, and what is derived from the leaves.
template <class Partition> class RangeRestorer;

template <> class RangeRestorer<Restricted> {
  public:
    RangeRestorer(const Layout &layout, const Everywhere &)
        : layout_(layout), left_(layout), right_(layout) {}

    static constexpr LeafKind kOtherKind = LeafKind::kBox; // beside points

    void enter(const NodeArena &, Step) {}
    void enter_sibling(const NodeArena &, Step) {}
    void check_inner(const InnerNode &) const {}

    NodeId add_leaf(Restricted &partition, const FlatLeaf &leaf) const {
        if (has_gaps(leaf.range)) partition.expect_gaps();
        return partition.arena().add_leaf(leaf.range);
    }

    // The range of an inner node is that of its children, which lie on their sides of its split.
    void finish(NodeArena &arena, NodeId v) {
        const auto [left, right] = arena.inner(v).child;
        arena.copy_range(left, left_);
        arena.copy_range(right, right_);
        check_split(arena.inner(v));
        arena.make_room(1);
        arena.join_ranges(v, left_, right_);
    }

  private:
    // Whether there is a feature of which nothing was seen.
    bool has_gaps(const Range &range) const {
        const Sets seen{range.seen.data(), range.seen.data()};
        for (std::size_t f = 0; f < layout_.n_codes(); ++f)
            if (layout_.categories.count(f, seen) == 0) return true;
        return std::ranges::any_of(range.lower, [](float value) { return std::isnan(value); });
    }

    void check_split(const InnerNode &node) const {
        const char *const message = "ranges must lie on their sides of the splits above them";
        if (node.feature >= layout_.n_codes()) {
            const std::size_t j = node.feature - layout_.n_codes();
            require(!(left_.upper[j] > node.threshold) && !(right_.lower[j] <= node.threshold),
                    message);
            return;
        }
        const float code = node.threshold + 0.5F;
        const Sets left{left_.seen.data(), left_.seen.data()};
        const Sets right{right_.seen.data(), right_.seen.data()};
        const std::size_t n_right = layout_.categories.count(node.feature, right);
        require(!layout_.categories.contains(node.feature, code, left), message);
        require(n_right == 0 ||
                    (n_right == 1 && layout_.categories.contains(node.feature, code, right)),
                message);
    }

    const Layout &layout_;
    Range left_, right_;
};

// Follows the cell of the node that is being restored: from one node to the next it is narrowed,
// and widened again.
template <> class RangeRestorer<Unrestricted> {
  public:
    RangeRestorer(const Layout &, const Bounds &bounds)
        : lower_(bounds.lower), upper_(bounds.upper), is_cut_(lower_.size()) {}

    static constexpr LeafKind kOtherKind = LeafKind::kEmpty; // beside points

    // Into the child at a step from an inner node, or from the stem.
    void enter(const NodeArena &arena, Step step) {
        if (step.inner == kStem) return;
        const InnerNode &node = arena.inner(step.inner);
        const std::size_t j = node.feature;
        changes_.push_back(
            {step.inner, j, step.side, (step.side == 0 ? upper_ : lower_)[j], is_cut_[j]});
        (step.side == 0 ? upper_ : lower_)[j] = node.threshold;
        if (step.side == 1) is_cut_[j] = 1;
    }

    // Out of the subtree at side 0 of a node, and into that at side 1.
    void enter_sibling(const NodeArena &arena, Step step) {
        for (bool is_back = changes_.empty(); !is_back; changes_.pop_back()) {
            const Change &change = changes_.back();
            (change.side == 0 ? upper_ : lower_)[change.feature] = change.value;
            if (change.side == 1) is_cut_[change.feature] = change.was_cut;
            is_back = change.inner == step.inner;
        }
        enter(arena, step);
    }

    void check_inner(const InnerNode &node) const {
        require(lower_[node.feature] <= node.threshold && node.threshold < upper_[node.feature],
                "threshold must lie within the cell");
    }

    NodeId add_leaf(Unrestricted &partition, const FlatLeaf &leaf) const {
        const bool is_empty = leaf.kind == LeafKind::kEmpty;
        const auto is_zero = [](float x) { return std::bit_cast<std::uint32_t>(x) == 0; };
        require(is_empty ? std::ranges::all_of(leaf.lower, is_zero) : holds(leaf.lower),
                "points must lie in their cells, and be 0 where there is none");
        return is_empty ? partition.arena().add_empty_leaf()
                        : partition.arena().add_leaf(leaf.range);
    }

    void finish(NodeArena &, NodeId) {} // inner nodes store no ranges

  private:
    // A cell includes its upper ends, and of the lower ones those of the box.
    bool holds(std::span<const float> x) const {
        for (std::size_t j = 0; j < x.size(); ++j)
            if (!((is_cut_[j] != 0 ? x[j] > lower_[j] : x[j] >= lower_[j]) && x[j] <= upper_[j]))
                return false;
        return true;
    }

    struct Change {
        NodeId inner;
        std::size_t feature, side;
        float value;
        std::uint8_t was_cut;
    };
    std::vector<float> lower_, upper_;
    std::vector<std::uint8_t> is_cut_; // whether the lower end is a threshold
    std::vector<Change> changes_;
};

template <class Partition, LabelModel Labels> class Restorer {
    using Forest = amforest::Forest<Partition, Labels>;
    using Tree = typename Forest::Tree;

  public:
    Restorer(const FlatForest<Labels, Borrowed> &flat, const typename Forest::Common &common)
        : flat_(flat), common_(common), layout_(common.layout), labels_(flat.labels) {}

    std::vector<Tree> restore(std::size_t n_rows) {
        const std::size_t n_trees = flat_.n_nodes.size(), n_features = layout_.n_features();
        require((n_trees > 0 || common_.n_in_all) && n_trees <= kMostTrees &&
                    flat_.seeds.size() == 4 * n_trees,
                "seeds must be four words for each of 1 to 65535 trees");
        require(flat_.n_rows.size() == n_trees, "n_rows must be one for each tree");
        require(n_rows <= kMostRows, "n_samples must be below 2**31");
        check_importances(n_trees);
        if (n_trees == 0) return {}; // those of other parts
        // Rows of features are allocated from here on: they must not be longer than the arrays.
        require(n_rows == 0 || (flat_.lower.size() >= layout_.n_numbers &&
                                flat_.seen.size() >= layout_.categories.n_words()),
                "n_numbers and categories must be those of the arrays");
        // Each grown tree has a leaf: many empty ones beside them could take too much memory.
        require(n_rows == 0 ||
                    n_trees * n_features <= 64 * (flat_.lower.size() + flat_.seen.size()),
                "there are too many empty trees of so many features");
        require(flat_.feature_weights.empty() ||
                    flat_.feature_weights.size() == n_trees * n_features,
                "feature_weights must be one for each tree and feature");
        range_ = Range(layout_);
        std::vector<Tree> trees;
        trees.reserve(n_trees);
        for (std::size_t t = 0; t < n_trees; ++t) {
            trees.push_back(empty_tree(t, common_.n_in_all.value_or(n_trees)));
            restore_nodes(trees.back(), flat_.n_nodes[t]);
            check_rows(trees.back(), flat_.n_rows[t], n_rows);
            restore_importance(trees.back().importance(), t);
        }
        require(is_at_end(), "columns must be as long as there are nodes");
        return trees;
    }

  private:
    Tree empty_tree(std::size_t t, std::size_t n_trees) const {
        const auto words = flat_.seeds.subspan(4 * t, 4);
        require(std::ranges::any_of(words, [](std::uint64_t word) { return word != 0; }),
                "seeds must not be 0: the generator would not move");
        return Tree(Partition(layout_, common_.domain, feature_weights(t)), common_.options,
                    Labels(common_.parameters), {words[0], words[1], words[2], words[3]}, n_trees);
    }

    FeatureWeights feature_weights(std::size_t t) const {
        if (flat_.feature_weights.empty()) return {};
        const std::size_t n_features = layout_.n_features();
        const auto weights = flat_.feature_weights.subspan(t * n_features, n_features);
        for (const float weight : weights)
            require(weight >= 0 && weight <= kLargestFeature,
                    "feature_weights must lie in [0, 2**100]");
        return {layout_, weights};
    }

    void check_importances(std::size_t n_trees) const {
        const std::size_t n = flat_.importance_weight.size();
        require((n == 0 || n == n_trees) && flat_.importance.size() == n * layout_.n_features(),
                "importance must be one for each tree and feature");
        require(flat_.importance_turn.empty() || flat_.importance_turn.size() == n_trees,
                "importance_turn must be one for each tree");
    }

    void restore_importance(Importance &importance, std::size_t t) const {
        const std::size_t turn =
            flat_.importance_turn.empty() ? t % Importance::kTurns : flat_.importance_turn[t];
        require(turn < Importance::kTurns, "importance_turn must be below 10");
        importance.set_turn(turn);
        if (flat_.importance.empty()) return;
        const double weight = flat_.importance_weight[t];
        require(is_between(weight, 0.0, 2 * kMostAddedUp) && is_sum_of_weights(weight),
                "importance_weight must not be negative, and not too large");
        importance.restore(row_at(flat_.importance, t, layout_.n_features()), weight);
    }

    static void check_rows(Tree &tree, std::size_t n_rows, std::size_t n_rows_of_forest) {
        require(n_rows <= n_rows_of_forest && tree.is_empty() == (n_rows == 0),
                "n_rows must be 0 where a tree is empty, and at most n_samples");
        require(!Partition::kSplitsOnce || tree.arena().n_leaves() <= n_rows,
                "n_nodes must be in proportion to the rows that were learned");
        tree.set_n_rows(n_rows);
    }

    // Fills an empty tree with the next nodes.
    void restore_nodes(Tree &tree, std::size_t n_nodes) {
        RangeRestorer<Partition> ranges(layout_, common_.domain);
        std::vector<Step> open; // places that wait for their subtrees
        if (n_nodes > 0) open.push_back({kStem, 0});
        NodeArena &arena = tree.arena();
        for (std::size_t i = 0; i < n_nodes; ++i, ++node_) {
            require(!open.empty(), "there are nodes left over when a tree is complete");
            const Step above = open.back();
            open.pop_back();
            tree.make_room(1);
            if (above.side == 0)
                ranges.enter(arena, above);
            else
                ranges.enter_sibling(arena, above);
            const std::int32_t feature = value_at(flat_.feature, node_);
            NodeId v;
            if (feature < 0) {
                require(feature == -1, "feature must be -1 in leaves");
                v = add_leaf(tree, ranges);
            } else {
                v = add_inner(tree, static_cast<std::uint32_t>(feature),
                              arena.inner(above.inner).split_time);
                ranges.check_inner(arena.inner(v));
                open.push_back({v, 1});
                open.push_back({v, 0});
            }
            arena.inner(above.inner).child[above.side] = v;
        }
        require(open.empty(), "nodes are missing: a tree is not complete");
        // In preorder, children have larger ids than their parents.
        for (auto v = static_cast<NodeId>(arena.n_inner()); v > 0; --v) {
            const auto [left, right] = arena.inner(v).child;
            tree.labels().check_sums(v, left, right);
            require(tree.labels().n_samples(v) > 0, "n_samples must be positive");
            ranges.finish(arena, v);
        }
        tree.refresh_shares();
    }

    NodeId add_inner(Tree &tree, std::uint32_t feature, double birth_time) {
        require(feature < layout_.n_features(), "feature must be below the number of features");
        InnerNode node{.feature = feature, .threshold = value_at(flat_.threshold, inner_)};
        if (feature < layout_.n_codes()) {
            const float code = node.threshold;
            require(code >= 0 && code == std::floor(code) &&
                        code < static_cast<float>(layout_.categories.room()[feature]),
                    "threshold must be a known category");
            node.threshold = code - 0.5F;
            node.ceiling = code + 0.5F;
        }
        require(std::abs(node.threshold) <= kLargestFeature, "threshold must be finite");
        node.split_time = value_at(flat_.split_time, inner_);
        require(node.split_time >= birth_time && std::isfinite(node.split_time) &&
                    node.split_time < tree.options().lifetime,
                "split_time must not decrease, and lie within the lifetime");
        const Scaled odds = {value_at(flat_.odds, inner_), value_at(flat_.odds_scale, inner_)};
        require(Scaled::is_plain(odds.value), "odds must lie in [2**-128, 2**128)");
        require(std::abs(odds.scale) <= 1e300 && std::nearbyint(odds.scale) == odds.scale,
                "odds_scale must be whole numbers");
        node.weight.odds = odds;
        ++inner_;
        const NodeId v = tree.arena().add_inner(node);
        tree.labels().add_inner();
        labels_.read(v, tree.labels());
        return v;
    }

    NodeId add_leaf(Tree &tree, const RangeRestorer<Partition> &ranges) {
        const std::size_t n = layout_.n_numbers, words = layout_.categories.n_words();
        const auto kind = static_cast<LeafKind>(value_at(flat_.kind, leaf_));
        const auto lower = row_at(flat_.lower, leaf_, n);
        const auto upper = kind == LeafKind::kBox ? row_at(flat_.upper, box_++, n) : lower;
        std::ranges::transform(lower, range_.lower.begin(), with_one_nan);
        std::ranges::transform(upper, range_.upper.begin(), with_one_nan);
        std::ranges::copy(row_at(flat_.seen, leaf_, words), range_.seen.begin());
        const FlatLeaf leaf{kind, lower, upper, range_};
        check_leaf(leaf);
        ++leaf_;
        const NodeId v = ranges.add_leaf(tree.partition(), leaf);
        tree.labels().add_leaf();
        labels_.read(v, tree.labels());
        require((tree.labels().n_samples(v) > 0) == (kind != LeafKind::kEmpty),
                "n_samples must be positive unless the leaf is empty");
        return v;
    }

    void check_leaf(const FlatLeaf &leaf) const {
        require(leaf.kind == LeafKind::kPoint || leaf.kind == RangeRestorer<Partition>::kOtherKind,
                "kind must be one of those of the partition");
        bool differ = false;
        for (std::size_t j = 0; j < leaf.lower.size(); ++j) {
            const float a = leaf.lower[j], b = leaf.upper[j];
            require((std::isnan(a) && std::isnan(b)) || (is_value(a) && is_value(b) && a <= b),
                    "lower and upper must be in order, lie within ±2**100, or both be missing");
            differ |= a < b;
        }
        require(leaf.kind != LeafKind::kBox || differ, "the ends of a box must differ");
        require(layout_.categories.is_set(leaf.range.seen.data()),
                "seen must hold known categories");
    }

    // -0 would be another value to those who compare bits.
    static bool is_value(float x) {
        return std::abs(x) <= kLargestFeature &&
               std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(-0.0F);
    }

    bool is_at_end() const {
        return flat_.feature.size() == node_ && flat_.threshold.size() == inner_ &&
               flat_.split_time.size() == inner_ && flat_.odds.size() == inner_ &&
               flat_.odds_scale.size() == inner_ && flat_.kind.size() == leaf_ &&
               flat_.lower.size() == leaf_ * layout_.n_numbers &&
               flat_.upper.size() == box_ * layout_.n_numbers &&
               flat_.seen.size() == leaf_ * layout_.categories.n_words() && labels_.is_at_end();
    }

    const FlatForest<Labels, Borrowed> &flat_;
    const typename Forest::Common &common_;
    const Layout &layout_;
    Range range_{Layout{Categories(), 0}}; // of the next leaf
    typename Labels::Reader labels_;
    std::size_t node_ = 0, inner_ = 0, leaf_ = 0, box_ = 0; // the next ones
};

} // namespace amforest
