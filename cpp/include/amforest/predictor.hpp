// Predictions of many rows by many trees.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/base/parallel.hpp"
#include "amforest/extending.hpp"
#include "amforest/smoothing.hpp"
#include "amforest/tree.hpp"

namespace amforest {

// Walks that descend together: enough to hide a memory fetch behind the others' work.
inline constexpr std::size_t kTogether = 16;

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

    // Walks descend side by side, so that their waits for memory overlap.
    template <class PointAt, class Use>
    void predict_by_walks(std::span<const Tree> trees, const PointAt &point_at, std::size_t first,
                          std::size_t last, const Use &use) {
        struct Pair {
            std::size_t t, i;
        };
        const auto next = [=](Pair p) {
            return p.i + 1 < last ? Pair{p.t, p.i + 1} : Pair{p.t + 1, first};
        };
        for (Pair begin{0, first}, end = begin; begin.t < trees.size();) {
            std::size_t count = 0;
            for (; end.t < trees.size() && count < kTogether; end = next(end), ++count) {
                trees[end.t].start(walks_[count], point_at(end.t, end.i).values);
                order_[count] = &walks_[count];
            }
            const std::span<Walk *> walks = std::span(order_).first(count);
            const bool has_codes = trees[begin.t].arena().layout().n_codes() > 0;
            has_codes ? descend<Splits::kAny>(walks) : descend<Splits::kNumbers>(walks);
            for (std::size_t k = 0; k < count; ++k, begin = next(begin)) {
                const Tree &tree = trees[begin.t];
                hand_on(tree, begin.t, begin.i, use,
                        [&](std::span<double> mixture) { tree.finish(walks_[k], mixture); });
            }
        }
    }

    // All walks to their ends. Where all descend one tree, the compiler keeps what it reads of that
    // tree in registers.
    template <Splits kSplits> [[gnu::flatten]] static void descend(std::span<Walk *> walks) {
        const Tree &tree = *walks.front()->tree;
        if (walks.back()->tree == &tree)
            interleave(walks, [&](Walk *walk) { return tree.template descend<kSplits>(*walk); });
        else
            interleave(walks,
                       [](Walk *walk) { return walk->tree->template descend<kSplits>(*walk); });
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
    std::array<Walk, kTogether> walks_;
    std::array<Walk *, kTogether> order_; // in which they descend
};

} // namespace amforest
