// The predictor of the original Mondrian forest (Lakshminarayanan, Roy and Teh, 2014).
//
// Labels follow a hierarchy of normalised stable processes, of which interpolated Kneser-Ney
// smoothing is the approximation. With t_vk = min(n_vk, 1) "tables" of class k in node v, T_v their
// sum, and d_v = exp(-gamma Delta_v), Delta_v being the time from v's birth to its split, v
// predicts
//     G_v = (c_v - d_v t_v + d_v T_v G_parent) / C_v,
// where c_v counts the tables of both children, or the labels of a leaf, and C_v is their sum.
// Above the root is the uniform distribution. So counts of labels suffice, and nothing else is
// stored.
//
// x branches off at v with probability p = 1 - exp(-eta Delta_v), eta being the extension of v's
// range, if it has not above. Then it hangs below a new node with the tables of v, whose discount
// is that of the time of branching, an exponential variable below Delta_v: p times its mean is q
// below.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <span>

#include "amforest/tree.hpp"

namespace amforest {

// A label model with tables.
template <class M>
concept HasTables = requires(const M m, NodeId v, double coefficient, std::span<double> to) {
    { m.n_tables(v) } -> std::same_as<double>;
    m.add_tables(v, coefficient, to);
    m.add_counts(v, coefficient, to);
};

// Adds the prediction of x to `prediction`; `above` is scratch space. Both have an entry for each
// class.
template <class Partition, HasTables Labels>
void predict_smoothing(const Tree<Partition, Labels> &tree, Point x, std::span<double> prediction,
                       std::span<double> above) {
    const NodeArena &arena = tree.arena();
    const Labels &labels = tree.labels();
    const double gamma = tree.options().discount, lifetime = tree.options().lifetime;
    std::ranges::fill(above, 1.0 / static_cast<double>(above.size())); // G_parent
    double stays = 1, birth_time = 0; // stays: the probability that x has not branched off
    for (NodeId v = arena.root();;) {
        const double split_time = is_leaf(v) ? lifetime : arena.inner(v).split_time;
        const double duration = split_time - birth_time;
        const double discount = std::exp(-gamma * duration), tables = labels.n_tables(v);
        if (const auto eta = static_cast<double>(arena.extension(v, x)); eta > 0) {
            const double p = -std::expm1(-eta * duration);
            const double q = eta / (eta + gamma) * -std::expm1(-(eta + gamma) * duration);
            labels.add_tables(v, stays * std::max(p - q, 0.0) / tables, prediction);
            for (std::size_t k = 0; k < above.size(); ++k) prediction[k] += stays * q * above[k];
            stays *= std::exp(-eta * duration);
        }
        if (is_leaf(v)) {
            const double n = static_cast<double>(labels.n_samples(v));
            labels.add_counts(v, stays / n, prediction);
            labels.add_tables(v, -stays * discount / n, prediction);
            for (std::size_t k = 0; k < above.size(); ++k)
                prediction[k] += stays * discount * tables / n * above[k];
            return;
        }
        const auto [left, right] = arena.inner(v).child;
        const double below = labels.n_tables(left) + labels.n_tables(right);
        for (double &g : above) g *= discount * tables / below;
        labels.add_tables(v, -discount / below, above);
        labels.add_tables(left, 1 / below, above);
        labels.add_tables(right, 1 / below, above);
        birth_time = split_time;
        v = arena.inner(v).child[tree.side_of(arena.inner(v), x.values)];
    }
}

} // namespace amforest
