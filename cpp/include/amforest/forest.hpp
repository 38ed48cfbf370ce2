// A forest: trees side by side, each with its own random stream.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <mutex>
#include <numeric>
#include <shared_mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "amforest/parallel.hpp"
#include "amforest/tree_table.hpp"

namespace amforest {

// Rows of features as the caller has them.
struct Matrix {
    const float *data;
    std::size_t n_rows, n_features;

    Matrix rows(std::size_t first, std::size_t count) const {
        return {data + first * n_features, count, n_features};
    }
    const float *operator[](std::size_t i) const { return data + i * n_features; }
};

// Features beyond this could make a sum of extensions overflow in float32.
inline constexpr float kLargestFeature = 0x1.0p100F;

[[noreturn]] inline void refuse(const Matrix &X, const char *name, std::size_t at,
                                const char *wanted) {
    std::string place = std::to_string(at % X.n_features);
    if (X.n_rows > 1) place = std::to_string(at / X.n_features) + ", " + place;
    throw std::invalid_argument(std::string(name) + "[" + place + "] is " +
                                std::to_string(X.data[at]) + "; " + wanted);
}

// Throws std::invalid_argument, naming the place, unless all values may be given. NaN may. A
// category that is not known may only where `is_learnt(row)` is false.
template <class IsLearnt>
void check_features(const Matrix &X, const Layout &layout, const char *name,
                    const IsLearnt &is_learnt) {
    const auto is_bad = [](float x) { return std::abs(x) > kLargestFeature; };
    for (std::size_t i = 0; i < X.n_rows; ++i) {
        const float *const x = X[i], *const numbers = x + layout.n_codes();
        const std::size_t at = i * X.n_features;
        for (std::size_t f = 0; f < layout.n_codes(); ++f) {
            const auto room = static_cast<float>(layout.categories.room()[f]);
            const bool is_code =
                x[f] >= (is_learnt(i) ? 0 : kUnknown) && x[f] < room && x[f] == std::floor(x[f]);
            if (!is_code && !std::isnan(x[f]))
                refuse(X, name, at + f, "a category must be one that is known");
        }
        if (layout.has_box())
            for (std::size_t j = 0; j < layout.n_numbers; ++j)
                if (!(numbers[j] >= layout.lower[j] && numbers[j] <= layout.upper[j]))
                    refuse(X, name, at + j, "features must lie within bounds, and not be missing");
        const float *bad = std::find_if(numbers, numbers + layout.n_numbers, is_bad);
        if (bad != numbers + layout.n_numbers)
            refuse(X, name, at + static_cast<std::size_t>(bad - x),
                   "features must be finite and lie within ±2**100");
    }
}

template <LabelModel Labels> class Forest {
  public:
    using Label = typename Labels::Label;

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

    // All trees share one prior.
    void set_prior(const ClassPrior &prior) {
        const std::unique_lock lock(mutex_);
        trees_.front().labels().set_prior(prior);
    }
    const Tree<Labels> &tree(std::size_t i) const { return trees_.at(i); }
    std::shared_lock<std::shared_mutex> reading() const { return std::shared_lock(mutex_); }

    // How many rows should be given at once: enough to find a tree's nodes in the cache again,
    // few enough to bound the scratch memory and the time for which others have to wait.
    std::size_t rows_at_once() const {
        const std::size_t forecasts = (std::size_t{1} << 20) / forecast_size() / n_trees();
        const std::size_t rows = (std::size_t{1} << 24) / PreparedRows::row_bytes(layout());
        return std::max<std::size_t>(std::min({forecasts, rows, (1 << 16) / n_trees()}), 1);
    }

    std::size_t bytes() const {
        const auto lock = reading();
        std::size_t sum = 0;
        for (const Tree<Labels> &tree : trees_) sum += tree.bytes();
        return sum;
    }

    // Without weights, all are 1. A row of weight 0 is not learnt.
    void learn(const Matrix &X, std::span<const Label> y, std::span<const double> weights,
               std::size_t n_threads) {
        const PreparedRows rows(X, layout());
        const std::unique_lock lock(mutex_);
        prepare(rows, weights);
        const auto row_of = [&](std::size_t i) { return row(rows, y, weights, i); };
        if (X.n_rows == 1)
            learn_one(row_of(0));
        else
            for_each_index(trees_.size(), worth_while(X, n_threads),
                           [&](std::size_t t) { trees_[t].learn(row_of, X.n_rows); });
        count_samples(X.n_rows, weights);
    }

    // Test-then-train: row i is forecast by the forest that has learnt the rows before it.
    // As all functions that forecast, it gives the first `entries` numbers of each forecast.
    void predict_then_learn(const Matrix &X, std::span<const Label> y,
                            std::span<const double> weights, double *out, std::size_t entries,
                            std::size_t n_threads) {
        const PreparedRows rows(X, layout());
        const std::size_t size = X.n_rows * entries;
        std::vector<double> by_tree(trees_.size() * size);
        const std::unique_lock lock(mutex_);
        prepare(rows, weights);
        for_each_index(trees_.size(), worth_while(X, n_threads), [&](std::size_t t) {
            Predictor predictor(trees_[t].labels());
            const auto point_at = [&](std::size_t i) { return rows[i]; };
            double *next = &by_tree[t * size];
            for (std::size_t i = 0; i < X.n_rows; ++i) {
                predictor.predict({&trees_[t], 1}, point_at, i, i + 1,
                                  [&](std::size_t, std::size_t, const auto &forecast) {
                                      next = std::ranges::copy(forecast.first(entries), next).out;
                                  });
                trees_[t].learn([&](std::size_t) { return row(rows, y, weights, i); }, 1);
            }
        });
        count_samples(X.n_rows, weights);
        // In the trees' order: the same bits however many threads there were.
        std::fill_n(out, size, 0.0);
        for (std::size_t t = 0; t < trees_.size(); ++t)
            for (std::size_t k = 0; k < size; ++k) out[k] += by_tree[t * size + k];
        divide_by_trees({out, size});
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
        for_each_index(trees_.size(), n_threads, [&](std::size_t t) {
            const std::vector<std::int64_t> table_row = table_rows_of_leaves(trees_[t].arena());
            for (std::size_t i = 0; i < X.n_rows; ++i)
                out[i * trees_.size() + t] = table_row[row_of(trees_[t].leaf_of(X[i]))];
        });
    }

  private:
    // Rows for learning. Adding 0 turns -0 into 0, so that equal rows have equal bits.
    class PreparedRows {
      public:
        PreparedRows(const Matrix &X, const Layout &layout)
            : size_(X.n_rows), row_size_(layout.n_codes() + layout.width()),
              n_words_(layout.categories.n_words()), values_(size_ * row_size_),
              sets_(size_ * n_words_) {
            for (std::size_t i = 0; i < size_; ++i) {
                std::transform(X[i], X[i] + X.n_features, &values_[i * row_size_],
                               [](float x) { return x + 0.0F; });
                for (std::size_t f = 0; f < layout.n_codes(); ++f)
                    if (const float code = X[i][f]; !std::isnan(code))
                        layout.categories.insert(f, code, &sets_[i * n_words_]);
            }
        }
        static std::size_t row_bytes(const Layout &layout) {
            return (layout.n_codes() + layout.width()) * sizeof(float) +
                   layout.categories.n_words() * sizeof(Word);
        }

        std::size_t size() const { return size_; }
        Point operator[](std::size_t i) const {
            return {values_.data() + i * row_size_, sets_.data() + i * n_words_};
        }

        bool have_gaps() const {
            return std::ranges::any_of(values_, [](float x) { return std::isnan(x); });
        }

      private:
        std::size_t size_, row_size_, n_words_;
        std::vector<float> values_;
        std::vector<Word> sets_;
    };

    static Row<Label> row(const PreparedRows &rows, std::span<const Label> y,
                          std::span<const double> weights, std::size_t i) {
        return {rows[i], y[i], weights.empty() ? 1.0 : weights[i]};
    }

    // Walks that go down together: enough to hide a memory fetch behind the others' work.
    static constexpr std::size_t kTogether = 16;

    class Predictor {
        using Walk = typename Tree<Labels>::Walk;

      public:
        explicit Predictor(const Labels &labels)
            : size_(labels.mixture_size()), mixtures_(memory((kTogether + 1) * size_)) {}

        // Calls use(t, i, forecast) for all trees and rows [first, last), tree after tree.
        template <class PointAt, class Use>
        void predict(std::span<const Tree<Labels>> trees, const PointAt &point_at,
                     std::size_t first, std::size_t last, const Use &use) {
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
                    walks_[count] = trees[end.t].start(point_at(end.i), mixture(count),
                                                       mixture(kTogether).data());
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
                in_turn(walks,
                        [](Walk &walk) { return walk.tree->template go_down<kSplits>(walk); });
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

    // One row finds none of its nodes in the cache: it goes down the trees side by side. (In a
    // batch this would cost more than it gains, because each tree's nodes stay in the cache.)
    void learn_one(const Row<Label> &row) {
        struct Learner {
            Tree<Labels> *tree;
            NodeId v;
        };
        if (row.weight == 0) return;
        const bool only_numbers = layout().n_codes() == 0;
        std::array<Learner, kTogether> places;
        for (std::size_t first = 0; first < trees_.size(); first += kTogether) {
            const std::size_t count = std::min(kTogether, trees_.size() - first);
            const std::span<Learner> learners(places.data(), count);
            for (std::size_t k = 0; k < count; ++k)
                learners[k] = {&trees_[first + k], trees_[first + k].start()};
            in_turn(learners, [&](Learner &l) {
                return only_numbers ? l.tree->template go_down<Splits::kNumbers>(l.v, row.x.values)
                                    : l.tree->go_down(l.v, row.x.values);
            });
            for (Learner &l : learners) {
                l.tree->turn(row.x, row.y, row.weight);
                while (l.tree->go_up(row.y, row.weight)) {
                }
            }
        }
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
        for_each_index((n_rows + block - 1) / block, n_threads,
                       [&](std::size_t b) { work(b * block, std::min(n_rows, (b + 1) * block)); });
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
        const PreparedRows rows(X, layout());
        forecast_points(X, [&](std::size_t i) { return rows[i]; }, n_threads, use);
    }

    template <class PointAt, class Use>
    void forecast_points(const Matrix &X, const PointAt &point_at, std::size_t n_threads,
                         const Use &use) const {
        const auto predict = [&](std::size_t first, std::size_t last) {
            Predictor(trees_.front().labels()).predict(trees_, point_at, first, last, use);
        };
        for_each_block(X.n_rows, worth_while(X, n_threads), predict);
    }

    void divide_by_trees(std::span<double> sums) const {
        for (double &sum : sums) sum /= static_cast<double>(trees_.size());
    }

    // Whatever learning the rows may need, before anything changes.
    void prepare(const PreparedRows &rows, std::span<const double> weights) {
        const double weight = weights.empty()
                                  ? static_cast<double>(rows.size())
                                  : std::accumulate(weights.begin(), weights.end(), 0.0);
        if (trees_.front().n_samples() + weight > Labels::kMost)
            throw std::length_error("the weights of all samples add up to too much");
        constexpr std::size_t kMostRows = kLeafBit - 1; // ids are 31 bits wide
        if (n_samples_ + rows.size() > kMostRows)
            throw std::length_error("a forest learns at most 2**31 - 1 rows");
        for (Tree<Labels> &tree : trees_) tree.make_room(rows.size());
        if (rows.have_gaps())
            for (Tree<Labels> &tree : trees_) tree.expect_gaps();
    }

    void count_samples(std::size_t n_rows, std::span<const double> weights) {
        n_samples_ += n_rows;
        n_samples_ -= static_cast<std::size_t>(std::ranges::count(weights, 0.0));
    }

    std::vector<Tree<Labels>> trees_;
    std::size_t n_samples_;
    mutable std::shared_mutex mutex_; // many may predict, or one may learn
};

} // namespace amforest
