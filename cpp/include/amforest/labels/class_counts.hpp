// Classes: counts with a Dirichlet prior, and log-loss.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include "amforest/base/memory.hpp"
#include "amforest/base/prefetch.hpp"
#include "amforest/labels/class_gain.hpp"
#include "amforest/labels/gamma.hpp"
#include "amforest/labels/label_model.hpp"

namespace amforest {

struct ClassParameters {
    std::size_t n_classes = 0; // K: the classes known so far
    std::size_t capacity = 0;  // the classes for which nodes have room
    double dirichlet = 0;      // alpha, the parameter of the prior
    double total_alpha = 0;    // alpha K

    bool operator==(const ClassParameters &) const = default;

    template <class Use> void for_each(const Use &use) { visit(*this, use); }
    template <class Use> void for_each(const Use &use) const { visit(*this, use); }

    void validate() {
        require(capacity <= kMostClasses, "capacity must be at most 65535");
        require(n_classes > 0 && n_classes <= capacity, "n_classes must lie in [1, capacity]");
        require(dirichlet >= 1e-100 && dirichlet <= 1e100, "dirichlet must lie in [1e-100, 1e100]");
        total_alpha = dirichlet * static_cast<double>(n_classes);
    }

    void check_successor(const ClassParameters &next) const {
        require(next.n_classes >= n_classes && next.capacity >= capacity,
                "classes must not become fewer");
    }

    void check_update(const ClassParameters &next) const {
        check_successor(next);
        require(next.capacity == capacity, "capacity changes by reserve() alone");
    }

