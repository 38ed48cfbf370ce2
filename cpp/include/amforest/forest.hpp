// A forest: trees side by side, each with its own random stream.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <optional>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "amforest/parallel.hpp"
#include "amforest/predictor.hpp"
#include "amforest/rows.hpp"
#include "amforest/tree_table.hpp"

namespace amforest {

template <LabelModel Labels> class Forest {
  public:
    using Label = typename Labels::Label;
    static constexpr std::size_t kMostRows = kLeafBit - 1; // ids are 31 bits wide

    explicit Forest(std::vector<Tree<Labels>> trees, std::size_t n_samples = 0)
        : trees_(std::move(trees)), n_samples_(n_samples) {}

    const Layout &layout() const { return trees_.front().arena().layout(); }
    std::size_t n_trees() const { return trees_.size(); }
    // The rows that were learnt.
    std::size_t n_samples() const {
        const auto lock = reading();
        return n_samples_;
    }
    // The sum of their weights.
    double total_weight() const {
        const auto lock = reading();
        return trees_.front().n_samples();
    }
    // How many numbers a forecast has; with a new class they become more.
    std::size_t forecast_size() const {
        const auto lock = reading();
        return trees_.front().labels().forecast_size();
    }

    const Tree<Labels> &tree(std::size_t i) const { return trees_.at(i); }

    // The right to look at the forest, together with others. A learner that waits goes first:
    // otherwise many who forecast could keep it waiting for ever.
    std::shared_lock<std::shared_mutex> reading() const {
        if (learner_waits_) const std::lock_guard wait(gate_);
        return std::shared_lock(mutex_);
    }

    // Calls use(trees, n_samples), which belong to one moment.
    template <class Use> void look(const Use &use) const {
        const auto lock = reading();
        use(std::span<const Tree<Labels>>(trees_), n_samples_);
    }

    // How many rows should be given at once: enough to find a tree's nodes in the cache again,
    // few enough to bound the scratch memory and the time for which others have to wait.
    std::size_t rows_at_once() const {
        constexpr std::size_t kValues = 1 << 22, kForecasts = 1 << 20, kRowsInTrees = 1 << 16;
        return std::max<std::size_t>(
            std::min({kValues / layout().n_features(), kForecasts / forecast_size() / n_trees(),
                      kRowsInTrees / n_trees()}),
            1);
    }

    std::size_t bytes() const {
        const auto lock = reading();
        std::size_t sum = 0;
        for (const Tree<Labels> &tree : trees_) sum += tree.bytes();
        return sum;
    }

    std::size_t n_nodes() const {
        const auto lock = reading();
        std::size_t sum = 0;
        for (const Tree<Labels> &tree : trees_)
            sum += tree.arena().n_inner() + tree.arena().n_leaves();
        return sum;
    }

    // Of each tree, the largest depth of a leaf; -1 before the first.
    std::vector<std::int64_t> depths() const {
        const auto lock = reading();
        std::vector<std::int64_t> depths;
        for (const Tree<Labels> &tree : trees_) depths.push_back(depth_of(tree.arena()));
        return depths;
    }

    // A batch that is being learnt, in chunks of rows; between two chunks others may forecast. All
    // memory is there from the start: if there is none, nothing has changed, and later nothing
    // fails, unless others learn meanwhile. (In the unrestricted partition a row may fail, which
    // changes nothing either.)
    class Batch {
      public:
        // `weights` of all rows; without any, all are 1. With `entries`, rows are forecast before
        // they are learnt, and the forecasts have so many numbers.
        // A new prior, of which all trees share one, is there from the first of the rows on.
        Batch(Forest &forest, std::size_t n_rows, std::span<const double> weights,
              std::size_t entries = 0, const std::optional<ClassPrior> &prior = {})
            : forest_(forest), entries_(entries), prior_(prior),
              by_tree_(forest.n_trees() * std::min(n_rows, forest.rows_at_once()) * entries) {
            const auto lock = forest.writing();
            forest.prepare(n_rows, weights);
            make_mixtures();
        }

        // The next rows. One of weight 0 is not learnt.
        void learn(const Matrix &X, std::span<const Label> y, std::span<const double> weights,
                   std::size_t n_threads) {
            const auto lock = begin(X, n_threads);
            if (X.n_rows == 1 || forest_.layout().has_box())
                return in_blocks(X, 0, [&](const PreparedRows &x, std::size_t first) {
                    for (std::size_t i = 0; i < x.size(); ++i)
                        forest_.learn_and_count(row(x[i], y, weights, first + i));
                });
            forest_.for_each_tree(X, n_threads, [&](std::size_t t, std::size_t worker) {
                in_blocks(X, worker, [&](const PreparedRows &x, std::size_t first) {
                    const auto row_of = [&](std::size_t i) {
                        return row(x[i], y, weights, first + i);
                    };
                    forest_.trees_[t].learn(row_of, x.size());
                });
            });
            forest_.count_samples(X.n_rows, weights);
        }

        // Test-then-train: row i is forecast by the forest that has learnt the rows before it.
        void predict_then_learn(const Matrix &X, std::span<const Label> y,
                                std::span<const double> weights, double *out,
                                std::size_t n_threads) {
            const auto lock = begin(X, n_threads);
            const bool has_box = forest_.layout().has_box();
            const auto each_row = [&](std::size_t begin, auto trees, std::size_t worker) {
                in_blocks(X, worker, [&](const PreparedRows &x, std::size_t first) {
                    for (std::size_t i = 0; i < x.size(); ++i) {
                        const Row<Label> next = row(x[i], y, weights, first + i);
                        predict(trees, next.x, worker, [&](std::size_t t) {
                            return &by_tree_[((begin + t) * X.n_rows + first + i) * entries_];
                        });
                        if constexpr (trees.extent == 1)
                            trees.front().learn([&](std::size_t) { return next; }, 1);
                        else
                            learn_one(trees, next);
                        if (has_box) forest_.count_sample(next.weight);
                    }
                });
            };
            // Few rows find too few of their nodes in the cache to take one tree after the other:
            // they go down all those of a thread side by side. In a box, where a row may fail, all
            // trees must be together.
            constexpr std::size_t kFew = 512;
            if (has_box || X.n_rows <= kFew) {
                const std::size_t n_trees = forest_.n_trees();
                const std::size_t n_groups =
                    has_box ? 1 : std::min(forest_.worth_while(X, n_threads), n_trees);
                for_each_index(n_groups, n_groups, [&](std::size_t g, std::size_t worker) {
                    const std::size_t begin = g * n_trees / n_groups;
                    const std::size_t count = (g + 1) * n_trees / n_groups - begin;
                    each_row(begin, std::span(forest_.trees_).subspan(begin, count), worker);
                });
            } else {
                forest_.for_each_tree(X, n_threads, [&](std::size_t t, std::size_t worker) {
                    each_row(t, std::span<Tree<Labels>, 1>(&forest_.trees_[t], 1), worker);
                });
            }
            if (!has_box) forest_.count_samples(X.n_rows, weights);
            // In the trees' order: the same bits however many threads there were.
            const std::size_t size = X.n_rows * entries_;
            std::fill_n(out, size, 0.0);
            for (std::size_t t = 0; t < forest_.n_trees(); ++t)
                for (std::size_t k = 0; k < size; ++k) out[k] += by_tree_[t * size + k];
            forest_.divide_by_trees({out, size});
        }

      private:
        std::unique_lock<std::shared_mutex> begin(const Matrix &X, std::size_t n_threads) {
            const Layout &layout = forest_.layout();
            while (blocks_.size() < std::min(n_threads, forest_.n_trees()))
                blocks_.emplace_back(layout, PreparedRows::at_once(layout));
            auto lock = forest_.writing();
            forest_.prepare(X.n_rows, {});
            make_mixtures();
            if constexpr (HasPrior<Labels>)
                if (prior_) forest_.trees_.front().labels().set_prior(*prior_);
            prior_.reset();
            if (have_gaps(X)) forest_.expect_gaps();
            return lock;
        }

        // Calls use(x, first) for blocks of rows from the first on, prepared. Each worker does so
        // for itself: the memory for all rows would be a tenth of a small forest's.
        template <class Use> void in_blocks(const Matrix &X, std::size_t worker, const Use &use) {
            PreparedRows &x = blocks_[worker];
            for (std::size_t first = 0; first < X.n_rows; first += x.capacity()) {
                x.set(X.rows(first, std::min(x.capacity(), X.n_rows - first)));
                use(x, first);
            }
        }

        // For one walk in each thread, of which there are not more than trees.
        void make_mixtures() {
            if (entries_ == 0) return;
            mixture_size_ = Predictor<Labels>::memory_size(forest_.tree(0).labels());
            mixtures_.resize(forest_.n_trees() * mixture_size_);
        }

        static Row<Label> row(Point x, std::span<const Label> y, std::span<const double> weights,
                              std::size_t i) {
            return {x, y[i], weights.empty() ? 1.0 : weights[i]};
        }

        // The forecast of x by each of the trees, to where `place_of(tree)` is.
        template <class PlaceOf>
        void predict(std::span<const Tree<Labels>> trees, Point x, std::size_t worker,
                     const PlaceOf &place_of) {
            Predictor<Labels> predictor(
                trees.front().labels(),
                std::span(mixtures_).subspan(worker * mixture_size_, mixture_size_));
            predictor.predict(
                trees, [&](std::size_t) { return x; }, 0, 1,
                [&](std::size_t t, std::size_t, const auto &forecast) {
                    std::ranges::copy(forecast.first(entries_), place_of(t));
                });
        }

        Forest &forest_;
        std::size_t entries_, mixture_size_ = 0;
        std::optional<ClassPrior> prior_;
        std::vector<PreparedRows> blocks_; // one for each thread
        std::vector<double> by_tree_, mixtures_;
    };

    // One row: the quick way of a batch.
    void learn(const Matrix &x, Label y, double weight) {
        const PreparedRows rows(layout(), x);
        const auto lock = writing();
        prepare(1, {&weight, 1});
        if (have_gaps(x)) expect_gaps();
        learn_and_count({rows[0], y, weight});
    }

    void predict(const Matrix &X, double *out, std::size_t entries, std::size_t n_threads) const {
        std::fill_n(out, X.n_rows * entries, 0.0);
        for_each_forecast(X, n_threads, [&](std::size_t, std::size_t i, const auto &forecast) {
            for (std::size_t k = 0; k < entries; ++k) out[i * entries + k] += forecast[k];
        });
        divide_by_trees({out, X.n_rows * entries});
    }

    // Of one row. Returns how many numbers its forecast has, which may be more than were asked for.
    std::size_t predict_row(const Matrix &x, std::span<double> out) const {
        const auto lock = reading();
        const std::size_t size = trees_.front().labels().forecast_size();
        if (out.size() > size) throw std::invalid_argument("out is longer than a forecast");
        std::ranges::fill(out, 0.0);
        forecast_all(x, 1, [&](std::size_t, std::size_t, const auto &forecast) {
            for (std::size_t k = 0; k < out.size(); ++k) out[k] += forecast[k];
        });
        divide_by_trees(out);
        return size;
    }

    // The forecast of each tree: out[row][tree][entry].
    void predict_by_tree(const Matrix &X, double *out, std::size_t entries,
                         std::size_t n_threads) const {
        for_each_forecast(X, n_threads, [&](std::size_t t, std::size_t i, const auto &forecast) {
            std::ranges::copy(forecast.first(entries), out + (i * trees_.size() + t) * entries);
        });
    }

    // out[row][tree]
    void weighted_depth(const Matrix &X, double *out, std::size_t n_threads) const {
        const auto lock = reading();
        for_each_block(X.n_rows, worth_while(X, n_threads),
                       [&](std::size_t first, std::size_t last) {
                           for (std::size_t t = 0; t < trees_.size(); ++t)
                               for (std::size_t i = first; i < last; ++i)
                                   out[i * trees_.size() + t] = trees_[t].weighted_depth(X[i]);
                       });
    }

    // out[row][tree] = the leaf, as a row of the tree's table
    void apply(const Matrix &X, std::int64_t *out, std::size_t n_threads) const {
        const auto lock = reading();
        for_each_index(trees_.size(), n_threads, [&](std::size_t t, std::size_t) {
            const std::vector<std::int64_t> table_row = table_rows_of_leaves(trees_[t].arena());
            for (std::size_t i = 0; i < X.n_rows; ++i)
                out[i * trees_.size() + t] = table_row[row_of(trees_[t].leaf_of(X[i]))];
        });
    }

  private:
    // One row finds none of its nodes in the cache: it goes down the trees side by side. (In a
    // batch this would cost more than it gains, because each tree's nodes stay in the cache.)
    // Flattened for the same reason as Tree::learn.
    [[gnu::flatten]] static void learn_one(std::span<Tree<Labels>> trees, const Row<Label> &row) {
        struct Learner {
            Tree<Labels> *tree;
            NodeId v;
        };
        if (row.weight == 0) return;
        const Layout &layout = trees.front().arena().layout();
        const bool only_numbers = layout.n_codes() == 0;
        std::array<Learner, kTogether> places;
        for (std::size_t first = 0; first < trees.size(); first += kTogether) {
            const std::size_t count = std::min(kTogether, trees.size() - first);
            const std::span<Learner> learners(places.data(), count);
            for (std::size_t k = 0; k < count; ++k)
                learners[k] = {&trees[first + k], trees[first + k].start()};
            in_turn(learners, [&](Learner &l) {
                return only_numbers
                           ? l.tree->template go_down<Splits::kNumbers>(l.v, row.x.values, row.y)
                           : l.tree->go_down(l.v, row.x.values, row.y);
            });
        }
        if (layout.has_box()) prepare_turns(trees, row.x);
        for (Tree<Labels> &tree : trees) {
            tree.turn(row.x, row.y, row.weight);
            while (tree.go_up(row.y, row.weight)) {
            }
        }
    }

    void learn_and_count(const Row<Label> &row) {
        learn_one(trees_, row);
        count_sample(row.weight);
    }

    void expect_gaps() {
        for (Tree<Labels> &tree : trees_) tree.expect_gaps();
    }

    // In all trees or in none.
    static void prepare_turns(std::span<Tree<Labels>> trees, Point x) {
        std::size_t t = 0;
        try {
            for (; t < trees.size(); ++t) trees[t].prepare_turn(x);
        } catch (...) {
            for (++t; t-- > 0;) trees[t].take_back();
            throw;
        }
    }

    template <class Work> void for_each_tree(const Matrix &X, std::size_t n_threads, Work &&work) {
        for_each_index(trees_.size(), worth_while(X, n_threads), work);
    }

    // As many threads as have work for longer than it takes to start one.
    std::size_t worth_while(const Matrix &X, std::size_t n_threads) const {
        constexpr std::size_t kRowsInTrees = 512;
        return std::min(n_threads, 1 + X.n_rows * trees_.size() / kRowsInTrees);
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

    // Calls use(tree, row, forecast); for each row in the order of the trees.
    template <class Use>
    void for_each_forecast(const Matrix &X, std::size_t n_threads, const Use &use) const {
        const auto lock = reading();
        forecast_all(X, n_threads, use);
    }

    // The same, by those who have the lock. Only ranges need more than the values as they are.
    template <class Use>
    void forecast_all(const Matrix &X, std::size_t n_threads, const Use &use) const {
        if (!trees_.front().options().looks_at_ranges()) {
            const auto point_at = [&](std::size_t i) { return Point{X[i], nullptr}; };
            return forecast_points(X, point_at, n_threads, use);
        }
        const PreparedRows rows(layout(), X);
        forecast_points(X, [&](std::size_t i) { return rows[i]; }, n_threads, use);
    }

    template <class PointAt, class Use>
    void forecast_points(const Matrix &X, const PointAt &point_at, std::size_t n_threads,
                         const Use &use) const {
        const auto predict = [&](std::size_t first, std::size_t last) {
            Predictor<Labels>(trees_.front().labels()).predict(trees_, point_at, first, last, use);
        };
        for_each_block(X.n_rows, worth_while(X, n_threads), predict);
    }

    void divide_by_trees(std::span<double> sums) const {
        for (double &sum : sums) sum /= static_cast<double>(trees_.size());
    }

    // The right to change the forest, alone.
    std::unique_lock<std::shared_mutex> writing() {
        const std::lock_guard ahead(gate_);
        learner_waits_ = true;
        std::unique_lock lock(mutex_);
        learner_waits_ = false;
        return lock;
    }

    // Whatever learning the rows may need, before anything changes.
    void prepare(std::size_t n_rows, std::span<const double> weights) {
        // In the order in which the root adds them, for the same rounding.
        const double before = trees_.front().n_samples();
        const double after = weights.empty()
                                 ? before + static_cast<double>(n_rows)
                                 : std::accumulate(weights.begin(), weights.end(), before);
        if (after > Labels::kMost)
            throw std::length_error("the weights of all samples add up to too much");
        if (n_samples_ + n_rows > kMostRows)
            throw std::length_error("a forest learns at most 2**31 - 1 rows");
        for (Tree<Labels> &tree : trees_) tree.make_room(n_rows);
    }

    void count_sample(double weight) { n_samples_ += weight == 0 ? 0 : 1; }
    void count_samples(std::size_t n_rows, std::span<const double> weights) {
        n_samples_ += n_rows;
        n_samples_ -= static_cast<std::size_t>(std::ranges::count(weights, 0.0));
    }

    std::vector<Tree<Labels>> trees_;
    std::size_t n_samples_;
    mutable std::shared_mutex mutex_; // many may predict, or one may learn
    mutable std::mutex gate_;         // before it
    std::atomic<bool> learner_waits_ = false;
};

} // namespace amforest
