// A tree from rows: nodes are split by the best of some random candidates, then the rows are
// charged.
//
// Rows are set, then the features weighed, then nodes grown one by one, then joined, then the rows
// replayed. Nothing allocates after `make_room`.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "amforest/adaptive/columns.hpp"
#include "amforest/adaptive/schedule.hpp"
#include "amforest/tree.hpp"

namespace amforest {

template <class Task> class Grower {
  public:
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Tree = amforest::Tree<Restricted, Labels>;

    static constexpr std::size_t kMostJudged = 1000; // rows on which candidates are judged
    static constexpr std::size_t kMostPairs = 256;
    static constexpr std::size_t kTriedPerRow = 4; // candidates where rows are few

    Grower(const Group &group, Tree tree) : group_(group), tree_(std::move(tree)) {}

    Tree &tree() { return tree_; }
    const Tree &tree() const { return tree_; }

    // Room for a tree from `n_rows` rows of so many columns, and for `n_more` rows that it learns
    // later.
    void make_room(std::size_t n_columns, std::size_t n_classes, std::size_t n_rows,
                   std::size_t n_more) {
        tree_.make_room(std::min(n_rows + n_more, tree_.max_leaves()));
        if (n_rows <= n_rows_room_) return;
        const std::size_t width = padded(n_columns);
        encoded_.resize(n_rows * width);
        y_.resize(n_rows);
        weight_.resize(n_rows);
        coins_.resize(n_rows);
        leaf_of_.resize(n_rows);
        order_.resize(n_rows);
        moved_.resize(n_rows);
        pending_.reserve(n_rows);
        parent_.reserve(n_rows);
        leaf_parent_.reserve(n_rows);
        const std::size_t n_judged = std::min(n_rows, kMostJudged);
        for (Sample *sample : {&sample_, &half_}) {
            sample->rows.reserve(n_judged);
            sample->values.resize(n_judged);
            sample->gain.make_room(n_judged, n_classes);
        }
        weights_.resize(width);
        for (std::vector<double> *sums : {&distance_, &n_pairs_}) sums->resize(width);
        splittable_.reserve(width);
        sizes_.resize(width);
        range_ = other_range_ = Range(Layout{Categories(), n_columns});
        n_rows_room_ = n_rows;
    }
    bool has_room() const { return n_rows_room_ > 0; }

    std::size_t bytes() const {
        constexpr std::size_t kPerRow = sizeof(Label) + sizeof(double) + 1 + 3 * sizeof(NodeId) +
                                        sizeof(Pending) + 2 * sizeof(NodeId);
        return tree_.bytes() + encoded_.size() * sizeof(float) + y_.size() * kPerRow +
               sample_.gain.bytes() + half_.gain.bytes();
    }

    // Rows

    // `has_halves`: some rows are counted in the numbers of categories, the others judge them.
    void start(std::size_t n_columns, std::size_t n_rows, bool has_halves) {
        has_halves_ = has_halves;
        n_rows_ = n_rows;
        n_columns_ = n_columns;
        width_ = padded(n_columns);
        has_gaps_ = false;
        parent_.assign(1, kStem); // the stem's
        leaf_parent_.clear();
    }

    // Row i: whether it chooses splits; if it does not, or if the tree is not honest, it is
    // charged. A row that was counted is known to the numbers of categories, and does not judge
    // them.
    void set_row(std::size_t i, Label y, double weight, bool chooses, bool is_counted) {
        y_[i] = y;
        weight_[i] = weight;
        coins_[i] =
            static_cast<std::uint8_t>((chooses ? kChooses : 0) | (is_counted ? kIsCounted : 0));
    }

    // Its features, as `encode(to)` writes them.
    template <class Encode> void set_features(std::size_t i, const Encode &encode) {
        float *to = &encoded_[i * width_];
        std::fill(to + n_columns_, to + width_, 0.0F);
        encode(to);
        has_gaps_ |= std::any_of(to, to + n_columns_, [](float x) { return std::isnan(x); });
    }

    const float *encoded(std::size_t i) const { return &encoded_[i * width_]; }
    Label label(std::size_t i) const { return y_[i]; }
    void set_label(std::size_t i, Label y) { y_[i] = y; }
    double weight(std::size_t i) const { return weight_[i]; }
    bool is_counted(std::size_t i) const { return (coins_[i] & kIsCounted) != 0; }

    // Steps, each of which returns its work

    // No step has more.
    static std::size_t most_work(std::size_t n_rows, std::size_t n_candidates) {
        return 64 * kMostPairs + 32 + 12 * n_rows + n_candidates * (kMostJudged + 16);
    }

    // lambda_j = 1 / mean |x_j - x'_j| over random pairs of rows.
    std::size_t weigh_features(Rng &rng) {
        const std::size_t n_pairs = std::min(n_rows_, kMostPairs);
        for (std::vector<double> *sums : {&distance_, &n_pairs_})
            std::fill_n(sums->begin(), n_columns_, 0.0);
        for (std::size_t p = 0; p < n_pairs; ++p) {
            const float *a = encoded(rng.below(n_rows_));
            const float *b = encoded(rng.below(n_rows_));
            for (std::size_t j = 0; j < n_columns_; ++j) {
                const double distance =
                    std::abs(static_cast<double>(a[j]) - static_cast<double>(b[j]));
                if (std::isnan(distance)) continue;
                distance_[j] += distance;
                n_pairs_[j] += 1;
            }
        }
        for (std::size_t j = 0; j < n_columns_; ++j)
            weights_[j] =
                distance_[j] > 0
                    ? std::min(static_cast<float>(n_pairs_[j] / distance_[j]), kLargestFeature)
                    : 0.0F;
        tree_.reset(rng.fork(), std::span(weights_).first(n_columns_));
        if (has_gaps_) tree_.expect_gaps();
        start_growing();
        return 64 * n_pairs;
    }

    // The next node, in preorder.
    std::size_t grow(const Columns &columns, std::size_t n_candidates, Rng &rng) {
        const Pending node = pending_.back();
        pending_.pop_back();
        const std::size_t n = node.end - node.begin;
        set_range(node);
        std::size_t work = 32 + 8 * n;
        if (is_whole(node)) {
            add_leaf(node);
        } else {
            set_sample(node, rng);
            work += add_split(node, columns, n_candidates, rng);
        }
        return work;
    }

    bool is_grown() const { return pending_.empty(); }

    // Gives inner node v its range: the last node first, because in preorder children have larger
    // ids than their parents.
    void join(NodeId v) {
        NodeArena &arena = tree_.arena();
        arena.copy_range(arena.inner(v).child[0], range_);
        arena.copy_range(arena.inner(v).child[1], other_range_);
        arena.join_ranges(v, range_, other_range_);
    }

    // Charges row i as if the tree had met it online; or only counts it.
    void replay(std::size_t i) {
        const auto parent_of = [this](NodeId v) {
            return is_leaf(v) ? leaf_parent_[row_of(v)] : parent_[v];
        };
        const bool is_charged = !group_.is_honest || (coins_[i] & kChooses) == 0;
        tree_.replay(leaf_of_[i], y_[i], weight_[i], is_charged, parent_of);
    }

  private:
    static constexpr std::uint8_t kChooses = 1, kIsCounted = 2; // bits of a row's coins

    // A node that is still to be split: rows [begin, middle) of the order choose its split, rows
    // [middle, end) do not.
    struct Pending {
        std::uint32_t begin, middle, end;
        NodeId parent;
        std::uint32_t side;
        double birth_time;
    };

    // Rows on which candidates are judged.
    struct Sample {
        std::vector<std::uint32_t> rows;
        std::vector<float> values;
        typename Labels::Gain gain;
    };

    struct Cut {
        std::size_t column = 0;
        float threshold = 0;
    };

    void start_growing() {
        std::uint32_t middle = 0;
        for (std::uint32_t i = 0; i < n_rows_; ++i)
            if ((coins_[i] & kChooses) != 0) order_[middle++] = i;
        std::uint32_t end = middle;
        for (std::uint32_t i = 0; i < n_rows_; ++i)
            if ((coins_[i] & kChooses) == 0) order_[end++] = i;
        pending_.assign(1, {0, middle, end, kStem, 0, 0.0});
    }

    void set_range(const Pending &node) {
        const std::span rows(&order_[node.begin], node.end - node.begin);
        if (has_gaps_) {
            const float *x = encoded(rows[0]);
            std::copy_n(x, width_, range_.lower.begin());
            std::copy_n(x, width_, range_.upper.begin());
            for (const std::uint32_t i : rows.subspan(1))
                kernels::chosen.widen(encoded(i), range_.lower.data(), range_.upper.data(), width_);
        } else {
            kernels::chosen.enclose(encoded_.data(), rows, range_.lower.data(), range_.upper.data(),
                                    width_);
        }
        splittable_.clear();
        for (std::uint32_t j = 0; j < n_columns_; ++j)
            if (range_.lower[j] < range_.upper[j]) splittable_.push_back(j);
    }

    // Whether the node is a leaf: it is a point, or its labels are equal, or the tree is full.
    bool is_whole(const Pending &node) const {
        if (splittable_.empty() || node.begin == node.middle) return true;
        // This node, and those that wait, are leaves at least.
        if (tree_.arena().n_leaves() + pending_.size() + 2 > tree_.max_leaves()) return true;
        if (tree_.options().split_pure) return false;
        const Label y = y_[order_[node.begin]];
        return std::all_of(&order_[node.begin], &order_[node.begin] + (node.middle - node.begin),
                           [&](std::uint32_t i) { return y_[i] == y; });
    }

    void add_leaf(const Pending &node) {
        const NodeId leaf = tree_.add_grown(range_);
        attach(leaf, node);
        leaf_parent_.push_back(node.parent);
        for (std::uint32_t i = node.begin; i < node.end; ++i) leaf_of_[order_[i]] = leaf;
    }

    void attach(NodeId v, const Pending &node) {
        tree_.arena().inner(node.parent).child[node.side] = v;
    }

    std::size_t add_split(const Pending &node, const Columns &columns, std::size_t n_candidates,
                          Rng &rng) {
        double rate = 0;
        for (const std::uint32_t j : splittable_) rate += size_of(j);
        // The rate is 0 where no pair of rows differed in a feature; times stay finite.
        const double wait = rng.exponential(std::max(rate, std::numeric_limits<double>::min()));
        const double time = std::min(node.birth_time + wait, std::numeric_limits<double>::max());
        const Cut cut = choose_cut(columns, n_candidates, rng);
        const NodeId v = tree_.add_grown({.feature = static_cast<std::uint32_t>(cut.column),
                                          .threshold = cut.threshold,
                                          .split_time = time});
        attach(v, node);
        parent_.push_back(node.parent);
        const std::size_t missing_to = larger_side(node, cut);
        // Rows that choose and rows that do not, each on two sides.
        const std::uint32_t left = split_rows(node.begin, node.middle, cut, missing_to);
        const std::uint32_t rest = split_rows(node.middle, node.end, cut, missing_to);
        const std::uint32_t n_chosen = node.middle - left, n_left = rest - node.middle;
        // [left choosers | right choosers | left rest | right rest] -> swap the inner two.
        std::rotate(&order_[left], &order_[node.middle], &order_[0] + rest);
        const std::uint32_t cut_at = left + n_left;
        pending_.push_back({cut_at, cut_at + n_chosen, node.end, v, 1, time});
        pending_.push_back({node.begin, left, cut_at, v, 0, time});
        return n_tried(n_candidates) * (sample_.gain.size() + 16) + 4 * (node.end - node.begin);
    }

    // lambda_j |R_j|
    double size_of(std::size_t j) const {
        return static_cast<double>(weights_[j]) *
               (static_cast<double>(range_.upper[j]) - static_cast<double>(range_.lower[j]));
    }

    // The rows that choose a split: all of them, or one of each of 1,000 equal parts.
    void set_sample(const Pending &node, Rng &rng) {
        const std::size_t n = node.middle - node.begin, n_judged = std::min(n, kMostJudged);
        for (Sample *sample : {&sample_, &half_}) {
            sample->rows.clear();
            sample->gain.clear();
        }
        for (std::size_t k = 0; k < n_judged; ++k) {
            std::size_t at = k;
            if (n > kMostJudged) {
                const double part = (static_cast<double>(k) + rng.uniform()) *
                                    static_cast<double>(n) / static_cast<double>(kMostJudged);
                at = std::min(static_cast<std::size_t>(part), n - 1);
            }
            const std::uint32_t i = order_[node.begin + at];
            sample_.rows.push_back(i);
            sample_.gain.add(y_[i], weight_[i]);
            // A category's number may know the labels of the rows that were counted.
            if (!has_halves_ || (coins_[i] & kIsCounted) != 0) continue;
            half_.rows.push_back(i);
            half_.gain.add(y_[i], weight_[i]);
        }
        for (Sample *sample : {&sample_, &half_}) sample->gain.finish();
    }

    Cut choose_cut(const Columns &columns, std::size_t n_candidates, Rng &rng) {
        if (group_.is_plain || n_candidates == 1) return draw_cut(draw_by_size(rng), rng);
        Cut best;
        double best_gain = -std::numeric_limits<double>::infinity();
        n_candidates = n_tried(n_candidates);
        for (std::size_t c = 0; c < n_candidates; ++c) {
            const Cut cut = draw_candidate(splittable_[rng.below(splittable_.size())], rng);
            const double gain = gain_of(cut, columns);
            if (gain <= best_gain + sample_.gain.margin()) continue;
            best_gain = gain;
            best = cut;
        }
        return best;
    }

    // A plain Mondrian tree: with probability lambda_j |R_j| / sum of them.
    std::size_t draw_by_size(Rng &rng) {
        for (std::size_t s = 0; s < splittable_.size(); ++s)
            sizes_[s] = static_cast<float>(
                std::min(size_of(splittable_[s]), double{std::numeric_limits<float>::max()}));
        return splittable_[rng.discrete(std::span(sizes_).first(splittable_.size()))];
    }

    Cut draw_cut(std::size_t column, Rng &rng) const {
        return {column,
                threshold_between(range_.lower[column], range_.upper[column], rng.uniform())};
    }

    // Few rows have few splits. Between two rows that judge all are alike.
    std::size_t n_tried(std::size_t n_candidates) const {
        if constexpr (!Task::kCutsBetweenRows) return n_candidates;
        const std::size_t n = sample_.rows.size();
        return n <= 2 ? 1 : std::min(n_candidates, kTriedPerRow * (n - 1));
    }

    // Between two random rows, or anywhere in the range.
    Cut draw_candidate(std::size_t column, Rng &rng) const {
        if constexpr (Task::kCutsBetweenRows) {
            const std::size_t n = sample_.rows.size();
            const float a = encoded(sample_.rows[rng.below(n)])[column];
            const float b = encoded(sample_.rows[rng.below(n)])[column];
            // False where a value is missing.
            if (a < b || b < a)
                return {column, threshold_between(std::min(a, b), std::max(a, b), rng.uniform())};
        }
        return draw_cut(column, rng);
    }

    double gain_of(const Cut &cut, const Columns &columns) {
        if (!columns.is_code(cut.column)) return judge(sample_, cut);
        if (half_.rows.empty()) return 0;
        return judge(half_, cut) * (sample_.gain.total_weight() / half_.gain.total_weight());
    }

    double judge(Sample &sample, const Cut &cut) {
        const std::size_t n = sample.rows.size();
        const float *column = encoded_.data() + cut.column;
        for (std::size_t k = 0; k < n; ++k) sample.values[k] = column[sample.rows[k] * width_];
        return sample.gain.of({sample.values.data(), n}, cut.threshold, has_gaps_);
    }

    // Where a value is missing, the row follows most of the weight, as in any tree.
    std::size_t larger_side(const Pending &node, const Cut &cut) const {
        if (!has_gaps_) return 0;
        double left = 0, right = 0;
        for (std::uint32_t i = node.begin; i < node.end; ++i) {
            const float x = encoded(order_[i])[cut.column];
            left += x <= cut.threshold ? weight_[order_[i]] : 0;
            right += x > cut.threshold ? weight_[order_[i]] : 0;
        }
        return right > left ? 1 : 0;
    }

    // Rows of the left side come first, in their order; returns where the right side begins.
    std::uint32_t split_rows(std::uint32_t begin, std::uint32_t end, const Cut &cut,
                             std::size_t missing_to) {
        std::uint32_t left = begin, n_right = 0;
        for (std::uint32_t i = begin; i < end; ++i) {
            const std::uint32_t row = order_[i];
            const float x = encoded(row)[cut.column];
            const bool is_left = std::isnan(x) ? missing_to == 0 : x <= cut.threshold;
            order_[left] = row;
            moved_[n_right] = row;
            left += is_left ? 1 : 0;
            n_right += is_left ? 0 : 1;
        }
        std::copy_n(moved_.begin(), n_right, order_.begin() + left);
        return left;
    }

    Group group_;
    Tree tree_;
    std::size_t n_rows_ = 0, n_columns_ = 0, width_ = 0;
    bool has_gaps_ = false, has_halves_ = false;
    std::vector<float> encoded_; // rows x width
    std::vector<Label> y_;
    std::vector<double> weight_;
    std::vector<std::uint8_t> coins_;
    std::vector<std::uint32_t> order_, moved_; // rows by node; scratch
    std::vector<NodeId> leaf_of_;              // by row
    std::vector<Pending> pending_;
    std::vector<NodeId> parent_, leaf_parent_; // of nodes
    Sample sample_, half_;                     // rows that judge; those that judge categories
    std::vector<double> distance_, n_pairs_;
    std::vector<float> weights_, sizes_;
    std::vector<std::uint32_t> splittable_; // columns whose range is not a point
    Range range_{Layout{Categories(), 0}}, other_range_{Layout{Categories(), 0}};
    std::size_t n_rows_room_ = 0;
};

} // namespace amforest