  private:
    template <class Self, class Use> static void visit(Self &self, const Use &use) {
        use("n_classes", self.n_classes);
        use("capacity", self.capacity);
        use("dirichlet", self.dirichlet);
    }
};

// Krichevsky-Trofimov: the prediction of class k is (n_k + alpha) / (n + alpha K).
// Inner nodes count every class. A leaf counts its only class, and the others once it has some.
// Counts are whole numbers, or real ones where weights are.
template <class Count> class ClassCounts {
  public:
    using Label = std::uint32_t;
    using Parameters = ClassParameters;
    static constexpr bool kInherits = false;
    static constexpr bool kHasWholeWeights = std::is_integral_v<Count>;
    static constexpr double kMost = kHasWholeWeights ? kMostCounted : kMostAddedUp;
    static constexpr const char *kAccepted = "y must hold indices of classes";

    // How splits are chosen where they may know labels: see class_gain.hpp.
    using Gain = ClassGain;

    explicit ClassCounts(std::shared_ptr<const Parameters> parameters)
        : parameters_(std::move(parameters)), capacity_(parameters_->capacity), inner_(row_bytes()),
          mixed_(row_bytes()) {
        inner_.make_room(1);
        inner_.add(); // the stem's, which is never read
    }

    // A copy, with room for more classes or with counts of another type.
    template <class Other>
    ClassCounts(const ClassCounts<Other> &earlier, std::shared_ptr<const Parameters> parameters)
        : ClassCounts(std::move(parameters)) {
        copy_rows(earlier, earlier.inner_, 1, inner_);
        copy_rows(earlier, earlier.mixed_, 0, mixed_);
        leaves_.make_room(earlier.leaves_.size());
        for (std::size_t row = 0; row < earlier.leaves_.size(); ++row)
            leaves_.add({static_cast<Count>(earlier.leaves_[row].n), earlier.leaves_[row].what});
    }

    static bool accepts(const Parameters &parameters, Label y) { return y < parameters.n_classes; }

    // Memory

    std::size_t bytes() const { return inner_.bytes() + leaves_.bytes() + mixed_.bytes(); }
    std::size_t empty_bytes() const { return row_bytes(); }
    std::size_t split_bytes() const { return 2 * row_bytes() + sizeof(LeafCount); }

    void make_room(std::size_t count) {
        inner_.make_room(count);
        leaves_.make_room(count);
        mixed_.make_room(count);
    }

    // Forgets all nodes and keeps the memory.
    void clear() {
        inner_.clear();
        leaves_.clear();
        mixed_.clear();
        inner_.add(); // the stem's
    }

    std::size_t n_leaves() const { return leaves_.size(); }
    void add_leaf() { leaves_.add(LeafCount{}); }

    void add_inner(NodeId like) { copy_counts(like, inner_.template at<Count>(inner_.add())); }
    void add_inner() {
        std::fill_n(inner_.template at<Count>(inner_.add()), 1 + capacity_, Count{0});
    }

    void prefetch(NodeId v) const {
        prefetch_line(is_leaf(v) ? leaves_.template at<char>(row_of(v))
                                 : inner_.template at<char>(v));
    }

    void prefetch(NodeId v, Label y) const {
        prefetch(v);
        constexpr std::size_t kFarApart = 8; // with many classes, y is on a cache line of its own
        if (capacity_ > kFarApart && !is_leaf(v))
            prefetch_line(inner_.template at<Count>(v) + 1 + y);
    }

    // Statistics

    Count n_samples(NodeId v) const {
        return is_leaf(v) ? leaf(v).n : *inner_.template at<Count>(v);
    }

    Count count(NodeId v, Label y) const {
        if (const Count *row = dense(v)) return row[1 + y];
        return leaf(v).what == y ? leaf(v).n : 0;
    }

    bool is_pure(NodeId v, Label y) const { return count(v, y) == n_samples(v); }

    bool is_pure(NodeId v) const {
        const Count *row = dense(v);
        return row == nullptr || *std::max_element(row + 1, row + 1 + n_classes()) == row[0];
    }

    void update(NodeId v, Label y, double weight) { add(v, y, static_cast<Count>(weight)); }

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

    // Predictions: sum of c_v (n_v(k) + alpha) / (n_v + alpha K) = sum of s_v n_v(k), + alpha sum
    // of s_v. The second sum is the same for all classes: it is the mixture's last entry.

    static std::size_t mixture_size(const Parameters &p) { return p.n_classes + 1; }
    static std::size_t prediction_size(const Parameters &p) { return p.n_classes; }

    void add_prediction(NodeId v, double coefficient, std::span<double> mixture) const {
        const std::size_t n_classes = mixture.size() - 1;
        const double n = static_cast<double>(n_samples(v));
        const double scale = coefficient / (n + parameters_->total_alpha);
        if (const Count *row = dense(v))
            for (std::size_t k = 0; k < n_classes; ++k) mixture[k] += scale * row[1 + k];
        else
            mixture[leaf(v).what] += scale * n;
        mixture[n_classes] += scale * parameters_->dirichlet;
    }

    // Class after class, so that sums stay in registers.
    double add_predictions(std::span<Share> nodes, double reach, std::span<double> mixture) const {
        const double alpha = parameters_->dirichlet, total_alpha = parameters_->total_alpha;
        double of_prior = mixture.back();
        for (auto &[v, share] : nodes) {
            const double coefficient = reach * share;
            reach *= 1.0 - share;
            share = coefficient / (as_double(*inner_.template at<Count>(v)) + total_alpha);
            of_prior += share * alpha;
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
        const std::span<double> prediction = mixture.first(n_classes());
        for (double &probability : prediction) probability += mixture.back();
        return prediction;
    }

    // Contributions

    struct Way {}; // nodes do not depend on those above
    static std::size_t explained_size(const Parameters &p) { return p.n_classes; }

    void predict_node(NodeId v, Way &, std::span<double> prediction) const {
        const double n = as_double(n_samples(v)), alpha = parameters_->dirichlet;
        const double scale = 1 / (n + parameters_->total_alpha);
        if (const Count *row = dense(v)) {
            for (std::size_t k = 0; k < prediction.size(); ++k)
                prediction[k] = scale * (as_double(row[1 + k]) + alpha);
        } else {
            std::ranges::fill(prediction, scale * alpha);
            prediction[leaf(v).what] = scale * (n + alpha);
        }
    }

    // The probability of y, and log-loss.
    class PathPredictions {
      public:
        PathPredictions(const ClassCounts &labels, Label y) : labels_(labels), y_(y) {}
        double of_root(NodeId root) { return below(root); }
        double below(NodeId v) {
            const ClassParameters &prior = *labels_.parameters_;
            return (static_cast<double>(labels_.count(v, y_)) + prior.dirichlet) /
                   (static_cast<double>(labels_.n_samples(v)) + prior.total_alpha);
        }

      private:
        const ClassCounts &labels_;
        Label y_;
    };
    static double loss(double probability, Label) { return -std::log(probability); }

    // Tables of the original Mondrian forest: min(n_v(k), 1), summed over the classes, or added to
    // an array of them.

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

    // The model file

    template <template <class> class Column> struct FileColumns {
        Column<Count> n_samples;     // of all nodes
        Column<Count> counts;        // inner nodes x classes
        Column<std::uint16_t> label; // of leaves: their only class, or kMixed
        Column<Count> mixed;         // those leaves x classes

        template <class Use> void for_each(const Parameters &parameters, const Use &use) {
            use("n_samples", n_samples, kVector, 0);
            use("counts", counts, parameters.n_classes, 0);
            use("label", label, kVector, 0);
            use("mixed", mixed, parameters.n_classes, 0);
        }
    };

    void append(NodeId v, FileColumns<Owned> &columns) const {
        columns.n_samples.push_back(n_samples(v));
        if (!is_leaf(v)) return append_counts(v, columns.counts);
        const bool is_mixed = leaf(v).is_mixed();
        columns.label.push_back(is_mixed ? kMixed : static_cast<std::uint16_t>(leaf(v).what));
        if (is_mixed) append_counts(v, columns.mixed);
    }

    class Reader {
      public:
        explicit Reader(const FileColumns<Borrowed> &columns) : columns_(columns) {}

        void read(NodeId v, ClassCounts &to) {
            const std::size_t n_classes = to.n_classes();
            n_classes_ = n_classes;
            const Count n = value_at(columns_.n_samples, node_++);
            require(is_between(n, Count{0}, static_cast<Count>(kMost)) && is_sum_of_weights(n),
                    "n_samples must not be negative, and not too large");
            if (!is_leaf(v)) {
                read_counts(v, row_at(columns_.counts, inner_++, n_classes), n, to);
            } else if (const auto label = value_at(columns_.label, leaf_++); label == kMixed) {
                read_counts(v, row_at(columns_.mixed, mixed_++, n_classes), n, to);
            } else {
                require(label < n_classes, "label must be below the number of classes");
                require(n > 0 || label == 0, "leaves without samples must have label 0");
                to.add(v, label, n);
            }
            to.set_n_samples(v, n);
        }

        bool is_at_end() const {
            return columns_.n_samples.size() == node_ && columns_.label.size() == leaf_ &&
                   columns_.counts.size() == inner_ * n_classes_ &&
                   columns_.mixed.size() == mixed_ * n_classes_;
        }

      private:
        static void read_counts(NodeId v, std::span<const Count> counts, Count n, ClassCounts &to) {
            double sum = 0;
            std::size_t n_seen = 0;
            for (std::uint32_t y = 0; y < counts.size(); ++y) {
                require(is_between(counts[y], Count{0}, n) && is_sum_of_weights(counts[y]),
                        "counts must lie between 0 and n_samples");
                if (counts[y] > 0) to.add(v, y, counts[y]);
                sum += static_cast<double>(counts[y]);
                n_seen += counts[y] > 0 ? 1 : 0;
            }
            require(!is_leaf(v) || n_seen > 1, "mixed leaves must have several classes");
            require_sum(sum, n, static_cast<double>(n), "n_samples must add up");
        }

        const FileColumns<Borrowed> &columns_;
        std::size_t n_classes_ = 0, node_ = 0, inner_ = 0, leaf_ = 0, mixed_ = 0;
    };

    // A node's labels are those of its children.
    void check_sums(NodeId v, NodeId left, NodeId right) const {
        const double n = static_cast<double>(n_samples(v));
        const auto sum = [](Count a, Count b) {
            return static_cast<double>(a) + static_cast<double>(b);
        };
        require_sum(sum(n_samples(left), n_samples(right)), n_samples(v), n,
                    "n_samples must add up");
        for (std::uint32_t y = 0; y < n_classes(); ++y)
            require_sum(sum(count(left, y), count(right, y)), count(v, y), n, "counts must add up");
    }

    // The tree table

    struct TableColumns {
        using Number = std::conditional_t<kHasWholeWeights, std::int64_t, double>;
        std::vector<Number> n_samples, counts; // counts: rows x classes
        std::size_t n_classes = 0;

        void append(const ClassCounts &labels, NodeId v) {
            n_classes = labels.n_classes();
            n_samples.push_back(labels.n_samples(v));
            for (std::uint32_t y = 0; y < n_classes; ++y) counts.push_back(labels.count(v, y));
        }

        // Calls use(name, column, width of a row or kVector).
        template <class Use> void for_each(const Use &use) {
            use("n_samples", n_samples, kVector);
            use("counts", counts, n_classes);
        }
    };

  private:
    template <class Other> friend class ClassCounts;

    static constexpr std::uint16_t kMixed = 65535; // in place of a leaf's only class

    struct LeafCount {
        static constexpr std::uint32_t kIsMixed = 1U << 31;

        Count n = 0;
        std::uint32_t what = 0; // the only class; or, with the bit kIsMixed, the row of all counts

        bool is_mixed() const { return (what & kIsMixed) != 0; }
        std::uint32_t row() const { return what & ~kIsMixed; }
    };

    std::size_t n_classes() const { return parameters_->n_classes; }

    // The loss is -log of the prediction, so the likelihood is its power.
    Scaled likelihood_of(double count, double n, double weight, double step) const {
        const double a = count + parameters_->dirichlet, b = n + parameters_->total_alpha;
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
        return leaf(v).is_mixed() ? mixed_.template at<Count>(leaf(v).row()) : nullptr;
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

    // Counts y several times at once.
    void add(NodeId v, Label y, Count times) {
        if (!is_leaf(v)) return add_in(inner_.template at<Count>(v), y, times);
        LeafCount &own = leaves_[row_of(v)];
        if (own.n == 0) own.what = y;
        if (!own.is_mixed() && own.what != y) {
            const std::uint32_t row = mixed_.add();
            copy_counts(v, mixed_.template at<Count>(row));
            own.what = LeafCount::kIsMixed | row;
        }
        if (own.is_mixed()) add_in(mixed_.template at<Count>(own.row()), y, times);
        own.n += times;
    }

    // Restores n, which was not summed in the order of the classes.
    void set_n_samples(NodeId v, Count n) {
        (is_leaf(v) ? leaves_[row_of(v)].n : *inner_.template at<Count>(v)) = n;
        if (is_leaf(v) && leaf(v).is_mixed()) *mixed_.template at<Count>(leaf(v).row()) = n;
    }

    void copy_counts(NodeId from, Count *row) const {
        if (const Count *counts = dense(from)) {
            std::copy_n(counts, 1 + capacity_, row);
        } else {
            std::fill_n(row, 1 + capacity_, Count{0});
            add_in(row, leaf(from).what, leaf(from).n);
        }
    }

    // The counts of all classes; not of a leaf that has one only.
    void append_counts(NodeId v, std::vector<Count> &to) const {
        const Count *row = dense(v);
        to.insert(to.end(), row + 1, row + 1 + n_classes());
    }

    template <class Other>
    void copy_rows(const ClassCounts<Other> &earlier, const Rows &from, std::size_t first,
                   Rows &to) {
        to.make_room(from.size());
        for (std::size_t row = first; row < from.size(); ++row) {
            const auto *counts = from.template at<Other>(row);
            auto *own = to.template at<Count>(to.add());
            std::transform(counts, counts + 1 + earlier.capacity_, own,
                           [](Other count) { return static_cast<Count>(count); });
            std::fill_n(own + 1 + earlier.capacity_, capacity_ - earlier.capacity_, Count{0});
        }
    }

    std::shared_ptr<const Parameters> parameters_;
    std::size_t capacity_;
    Rows inner_;
    Pool<LeafCount> leaves_;
    Rows mixed_;
};

static_assert(LabelModel<ClassCounts<std::uint32_t>> && LabelModel<ClassCounts<double>>);

} // namespace amforest
