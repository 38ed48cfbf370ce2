// Numbers: the mean of the labels, 0 before the first, and square loss.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "amforest/base/memory.hpp"
#include "amforest/base/prefetch.hpp"
#include "amforest/labels/gamma.hpp"
#include "amforest/labels/label_model.hpp"

namespace amforest {

struct NoParameters {
    bool operator==(const NoParameters &) const = default;
    template <class Use> void for_each(const Use &) const {}
    void validate() {}
    void check_successor(const NoParameters &) const {}
    void check_update(const NoParameters &) const {}
};

class RunningMean {
  public:
    using Label = double;
    using Parameters = NoParameters;
    static constexpr bool kInherits = false;
    static constexpr bool kHasWholeWeights = false;
    static constexpr double kMost = kMostAddedUp;
    static constexpr const char *kAccepted = "y must be finite and lie within ±1e75";

    explicit RunningMean(const std::shared_ptr<const Parameters> &) {
        inner_.make_room(1);
        inner_.add(Mean{}); // the stem's
    }

    RunningMean(const RunningMean &earlier, const std::shared_ptr<const Parameters> &parameters)
        : RunningMean(parameters) {
        make_room(std::max(earlier.inner_.size(), earlier.leaves_.size()));
        for (std::size_t row = 1; row < earlier.inner_.size(); ++row)
            inner_.add(earlier.inner_[row]);
        for (std::size_t row = 0; row < earlier.leaves_.size(); ++row)
            leaves_.add(earlier.leaves_[row]);
    }

    static bool accepts(const Parameters &, Label y) { return std::abs(y) <= kLargestLabel; }

    // Memory

    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes(); }
    std::size_t empty_bytes() const { return sizeof(Mean); }
    std::size_t split_bytes() const { return 2 * sizeof(Mean); }

    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
    }

    std::size_t n_leaves() const { return leaves_.size(); }
    void add_leaf() { leaves_.add(Mean{}); }
    void add_inner() { inner_.add(Mean{}); }
    void add_inner(NodeId like) { inner_.add(Mean(mean_of(like))); }

    void prefetch(NodeId v) const { prefetch_line(&mean_of(v)); }
    void prefetch(NodeId v, Label) const { prefetch(v); }

    // Statistics

    double n_samples(NodeId v) const { return mean_of(v).n; }
    double mean(NodeId v) const { return mean_of(v).mean; }

    // Exact, because the mean of equal labels is that label to the last bit.
    bool is_pure(NodeId v) const { return mean_of(v).is_constant; }
    bool is_pure(NodeId v, Label y) const { return is_pure(v) && mean(v) == y; }

    void update(NodeId v, Label y, double weight) {
        Mean &own = mean_of(v);
        const bool is_first = own.n == 0;
        own.is_constant = is_first || is_pure(v, y);
        own.n += weight;
        own.mean = is_first ? y : own.mean + weight * (y - own.mean) / own.n;
    }

    // Each of a run of equal labels moves the mean from n / (n + i) of its distance.
    Scaled learn(NodeId v, Label y, double weight, double step) {
        const double n = n_samples(v), loss = (mean(v) - y) * (mean(v) - y);
        update(v, y, weight);
        if (weight == 1) [[likely]]
            return Scaled::exp(-step * loss);
        const double times = n > 0 ? n * n * inverse_squares(n, weight) : std::min(weight, 1.0);
        return Scaled::exp(-step * (times * loss));
    }

    Scaled likelihood_after_first(Label, double, double) const { return {1}; } // the mean is y

    // Predictions

    static std::size_t mixture_size(const Parameters &) { return 1; }
    static std::size_t prediction_size(const Parameters &) { return 1; }

    void add_prediction(NodeId v, double coefficient, std::span<double> mixture) const {
        mixture[0] += coefficient * mean(v);
    }

    double add_predictions(std::span<Share> nodes, double reach, std::span<double> mixture) const {
        for (const auto &[v, share] : nodes) {
            add_prediction(v, reach * share, mixture);
            reach *= 1.0 - share;
        }
        return reach;
    }

    void add_default(double, std::span<double>) const {} // h(empty) = 0

    std::span<const double> finish(std::span<double> mixture) const { return mixture; }

    // Contributions

    struct Way {}; // nodes do not depend on those above
    static std::size_t explained_size(const Parameters &) { return 1; }
    void predict_node(NodeId v, Way &, std::span<double> prediction) const {
        prediction[0] = mean(v);
    }

    // The mean, and square loss.
    class PathPredictions {
      public:
        PathPredictions(const RunningMean &labels, Label) : labels_(labels) {}
        double of_root(NodeId root) { return labels_.mean(root); }
        double below(NodeId v) { return labels_.mean(v); }

      private:
        const RunningMean &labels_;
    };
    static double loss(double mean, Label y) { return (y - mean) * (y - mean); }

    // The model file

    template <template <class> class Column> struct FileColumns {
        Column<double> n_samples, mean; // of all nodes
        Column<std::uint8_t> constant;  // whether all labels are equal

        template <class Use> void for_each(const Parameters &, const Use &use) {
            use("n_samples", n_samples, kVector, 0);
            use("mean", mean, kVector, 0);
            use("constant", constant, kVector, 0);
        }
    };

    void append(NodeId v, FileColumns<Owned> &columns) const {
        columns.n_samples.push_back(n_samples(v));
        columns.mean.push_back(mean(v));
        columns.constant.push_back(is_pure(v) ? 1 : 0);
    }

    class Reader {
      public:
        explicit Reader(const FileColumns<Borrowed> &columns) : columns_(columns) {}

        void read(NodeId v, RunningMean &to) {
            const double n = value_at(columns_.n_samples, node_);
            const double mean = value_at(columns_.mean, node_);
            const std::uint8_t constant = value_at(columns_.constant, node_++);
            require(is_between(n, 0.0, kMost) && is_sum_of_weights(n),
                    "n_samples must not be negative, and not too large");
            // A mean may be rounded beyond its labels.
            require(std::abs(mean) <= 2 * kLargestLabel,
                    "mean must be finite and lie within ±2e75");
            require(constant <= 1, "constant must be 0 or 1");
            to.mean_of(v) = {mean, n, constant == 1};
        }

        bool is_at_end() const {
            return columns_.n_samples.size() == node_ && columns_.mean.size() == node_ &&
                   columns_.constant.size() == node_;
        }

      private:
        const FileColumns<Borrowed> &columns_;
        std::size_t node_ = 0;
    };

    void check_sums(NodeId v, NodeId left, NodeId right) const {
        require_sum(n_samples(left) + n_samples(right), n_samples(v), n_samples(v),
                    "n_samples must add up");
    }

    // The tree table

    struct TableColumns {
        std::vector<double> n_samples, mean;
        std::vector<bool> constant; // all labels are equal

        void append(const RunningMean &labels, NodeId v) {
            n_samples.push_back(labels.n_samples(v));
            mean.push_back(labels.mean(v));
            constant.push_back(labels.is_pure(v));
        }

        template <class Use> void for_each(const Use &use) {
            use("n_samples", n_samples, kVector);
            use("mean", mean, kVector);
            use("constant", constant, kVector);
        }
    };

  private:
    struct Mean {
        double mean = 0;
        double n = 0;
        bool is_constant = true; // all labels so far are equal
    };

    const Mean &mean_of(NodeId v) const { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }
    Mean &mean_of(NodeId v) { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }

    Pool<Mean> inner_, leaves_;
};

static_assert(LabelModel<RunningMean>);

} // namespace amforest
