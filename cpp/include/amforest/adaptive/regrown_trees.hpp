// The trees of an adaptive forest, the rows they remember, and when each is regrown.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "amforest/adaptive/adaptive_common.hpp"
#include "amforest/adaptive/adaptive_sizes.hpp"
#include "amforest/adaptive/category_numbers.hpp"
#include "amforest/adaptive/regrowth.hpp"
#include "amforest/adaptive/row_store.hpp"
#include "amforest/adaptive/schedule.hpp"
#include "amforest/adaptive/seen_rows.hpp"
#include "amforest/base/require.hpp"
#include "amforest/predictor.hpp"
#include "amforest/rows.hpp"

namespace amforest {

template <class Task> class RegrownTrees {
  public:
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;
    using Tree = amforest::Tree<Restricted, Labels>;
    using Regrowth = amforest::Regrowth<Task>;
    using Store = RowStore<Label>;
    using Common = AdaptiveCommon<Task>;

    // A tree's part beside its nodes.
    struct Slot {
        CategoryNumbers numbers;
        LinearBase base;
        Regrowth regrowth;
        std::size_t due; // the number of rows at which it is regrown next
        std::size_t n_regrows = 0;
    };

    // No trees yet: they are added, copied or restored.
    explicit RegrownTrees(const Common &common)
        : common_(common), sizes_(sizes_of(common)),
          store_(common.layout.n_features(), AdaptiveSizes::capacity(sizes_.store_rows)) {
        trees_.reserve(common.n_trees());
        slots_.reserve(common.n_trees());
    }

    // Trees that have learned nothing.
    void add_empty(const std::vector<Rng::State> &seeds) {
        for (std::size_t t = 0; t < size(); ++t) {
            trees_.push_back(empty_tree(t, seeds[t]));
            slots_.push_back(
                {CategoryNumbers(seeds[t][0]), {}, idle_regrowth(t), schedule(t).next(0)});
        }
    }

    // Copies of the trees of `other` or of those of the parts, with room for a later layout.
    void copy(const RegrownTrees &other, std::span<const RegrownTrees *const> parts) {
        std::vector<const Regrowth *> regrowths;
        for (std::size_t t = 0; t < size(); ++t) {
            const auto [from, place] = find(other, parts, common_.id(t));
            const Slot &slot = from->slots_[place];
            trees_.emplace_back(from->trees_[place], common_.tree_layout(), common_.parameters,
                                std::size_t{1});
            limit_leaves(t);
            // As when a tree is regrown from rows that lack a feature.
            if (slot.n_regrows > 0)
                trees_[t].arena().weights().ignore_from(from->common_.columns.size());
            slots_.push_back({slot.numbers, slot.base, idle_regrowth(t), slot.due, slot.n_regrows});
            slots_[t].numbers.widen(common_.layout.n_codes());
            regrowths.push_back(&slot.regrowth);
        }
        n_rows_ = other.n_rows_;
        copy_rows(other);
        for (std::size_t t = 0; t < size(); ++t)
            if (regrowths[t]->is_active()) continue_regrowth(t, *regrowths[t]);
    }

    std::size_t size() const { return common_.n_trees(); }
    Tree &operator[](std::size_t t) { return trees_[t]; }
    const Tree &operator[](std::size_t t) const { return trees_[t]; }
    std::span<const Tree> all() const { return trees_; }
    std::vector<Tree> &all() { return trees_; }
    std::span<const Slot> slots() const { return slots_; }
    std::vector<Slot> &slots() { return slots_; }
    const Store &store() const { return store_; }
    Store &store() { return store_; }
    const AdaptiveSizes &sizes() const { return sizes_; }
    std::size_t n_rows() const { return n_rows_; } // learned
    void set_n_rows(std::size_t n_rows) { n_rows_ = n_rows; }

    std::size_t bytes() const {
        std::size_t sum = store_.bytes();
        for (std::size_t t = 0; t < size(); ++t)
            sum += trees_[t].bytes() + slots_[t].numbers.bytes() + slots_[t].base.bytes() +
                   slots_[t].regrowth.bytes();
        return sum;
    }

    // Limits

    static AdaptiveSizes sizes_of(const Common &common) {
        const Tree probe = tree_with(common, kUnlimited, Rng::State{1});
        const std::size_t n_columns = common.columns.size(), n_codes = common.layout.n_codes();
        return {common.adaptive.groups,
                {common.options.max_bytes, common.options.max_nodes, common.adaptive.row_limit,
                 Store::row_bytes(common.layout.n_features()), probe.split_bytes(),
                 padded(n_columns) * sizeof(float) + 128 + 192 * n_codes, // two tables of numbers
                 common.adaptive.n_estimators, fixed_bytes(common), Task::kRegrowsPerMemory}};
    }

    // Of all trees, which are limited one by one.
    Options tree_options() const { return unlimited(common_.options); }
    void limit_leaves(std::size_t t) {
        trees_[t].set_max_leaves(sizes_.max_leaves[common_.group_of(t)]);
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

    // Learning

    // Room for all that learning `n_rows` rows may need.
    void make_room(std::size_t n_rows) {
        store_.make_room(n_rows);
        for (std::size_t t = 0; t < size(); ++t) {
            // A copy with wider rows may have more leaves than would fit now.
            const std::size_t most = std::max(trees_[t].max_leaves(), trees_[t].arena().n_leaves());
            trees_[t].make_room(std::min(n_rows, most));
            if (regrows_within(t, n_rows))
                make_room_to_regrow(t, n_rows, most);
            else if (is_replaced_when_full(t) && slots_[t].regrowth.has_room())
                slots_[t].regrowth = idle_regrowth(t); // which is not needed for long
        }
    }

    // Remembers the rows with a weight; the trees have yet to learn them.
    void remember(const Matrix &X, std::span<const Label> y, std::span<const double> weights) {
        for (std::size_t i = 0; i < X.n_rows; ++i)
            if (const double weight = weight_at(weights, i); weight > 0) {
                store_.append(X[i], y[i], weight);
                ++n_rows_;
            }
        if (have_gaps(X) && !std::exchange(has_gaps_, true))
            for (Tree &tree : trees_) tree.expect_gaps();
    }

    // Works on the tree that will replace tree t, after row number `now` was learned.
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

    // After the parameters of the labels have changed.
    void restart_regrowths() {
        for (Slot &slot : slots_)
            if (slot.regrowth.is_active()) slot.regrowth.restart(context(), store_);
    }

    // The tree of a regrowth that is not under way.
    Regrowth idle_regrowth(std::size_t t) const {
        return {common_.group(t), empty_tree(t, Rng::State{1})};
    }

    // How many rows a tree that is regrown now may remember.
    std::size_t n_rows_in_memory(std::size_t t, std::size_t now) const {
        return std::min(now - store_.first(), sizes_.memory[common_.group_of(t)]);
    }

    RegrowthContext context() const {
        return {common_.layout,
                common_.columns,
                common_.adaptive.n_candidates,
                Task::n_classes(*common_.parameters),
                Task::capacity(*common_.parameters),
                AdaptiveSizes::spare(sizes_.store_rows)};
    }

    // Predicting

    // Rows [first, last) as the trees see them.
    SeenRows see(const Matrix &X, std::size_t first, std::size_t last) const {
        const auto numbers_of = [&](std::size_t t) -> const auto & { return slots_[t].numbers; };
        return {common_.columns, size(), numbers_of, X, first, last};
    }

    // Calls use(tree, row, prediction); for each row in the order of the trees.
    template <class Use> void predict(const SeenRows &rows, const Use &use) const {
        Predictor<Restricted, Labels> predictor(common_.options, *common_.parameters);
        predictor.predict(trees_, rows, rows.first, rows.last,
                          [&](std::size_t t, std::size_t i, std::span<const double> prediction) {
                              if constexpr (Task::kHasBases) {
                                  const std::array moved = {prediction[0] +
                                                                slots_[t].base.of(rows.row(t, i)),
                                                            prediction[1]};
                                  use(t, i, std::span<const double>(moved));
                              } else {
                                  use(t, i, prediction);
                              }
                          });
    }

  private:
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

    Tree empty_tree(std::size_t t, const Rng::State &seed) const {
        return tree_with(common_, sizes_.max_leaves[common_.group_of(t)], seed);
    }

    // Of linear experts and bases, and of the importances of trees and of those that replace them.
    static std::size_t fixed_bytes(const Common &common) {
        const auto n_bases = static_cast<std::size_t>(
            std::ranges::count(common.adaptive.groups, true, &Group::has_base));
        const std::size_t n_importances = 2 * common.n_in_all() * common.columns.size();
        return Task::Experts::bytes_for(common.layout.n_numbers) + n_importances * sizeof(double) +
               n_bases * common.adaptive.n_estimators * LinearFit::bytes_for(common.columns.size());
    }

    Schedule schedule(std::size_t t) const {
        const std::size_t n = common_.adaptive.n_estimators, g = common_.group_of(t);
        // Trees of different groups are kept apart, too.
        const double place = static_cast<double>(common_.id(t) % n) +
                             static_cast<double>(g) / static_cast<double>(common_.n_groups());
        Group own = common_.group(t);
        if (own.memory != kUnlimited) own.memory = sizes_.memory[g];
        return {own, place / static_cast<double>(n), sizes_.store_rows, Task::kRegrowsPerMemory};
    }

    bool is_replaced_when_full(std::size_t t) const {
        return common_.group(t).memory == kUnlimited;
    }

    bool regrows_within(std::size_t t, std::size_t n_rows) const {
        const Slot &slot = slots_[t];
        return slot.regrowth.is_active() || slot.due <= n_rows_ + n_rows ||
               (is_replaced_when_full(t) &&
                trees_[t].arena().n_leaves() + n_rows >= trees_[t].max_leaves());
    }

    void make_room_to_regrow(std::size_t t, std::size_t n_rows, std::size_t most_leaves) {
        const Group &group = common_.group(t);
        auto &[numbers, base, regrowth, due, n_regrows] = slots_[t];
        const std::size_t n_grown = n_rows_in_memory(t, n_rows_ + n_rows);
        const std::size_t n_since = regrowth.is_active() ? n_rows_ - regrowth.last() : 0;
        regrowth.make_room(context(), n_grown, n_since + n_rows);
        trees_[t].make_room(std::min(n_grown + n_rows, most_leaves));
        if (common_.columns.have_codes() && !group.is_plain)
            numbers.make_room(common_.layout.categories, n_grown);
        // It becomes that of the next regrowth, which may start in the same batch.
        if (group.has_base) base.make_room(common_.columns.size());
    }

    // Copying

    // The forest that holds a tree, and its place there.
    static std::pair<const RegrownTrees *, std::size_t>
    find(const RegrownTrees &other, std::span<const RegrownTrees *const> parts, std::size_t id) {
        for (std::size_t p = 0; p <= parts.size(); ++p) {
            const RegrownTrees *from = p == parts.size() ? &other : parts[p];
            for (std::size_t t = 0; t < from->size(); ++t)
                if (from->common_.id(t) == id) {
                    require(from->n_rows_ == other.n_rows_,
                            "parts must have learned the same rows");
                    return {from, t};
                }
        }
        throw std::invalid_argument("no part holds tree " + std::to_string(id));
    }

    // The rows that are still remembered, without the features that come later.
    void copy_rows(const RegrownTrees &other) {
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

    const Common &common_;
    AdaptiveSizes sizes_;
    std::vector<Tree> trees_; // group after group
    std::vector<Slot> slots_; // of the trees
    Store store_;
    std::size_t n_rows_ = 0; // learned
    bool has_gaps_ = false;  // whether there were missing values since the forest was built
};

} // namespace amforest
