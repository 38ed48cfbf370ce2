// The predictors that extend the partition by x first, in the mean over the random splits.
#pragma once

#include <algorithm>
#include <cmath>
#include <span>

#include "amforest/tree.hpp"

namespace amforest {

// p_v = 1 - exp(-Delta_v t_v), t_v being the time from v's birth to its children's.
template <LabelModel Labels>
double branch_probability(const Tree<Restricted, Labels> &tree, NodeId v, Point x,
                          double birth_time) {
    const double extension = static_cast<double>(tree.arena().extension(v, x));
    if (extension == 0 || tree.is_full()) return 0;
    if (!tree.options().split_pure && tree.labels().is_pure(v)) return 0;
    if (is_leaf(v)) return 1;
    return -std::expm1(-extension * (tree.arena().inner(v).split_time - birth_time));
}

// Predict(x) of Algorithm 6 in the mean over the places where x may branch off its path. At v this
// has probability p, given that it has not above. Then v's children are a copy of v and a fresh
// leaf {x}, w-bar_v becomes (1 - a) w_v + a w-bar_v, and the total weight, with w-bar of the root
// as unit, 1 - reach + reach (share + a). `above` is the mixture of v's ancestors, and `taken`
// their weight: 1 - reach, but not rounding alone where it is tiny.
template <LabelModel Labels>
void predict_extending(const Tree<Restricted, Labels> &tree, Point x, std::span<double> mixture,
                       std::span<double> above) {
    const NodeArena &arena = tree.arena();
    const Labels &labels = tree.labels();
    const auto add = [&](double weight) {
        for (std::size_t k = 0; k < mixture.size(); ++k) mixture[k] += weight * above[k];
    };
    std::ranges::fill(above, 0.0);
    const double a = tree.options().split_prior.alpha;
    const double leaf_share = tree.options().use_aggregation ? 1.0 - a : 0.0;
    double reach = 1, taken = 0, birth_time = 0;
    double stays = 1; // the probability that x has not branched off yet
    for (NodeId v = arena.root();;) {
        const bool is_last = is_leaf(v);
        const double share = is_last ? leaf_share : arena.inner(v).weight.share;
        if (const double p = branch_probability(tree, v, x, birth_time); p > 0) {
            const double weight = stays * p / (taken + reach * (share + a));
            add(weight);
            labels.add_prediction(v, weight * (reach * share), mixture);
            labels.add_default(weight * (reach * a), mixture);
            stays *= 1.0 - p;
        }
        labels.add_prediction(v, is_last ? reach : reach * share, above);
        if (is_last) break;
        taken += reach * share;
        reach *= 1.0 - share;
        const InnerNode &node = arena.inner(v);
        birth_time = node.split_time;
        v = node.child[tree.side_of(node, x.values)];
    }
    add(stays);
}

// The part of what reaches a leaf of the unrestricted partition, whose cell is given, that goes to
// the fresh leaf of x: E[a^K], K being the number of splits that would separate x from its point.
template <LabelModel Labels>
double fresh_share(const Tree<Unrestricted, Labels> &tree, const Cell &cell, NodeId leaf, Point x) {
    const NodeArena &arena = tree.arena();
    if (arena.is_empty(leaf) || arena.is_at(leaf, x) || tree.is_full()) return 0;
    if (!tree.options().use_aggregation) return 1;
    return cell.mean_power(tree.options().split_prior.alpha, x.values, arena.point(leaf));
}

// The same in the unrestricted partition (Algorithm 3), in the mean over the splits that would
// separate x from the point in its leaf. Each of the new nodes has the leaf's prediction and a
// share of 1 - a; below the last is the fresh leaf of x. So h(empty) gets a^K of what reaches the
// leaf.
template <LabelModel Labels>
void predict_extending(const Tree<Unrestricted, Labels> &tree, Point x, std::span<double> mixture,
                       std::span<double>) {
    const NodeArena &arena = tree.arena();
    const Labels &labels = tree.labels();
    Cell cell = tree.partition().whole_cell();
    double reach = 1;
    NodeId v = arena.root();
    while (!is_leaf(v)) {
        const InnerNode &node = arena.inner(v);
        const std::size_t side = tree.side_of(node, x.values);
        labels.add_prediction(v, reach * node.weight.share, mixture);
        reach *= 1.0 - node.weight.share;
        cell.narrow(node.feature, node.threshold, side);
        v = node.child[side];
    }
    const double fresh = fresh_share(tree, cell, v, x);
    labels.add_prediction(v, reach * (1 - fresh), mixture);
    labels.add_default(reach * fresh, mixture);
}

} // namespace amforest
