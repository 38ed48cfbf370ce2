// A tree that no longer learns: 16 bytes for each split, and a constant prediction for each leaf.
#pragma once

#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "amforest/base/require.hpp"
#include "amforest/frozen/plain_tree.hpp"
#include "amforest/partition/layout.hpp"

namespace amforest {

// What a block of rows needs: without missing values, and where no split is on a category, one
// comparison suffices.
enum class Values { kNumbers, kNumbersWithGaps, kCategories, kCategoriesWithGaps };

// What is known while rows go down a tree: the leaf of each row, or the split it has reached, and
// the rows that are in no leaf.
struct LeafSearch {
    std::vector<std::uint32_t> at, open;

    explicit LeafSearch(std::size_t n_rows) : at(n_rows), open(n_rows) {}
};

class FrozenTree {
  public:
    // `plain` must be a tree of rows of this layout: see `check`.
    FrozenTree(const PlainTree &plain, std::size_t n_codes, std::size_t n_outputs)
        : n_outputs_(n_outputs) {
        const std::vector<Split> splits = find_children(plain, n_codes);
        nodes_.resize(splits.size());
        weights_.resize(plain.weight.size());
        values_.resize(plain.values.size());
        // The heavier child comes right behind its parent: most rows find it in the cache.
        struct Open {
            std::uint32_t ref;
            std::uint32_t *link;
        };
        std::vector<Open> open = {{splits.empty() ? kLeaf : 0, &root_}};
        std::uint32_t n_nodes = 0, n_leaves = 0;
        while (!open.empty()) {
            const auto [ref, link] = open.back();
            open.pop_back();
            if ((ref & kLeaf) != 0) {
                const std::size_t row = ref & ~kLeaf;
                weights_[n_leaves] = plain.weight[row];
                std::copy_n(&plain.values[row * n_outputs], n_outputs,
                            &values_[n_leaves * n_outputs]);
                *link = kLeaf | n_leaves++;
                continue;
            }
            const Split &split = splits[ref];
            Node &node = nodes_[n_nodes];
            node = split.node;
            *link = n_nodes++;
            const std::size_t heavier = split.weights[1] > split.weights[0] ? 1 : 0;
            open.push_back({split.node.child[1 - heavier], &node.child[1 - heavier]});
            open.push_back({split.node.child[heavier], &node.child[heavier]});
        }
    }

    std::size_t n_nodes() const { return nodes_.size() + weights_.size(); }
    std::size_t bytes() const {
        return nodes_.size() * sizeof(Node) + weights_.size() * sizeof(float) +
               values_.size() * sizeof(double);
    }
    std::span<const double> values(std::uint32_t leaf) const {
        return std::span(values_).subspan(leaf * n_outputs_, n_outputs_);
    }

    // search.at[i] = the leaf of row i, `row_of(i)` being its values.
    template <class RowOf>
    void find_leaves(const RowOf &row_of, LeafSearch &search, Values kind) const {
        switch (kind) {
        case Values::kNumbers:
            return descend<Values::kNumbers>(row_of, search);
        case Values::kNumbersWithGaps:
            return descend<Values::kNumbersWithGaps>(row_of, search);
        case Values::kCategories:
            return descend<Values::kCategories>(row_of, search);
        case Values::kCategoriesWithGaps:
            return descend<Values::kCategoriesWithGaps>(row_of, search);
        }
    }

    // Undoes the constructor, but for the order in memory.
    void append_to(PlainTree &plain) const {
        std::vector<std::uint32_t> open = {root_};
        while (!open.empty()) {
            const std::uint32_t v = open.back();
            open.pop_back();
            if ((v & kLeaf) != 0) {
                append_leaf(plain, weights_[v & ~kLeaf], values(v & ~kLeaf));
                continue;
            }
            const Node &node = nodes_[v];
            plain.feature.push_back(static_cast<std::int32_t>(node.feature & kFeature));
            plain.threshold.push_back((node.feature & kIsCategory) != 0 ? node.threshold + 0.5F
                                                                        : node.threshold);
            plain.missing.push_back(static_cast<std::uint8_t>(node.feature / kMissingGoesRight));
            open.push_back(node.child[1]);
            open.push_back(node.child[0]);
        }
    }

