// Contributions to the predictions that extend the partition by x first: those of extending.hpp and
// smoothing.hpp, and to rounding their sums.
//
// Where x would branch off at v, a new node splits a feature in proportion to lambda_j Delta_j, the
// distance by which x lies outside the range of v. So the difference between the predictions of v
// and of x's fresh leaf is divided in these proportions, which is its mean over the random splits.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/extending.hpp"
#include "amforest/smoothing.hpp"
#include "amforest/tree.hpp"

namespace amforest {

// The path of a row; the receivers are those of contributions.hpp.
class ExtendedPath {
  public:
    static constexpr std::size_t kPredictions = 4; // for which there must be memory

    // In the restricted partition. At v_j, x branches off with probability b_j, and stays on the
    // path to its end with probability s. With Z_j, the total weight of `predict_extending`, and
    // taken_i, that of the nodes above v_i, the weight of p_i - p_(i-1) is
    //     sum over j >= i of b_j (Z_j - taken_i) / Z_j + s reach_i.
    template <LabelModel Labels, class Receiver>
    void explain_extending(const Tree<Restricted, Labels> &tree, Point x, std::span<double> memory,
                           std::span<const double> fresh, const Receiver &receiver) {
        const double stays = read(tree, x);
        double branches = 0, over_total = 0;
        for (std::size_t i = steps_.size(); i-- > 0;) {
            Step &step = steps_[i];
            branches += step.branches;
            over_total += step.branches / step.total;
            step.weight = branches - step.taken * over_total + stays * step.reach;
        }
        typename Labels::Way way;
        std::span<double> now = memory.first(fresh.size()),
                          above = memory.subspan(fresh.size(), fresh.size());
        for (std::size_t i = 0; i < steps_.size(); ++i) {
            const Step &step = steps_[i];
            tree.labels().predict_node(step.v, way, now);
            i == 0 ? receiver.base(now)
                   : receiver.term(steps_[i - 1].column, step.weight, now, above);
            if (step.branches > 0)
                divide(tree, step.v, x, step.branches * step.to_fresh / step.total, fresh, now,
                       receiver);
            std::swap(now, above);
        }
    }

    // In the unrestricted partition: the new nodes above the fresh leaf predict as the leaf does.
    // The last of them separates x from the leaf's point, by j with probability ~ lambda_j Delta_j,
    // however many splits there are before.
    template <LabelModel Labels, class Receiver>
    void explain_extending(const Tree<Unrestricted, Labels> &tree, Point x,
                           std::span<double> memory, std::span<const double> fresh,
                           const Receiver &receiver) {
        const NodeArena &arena = tree.arena();
        typename Labels::Way way;
        std::span<double> now = memory.first(fresh.size()),
                          above = memory.subspan(fresh.size(), fresh.size());
        Cell cell = tree.partition().whole_cell();
        double reach = 1;
        std::size_t column = 0;
        bool is_root = true;
        for (NodeId v = arena.root();;) {
            tree.labels().predict_node(v, way, now);
            is_root ? receiver.base(now) : receiver.term(column, reach, now, above);
            is_root = false;
            if (is_leaf(v)) {
                if (const double part = fresh_share(tree, cell, v, x); part > 0)
                    divide(tree, v, x, reach * part, fresh, now, receiver);
                return;
            }
            const InnerNode &node = arena.inner(v);
            const std::size_t side = tree.side_of(node, x.values);
            reach *= 1.0 - node.weight.share;
            column = node.feature;
            cell.narrow(node.feature, node.threshold, side);
            v = node.child[side];
            std::swap(now, above);
        }
    }

