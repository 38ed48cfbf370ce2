// What differs between classification and regression: the forecaster h and the loss of a node.
//
// A label model keeps the labels' statistics of every node of one tree, by NodeId, in step with
// the arena: add_leaf and add_inner are called in the order in which the arena adds nodes.
// A mixture is a sum of coefficient * forecast, finished into a forecast at the end.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <concepts>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "amforest/gamma.hpp"
#include "amforest/memory.hpp"
#include "amforest/node_arena.hpp"
#include "amforest/scaled.hpp"

namespace amforest {

// An inner node on the way of a row that is to be forecast, and its share.
struct Share {
    NodeId v;
    double share;
};

//
// A label of weight w counts as w labels in sequence, also where w is not an integer.
template <class M>
concept LabelModel = requires(M m, const M cm, NodeId v, typename M::Label y, double weight,
                              std::span<double> mixture, double coefficient, std::size_t count,
                              std::span<Share> shares) {
    m.make_room(count); // for as many more nodes
    { cm.empty_bytes() } -> std::same_as<std::size_t>;
    { cm.split_bytes() } -> std::same_as<std::size_t>; // of a leaf and an inner node at the most
    { cm.n_leaves() } -> std::same_as<std::size_t>;
    m.add_leaf();
    m.add_inner();  // without labels
    m.add_inner(v); // a copy of v's statistics
    cm.prefetch(v);
    cm.prefetch(v, y); // and what learning y will change
    { cm.accepts(y) } -> std::same_as<bool>;
    { cm.n_samples(v) } -> std::convertible_to<double>;             // the sum of the weights
    { m.learn(v, y, weight, coefficient) } -> std::same_as<Scaled>; // exp(-step * loss); updates
    // Of a node without labels, for all of the weight but the first label's.
    { cm.likelihood_after_first(y, weight, coefficient) } -> std::same_as<Scaled>;
    { cm.is_pure(v) } -> std::same_as<bool>;
    { cm.is_pure(v, y) } -> std::same_as<bool>;
    m.update(v, y, weight);
    { cm.mixture_size() } -> std::same_as<std::size_t>;
    { cm.forecast_size() } -> std::same_as<std::size_t>;
    cm.add_forecast(v, coefficient, mixture);
    // Of nodes, one below the other, each of which takes its share of what reaches it. Returns
    // what reaches the node below them; the shares are used up.
    { cm.add_forecasts(shares, coefficient, mixture) } -> std::same_as<double>;
    cm.add_default(coefficient, mixture);
    { cm.finish(mixture) } -> std::same_as<std::span<const double>>;
};

// What all trees of a forest share. K grows when a class appears for the first time.
struct ClassPrior {
    ClassPrior(std::size_t n_classes, double dirichlet)
        : n_classes(n_classes), alpha(dirichlet),
          total_alpha(dirichlet * static_cast<double>(n_classes)) {}

