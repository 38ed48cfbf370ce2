// The adaptive forest: groups of trees that are regrown from remembered rows, and a mixer.
//
// One row: each tree predicts it and learns it (tree_learner.hpp); the mixer makes one prediction
// of those of the groups, and learns, too (mixed_experts.hpp); trees whose time has come are
// replaced by others that are regrown meanwhile (regrown_trees.hpp).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "amforest/adaptive/adaptive_common.hpp"
#include "amforest/adaptive/adaptive_explainer.hpp"
#include "amforest/adaptive/mixed_experts.hpp"
#include "amforest/adaptive/regrown_trees.hpp"
#include "amforest/adaptive/seen_rows.hpp"
#include "amforest/adaptive/tree_learner.hpp"
#include "amforest/base/parallel.hpp"
#include "amforest/base/require.hpp"
#include "amforest/base/shared_lock.hpp"
#include "amforest/io/tree_table.hpp"
#include "amforest/rows.hpp"

namespace amforest {

// `Task` tells what is predicted: class_task.hpp, number_task.hpp.
template <class Task> class AdaptiveForest {
  public:
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Domain = Everywhere;
    using Parameters = typename Labels::Parameters;
    using Common = AdaptiveCommon<Task>;
    using Trees = RegrownTrees<Task>;
    using Tree = typename Trees::Tree;
    using Slot = typename Trees::Slot;
    using Mixed = MixedExperts<Task>;

    // A forest that has learned nothing.
    AdaptiveForest(Common common, const std::vector<Rng::State> &seeds)
        : AdaptiveForest(std::move(common)) {
        trees_.add_empty(seeds);
    }

    // One whose trees, rows and mixer are set by `fill(forest)`.
    template <class Fill>
        requires std::is_invocable_v<Fill, AdaptiveForest &>
    AdaptiveForest(Common common, const Fill &fill) : AdaptiveForest(std::move(common)) {
        fill(*this);
    }

    // A copy with room for a later layout or for more classes.
    AdaptiveForest(const AdaptiveForest &other, const Layout &layout, const Parameters &parameters)
        : AdaptiveForest(other, {}, other.common_.extended(layout, parameters)) {}

    // A copy that holds the given trees: its own, or those of the parts.
    AdaptiveForest(const AdaptiveForest &other, std::span<const AdaptiveForest *const> parts,
                   std::optional<std::vector<std::size_t>> held)
        : AdaptiveForest(other, parts, other.common_.holding(std::move(held))) {}

    const Common &common() const { return common_; }
    const Layout &layout() const { return common_.layout; }
    const Options &options() const { return common_.options; }
    Domain domain() const { return {}; }
    std::size_t feature_of(std::size_t column) const { return common_.columns.features()[column]; }
    std::size_t n_trees() const { return common_.n_trees(); }
    std::size_t n_in_all() const { return common_.n_in_all(); } // with those of other parts
    std::size_t n_groups() const { return common_.n_groups(); }
    std::size_t n_experts() const { return common_.n_experts(); } // that are mixed
    bool is_part() const { return common_.is_part(); }

    // Calls use(parameters, trees, n_rows), which belong to one moment.
    template <class Use> auto inspect(const Use &use) const {
        const auto lock = lock_.read();
        return use(std::as_const(*common_.parameters), trees_.all(), n_rows());
    }
    // Calls use(forest), of one moment.
    template <class Use> auto inspect_all(const Use &use) const {
        const auto lock = lock_.read();
        return use(*this);
    }
    std::size_t n_rows() const { return trees_.n_rows(); }
    const Trees &regrown_trees() const { return trees_; }
    const Mixed &mixed_experts() const { return mixed_; }
    // To restore them.
    Trees &regrown_trees() { return trees_; }
    Mixed &mixed_experts() { return mixed_; }

    std::size_t bytes() const {
        const auto lock = lock_.read();
        return trees_.bytes() + mixed_.bytes();
    }

    // Whether to keep the loss of the prediction of each row before it is learned.
    void keep_losses(bool are_kept) {
        const auto lock = lock_.write();
        has_room_for_ = nullptr;
        mixed_.keep_losses(are_kept);
    }
    // Those of the rows since the last call, and the number of the first of these rows.
    std::pair<std::size_t, std::vector<double>> take_losses() {
        const auto lock = lock_.write();
        has_room_for_ = nullptr;
        return mixed_.take_losses();
    }

    std::size_t prediction_size() const {
        const auto lock = lock_.read();
        return output_size(*common_.parameters);
    }
    static std::size_t output_size(const Parameters &parameters) {
        return Mixed::output_size(parameters);
    }

    template <class IsLearned>
    void check(const Matrix &X, const char *name, const IsLearned &is_learned) const {
        check_features(X, layout(), name, is_learned);
    }

    // Learning

    // How many rows to pass at once: few enough to bound the scratch memory and the time for which
    // others wait.
    std::size_t chunk_size() const { return chunk_size_; }

    // How many of the next rows to learn at once: fewer while others wait to predict.
    std::size_t limit_rows(std::size_t n_rows) { return lock_.limit_rows(n_rows); }

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
            forest_.predict_then_learn(X, y, weights, out, n_threads);
        }

