// A tree that is being regrown from remembered rows, in steps of bounded work.
//
// 1. Read the rows: draw which of them choose splits, and learn the numbers of categories.
// 2. Encode them as the tree sees them.
// 3. Set the feature weights: lambda_j = 1 / mean |x_j - x'_j| over random pairs of rows.
// 4. Grow: a node is split by the best of some random candidates.
// 5. Join the ranges of the nodes, from the leaves upward.
// 6. Replay the rows in their order: they are charged as if the tree had met them online.
// 7. Catch up with the rows that came meanwhile, as any tree learns.
//
// All depends on the rows, the seed and the number of steps alone. So a regrowth is saved as these
// three, and restored by the same steps.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "amforest/adaptive/category_numbers.hpp"
#include "amforest/adaptive/row_store.hpp"
#include "amforest/adaptive/schedule.hpp"
#include "amforest/tree.hpp"

namespace amforest {

// The columns of a tree: features of a row, categories as numbers. Features that are added later
// come last.
class Columns {
  public:
    Columns(const Layout &layout, std::vector<std::uint32_t> features)
        : n_codes_(layout.n_codes()), features_(std::move(features)) {}

    std::size_t size() const { return features_.size(); }
    const std::vector<std::uint32_t> &features() const { return features_; }
    bool is_code(std::size_t column) const { return features_[column] < n_codes_; }
    bool have_codes() const { return n_codes_ > 0; }

    // `to` has room for all columns, padded; adding 0 turns -0 into 0.
    void encode(const float *row, const CategoryNumbers &numbers, float *to) const {
        for (std::size_t c = 0; c < size(); ++c) {
            const std::uint32_t f = features_[c];
            to[c] = f < n_codes_ ? numbers.of(f, row[f]) : row[f] + 0.0F;
        }
    }