    std::size_t n_classes; // K: the classes known so far
    double alpha;          // parameter of the Dirichlet prior
    double total_alpha;    // alpha K
};

template <class M>
concept HasPrior = requires(M m, const ClassPrior &prior) { m.set_prior(prior); };

// What one node may count, so that adding 1 never gets lost.
template <class Count>
inline constexpr double kMostSamples = std::is_integral_v<Count> ? 0x1.0p31 - 1 : 0x1.0p53;

// Of one label: far below, ratios of counts would overflow.
inline constexpr double kLeastWeight = 0x1.0p-100;

// Krichevsky-Trofimov: the forecast of class k is (n_k + alpha) / (n + alpha K); log-loss.
// Inner nodes count every class. A leaf counts its only class, and the others once it has some.
// Counts are integers, or real numbers where weights are.
template <class Count> class ClassCounts {
  public:
    using Label = std::uint32_t;
    static constexpr const char *kAccepted = "y must be indices of classes";
    static constexpr double kMost = kMostSamples<Count>;
    static constexpr bool kWholeWeights = std::is_integral_v<Count>;

    // Room for `capacity` classes, of which the prior knows some.
    ClassCounts(std::shared_ptr<ClassPrior> prior, std::size_t capacity)
        : prior_(std::move(prior)), capacity_(capacity), inner_(row_bytes()), mixed_(row_bytes()) {
        inner_.make_room(1);
        inner_.add(); // the stem's, which nobody reads
    }

    std::size_t capacity() const { return capacity_; }
    std::size_t n_classes() const { return prior_->n_classes; }
    double alpha() const { return prior_->alpha; }
    void set_prior(const ClassPrior &prior) { *prior_ = prior; }
    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes() + mixed_.bytes(); }
    std::size_t empty_bytes() const { return row_bytes(); }
    std::size_t split_bytes() const { return 2 * row_bytes() + sizeof(LeafCount); }

    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
        mixed_.make_room(count);
    }

    std::size_t n_leaves() const { return leaves_.size(); }
    void add_leaf() { leaves_.add(LeafCount{}); }

    void add_inner(NodeId like) { copy_counts(like, inner_.template at<Count>(inner_.add())); }
    void add_inner() {
        std::fill_n(inner_.template at<Count>(inner_.add()), 1 + capacity_, Count{0});
    }

    void prefetch(NodeId v) const {
        __builtin_prefetch(is_leaf(v) ? leaves_.template at<char>(row_of(v))
                                      : inner_.template at<char>(v));
    }

    void prefetch(NodeId v, Label y) const {
        prefetch(v);
        constexpr std::size_t kFarApart = 8; // in many classes, y is on a cache line of its own
        if (capacity_ > kFarApart && !is_leaf(v))
            __builtin_prefetch(inner_.template at<Count>(v) + 1 + y);
    }

    bool accepts(Label y) const { return y < n_classes(); }

    Count n_samples(NodeId v) const {
        return is_leaf(v) ? leaf(v).n : *inner_.template at<Count>(v);
    }

    Count count(NodeId v, Label y) const {
        if (const Count *row = dense(v)) return row[1 + y];
        return leaf(v).what == y ? leaf(v).n : 0;
    }

    // The likelihood comes first: it must not have seen this label.
    Scaled learn(NodeId v, Label y, double weight, double step) {
        count_load(std::min<std::size_t>(2, row_bytes() / 64 + 1) * 64); // cache lines
        if (!is_leaf(v)) [[likely]] {
            auto *row = inner_.template at<Count>(v);
            const Scaled likelihood =
                likelihood_of(as_double(row[1 + y]), as_double(row[0]), weight, step);
            add_in(row, y, static_cast<Count>(weight));
            return likelihood;
        }
        const Scaled likelihood =
            likelihood_of(as_double(count(v, y)), as_double(n_samples(v)), weight, step);
        update(v, y, weight);
        return likelihood;
    }

    Scaled likelihood_after_first(Label, double weight, double step) const {
        return weight > 1 ? likelihood_of(1, 1, weight - 1, step) : Scaled{1};
    }

    bool is_pure(NodeId v, Label y) const { return count(v, y) == n_samples(v); }

    bool is_pure(NodeId v) const {
        const Count *row = dense(v);
        return row == nullptr || *std::max_element(row + 1, row + 1 + n_classes()) == row[0];
    }

    void update(NodeId v, Label y, double weight) { add(v, y, static_cast<Count>(weight)); }

    // sum of c_v (n_v(k) + alpha) / (n_v + alpha K) = sum of s_v n_v(k), + alpha sum of s_v.
    // The second sum is the same for all classes: it is the mixture's last entry.
    std::size_t mixture_size() const { return n_classes() + 1; }
    std::size_t forecast_size() const { return n_classes(); }

    void add_forecast(NodeId v, double coefficient, std::span<double> mixture) const {
        const std::size_t n_classes = mixture.size() - 1;
        const double n = static_cast<double>(n_samples(v));
        const double scale = coefficient / (n + prior_->total_alpha);
        if (const Count *row = dense(v))
            for (std::size_t k = 0; k < n_classes; ++k) mixture[k] += scale * row[1 + k];
        else
            mixture[leaf(v).what] += scale * n;
        mixture[n_classes] += scale * prior_->alpha;
    }

    // Class after class, so that sums stay in registers.
    double add_forecasts(std::span<Share> nodes, double reach, std::span<double> mixture) const {
        double of_prior = mixture.back();
        for (auto &[v, share] : nodes) {
            const double coefficient = reach * share;
            reach *= 1.0 - share;
            share = coefficient / (as_double(*inner_.template at<Count>(v)) + prior_->total_alpha);
            of_prior += share * prior_->alpha;
        }
        mixture.back() = of_prior;
        const std::span<double> sums = mixture.first(mixture.size() - 1);
        std::size_t k = 0;
        for (; k + 4 <= sums.size(); k += 4) add_counts<4>(nodes, k, sums);
        for (; k + 2 <= sums.size(); k += 2) add_counts<2>(nodes, k, sums);
        for (; k < sums.size(); ++k) add_counts<1>(nodes, k, sums);
        return reach;
    }

    void add_default(double coefficient, std::span<double> mixture) const {
        mixture.back() += coefficient / static_cast<double>(n_classes());
    }

    std::span<const double> finish(std::span<double> mixture) const {
        const std::span<double> forecast = mixture.first(n_classes());
        for (double &probability : forecast) probability += mixture.back();
        return forecast;
    }

    // min(n_v(k), 1), summed over the classes, or added to an array of them.
    double n_tables(NodeId v) const {
        const Count *row = dense(v);
        if (row == nullptr) return std::min<double>(leaf(v).n, 1);
        double sum = 0;
        for (std::size_t k = 0; k < n_classes(); ++k) sum += std::min<double>(row[1 + k], 1);
        return sum;
    }

    void add_tables(NodeId v, double coefficient, std::span<double> to) const {
        for_each_count(v, to.size(),
                       [&](std::size_t k, double n) { to[k] += coefficient * std::min(n, 1.0); });
    }

    void add_counts(NodeId v, double coefficient, std::span<double> to) const {
        for_each_count(v, to.size(), [&](std::size_t k, double n) { to[k] += coefficient * n; });
    }

    // Whether a leaf has labels of several classes; otherwise, the only one.
    bool is_mixed(NodeId v) const { return leaf(v).is_mixed(); }
    Label only_class(NodeId v) const { return leaf(v).what; }

    // The counts of all classes; not of a leaf that has one only.
    void append_counts(NodeId v, std::vector<Count> &to) const {
        const Count *row = dense(v);
        to.insert(to.end(), row + 1, row + 1 + n_classes());
    }

    // Counts y several times at once.
    void add(NodeId v, Label y, Count times) {
        if (!is_leaf(v)) return add_in(inner_.template at<Count>(v), y, times);
        LeafCount &own = leaves_[row_of(v)];
        if (own.n == 0) own.what = y;
        if (!own.is_mixed() && own.what != y) {
            const std::uint32_t row = mixed_.add();
            copy_counts(v, mixed_.template at<Count>(row));
            own.what = LeafCount::kMixed | row;
        }
        if (own.is_mixed()) add_in(mixed_.template at<Count>(own.row()), y, times);
        own.n += times;
    }

    // Restoring a saved node: n, which was not summed in the order of the classes.
    void set_n_samples(NodeId v, Count n) {
        (is_leaf(v) ? leaves_[row_of(v)].n : *inner_.template at<Count>(v)) = n;
        if (is_leaf(v) && is_mixed(v)) *mixed_.template at<Count>(leaf(v).row()) = n;
    }

  private:
    struct LeafCount {
        static constexpr std::uint32_t kMixed = 1U << 31;

        Count n = 0;
        std::uint32_t what = 0; // the only class; or, with the bit kMixed, the row of all counts

        bool is_mixed() const { return (what & kMixed) != 0; }
        std::uint32_t row() const { return what & ~kMixed; }
    };

    // The loss is -log of the forecast, so the likelihood is its power.
    Scaled likelihood_of(double count, double n, double weight, double step) const {
        const double a = count + prior_->alpha, b = n + prior_->total_alpha;
        if (weight != 1) [[unlikely]]
            return Scaled::exp(step * (log_rising(a, weight) - log_rising(b, weight)));
        return step == 1 ? Scaled::of(a / b) : Scaled::exp(step * std::log(a / b));
    }

    // Counts are below 2^31, and vectors of signed integers are converted much faster.
    static double as_double(Count count) {
        if constexpr (std::is_integral_v<Count>)
            return static_cast<double>(static_cast<std::int32_t>(count));
        else
            return count;
    }

    // Of kMany classes from the first on.
    template <std::size_t kMany>
    void add_counts(std::span<const Share> nodes, std::size_t first, std::span<double> to) const {
        std::array<double, kMany> sums;
        std::copy_n(&to[first], kMany, sums.data());
        for (const auto &[v, scale] : nodes) {
            const Count *counts = inner_.template at<Count>(v) + 1 + first;
            for (std::size_t k = 0; k < kMany; ++k) sums[k] += scale * as_double(counts[k]);
        }
        std::ranges::copy(sums, &to[first]);
    }

    // A dense row is n followed by the count of each class.
    std::size_t row_bytes() const { return (1 + capacity_) * sizeof(Count); }

    const LeafCount &leaf(NodeId v) const { return leaves_[row_of(v)]; }

    const Count *dense(NodeId v) const {
        if (!is_leaf(v)) return inner_.template at<Count>(v);
        return is_mixed(v) ? mixed_.template at<Count>(leaf(v).row()) : nullptr;
    }

    template <class Use>
    void for_each_count(NodeId v, std::size_t n_classes, const Use &use) const {
        const Count *row = dense(v);
        if (row == nullptr) return use(leaf(v).what, static_cast<double>(leaf(v).n));
        for (std::size_t k = 0; k < n_classes; ++k) use(k, static_cast<double>(row[1 + k]));
    }

    static void add_in(Count *row, Label y, Count times) {
        row[0] += times;
        row[1 + y] += times;
    }

    void copy_counts(NodeId from, Count *row) const {
        if (const Count *counts = dense(from)) {
            std::copy_n(counts, 1 + capacity_, row);
        } else {
            std::fill_n(row, 1 + capacity_, Count{0});
            add_in(row, leaf(from).what, leaf(from).n);
        }
    }

    std::shared_ptr<ClassPrior> prior_;
    std::size_t capacity_;
    Rows inner_;
    Pool<LeafCount> leaves_;
    Rows mixed_;
};