  private:
    static constexpr std::uint32_t kLeaf = 1U << 31; // of a child
    // In a node's `feature`, beside its number.
    static constexpr std::uint32_t kMissingGoesRight = 1U << 31, kIsCategory = 1U << 30,
                                   kFeature = kIsCategory - 1;
    // Rows that go down together, and the levels of a round.
    static constexpr std::size_t kSideBySide = 12, kLevels = 6;

    struct Node {
        float threshold; // x_j goes right if s < x_j; a category, if s < x_j <= s + 1
        std::uint32_t feature;
        std::array<std::uint32_t, 2> child;
    };
    static_assert(sizeof(Node) == 16);

    // A node whose children are numbered in preorder, and the weights of these.
    struct Split {
        Node node;
        std::array<double, 2> weights;
    };

    static std::vector<Split> find_children(const PlainTree &plain, std::size_t n_codes) {
        struct Subtree {
            std::uint32_t ref;
            double weight;
        };
        std::vector<Split> splits(plain.threshold.size());
        std::vector<Subtree> done; // of nodes behind this one
        auto inner = static_cast<std::uint32_t>(plain.threshold.size());
        auto leaf = static_cast<std::uint32_t>(plain.weight.size());
        for (std::size_t i = plain.feature.size(); i-- > 0;) {
            if (plain.feature[i] < 0) {
                --leaf;
                done.push_back({kLeaf | leaf, plain.weight[leaf]});
                continue;
            }
            const Subtree left = done.back(), right = *(done.end() - 2);
            done.pop_back();
            auto feature = static_cast<std::uint32_t>(plain.feature[i]);
            float threshold = plain.threshold[--inner];
            if (feature < n_codes) {
                feature |= kIsCategory;
                threshold -= 0.5F;
            }
            if (plain.missing[inner] != 0) feature |= kMissingGoesRight;
            splits[inner] = {{threshold, feature, {left.ref, right.ref}},
                             {left.weight, right.weight}};
            done.back() = {inner, left.weight + right.weight};
        }
        return splits;
    }

    static constexpr bool has_gaps(Values kind) {
        return kind == Values::kNumbersWithGaps || kind == Values::kCategoriesWithGaps;
    }
    static constexpr bool has_categories(Values kind) {
        return kind == Values::kCategories || kind == Values::kCategoriesWithGaps;
    }

    template <Values kKind> static std::uint32_t side_of(const Node &node, const float *row) {
        const float x = row[node.feature & kFeature];
        if constexpr (has_gaps(kKind))
            if (std::isnan(x)) [[unlikely]]
                return node.feature / kMissingGoesRight;
        const auto is_above = static_cast<std::uint32_t>(x > node.threshold);
        if constexpr (!has_categories(kKind)) return is_above;
        const auto is_category = static_cast<std::uint32_t>((node.feature & kIsCategory) != 0);
        return is_above ^ (static_cast<std::uint32_t>(x > node.threshold + 1) & is_category);
    }
    template <Values kKind> std::uint32_t below(std::uint32_t v, const float *row) const {
        return nodes_[v].child[side_of<kKind>(nodes_[v], row)];
    }

    // Rows go down in rounds of some levels, after which those in leaves are dropped; the last ones
    // go down alone.
    template <Values kKind, class RowOf>
    [[gnu::flatten]] void descend(const RowOf &row_of, LeafSearch &search) const {
        const std::span<std::uint32_t> at = search.at, open = search.open;
        std::ranges::fill(at, root_);
        std::size_t n_open = (root_ & kLeaf) == 0 ? at.size() : 0;
        for (std::uint32_t i = 0; i < n_open; ++i) open[i] = i;
        while (n_open >= kSideBySide) {
            // Some rows of the last group may be those of the group before: they go on, too.
            for (std::size_t first = 0; first < n_open; first += kSideBySide)
                go_down<kKind>(
                    row_of, at,
                    open.subspan(std::min(first, n_open - kSideBySide)).first<kSideBySide>());
            n_open = drop_leaves(at, open.first(n_open));
        }
        for (const std::uint32_t i : open.first(n_open))
            while ((at[i] & kLeaf) == 0) at[i] = below<kKind>(at[i], row_of(i));
        for (std::uint32_t &leaf : at) leaf &= ~kLeaf;
    }

