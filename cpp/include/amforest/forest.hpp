// A forest: trees side by side, each with its own random stream.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <numeric>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <type_traits>
#include <utility>
#include <vector>

#include "amforest/base/parallel.hpp"
#include "amforest/base/require.hpp"
#include "amforest/base/shared_lock.hpp"
#include "amforest/contributions.hpp"
#include "amforest/io/tree_table.hpp"
#include "amforest/predictor.hpp"
#include "amforest/rows.hpp"

namespace amforest {

template <class Partition, LabelModel Labels> class Forest {
  public:
    using Label = typename Labels::Label;
    using Domain = typename Partition::Domain;
    using Parameters = typename Labels::Parameters;
    using Tree = amforest::Tree<Partition, Labels>;
    static_assert(std::is_nothrow_move_constructible_v<Tree> && std::is_nothrow_swappable_v<Tree>,
                  "trees can be replaced");

    // What the trees have in common.
    struct Common {
        Layout layout;
        Domain domain;
        Options options;
        std::shared_ptr<Parameters> parameters; // of the labels
        // Of the forest that this is a part of; none: this is all of it. They share its limits.
        std::optional<std::size_t> n_in_all = {};
    };

    Forest(Common common, std::vector<Tree> trees, std::size_t n_rows)
        : common_(std::move(common)), trees_(std::move(trees)), n_rows_(n_rows) {}

    // A copy with room for a later layout or for more classes, or with counts of another type.
    template <LabelModel Others>
    Forest(const Forest<Partition, Others> &other, const Layout &layout,
           const Parameters &parameters)
        : common_{layout, other.common_.domain, other.common_.options,
                  std::make_shared<Parameters>(parameters), other.common_.n_in_all},
          n_rows_(0) {
        require(layout.extends(other.layout()), "features and categories must not become fewer");
        const auto lock = other.lock_.read();
        other.common_.parameters->check_successor(parameters);
        n_rows_ = other.n_rows_;
        trees_.reserve(other.n_trees());
        for (const auto &tree : other.trees_)
            trees_.emplace_back(tree, common_.layout, common_.parameters, other.n_in_all());
    }

    // A copy that holds the given trees of `forests`, whose trees are counted through: a part, or
    // all of it again.
    Forest(std::span<const Forest *const> forests, std::span<const std::size_t> held, bool is_part)
        : common_(forests[0]->common_), n_rows_(forests[0]->n_rows_) {
        common_.parameters = std::make_shared<Parameters>(*common_.parameters);
        common_.n_in_all = is_part ? std::optional(forests[0]->n_in_all()) : std::nullopt;
        std::vector<const Tree *> all;
        for (const Forest *forest : forests) {
            require(forest->n_rows_ == n_rows_, "parts must have learned the same rows");
            for (const Tree &tree : forest->trees_) all.push_back(&tree);
        }
        trees_.reserve(held.size());
        for (const std::size_t t : held) {
            require(t < all.size(), "the numbers of trees must be those of trees");
            trees_.emplace_back(*all[t], common_.layout, common_.parameters,
                                forests[0]->n_in_all());
        }
    }

    const Layout &layout() const { return common_.layout; }
    const Domain &domain() const { return common_.domain; }
    static std::size_t feature_of(std::size_t column) { return column; } // of trees
    const Options &options() const { return common_.options; }
    std::size_t n_trees() const { return trees_.size(); }
    std::size_t n_in_all() const { return common_.n_in_all.value_or(n_trees()); }
    bool is_part() const { return common_.n_in_all.has_value(); }

    // Calls use(parameters, trees, n_rows), which belong to one moment, and returns what it
    // returns.
    template <class Use> auto inspect(const Use &use) const {
        const auto lock = lock_.read();
        return use(std::as_const(*common_.parameters), std::span<const Tree>(trees_), n_rows_);
    }

    // The numbers of a prediction; a new class adds one.
    std::size_t prediction_size() const {
        const auto lock = lock_.read();
        return size_now();
    }
    static std::size_t output_size(const Parameters &parameters) {
        return Labels::prediction_size(parameters);
    }

    // How many rows to pass at once: enough to find a tree's nodes in the cache again, few enough
    // to bound the scratch memory and the time for which others wait.
    std::size_t chunk_size() const {
        constexpr std::size_t kValues = 1 << 22, kPredictions = 1 << 20, kRowsInTrees = 1 << 16;
        const std::size_t n_rows =
            std::min({kValues / layout().n_features(),
                      kPredictions / prediction_size() / n_in_all(), kRowsInTrees / n_in_all()});
        return std::max<std::size_t>(n_rows, 1);
    }

    // How many of the next rows to learn at once: fewer while others wait to predict.
    std::size_t limit_rows(std::size_t n_rows) { return lock_.limit_rows(n_rows); }

    // Throws std::invalid_argument unless the rows are valid.
    template <class IsLearned>
    void check(const Matrix &X, const char *name, const IsLearned &is_learned) const {
        check_features(X, layout(), name, is_learned);
        check_domain(X, name, domain());
    }

    // A batch that is being learned, in chunks of rows; between two chunks others may predict. All
    // memory is there from the start: if there is none, nothing has changed, and later nothing
    // fails, unless others learn meanwhile. (In the unrestricted partition a row may fail, which
    // changes nothing either.)
    class Batch {
      public:
        // `weights` of all rows; without any, all are 1. With `n_outputs`, rows are predicted
        // before they are learned, and the predictions have so many numbers. New parameters of the
        // labels hold from the first row on.
        Batch(Forest &forest, std::size_t n_rows, std::span<const double> weights,
              std::size_t n_outputs = 0, const std::optional<Parameters> &parameters = {})
            : forest_(forest), n_outputs_(n_outputs), parameters_(parameters),
              by_tree_(forest.n_trees() * std::min(n_rows, forest.chunk_size()) * n_outputs) {
            const auto lock = forest.lock_.write();
            if (parameters) forest.common_.parameters->check_update(*parameters);
            forest.make_room(n_rows, weights);
            make_mixtures();
        }

        // Learns the next rows. One of weight 0 is skipped.
        void learn(const Matrix &X, std::span<const Label> y, std::span<const double> weights,
                   std::size_t n_threads) {
            const auto lock = begin(X, weights, n_threads);
            if (X.n_rows == 1 || !Partition::kSplitsOnce) {
                in_blocks(X, 0, [&](const PreparedRows &x, std::size_t first) {
                    for (std::size_t i = 0; i < x.size(); ++i)
                        forest_.learn_and_count(row(x[i], y, weights, first + i));
                });
            } else if constexpr (Partition::kSplitsOnce) {
                forest_.for_each_tree(X, n_threads, [&](std::size_t t, std::size_t worker) {
                    in_blocks(X, worker, [&](const PreparedRows &x, std::size_t first) {
                        const auto row_of = [&](std::size_t i) {
                            return row(x[i], y, weights, first + i);
                        };
                        forest_.trees_[t].learn(row_of, x.size());
                    });
                });
                forest_.count_rows(X.n_rows, weights);
            }
        }

        // Test-then-train: row i is predicted by the forest that has learned the rows before it.
        void predict_then_learn(const Matrix &X, std::span<const Label> y,
                                std::span<const double> weights, double *out,
                                std::size_t n_threads) {
            const auto lock = begin(X, weights, n_threads);
            predict_then_learn_each(X, y, weights, n_threads);
            // In the order of the trees: the same bits with any number of threads.
            const std::size_t size = X.n_rows * n_outputs_;
            std::fill_n(out, size, 0.0);
            for (std::size_t t = 0; t < forest_.n_trees(); ++t)
                for (std::size_t k = 0; k < size; ++k) out[k] += by_tree_[t * size + k];
            forest_.divide_by_trees({out, size});
        }

        // The same without the mean over trees: out[row][tree][output].
        void predict_then_learn_by_tree(const Matrix &X, std::span<const Label> y,
                                        std::span<const double> weights, double *out,
                                        std::size_t n_threads) {
            const auto lock = begin(X, weights, n_threads);
            predict_then_learn_each(X, y, weights, n_threads);
            for (std::size_t i = 0; i < X.n_rows; ++i)
                for (std::size_t t = 0; t < forest_.n_trees(); ++t)
                    out = std::copy_n(&by_tree_[(t * X.n_rows + i) * n_outputs_], n_outputs_, out);
        }

      private:
        // by_tree_[tree][row][output]
        void predict_then_learn_each(const Matrix &X, std::span<const Label> y,
                                     std::span<const double> weights, std::size_t n_threads) {
            // Few rows find too few of their nodes in the cache to take one tree after the other:
            // they descend all those of a thread side by side. Where a row may fail, all trees must
            // be together.
            constexpr std::size_t kFew = 512;
            const std::size_t n_trees = forest_.n_trees();
            const std::size_t n_threads_worth = forest_.worth_while(X, n_threads);
            const std::size_t n_groups = !Partition::kSplitsOnce ? 1
                                         : X.n_rows <= kFew ? std::min(n_threads_worth, n_trees)
                                                            : n_trees;
            for_each_index(n_groups, n_threads_worth, [&](std::size_t g, std::size_t worker) {
                const std::size_t begin = g * n_trees / n_groups;
                const std::size_t count = (g + 1) * n_trees / n_groups - begin;
                const auto trees = std::span(forest_.trees_).subspan(begin, count);
                in_blocks(X, worker, [&](const PreparedRows &x, std::size_t first) {
                    for (std::size_t i = 0; i < x.size(); ++i) {
                        const Row<Label> next = row(x[i], y, weights, first + i);
                        predict(trees, next.x, worker, [&](std::size_t t) {
                            return &by_tree_[((begin + t) * X.n_rows + first + i) * n_outputs_];
                        });
                        learn_row(trees, next);
                        if (!Partition::kSplitsOnce) forest_.count_row(next.weight);
                    }
                });
            });
            if (Partition::kSplitsOnce) forest_.count_rows(X.n_rows, weights);
        }

        std::unique_lock<std::shared_mutex> begin(const Matrix &X, std::span<const double> weights,
                                                  std::size_t n_threads) {
            const Layout &layout = forest_.layout();
            while (blocks_.size() < std::clamp<std::size_t>(
                                        n_threads, 1, std::max<std::size_t>(forest_.n_trees(), 1)))
                blocks_.emplace_back(layout, PreparedRows::block_size(layout));
            auto lock = forest_.lock_.write();
            forest_.make_room(X.n_rows, weights);
            make_mixtures();
            if (parameters_) {
                forest_.common_.parameters->check_update(*parameters_);
                *forest_.common_.parameters = *parameters_;
            }
            parameters_.reset();
            if (have_gaps(X)) forest_.expect_gaps();
            return lock;
        }

        // Calls use(x, first) for blocks of prepared rows from the first on. Each worker prepares
        // its own: the memory for all rows would be a tenth of a small forest's.
        template <class Use> void in_blocks(const Matrix &X, std::size_t worker, const Use &use) {
            PreparedRows &x = blocks_[worker];
            for (std::size_t first = 0; first < X.n_rows; first += x.capacity()) {
                x.set(X.rows(first, std::min(x.capacity(), X.n_rows - first)));
                use(x, first);
            }
        }

        // For one walk in each thread, of which there are not more than trees.
        void make_mixtures() {
            if (n_outputs_ == 0) return;
            mixture_size_ = Predictor<Partition, Labels>::memory_size(*forest_.common_.parameters);
            mixtures_.resize(forest_.n_trees() * mixture_size_);
        }

        static Row<Label> row(Point x, std::span<const Label> y, std::span<const double> weights,
                              std::size_t i) {
            return {x, y[i], weight_at(weights, i)};
        }

        // The prediction of x by each of the trees, to where `place_of(tree)` is.
        template <class PlaceOf>
        void predict(std::span<const Tree> trees, Point x, std::size_t worker,
                     const PlaceOf &place_of) {
            Predictor<Partition, Labels> predictor(
                forest_.options(), *forest_.common_.parameters,
                std::span(mixtures_).subspan(worker * mixture_size_, mixture_size_));
            predictor.predict(
                trees, [&](std::size_t, std::size_t) { return x; }, 0, 1,
                [&](std::size_t t, std::size_t, const auto &prediction) {
                    std::ranges::copy(prediction.first(n_outputs_), place_of(t));
                });
        }

        Forest &forest_;
        std::size_t n_outputs_, mixture_size_ = 0;
        std::optional<Parameters> parameters_;
        std::vector<PreparedRows> blocks_; // one for each thread
        std::vector<double> by_tree_, mixtures_;
    };

    // Learns one row: the fast way of a batch. False, and nothing is learned, if the weights of all
    // rows would add up to too much.
    [[nodiscard]] bool learn(const Matrix &x, Label y, double weight) {
        const PreparedRows rows(layout(), x);
        const auto lock = lock_.write();
        require(Labels::accepts(*common_.parameters, y), Labels::kAccepted);
        if (largest_weight() + weight > Labels::kMost) return false;
        make_room(1, {&weight, 1});
        if (have_gaps(x)) expect_gaps();
        learn_and_count({rows[0], y, weight});
        return true;
    }

    // out[row][output], with as many outputs as the forest has now. Returns how many.
    std::size_t predict(const Matrix &X, std::vector<double> &out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t size = size_now();
        out.assign(X.n_rows * size, 0.0);
        for_each_prediction(X, n_threads, [&](std::size_t, std::size_t i, const auto &prediction) {
            for (std::size_t k = 0; k < size; ++k) out[i * size + k] += prediction[k];
        });
        divide_by_trees(out);
        return size;
    }

    // The same for each tree: out[row][tree][output].
    std::size_t predict_by_tree(const Matrix &X, std::vector<double> &out,
                                std::size_t n_threads) const {
        const auto lock = lock_.read();
        const std::size_t size = size_now();
        out.resize(X.n_rows * n_trees() * size);
        for_each_prediction(X, n_threads,
                            [&](std::size_t t, std::size_t i, const auto &prediction) {
                                std::ranges::copy(prediction, &out[(i * n_trees() + t) * size]);
                            });
        return size;
    }

    // out[row][0][output] has the base values, out[row][1 + feature][output] the contributions:
    // sums of these are the prediction. Returns how many outputs there are.
    static constexpr double kBaseOfUnknown = 0; // the probability of a class that is not known yet
    std::size_t explain(const Matrix &X, std::vector<double> &out, std::size_t n_threads) const {
        require(!is_part(), "a part of a forest has no contributions: explain all of it");
        const auto lock = lock_.read();
        const std::size_t size = Labels::explained_size(*common_.parameters);
        const std::size_t n_each = (1 + layout().n_features()) * size;
        const double part = 1 / static_cast<double>(n_trees());
        out.assign(X.n_rows * n_each, 0.0);
        with_points(X, [&](const auto &point_at) {
            for_each_block(
                X.n_rows, worth_while(X, n_threads), [&](std::size_t first, std::size_t last) {
                    Explainer<Partition, Labels>(options(), *common_.parameters)
                        .explain(trees_, point_at, first, last, [&](std::size_t, std::size_t i) {
                            return Sums{std::span(out).subspan(i * n_each, n_each), part};
                        });
                });
        });
        return size;
    }

    // out[row][tree]
    void weighted_depth(const Matrix &X, double *out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        with_points(X, [&](const auto &point_at) {
            for_each_block(X.n_rows, worth_while(X, n_threads),
                           [&](std::size_t first, std::size_t last) {
                               for (std::size_t t = 0; t < n_trees(); ++t)
                                   for (std::size_t i = first; i < last; ++i)
                                       out[i * n_trees() + t] =
                                           trees_[t].weighted_depth(point_at(t, i).values);
                           });
        });
    }

    // out[row][tree] = the leaf, as a row of the tree's table
    void apply(const Matrix &X, std::int64_t *out, std::size_t n_threads) const {
        const auto lock = lock_.read();
        for_each_index(n_trees(), n_threads, [&](std::size_t t, std::size_t) {
            const std::vector<std::int64_t> table_row = table_rows_of_leaves(trees_[t].arena());
            for (std::size_t i = 0; i < X.n_rows; ++i)
                out[i * n_trees() + t] = table_row[row_of(trees_[t].leaf_of(X[i]))];
        });
    }

  private:
    template <class, LabelModel> friend class Forest;

    // One row finds none of its nodes in the cache: it descends the trees side by side. (In a batch
    // this would cost more than it gains, because each tree's nodes stay in the cache.) Flattened
    // for the same reason as Tree::learn.
    [[gnu::flatten]] static void learn_row(std::span<Tree> trees, const Row<Label> &row) {
        struct Learner {
            Tree *tree;
            NodeId v;
        };
        if (row.weight == 0) return;
        std::array<Learner, kTogether> places;
        for (std::size_t first = 0; first < trees.size(); first += kTogether) {
            const std::size_t count = std::min(kTogether, trees.size() - first);
            const std::span<Learner> learners(places.data(), count);
            for (std::size_t k = 0; k < count; ++k)
                learners[k] = {&trees[first + k], trees[first + k].start()};
            const bool has_codes = trees[first].arena().layout().n_codes() > 0;
            interleave(learners, [&](Learner &l) {
                return has_codes
                           ? l.tree->descend(l.v, row.x.values, row.y)
                           : l.tree->template descend<Splits::kNumbers>(l.v, row.x.values, row.y);
            });
        }
        if constexpr (!Partition::kSplitsOnce) prepare_extensions(trees, row.x);
        for (Tree &tree : trees) {
            tree.credit_in_turn(row.y, row.weight);
            tree.extend(row);
            while (tree.ascend(row.y, row.weight)) {
            }
        }
    }

    void learn_and_count(const Row<Label> &row) {
        learn_row(trees_, row);
        count_row(row.weight);
    }

    void expect_gaps() {
        for (Tree &tree : trees_) tree.expect_gaps();
    }

    // In all trees or in none.
    static void prepare_extensions(std::span<Tree> trees, Point x) {
        std::size_t t = 0;
        try {
            for (; t < trees.size(); ++t) trees[t].prepare_extension(x);
        } catch (...) {
            for (++t; t-- > 0;) trees[t].undo_preparation();
            throw;
        }
    }

    template <class Work> void for_each_tree(const Matrix &X, std::size_t n_threads, Work &&work) {
        for_each_index(n_trees(), worth_while(X, n_threads), work);
    }

    // As many threads as have work for longer than it takes to start one.
    std::size_t worth_while(const Matrix &X, std::size_t n_threads) const {
        constexpr std::size_t kRowsInTrees = 512;
        return std::min(n_threads, 1 + X.n_rows * n_trees() / kRowsInTrees);
    }

    // Calls work(first, last) on blocks of rows that keep every thread busy.
    template <class Work>
    static void for_each_block(std::size_t n_rows, std::size_t n_threads, const Work &work) {
        const std::size_t n_blocks = n_threads > 1 ? 4 * n_threads : 1;
        const std::size_t block = std::max(kTogether, (n_rows + n_blocks - 1) / n_blocks);
        for_each_index((n_rows + block - 1) / block, n_threads, [&](std::size_t b, std::size_t) {
            work(b * block, std::min(n_rows, (b + 1) * block));
        });
    }

    // Calls use(tree, row, prediction); for each row in the order of the trees.
    template <class Use>
    void for_each_prediction(const Matrix &X, std::size_t n_threads, const Use &use) const {
        with_points(X, [&](const auto &point_at) {
            for_each_block(X.n_rows, worth_while(X, n_threads),
                           [&](std::size_t first, std::size_t last) {
                               Predictor<Partition, Labels>(options(), *common_.parameters)
                                   .predict(trees_, point_at, first, last, use);
                           });
        });
    }

    // Calls use(point_at). Only ranges need more than the values as they are.
    template <class Use> void with_points(const Matrix &X, const Use &use) const {
        if (!options().predicts_from_ranges())
            return use([&](std::size_t, std::size_t i) { return Point{X[i], nullptr}; });
        const PreparedRows rows(layout(), X);
        use([&](std::size_t, std::size_t i) { return rows[i]; });
    }

    void divide_by_trees(std::span<double> sums) const {
        for (double &sum : sums) sum /= static_cast<double>(n_trees());
    }

    std::size_t size_now() const { return Labels::prediction_size(*common_.parameters); }

    // Room for all that learning the rows may need, before anything changes.
    void make_room(std::size_t n_rows, std::span<const double> weights) {
        // In the order in which a root adds them, for the same rounding; which preserves order, so
        // that the largest tree suffices.
        double total = largest_weight();
        if (n_rows_ + n_rows > kMostRows) // no tree has learned more rows than the forest
            throw std::length_error("a forest learns at most 2**31 - 1 rows");
        total = weights.empty() ? total + static_cast<double>(n_rows)
                                : std::accumulate(weights.begin(), weights.end(), total);
        if (total > Labels::kMost)
            throw std::length_error("the weights of all rows add up to too much");
        for (Tree &tree : trees_) tree.make_room(n_rows);
    }

    double largest_weight() const {
        double largest = 0;
        for (const Tree &tree : trees_) largest = std::max(largest, tree.total_weight());
        return largest;
    }

    void count_row(double weight) { n_rows_ += weight == 0 ? 0 : 1; }
    void count_rows(std::size_t n_rows, std::span<const double> weights) {
        n_rows_ += n_rows;
        n_rows_ -= static_cast<std::size_t>(std::ranges::count(weights, 0.0));
    }

    Common common_;
    std::vector<Tree> trees_;
    std::size_t n_rows_; // learned
    SharedLock lock_;    // many may predict, or one may learn
};

} // namespace amforest