// The mean of the labels, 0 before the first; square loss.
class RunningMean {
  public:
    using Label = double;
    static constexpr const char *kAccepted = "y must be finite and lie within ±1e75";
    static constexpr double kMost = kMostSamples<double>;
    static constexpr bool kWholeWeights = false;

    RunningMean() {
        inner_.make_room(1);
        inner_.add(Mean{}); // the stem's
    }

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
    void add_inner(NodeId like) { inner_.add(mean_of(like)); }

    void prefetch(NodeId v) const { __builtin_prefetch(&mean_of(v)); }
    void prefetch(NodeId v, Label) const { prefetch(v); }

    // Far beyond this, sums of squares would overflow.
    bool accepts(Label y) const { return std::abs(y) <= 1e75; }

    double n_samples(NodeId v) const { return mean_of(v).n; }
    double mean(NodeId v) const { return mean_of(v).mean; }

    // A run of equal labels draws the mean n / (n + i) of the way nearer each time.
    Scaled learn(NodeId v, Label y, double weight, double step) {
        const double n = n_samples(v), loss = (mean(v) - y) * (mean(v) - y);
        update(v, y, weight);
        if (weight == 1) [[likely]]
            return Scaled::exp(-step * loss);
        const double times = n > 0 ? n * n * inverse_squares(n, weight) : std::min(weight, 1.0);
        return Scaled::exp(-step * (times * loss));
    }