        // The same of a part: predictions are not mixed, and the mixer does not learn.
        // out[row][tree][output]
        void predict_then_learn_by_tree(const Matrix &X, std::span<const Label> y,
                                        std::span<const double> weights, double *out,
                                        std::size_t n_threads) {
            const auto lock = begin(X, weights);
            TreeLearner<Task> &learner = forest_.learner_;
            learner.predict_then_learn(X, y, weights, n_threads);
            for (std::size_t i = 0; i < X.n_rows; ++i)
                for (std::size_t t = 0; t < forest_.n_trees(); ++t)
                    out = std::ranges::copy(learner.prediction_of(t, X.n_rows, i), out).out;
        }

        // The same where the trees are elsewhere: by_tree[row][tree][output] are their predictions.
        void mix_then_learn(const Matrix &X, std::span<const Label> y,
                            std::span<const double> weights, const double *by_tree, double *out) {
            const auto lock = begin(X, weights);
            const std::size_t n_before = forest_.n_rows();
            forest_.trees_.remember(X, y, weights);
            forest_.mixed_.predict_then_learn(X, y, weights, n_before,
                                              forest_.by_other_tree(by_tree), out);
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
            forest_.make_room(n_rows, weights,
                              parameters_ ? *parameters_ : *forest_.common_.parameters);
        }

