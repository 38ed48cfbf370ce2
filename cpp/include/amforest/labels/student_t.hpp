// Numbers: normal with unknown mean and variance, each node with its parent's posterior as prior.
//
// With statistics n, y-bar and M2 of a node and the posterior (mu_0, s_0^2) of the node above,
//     kappa = kappa_0 + n,   nu = nu_0 + n,   mu = mu_0 + n / kappa (y-bar - mu_0),
//     s^2 = [nu_0 s_0^2 + M2 + kappa_0 n / kappa (y-bar - mu_0)^2] / nu,
// and the prediction is Student's t with nu degrees of freedom around mu, of the squared scale
// s^2 (kappa + 1) / kappa. The prior of the root is the mean and the variance of its labels so far.
// A likelihood is a density, divided by that of the root: so it has no unit. Logarithms are taken
// of densities in units of the root's deviation, so that rounding does not depend on the unit,
// either.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "amforest/base/memory.hpp"
#include "amforest/base/prefetch.hpp"
#include "amforest/labels/gamma.hpp"
#include "amforest/labels/label_model.hpp"
#include "amforest/labels/running_mean.hpp"
#include "amforest/labels/variance_gain.hpp"

namespace amforest {

class StudentT {
  public:
    using Label = double;
    using Parameters = NoParameters;
    using Gain = VarianceGain;
    static constexpr bool kInherits = true;
    static constexpr bool kHasWholeWeights = false;
    static constexpr double kMost = kMostAddedUp;
    static constexpr const char *kAccepted = "y must be finite and lie within ±1e75";
    static constexpr double kPriorMeans = 0.5, kPriorVariances = 2; // kappa_0, nu_0
    // The variance of a node is no smaller than this part of the root's.
    static constexpr double kLeastVariance = 1e-4;

    explicit StudentT(const std::shared_ptr<const Parameters> &) {
        inner_.make_room(1);
        inner_.add(Moments{}); // the stem's
    }

    StudentT(const StudentT &earlier, const std::shared_ptr<const Parameters> &parameters)
        : StudentT(parameters) {
        make_room(std::max(earlier.inner_.size(), earlier.leaves_.size()));
        for (std::size_t row = 1; row < earlier.inner_.size(); ++row)
            inner_.add(earlier.inner_[row]);
        for (std::size_t row = 0; row < earlier.leaves_.size(); ++row)
            leaves_.add(earlier.leaves_[row]);
    }

    static bool accepts(const Parameters &, Label y) { return std::abs(y) <= kLargestLabel; }

