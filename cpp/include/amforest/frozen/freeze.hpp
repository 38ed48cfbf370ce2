// Frozen copies of live forests, of one moment.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "amforest/adaptive/adaptive_forest.hpp"
#include "amforest/base/require.hpp"
#include "amforest/forest.hpp"
#include "amforest/frozen/frozen_adaptive.hpp"
#include "amforest/frozen/frozen_forest.hpp"

namespace amforest {

template <class Tree, class Parameters>
std::vector<PlainTree> to_plain(std::span<const Tree> trees, const Parameters &parameters) {
    std::vector<PlainTree> plain;
    plain.reserve(trees.size());
    for (const Tree &tree : trees) plain.push_back(to_plain(tree, parameters));
    return plain;
}

template <LabelModel Labels> FrozenForest freeze(const Forest<Restricted, Labels> &forest) {
    using Tree = amforest::Tree<Restricted, Labels>;
    require(!forest.options().predicts_from_ranges() && !forest.is_part(),
            "only a whole forest whose predictions are constant in leaves can be frozen");
    return forest.inspect([&](const typename Labels::Parameters &parameters,
                              std::span<const Tree> trees, std::size_t n_rows) {
        return FrozenForest({forest.layout(), Labels::prediction_size(parameters), n_rows},
                            to_plain(trees, parameters));
    });
}

template <class Task> FrozenAdaptive<Task> freeze(const AdaptiveForest<Task> &forest) {
    using Frozen = FrozenAdaptive<Task>;
    require(!forest.is_part(), "only a whole forest can be frozen");
    return forest.inspect_all([](const AdaptiveForest<Task> &now) {
        const auto &common = now.common();
        typename Frozen::Parts parts{FrozenNumbers(common.layout.categories),
                                     {},
                                     now.mixed_experts().mixer(),
                                     now.mixed_experts().experts()};
        for (const auto &slot : now.regrown_trees().slots()) {
            parts.numbers.add(slot.numbers);
            if constexpr (Task::kHasBases) parts.bases.push_back(slot.base);
        }
        return Frozen({common.layout, common.columns.features(),
                       Task::Labels::prediction_size(*common.parameters), now.n_groups(),
                       common.adaptive.n_estimators, now.n_rows()},
                      std::move(parts), to_plain(now.regrown_trees().all(), *common.parameters));
    });
}

} // namespace amforest
