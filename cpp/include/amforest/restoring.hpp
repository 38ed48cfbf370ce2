// A forest from flat arrays, all of which are checked.
//
// Whatever they hold, restoring them gives a valid forest or throws std::invalid_argument, in
// linear time, and in memory of a small multiple of the arrays'.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "amforest/flat_forest.hpp"

namespace amforest {

inline void require(bool holds, const char *message) {
    if (!holds) throw std::invalid_argument(message);
}

inline constexpr std::size_t kMostTrees = 65535;

// Sums of whole numbers must be exact; real ones were added in another order.
template <class Count> void require_sum(double sum, Count n) {
    const double rounding = std::is_integral_v<Count> ? 0 : 1e-6 * static_cast<double>(n);
    require(std::abs(sum - static_cast<double>(n)) <= rounding, "n_samples must add up");
}

// Where the next entries of each kind are.
struct Cursor {
    std::size_t node = 0, inner = 0, leaf = 0, box = 0, mixed = 0;
};

template <class T>
std::span<const T> row_at(std::span<const T> column, std::size_t row, std::size_t width) {
    require((row + 1) * width <= column.size(), "columns must be as long as there are nodes");
    return column.subspan(row * width, width);
}

template <class T> T at(std::span<const T> column, std::size_t row) {
    require(row < column.size(), "columns must be as long as there are nodes");
    return column[row];
}

// Not so for NaN.
template <class Count> bool is_between(Count value, Count least, Count most) {
    return !(value < least) && !(value > most) && value == value;
}

// What labels can have added up to.
template <class Count> bool is_weight(Count sum) {
    return sum == 0 || static_cast<double>(sum) >= kLeastWeight;
}

template <class Count>
void restore_counts(ClassCounts<Count> &labels, NodeId v, std::span<const Count> counts, Count n) {
    double sum = 0;
    std::size_t n_seen = 0;
    for (std::uint32_t y = 0; y < counts.size(); ++y) {
        require(is_between(counts[y], Count{0}, n) && is_weight(counts[y]),
                "counts must lie between 0 and n_samples");
        if (counts[y] > 0) labels.add(v, y, counts[y]);
        sum += static_cast<double>(counts[y]);
        n_seen += counts[y] > 0 ? 1 : 0;
    }
    require(!is_leaf(v) || n_seen > 1, "mixed leaves must have several classes");
    require_sum(sum, n);
}

template <class Count>
void restore_labels(const FlatLabels<ClassCounts<Count>, Borrowed> &flat, Cursor &cursor,
                    ClassCounts<Count> &labels, NodeId v) {
    const Count n = at(flat.n_samples, cursor.node);
    require(is_between(n, Count{0}, static_cast<Count>(labels.kMost)) && is_weight(n),
            "n_samples must not be negative, and not too large");
    if (!is_leaf(v)) {
        restore_counts(labels, v, row_at(flat.counts, cursor.inner, labels.n_classes()), n);
    } else if (const std::uint16_t label = at(flat.label, cursor.leaf); label == kMixed) {
        restore_counts(labels, v, row_at(flat.mixed, cursor.mixed++, labels.n_classes()), n);
    } else {
        require(label < labels.n_classes(), "label must be below the number of classes");
        require(n > 0 || label == 0, "leaves without samples must have label 0");
        labels.add(v, label, n);
    }
    labels.set_n_samples(v, n);
}

inline void restore_labels(const FlatLabels<RunningMean, Borrowed> &flat, Cursor &cursor,
                           RunningMean &labels, NodeId v) {
    const double n = at(flat.n_samples, cursor.node), mean = at(flat.mean, cursor.node);
    const std::uint8_t constant = at(flat.constant, cursor.node);
    require(is_between(n, 0.0, labels.kMost) && is_weight(n),
            "n_samples must not be negative, and not too large");
    // A mean may be rounded beyond its labels.
    require(std::abs(mean) <= 2e75, "mean must be finite and lie within ±2e75");
    require(constant <= 1, "constant must be 0 or 1");
    labels.set(v, mean, n, constant == 1);
}

// The cell of the node that is being restored, in the unrestricted partition: from one node to the
// next it is changed, and changed back.
class OpenCell {
  public:
    explicit OpenCell(const Layout &layout)
        : lower_(layout.lower), upper_(layout.upper), is_cut_(lower_.size()) {}

    std::size_t state() const { return changes_.size(); }

