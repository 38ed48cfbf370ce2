// A tree as plain columns, its nodes in preorder: what frozen copies are built from, saved as and
// exported as.
//
// Without `predict_extends` the mixture of a tree is the same for all rows of a leaf. So it is
// computed once for each leaf, with the arithmetic of the live tree: predictions are the same bits.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amforest/labels/file_columns.hpp"
#include "amforest/tree.hpp"

namespace amforest {

// The columns of one tree, or those of many, tree after tree.
template <template <class> class Column> struct PlainNodes {
    Column<std::int32_t> feature; // of all nodes; -1 in leaves
    Column<float> threshold;      // of inner nodes; of categories, the code that goes right
    Column<std::uint8_t> missing; // of inner nodes: the side to which missing values go
    Column<float> weight;         // of leaves: the weight of the rows that were learned there
    Column<double> values;        // leaves x outputs

    // Calls use(name, column, width of a row or kVector, how many rows there are if it is 0).
    template <class Use> void for_each(std::size_t n_outputs, const Use &use) {
        use("feature", feature, kVector, 0);
        use("threshold", threshold, kVector, 0);
        use("missing", missing, kVector, 0);
        use("weight", weight, kVector, 0);
        use("values", values, n_outputs, 0);
    }
};

using PlainTree = PlainNodes<Owned>;

inline void append_leaf(PlainTree &plain, double weight, std::span<const double> values) {
    plain.feature.push_back(-1);
    plain.weight.push_back(static_cast<float>(weight));
    plain.values.insert(plain.values.end(), values.begin(), values.end());
}

// Replaces an inner node at the end by a leaf while its children are leaves that predict the same.
inline void collapse_end(PlainTree &plain, std::size_t n_outputs) {
    while (plain.feature.size() >= 3 && *(plain.feature.end() - 2) == -1 &&
           *(plain.feature.end() - 3) >= 0) {
        const auto values = std::span(plain.values).last(2 * n_outputs);
        if (!std::ranges::equal(values.first(n_outputs), values.last(n_outputs))) return;
        plain.feature.resize(plain.feature.size() - 2);
        plain.feature.back() = -1;
        plain.threshold.pop_back();
        plain.missing.pop_back();
        *(plain.weight.end() - 2) += plain.weight.back();
        plain.weight.pop_back();
        plain.values.resize(plain.values.size() - n_outputs);
    }
}

// The way down carries the mixture of the nodes above, and what reaches the node.
template <class Partition, LabelModel Labels>
PlainTree to_plain(const Tree<Partition, Labels> &tree,
                   const typename Labels::Parameters &parameters) {
    struct Open {
        NodeId v;
        double reach;
    };
    const NodeArena &arena = tree.arena();
    const Labels &labels = tree.labels();
    const std::size_t size = Labels::mixture_size(parameters);
    PlainTree plain;
    std::vector<double> mixtures(size), scratch(size);
    if (tree.is_empty()) {
        labels.add_default(1.0, scratch);
        append_leaf(plain, 0, labels.finish(scratch));
        return plain;
    }
    std::vector<Open> open = {{arena.root(), 1.0}};
    while (!open.empty()) {
        auto [v, reach] = open.back();
        const std::size_t place = open.size() - 1;
        if (is_leaf(v)) {
            std::copy_n(&mixtures[place * size], size, scratch.begin());
            labels.add_prediction(v, reach, scratch);
            append_leaf(plain, static_cast<double>(labels.n_samples(v)), labels.finish(scratch));
            collapse_end(plain, Labels::prediction_size(parameters));
            open.pop_back();
            continue;
        }
        const InnerNode &node = arena.inner(v);
        plain.feature.push_back(static_cast<std::int32_t>(node.feature));
        plain.threshold.push_back(node.feature < arena.layout().n_codes() ? node.threshold + 0.5F
                                                                          : node.threshold);
        plain.missing.push_back(
            labels.n_samples(node.child[1]) > labels.n_samples(node.child[0]) ? 1 : 0);
        Share share{v, node.weight.share};
        mixtures.resize((place + 2) * size);
        const std::span<double> mixture = std::span(mixtures).subspan(place * size, size);
        reach = labels.add_predictions({&share, 1}, reach, mixture);
        std::ranges::copy(mixture, &mixtures[(place + 1) * size]);
        open[place] = {node.child[1], reach};
        open.push_back({node.child[0], reach});
    }
    return plain;
}

} // namespace amforest
