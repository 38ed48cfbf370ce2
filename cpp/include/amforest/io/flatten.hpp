// A forest as flat arrays, to be saved and restored to the last bit.
//
// What can be derived is not stored, so that it cannot be wrong: the ranges of inner nodes follow
// from their leaves', and the links from the order of the nodes. `restore.hpp` reads the arrays.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amforest/forest.hpp"
#include "amforest/io/one_nan.hpp"
#include "amforest/io/tree_table.hpp"

namespace amforest {

enum class LeafKind : std::uint8_t { kPoint, kBox, kEmpty };

// The nodes of all trees, tree after tree, each in preorder.
template <class Labels, template <class> class Column> struct FlatForest {
    Column<std::uint64_t> seeds, n_nodes, n_rows; // trees x 4, trees, trees
    Column<float> feature_weights;                // trees x features, or nothing where all are 1
    Column<double> importance, importance_weight; // trees x features, trees; or nothing: all are 0
    Column<std::uint8_t> importance_turn;         // trees; or nothing: by their order
    Column<std::int32_t> feature;                 // of all nodes; -1 in leaves
    Column<float> threshold;         // of inner nodes; of categorical features, the code
    Column<double> split_time;       // of inner nodes
    Column<double> odds, odds_scale; // of inner nodes
    Column<std::uint8_t> kind;       // of leaves: LeafKind
    Column<float> lower, upper;      // leaves x numbers, and those that are boxes
    Column<Word> seen;               // leaves x words
    typename Labels::template FileColumns<Column> labels;

    // Calls use(name, column, width of a row or kVector, how many rows there are if it is 0).
    template <class Use>
    void for_each(const Layout &layout, const typename Labels::Parameters &parameters,
                  const Use &use) {
        use("seeds", seeds, 4, 0);
        use("n_nodes", n_nodes, kVector, 0);
        use("n_rows", n_rows, kVector, 0);
        use("feature_weights", feature_weights, layout.n_features(), 0);
        use("importance", importance, layout.n_features(), 0);
        use("importance_weight", importance_weight, kVector, 0);
        use("importance_turn", importance_turn, kVector, 0);
        use("feature", feature, kVector, 0);
        use("threshold", threshold, kVector, 0);
        use("split_time", split_time, kVector, 0);
        use("odds", odds, kVector, 0);
        use("odds_scale", odds_scale, kVector, 0);
        const std::size_t before = kind.size(); // `use` may read it or move it away
        use("kind", kind, kVector, 0);
        const std::size_t n_leaves = std::max(before, kind.size());
        use("lower", lower, layout.n_numbers, n_leaves);
        use("upper", upper, layout.n_numbers, 0);
        use("seen", seen, layout.categories.n_words(), n_leaves);
        labels.for_each(parameters, use);
    }
};

template <class Labels>
void append(FlatForest<Labels, Owned> &flat, const InnerNode &node, const Layout &layout) {
    flat.feature.push_back(static_cast<std::int32_t>(node.feature));
    flat.threshold.push_back(node.feature < layout.n_codes() ? node.threshold + 0.5F
                                                             : node.threshold);
    flat.split_time.push_back(node.split_time);
    flat.odds.push_back(node.weight.odds.value);
    flat.odds_scale.push_back(node.weight.odds.scale);
}

template <class Labels>
void append_leaf(FlatForest<Labels, Owned> &flat, Range &range, bool is_empty, std::size_t n) {
    const std::span<float> lower = std::span(range.lower).first(n);
    const std::span<const float> upper = std::span(range.upper).first(n);
    const bool is_point = std::ranges::equal(
        lower, upper, [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
    if (is_empty) std::ranges::fill(lower, 0.0F);
    const LeafKind kind = is_empty   ? LeafKind::kEmpty
                          : is_point ? LeafKind::kPoint
                                     : LeafKind::kBox;
    flat.feature.push_back(-1);
    flat.kind.push_back(static_cast<std::uint8_t>(kind));
    append_with_one_nan(flat.lower, lower);
    if (kind == LeafKind::kBox) append_with_one_nan(flat.upper, upper);
    flat.seen.insert(flat.seen.end(), range.seen.begin(), range.seen.end());
}

template <class Partition, class Labels>
void append(FlatForest<Labels, Owned> &flat, const Tree<Partition, Labels> &tree) {
    const NodeArena &arena = tree.arena();
    const Layout &layout = arena.layout();
    const auto weights = arena.weights().values();
    Range range(layout);
    flat.seeds.insert(flat.seeds.end(), tree.rng_state().begin(), tree.rng_state().end());
    flat.n_nodes.push_back(tree.is_empty() ? 0 : tree.n_nodes());
    flat.n_rows.push_back(tree.n_rows());
    flat.feature_weights.insert(flat.feature_weights.end(), weights.begin(), weights.end());
    const Importance &importance = tree.importance();
    flat.importance.insert(flat.importance.end(), importance.saved().begin(),
                           importance.saved().end());
    flat.importance_weight.push_back(importance.weight());
    flat.importance_turn.push_back(importance.turn());
    for_each_in_preorder(arena, [&](NodeId v, std::int64_t, Step) {
        if (is_leaf(v)) {
            tree.partition().copy_range(v, range);
            append_leaf(flat, range, arena.is_empty(v), layout.n_numbers);
        } else {
            append(flat, arena.inner(v), layout);
        }
        tree.labels().append(v, flat.labels);
    });
}

template <class Partition, class Labels>
FlatForest<Labels, Owned> flatten(std::span<const Tree<Partition, Labels>> trees) {
    FlatForest<Labels, Owned> flat;
    for (const Tree<Partition, Labels> &tree : trees) append(flat, tree);
    return flat;
}

} // namespace amforest
