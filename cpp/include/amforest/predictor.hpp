// Forecasts of many rows by many trees: walks that go down side by side.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/parallel.hpp"
#include "amforest/tree.hpp"

namespace amforest {

// Walks that go down together: enough to hide a memory fetch behind the others' work.
inline constexpr std::size_t kTogether = 16;

template <LabelModel Labels> class Predictor {
    using Walk = typename Tree<Labels>::Walk;

  public:
    explicit Predictor(const Labels &labels) : Predictor(labels, memory(memory_size(labels))) {}
    Predictor(const Labels &labels, std::span<double> memory)
        : mixture_(memory.first(labels.mixture_size())),
          scratch_(memory.last(labels.mixture_size())) {}
    static std::size_t memory_size(const Labels &labels) { return 2 * labels.mixture_size(); }

    // Calls use(t, i, forecast) for all trees and rows [first, last), tree after tree.
    template <class PointAt, class Use>
    void predict(std::span<const Tree<Labels>> trees, const PointAt &point_at, std::size_t first,
                 std::size_t last, const Use &use) {
        struct Pair {
            std::size_t t, i;
        };
        const auto next = [=](Pair p) {
            return p.i + 1 < last ? Pair{p.t, p.i + 1} : Pair{p.t + 1, first};
        };
        const auto forecast = [&](Pair p, const auto &add_to) {
            std::ranges::fill(mixture_, 0.0);
            add_to(mixture_);
            use(p.t, p.i, trees[p.t].labels().finish(mixture_));
        };
        Pair begin{0, first};
        if (trees.front().needs_more()) {
            for (; begin.t < trees.size(); begin = next(begin))
                forecast(begin, [&](auto mixture) {
                    trees[begin.t].predict(point_at(begin.i), mixture, scratch_);
                });
            return;
        }
        const bool only_numbers = trees.front().arena().layout().n_codes() == 0;
        for (Pair end = begin; begin.t < trees.size();) {
            std::size_t count = 0;
            for (; end.t < trees.size() && count < kTogether; end = next(end), ++count) {
                trees[end.t].start(walks_[count], point_at(end.i).values);
                order_[count] = &walks_[count];
            }
            const std::span<Walk *> walks = std::span(order_).first(count);
            only_numbers ? go_down<Splits::kNumbers>(walks) : go_down<Splits::kAny>(walks);
            for (std::size_t k = 0; k < count; ++k, begin = next(begin))
                forecast(begin, [&](auto mixture) { trees[begin.t].finish(walks_[k], mixture); });
        }
    }

  private:
    // All walks to their ends. Where all go down one tree, the compiler keeps what it must know
    // of that tree in registers.
    template <Splits kSplits> [[gnu::flatten]] static void go_down(std::span<Walk *> walks) {
        const Tree<Labels> &tree = *walks.front()->tree;
        if (walks.back()->tree == &tree)
            in_turn(walks, [&](Walk *walk) { return tree.template go_down<kSplits>(*walk); });
        else
            in_turn(walks, [](Walk *walk) { return walk->tree->template go_down<kSplits>(*walk); });
    }

    // Kept for the next time: for one row, allocating takes longer than a tree.
    static std::span<double> memory(std::size_t size) {
        thread_local std::vector<double> kept;
        if (kept.size() < size) kept.resize(size);
        return std::span(kept).first(size);
    }

    std::span<double> mixture_, scratch_;
    std::array<Walk, kTogether> walks_;
    std::array<Walk *, kTogether> order_; // in which they go
};

} // namespace amforest