    // Of `predict_smoothing`. A term of a node on the path has the weight with which x has not
    // branched off above, and G_v - G_parent; where x branches off at v, the new node's prediction
    // replaces G_v.
    template <class Partition, HasTables Labels, class Receiver>
    void explain_smoothing(const Tree<Partition, Labels> &tree, Point x, std::span<double> memory,
                           std::size_t size, const Receiver &receiver) {
        const NodeArena &arena = tree.arena();
        const Labels &labels = tree.labels();
        const double gamma = tree.options().discount, lifetime = tree.options().lifetime;
        const std::span<double> now = memory.first(size), above = memory.subspan(size, size),
                                branched = memory.subspan(2 * size, size),
                                stayed = memory.subspan(3 * size, size);
        std::ranges::fill(above, 1.0 / static_cast<double>(size)); // G_parent
        double stays = 1, birth_time = 0;
        std::size_t column = 0;
        for (NodeId v = arena.root();;) {
            const double split_time = is_leaf(v) ? lifetime : arena.inner(v).split_time;
            const double duration = split_time - birth_time;
            const double discount = std::exp(-gamma * duration), tables = labels.n_tables(v);
            std::ranges::fill(now, 0.0); // G_v
            double n = static_cast<double>(labels.n_samples(v));
            if (is_leaf(v)) {
                labels.add_counts(v, 1 / n, now);
            } else {
                const auto [left, right] = arena.inner(v).child;
                n = labels.n_tables(left) + labels.n_tables(right);
                labels.add_tables(left, 1 / n, now);
                labels.add_tables(right, 1 / n, now);
            }
            labels.add_tables(v, -discount / n, now);
            for (std::size_t k = 0; k < size; ++k) now[k] += discount * tables / n * above[k];
            v == arena.root() ? receiver.base(now) : receiver.term(column, stays, now, above);
            if (const auto eta = static_cast<double>(arena.extension(v, x)); eta > 0) {
                const double p = -std::expm1(-eta * duration);
                const double q = eta / (eta + gamma) * -std::expm1(-(eta + gamma) * duration);
                std::ranges::fill(branched, 0.0);
                labels.add_tables(v, std::max(p - q, 0.0) / tables, branched);
                for (std::size_t k = 0; k < size; ++k) {
                    branched[k] += q * above[k];
                    stayed[k] = p * now[k];
                }
                divide(tree, v, x, stays, branched, stayed, receiver);
                stays *= std::exp(-eta * duration);
            }
            if (is_leaf(v)) return;
            birth_time = split_time;
            column = arena.inner(v).feature;
            v = arena.inner(v).child[tree.side_of(arena.inner(v), x.values)];
            std::ranges::copy(now, above.begin());
        }
    }

  private:
    struct Step {
        NodeId v;
        std::size_t column;     // that v splits
        double reach, taken;    // by the nodes above v
        double branches, total; // b, Z
        double to_fresh;        // the weight of the fresh leaf, where x branches off at v
        double weight;          // of the difference from the node above
    };

    // The nodes of the path; returns the probability that x stays on it.
    template <LabelModel Labels> double read(const Tree<Restricted, Labels> &tree, Point x) {
        const NodeArena &arena = tree.arena();
        const double a = tree.options().split_prior.alpha;
        const double leaf_share = tree.options().use_aggregation ? 1.0 - a : 0.0;
        double reach = 1, taken = 0, birth_time = 0, stays = 1;
        steps_.clear();
        for (NodeId v = arena.root();;) {
            const double share = is_leaf(v) ? leaf_share : arena.inner(v).weight.share;
            const double p = branch_probability(tree, v, x, birth_time);
            steps_.push_back(
                {v, 0, reach, taken, stays * p, taken + reach * (share + a), reach * a, 0});
            stays *= 1.0 - p;
            if (is_leaf(v)) return stays;
            taken += reach * share;
            reach *= 1.0 - share;
            const InnerNode &node = arena.inner(v);
            steps_.back().column = node.feature;
            birth_time = node.split_time;
            v = node.child[tree.side_of(node, x.values)];
        }
    }

    // A term of all features by which x lies outside the range of v.
    template <class Tree, class Receiver>
    void divide(const Tree &tree, NodeId v, Point x, double weight, std::span<const double> to,
                std::span<const double> from, const Receiver &receiver) {
        double sum = 0;
        extensions_.clear();
        tree.arena().for_each_extension(v, x, [&](std::size_t column, double delta) {
            extensions_.push_back({column, delta});
            sum += delta;
        });
        for (const auto &[column, delta] : extensions_)
            receiver.term(column, weight * (delta / sum), to, from);
    }

    struct Extension {
        std::size_t column;
        double delta; // lambda_j Delta_j
    };

    std::vector<Step> steps_;
    std::vector<Extension> extensions_; // scratch
};

} // namespace amforest
