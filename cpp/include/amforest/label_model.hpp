// What differs between classification and regression: the forecaster h and the loss of a node.
//
// A label model keeps the labels' statistics of every node of one tree, by NodeId, in step with
// the arena: add_leaf and add_inner are called in the order in which the arena adds nodes.
// A mixture is a sum of coefficient * forecast, finished into a forecast at the end.
#pragma once

#include <algorithm>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "amforest/memory.hpp"
#include "amforest/node_arena.hpp"
#include "amforest/scaled.hpp"

namespace amforest {

template <class M>
concept LabelModel = requires(M m, const M cm, NodeId v, typename M::Label y,
                              std::span<double> mixture, double coefficient, std::size_t count) {
    m.make_room(count); // for as many more nodes
    { cm.n_leaves() } -> std::same_as<std::size_t>;
    m.add_leaf();
    m.add_inner(v); // a copy of v's statistics
    cm.prefetch(v);
    { cm.accepts(y) } -> std::same_as<bool>;
    { cm.n_samples(v) } -> std::same_as<std::uint32_t>;
    { cm.likelihood(v, y, coefficient) } -> std::same_as<Scaled>; // exp(-step * loss)
    { cm.is_pure(v) } -> std::same_as<bool>;
    { cm.is_pure(v, y) } -> std::same_as<bool>;
    m.update(v, y);
    { cm.mixture_size() } -> std::same_as<std::size_t>;
    { cm.forecast_size() } -> std::same_as<std::size_t>;
    cm.add_forecast(v, coefficient, mixture);
    cm.add_default(coefficient, mixture);
    { cm.finish(mixture) } -> std::same_as<std::span<const double>>;
};

// Krichevsky-Trofimov: the forecast of class k is (n_k + alpha) / (n + alpha K); log-loss.
// Inner nodes count every class. A leaf counts its only class, and the others once it has some.
class ClassCounts {
  public:
    using Label = std::uint32_t;
    static constexpr const char *kAccepted = "y must be indices of classes";

    // What all trees of a forest share.
    struct Prior {
        Prior(std::size_t n_classes, double dirichlet)
            : n_classes(n_classes), alpha(dirichlet),
              total_alpha(dirichlet * static_cast<double>(n_classes)) {}

        std::size_t n_classes;
        double alpha;       // parameter of the Dirichlet prior
        double total_alpha; // alpha K
    };

    explicit ClassCounts(std::shared_ptr<Prior> prior)
        : prior_(std::move(prior)), n_classes_(prior_->n_classes), inner_(row_bytes()),
          mixed_(row_bytes()) {
        inner_.make_room(1);
        std::fill_n(inner_.at<std::uint32_t>(inner_.add()), 1 + n_classes_, 0U); // the stem's
    }

