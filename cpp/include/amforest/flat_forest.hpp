// A forest as flat arrays, to be saved and restored to the last bit.
//
// What can be derived is not there, so that it cannot be wrong: the ranges of inner nodes follow
// from their leaves', and the links from the order of the nodes. `restoring.hpp` reads them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "amforest/forest.hpp"

namespace amforest {

template <class T> using Owned = std::vector<T>;
template <class T> using Borrowed = std::span<const T>;

inline constexpr std::size_t kVector = std::numeric_limits<std::size_t>::max();
inline constexpr std::uint16_t kMixed = 65535; // in the place of a leaf's only class

// The labels of inner nodes and leaves, each in the order of the nodes.
template <class Labels, template <class> class Column> struct FlatLabels;

template <class Count, template <class> class Column>
struct FlatLabels<ClassCounts<Count>, Column> {
    Column<Count> n_samples;     // of all nodes
    Column<Count> counts;        // inner nodes x classes
    Column<std::uint16_t> label; // of leaves: their only class, or kMixed
    Column<Count> mixed;         // those leaves x classes

    template <class Use> void for_each_column(std::size_t n_classes, const Use &use) {
        use("n_samples", n_samples, kVector, 0);
        use("counts", counts, n_classes, 0);
        use("label", label, kVector, 0);
        use("mixed", mixed, n_classes, 0);
    }
};

template <template <class> class Column> struct FlatLabels<RunningMean, Column> {
    Column<double> n_samples, mean; // of all nodes
    Column<std::uint8_t> constant;  // whether all labels are equal

    template <class Use> void for_each_column(std::size_t, const Use &use) {
        use("n_samples", n_samples, kVector, 0);
        use("mean", mean, kVector, 0);
        use("constant", constant, kVector, 0);
    }
};

enum class LeafKind : std::uint8_t { kPoint, kBox, kEmpty };

// The nodes of all trees, tree after tree, each in preorder.
template <class Labels, template <class> class Column> struct FlatForest {
    Column<std::uint64_t> seeds, n_nodes; // trees x 4, trees
    Column<std::int32_t> feature;         // of all nodes; -1 in leaves
    Column<float> threshold;              // of inner nodes; of categorical features, the code
    Column<double> split_time;            // of inner nodes
    Column<double> odds, odds_scale;      // of inner nodes
    Column<std::uint8_t> kind;            // of leaves: LeafKind
    Column<float> lower, upper;           // leaves x numbers, and those that are boxes
    Column<Word> seen;                    // leaves x words
    FlatLabels<Labels, Column> labels;

    // Calls use(name, column, width of a row or kVector, how many rows there are if it is 0).
    template <class Use>
    void for_each_column(const Layout &layout, std::size_t n_classes, const Use &use) {
        use("seeds", seeds, 4, 0);
        use("n_nodes", n_nodes, kVector, 0);
        use("feature", feature, kVector, 0);
        use("threshold", threshold, kVector, 0);
        use("split_time", split_time, kVector, 0);
        use("odds", odds, kVector, 0);
        use("odds_scale", odds_scale, kVector, 0);
        const std::size_t before = kind.size(); // `use` may give it or take it
        use("kind", kind, kVector, 0);
        const std::size_t n_leaves = std::max(before, kind.size());
        use("lower", lower, layout.n_numbers, n_leaves);
        use("upper", upper, layout.n_numbers, 0);
        use("seen", seen, layout.categories.n_words(), n_leaves);
        labels.for_each_column(n_classes, use);
    }
};

// Saving

template <class Count>
void append_inner(FlatLabels<ClassCounts<Count>, Owned> &flat, const ClassCounts<Count> &labels,
                  NodeId v) {
    flat.n_samples.push_back(labels.n_samples(v));
    labels.append_counts(v, flat.counts);
}

template <class Count>
void append_leaf(FlatLabels<ClassCounts<Count>, Owned> &flat, const ClassCounts<Count> &labels,
                 NodeId v) {
    flat.n_samples.push_back(labels.n_samples(v));
    const bool is_mixed = labels.is_mixed(v);
    flat.label.push_back(is_mixed ? kMixed : static_cast<std::uint16_t>(labels.only_class(v)));
    if (is_mixed) labels.append_counts(v, flat.mixed);
}

inline void append_inner(FlatLabels<RunningMean, Owned> &flat, const RunningMean &labels,
                         NodeId v) {
    flat.n_samples.push_back(labels.n_samples(v));
    flat.mean.push_back(labels.mean(v));
    flat.constant.push_back(labels.is_pure(v) ? 1 : 0);
}

inline void append_leaf(FlatLabels<RunningMean, Owned> &flat, const RunningMean &labels, NodeId v) {
    append_inner(flat, labels, v);
}

template <class Labels> void append(FlatForest<Labels, Owned> &flat, const Tree<Labels> &tree) {
    const NodeArena &arena = tree.arena();
    const Layout &layout = arena.layout();
    const auto numbers = static_cast<std::ptrdiff_t>(layout.n_numbers);
    Range range(layout);
    const auto append_corner = [&](std::vector<float> &to, const std::vector<float> &corner) {
        to.insert(to.end(), corner.begin(), corner.begin() + numbers);
    };
    flat.seeds.insert(flat.seeds.end(), tree.rng_state().begin(), tree.rng_state().end());
    flat.n_nodes.push_back(tree.empty() ? 0 : 2 * arena.n_inner() + 1);
    for_each_in_preorder(arena, [&](NodeId v, std::int64_t, Step) {
        if (!is_leaf(v)) {
            const InnerNode &node = arena.inner(v);
            flat.feature.push_back(static_cast<std::int32_t>(node.feature));
            flat.threshold.push_back(node.feature < layout.n_codes() ? node.threshold + 0.5F
                                                                     : node.threshold);
            flat.split_time.push_back(node.split_time);
            flat.odds.push_back(node.odds.value);
            flat.odds_scale.push_back(node.odds.scale);
            append_inner(flat.labels, tree.labels(), v);
            return;
        }
        arena.copy_range(v, range);
        const bool is_point =
            std::equal(range.lower.begin(), range.lower.begin() + numbers, range.upper.begin(),
                       [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
        const bool is_empty = layout.has_box() && arena.is_empty(v);
        if (is_empty) std::ranges::fill(range.lower, 0.0F);
        const LeafKind kind = is_empty   ? LeafKind::kEmpty
                              : is_point ? LeafKind::kPoint
                                         : LeafKind::kBox;
        flat.feature.push_back(-1);
        flat.kind.push_back(static_cast<std::uint8_t>(kind));
        append_corner(flat.lower, range.lower);
        if (kind == LeafKind::kBox) append_corner(flat.upper, range.upper);
        flat.seen.insert(flat.seen.end(), range.seen.begin(), range.seen.end());
        append_leaf(flat.labels, tree.labels(), v);
    });
}

// A forest as it is at one moment, and how many rows it has learnt until then.
template <class Labels>
FlatForest<Labels, Owned> flattened(const Forest<Labels> &forest, std::size_t &n_samples) {
    FlatForest<Labels, Owned> flat;
    forest.look([&](std::span<const Tree<Labels>> trees, std::size_t n) {
        for (const Tree<Labels> &tree : trees) append(flat, tree);
        n_samples = n;
    });
    return flat;
}

} // namespace amforest
