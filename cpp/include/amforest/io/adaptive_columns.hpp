// An adaptive forest as flat arrays, beside those of its trees; reading them validates all.
//
// A regrowth that is under way is saved as its rows, its seed and the number of its steps, which
// are taken again. Whatever the arrays hold, restoring them gives a valid forest or throws.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "amforest/adaptive/adaptive_forest.hpp"
#include "amforest/io/one_nan.hpp"
#include "amforest/io/part_state.hpp"
#include "amforest/io/restore.hpp"

namespace amforest {

template <class Task, template <class> class Column> struct AdaptiveColumns {
    using Label = typename Task::Labels::Label;

    Column<std::uint32_t> columns;        // of trees: the feature of each
    Column<float> row_features;           // rows x features
    Column<Label> row_labels;             // of the rows in the store
    Column<double> row_weights;           // the same
    Column<double> mixer_weights;         // of groups
    Column<double> weight_history;        // points x groups
    Column<std::uint64_t> due;            // of trees, as all below
    Column<std::uint64_t> n_regrows;      //
    Column<std::uint64_t> number_keys;    // of random numbers of categories
    Column<std::uint8_t> has_numbers;     // whether they were learned instead
    Column<float> number_priors;          //
    Column<std::uint64_t> number_sizes;   // trees x categorical features
    Column<std::uint32_t> number_codes;   // of all these, in the order of the codes
    Column<float> number_values;          //
    Column<std::uint8_t> is_regrown;      // whether a regrowth is under way
    Column<std::uint64_t> regrowths;      // trees x 3: the first row, the last, the steps taken
    Column<std::uint64_t> regrowth_seeds; // trees x 4
    Column<std::int64_t> regrowth_credit; //
    // Where trees have linear bases.
    Column<std::uint8_t> has_base;      // of trees, as the next two
    Column<double> base_intercepts;     //
    Column<std::uint64_t> base_sizes;   // terms
    Column<std::uint32_t> base_columns; // of all terms, in the order of the columns
    Column<double> base_terms;          // terms x 4: slope, center, lower, upper
    Column<double> mixer_state;         // what the mixer knows beside its weights
    Column<double> expert_state;        // what the experts beside the groups know

    template <class Use> void for_each(const Layout &layout, std::size_t n_trees, const Use &use) {
        use("columns", columns, kVector, 0);
        use("row_features", row_features, layout.n_features(), 0);
        use("row_labels", row_labels, kVector, 0);
        use("row_weights", row_weights, kVector, 0);
        use("mixer_weights", mixer_weights, kVector, 0);
        use("weight_history", weight_history, kVector, 0);
        use("due", due, kVector, 0);
        use("n_regrows", n_regrows, kVector, 0);
        use("number_keys", number_keys, kVector, 0);
        use("has_numbers", has_numbers, kVector, 0);
        use("number_priors", number_priors, kVector, 0);
        use("number_sizes", number_sizes, layout.n_codes(), n_trees);
        use("number_codes", number_codes, kVector, 0);
        use("number_values", number_values, kVector, 0);
        use("is_regrown", is_regrown, kVector, 0);
        use("regrowths", regrowths, 3, 0);
        use("regrowth_seeds", regrowth_seeds, 4, 0);
        use("regrowth_credit", regrowth_credit, kVector, 0);
        if constexpr (Task::kHasBases) {
            use("has_base", has_base, kVector, 0);
            use("base_intercepts", base_intercepts, kVector, 0);
            use("base_sizes", base_sizes, kVector, 0);
            use("base_columns", base_columns, kVector, 0);
            use("base_terms", base_terms, 4, 0);
            use("mixer_state", mixer_state, kVector, 0);
            use("expert_state", expert_state, kVector, 0);
        }
    }
};

template <class Task>
void append_numbers(AdaptiveColumns<Task, Owned> &flat, const CategoryNumbers &numbers,
                    std::size_t n_codes) {
    flat.number_keys.push_back(numbers.key());
    flat.has_numbers.push_back(numbers.is_learned() ? 1 : 0);
    flat.number_priors.push_back(numbers.is_learned() ? numbers.prior() : 0);
    for (std::size_t f = 0; f < n_codes; ++f) {
        const std::size_t before = flat.number_codes.size();
        if (numbers.is_learned())
            numbers.for_each(f, [&](std::uint32_t code, float value) {
                flat.number_codes.push_back(code);
                flat.number_values.push_back(value);
            });
        flat.number_sizes.push_back(flat.number_codes.size() - before);
    }
}

template <class Task> void append_base(AdaptiveColumns<Task, Owned> &flat, const LinearBase &base) {
    flat.has_base.push_back(base.is_fitted() ? 1 : 0);
    flat.base_intercepts.push_back(base.intercept());
    flat.base_sizes.push_back(base.terms().size());
    for (const LinearBase::Term &term : base.terms()) {
        flat.base_columns.push_back(term.column);
        for (const double value : {term.slope, term.center, term.lower, term.upper})
            flat.base_terms.push_back(value);
    }
}

template <class Task>
void append_regrowth(AdaptiveColumns<Task, Owned> &flat, const Regrowth<Task> &regrowth) {
    const bool is_active = regrowth.is_active();
    flat.is_regrown.push_back(is_active ? 1 : 0);
    for (const std::uint64_t value : {regrowth.first(), regrowth.last(), regrowth.n_steps()})
        flat.regrowths.push_back(is_active ? value : 0);
    for (const std::uint64_t word : regrowth.seed())
        flat.regrowth_seeds.push_back(is_active ? word : 0);
    flat.regrowth_credit.push_back(is_active ? regrowth.credit() : 0);
}

// While nobody learns.
template <class Task>
AdaptiveColumns<Task, Owned> flatten_memory(const AdaptiveForest<Task> &forest) {
    AdaptiveColumns<Task, Owned> flat;
    const auto &common = forest.common();
    const auto &store = forest.regrown_trees().store();
    flat.columns = common.columns.features();
    const std::size_t n_features = common.layout.n_features();
    for (std::size_t i = store.first(); i < store.end(); ++i) {
        append_with_one_nan(flat.row_features, {store.features(i), n_features});
        flat.row_labels.push_back(store.label(i));
        flat.row_weights.push_back(store.weight(i));
    }
    const std::span<const double> weights = forest.mixed_experts().mixer().weights();
    flat.mixer_weights.assign(weights.begin(), weights.end());
    const std::span<const double> history = forest.mixed_experts().history().values();
    flat.weight_history.assign(history.begin(), history.end());
    for (const auto &slot : forest.regrown_trees().slots()) {
        flat.due.push_back(slot.due);
        flat.n_regrows.push_back(slot.n_regrows);
        append_numbers(flat, slot.numbers, common.layout.n_codes());
        append_regrowth(flat, slot.regrowth);
        if constexpr (Task::kHasBases) append_base(flat, slot.base);
    }
    if constexpr (Task::kHasBases) {
        flat.mixer_state = state_of(forest.mixed_experts().mixer());
        flat.expert_state = state_of(forest.mixed_experts().experts());
    }
    return flat;
}

// Fills a forest that has nothing yet.
template <class Task> class AdaptiveRestorer {
    using Forest = AdaptiveForest<Task>;
    using Labels = typename Task::Labels;

  public:
    AdaptiveRestorer(const AdaptiveColumns<Task, Borrowed> &flat, Forest &forest)
        : flat_(flat), forest_(forest), trees_(forest.regrown_trees()),
          mixed_(forest.mixed_experts()), layout_(forest.layout()), n_trees_(forest.n_trees()) {}

    void restore(const FlatForest<Labels, Borrowed> &trees, std::size_t n_rows) {
        check_lengths(n_rows);
        require(trees.n_nodes.size() == n_trees_ &&
                    (n_trees_ == 0 || !trees.feature_weights.empty()),
                "there must be as many trees as groups times n_estimators, with feature_weights");
        restore_trees(trees, n_rows);
        restore_rows(n_rows);
        for (const double weight : flat_.mixer_weights)
            require(std::abs(weight) <= 1e12, "mixer_weights must be finite");
        mixed_.mixer().set_weights(flat_.mixer_weights);
        mixed_.history().restore(flat_.weight_history, n_rows);
        if constexpr (Task::kHasBases) restore_experts(n_rows);
        for (std::size_t t = 0; t < n_trees_; ++t) restore_slot(t, n_rows);
        require(next_term_ == flat_.base_columns.size(), "base_sizes must add up");
        require(next_number_ == flat_.number_codes.size(), "number_sizes must add up");
        trees_.set_n_rows(n_rows);
    }

    // The columns of trees, before a forest is built: each feature once.
    static Columns columns(const AdaptiveColumns<Task, Borrowed> &flat, const Layout &layout) {
        std::vector<std::uint32_t> features(flat.columns.begin(), flat.columns.end());
        std::vector<std::uint32_t> in_order = features;
        std::ranges::sort(in_order);
        require(in_order.size() == layout.n_features(), "columns must be as many as features");
        for (std::uint32_t f = 0; f < in_order.size(); ++f)
            require(in_order[f] == f, "columns must name each feature once");
        return {layout, std::move(features)};
    }

  private:
    void check_lengths(std::size_t n_rows) const {
        // There may be fewer than fit: a copy without some columns has room for more.
        const std::size_t n_stored = flat_.row_labels.size();
        require(n_stored <= std::min(n_rows, trees_.store().capacity()) &&
                    flat_.row_weights.size() == n_stored &&
                    flat_.row_features.size() == n_stored * layout_.n_features(),
                "the rows of the store must be those learned last");
        require(flat_.mixer_weights.size() == forest_.n_experts(),
                "mixer_weights must be one for each group or expert");
        const bool have_trees =
            flat_.due.size() == n_trees_ && flat_.n_regrows.size() == n_trees_ &&
            flat_.number_keys.size() == n_trees_ && flat_.has_numbers.size() == n_trees_ &&
            flat_.number_priors.size() == n_trees_ &&
            flat_.number_sizes.size() == n_trees_ * layout_.n_codes() &&
            flat_.is_regrown.size() == n_trees_ && flat_.regrowths.size() == 3 * n_trees_ &&
            flat_.regrowth_seeds.size() == 4 * n_trees_ && flat_.regrowth_credit.size() == n_trees_;
        const std::size_t n_bases = Task::kHasBases ? n_trees_ : 0;
        require(flat_.has_base.size() == n_bases && flat_.base_intercepts.size() == n_bases &&
                    flat_.base_sizes.size() == n_bases &&
                    flat_.base_terms.size() == 4 * flat_.base_columns.size(),
                "columns must be as long as there are trees");
        require(have_trees && flat_.number_codes.size() == flat_.number_values.size(),
                "columns must be as long as there are trees");
    }

    void restore_trees(const FlatForest<Labels, Borrowed> &trees, std::size_t n_rows) {
        const auto &common = forest_.common();
        const typename amforest::Forest<Restricted, Labels>::Common of_trees{
            common.tree_layout(), {}, trees_.tree_options(), common.parameters, n_trees_};
        trees_.all() = Restorer<Restricted, Labels>(trees, of_trees).restore(n_rows);
        require(std::ranges::count(trees.importance_turn, 0) ==
                    static_cast<std::ptrdiff_t>(trees.importance_turn.size()),
                "importance_turn must be 0");
        for (std::size_t t = 0; t < n_trees_; ++t) {
            trees_.limit_leaves(t);
            trees_[t].importance().set_turn(0);
        }
    }

    void restore_rows(std::size_t n_rows) {
        const std::size_t n_stored = flat_.row_labels.size();
        const Matrix X{flat_.row_features.data(), n_stored, layout_.n_features()};
        check_features(X, layout_, "row_features", [](std::size_t) { return true; });
        auto &store = trees_.store();
        store.start_at(n_rows - n_stored);
        store.make_room(n_stored);
        for (std::size_t i = 0; i < n_stored; ++i) {
            require(Labels::accepts(*forest_.common().parameters, flat_.row_labels[i]),
                    Labels::kAccepted);
            require(is_between(flat_.row_weights[i], kLeastWeight, Labels::kMost),
                    "row_weights must be positive");
            store.append(X[i], flat_.row_labels[i], flat_.row_weights[i]);
            require(store.total_weight() <= Labels::kMost,
                    "row_weights must not add up to too much");
        }
    }

    void restore_slot(std::size_t t, std::size_t n_rows) {
        const std::size_t due = flat_.due[t];
        require(due > n_rows || flat_.is_regrown[t] != 0, "due must be later");
        trees_.slots().push_back({restored_numbers(t), restored_base(t), trees_.idle_regrowth(t),
                                  due, static_cast<std::size_t>(flat_.n_regrows[t])});
        require(flat_.is_regrown[t] <= 1, "is_regrown must be 0 or 1");
        if (flat_.is_regrown[t] == 1) restore_regrowth(t, n_rows);
    }

    LinearBase restored_base(std::size_t t) {
        LinearBase base;
        if constexpr (Task::kHasBases) {
            require(flat_.has_base[t] <= (forest_.common().group(t).has_base ? 1 : 0),
                    "has_base must be 0 or 1, and 0 in trees without one");
            const std::size_t size = flat_.base_sizes[t],
                              n_columns = forest_.common().columns.size();
            require(size <= flat_.base_columns.size() - next_term_ && size <= kMostLinear &&
                        (size == 0 || flat_.has_base[t] == 1),
                    "base_sizes must add up");
            if (flat_.has_base[t] == 0) return base;
            require(std::abs(flat_.base_intercepts[t]) <= kLargestTerm,
                    "base_intercepts must lie within ±1e76");
            base.make_room(n_columns);
            base.set(flat_.base_intercepts[t]);
            for (std::size_t k = 0; k < size; ++k, ++next_term_) {
                const std::uint32_t column = flat_.base_columns[next_term_];
                require(column < n_columns &&
                            (k == 0 || column > flat_.base_columns[next_term_ - 1]),
                        "base_columns must be increasing columns");
                const auto values = flat_.base_terms.subspan(4 * next_term_, 4);
                const LinearBase::Term term{column, values[0], values[1], values[2], values[3]};
                require(term.lower <= term.upper && term.is_bounded(),
                        "base_terms must be finite, with ranges in order");
                base.add(term);
            }
        }
        return base;
    }

    void restore_experts(std::size_t n_rows) {
        const std::size_t n_second = mixed_.mixer().second_level_size();
        if (flat_.mixer_state.size() + n_second == state_size(mixed_.mixer()))
            mixed_.mixer().remove_second_level();
        read_state(flat_.mixer_state, mixed_.mixer(), "mixer_state must be that of a mixer");
        read_state(flat_.expert_state, mixed_.experts(),
                   "expert_state must be that of linear experts");
        // Those of a part with trees learn nothing: another part has the mixer.
        require(mixed_.experts().have_learned() || n_rows == 0 || forest_.is_part(),
                "expert_state must be that of linear experts");
        mixed_.experts().set_n_rows(n_rows);
    }

    CategoryNumbers restored_numbers(std::size_t t) {
        CategoryNumbers numbers(flat_.number_keys[t]);
        const std::size_t n_codes = layout_.n_codes();
        const auto sizes = flat_.number_sizes.subspan(t * n_codes, n_codes);
        require(flat_.has_numbers[t] <=
                    (n_codes > 0 && !forest_.common().group(t).is_plain ? 1 : 0),
                "has_numbers must be 0 or 1, and 0 in plain trees");
        std::size_t total = 0;
        for (std::size_t f = 0; f < n_codes; ++f) {
            require(sizes[f] <= layout_.categories.room()[f] &&
                        (sizes[f] == 0 || flat_.has_numbers[t] != 0),
                    "number_sizes must not be more than the categories");
            total += sizes[f];
        }
        require(total <= flat_.number_codes.size() - next_number_, "number_sizes must add up");
        if (flat_.has_numbers[t] == 0) return numbers;
        // They are features of the trees.
        require(std::abs(flat_.number_priors[t]) <= kLargestFeature,
                "number_priors must be at most 2**100");
        numbers.restore(sizes, flat_.number_priors[t]);
        for (std::size_t f = 0; f < n_codes; ++f)
            for (std::size_t k = 0; k < sizes[f]; ++k, ++next_number_) {
                const std::uint32_t code = flat_.number_codes[next_number_];
                require(code < layout_.categories.room()[f] &&
                            (k == 0 || code > flat_.number_codes[next_number_ - 1]),
                        "number_codes must be increasing categories");
                require(std::abs(flat_.number_values[next_number_]) <= kLargestFeature,
                        "number_values must be at most 2**100");
                numbers.set(f, code, flat_.number_values[next_number_]);
            }
        return numbers;
    }

    void restore_regrowth(std::size_t t, std::size_t n_rows) {
        const auto rows = flat_.regrowths.subspan(3 * t, 3);
        const std::size_t first = rows[0], last = rows[1];
        require(first >= trees_.store().first() && first < last && last <= n_rows &&
                    last - first <= trees_.n_rows_in_memory(t, n_rows),
                "regrowths must be of rows in the store");
        const auto words = flat_.regrowth_seeds.subspan(4 * t, 4);
        require(std::ranges::any_of(words, [](std::uint64_t word) { return word != 0; }),
                "regrowth_seeds must not be 0");
        // Much less than any step leaves, and the regrowth would outlast the rows in the store.
        require(
            is_between<std::int64_t>(flat_.regrowth_credit[t],
                                     Regrowth<Task>::least_credit(trees_.context(), last - first),
                                     Regrowth<Task>::kWorkPerRow),
            "regrowth_credit must be in its range");
        Regrowth<Task> &regrowth = trees_.slots()[t].regrowth;
        regrowth.make_room(trees_.context(), last - first, n_rows - last);
        regrowth.start(trees_.context(), trees_.store(), {words[0], words[1], words[2], words[3]},
                       trees_.slots()[t].numbers.key(), first, last);
        require(
            regrowth.repeat(trees_.context(), trees_.store(), rows[2], flat_.regrowth_credit[t]),
            "regrowths must not have more steps than they need");
    }

    const AdaptiveColumns<Task, Borrowed> &flat_;
    const Forest &forest_;
    RegrownTrees<Task> &trees_;
    MixedExperts<Task> &mixed_;
    const Layout &layout_;
    std::size_t n_trees_, next_number_ = 0, next_term_ = 0;
};

} // namespace amforest