    std::size_t n_classes() const { return n_classes_; }
    double alpha() const { return prior_->alpha; }
    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes() + mixed_.bytes(); }

    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
        mixed_.make_room(count);
    }

    std::size_t n_leaves() const { return leaves_.size(); }
    void add_leaf() { leaves_.add(LeafCount{}); }

    void add_inner(NodeId like) { copy_counts(like, inner_.at<std::uint32_t>(inner_.add())); }

    void prefetch(NodeId v) const {
        __builtin_prefetch(is_leaf(v) ? leaves_.at<char>(row_of(v)) : inner_.at<char>(v));
    }

    bool accepts(Label y) const { return y < n_classes_; }

    std::uint32_t n_samples(NodeId v) const {
        return is_leaf(v) ? leaf(v).n : *inner_.at<std::uint32_t>(v);
    }

    std::uint32_t count(NodeId v, Label y) const {
        if (const std::uint32_t *row = dense(v)) return row[1 + y];
        return leaf(v).label == y ? leaf(v).n : 0;
    }

    // The loss is -log of the forecast, so the likelihood is its power.
    Scaled likelihood(NodeId v, Label y, double step) const {
        count_load(std::min<std::size_t>(2, row_bytes() / 64 + 1) * 64); // cache lines
        const double forecast =
            (count(v, y) + prior_->alpha) / (n_samples(v) + prior_->total_alpha);
        return step == 1 ? Scaled::of(forecast) : Scaled::exp(step * std::log(forecast));
    }

    bool is_pure(NodeId v, Label y) const { return count(v, y) == n_samples(v); }

    bool is_pure(NodeId v) const {
        const std::uint32_t *row = dense(v);
        return row == nullptr || *std::max_element(row + 1, row + 1 + n_classes_) == row[0];
    }

    void update(NodeId v, Label y) { add(v, y, 1); }

    // sum of c_v (n_v(k) + alpha) / (n_v + alpha K) = sum of s_v n_v(k), + alpha sum of s_v.
    // The second sum is the same for all classes: it is the mixture's last entry.
    std::size_t mixture_size() const { return n_classes_ + 1; }
    std::size_t forecast_size() const { return n_classes_; }

    void add_forecast(NodeId v, double coefficient, std::span<double> mixture) const {
        const double scale = coefficient / (n_samples(v) + prior_->total_alpha);
        if (const std::uint32_t *row = dense(v))
            for (std::size_t k = 0; k < n_classes_; ++k) mixture[k] += scale * row[1 + k];
        else
            mixture[leaf(v).label] += scale * leaf(v).n;
        mixture[n_classes_] += scale * prior_->alpha;
    }

    void add_default(double coefficient, std::span<double> mixture) const {
        mixture[n_classes_] += coefficient / static_cast<double>(n_classes_);
    }

    std::span<const double> finish(std::span<double> mixture) const {
        for (std::size_t k = 0; k < n_classes_; ++k) mixture[k] += mixture[n_classes_];
        return mixture.first(n_classes_);
    }

    // Counts y several times at once, to restore a saved node.
    void add(NodeId v, Label y, std::uint32_t times) {
        if (!is_leaf(v)) return add_in(inner_.at<std::uint32_t>(v), y, times);
        LeafCount &own = leaves_[row_of(v)];
        if (own.n == 0) own.label = y;
        if (own.mixed == kNone && own.label != y) {
            const std::uint32_t row = mixed_.add();
            copy_counts(v, mixed_.at<std::uint32_t>(row));
            own.mixed = row;
        }
        if (own.mixed != kNone) add_in(mixed_.at<std::uint32_t>(own.mixed), y, times);
        own.n += times;
    }

  private:
    struct LeafCount {
        std::uint32_t n = 0;
        Label label = 0;             // the only class, while `mixed` is kNone
        std::uint32_t mixed = kNone; // row of all counts
    };

    // A dense row is n followed by the count of each class.
    std::size_t row_bytes() const { return (1 + n_classes_) * sizeof(std::uint32_t); }

    const LeafCount &leaf(NodeId v) const { return leaves_[row_of(v)]; }

    const std::uint32_t *dense(NodeId v) const {
        if (!is_leaf(v)) return inner_.at<std::uint32_t>(v);
        const std::uint32_t mixed = leaf(v).mixed;
        return mixed == kNone ? nullptr : mixed_.at<std::uint32_t>(mixed);
    }

    static void add_in(std::uint32_t *row, Label y, std::uint32_t times) {
        row[0] += times;
        row[1 + y] += times;
    }

    void copy_counts(NodeId from, std::uint32_t *row) const {
        if (const std::uint32_t *counts = dense(from)) {
            std::copy_n(counts, 1 + n_classes_, row);
        } else {
            std::fill_n(row, 1 + n_classes_, 0U);
            add_in(row, leaf(from).label, leaf(from).n);
        }
    }

    std::shared_ptr<Prior> prior_;
    std::size_t n_classes_;
    Rows inner_;
    Pool<LeafCount> leaves_;
    Rows mixed_;
};

// The mean of the labels, 0 before the first; square loss.
class RunningMean {
  public:
    using Label = double;
    static constexpr const char *kAccepted = "y must be finite and lie within ±1e75";

    RunningMean() {
        inner_.make_room(1);
        inner_.add(Mean{}); // the stem's
    }

    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes(); }

    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
    }

    std::size_t n_leaves() const { return leaves_.size(); }
    void add_leaf() { leaves_.add(Mean{}); }
    void add_inner(NodeId like) { inner_.add(mean_of(like)); }

    void prefetch(NodeId v) const { __builtin_prefetch(&mean_of(v)); }

    // Far beyond this, sums of squares would overflow.
    bool accepts(Label y) const { return std::abs(y) <= 1e75; }

    std::uint32_t n_samples(NodeId v) const { return mean_of(v).n; }
    double mean(NodeId v) const { return mean_of(v).mean; }

    Scaled likelihood(NodeId v, Label y, double step) const {
        return Scaled::exp(-step * ((mean(v) - y) * (mean(v) - y)));
    }

    // Exact, because the mean of equal labels is that label to the last bit.
    bool is_pure(NodeId v) const { return mean_of(v).constant != 0; }
    bool is_pure(NodeId v, Label y) const { return is_pure(v) && mean(v) == y; }

    void update(NodeId v, Label y) {
        Mean &own = mean_of(v);
        own.constant = own.n == 0 || is_pure(v, y) ? 1 : 0;
        ++own.n;
        own.mean = own.n == 1 ? y : own.mean + (y - own.mean) / own.n;
    }

    std::size_t mixture_size() const { return 1; }
    std::size_t forecast_size() const { return 1; }

    void add_forecast(NodeId v, double coefficient, std::span<double> mixture) const {
        mixture[0] += coefficient * mean(v);
    }

    void add_default(double, std::span<double>) const {} // h(empty) = 0

    std::span<const double> finish(std::span<double> mixture) const { return mixture; }

    // Restoring a saved node.
    void set(NodeId v, double mean, std::uint32_t n, bool constant) {
        mean_of(v) = {mean, n, constant ? 1U : 0U};
    }

  private:
    struct Mean {
        double mean = 0;
        std::uint32_t n = 0;
        std::uint32_t constant = 1; // all labels so far are equal
    };

    const Mean &mean_of(NodeId v) const { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }
    Mean &mean_of(NodeId v) { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }

    Pool<Mean> inner_, leaves_;
};

static_assert(LabelModel<ClassCounts> && LabelModel<RunningMean>);

} // namespace amforest