    Scaled likelihood_after_first(Label, double, double) const { return {1}; } // the mean is y

    // Exact, because the mean of equal labels is that label to the last bit.
    bool is_pure(NodeId v) const { return mean_of(v).constant; }
    bool is_pure(NodeId v, Label y) const { return is_pure(v) && mean(v) == y; }

    void update(NodeId v, Label y, double weight) {
        Mean &own = mean_of(v);
        const bool first = own.n == 0;
        own.constant = first || is_pure(v, y);
        own.n += weight;
        own.mean = first ? y : own.mean + weight * (y - own.mean) / own.n;
    }

    std::size_t mixture_size() const { return 1; }
    std::size_t forecast_size() const { return 1; }

    void add_forecast(NodeId v, double coefficient, std::span<double> mixture) const {
        mixture[0] += coefficient * mean(v);
    }

    double add_forecasts(std::span<Share> nodes, double reach, std::span<double> mixture) const {
        for (const auto &[v, share] : nodes) {
            add_forecast(v, reach * share, mixture);
            reach *= 1.0 - share;
        }
        return reach;
    }

    void add_default(double, std::span<double>) const {} // h(empty) = 0

    std::span<const double> finish(std::span<double> mixture) const { return mixture; }

    // Restoring a saved node.
    void set(NodeId v, double mean, double n, bool constant) { mean_of(v) = {mean, n, constant}; }

  private:
    struct Mean {
        double mean = 0;
        double n = 0;
        bool constant = true; // all labels so far are equal
    };

    const Mean &mean_of(NodeId v) const { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }
    Mean &mean_of(NodeId v) { return (is_leaf(v) ? leaves_ : inner_)[row_of(v)]; }

    Pool<Mean> inner_, leaves_;
};

static_assert(LabelModel<ClassCounts<std::uint32_t>> && LabelModel<ClassCounts<double>> &&
              LabelModel<RunningMean>);

} // namespace amforest