        AdaptiveForest &forest_;
        std::optional<Parameters> parameters_;
    };

    // Learns one row. False, and nothing is learned, if the weights of all rows would add up to too
    // much.
    [[nodiscard]] bool learn(const Matrix &x, Label y, double weight) {
        const auto lock = lock_.write();
        require(Labels::accepts(*common_.parameters, y), Labels::kAccepted);
        if (trees_.weighs_too_much(1, {&weight, 1})) return false;
        make_room(1, {&weight, 1}, *common_.parameters);
        predict_then_learn(x, {&y, 1}, {&weight, 1}, nullptr, 1);
        return true;
    }

    // Predicting

    // out[row][output]. Returns how many outputs there are.
    std::size_t predict(const Matrix &X, std::vector<double> &out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t n_each = n_experts() * common_.tree_size();
        const std::size_t size = output_size(*common_.parameters);
        out.resize(X.n_rows * size);
        for_each_block(X, n_threads, [&](const SeenRows &rows) {
            std::vector<double> by_expert((rows.last - rows.first) * n_each);
            predict_experts(rows, by_expert);
            for (std::size_t i = rows.first; i < rows.last; ++i)
                mixed_.mixer().mix(std::span(by_expert).subspan((i - rows.first) * n_each, n_each),
                                   std::span(out).subspan(i * size, size));
        });
        return size;
    }

    // Before they are mixed: out[row][expert][output of a tree].
    std::size_t predict_by_expert(const Matrix &X, std::vector<double> &out,
                                  std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t size = common_.tree_size(), n_each = n_experts() * size;
        out.assign(X.n_rows * n_each, 0.0);
        for_each_block(X, n_threads, [&](const SeenRows &rows) {
            predict_experts(rows, std::span(out).subspan(rows.first * n_each,
                                                         (rows.last - rows.first) * n_each));
        });
        return size;
    }

    // The same for each tree: out[row][tree][output].
    std::size_t predict_by_tree(const Matrix &X, std::vector<double> &out,
                                std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t size = common_.tree_size();
        out.resize(X.n_rows * n_trees() * size);
        for_each_block(X, n_threads, [&](const SeenRows &rows) {
            trees_.predict(rows, [&](std::size_t t, std::size_t i, const auto &prediction) {
                std::ranges::copy(prediction, &out[(i * n_trees() + t) * size]);
            });
        });
        return size;
    }

    // The same as `predict` where the trees are elsewhere: by_tree[row][tree][output] are their
    // predictions.
    std::size_t mix(const Matrix &X, const double *by_tree, std::vector<double> &out) const {
        const auto lock = lock_.read();
        const std::size_t size = output_size(*common_.parameters);
        std::vector<double> by_expert(n_experts() * common_.tree_size());
        std::vector<double> scratch(mixed_.experts().scratch_size());
        out.resize(X.n_rows * size);
        for (std::size_t i = 0; i < X.n_rows; ++i) {
            mixed_.collect(X[i], i, by_other_tree(by_tree), by_expert, scratch);
            mixed_.mixer().mix(by_expert, std::span(out).subspan(i * size, size));
        }
        return size;
    }
    std::size_t mix_by_expert(const Matrix &X, const double *by_tree,
                              std::vector<double> &out) const {
        const auto lock = lock_.read();
        const std::size_t size = common_.tree_size(), n_each = n_experts() * size;
        std::vector<double> scratch(mixed_.experts().scratch_size());
        out.resize(X.n_rows * n_each);
        for (std::size_t i = 0; i < X.n_rows; ++i)
            mixed_.collect(X[i], i, by_other_tree(by_tree),
                           std::span(out).subspan(i * n_each, n_each), scratch);
        return size;
    }

    // out[row][0][output] has the base values, out[row][1 + feature][output] the contributions.
    // Sums of these are the mean of a prediction of numbers, and up to a constant the logarithms of
    // the probabilities of classes. Returns how many outputs there are.
    static constexpr double kBaseOfUnknown = -std::numeric_limits<double>::infinity();
    std::size_t explain(const Matrix &X, std::vector<double> &out, std::size_t n_threads) const {
        require(!is_part(), "a part of a forest has no contributions: explain all of it");
        const auto lock = lock_.read();
        const AdaptiveExplainer<Task> explainer(common_, trees_, mixed_);
        const std::size_t n_each = n_experts() * common_.tree_size();
        out.assign(X.n_rows * explainer.row_size(), 0.0);
        for_each_block(X, n_threads, [&](const SeenRows &rows) {
            std::vector<double> by_expert((rows.last - rows.first) * n_each);
            predict_experts(rows, by_expert);
            explainer.explain(rows, by_expert, &out[rows.first * explainer.row_size()]);
        });
        return explainer.size();
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
        for (const Tree &tree : trees_.all())
            table_rows.push_back(table_rows_of_leaves(tree.arena()));
        for_each_point(X, n_threads, [&](std::size_t t, std::size_t i, const float *x) {
            out[i * n_trees() + t] = table_rows[t][row_of(trees_[t].leaf_of(x))];
        });
    }

  private:
    explicit AdaptiveForest(Common common)
        : common_(std::move(common)), trees_(common_), learner_(common_, trees_), mixed_(common_) {}

    AdaptiveForest(const AdaptiveForest &other, std::span<const AdaptiveForest *const> parts,
                   Common common)
        : AdaptiveForest(std::move(common)) {
        const auto lock = other.lock_.read();
        std::vector<const Trees *> trees_of_parts;
        for (const AdaptiveForest *part : parts) trees_of_parts.push_back(&part->trees_);
        trees_.copy(other.trees_, trees_of_parts);
        mixed_.copy(other.mixed_);
    }

    // Room for all that learning the rows may need, before anything changes. `parameters` are those
    // with which they are learned.
    void make_room(std::size_t n_rows, std::span<const double> weights,
                   const Parameters &parameters) {
        has_room_for_ = nullptr; // a batch must make room again if others learn between its chunks
        if (this->n_rows() + n_rows > kMostRows)
            throw std::length_error("a forest learns at most 2**31 - 1 rows");
        if (trees_.weighs_too_much(n_rows, weights))
            throw std::length_error("the weights of all rows add up to too much");
        trees_.make_room(n_rows);
        learner_.make_room(std::min(n_rows, chunk_size()), parameters);
        mixed_.make_room(this->n_rows(), n_rows, parameters);
    }

    void set_parameters(const Parameters &parameters) {
        if (parameters == *common_.parameters) return; // regrowths need not start again
        *common_.parameters = parameters;
        trees_.restart_regrowths();
    }

    // `out` may be null.
    void predict_then_learn(const Matrix &X, std::span<const Label> y,
                            std::span<const double> weights, double *out, std::size_t n_threads) {
        const std::size_t n_before = n_rows();
        learner_.predict_then_learn(X, y, weights, n_threads);
        const auto by_held_tree = [&](std::size_t t, std::size_t i) -> std::span<const double> {
            return learner_.prediction_of(t, X.n_rows, i);
        };
        mixed_.predict_then_learn(X, y, weights, n_before, by_held_tree, out);
    }

    // Where the prediction of row i by each tree is, if the trees are elsewhere.
    auto by_other_tree(const double *by_tree) const {
        return [=, size = common_.tree_size(), n = n_in_all()](std::size_t t, std::size_t i) {
            return std::span(by_tree + (i * n + t) * size, size);
        };
    }

    // out[row][expert][output of a tree], 0 at the start.
    void predict_experts(const SeenRows &rows, std::span<double> out) const {
        const std::size_t n_each = n_experts() * common_.tree_size();
        const auto out_of = [&](std::size_t i) {
            return out.subspan((i - rows.first) * n_each, n_each);
        };
        trees_.predict(rows, [&](std::size_t t, std::size_t i, std::span<const double> prediction) {
            mixed_.add_tree(out_of(i), common_.id(t), prediction);
        });
        std::vector<double> scratch(mixed_.experts().scratch_size());
        for (std::size_t i = rows.first; i < rows.last; ++i)
            mixed_.predict_experts(rows.X[i], out_of(i), scratch);
    }

    // Calls work(rows) for blocks of rows, as the trees see them.
    template <class Work>
    void for_each_block(const Matrix &X, std::size_t n_threads, const Work &work) const {
        constexpr std::size_t kRows = 64;
        for_each_index((X.n_rows + kRows - 1) / kRows, n_threads, [&](std::size_t b, std::size_t) {
            work(trees_.see(X, b * kRows, std::min(X.n_rows, (b + 1) * kRows)));
        });
    }

    // Calls use(tree, row, x as the tree sees it).
    template <class Use>
    void for_each_point(const Matrix &X, std::size_t n_threads, const Use &use) const {
        for_each_index(n_trees(), n_threads, [&](std::size_t t, std::size_t) {
            std::vector<float> x(padded(common_.columns.size()));
            for (std::size_t i = 0; i < X.n_rows; ++i) {
                common_.columns.encode(X[i], trees_.slots()[t].numbers, x.data());
                use(t, i, x.data());
            }
        });
    }

    static std::size_t count_chunk_rows(const Common &common) {
        constexpr std::size_t kPredictions = 1 << 20;
        return std::clamp<std::size_t>(kPredictions / Task::capacity(*common.parameters) /
                                           common.n_in_all(),
                                       1, AdaptiveSizes::kChunk);
    }

    Common common_; // the others refer to it
    // New classes do not change it, and it is read without a lock while they are set.
    const std::size_t chunk_size_ = count_chunk_rows(common_);
    Trees trees_;
    TreeLearner<Task> learner_;
    Mixed mixed_;
    SharedLock lock_;                     // many may predict, or one may learn
    const Batch *has_room_for_ = nullptr; // for all its rows
};

} // namespace amforest
