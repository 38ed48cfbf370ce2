// A tree as plain columns, one row per node in preorder: to look at, to save and to restore.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

#include "amforest/aggregation.hpp"
#include "amforest/tree.hpp"

namespace amforest {

inline void require(bool holds, const char *message) {
    if (!holds) throw std::invalid_argument(message);
}

inline void require_samples(double n, double most) {
    require(n >= 0 && n <= most, "n_samples must not be negative, and not too large");
}

// The columns that a label model adds to the table.
template <class Labels> struct LabelColumns;

template <class Count> struct LabelColumns<ClassCounts<Count>> {
    using Number = std::conditional_t<std::is_integral_v<Count>, std::int64_t, double>;

    std::vector<Number> n_samples, counts; // counts: rows x classes
    std::size_t n_classes = 0;

    void append(const ClassCounts<Count> &labels, NodeId v) {
        n_classes = labels.n_classes();
        n_samples.push_back(labels.n_samples(v));
        for (std::uint32_t y = 0; y < labels.n_classes(); ++y) counts.push_back(labels.count(v, y));
    }

    bool has_rows(const ClassCounts<Count> &labels, std::size_t n_rows) const {
        return n_samples.size() == n_rows && counts.size() == n_rows * labels.n_classes();
    }

    void restore(ClassCounts<Count> &labels, NodeId v, std::size_t row) const {
        const Number n = n_samples[row];
        require_samples(static_cast<double>(n), labels.kMost);
        Number sum = 0;
        for (std::uint32_t y = 0; y < labels.n_classes(); ++y) {
            const Number count = counts[row * labels.n_classes() + y];
            require(count >= 0 && count <= n, "counts must lie between 0 and n_samples");
            if (count > 0) labels.add(v, y, static_cast<Count>(count));
            sum += count;
        }
        // Real numbers were added in another order.
        const double rounding = std::is_integral_v<Count> ? 0 : 1e-6 * static_cast<double>(n);
        require(std::abs(static_cast<double>(sum - n)) <= rounding,
                "counts must add up to n_samples");
        labels.set_n_samples(v, static_cast<Count>(n));
    }
};

template <> struct LabelColumns<RunningMean> {
    std::vector<double> n_samples, mean;
    std::vector<bool> constant; // all labels are equal

    void append(const RunningMean &labels, NodeId v) {
        n_samples.push_back(labels.n_samples(v));
        mean.push_back(labels.mean(v));
        constant.push_back(labels.is_pure(v));
    }

    bool has_rows(const RunningMean &, std::size_t n_rows) const {
        return n_samples.size() == n_rows && mean.size() == n_rows && constant.size() == n_rows;
    }

    void restore(RunningMean &labels, NodeId v, std::size_t row) const {
        require_samples(n_samples[row], labels.kMost);
        require(labels.accepts(mean[row]), "mean must be finite and lie within ±1e75");
        labels.set(v, mean[row], n_samples[row], constant[row]);
    }
};

template <LabelModel Labels> struct TreeTable {
    // -1 where there is no such node; feature, threshold and category are -1 in leaves, the
    // threshold is -1 where a category is split off and the category elsewhere.
    std::vector<std::int64_t> parent, left, right, depth, feature, category;
    std::vector<float> threshold;
    std::vector<double> birth_time;
    LabelColumns<Labels> labels;
    std::vector<float> lower, upper;             // rows x numbers
    std::vector<Word> seen;                      // rows x words
    std::vector<double> share, odds, odds_scale; // 1, 1 and 0 in leaves

    std::size_t n_rows() const { return feature.size(); }
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

// An inner node with such a split.
inline InnerNode node_with(const Split &split, const Layout &layout) {
    require(split.feature < static_cast<std::int64_t>(layout.n_features()),
            "feature must be below the number of features");
    const auto feature = static_cast<std::uint32_t>(split.feature);
    if (feature >= layout.n_codes()) return {.feature = feature, .threshold = split.threshold};
    const std::int64_t room = layout.categories.room()[feature];
    require(split.category >= 0 && split.category < room, "category must be one that is known");
    const auto code = static_cast<float>(split.category);
    return {.feature = feature, .threshold = code - 0.5F, .ceiling = code + 0.5F};
}

template <LabelModel Labels> TreeTable<Labels> to_table(const Tree<Labels> &tree) {
    TreeTable<Labels> table;
    const NodeArena &arena = tree.arena();
    const Layout &layout = arena.layout();
    Range range(layout);
    const auto end = static_cast<std::ptrdiff_t>(layout.n_numbers);
    for_each_in_preorder(arena, [&](NodeId v, std::int64_t parent, Step from) {
        const auto row = static_cast<std::int64_t>(table.n_rows());
        const InnerNode &above = arena.inner(from.inner);
        const Scaled odds = is_leaf(v) ? Scaled{} : arena.inner(v).odds;
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
        arena.copy_range(v, range);
        table.lower.insert(table.lower.end(), range.lower.begin(), range.lower.begin() + end);
        table.upper.insert(table.upper.end(), range.upper.begin(), range.upper.begin() + end);
        table.seen.insert(table.seen.end(), range.seen.begin(), range.seen.end());
        table.share.push_back(is_leaf(v) ? 1.0 : arena.inner(v).share);
        table.odds.push_back(odds.value);
        table.odds_scale.push_back(odds.scale);
    });
    return table;
}

// Whether there is a feature of which nothing was seen.
inline bool has_gaps(const Range &range, const Layout &layout) {
    const Sets seen{range.seen.data(), range.seen.data()};
    for (std::size_t f = 0; f < layout.categories.n_features(); ++f)
        if (layout.categories.count(f, seen) == 0) return true;
    return std::ranges::any_of(range.lower, [](float value) { return std::isnan(value); });
}

// Whether a leaf with such a range has no point.
inline bool is_void(const Range &range, const Layout &layout) {
    return layout.has_box() && std::isnan(range.lower.front());
}

// Fills an empty tree. Parent, left, right and depth are not needed: in preorder, the places of
// the leaves say it all.
template <LabelModel Labels> void from_table(const TreeTable<Labels> &table, Tree<Labels> &tree) {
    NodeArena &arena = tree.arena();
    const Layout &layout = arena.layout();
    const std::size_t n_rows = table.n_rows(), n_numbers = layout.n_numbers,
                      n_words = layout.categories.n_words();
    for (const std::size_t size :
         {table.threshold.size(), table.category.size(), table.birth_time.size(), table.odds.size(),
          table.odds_scale.size()})
        require(size == n_rows, "columns must have equal lengths");
    require(table.lower.size() == n_rows * n_numbers && table.upper.size() == n_rows * n_numbers,
            "lower and upper must have one entry per node and number");
    require(table.seen.size() == n_rows * n_words, "seen must have one entry per node and word");
    require(table.labels.has_rows(tree.labels(), n_rows), "labels must have one row per node");

    tree.make_room(n_rows);
    Range range(layout);
    std::vector<Step> open; // places that wait for their subtree
    if (n_rows > 0) open.push_back({kStem, 0});
    for (std::size_t row = 0; row < n_rows; ++row) {
        require(!open.empty(), "there are rows left over when the tree is complete");
        const Step above = open.back();
        open.pop_back();
        std::copy_n(table.lower.data() + row * n_numbers, n_numbers, range.lower.begin());
        std::copy_n(table.upper.data() + row * n_numbers, n_numbers, range.upper.begin());
        std::copy_n(table.seen.data() + row * n_words, n_words, range.seen.begin());
        require(layout.categories.is_set(range.seen.data()), "seen must hold known categories");
        if (!layout.has_box() && has_gaps(range, layout)) tree.expect_gaps();
        NodeId v;
        if (table.feature[row] < 0) {
            v = is_void(range, layout) ? arena.add_empty_leaf() : arena.add_leaf(range);
            tree.labels().add_leaf();
        } else {
            require(row + 2 < n_rows, "rows are missing: the tree is not complete");
            require(Scaled::is_plain(table.odds[row]) && std::isfinite(table.odds_scale[row]) &&
                        std::nearbyint(table.odds_scale[row]) == table.odds_scale[row],
                    "odds must lie in [2**-128, 2**128), and odds_scale must be whole numbers");
            InnerNode node =
                node_with({table.feature[row], table.threshold[row], table.category[row]}, layout);
            node.odds = {table.odds[row], table.odds_scale[row]};
            v = arena.add_inner(node);
            const bool above_two_leaves = table.feature[row + 1] < 0 && table.feature[row + 2] < 0;
            if (!above_two_leaves && !layout.has_box()) arena.set_range(v, range);
            tree.labels().add_inner(kStem); // which is empty
            open.push_back({v, 1});
            open.push_back({v, 0});
        }
        table.labels.restore(tree.labels(), v, row);
        require(tree.labels().n_samples(v) > 0 || (is_leaf(v) && is_void(range, layout)),
                "n_samples must be positive");
        InnerNode &parent = arena.inner(above.inner);
        parent.child[above.side] = v;
        parent.split_time = table.birth_time[row];
    }
    require(open.empty(), "rows are missing: the tree is not complete");
    tree.refresh_shares();
}

} // namespace amforest
