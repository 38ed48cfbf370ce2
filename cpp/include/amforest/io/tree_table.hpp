// A tree as plain columns, one row per node in preorder, for inspection.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "amforest/tree.hpp"

namespace amforest {

template <LabelModel Labels> struct TreeTable {
    // -1 where there is no such node; feature, threshold and category are -1 in leaves, the
    // threshold is -1 where a category is split off, and the category elsewhere.
    std::vector<std::int64_t> parent, left, right, depth, feature, category;
    std::vector<float> threshold;
    std::vector<double> birth_time;
    typename Labels::TableColumns labels;
    std::vector<float> lower, upper;             // rows x numbers
    std::vector<Word> seen;                      // rows x words
    std::vector<double> share, odds, odds_scale; // 1, 1 and 0 in leaves

    std::size_t n_rows() const { return feature.size(); }

    // Calls use(name, column, width of a row or kVector).
    template <class Use> void for_each(const Layout &layout, const Use &use) {
        labels.for_each(use);
        use("parent", parent, kVector);
        use("left", left, kVector);
        use("right", right, kVector);
        use("depth", depth, kVector);
        use("feature", feature, kVector);
        use("threshold", threshold, kVector);
        use("birth_time", birth_time, kVector);
        use("category", category, kVector);
        use("lower", lower, layout.n_numbers);
        use("upper", upper, layout.n_numbers);
        use("seen", seen, layout.categories.n_words());
        use("share", share, kVector);
        use("odds", odds, kVector);
        use("odds_scale", odds_scale, kVector);
    }
};

// Calls visit(v, parent's row or -1, step from the parent) for all nodes in preorder.
template <class Visit> void for_each_in_preorder(const NodeArena &arena, const Visit &visit) {
    struct Pending {
        NodeId v;
        std::int64_t parent;
        Step from;
    };
    std::vector<Pending> stack;
    if (arena.root() != kNone) stack.push_back({arena.root(), -1, {kStem, 0}});
    for (std::int64_t row = 0; !stack.empty(); ++row) {
        const Pending next = stack.back();
        stack.pop_back();
        visit(next.v, next.parent, next.from);
        if (is_leaf(next.v)) continue;
        for (const std::size_t side : {std::size_t{1}, std::size_t{0}})
            stack.push_back({arena.inner(next.v).child[side], row, {next.v, side}});
    }
}

// The largest depth of a leaf, -1 if there is none.
inline std::int64_t depth_of(const NodeArena &arena) {
    std::vector<std::int64_t> depths; // by row
    std::int64_t largest = -1;
    for_each_in_preorder(arena, [&](NodeId, std::int64_t parent, Step) {
        depths.push_back(parent < 0 ? 0 : depths[static_cast<std::size_t>(parent)] + 1);
        largest = std::max(largest, depths.back());
    });
    return largest;
}

// For each leaf, by row_of(leaf), its row in the table.
inline std::vector<std::int64_t> table_rows_of_leaves(const NodeArena &arena) {
    std::vector<std::int64_t> rows(arena.n_leaves());
    std::int64_t row = 0;
    for_each_in_preorder(arena, [&](NodeId v, std::int64_t, Step) {
        if (is_leaf(v)) rows[row_of(v)] = row;
        ++row;
    });
    return rows;
}

// How the table names the split of a node.
struct Split {
    std::int64_t feature = -1;
    float threshold = -1;
    std::int64_t category = -1;
};

inline Split split_of(const InnerNode &node, const Layout &layout) {
    if (node.feature >= layout.n_codes()) return {node.feature, node.threshold};
    return {node.feature, -1, static_cast<std::int64_t>(node.threshold + 0.5F)};
}

template <class Partition, LabelModel Labels>
TreeTable<Labels> to_table(const Tree<Partition, Labels> &tree) {
    TreeTable<Labels> table;
    const NodeArena &arena = tree.arena();
    const Layout &layout = arena.layout();
    Range range(layout);
    const auto end = static_cast<std::ptrdiff_t>(layout.n_numbers);
    for_each_in_preorder(arena, [&](NodeId v, std::int64_t parent, Step from) {
        const auto row = static_cast<std::int64_t>(table.n_rows());
        const InnerNode &above = arena.inner(from.inner);
        const NodeWeight weight = is_leaf(v) ? NodeWeight{.share = 1} : arena.inner(v).weight;
        table.parent.push_back(parent);
        table.left.push_back(-1);
        table.right.push_back(-1);
        table.depth.push_back(0);
        if (parent >= 0) {
            const auto up = static_cast<std::size_t>(parent);
            (from.side == 0 ? table.left : table.right)[up] = row;
            table.depth.back() = table.depth[up] + 1;
        }
        const Split split = is_leaf(v) ? Split{} : split_of(arena.inner(v), layout);
        table.feature.push_back(split.feature);
        table.threshold.push_back(split.threshold);
        table.category.push_back(split.category);
        table.birth_time.push_back(above.split_time);
        table.labels.append(tree.labels(), v);
        tree.partition().copy_range(v, range);
        table.lower.insert(table.lower.end(), range.lower.begin(), range.lower.begin() + end);
        table.upper.insert(table.upper.end(), range.upper.begin(), range.upper.begin() + end);
        table.seen.insert(table.seen.end(), range.seen.begin(), range.seen.end());
        table.share.push_back(weight.share);
        table.odds.push_back(weight.odds.value);
        table.odds_scale.push_back(weight.odds.scale);
    });
    return table;
}

} // namespace amforest
