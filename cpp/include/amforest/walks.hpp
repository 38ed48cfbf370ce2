// Walks of many rows down many trees, side by side.
#pragma once

#include <array>
#include <cstddef>
#include <span>

#include "amforest/base/parallel.hpp"
#include "amforest/tree.hpp"

namespace amforest {

// Walks that descend together: enough to hide a memory fetch behind the others' work.
inline constexpr std::size_t kTogether = 16;

template <class Tree, Nodes kNodes> class Walks {
    using Walk = typename Tree::Walk;

  public:
    // Calls use(t, i, walk) for all trees and rows [first, last), tree after tree; `point_at(t, i)`
    // is row i as tree t sees it. The walks have descended, a long one only as far as it can take
    // nodes.
    template <class PointAt, class Use>
    void for_each(std::span<const Tree> trees, const PointAt &point_at, std::size_t first,
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
            for (std::size_t k = 0; k < count; ++k, begin = next(begin))
                use(begin.t, begin.i, walks_[k]);
        }
    }

  private:
    // All walks to their ends. Where all descend one tree, the compiler keeps what it reads of that
    // tree in registers.
    template <Splits kSplits> [[gnu::flatten]] static void descend(std::span<Walk *> walks) {
        const Tree &tree = *walks.front()->tree;
        if (walks.back()->tree == &tree)
            interleave(walks,
                       [&](Walk *walk) { return tree.template descend<kSplits, kNodes>(*walk); });
        else
            interleave(walks, [](Walk *walk) {
                return walk->tree->template descend<kSplits, kNodes>(*walk);
            });
    }

    std::array<Walk, kTogether> walks_;
    std::array<Walk *, kTogether> order_; // in which they descend
};

} // namespace amforest
