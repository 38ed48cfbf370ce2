// The adaptive forest: groups of trees that are regrown from remembered rows, and a mixer.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "amforest/adaptive/adaptive_sizes.hpp"
#include "amforest/adaptive/category_numbers.hpp"
#include "amforest/adaptive/regrowth.hpp"
#include "amforest/adaptive/row_store.hpp"
#include "amforest/adaptive/schedule.hpp"
#include "amforest/adaptive/weight_history.hpp"
#include "amforest/base/parallel.hpp"
#include "amforest/base/require.hpp"
#include "amforest/base/shared_lock.hpp"
#include "amforest/contributions.hpp"
#include "amforest/io/tree_table.hpp"
#include "amforest/predictor.hpp"
#include "amforest/rows.hpp"

namespace amforest {

// The parameters of an adaptive forest beside those of its trees.
struct AdaptiveOptions {
    std::vector<Group> groups;
    std::size_t n_estimators = 5;   // trees of each group
    std::size_t n_candidates = 30;  // splits of which the best is taken
    std::size_t row_limit = 65'536; // rows that are remembered
    double mixer_rate = 0.01;
    // The trees that a part of a forest holds, ascending; its others are elsewhere. None: all.
    std::optional<std::vector<std::size_t>> held = {};
};

// `Task` tells what is predicted: class_task.hpp, number_task.hpp.
template <class Task> class AdaptiveForest {
  public:
    using Labels = typename Task::Labels;
    using Mixer = typename Task::Mixer;
    using Experts = typename Task::Experts;
    using Label = typename Labels::Label;
    using Domain = Everywhere;
    using Parameters = typename Labels::Parameters;
    using Tree = amforest::Tree<Restricted, Labels>;
    using Regrowth = amforest::Regrowth<Task>;
    using Store = RowStore<Label>;

    // What the trees have in common.
    struct Common {
        Layout layout;   // of rows: codes of categories, then numbers
        Columns columns; // of trees
        Options options; // of trees
        AdaptiveOptions adaptive;
        std::shared_ptr<Parameters> parameters; // of the labels

        Layout tree_layout() const { return {Categories(), columns.size()}; }
        std::size_t n_in_all() const { return adaptive.groups.size() * adaptive.n_estimators; }
        std::size_t n_trees() const { return adaptive.held ? adaptive.held->size() : n_in_all(); }
        // The number of tree t among all of the forest, of which this may be a part.
        std::size_t id(std::size_t t) const { return adaptive.held ? (*adaptive.held)[t] : t; }
        std::size_t group_of(std::size_t t) const { return id(t) / adaptive.n_estimators; }
    };

    // A tree's part beside its nodes.
    struct Slot {
        CategoryNumbers numbers;
        LinearBase base;
        Regrowth regrowth;
        std::size_t due; // the number of rows at which it is regrown next
        std::size_t n_regrows = 0;
    };

    // A forest that has learned nothing.
    AdaptiveForest(Common common, const std::vector<Rng::State> &seeds)
        : AdaptiveForest(std::move(common)) {
        for (std::size_t t = 0; t < n_trees(); ++t) {
            trees_.push_back(empty_tree(common_, sizes_, t, seeds[t]));
            slots_.push_back(
                {CategoryNumbers(seeds[t][0]), {}, idle_regrowth(t), schedule(t).next(0)});
        }
    }

    // One whose trees, slots, rows and mixer are set by `fill(forest)`.
    template <class Fill>
        requires std::is_invocable_v<Fill, AdaptiveForest &>
    AdaptiveForest(Common common, const Fill &fill) : AdaptiveForest(std::move(common)) {
        fill(*this);
    }

    // A copy with room for a later layout or for more classes.
    AdaptiveForest(const AdaptiveForest &other, const Layout &layout, const Parameters &parameters)
        : AdaptiveForest(other, {}, other.extended(layout, parameters)) {}

    // A copy that holds the given trees: its own, or those of the parts.
    AdaptiveForest(const AdaptiveForest &other, std::span<const AdaptiveForest *const> parts,
                   std::optional<std::vector<std::size_t>> held)
        : AdaptiveForest(other, parts, other.holding(std::move(held))) {}

    const Layout &layout() const { return common_.layout; }
    Domain domain() const { return {}; }
    std::size_t feature_of(std::size_t column) const { return common_.columns.features()[column]; }
    const Options &options() const { return common_.options; }
    const Common &common() const { return common_; }
    const AdaptiveSizes &sizes() const { return sizes_; }
    std::size_t n_trees() const { return common_.n_trees(); }
    std::size_t n_in_all() const { return common_.n_in_all(); } // with those of other parts
    bool is_part() const { return common_.adaptive.held.has_value(); }
    // Whether predictions are mixed here: not in a part with trees.
    bool is_mixed() const { return !is_part() || common_.adaptive.held->empty(); }
    std::size_t n_groups() const { return common_.adaptive.groups.size(); }
    std::size_t n_experts() const { return n_groups() + Experts::size(); } // that are mixed

    // Calls use(parameters, trees, n_rows), which belong to one moment.
    template <class Use> auto inspect(const Use &use) const {
        const auto lock = lock_.read();
        return use(std::as_const(*common_.parameters), std::span<const Tree>(trees_), n_rows_);
    }
    // Calls use(forest), of one moment.
    template <class Use> auto inspect_all(const Use &use) const {
        const auto lock = lock_.read();
        return use(*this);
    }
    std::span<const Tree> trees() const { return trees_; }
    std::span<const Slot> slots() const { return slots_; }
    const Mixer &mixer() const { return mixer_; }
    const Experts &experts() const { return experts_; }
    const WeightHistory &history() const { return history_; }
    std::size_t n_rows() const { return n_rows_; }

    std::size_t bytes() const {
        const auto lock = lock_.read();
        std::size_t sum = store_.bytes() + experts_.bytes() + history_.bytes();
        for (std::size_t t = 0; t < n_trees(); ++t)
            sum += trees_[t].bytes() + slots_[t].numbers.bytes() + slots_[t].base.bytes() +
                   slots_[t].regrowth.bytes();
        return sum;
    }

    // Whether to keep the loss of the prediction of each row before it is learned.
    void keep_losses(bool are_kept) {
        const auto lock = lock_.write();
        has_room_for_ = nullptr;
        are_losses_kept_ = are_kept;
        if (!are_kept) losses_ = {};
    }
    // Those of the rows since the last call, and the number of the first of these rows.
    std::pair<std::size_t, std::vector<double>> take_losses() {
        const auto lock = lock_.write();
        has_room_for_ = nullptr;
        return {losses_from_, std::exchange(losses_, {})};
    }

    std::size_t prediction_size() const {
        const auto lock = lock_.read();
        return output_size(*common_.parameters);
    }
    static std::size_t output_size(const Parameters &parameters) {
        return Mixer::output_size(Labels::prediction_size(parameters));
    }

    // How many rows to pass at once: few enough to bound the scratch memory and the time for which
    // others wait. New classes do not change it.
    std::size_t chunk_size() const {
        constexpr std::size_t kPredictions = 1 << 20;
        return std::clamp<std::size_t>(kPredictions / Task::capacity(*common_.parameters) /
                                           n_in_all(),
                                       1, AdaptiveSizes::kChunk);
    }

    // How many of the next rows to learn at once: fewer while others wait to predict.
    std::size_t limit_rows(std::size_t n_rows) { return lock_.limit_rows(n_rows); }

    template <class IsLearned>
    void check(const Matrix &X, const char *name, const IsLearned &is_learned) const {
        check_features(X, layout(), name, is_learned);
    }

    // A batch that is being learned, in chunks of rows; between two chunks others may predict. All
    // memory is there from the start.
    class Batch {
      public:
        Batch(AdaptiveForest &forest, std::size_t n_rows, std::span<const double> weights,
              std::size_t = 0, const std::optional<Parameters> &parameters = {})
            : forest_(forest), parameters_(parameters) {
            const auto lock = forest.lock_.write();
            if (parameters) forest.common_.parameters->check_update(*parameters);
            make_room(n_rows, weights);
            forest.has_room_for_ = this;
        }

        void learn(const Matrix &X, std::span<const Label> y, std::span<const double> weights,
                   std::size_t n_threads) {
            predict_then_learn(X, y, weights, nullptr, n_threads);
        }

        void predict_then_learn(const Matrix &X, std::span<const Label> y,
                                std::span<const double> weights, double *out,
                                std::size_t n_threads) {
            const auto lock = begin(X, weights);
            forest_.learn_rows(X, y, weights, n_threads);
            forest_.mix_rows(X, y, weights, forest_.by_held_tree(X.n_rows), out);
        }

        // The same of a part: predictions are not mixed, and the mixer does not learn.
        // out[row][tree][output]
        void predict_then_learn_by_tree(const Matrix &X, std::span<const Label> y,
                                        std::span<const double> weights, double *out,
                                        std::size_t n_threads) {
            const auto lock = begin(X, weights);
            forest_.learn_rows(X, y, weights, n_threads);
            const auto prediction_at = forest_.by_held_tree(X.n_rows);
            for (std::size_t i = 0; i < X.n_rows; ++i)
                for (std::size_t t = 0; t < forest_.n_trees(); ++t)
                    out = std::ranges::copy(prediction_at(t, i), out).out;
        }

        // The same where the trees are elsewhere: by_tree[row][tree][output] are their predictions.
        void mix_then_learn(const Matrix &X, std::span<const Label> y,
                            std::span<const double> weights, const double *by_tree, double *out) {
            const auto lock = begin(X, weights);
            forest_.learn_rows(X, y, weights, 1);
            forest_.mix_rows(X, y, weights, forest_.by_other_tree(by_tree), out);
        }

      private:
        std::unique_lock<std::shared_mutex> begin(const Matrix &X,
                                                  std::span<const double> weights) {
            auto lock = forest_.lock_.write();
            if (forest_.has_room_for_ != this) make_room(X.n_rows, weights);
            if (parameters_) forest_.set_parameters(*parameters_);
            parameters_.reset();
            return lock;
        }

        void make_room(std::size_t n_rows, std::span<const double> weights) {
            forest_.make_room(n_rows, weights, parameters_ ? &*parameters_ : nullptr);
        }

        AdaptiveForest &forest_;
        std::optional<Parameters> parameters_;
    };

    // Learns one row. False, and nothing is learned, if the weights of all rows would add up to too
    // much.
    [[nodiscard]] bool learn(const Matrix &x, Label y, double weight) {
        const auto lock = lock_.write();
        require(Labels::accepts(*common_.parameters, y), Labels::kAccepted);
        if (weighs_too_much(1, {&weight, 1})) return false;
        make_room(1, {&weight, 1}, nullptr);
        learn_rows(x, {&y, 1}, {&weight, 1}, 1);
        mix_rows(x, {&y, 1}, {&weight, 1}, by_held_tree(1), nullptr);
        return true;
    }

    // out[row][output]. Returns how many outputs there are.
    std::size_t predict(const Matrix &X, std::vector<double> &out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t n_each = n_experts() * tree_size();
        const std::size_t size = output_size(*common_.parameters);
        out.resize(X.n_rows * size);
        for_each_block(X.n_rows, n_threads, [&](std::size_t first, std::size_t last) {
            std::vector<double> by_expert((last - first) * n_each);
            predict_block(SeenRows(*this, X, first, last), by_expert.data());
            for (std::size_t i = first; i < last; ++i)
                mixer_.mix(std::span(by_expert).subspan((i - first) * n_each, n_each),
                           std::span(out).subspan(i * size, size));
        });
        return size;
    }

    // The same where the trees are elsewhere: by_tree[row][tree][output] are their predictions.
    std::size_t mix(const Matrix &X, const double *by_tree, std::vector<double> &out) const {
        const auto lock = lock_.read();
        const std::size_t size = output_size(*common_.parameters);
        std::vector<double> by_expert(n_experts() * tree_size()), scratch(experts_.scratch_size());
        out.resize(X.n_rows * size);
        for (std::size_t i = 0; i < X.n_rows; ++i) {
            predict_experts(X, i, by_other_tree(by_tree), by_expert, scratch);
            mixer_.mix(by_expert, std::span(out).subspan(i * size, size));
        }
        return size;
    }
    std::size_t mix_by_expert(const Matrix &X, const double *by_tree,
                              std::vector<double> &out) const {
        const auto lock = lock_.read();
        const std::size_t size = tree_size(), n_each = n_experts() * size;
        std::vector<double> scratch(experts_.scratch_size());
        out.resize(X.n_rows * n_each);
        for (std::size_t i = 0; i < X.n_rows; ++i)
            predict_experts(X, i, by_other_tree(by_tree),
                            std::span(out).subspan(i * n_each, n_each), scratch);
        return size;
    }

    // Before they are mixed: out[row][expert][output of a tree].
    std::size_t predict_by_expert(const Matrix &X, std::vector<double> &out,
                                  std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t size = tree_size(), n_each = n_experts() * size;
        out.assign(X.n_rows * n_each, 0.0);
        for_each_block(X.n_rows, n_threads, [&](std::size_t first, std::size_t last) {
            predict_block(SeenRows(*this, X, first, last), &out[first * n_each]);
        });
        return size;
    }

    // The same for each tree: out[row][tree][output].
    std::size_t predict_by_tree(const Matrix &X, std::vector<double> &out,
                                std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t size = tree_size();
        out.resize(X.n_rows * n_trees() * size);
        for_each_block(X.n_rows, n_threads, [&](std::size_t first, std::size_t last) {
            for_each_prediction(SeenRows(*this, X, first, last),
                                [&](std::size_t t, std::size_t i, const auto &prediction) {
                                    std::ranges::copy(prediction, &out[(i * n_trees() + t) * size]);
                                });
        });
        return size;
    }

    // out[row][0][output] has the base values, out[row][1 + feature][output] the contributions.
    // Sums of these are the mean of a prediction of numbers, and up to a constant the logarithms of
    // the probabilities of classes. Returns how many outputs there are.
    static constexpr double kBaseOfUnknown = -std::numeric_limits<double>::infinity();
    std::size_t explain(const Matrix &X, std::vector<double> &out, std::size_t n_threads) const {
        require(!is_part(), "a part of a forest has no contributions: explain all of it");
        const auto lock = lock_.read();
        const std::size_t size = Labels::explained_size(*common_.parameters);
        const std::size_t n_each = (1 + layout().n_features()) * size;
        out.assign(X.n_rows * n_each, 0.0);
        const std::vector<double> bases = base_values(size);
        for_each_block(X.n_rows, n_threads, [&](std::size_t first, std::size_t last) {
            explain_block(SeenRows(*this, X, first, last), bases, size, &out[first * n_each]);
        });
        return size;
    }

    // out[row][tree]
    void weighted_depth(const Matrix &X, double *out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        for_each_point(X, n_threads, [&](std::size_t t, std::size_t i, const float *x) {
            out[i * n_trees() + t] = trees_[t].weighted_depth(x);
        });
    }

    // out[row][tree] = the leaf, as a row of the tree's table
    void apply(const Matrix &X, std::int64_t *out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        std::vector<std::vector<std::int64_t>> table_rows;
        for (const Tree &tree : trees_) table_rows.push_back(table_rows_of_leaves(tree.arena()));
        for_each_point(X, n_threads, [&](std::size_t t, std::size_t i, const float *x) {
            out[i * n_trees() + t] = table_rows[t][row_of(trees_[t].leaf_of(x))];
        });
    }

    // Restoring

    static AdaptiveSizes sizes_of(const Common &common) {
        const Tree probe = tree_with(common, kUnlimited, Rng::State{1});
        const std::size_t n_columns = common.columns.size(), n_codes = common.layout.n_codes();
        return {common.adaptive.groups,
                {common.options.max_bytes, common.options.max_nodes, common.adaptive.row_limit,
                 Store::row_bytes(common.layout.n_features()), probe.split_bytes(),
                 padded(n_columns) * sizeof(float) + 128 + 192 * n_codes, // two tables of numbers
                 common.adaptive.n_estimators, fixed_bytes(common), Task::kRegrowsPerMemory}};
    }

    // Of linear experts and bases, and of the importances of trees and of those that replace them.
    static std::size_t fixed_bytes(const Common &common) {
        const auto n_bases = static_cast<std::size_t>(
            std::ranges::count(common.adaptive.groups, true, &Group::has_base));
        const std::size_t n_importances = 2 * common.n_in_all() * common.columns.size();
        return Experts::bytes_for(common.layout.n_numbers) + n_importances * sizeof(double) +
               n_bases * common.adaptive.n_estimators * LinearFit::bytes_for(common.columns.size());
    }

    static Tree empty_tree(const Common &common, const AdaptiveSizes &sizes, std::size_t t,
                           const Rng::State &seed) {
        return tree_with(common, sizes.max_leaves[common.group_of(t)], seed);
    }

    const Group &group(std::size_t t) const { return common_.adaptive.groups[common_.group_of(t)]; }

    // The tree of a regrowth that is not under way.
    Regrowth idle_regrowth(std::size_t t) const {
        return {group(t), empty_tree(common_, sizes_, t, Rng::State{1})};
    }

    Schedule schedule(std::size_t t) const {
        const std::size_t n = common_.adaptive.n_estimators, g = common_.group_of(t);
        // Trees of different groups are kept apart, too.
        const double place = static_cast<double>(common_.id(t) % n) +
                             static_cast<double>(g) / static_cast<double>(n_groups());
        Group own = group(t);
        if (own.memory != kUnlimited) own.memory = sizes_.memory[g];
        return {own, place / static_cast<double>(n), sizes_.store_rows, Task::kRegrowsPerMemory};
    }

    // Of all trees, which are limited one by one.
    Options tree_options() const { return unlimited(common_.options); }
    void limit_leaves(std::size_t t) {
        trees_[t].set_max_leaves(sizes_.max_leaves[common_.group_of(t)]);
    }

    // How many rows a tree that is regrown now may remember.
    std::size_t n_rows_in_memory(std::size_t t, std::size_t now) const {
        return std::min(now - store_.first(), sizes_.memory[common_.group_of(t)]);
    }

    std::vector<Tree> &trees() { return trees_; }
    std::vector<Slot> &slots() { return slots_; }
    Store &store() { return store_; }
    const Store &store() const { return store_; }
    Mixer &mixer() { return mixer_; }
    Experts &experts() { return experts_; }
    WeightHistory &history() { return history_; }
    void set_n_rows(std::size_t n_rows) { n_rows_ = n_rows; }
    RegrowthContext context() const {
        return {common_.layout,
                common_.columns,
                common_.adaptive.n_candidates,
                Task::n_classes(*common_.parameters),
                Task::capacity(*common_.parameters),
                AdaptiveSizes::spare(sizes_.store_rows)};
    }

  private:
    // Importances of fewer rows would be those of chance.
    static constexpr double kLeastImportanceMemory = 250;

    AdaptiveForest(const AdaptiveForest &other, std::span<const AdaptiveForest *const> parts,
                   Common common)
        : AdaptiveForest(std::move(common)) {
        const auto lock = other.lock_.read();
        const Layout &layout = common_.layout, tree_layout = common_.tree_layout();
        std::vector<const Regrowth *> regrowths;
        for (std::size_t t = 0; t < n_trees(); ++t) {
            const auto [from, place] = find(other, parts, common_.id(t));
            const Slot &slot = from->slots_[place];
            trees_.emplace_back(from->trees_[place], tree_layout, common_.parameters,
                                std::size_t{1});
            limit_leaves(t);
            // As when a tree is regrown from rows that lack a feature.
            if (slot.n_regrows > 0)
                trees_[t].arena().weights().ignore_from(from->common_.columns.size());
            slots_.push_back({slot.numbers, slot.base, idle_regrowth(t), slot.due, slot.n_regrows});
            slots_[t].numbers.widen(layout.n_codes());
            regrowths.push_back(&slot.regrowth);
        }
        n_rows_ = other.n_rows_;
        mixer_ = other.mixer_;
        if (is_mixed()) history_ = other.history_;
        are_losses_kept_ = other.are_losses_kept_;
        losses_ = other.losses_;
        losses_from_ = other.losses_from_;
        experts_ = Experts(other.experts_, layout.n_codes(), layout.n_numbers);
        copy_rows(other);
        for (std::size_t t = 0; t < n_trees(); ++t)
            if (regrowths[t]->is_active()) continue_regrowth(t, *regrowths[t]);
    }

    explicit AdaptiveForest(Common common)
        : common_(std::move(common)), sizes_(sizes_of(common_)),
          store_(common_.layout.n_features(), AdaptiveSizes::capacity(sizes_.store_rows)),
          mixer_(n_experts(), common_.adaptive.mixer_rate),
          experts_(common_.layout.n_codes(), common_.layout.n_numbers), history_(n_experts()) {
        trees_.reserve(common_.n_trees());
        slots_.reserve(common_.n_trees());
    }

    static Options unlimited(Options options) {
        options.max_bytes = options.max_nodes = kUnlimited;
        return options;
    }

    static Tree tree_with(const Common &common, std::size_t max_leaves, const Rng::State &seed) {
        const Layout layout = common.tree_layout();
        const std::vector<float> ones(layout.n_numbers, 1.0F);
        Tree tree(Restricted(layout, {}, FeatureWeights(layout, ones)), unlimited(common.options),
                  Labels(common.parameters), seed, 1);
        tree.set_max_leaves(max_leaves);
        return tree;
    }

    // Copying

    // The forest that holds a tree, and its place there.
    static std::pair<const AdaptiveForest *, std::size_t>
    find(const AdaptiveForest &other, std::span<const AdaptiveForest *const> parts,
         std::size_t id) {
        for (std::size_t p = 0; p <= parts.size(); ++p) {
            const AdaptiveForest *from = p == parts.size() ? &other : parts[p];
            for (std::size_t t = 0; t < from->n_trees(); ++t)
                if (from->common_.id(t) == id) {
                    require(from->n_rows_ == other.n_rows_,
                            "parts must have learned the same rows");
                    return {from, t};
                }
        }
        throw std::invalid_argument("no part holds tree " + std::to_string(id));
    }

    Common holding(std::optional<std::vector<std::size_t>> held) const {
        Common common = common_;
        common.parameters = std::make_shared<Parameters>(*common_.parameters);
        common.adaptive.held = std::move(held);
        return common;
    }

    Common extended(const Layout &layout, const Parameters &parameters) const {
        require(layout.extends(common_.layout), "features and categories must not become fewer");
        common_.parameters->check_successor(parameters);
        const std::size_t old_codes = common_.layout.n_codes(), n_codes = layout.n_codes();
        std::vector<std::uint32_t> features = common_.columns.features();
        for (std::uint32_t &f : features)
            if (f >= old_codes) f += static_cast<std::uint32_t>(n_codes - old_codes);
        for (std::size_t f = old_codes; f < n_codes; ++f)
            features.push_back(static_cast<std::uint32_t>(f));
        for (std::size_t j = common_.layout.n_numbers; j < layout.n_numbers; ++j)
            features.push_back(static_cast<std::uint32_t>(n_codes + j));
        return {layout, Columns(layout, std::move(features)), common_.options, common_.adaptive,
                std::make_shared<Parameters>(parameters)};
    }

    // The rows that are still remembered, without the features that come later.
    void copy_rows(const AdaptiveForest &other) {
        const Layout &from = other.common_.layout, &to = common_.layout;
        const std::size_t end = other.store_.end();
        const std::size_t first =
            std::max(other.store_.first(), end - std::min(end, store_.capacity()));
        store_.start_at(first);
        store_.make_room(end - first);
        std::vector<float> row(to.n_features());
        for (std::size_t i = first; i < end; ++i) {
            const float *x = other.store_.features(i);
            std::ranges::fill(row, std::numeric_limits<float>::quiet_NaN());
            std::copy_n(x, from.n_codes(), row.begin());
            std::copy_n(x + from.n_codes(), from.n_numbers, &row[to.n_codes()]);
            store_.append(row.data(), other.store_.label(i), other.store_.weight(i));
        }
    }

    // The same steps with wider rows; or from the newest ones, if memories have become smaller.
    void continue_regrowth(std::size_t t, const Regrowth &earlier) {
        Regrowth &regrowth = slots_[t].regrowth;
        const std::size_t n_most = n_rows_in_memory(t, n_rows_);
        const std::uint64_t key = slots_[t].numbers.key();
        regrowth.make_room(context(), n_most, n_rows_ - earlier.last());
        if (earlier.first() >= store_.first() && earlier.last() - earlier.first() <= n_most) {
            regrowth.start(context(), store_, earlier.seed(), key, earlier.first(), earlier.last());
            regrowth.repeat(context(), store_, earlier.n_steps(), earlier.credit());
        } else {
            regrowth.start(context(), store_, earlier.seed(), key, n_rows_ - n_most, n_rows_);
        }
    }

    // Learning

    bool is_replaced_when_full(std::size_t t) const { return group(t).memory == kUnlimited; }

    bool regrows_within(std::size_t t, std::size_t n_rows) const {
        const Slot &slot = slots_[t];
        return slot.regrowth.is_active() || slot.due <= n_rows_ + n_rows ||
               (is_replaced_when_full(t) &&
                trees_[t].arena().n_leaves() + n_rows >= trees_[t].max_leaves());
    }

    // Whether a tree would count more than it can, or one that is regrown from the store.
    bool weighs_too_much(std::size_t n_rows, std::span<const double> weights) const {
        double in_tree = 0, in_store = store_.total_weight();
        for (const Tree &tree : trees_) in_tree = std::max(in_tree, tree.total_weight());
        if (weights.empty()) {
            in_tree += static_cast<double>(n_rows);
            in_store += static_cast<double>(n_rows);
        }
        for (const double weight : weights) {
            in_tree += weight;
            in_store += std::ceil(weight);
        }
        return std::max(in_tree, in_store) > Labels::kMost;
    }

    // Room for all that learning the rows may need, before anything changes.
    void make_room(std::size_t n_rows, std::span<const double> weights,
                   const Parameters *parameters) {
        has_room_for_ = nullptr; // a batch must make room again if others learn between its chunks
        if (n_rows_ + n_rows > kMostRows)
            throw std::length_error("a forest learns at most 2**31 - 1 rows");
        if (weighs_too_much(n_rows, weights))
            throw std::length_error("the weights of all rows add up to too much");
        store_.make_room(n_rows);
        if (is_mixed()) history_.make_room(n_rows_ + n_rows);
        if (are_losses_kept_) losses_.reserve(losses_.size() + n_rows);
        const RegrowthContext with = context();
        for (std::size_t t = 0; t < n_trees(); ++t) {
            // A copy with wider rows may have more leaves than would fit now.
            const std::size_t most = std::max(trees_[t].max_leaves(), trees_[t].arena().n_leaves());
            trees_[t].make_room(std::min(n_rows, most));
            if (regrows_within(t, n_rows)) {
                const std::size_t n_grown = n_rows_in_memory(t, n_rows_ + n_rows);
                Regrowth &regrowth = slots_[t].regrowth;
                const std::size_t n_since = regrowth.is_active() ? n_rows_ - regrowth.last() : 0;
                regrowth.make_room(with, n_grown, n_since + n_rows);
                trees_[t].make_room(std::min(n_grown + n_rows, most));
                if (common_.columns.have_codes() && !group(t).is_plain)
                    slots_[t].numbers.make_room(common_.layout.categories, n_grown);
                // It becomes that of the next regrowth, which may start in the same batch.
                if (group(t).has_base) slots_[t].base.make_room(common_.columns.size());
            } else if (is_replaced_when_full(t) && slots_[t].regrowth.has_room()) {
                slots_[t].regrowth = idle_regrowth(t); // which is not needed for long
            }
        }
        const std::size_t n_chunk = std::min(n_rows, chunk_size());
        const Parameters &next = parameters == nullptr ? *common_.parameters : *parameters;
        const std::size_t tree_size = Labels::prediction_size(next);
        resize(by_tree_, n_chunk * n_trees() * tree_size);
        resize(mixtures_, n_trees() * Labels::mixture_size(next));
        resize(by_expert_, n_experts() * tree_size);
        resize(mixed_, output_size(next));
        resize(expert_scratch_, experts_.scratch_size());
        const std::size_t width = padded(common_.columns.size());
        resize(encoded_, (common_.columns.have_codes() ? n_trees() : 1) * n_chunk * width);
    }

    template <class T> static void resize(std::vector<T> &values, std::size_t size) {
        if (values.size() < size) values.resize(size);
    }

    void set_parameters(const Parameters &parameters) {
        if (parameters == *common_.parameters) return; // regrowths need not start again
        *common_.parameters = parameters;
        for (std::size_t t = 0; t < n_trees(); ++t)
            if (slots_[t].regrowth.is_active()) slots_[t].regrowth.restart(context(), store_);
    }

    // Each tree predicts each row, then learns it.
    void learn_rows(const Matrix &X, std::span<const Label> y, std::span<const double> weights,
                    std::size_t n_threads) {
        const std::size_t n_before = n_rows_;
        const auto weight_of = [&](std::size_t i) { return weight_at(weights, i); };
        for (std::size_t i = 0; i < X.n_rows; ++i)
            if (weight_of(i) > 0) {
                store_.append(X[i], y[i], weight_of(i));
                ++n_rows_;
            }
        if (have_gaps(X) && !std::exchange(has_gaps_, true))
            for (Tree &tree : trees_) tree.expect_gaps();
        if (!common_.columns.have_codes() && n_trees() > 0)
            for (std::size_t i = 0; i < X.n_rows; ++i)
                common_.columns.encode(X[i], slots_[0].numbers, encoded_row(0, X.n_rows, i));
        if (X.n_rows == 1)
            learn_side_by_side(X, {{}, y[0], weight_of(0)});
        else
            for_each_index(n_trees(), n_threads, [&](std::size_t t, std::size_t) {
                std::size_t now = n_before;
                for (std::size_t i = 0; i < X.n_rows; ++i) {
                    const Row<Label> row{point(t, X, i), y[i], weight_of(i)};
                    Tree &tree = trees_[t];
                    NodeId v = tree.start();
                    while (tree.template descend<Splits::kNumbers>(v, row.x.values, row.y)) {
                    }
                    finish_row(t, row, prediction_of(t, X.n_rows, i), now);
                }
            });
    }

    // One row finds none of its nodes in the cache: it descends the trees together.
    void learn_side_by_side(const Matrix &X, Row<Label> row) {
        struct Learner {
            Tree *tree;
            const float *x;
            NodeId v;
        };
        std::array<Learner, kTogether> places;
        for (std::size_t first = 0; first < n_trees(); first += kTogether) {
            const std::size_t count = std::min(kTogether, n_trees() - first);
            const std::span<Learner> learners(places.data(), count);
            for (std::size_t k = 0; k < count; ++k) {
                Tree &tree = trees_[first + k];
                learners[k] = {&tree, point(first + k, X, 0).values, tree.start()};
            }
            interleave(learners, [&](Learner &l) {
                return l.tree->template descend<Splits::kNumbers>(l.v, l.x, row.y);
            });
        }
        for (std::size_t t = 0; t < n_trees(); ++t) {
            std::size_t now = n_rows_ - (row.weight > 0 ? 1 : 0);
            row.x = {encoded_row(t, 1, 0), nullptr};
            finish_row(t, row, prediction_of(t, 1, 0), now);
        }
    }

    // After the descent: predicts the row, learns it, and works on the tree that will come next.
    void finish_row(std::size_t t, const Row<Label> &row, std::span<double> prediction,
                    std::size_t &now) {
        Tree &tree = trees_[t];
        const std::size_t size = Labels::mixture_size(*common_.parameters);
        const std::span<double> mixture = std::span(mixtures_).subspan(t * size, size);
        std::ranges::fill(mixture, 0.0);
        tree.predict_on_path(mixture);
        std::ranges::copy(tree.labels().finish(mixture), prediction.begin());
        Row<Label> own = row;
        if constexpr (Task::kHasBases) {
            const double base = slots_[t].base.of(row.x.values);
            prediction[0] += base;
            own.y -= base;
        }
        if (row.weight == 0) return;
        credit_in_turn(t, row, own, now);
        tree.extend(own);
        while (tree.ascend(own.y, own.weight)) {
        }
        regrow(t, ++now);
    }

    // Each row is credited in one tree of each group. A group with a memory forgets what its trees
    // saved long ago: the older of so many rows as the memory holds count 1 / e.
    void credit_in_turn(std::size_t t, const Row<Label> &row, const Row<Label> &own,
                        std::size_t now) {
        const std::size_t n = common_.adaptive.n_estimators;
        if (now % n != common_.id(t) % n) return;
        Importance &importance = trees_[t].importance();
        if (group(t).memory != kUnlimited) {
            const double memory =
                std::max(static_cast<double>(group(t).memory), kLeastImportanceMemory);
            importance.fade(memory / (memory + static_cast<double>(n)));
        }
        trees_[t].credit(own.y, row.weight);
        if constexpr (Task::kHasBases)
            slots_[t].base.credit(row.x.values, row.y, [&](std::size_t column, double saved) {
                importance.add(column, row.weight * saved);
            });
    }

    // After row number `now` was learned.
    void regrow(std::size_t t, std::size_t now) {
        auto &[numbers, base, regrowth, due, n_regrows] = slots_[t];
        if (!regrowth.is_active()) {
            if (now < due && !(is_replaced_when_full(t) && trees_[t].is_full())) return;
            regrowth.start(context(), store_, trees_[t].rng().fork(), numbers.key(),
                           now - n_rows_in_memory(t, now), now);
            due = schedule(t).next(now);
        }
        if (!regrowth.work(context(), store_, now)) return;
        std::swap(trees_[t], regrowth.tree());
        std::swap(numbers, regrowth.numbers());
        std::swap(base, regrowth.base());
        std::swap(trees_[t].importance(), regrowth.tree().importance()); // it stays
        if (has_gaps_) trees_[t].expect_gaps();
        regrowth.stop();
        ++n_regrows;
        if (due <= now) due = schedule(t).next(now); // it took longer than that
    }

    float *encoded_row(std::size_t t, std::size_t n_rows, std::size_t i) {
        const std::size_t place = common_.columns.have_codes() ? t * n_rows + i : i;
        return &encoded_[place * padded(common_.columns.size())];
    }

    // Row i as tree t sees it.
    Point point(std::size_t t, const Matrix &X, std::size_t i) {
        float *x = encoded_row(t, X.n_rows, i);
        if (common_.columns.have_codes()) common_.columns.encode(X[i], slots_[t].numbers, x);
        return {x, nullptr};
    }

    std::span<double> prediction_of(std::size_t t, std::size_t n_rows, std::size_t i) {
        const std::size_t size = tree_size();
        return std::span(by_tree_).subspan((t * n_rows + i) * size, size);
    }

    static double weight_at(std::span<const double> weights, std::size_t i) {
        return weights.empty() ? 1.0 : weights[i];
    }

    // Where the prediction of row i by each tree is: of those that learned, or of those elsewhere.
    auto by_held_tree(std::size_t n_rows) {
        return [this, n_rows](std::size_t t, std::size_t i) -> std::span<const double> {
            return prediction_of(t, n_rows, i);
        };
    }
    auto by_other_tree(const double *by_tree) const {
        return [=, size = tree_size(), n = n_in_all()](std::size_t t, std::size_t i) {
            return std::span(by_tree + (i * n + t) * size, size);
        };
    }

    // Row after row: the mixer and the experts learn, too. `out` may be null.
    template <class PredictionAt>
    void mix_rows(const Matrix &X, std::span<const Label> y, std::span<const double> weights,
                  const PredictionAt &prediction_at, double *out) {
        const std::size_t n_outputs = output_size(*common_.parameters);
        const std::span<double> by_expert = std::span(by_expert_).first(n_experts() * tree_size());
        const std::span<double> mixed = std::span(mixed_).first(n_outputs);
        std::size_t now = n_rows_; // before these rows, which are counted
        for (std::size_t i = 0; i < X.n_rows; ++i) now -= weight_at(weights, i) > 0 ? 1 : 0;
        for (std::size_t i = 0; i < X.n_rows; ++i) {
            predict_experts(X, i, prediction_at, by_expert, expert_scratch_);
            mixer_.mix(by_expert, mixed);
            if (out != nullptr) std::ranges::copy(mixed, out + i * n_outputs);
            const double weight = weight_at(weights, i);
            if (weight == 0) continue;
            ++now;
            if (are_losses_kept_) {
                if (losses_.empty()) losses_from_ = now;
                losses_.push_back(Mixer::loss(mixed, y[i]));
            }
            mixer_.learn(by_expert, mixed, y[i], weight);
            experts_.learn(X[i], y[i], weight);
            history_.add(now, [&](std::size_t g) { return mixer_.part(g); });
        }
    }

    // From the predictions of all trees those of the experts: by_expert[expert][output].
    template <class PredictionAt>
    void predict_experts(const Matrix &X, std::size_t i, const PredictionAt &prediction_at,
                         std::span<double> by_expert, std::vector<double> &scratch) const {
        std::ranges::fill(by_expert, 0.0);
        for (std::size_t t = 0; t < n_in_all(); ++t) add_to(by_expert, t, prediction_at(t, i));
        experts_.predict(X[i], by_expert.subspan(n_groups() * tree_size()), scratch);
    }

    // Adds the prediction of tree t of all to that of its group.
    void add_to(std::span<double> by_expert, std::size_t t,
                std::span<const double> prediction) const {
        const std::size_t n = common_.adaptive.n_estimators, size = prediction.size();
        Task::add_tree(by_expert.subspan(t / n * size, size), prediction, t % n, n);
    }

    // Predicting

    std::size_t tree_size() const { return Labels::prediction_size(*common_.parameters); }

    template <class Work>
    static void for_each_block(std::size_t n_rows, std::size_t n_threads, const Work &work) {
        constexpr std::size_t kRows = 64;
        for_each_index((n_rows + kRows - 1) / kRows, n_threads, [&](std::size_t b, std::size_t) {
            work(b * kRows, std::min(n_rows, (b + 1) * kRows));
        });
    }

    // Rows [first, last) of a matrix, as the trees see them.
    class SeenRows {
      public:
        SeenRows(const AdaptiveForest &forest, const Matrix &X, std::size_t first, std::size_t last)
            : X(X), first(first), last(last), has_codes_(forest.common_.columns.have_codes()),
              width_(padded(forest.common_.columns.size())),
              values_((has_codes_ ? forest.n_trees() : 1) * (last - first) * width_) {
            for (std::size_t t = 0; t < (has_codes_ ? forest.n_trees() : 1); ++t)
                for (std::size_t i = first; i < last; ++i)
                    forest.common_.columns.encode(X[i], forest.slots_[t].numbers,
                                                  &values_[place(t, i)]);
        }

        const float *row(std::size_t t, std::size_t i) const { return &values_[place(t, i)]; }

        const Matrix &X;
        const std::size_t first, last;

      private:
        std::size_t place(std::size_t t, std::size_t i) const {
            return ((has_codes_ ? t * (last - first) : 0) + i - first) * width_;
        }

        bool has_codes_;
        std::size_t width_;
        std::vector<float> values_;
    };

    // Calls use(tree, row, prediction); for each row in the order of the trees.
    template <class Use> void for_each_prediction(const SeenRows &rows, const Use &use) const {
        Predictor<Restricted, Labels> predictor(common_.options, *common_.parameters);
        predictor.predict(
            trees_, [&](std::size_t t, std::size_t i) { return Point{rows.row(t, i), nullptr}; },
            rows.first, rows.last,
            [&](std::size_t t, std::size_t i, std::span<const double> prediction) {
                if constexpr (Task::kHasBases) {
                    const std::array moved = {prediction[0] + slots_[t].base.of(rows.row(t, i)),
                                              prediction[1]};
                    use(t, i, std::span<const double>(moved));
                } else {
                    use(t, i, prediction);
                }
            });
    }

    // out[row][expert][output of a tree], 0 at the start.
    void predict_block(const SeenRows &rows, double *out) const {
        const std::size_t size = tree_size(), n_each = n_experts() * size;
        for_each_prediction(
            rows, [&](std::size_t t, std::size_t i, std::span<const double> prediction) {
                add_to({out + (i - rows.first) * n_each, n_each}, common_.id(t), prediction);
            });
        std::vector<double> scratch(experts_.scratch_size());
        for (std::size_t i = rows.first; i < rows.last; ++i)
            experts_.predict(
                rows.X[i],
                {out + (i - rows.first) * n_each + n_groups() * size, Experts::size() * size},
                scratch);
    }

    // Explaining

    // Adds up base values and contributions, multiplied by slopes.
    struct ScaledSums {
        std::span<double> out;
        const double *slopes;
        const std::vector<std::uint32_t> &features; // by column

        void base(std::span<const double> p) const {
            for (std::size_t k = 0; k < p.size(); ++k) out[k] += slopes[k] * p[k];
        }
        void term(std::size_t column, double weight, std::span<const double> p,
                  std::span<const double> above) const {
            double *to = &out[(1 + features[column]) * p.size()];
            for (std::size_t k = 0; k < p.size(); ++k)
                to[k] += weight * slopes[k] * (p[k] - above[k]);
        }
    };

    // Of the groups: [group][output].
    std::vector<double> base_values(std::size_t size) const {
        std::vector<double> values(n_groups() * size);
        Explainer<Restricted, Labels> explainer(common_.options, *common_.parameters);
        for (std::size_t t = 0; t < n_trees(); ++t) {
            const std::span<const double> base = explainer.base_of(trees_[t]);
            for (std::size_t k = 0; k < size; ++k)
                values[common_.group_of(t) * size + k] +=
                    base[k] / static_cast<double>(common_.adaptive.n_estimators);
        }
        return values;
    }

    // out[row][0, then 1 + feature][output], 0 at the start. What the mixer makes of its experts is
    // linear around a row, so that it has a slope for each of them; their trees share it.
    void explain_block(const SeenRows &rows, std::span<const double> bases, std::size_t size,
                       double *out) const {
        const std::size_t n = rows.last - rows.first, n_each = (1 + layout().n_features()) * size;
        const std::size_t n_predicted = n_experts() * tree_size(), n_slopes = n_experts() * size;
        std::vector<double> by_expert(n * n_predicted), slopes(n * n_slopes);
        predict_block(rows, by_expert.data());
        const auto out_of = [&](std::size_t i) {
            return std::span(out + (i - rows.first) * n_each, n_each);
        };
        const auto slopes_of = [&](std::size_t i, std::size_t g) {
            return &slopes[(i - rows.first) * n_slopes + g * size];
        };
        std::vector<double> scratch(experts_.scratch_size());
        for (std::size_t i = rows.first; i < rows.last; ++i) {
            const std::span<const double> predictions =
                std::span(by_expert).subspan((i - rows.first) * n_predicted, n_predicted);
            mixer_.linearise(predictions, bases, {slopes_of(i, 0), n_slopes},
                             out_of(i).first(size));
            explain_experts(rows.X[i], predictions, slopes_of(i, n_groups()), out_of(i), scratch);
            for (std::size_t s = 0; s < n_groups() * size; ++s)
                slopes_of(i, 0)[s] /= static_cast<double>(common_.adaptive.n_estimators);
        }
        Explainer<Restricted, Labels>(common_.options, *common_.parameters)
            .explain(
                trees_,
                [&](std::size_t t, std::size_t i) { return Point{rows.row(t, i), nullptr}; },
                rows.first, rows.last,
                [&](std::size_t t, std::size_t i) {
                    const double *own = slopes_of(i, common_.group_of(t));
                    if constexpr (Task::kHasBases) explain_base(t, rows.row(t, i), *own, out_of(i));
                    return ScaledSums{out_of(i), own, common_.columns.features()};
                });
        for (std::size_t i = rows.first; i < rows.last; ++i)
            for (std::size_t j = 0; j < n_each; j += size)
                Mixer::center(out_of(i).subspan(j, size));
    }

    void explain_experts(const float *row, std::span<const double> by_expert, const double *slopes,
                         std::span<double> out, std::vector<double> &scratch) const {
        experts_.explain(
            row, by_expert.subspan(n_groups() * tree_size()), scratch,
            [&](std::size_t e, double base) { out[0] += slopes[e] * base; },
            [&](std::size_t e, std::size_t feature, double value) {
                out[1 + feature] += slopes[e] * value;
            });
    }

    // Of the linear base of a tree.
    void explain_base(std::size_t t, const float *x, double slope, std::span<double> out) const {
        const LinearBase &base = slots_[t].base;
        out[0] += slope * base.intercept();
        base.for_each_term(x, [&](std::uint32_t column, double value) {
            out[1 + common_.columns.features()[column]] += slope * value;
        });
    }

    // Calls use(tree, row, x as the tree sees it).
    template <class Use>
    void for_each_point(const Matrix &X, std::size_t n_threads, const Use &use) const {
        for_each_index(n_trees(), n_threads, [&](std::size_t t, std::size_t) {
            std::vector<float> x(padded(common_.columns.size()));
            for (std::size_t i = 0; i < X.n_rows; ++i) {
                common_.columns.encode(X[i], slots_[t].numbers, x.data());
                use(t, i, x.data());
            }
        });
    }

    Common common_;
    AdaptiveSizes sizes_;
    std::vector<Tree> trees_; // group after group
    std::vector<Slot> slots_; // of the trees
    Store store_;
    Mixer mixer_;
    Experts experts_;        // that are mixed beside the groups
    WeightHistory history_;  // of the mixer
    std::size_t n_rows_ = 0; // learned
    bool has_gaps_ = false;  // whether there were missing values since the forest was built
    SharedLock lock_;        // many may predict, or one may learn
    const Batch *has_room_for_ = nullptr; // for all its rows
    bool are_losses_kept_ = false;
    std::vector<double> losses_;  // of the last rows
    std::size_t losses_from_ = 0; // the number of the first of them
    // Scratch of the learner.
    std::vector<double> by_tree_, mixtures_, by_expert_, mixed_, expert_scratch_;
    std::vector<float> encoded_;
};

} // namespace amforest
