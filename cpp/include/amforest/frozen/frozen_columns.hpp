// Frozen forests as flat arrays, and from arrays that may hold anything.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "amforest/frozen/frozen_adaptive.hpp"
#include "amforest/frozen/frozen_forest.hpp"
#include "amforest/io/part_state.hpp"

namespace amforest {

inline PlainTree to_plain(std::span<const FrozenTree> trees) {
    PlainTree plain;
    for (const FrozenTree &tree : trees) tree.append_to(plain);
    return plain;
}

// Throws std::invalid_argument unless the columns are so many trees of rows of the layout.
inline std::vector<PlainTree> read_plain(const PlainNodes<Borrowed> &nodes, std::size_t n_trees,
                                         const Layout &layout, std::size_t n_outputs) {
    require(n_trees > 0 && n_trees <= kMostTrees && n_trees <= nodes.feature.size(),
            "there must be 1 to 65535 trees, and nodes of each");
    require(nodes.feature.size() < std::size_t{1} << 31, "there are too many nodes");
    PlainReader reader(nodes, layout, n_outputs);
    std::vector<PlainTree> trees;
    for (std::size_t t = 0; t < n_trees; ++t) trees.push_back(reader.read());
    require(reader.is_at_end(), "columns must be as long as there are nodes");
    return trees;
}

// What an adaptive forest has beside its trees.
template <template <class> class Column> struct FrozenColumns {
    Column<std::uint32_t> columns; // of trees: the feature of each
    Column<float> numbers;         // trees x categories: -1, 0, 1, … of each feature
    Column<double> mixer_weights;
    // Where trees have linear bases.
    Column<double> base_intercepts;     // of trees
    Column<std::uint64_t> base_sizes;   // terms
    Column<std::uint32_t> base_columns; // of all terms, in the order of the columns
    Column<double> base_terms;          // terms x 4: slope, center, lower, upper
    Column<double> mixer_state;         // what the mixer knows beside its weights
    Column<double> expert_state;        // what the experts beside the groups know

    // `width`: of the numbers of a tree.
    template <class Use>
    void for_each(bool have_bases, std::size_t width, std::size_t n_trees, const Use &use) {
        use("columns", columns, kVector, 0);
        use("numbers", numbers, width, n_trees);
        use("mixer_weights", mixer_weights, kVector, 0);
        if (!have_bases) return;
        use("base_intercepts", base_intercepts, kVector, 0);
        use("base_sizes", base_sizes, kVector, 0);
        use("base_columns", base_columns, kVector, 0);
        use("base_terms", base_terms, 4, 0);
        use("mixer_state", mixer_state, kVector, 0);
        use("expert_state", expert_state, kVector, 0);
    }
};

template <class Task> FrozenColumns<Owned> flatten(const FrozenAdaptive<Task> &forest) {
    const auto &parts = forest.parts();
    const std::span<const double> weights = parts.mixer.weights();
    FrozenColumns<Owned> flat;
    flat.columns = forest.common().columns;
    flat.numbers = parts.numbers.values();
    flat.mixer_weights.assign(weights.begin(), weights.end());
    for (const LinearBase &base : parts.bases) {
        flat.base_intercepts.push_back(base.intercept());
        flat.base_sizes.push_back(base.terms().size());
        for (const LinearBase::Term &term : base.terms()) {
            flat.base_columns.push_back(term.column);
            for (const double value : {term.slope, term.center, term.lower, term.upper})
                flat.base_terms.push_back(value);
        }
    }
    if constexpr (Task::kHasBases) {
        flat.mixer_state = state_of(parts.mixer);
        flat.expert_state = state_of(parts.experts);
    }
    return flat;
}

// Reads those parts; throws std::invalid_argument unless they fit `common`, whose columns are set.
template <class Task> class FrozenPartsReader {
    using Forest = FrozenAdaptive<Task>;
    using Parts = typename Forest::Parts;

  public:
    FrozenPartsReader(const FrozenColumns<Borrowed> &flat, typename Forest::Common &common)
        : flat_(flat), common_(common) {
        common.columns.assign(flat.columns.begin(), flat.columns.end());
        std::vector<std::uint32_t> in_order = common.columns;
        std::ranges::sort(in_order);
        require(in_order.size() == common.layout.n_features(),
                "columns must be as many as features");
        for (std::uint32_t f = 0; f < in_order.size(); ++f)
            require(in_order[f] == f, "columns must name each feature once");
    }

    Parts read() {
        const Layout &layout = common_.layout;
        // Before memory is allocated that the arrays do not account for.
        const std::size_t n = common_.n_experts();
        require(!Task::kHasBases || 2 * flat_.mixer_state.size() >= n * n,
                "mixer_state must be that of a mixer");
        Parts parts{FrozenNumbers(layout.categories),
                    {},
                    typename Forest::Mixer(common_.n_experts(), 0),
                    typename Forest::Experts(layout.n_codes(), layout.n_numbers)};
        require(flat_.numbers.size() == common_.n_trees() * parts.numbers.width(),
                "numbers must be one for each tree and category");
        for (const float number : flat_.numbers)
            require(std::abs(number) <= kLargestFeature, "numbers must be at most 2**100");
        parts.numbers.set(flat_.numbers);
        require(flat_.mixer_weights.size() == common_.n_experts(),
                "mixer_weights must be one for each group or expert");
        for (const double weight : flat_.mixer_weights)
            require(std::abs(weight) <= 1e12, "mixer_weights must be finite");
        parts.mixer.set_weights(flat_.mixer_weights);
        if constexpr (Task::kHasBases) read_linear(parts);
        return parts;
    }

  private:
    void read_linear(Parts &parts) const {
        const std::size_t n_trees = common_.n_trees();
        require(flat_.base_intercepts.size() == n_trees && flat_.base_sizes.size() == n_trees &&
                    flat_.base_terms.size() == 4 * flat_.base_columns.size(),
                "columns must be as long as there are trees");
        std::size_t next = 0;
        for (std::size_t t = 0; t < n_trees; ++t) {
            parts.bases.push_back(read_base(t, next));
            next += parts.bases.back().terms().size();
        }
        require(next == flat_.base_columns.size(), "base_sizes must add up");
        const std::size_t n_second = parts.mixer.second_level_size();
        if (flat_.mixer_state.size() + n_second == state_size(parts.mixer))
            parts.mixer.remove_second_level();
        read_state(flat_.mixer_state, parts.mixer, "mixer_state must be that of a mixer");
        read_state(flat_.expert_state, parts.experts, "expert_state must be that of experts");
        require(parts.experts.have_learned(), "expert_state must be that of experts");
        parts.experts.set_n_rows(common_.n_rows);
    }

    LinearBase read_base(std::size_t t, std::size_t first) const {
        LinearBase base;
        const std::size_t size = flat_.base_sizes[t];
        require(size <= flat_.base_columns.size() - first && size <= kMostLinear,
                "base_sizes must add up");
        require(std::abs(flat_.base_intercepts[t]) <= kLargestTerm,
                "base_intercepts must lie within ±1e76");
        base.make_room(size);
        base.set(flat_.base_intercepts[t]);
        for (std::size_t k = first; k < first + size; ++k) {
            const std::uint32_t column = flat_.base_columns[k];
            require(column < common_.columns.size() &&
                        (k == first || column > flat_.base_columns[k - 1]),
                    "base_columns must be increasing columns");
            const auto values = flat_.base_terms.subspan(4 * k, 4);
            const LinearBase::Term term{column, values[0], values[1], values[2], values[3]};
            require(term.lower <= term.upper && term.is_bounded(),
                    "base_terms must be finite, with ranges in order");
            base.add(term);
        }
        return base;
    }

    const FrozenColumns<Borrowed> &flat_;
    typename Forest::Common &common_;
};

} // namespace amforest