    void go_back_to(std::size_t state) {
        for (; changes_.size() > state; changes_.pop_back()) {
            const Change &change = changes_.back();
            (change.side == 0 ? upper_ : lower_)[change.feature] = change.value;
            if (change.side == 1) is_cut_[change.feature] = change.was_cut;
        }
    }

    void narrow(const InnerNode &node, std::size_t side) {
        const std::size_t j = node.feature;
        changes_.push_back({j, side, (side == 0 ? upper_ : lower_)[j], is_cut_[j]});
        (side == 0 ? upper_ : lower_)[j] = node.threshold;
        if (side == 1) is_cut_[j] = 1;
    }

    bool can_be_cut(const InnerNode &node) const {
        return lower_[node.feature] <= node.threshold && node.threshold < upper_[node.feature];
    }

    // A cell has its upper ends, and of the lower ones those of the box.
    bool holds(std::span<const float> x) const {
        for (std::size_t j = 0; j < x.size(); ++j)
            if (!((is_cut_[j] != 0 ? x[j] > lower_[j] : x[j] >= lower_[j]) && x[j] <= upper_[j]))
                return false;
        return true;
    }

  private:
    struct Change {
        std::size_t feature, side;
        float value;
        std::uint8_t was_cut;
    };
    std::vector<float> lower_, upper_;
    std::vector<std::uint8_t> is_cut_; // whether the lower end is a threshold
    std::vector<Change> changes_;
};

// Whether there is a feature of which nothing was seen.
inline bool has_gaps(const Range &range, const Layout &layout) {
    const Sets seen{range.seen.data(), range.seen.data()};
    for (std::size_t f = 0; f < layout.categories.n_features(); ++f)
        if (layout.categories.count(f, seen) == 0) return true;
    return std::ranges::any_of(range.lower, [](float value) { return std::isnan(value); });
}

template <class Labels> class Restorer {
  public:
    Restorer(const FlatForest<Labels, Borrowed> &flat, const Layout &layout, std::size_t n_classes)
        : flat_(flat), layout_(layout), left_(layout), right_(layout), n_classes_(n_classes) {}

    // Fills an empty tree with the next nodes.
    void restore(Tree<Labels> &tree, std::size_t n_nodes) {
        OpenCell cell(layout_);
        struct Open { // a place that waits for its subtree
            Step above;
            std::size_t cell;
        };
        std::vector<Open> open;
        if (n_nodes > 0) open.push_back({{kStem, 0}, cell.state()});
        NodeArena &arena = tree.arena();
        for (std::size_t i = 0; i < n_nodes; ++i, ++cursor_.node) {
            require(!open.empty(), "there are nodes left over when a tree is complete");
            const auto [above, state] = open.back();
            open.pop_back();
            tree.make_room(1);
            if (layout_.has_box()) {
                cell.go_back_to(state);
                if (above.inner != kStem) cell.narrow(arena.inner(above.inner), above.side);
            }
            const std::int32_t feature = at(flat_.feature, cursor_.node);
            NodeId v;
            if (feature < 0) {
                require(feature == -1, "feature must be -1 in leaves");
                v = add_leaf(tree, cell);
            } else {
                v = add_inner(tree, static_cast<std::uint32_t>(feature),
                              arena.inner(above.inner).split_time);
                require(!layout_.has_box() || cell.can_be_cut(arena.inner(v)),
                        "threshold must lie within the cell");
                open.push_back({{v, 1}, cell.state()});
                open.push_back({{v, 0}, cell.state()});
            }
            arena.inner(above.inner).child[above.side] = v;
        }
        require(open.empty(), "nodes are missing: a tree is not complete");
        // In preorder, children have larger ids than their parents.
        for (auto v = static_cast<NodeId>(arena.n_inner()); v > 0; --v) finish(tree, v);
        tree.refresh_shares();
    }

    void require_end() const {
        const std::size_t numbers = layout_.n_numbers, words = layout_.categories.n_words();
        require(flat_.feature.size() == cursor_.node && flat_.threshold.size() == cursor_.inner &&
                    flat_.split_time.size() == cursor_.inner &&
                    flat_.odds.size() == cursor_.inner &&
                    flat_.odds_scale.size() == cursor_.inner && flat_.kind.size() == cursor_.leaf &&
                    flat_.lower.size() == cursor_.leaf * numbers &&
                    flat_.upper.size() == cursor_.box * numbers &&
                    flat_.seen.size() == cursor_.leaf * words && labels_end(),
                "columns must be as long as there are nodes");
    }

  private:
    bool labels_end() const {
        if constexpr (std::is_same_v<Labels, RunningMean>)
            return flat_.labels.n_samples.size() == cursor_.node &&
                   flat_.labels.mean.size() == cursor_.node &&
                   flat_.labels.constant.size() == cursor_.node;
        else
            return flat_.labels.n_samples.size() == cursor_.node &&
                   flat_.labels.label.size() == cursor_.leaf &&
                   flat_.labels.counts.size() == cursor_.inner * n_classes_ &&
                   flat_.labels.mixed.size() == cursor_.mixed * n_classes_;
    }

    NodeId add_inner(Tree<Labels> &tree, std::uint32_t feature, double birth_time) {
        require(feature < layout_.n_features(), "feature must be below the number of features");
        InnerNode node{.feature = feature, .threshold = at(flat_.threshold, cursor_.inner)};
        if (feature < layout_.n_codes()) {
            const float code = node.threshold;
            require(code >= 0 && code == std::floor(code) &&
                        code < static_cast<float>(layout_.categories.room()[feature]),
                    "threshold must be a category that is known");
            node.threshold = code - 0.5F;
            node.ceiling = code + 0.5F;
        }
        require(std::abs(node.threshold) <= kLargestFeature, "threshold must be finite");
        node.split_time = at(flat_.split_time, cursor_.inner);
        require(node.split_time >= birth_time && std::isfinite(node.split_time) &&
                    node.split_time < tree.options().lifetime,
                "split_time must not decrease, and lie within the lifetime");
        node.odds = {at(flat_.odds, cursor_.inner), at(flat_.odds_scale, cursor_.inner)};
        require(Scaled::is_plain(node.odds.value), "odds must lie in [2**-128, 2**128)");
        require(std::abs(node.odds.scale) <= 1e300 &&
                    std::nearbyint(node.odds.scale) == node.odds.scale,
                "odds_scale must be whole numbers");
        const NodeId v = tree.arena().add_inner(node);
        tree.labels().add_inner();
        restore_labels(flat_.labels, cursor_, tree.labels(), v);
        ++cursor_.inner;
        return v;
    }

    NodeId add_leaf(Tree<Labels> &tree, const OpenCell &cell) {
        NodeArena &arena = tree.arena();
        const std::size_t n = layout_.n_numbers, words = layout_.categories.n_words();
        const auto kind = static_cast<LeafKind>(at(flat_.kind, cursor_.leaf));
        const auto lower = row_at(flat_.lower, cursor_.leaf, n);
        const auto upper = kind == LeafKind::kBox ? row_at(flat_.upper, cursor_.box++, n) : lower;
        std::ranges::copy(lower, left_.lower.begin());
        std::ranges::copy(upper, left_.upper.begin());
        std::ranges::copy(row_at(flat_.seen, cursor_.leaf, words), left_.seen.begin());
        check_leaf(kind, lower, upper);
        NodeId v;
        if (layout_.has_box()) {
            require(kind == LeafKind::kEmpty ? std::ranges::all_of(lower, is_nothing)
                                             : cell.holds(lower),
                    "points must lie in their cells, and be 0 where there is none");
            v = kind == LeafKind::kEmpty ? arena.add_empty_leaf() : arena.add_leaf(left_);
        } else {
            v = arena.add_leaf(left_);
            if (has_gaps(left_, layout_)) tree.expect_gaps();
        }
        tree.labels().add_leaf();
        restore_labels(flat_.labels, cursor_, tree.labels(), v);
        require((tree.labels().n_samples(v) > 0) == (kind != LeafKind::kEmpty),
                "n_samples must be positive unless the leaf is empty");
        ++cursor_.leaf;
        return v;
    }

    void check_leaf(LeafKind kind, std::span<const float> lower,
                    std::span<const float> upper) const {
        require(kind == LeafKind::kPoint ||
                    kind == (layout_.has_box() ? LeafKind::kEmpty : LeafKind::kBox),
                "kind must be one of those of the partition");
        bool differ = false;
        for (std::size_t j = 0; j < lower.size(); ++j) {
            const float a = lower[j], b = upper[j];
            require((std::isnan(a) && std::isnan(b)) || (is_value(a) && is_value(b) && a <= b),
                    "lower and upper must be in order, lie within ±2**100, or both be missing");
            differ |= a < b;
        }
        require(kind != LeafKind::kBox || differ, "the ends of a box must differ");
        require(layout_.categories.is_set(left_.seen.data()), "seen must hold known categories");
    }

    // -0 would be another value to those who compare bits.
    static bool is_value(float x) {
        return std::abs(x) <= kLargestFeature &&
               std::bit_cast<std::uint32_t>(x) != std::bit_cast<std::uint32_t>(-0.0F);
    }

    static bool is_nothing(float x) { return std::bit_cast<std::uint32_t>(x) == 0; }

    // What an inner node has of its children.
    void finish(Tree<Labels> &tree, NodeId v) {
        NodeArena &arena = tree.arena();
        const auto [left, right] = arena.inner(v).child;
        check_sums(tree.labels(), v, left, right);
        if (layout_.has_box()) return;
        arena.copy_range(left, left_);
        arena.copy_range(right, right_);
        check_split(arena.inner(v));
        if (is_leaf(left) && is_leaf(right)) return;
        for (const float *corner : {right_.lower.data(), right_.upper.data()})
            kernels::chosen.widen(corner, left_.lower.data(), left_.upper.data(), layout_.width());
        for (std::size_t w = 0; w < left_.seen.size(); ++w) left_.seen[w] |= right_.seen[w];
        arena.make_room(1);
        arena.set_range(v, left_);
    }

    // The children lie on their sides of the split, where something was seen.
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

    static void check_sums(const Labels &labels, NodeId v, NodeId left, NodeId right) {
        const auto sum = [&](const auto &of) {
            return static_cast<double>(of(left)) + static_cast<double>(of(right));
        };
        require_sum(sum([&](NodeId u) { return labels.n_samples(u); }), labels.n_samples(v));
        require(labels.n_samples(v) > 0, "n_samples must be positive");
        if constexpr (!std::is_same_v<Labels, RunningMean>) {
            const double rounding = Labels::kWholeWeights ? 0 : 1e-6 * labels.n_samples(v);
            for (std::uint32_t y = 0; y < labels.n_classes(); ++y)
                require(std::abs(sum([&](NodeId u) { return labels.count(u, y); }) -
                                 static_cast<double>(labels.count(v, y))) <= rounding,
                        "counts must add up");
        }
    }

    const FlatForest<Labels, Borrowed> &flat_;
    const Layout &layout_;
    Range left_, right_;
    Cursor cursor_;
    std::size_t n_classes_;
};

// The trees of a forest. `new_tree(state of the generator, number of trees)` makes an empty one.
template <class Labels, class NewTree>
std::vector<Tree<Labels>> restored(const FlatForest<Labels, Borrowed> &flat, const Layout &layout,
                                   std::size_t n_classes, std::size_t n_samples,
                                   const NewTree &new_tree) {
    const std::size_t n_trees = flat.n_nodes.size();
    require(n_trees > 0 && n_trees <= kMostTrees && flat.seeds.size() == 4 * n_trees,
            "seeds must be four words for each of 1 to 65535 trees");
    require(n_samples <= Forest<Labels>::kMostRows, "n_samples must be below 2**31");
    // Rows of features are allocated from here on: they must not be longer than the arrays.
    require(n_samples == 0 || (flat.lower.size() >= layout.n_numbers &&
                               flat.seen.size() >= layout.categories.n_words()),
            "n_numbers and categories must be those of the arrays");
    std::vector<Tree<Labels>> trees;
    trees.reserve(n_trees);
    Restorer<Labels> restorer(flat, layout, n_classes);
    for (std::size_t t = 0; t < n_trees; ++t) {
        const auto words = flat.seeds.subspan(4 * t, 4);
        require(std::ranges::any_of(words, [](std::uint64_t word) { return word != 0; }),
                "seeds must not be 0: the generator would not move");
        trees.push_back(new_tree(Rng::State{words[0], words[1], words[2], words[3]}, n_trees));
        Tree<Labels> &tree = trees.back();
        restorer.restore(tree, flat.n_nodes[t]);
        require(tree.empty() == (n_samples == 0), "n_nodes must be 0 while nothing was learnt");
        require(layout.has_box() || tree.arena().n_leaves() <= n_samples,
                "n_nodes must be in proportion to the rows that were learnt");
        require(tree.n_samples() == trees.front().n_samples(),
                "n_samples must be the same in the roots of all trees");
    }
    restorer.require_end();
    return trees;
}

} // namespace amforest
