// Predictions of many rows by many trees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/extending.hpp"
#include "amforest/smoothing.hpp"
#include "amforest/tree.hpp"
#include "amforest/walks.hpp"

namespace amforest {

template <class Partition, LabelModel Labels> class Predictor {
    using Tree = amforest::Tree<Partition, Labels>;
    using Walk = typename Tree::Walk;
    using Parameters = typename Labels::Parameters;

  public:
    Predictor(const Options &options, const Parameters &parameters)
        : Predictor(options, parameters, memory(memory_size(parameters))) {}
    Predictor(const Options &options, const Parameters &parameters, std::span<double> memory)
        : options_(options), mixture_(memory.first(Labels::mixture_size(parameters))),
          scratch_(memory.last(mixture_.size())),
          prediction_size_(Labels::prediction_size(parameters)) {}
    static std::size_t memory_size(const Parameters &parameters) {
        return 2 * Labels::mixture_size(parameters);
    }

    // Calls use(t, i, prediction) for all trees and rows [first, last), tree after tree;
    // `point_at(t, i)` is row i as tree t sees it.
    template <class PointAt, class Use>
    void predict(std::span<const Tree> trees, const PointAt &point_at, std::size_t first,
                 std::size_t last, const Use &use) {
        if (options_.predicts_from_ranges())
            predict_from_ranges(trees, point_at, first, last, use);
        else
            predict_by_walks(trees, point_at, first, last, use);
    }

  private:
    // Adds to a mixture, which is zero at the start, and hands the finished prediction on.
    template <class Use, class AddTo>
    void hand_on(const Tree &tree, std::size_t t, std::size_t i, const Use &use,
                 const AddTo &add_to) {
        std::ranges::fill(mixture_, 0.0);
        add_to(mixture_);
        use(t, i, tree.labels().finish(mixture_));
    }

    template <class PointAt, class Use>
    void predict_from_ranges(std::span<const Tree> trees, const PointAt &point_at,
                             std::size_t first, std::size_t last, const Use &use) {
        for (std::size_t t = 0; t < trees.size(); ++t)
            for (std::size_t i = first; i < last; ++i)
                hand_on(trees[t], t, i, use, [&](std::span<double> mixture) {
                    add_from_ranges(trees[t], point_at(t, i), mixture);
                });
    }

    void add_from_ranges(const Tree &tree, Point x, std::span<double> mixture) {
        if (tree.is_empty()) return tree.labels().add_default(1.0, mixture);
        if constexpr (HasTables<Labels>)
            if (options_.discount > 0)
                return predict_smoothing(tree, x, mixture.first(prediction_size_),
                                         scratch_.first(prediction_size_));
        if constexpr (!Labels::kInherits) predict_extending(tree, x, mixture, scratch_);
    }

    template <class PointAt, class Use>
    void predict_by_walks(std::span<const Tree> trees, const PointAt &point_at, std::size_t first,
                          std::size_t last, const Use &use) {
        walks_.for_each(
            trees, point_at, first, last, [&](std::size_t t, std::size_t i, Walk &walk) {
                hand_on(trees[t], t, i, use,
                        [&](std::span<double> mixture) { trees[t].finish(walk, mixture); });
            });
    }

    // Kept for the next call: for one row, allocating takes longer than a tree.
    static std::span<double> memory(std::size_t size) {
        thread_local std::vector<double> kept;
        if (kept.size() < size) kept.resize(size);
        return std::span(kept).first(size);
    }

    const Options &options_;
    std::span<double> mixture_, scratch_;
    std::size_t prediction_size_;
    Walks<Tree, Nodes::kWithShare> walks_;
};

} // namespace amforest