  private:
    std::size_t n_codes_;
    std::vector<std::uint32_t> features_; // by column
};

// What all regrowths of a forest share.
struct RegrowthContext {
    const Layout &layout; // of the rows
    const Columns &columns;
    std::size_t n_candidates;
    std::size_t n_classes, capacity; // of labels; room is made for the capacity
    std::size_t n_spare;             // rows that the store keeps longer than memories reach
};

template <LabelModel Labels> class Regrowth {
  public:
    using Label = typename Labels::Label;
    using Tree = amforest::Tree<Restricted, Labels>;
    using Store = RowStore<Label>;
    using Context = RegrowthContext;

    static constexpr double kChoosing = 0.7;         // the part of an honest tree's rows
    static constexpr std::size_t kMostJudged = 1000; // rows on which candidates are judged
    static constexpr std::size_t kMostPairs = 256;

    Regrowth(const Group &group, Tree tree) : group_(group), tree_(std::move(tree)) {}

    // Room for a regrowth from `n_rows` rows, and for `n_more` rows that the tree learns later. One
    // that is under way has yet to learn those that came since it started.
    void make_room(const Context &context, std::size_t n_rows, std::size_t n_more) {
        const std::size_t width = padded(context.columns.size());
        tree_.make_room(std::min(n_rows + n_more, tree_.max_leaves()));
        if (learns_numbers(context)) numbers_.make_room(context.layout.categories, n_rows);
        if (n_rows <= n_rows_room_) return;
        encoded_.resize(std::max(encoded_.size(), n_rows * width));
        y_.resize(std::max(y_.size(), n_rows));
        weight_.resize(y_.size());
        coins_.resize(y_.size());
        leaf_of_.resize(y_.size());
        order_.resize(y_.size());
        moved_.resize(y_.size());
        pending_.reserve(y_.size());
        parent_.reserve(y_.size());
        leaf_parent_.reserve(y_.size());
        const std::size_t n_judged = std::min(y_.size(), kMostJudged);
        for (Sample *sample : {&sample_, &half_}) {
            sample->rows.reserve(n_judged);
            sample->values.resize(n_judged);
            sample->gain.make_room(n_judged, context.capacity);
        }
        contrast_.resize(context.capacity);
        row_.resize(width);
        weights_.resize(width);
        for (std::vector<double> *sums : {&distance_, &n_pairs_}) sums->resize(width);
        splittable_.reserve(width);
        sizes_.resize(width);
        range_ = other_range_ = Range(Layout{Categories(), context.columns.size()});
        n_rows_room_ = n_rows;
    }
    bool has_room() const { return n_rows_room_ > 0; }

    std::size_t bytes() const {
        constexpr std::size_t kPerRow = sizeof(Label) + sizeof(double) + 1 + 3 * sizeof(NodeId) +
                                        sizeof(Pending) + 2 * sizeof(NodeId);
        return tree_.bytes() + numbers_.bytes() + encoded_.size() * sizeof(float) +
               y_.size() * kPerRow + sample_.gain.bytes() + half_.gain.bytes();
    }

    // Starts to regrow a tree from rows [first, last).
    void start(const Context &context, const Rng::State &seed, std::uint64_t key, std::size_t first,
               std::size_t last) {
        seed_ = seed;
        first_ = first;
        last_ = last;
        numbers_.set_key(key);
        credit_ = 0;
        restart(context);
    }

    // Starts again, with the same rows and seed: after the classes or the features have changed.
    void restart(const Context &context) {
        n_steps_ = 0;
        rng_ = Rng(seed_);
        phase_ = Phase::kRead;
        next_ = 0;
        is_active_ = true;
        has_gaps_ = false;
        has_halves_ = learns_numbers(context);
        width_ = padded(context.columns.size());
        n_columns_ = context.columns.size();
        parent_.assign(1, kStem); // the stem's
        leaf_parent_.clear();
        if (!learns_numbers(context)) return;
        numbers_.start(context.layout.categories, last_ - first_);
        draw_contrast(context.n_classes);
    }

    bool is_active() const { return is_active_; }
    // After the trees were swapped: the other one is forgotten.
    void stop() {
        is_active_ = false;
        tree_.clear();
    }
    std::size_t first() const { return first_; }
    std::size_t last() const { return last_; }
    const Rng::State &seed() const { return seed_; }
    std::size_t n_steps() const { return n_steps_; }
    std::int64_t credit() const { return credit_; }

    Tree &tree() { return tree_; }
    const Tree &tree() const { return tree_; }
    CategoryNumbers &numbers() { return numbers_; }

    // Works for one more row; rows before `now` may be read. True once the tree has learned them.
    bool work(const Context &context, const Store &store, std::size_t now) {
        credit_ += work_for(now - last_, context.n_spare);
        while (credit_ > 0) {
            if (phase_ == Phase::kCatchUp && next_ == now) return true;
            credit_ -= static_cast<std::int64_t>(step(context, store));
        }
        return phase_ == Phase::kCatchUp && next_ == now;
    }

    // After a restart: the steps that were taken before. False if there are not so many.
    bool repeat(const Context &context, const Store &store, std::size_t n_steps,
                std::int64_t credit) {
        credit_ = credit;
        while (n_steps_ < n_steps) {
            if (phase_ == Phase::kCatchUp && next_ == store.end()) return false;
            step(context, store);
        }
        return true;
    }

    // Work is counted in units of about a nanosecond, for some ten features. It does not depend on
    // their number: rows with features that come later must take the same steps.
    static constexpr std::int64_t kWorkPerRow = 1 << 14;

  private:
    enum class Phase : std::uint8_t { kRead, kEncode, kWeigh, kGrow, kJoin, kReplay, kCatchUp };
    static constexpr std::size_t kRowsAtOnce = 128;
    static constexpr std::uint8_t kChooses = 1, kIsCounted = 2; // bits of a row's coins

    // Rows of the tree's table of nodes that are still to be split: [begin, middle) choose splits,
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

    // For a row, `n_late` after the start. The end must come while the store has all rows since
    // then: when half of the time is over, the work doubles again and again.
    static std::int64_t work_for(std::size_t n_late, std::size_t n_spare) {
        const std::size_t half = std::max<std::size_t>(n_spare / 2, 1);
        if (n_late <= half) return kWorkPerRow;
        return kWorkPerRow << std::min<std::size_t>(1 + 16 * (n_late - half) / half, 32);
    }

    std::size_t n_rows() const { return last_ - first_; }
    const float *encoded(std::size_t i) const { return &encoded_[i * width_]; }
    bool learns_numbers(const Context &context) const {
        return context.columns.have_codes() && !group_.is_plain;
    }

    // Takes one step; returns its work.
    std::size_t step(const Context &context, const Store &store) {
        ++n_steps_;
        switch (phase_) {
        case Phase::kRead:
            return read(context, store);
        case Phase::kEncode:
            return encode(context, store);
        case Phase::kWeigh:
            return weigh_features();
        case Phase::kGrow:
            return grow(context);
        case Phase::kJoin:
            return join();
        case Phase::kReplay:
            return replay();
        case Phase::kCatchUp:
            break;
        }
        return catch_up(context, store);
    }

    // Calls use(i) for the next rows; then comes the next phase.
    template <class Use> std::size_t for_next(std::size_t end, Phase next, const Use &use) {
        const std::size_t first = next_, last = std::min(end, first + kRowsAtOnce);
        for (; next_ < last; ++next_) use(next_);
        if (next_ == end) {
            phase_ = next;
            next_ = 0;
        }
        return last - first;
    }

    // 1. Read

    // A statistic of the label: with two classes whether it is the second, with more a random
    // number for each class.
    void draw_contrast(std::size_t n_classes) {
        if (n_classes <= 2) {
            for (std::size_t k = 0; k < n_classes; ++k) contrast_[k] = static_cast<double>(k);
            return;
        }
        for (std::size_t k = 0; k < n_classes; ++k) contrast_[k] = rng_.uniform();
    }

    std::size_t read(const Context &context, const Store &store) {
        const bool learns = learns_numbers(context);
        const std::size_t n_codes = context.layout.n_codes();
        const std::size_t count = for_next(n_rows(), Phase::kEncode, [&](std::size_t i) {
            y_[i] = store.label(first_ + i);
            weight_[i] = store.weight(first_ + i);
            const bool chooses = !group_.is_honest || rng_.uniform() < kChoosing;
            const bool is_counted = learns && rng_.uniform() < 0.5;
            coins_[i] =
                static_cast<std::uint8_t>((chooses ? kChooses : 0) | (is_counted ? kIsCounted : 0));
            if (!chooses || !is_counted) return;
            const double statistic = contrast_[y_[i]];
            numbers_.count_row(statistic, weight_[i]);
            const float *x = store.features(first_ + i);
            for (std::size_t f = 0; f < n_codes; ++f)
                numbers_.count(f, x[f], statistic, weight_[i]);
        });
        if (phase_ != Phase::kRead && learns) numbers_.finish();
        return count * 4;
    }

    // 2. Encode

    std::size_t encode(const Context &context, const Store &store) {
        const std::size_t count = for_next(n_rows(), Phase::kWeigh, [&](std::size_t i) {
            float *to = &encoded_[i * width_];
            std::fill(to + n_columns_, to + width_, 0.0F);
            context.columns.encode(store.features(first_ + i), numbers_, to);
            has_gaps_ |= std::any_of(to, to + n_columns_, [](float x) { return std::isnan(x); });
        });
        return count * 16;
    }

    // 3. Weigh

    std::size_t weigh_features() {
        const std::size_t n_pairs = std::min(n_rows(), kMostPairs);
        for (std::vector<double> *sums : {&distance_, &n_pairs_})
            std::fill_n(sums->begin(), n_columns_, 0.0);
        for (std::size_t p = 0; p < n_pairs; ++p) {
            const float *a = encoded(rng_.below(n_rows()));
            const float *b = encoded(rng_.below(n_rows()));
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
        tree_.reset(rng_.fork(), std::span(weights_).first(n_columns_));
        if (has_gaps_) tree_.expect_gaps();
        start_growing();
        phase_ = Phase::kGrow;
        return 64 * n_pairs;
    }

    // 4. Grow

    void start_growing() {
        std::uint32_t middle = 0;
        for (std::uint32_t i = 0; i < n_rows(); ++i)
            if ((coins_[i] & kChooses) != 0) order_[middle++] = i;
        std::uint32_t end = middle;
        for (std::uint32_t i = 0; i < n_rows(); ++i)
            if ((coins_[i] & kChooses) == 0) order_[end++] = i;
        pending_.assign(1, {0, middle, end, kStem, 0, 0.0});
    }

    // The next node, in preorder.
    std::size_t grow(const Context &context) {
        const Pending node = pending_.back();
        pending_.pop_back();
        const std::size_t n = node.end - node.begin;
        set_range(node);
        std::size_t work = 32 + 8 * n;
        if (is_whole(node)) {
            add_leaf(node);
        } else {
            set_sample(node);
            work += add_split(node, context);
        }
        if (pending_.empty()) {
            phase_ = Phase::kJoin;
            next_ = tree_.arena().n_inner();
        }
        return work;
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

    std::size_t add_split(const Pending &node, const Context &context) {
        double rate = 0;
        for (const std::uint32_t j : splittable_) rate += size_of(j);
        // The rate is 0 where no pair of rows differed in a feature; times stay finite.
        const double wait = rng_.exponential(std::max(rate, std::numeric_limits<double>::min()));
        const double time = std::min(node.birth_time + wait, std::numeric_limits<double>::max());
        const Cut cut = choose_cut(context);
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
        return context.n_candidates * (sample_.gain.size() + 16) + 4 * (node.end - node.begin);
    }

    // lambda_j |R_j|
    double size_of(std::size_t j) const {
        return static_cast<double>(weights_[j]) *
               (static_cast<double>(range_.upper[j]) - static_cast<double>(range_.lower[j]));
    }

    // The rows that choose a split: all of them, or one of each of 1,000 equal parts.
    void set_sample(const Pending &node) {
        const std::size_t n = node.middle - node.begin, n_judged = std::min(n, kMostJudged);
        for (Sample *sample : {&sample_, &half_}) {
            sample->rows.clear();
            sample->gain.clear();
        }
        for (std::size_t k = 0; k < n_judged; ++k) {
            std::size_t at = k;
            if (n > kMostJudged) {
                const double part = (static_cast<double>(k) + rng_.uniform()) *
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

    Cut choose_cut(const Context &context) {
        if (group_.is_plain || context.n_candidates == 1) return draw_cut(draw_by_size());
        Cut best;
        double best_gain = -std::numeric_limits<double>::infinity();
        for (std::size_t c = 0; c < context.n_candidates; ++c) {
            const Cut cut = draw_cut(splittable_[rng_.below(splittable_.size())]);
            const double gain = gain_of(cut, context);
            if (gain <= best_gain) continue;
            best_gain = gain;
            best = cut;
        }
        return best;
    }

    // A plain Mondrian tree: with probability lambda_j |R_j| / sum of them.
    std::size_t draw_by_size() {
        for (std::size_t s = 0; s < splittable_.size(); ++s)
            sizes_[s] = static_cast<float>(
                std::min(size_of(splittable_[s]), double{std::numeric_limits<float>::max()}));
        return splittable_[rng_.discrete(std::span(sizes_).first(splittable_.size()))];
    }

    Cut draw_cut(std::size_t column) {
        return {column,
                threshold_between(range_.lower[column], range_.upper[column], rng_.uniform())};
    }

    double gain_of(const Cut &cut, const Context &context) {
        if (!context.columns.is_code(cut.column)) return judge(sample_, cut);
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

    // 5. Join

    // In preorder children have larger ids than their parents.
    std::size_t join() {
        std::size_t n_joined = 0;
        NodeArena &arena = tree_.arena();
        for (; next_ > 0 && n_joined < kRowsAtOnce; --next_, ++n_joined) {
            const auto v = static_cast<NodeId>(next_);
            arena.copy_range(arena.inner(v).child[0], range_);
            arena.copy_range(arena.inner(v).child[1], other_range_);
            arena.join_ranges(v, range_, other_range_);
        }
        if (next_ == 0) phase_ = Phase::kReplay;
        return n_joined * 32;
    }

    // 6. Replay

    std::size_t replay() {
        const auto parent_of = [this](NodeId v) {
            return is_leaf(v) ? leaf_parent_[row_of(v)] : parent_[v];
        };
        const std::size_t count = for_next(n_rows(), Phase::kCatchUp, [&](std::size_t i) {
            const bool is_charged = !group_.is_honest || (coins_[i] & kChooses) == 0;
            tree_.replay(leaf_of_[i], y_[i], weight_[i], is_charged, parent_of);
        });
        if (phase_ == Phase::kCatchUp) next_ = last_;
        return count * 128;
    }

    // 7. Catch up

    std::size_t catch_up(const Context &context, const Store &store) {
        std::fill(row_.begin() + static_cast<std::ptrdiff_t>(n_columns_), row_.end(), 0.0F);
        context.columns.encode(store.features(next_), numbers_, row_.data());
        const auto is_missing = [](float x) { return std::isnan(x); };
        if (std::any_of(row_.begin(), row_.end(), is_missing)) tree_.expect_gaps();
        tree_.learn_one({{row_.data(), nullptr}, store.label(next_), store.weight(next_)});
        ++next_;
        return 1024;
    }

    Group group_;
    Tree tree_;
    CategoryNumbers numbers_;

    // What makes the regrowth.
    Rng::State seed_{};
    std::size_t first_ = 0, last_ = 0; // rows
    std::size_t n_steps_ = 0;
    std::int64_t credit_ = 0; // the work that may still be done now; below 0, what was done ahead
    bool is_active_ = false;

    // What follows from that.
    Rng rng_{Rng::State{}};
    Phase phase_ = Phase::kRead;
    std::size_t next_ = 0; // row or node of the phase
    bool has_gaps_ = false, has_halves_ = false;
    std::size_t width_ = 0, n_columns_ = 0;
    std::vector<float> encoded_; // rows x width
    std::vector<Label> y_;
    std::vector<double> weight_;
    std::vector<std::uint8_t> coins_;
    std::vector<std::uint32_t> order_, moved_; // rows by node; scratch
    std::vector<NodeId> leaf_of_;              // by row
    std::vector<Pending> pending_;
    std::vector<NodeId> parent_, leaf_parent_; // of nodes
    Sample sample_, half_;
    std::vector<double> contrast_, distance_, n_pairs_;
    std::vector<float> weights_, sizes_, row_;
    std::vector<std::uint32_t> splittable_; // columns whose range is not a point
    Range range_{Layout{Categories(), 0}}, other_range_{Layout{Categories(), 0}};
    std::size_t n_rows_room_ = 0;
};

} // namespace amforest
