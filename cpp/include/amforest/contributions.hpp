// What each feature contributes to a prediction.
//
// By summation by parts, the mixture of a tree is
//     p(x) = p_root + sum over v of reach_v (p_v - p_u),
// over the nodes v below the root on the path of x, u being the node above v; reach_v is the
// product of (1 - share) over all nodes above v. p_root is the base value, and each term belongs to
// the feature that u splits.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "amforest/extended_contributions.hpp"
#include "amforest/tree.hpp"
#include "amforest/walks.hpp"

namespace amforest {

// A receiver that adds up base values and contributions, multiplied by a factor: out[0, then 1 +
// column][number].
struct Sums {
    std::span<double> out;
    double factor;

    void base(std::span<const double> p) const {
        for (std::size_t k = 0; k < p.size(); ++k) out[k] += factor * p[k];
    }
    void term(std::size_t column, double weight, std::span<const double> p,
              std::span<const double> above) const {
        double *to = &out[(1 + column) * p.size()];
        weight *= factor;
        for (std::size_t k = 0; k < p.size(); ++k) to[k] += weight * (p[k] - above[k]);
    }
};

template <class Partition, LabelModel Labels> class Explainer {
    using Tree = amforest::Tree<Partition, Labels>;
    using Walk = typename Tree::Walk;
    using Parameters = typename Labels::Parameters;

  public:
    Explainer(const Options &options, const Parameters &parameters)
        : options_(options), size_(Labels::explained_size(parameters)),
          memory_(std::max<std::size_t>(2 * size_ + Labels::mixture_size(parameters),
                                        ExtendedPath::kPredictions * size_)) {}

    // Calls receiver_of(t, i), and tells what it returns, for all trees and rows [first, last),
    // tree after tree: receiver.base(p_root), then receiver.term(column, weight, p_v, p_u) for each
    // weight (p_v - p_u). `point_at(t, i)` is row i as tree t sees it.
    template <class PointAt, class ReceiverOf>
    void explain(std::span<const Tree> trees, const PointAt &point_at, std::size_t first,
                 std::size_t last, const ReceiverOf &receiver_of) {
        if (!options_.predicts_from_ranges())
            return walks_.for_each(trees, point_at, first, last,
                                   [&](std::size_t t, std::size_t i, Walk &walk) {
                                       follow(trees[t], walk, receiver_of(t, i));
                                   });
        for (std::size_t t = 0; t < trees.size(); ++t)
            for (std::size_t i = first; i < last; ++i)
                explain_from_ranges(trees[t], point_at(t, i), receiver_of(t, i));
    }

    // The base value of a tree, until the next call.
    std::span<const double> base_of(const Tree &tree) {
        if (tree.is_empty()) return default_prediction(tree);
        typename Labels::Way way;
        tree.labels().predict_node(tree.arena().root(), way, std::span(memory_).first(size_));
        return std::span(memory_).first(size_);
    }

  private:
    // From the root down, while the walk continues. Where the size is known to the compiler,
    // predictions stay in registers; 0 stands for any other.
    template <std::size_t kSize, class Receiver>
    [[gnu::flatten]] void follow(const Tree &tree, Walk &walk, const Receiver &receiver) {
        if (walk.v == kNone) return receiver.base(default_prediction(tree));
        std::array<double, 2 * kSize> own{};
        const std::size_t size = kSize > 0 ? kSize : size_;
        const std::span<double> memory = kSize > 0 ? std::span<double>(own) : std::span(memory_);
        std::span<double> now = memory.first(size), above = memory.subspan(size, size);
        typename Labels::Way way;
        std::size_t column = 0; // that the node above splits
        double reach = 1;
        const auto visit = [&](NodeId v) {
            tree.labels().predict_node(v, way, now);
            receiver.term(column, reach, now, above);
            std::swap(now, above);
        };
        const NodeId root = tree.arena().root();
        tree.labels().predict_node(root, way, above);
        receiver.base(above);
        if (is_leaf(root)) return;
        for (bool is_root = true;;) {
            for (const auto &[v, share] : std::span(walk.taken).first(walk.n_taken)) {
                if (!is_root) visit(v);
                is_root = false;
                reach *= 1.0 - share;
                column = tree.arena().inner(v).feature;
            }
            if (is_leaf(walk.v)) return visit(walk.v);
            walk.n_taken = 0;
            while (tree.template descend<Splits::kAny, Nodes::kAll>(walk)) {
            }
        }
    }

    template <class Receiver> void follow(const Tree &tree, Walk &walk, const Receiver &receiver) {
        if (size_ == 1) return follow<1>(tree, walk, receiver);
        if (size_ == 2) return follow<2>(tree, walk, receiver);
        follow<0>(tree, walk, receiver);
    }

    template <class Receiver>
    void explain_from_ranges(const Tree &tree, Point x, const Receiver &receiver) {
        if (tree.is_empty()) return receiver.base(default_prediction(tree));
        if constexpr (HasTables<Labels>)
            if (options_.discount > 0)
                return path_.explain_smoothing(tree, x, memory_, size_, receiver);
        if constexpr (!Labels::kInherits)
            path_.explain_extending(tree, x, memory_, default_prediction(tree), receiver);
    }

    // That of a node without labels; it stays in the last part of the memory.
    std::span<const double> default_prediction(const Tree &tree) {
        const std::span<double> mixture = std::span(memory_).subspan(2 * size_);
        std::ranges::fill(mixture, 0.0);
        tree.labels().add_default(1.0, mixture);
        return tree.labels().finish(mixture).first(size_);
    }

    const Options &options_;
    std::size_t size_; // of the predictions
    std::vector<double> memory_;
    Walks<Tree, Nodes::kAll> walks_;
    ExtendedPath path_;
};

} // namespace amforest