    // Memory

    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes(); }
    std::size_t empty_bytes() const { return sizeof(Moments); }
    std::size_t split_bytes() const { return 2 * sizeof(Moments); }

    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
    }

    // Forgets all nodes and keeps the memory.
    void clear() {
        inner_.clear();
        leaves_.clear();
        inner_.add(Moments{}); // the stem's
    }

    std::size_t n_leaves() const { return leaves_.size(); }
    void add_leaf() { leaves_.add(Moments{}); }
    void add_inner() { inner_.add(Moments{}); }
    void add_inner(NodeId like) { inner_.add(Moments(moments(like))); }

    void prefetch(NodeId v) const { prefetch_line(&moments(v)); }
    void prefetch(NodeId v, Label) const { prefetch(v); }

    // Statistics

    double n_samples(NodeId v) const { return moments(v).n; }
    double mean(NodeId v) const { return moments(v).mean; }
    double m2(NodeId v) const { return moments(v).m2; }

    // Exact, because the mean of equal labels is that label to the last bit.
    bool is_pure(NodeId v) const { return moments(v).is_constant; }
    bool is_pure(NodeId v, Label y) const { return is_pure(v) && mean(v) == y; }

    void update(NodeId v, Label y, double weight) {
        Moments &own = moments(v);
        const bool is_first = own.n == 0;
        const double distance = y - own.mean;
        own.is_constant = is_first || is_pure(v, y);
        own.n += weight;
        own.mean = is_first ? y : own.mean + weight * distance / own.n;
        // The mean may be rounded beyond y.
        own.m2 += is_first ? 0 : std::max(weight * distance * (y - own.mean), 0.0);
    }

    // The way of a row from the root downward: what the nodes so far predict.
    struct Belief {
        double mean = 0, variance = 0; // mu, s^2
        double n_means = 0;            // kappa
        double n_variances = 0;        // nu
        double least = 0;              // variance of any node
        double unit = 0;               // the deviation of the root's labels
        double log_density = 0;        // of the root, of the label that is learned
        double inverse_density = 0;    // 1 / density, or 0 where that is too large or too small
    };

    Belief belief_of_root(NodeId root) const {
        const Moments &own = moments(root);
        const double variance = own.n > 0 ? own.m2 / own.n : 0;
        return {own.mean,
                variance,
                kPriorMeans + own.n,
                kPriorVariances + own.n,
                kLeastVariance * variance,
                std::sqrt(variance),
                0,
                0};
    }

    // Moves from a node to its child v.
    void descend(NodeId v, Belief &belief) const {
        const Moments &own = moments(v);
        const double n = own.n, n_means = kPriorMeans + n, n_variances = kPriorVariances + n;
        const double part = n / n_means, distance = n > 0 ? own.mean - belief.mean : 0;
        const double squares =
            kPriorVariances * belief.variance + own.m2 + kPriorMeans * part * distance * distance;
        belief.mean += part * distance;
        belief.variance = std::max(squares / n_variances, belief.least);
        belief.n_means = n_means;
        belief.n_variances = n_variances;
    }

    // Of y in v, whose belief is given, over the root's; then v counts y. All of them are equal
    // while all labels are, because then no scale is known.
    Scaled learn_below(NodeId v, const Belief &belief, Label y, double weight) {
        update(v, y, weight);
        if (!(belief.least > 0)) return {1};
        if (weight == 1 && belief.inverse_density > 0) [[likely]] {
            const double density = small_density(belief, y) * belief.unit;
            if (density > kSmall) [[likely]]
                return Scaled::of(density * belief.inverse_density);
        }
        return Scaled::exp(log_likelihood(belief, y, weight) - belief.log_density);
    }
    Scaled learn_in_root(NodeId root, Belief &belief, Label y, double weight) {
        if (belief.least > 0) {
            belief.log_density = log_likelihood(belief, y, weight);
            const double inverse = std::exp(-belief.log_density);
            belief.inverse_density = inverse > kSmall && inverse < 1 / kSmall ? inverse : 0;
        }
        update(root, y, weight);
        return {1};
    }

    // Predictions: the mean, and the squared scale of the mixture around it. The last entries of a
    // mixture are the belief of the node above; sums are of distances from the root's mean.

    static std::size_t mixture_size(const Parameters &) { return kSize; }
    static std::size_t prediction_size(const Parameters &) { return 2; }

    void add_prediction(NodeId v, double coefficient, std::span<double> mixture) const {
        Belief belief;
        if (mixture[kHasRoot] == 0) {
            belief = belief_of_root(v);
            mixture[kHasRoot] = 1;
            mixture[kRoot] = belief.mean;
            mixture[kLeast] = belief.least;
        } else {
            belief.mean = mixture[kMeanAbove];
            belief.variance = mixture[kVarianceAbove];
            belief.least = mixture[kLeast];
            descend(v, belief);
        }
        mixture[kMeanAbove] = belief.mean;
        mixture[kVarianceAbove] = belief.variance;
        const double distance = belief.mean - mixture[kRoot];
        mixture[kMean] += coefficient * distance;
        mixture[kSquares] += coefficient * (distance * distance + squared_scale(belief));
    }

    double add_predictions(std::span<Share> nodes, double reach, std::span<double> mixture) const {
        for (const auto &[v, share] : nodes) {
            add_prediction(v, reach * share, mixture);
            reach *= 1.0 - share;
        }
        return reach;
    }

    void add_default(double, std::span<double>) const {} // 0, and nothing is known

    std::span<const double> finish(std::span<double> mixture) const {
        const double distance = mixture[kMean];
        mixture[kMean] += mixture[kRoot];
        mixture[kSquares] = std::max(mixture[kSquares] - distance * distance, 0.0);
        return mixture.first(2);
    }

    // Contributions: to the mean.

    struct Way {
        Belief belief; // of the last node
        bool has_parent = false;
    };
    static std::size_t explained_size(const Parameters &) { return 1; }
    void predict_node(NodeId v, Way &way, std::span<double> prediction) const {
        if (way.has_parent)
            descend(v, way.belief);
        else
            way = {belief_of_root(v), true};
        prediction[0] = way.belief.mean;
    }

    // The mean, and square loss.
    class PathPredictions {
      public:
        PathPredictions(const StudentT &labels, Label) : labels_(labels) {}
        double of_root(NodeId root) {
            belief_ = labels_.belief_of_root(root);
            return belief_.mean;
        }
        double below(NodeId v) {
            labels_.descend(v, belief_);
            return belief_.mean;
        }

      private:
        const StudentT &labels_;
        Belief belief_;
    };
    static double loss(double mean, Label y) { return (y - mean) * (y - mean); }

    // The model file

    template <template <class> class Column> struct FileColumns {
        Column<double> n_samples, mean, m2; // of all nodes
        Column<std::uint8_t> constant;      // whether all labels are equal

        template <class Use> void for_each(const Parameters &, const Use &use) {
            use("n_samples", n_samples, kVector, 0);
            use("mean", mean, kVector, 0);
            use("m2", m2, kVector, 0);
            use("constant", constant, kVector, 0);
        }
    };

    void append(NodeId v, FileColumns<Owned> &columns) const {
        columns.n_samples.push_back(n_samples(v));
        columns.mean.push_back(mean(v));
        columns.m2.push_back(m2(v));
        columns.constant.push_back(is_pure(v) ? 1 : 0);
    }

    class Reader {
      public:
        explicit Reader(const FileColumns<Borrowed> &columns) : columns_(columns) {}

        void read(NodeId v, StudentT &to) {
            const double n = value_at(columns_.n_samples, node_);
            const double mean = value_at(columns_.mean, node_);
            const double m2 = value_at(columns_.m2, node_);
            const std::uint8_t constant = value_at(columns_.constant, node_++);
            require(is_between(n, 0.0, kMost) && is_sum_of_weights(n),
                    "n_samples must not be negative, and not too large");
            require(std::abs(mean) <= kLargestMean, "mean must be finite and lie within ±1e80");
            // Learning keeps it so: no label is further than that from a mean.
            require(is_between(m2, 0.0, 5 * kLargestMean * kLargestMean * n),
                    "m2 must not be negative, and not too large");
            require(constant <= 1, "constant must be 0 or 1");
            to.moments(v) = {mean, n, m2, constant == 1};
        }

        bool is_at_end() const {
            return columns_.n_samples.size() == node_ && columns_.mean.size() == node_ &&
                   columns_.m2.size() == node_ && columns_.constant.size() == node_;
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
        std::vector<double> n_samples, mean, variance;

        void append(const StudentT &labels, NodeId v) {
            const double n = labels.n_samples(v);
            n_samples.push_back(n);
            mean.push_back(labels.mean(v));
            variance.push_back(n > 0 ? labels.m2(v) / n : 0);
        }

        template <class Use> void for_each(const Use &use) {
            use("n_samples", n_samples, kVector);
            use("mean", mean, kVector);
            use("variance", variance, kVector);
        }
    };

  private:
    // Entries of a mixture.
    enum : std::size_t {
        kMean,
        kSquares,
        kRoot,
        kHasRoot,
        kMeanAbove,
        kVarianceAbove,
        kLeast,
        kSize
    };
    // Labels on a linear base may be larger than those given.
    static constexpr double kLargestMean = 1e80;

    struct Moments {
        double mean = 0;
        double n = 0;
        double m2 = 0;           // the sum of the squared distances from the mean
        bool is_constant = true; // all labels so far are equal
    };

    static double squared_scale(const Belief &belief) {
        return belief.variance * (1 + 1 / belief.n_means);
    }

    static constexpr double kSmall = 0x1.0p-400; // products of two such densities are normal
    static constexpr std::size_t kTableSize = 1024;

    // log of the density of t, up to the constant log pi / 2; of a label of weight w, of w labels
    // in sequence.
    static double log_likelihood(const Belief &belief, double y, double weight) {
        const double nu = belief.n_variances, kappa = belief.n_means;
        const double squares = nu * belief.variance, distance = y - belief.mean;
        const double part = weight * kappa / (kappa + weight);
        const double relative = squares / (belief.unit * belief.unit);
        return log_rising(nu / 2, weight / 2) - 0.5 * weight * std::log(relative) -
               0.5 * std::log1p(weight / kappa) -
               0.5 * (nu + weight) * std::log1p(part * distance * distance / squares);
    }

    // The same without logarithms, for weight 1: c_nu r^(nu / 2) / sqrt(a + d^2), where r = a / (a
    // + d^2) and a = nu s^2 (kappa + 1) / kappa. 0 if there are many labels, or real weights.
    static double small_density(const Belief &belief, double y) {
        const double nu = belief.n_variances, n = nu - kPriorVariances;
        if (n >= kTableSize) return large_density(belief, y);
        const auto count = static_cast<std::size_t>(n);
        if (static_cast<double>(count) != n) return 0;
        const double distance = y - belief.mean;
        const double spread = nu * squared_scale(belief), total = spread + distance * distance;
        double power = 1, factor = std::sqrt(spread / total); // factor^nu
        for (std::size_t rest = count + 2; rest > 0; rest >>= 1U, factor *= factor)
            if ((rest & 1U) != 0) power *= factor;
        return kConstants[count] * power / std::sqrt(total);
    }

    // With many labels, one logarithm.
    static double large_density(const Belief &belief, double y) {
        const double nu = belief.n_variances, distance = y - belief.mean;
        const double spread = nu * squared_scale(belief), square = distance * distance;
        // Gamma((nu + 1) / 2) / Gamma(nu / 2), by Stirling.
        const double u = 1 / nu;
        const double constant =
            std::sqrt(nu / 2) *
            (1 - u * (0.25 - u * (1.0 / 32 + u * (5.0 / 128 - u * 21.0 / 2048))));
        return constant * std::exp(-0.5 * (nu + 1) * std::log1p(square / spread)) /
               std::sqrt(spread);
    }

    // Gamma((nu + 1) / 2) / Gamma(nu / 2) for nu = n + 2.
    inline static const std::array<double, kTableSize> kConstants = [] {
        std::array<double, kTableSize> values{};
        for (std::size_t n = 0; n < kTableSize; ++n)
            values[n] = std::exp(log_rising((kPriorVariances + static_cast<double>(n)) / 2, 0.5));
        return values;
    }();

    const Moments &moments(NodeId v) const { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }
    Moments &moments(NodeId v) { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }

    Pool<Moments> inner_, leaves_;
};

static_assert(LabelModel<StudentT>);

} // namespace amforest