    // Side by side, so that waits for memory overlap. Rows that are in leaves wait without a
    // branch, which no processor could predict: it takes more time than their steps.
    template <Values kKind, class RowOf>
    void go_down(const RowOf &row_of, std::span<std::uint32_t> at,
                 std::span<const std::uint32_t, kSideBySide> some) const {
        std::array<const float *, kSideBySide> rows;
        std::array<std::uint32_t, kSideBySide> now;
        for (std::size_t k = 0; k < kSideBySide; ++k) {
            rows[k] = row_of(some[k]);
            now[k] = at[some[k]];
        }
        for (std::size_t level = 0; level < kLevels; ++level)
            for (std::size_t k = 0; k < kSideBySide; ++k) {
                const bool is_there = (now[k] & kLeaf) != 0;
                const std::uint32_t next = below<kKind>(is_there ? 0 : now[k], rows[k]);
                now[k] = is_there ? now[k] : next;
            }
        for (std::size_t k = 0; k < kSideBySide; ++k) at[some[k]] = now[k];
    }

    // The number of rows that remain, in their order.
    static std::size_t drop_leaves(std::span<const std::uint32_t> at,
                                   std::span<std::uint32_t> open) {
        std::size_t n_left = 0;
        for (const std::uint32_t i : open) {
            open[n_left] = i;
            n_left += (at[i] & kLeaf) == 0 ? 1 : 0;
        }
        return n_left;
    }

    std::size_t n_outputs_;
    std::uint32_t root_ = kLeaf;
    std::vector<Node> nodes_;
    std::vector<float> weights_; // of leaves
    std::vector<double> values_; // leaves x outputs
};

// Reads the trees of columns that may hold anything: throws std::invalid_argument unless each is a
// tree of rows of the layout.
class PlainReader {
  public:
    PlainReader(const PlainNodes<Borrowed> &nodes, const Layout &layout, std::size_t n_outputs)
        : nodes_(nodes), layout_(layout), n_outputs_(n_outputs) {
        require(nodes.missing.size() == nodes.threshold.size() &&
                    nodes.feature.size() == nodes.threshold.size() + nodes.weight.size() &&
                    nodes.values.size() == nodes.weight.size() * n_outputs,
                "columns must be as long as there are nodes");
    }

    // The next tree.
    PlainTree read() {
        PlainTree plain;
        for (std::size_t n_open = 1; n_open > 0; ++node_) {
            const std::int32_t feature = value_at(nodes_.feature, node_);
            if (feature >= 0) {
                plain.feature.push_back(feature);
                read_split(static_cast<std::size_t>(feature), plain);
                ++n_open;
                continue;
            }
            require(feature == -1, "feature must be -1 in leaves");
            read_leaf(plain);
            --n_open;
        }
        return plain;
    }
    bool is_at_end() const { return node_ == nodes_.feature.size(); }

  private:
    void read_split(std::size_t feature, PlainTree &plain) {
        require(feature < layout_.n_features(), "feature must be below the number of features");
        const float threshold = value_at(nodes_.threshold, split_);
        const std::uint8_t missing = value_at(nodes_.missing, split_++);
        require(std::abs(threshold) <= kLargestFeature, "threshold must be finite");
        if (feature < layout_.n_codes())
            require(threshold >= 0 && threshold == std::floor(threshold) &&
                        threshold < static_cast<float>(layout_.categories.room()[feature]),
                    "threshold must be a known category");
        require(missing <= 1, "missing must be 0 or 1");
        plain.threshold.push_back(threshold);
        plain.missing.push_back(missing);
    }

    void read_leaf(PlainTree &plain) {
        constexpr double kLargest = 1e160;
        const float weight = value_at(nodes_.weight, leaf_);
        require(weight >= 0 && std::isfinite(weight), "weight must not be negative");
        const auto values = row_at(nodes_.values, leaf_++, n_outputs_);
        for (const double value : values)
            require(std::abs(value) <= kLargest, "values must lie within ±1e160");
        append_leaf(plain, weight, values);
    }

    const PlainNodes<Borrowed> &nodes_;
    const Layout &layout_;
    std::size_t n_outputs_, node_ = 0, split_ = 0, leaf_ = 0;
};

} // namespace amforest
