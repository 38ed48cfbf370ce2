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
enum class Values { kNumbers, kNumbersWithGaps, kAny };

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

    // leaves[i] = the leaf of row i, `row_of(i)` being its values. Rows descend side by side, so
    // that their waits for memory overlap.
    template <class RowOf>
    void find_leaves(const RowOf &row_of, std::span<std::uint32_t> leaves, Values kind) const {
        if (kind == Values::kNumbers)
            descend<Values::kNumbers>(row_of, leaves);
        else if (kind == Values::kNumbersWithGaps)
            descend<Values::kNumbersWithGaps>(row_of, leaves);
        else
            descend<Values::kAny>(row_of, leaves);
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
    static constexpr std::size_t kSideBySide = 8;

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

    template <Values kKind> static std::size_t side_of(const Node &node, const float *row) {
        if constexpr (kKind == Values::kNumbers)
            return static_cast<std::size_t>(!(row[node.feature & kFeature] <= node.threshold));
        const float x = row[node.feature & kFeature];
        if (std::isnan(x)) [[unlikely]]
            return node.feature / kMissingGoesRight;
        const auto is_above = static_cast<std::size_t>(x > node.threshold);
        if constexpr (kKind == Values::kNumbersWithGaps) return is_above;
        const auto is_number = static_cast<std::size_t>((node.feature & kIsCategory) == 0);
        return is_above & (is_number | static_cast<std::size_t>(x <= node.threshold + 1));
    }

    // Groups of rows go down level by level until all are in leaves. Those that arrive early wait
    // without a branch, which no processor could predict: it takes more time than their steps.
    template <Values kKind, class RowOf>
    [[gnu::flatten]] void descend(const RowOf &row_of, std::span<std::uint32_t> leaves) const {
        std::array<const float *, kSideBySide> rows;
        std::array<std::uint32_t, kSideBySide> at;
        for (std::size_t first = 0; first < leaves.size(); first += kSideBySide) {
            const std::size_t count = std::min(kSideBySide, leaves.size() - first);
            for (std::size_t k = 0; k < kSideBySide; ++k)
                rows[k] = row_of(first + std::min(k, count - 1));
            at.fill(root_);
            for (std::uint32_t all = root_; (all & kLeaf) == 0;) {
                all = kLeaf;
                for (std::size_t k = 0; k < kSideBySide; ++k) {
                    const bool is_there = (at[k] & kLeaf) != 0;
                    const Node &node = nodes_[is_there ? 0 : at[k]];
                    const std::uint32_t next = node.child[side_of<kKind>(node, rows[k])];
                    at[k] = is_there ? at[k] : next;
                    all &= at[k];
                }
            }
            for (std::size_t k = 0; k < count; ++k) leaves[first + k] = at[k] & ~kLeaf;
        }
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
