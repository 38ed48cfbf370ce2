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
    explicit Predictor(const Labels &labels)
        : Predictor(labels, memory((kTogether + 1) * labels.mixture_size())) {}
    // For one walk at a time.
    Predictor(const Labels &labels, std::span<double> memory)
        : size_(labels.mixture_size()), mixtures_(memory) {}
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
        const std::size_t at_once = std::min(kTogether, trees.size() * (last - first));
        for (Pair begin{0, first}, end = begin; begin.t < trees.size(); begin = end) {
            std::size_t count = 0;
            std::ranges::fill(mixtures_.first(at_once * size_), 0.0);
            for (; end.t < trees.size() && count < kTogether; end = next(end), ++count)
                walks_[count] =
                    trees[end.t].start(point_at(end.i), mixture(count), mixture(at_once).data());
            const std::span<Walk> walks = std::span(walks_).first(count);
            if (trees.front().arena().layout().n_codes() == 0)
                go_down<Splits::kNumbers>(walks);
            else
                go_down<Splits::kAny>(walks);
            for (std::size_t k = 0; k < count; ++k, begin = next(begin))
                use(begin.t, begin.i, trees[begin.t].labels().finish(mixture(k)));
        }
    }

  private:
    // All walks to their ends. Where all go down one tree, the compiler keeps what it must know
    // of that tree in registers.
    template <Splits kSplits> [[gnu::flatten]] static void go_down(std::span<Walk> walks) {
        const Tree<Labels> &tree = *walks.front().tree;
        if (walks.back().tree == &tree)
            in_turn(walks, [&](Walk &walk) { return tree.template go_down<kSplits>(walk); });
        else
            in_turn(walks, [](Walk &walk) { return walk.tree->template go_down<kSplits>(walk); });
    }

    // Kept for the next time: for one row, allocating takes longer than a tree.
    static std::span<double> memory(std::size_t size) {
        thread_local std::vector<double> kept;
        if (kept.size() < size) kept.resize(size);
        return std::span(kept).first(size);
    }

    std::span<double> mixture(std::size_t k) { return mixtures_.subspan(k * size_, size_); }

    std::size_t size_;
    std::span<double> mixtures_; // one for each walk, and scratch space
    std::array<Walk, kTogether> walks_;
};

} // namespace amforest
