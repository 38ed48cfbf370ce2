// One AMF tree: Algorithms 4 and 6 on a partition, its weights and a label model.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "amforest/aggregation.hpp"
#include "amforest/label_model.hpp"
#include "amforest/mondrian_forest.hpp"
#include "amforest/parallel.hpp"
#include "amforest/partition.hpp"
#include "amforest/rng.hpp"

namespace amforest {

inline constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

struct Options {
    double step = 1;              // eta
    bool use_aggregation = true;  // mix all prunings; otherwise forecast with the leaf alone
    bool split_pure = false;      // split nodes whose labels are all equal
    bool charge_first = false;    // charge a node for the loss of its first label
    bool predict_extends = false; // extend the partition by x before predicting x
    SplitPrior split_prior = {};  // of the prunings
    double discount = 0;          // gamma of the original Mondrian forest; 0: mix prunings instead
    double lifetime = std::numeric_limits<double>::infinity(); // no split is later
    // Of the forest. Each tree has an equal part, so that it does not matter which learns first.
    std::size_t max_nodes = kUnlimited, max_bytes = kUnlimited;

    // Whether forecasting x looks at ranges, all the way down.
    bool looks_at_ranges() const { return predict_extends || discount > 0; }
};

// What a tree may split: then numbers alone, whose ceilings are infinite, are compared once only.
// This makes 5 to 10 % of the time of learning and predicting.
enum class Splits { kNumbers, kAny };

// A row to be learnt.
template <class Label> struct Row {
    Point x;
    Label y;
    double weight; // 0: the row is not learnt
};

// Aligned so that threads that work on different trees share no cache line.
template <LabelModel Labels> class alignas(128) Tree {
  public:
    using Label = typename Labels::Label;

    Tree(const Layout &layout, const Options &options, Labels labels, const Rng::State &seed,
         std::size_t n_trees)
        : options_(options), partition_(layout), labels_(std::move(labels)), rng_(seed),
          max_leaves_(max_leaves(n_trees)) {
        make_room(1);
    }

    Labels &labels() { return labels_; }
    const Labels &labels() const { return labels_; }
    NodeArena &arena() { return partition_.arena(); }
    const NodeArena &arena() const { return partition_.arena(); }
    const Rng::State &rng_state() const { return rng_.state(); }
    const Options &options() const { return options_; }
    bool empty() const { return arena().root() == kNone; }
    // The sum of the weights.
    double n_samples() const {
        return empty() ? 0 : static_cast<double>(labels_.n_samples(arena().root()));
    }
    std::size_t bytes() const { return arena().bytes() + labels_.bytes(); }

    // Room for `count` splits: learning as many samples cannot fail any more.
    void make_room(std::size_t count) {
        partition_.make_room(count);
        labels_.make_room(count);
        way_up_.make_room(arena().n_inner() + count + 1);
    }

    std::size_t max_leaves() const { return max_leaves_; }
    bool is_full() const { return arena().n_leaves() >= max_leaves_; }

    // How many leaves fit into the tree's part of the limits, whatever they will hold. One more
    // leaf is one more inner node.
    std::size_t max_leaves(std::size_t n_trees) const {
        const std::size_t nodes = options_.max_nodes / n_trees,
                          bytes = options_.max_bytes / n_trees;
        const std::size_t by_nodes = nodes == 0 ? 0 : (nodes - 1) / 2 + 1;
        const std::size_t empty = arena().empty_bytes() + labels_.empty_bytes();
        const std::size_t each = arena().split_bytes() + labels_.split_bytes();
        return std::min(by_nodes, bytes < empty ? 0 : (bytes - empty) / each);
    }

    // After the weights have been set from outside.
    void refresh_shares() {
        if (!options_.use_aggregation) return;
        for (NodeId v = 1; v <= arena().n_inner(); ++v)
            set_odds(arena().inner(v), arena().inner(v).odds);
    }

    // MondrianUpdate(x, y): x goes down to a leaf; there the partition is extended by x and the
    // walk turns; on the way up y is weighed and counted. One node at a time: go_down until it
    // returns false, turn, go_up until it returns false.
    NodeId start() { return partition_.start(); }

    template <Splits kSplits = Splits::kAny> bool go_down(NodeId &v, const float *x, Label y) {
        const bool goes_on =
            partition_.go_down(v, x, [this](const InnerNode &node, const float *row) {
                return side_of<kSplits>(node, row);
            });
        if (goes_on) labels_.prefetch(v, y);
        return goes_on;
    }

    // New nodes get their weights and labels.
    void turn(Point x, Label y, double weight) {
        if (arena().layout().has_box()) [[unlikely]]
            return turn_in_box(x, y, weight);
        partition_.extend(x, rng_, options_.lifetime, [&](NodeId v) {
            // What was split has labels of two kinds already.
            return is_full() || (is_leaf(v) && !options_.split_pure && labels_.is_pure(v, y));
        });
        swap(way_up_, partition_.path());
        const Step &above = way_up_.back();
        const NodeId leaf = arena().inner(above.inner).child[above.side];
        const bool is_new = row_of(leaf) == labels_.n_leaves();
        if (is_new) labels_.add_leaf();
        learn_in_leaf(leaf, y, weight);
        if (is_new && above.inner != kStem) begin_node(y, weight);
    }

    // Before the turn in the unrestricted partition: draws how the cell of x will be split, and
    // makes room for that. If it fails, or one that comes after it, `take_back` undoes it.
    void prepare_turn(Point x) {
        before_ = rng_.state();
        const std::size_t more = max_leaves_ - std::min(max_leaves_, arena().n_leaves());
        make_room(partition_.draw_cuts(x, rng_, more) + 1);
    }
    void take_back() { rng_ = Rng(before_); }

    // w_v, w-bar_v; and the label is counted.
    bool go_up(Label y, double weight) {
        const NodeId v = way_up_.back().inner;
        way_up_.pop_back();
        if (v == kStem) return false;
        if (options_.use_aggregation)
            gain_ = weigh(arena().inner(v), labels_.learn(v, y, weight, options_.step), gain_);
        else
            labels_.update(v, y, weight);
        return true;
    }

    // Many rows, in their order. A row's way up shares nothing with the next row's way down but
    // the links (and counts, where values are missing), so the two go side by side: one waits for
    // memory, the other for divisions. `row_of(i)` gives x, y and the weight. Flattened, because
    // the compiler inlines less the more label models there are, which cost a fifth of the speed.
    template <class RowOf> void learn(const RowOf &row_of, std::size_t n_rows) {
        if (arena().layout().n_codes() == 0)
            learn_rows<Splits::kNumbers>(row_of, n_rows);
        else
            learn_rows<Splits::kAny>(row_of, n_rows);
    }

    template <Splits kSplits, class RowOf>
    [[gnu::flatten]] void learn_rows(const RowOf &row_of, std::size_t n_rows) {
        Row<Label> last{};
        for (std::size_t i = 0; i < n_rows; ++i) {
            if (i % kAhead == 0 && arena().n_inner() > kBeyondCache)
                look_ahead(row_of, i, std::min(i + kAhead, n_rows));
            const Row<Label> row = row_of(i);
            if (row.weight == 0) continue;
            if (partition_.has_gaps()) finish_way_up(last);
            NodeId v = start();
            for (bool down = true, up = !way_up_.empty(); down || up;) {
                if (down) down = go_down<kSplits>(v, row.x.values, row.y);
                if (up) up = go_up(last.y, last.weight);
            }
            turn(row.x, row.y, row.weight);
            last = row;
        }
        finish_way_up(last);
    }

    // The nodes of a large tree are far away: some rows go down together just to fetch theirs.
    template <class RowOf>
    void look_ahead(const RowOf &row_of, std::size_t first, std::size_t last) const {
        struct Walker {
            const float *x;
            NodeId v;
        };
        std::array<Walker, kAhead> rows;
        for (std::size_t i = first; i < last; ++i)
            rows[i - first] = {row_of(i).x.values, arena().root()};
        in_turn(std::span(rows).first(last - first), [this](Walker &row) {
            const NodeId v = row.v;
            const InnerNode &node = arena().inner(v);
            row.v = node.child[side_of(node, row.x)];
            arena().prefetch_header(row.v);
            labels_.prefetch(row.v);
            if (!is_leaf(row.v)) return true;
            arena().prefetch_range(row.v);
            arena().prefetch_range(v);
            return false;
        });
    }

    // Predict(x), one node at a time: start, go_down until it returns false, finish.
    struct Walk {
        const Tree *tree;
        const float *x;
        NodeId v;
        std::uint32_t n_taken;
        std::array<Share, 32> taken; // of the nodes above v that have one
    };

    void start(Walk &walk, const float *x) const {
        walk.tree = this;
        walk.x = x;
        walk.v = arena().root();
        walk.n_taken = 0;
    }

    // Takes the share of the walk's node and moves on to its child; false at the end, or when the
    // walk can take no more. About half of the nodes have a share, which no processor can foresee:
    // so there is no branch on it, and what has none is overwritten.
    template <Splits kSplits = Splits::kAny> bool go_down(Walk &walk) const {
        if (is_leaf(walk.v)) return false;
        const InnerNode &node = arena().inner(walk.v);
        const NodeId child = node.child[side_of<kSplits>(node, walk.x)];
        const NodeId has_share = std::bit_cast<std::uint64_t>(node.share) != 0;
        labels_.prefetch(walk.v & -has_share); // or those of the stem, which are there
        walk.taken[walk.n_taken] = {walk.v, node.share};
        walk.n_taken += has_share;
        walk.v = child;
        if (is_leaf(child) || walk.n_taken == walk.taken.size()) return false;
        arena().prefetch_header(child);
        return true;
    }

    // Adds up the mixture of Equation (6), zero at the start. A long walk goes on meanwhile.
    void finish(Walk &walk, std::span<double> mixture) const {
        double reach = 1; // weight of the prunings that go below the nodes added so far
        while (true) {
            const std::span<Share> taken(walk.taken.data(), walk.n_taken);
            reach = labels_.add_forecasts(taken, reach, mixture);
            if (is_leaf(walk.v)) break;
            walk.n_taken = 0;
            while (go_down(walk)) {
            }
        }
        labels_.add_forecast(walk.v, reach, mixture);
    }

    // Whether there is more to Predict(x) than the way down: `predict` does it all.
    bool needs_more() const { return empty() || options_.looks_at_ranges(); }
    void predict(Point x, std::span<double> mixture, std::span<double> scratch) const {
        if (empty())
            labels_.add_default(1.0, mixture);
        else if (options_.discount > 0)
            predict_smoothing(x, mixture, scratch);
        else if (arena().layout().has_box())
            predict_in_box(x, mixture);
        else
            predict_extending(x, mixture, scratch);
    }

    // Sum over the prunings T of w(T) depth_T(x).
    double weighted_depth(const float *x) const {
        double depth = 0, reach = 1;
        for (NodeId v = arena().root(); !is_leaf(v);) {
            const InnerNode &node = arena().inner(v);
            reach *= 1.0 - node.share;
            depth += reach;
            v = node.child[side_of(node, x)];
        }
        return depth;
    }

    NodeId leaf_of(const float *x) const {
        NodeId v = arena().root();
        while (!is_leaf(v)) {
            const InnerNode &node = arena().inner(v);
            v = node.child[side_of(node, x)];
        }
        return v;
    }

    // s_v < x_j <= ceiling goes to child 1. Where x_j is missing, x goes where most samples went.
    template <Splits kSplits = Splits::kAny>
    std::size_t side_of(const InnerNode &node, const float *x) const {
        const float value = x[node.feature];
        if (std::isnan(value)) [[unlikely]]
            return labels_.n_samples(node.child[1]) > labels_.n_samples(node.child[0]) ? 1 : 0;
        if constexpr (kSplits == Splits::kNumbers) return value <= node.threshold ? 0 : 1;
        return static_cast<std::size_t>(value > node.threshold) &
               static_cast<std::size_t>(value <= node.ceiling);
    }

    // Before rows with missing values are learnt.
    void expect_gaps() { partition_.expect_gaps(); }

  private:
    void finish_way_up(const Row<Label> &row) {
        for (bool up = !way_up_.empty(); up;) up = go_up(row.y, row.weight);
    }

    void learn_in_leaf(NodeId leaf, Label y, double weight) {
        if (options_.charge_first || labels_.n_samples(leaf) > 0) {
            gain_ = labels_.learn(leaf, y, weight, options_.step);
        } else {
            gain_ = labels_.likelihood_after_first(y, weight, options_.step);
            labels_.update(leaf, y, weight);
        }
    }

    // `turn` in the unrestricted partition: all new inner nodes have what the leaf they split had.
    // Its weight is w-bar of them all, so that they learn like others.
    void turn_in_box(Point x, Label y, double weight) {
        const Stack<Step> &path = partition_.path();
        const NodeId split =
            empty() ? kNone : arena().inner(path.back().inner).child[path.back().side];
        partition_.extend_cell(x);
        const std::size_t first = path.size() - partition_.n_new_inner();
        for (std::size_t i = first; i < path.size(); ++i) {
            labels_.add_inner(split);
            // The stem comes first in the path, so the depth of step i is i - 1.
            InnerNode &node = arena().inner(path[i].inner);
            node.odds = odds_above_leaf(options_.split_prior.at(i - 1));
            if (options_.use_aggregation) set_odds(node, node.odds);
        }
        while (labels_.n_leaves() < arena().n_leaves()) labels_.add_leaf();
        swap(way_up_, partition_.path());
        const Step &above = way_up_.back();
        learn_in_leaf(arena().inner(above.inner).child[above.side], y, weight);
    }

    // The new inner node at the end of the path has what the node it moved down had; then it
    // learns.
    void begin_node(Label y, double weight) {
        const auto [v, side] = way_up_.back();
        way_up_.pop_back();
        InnerNode &node = arena().inner(v);
        const NodeId moved = node.child[1 - side];
        labels_.add_inner(moved);
        if (options_.use_aggregation) {
            const double a = options_.split_prior.alpha;
            node.odds = is_leaf(moved) ? odds_above_leaf(a) : odds_above(arena().inner(moved), a);
            gain_ = weigh(node, labels_.learn(v, y, weight, options_.step), gain_, before_split(a));
        } else {
            labels_.update(v, y, weight);
        }
    }

    // Of the mixture's entries, one for each class.
    void predict_smoothing(Point x, std::span<double> mixture, std::span<double> above) const {
        if constexpr (HasTables<Labels>) {
            const auto child_of = [&](NodeId v) {
                const InnerNode &node = arena().inner(v);
                return node.child[side_of(node, x.values)];
            };
            const std::size_t n = labels_.forecast_size();
            predict_mondrian_forest(arena(), labels_, x, options_.discount, options_.lifetime,
                                    child_of, mixture.first(n), above.first(n));
        }
    }

    // The mean of the forecasts over the places where x may branch off its path. At v this has
    // probability p, given that it has not above. Then v's children are a copy of v and a fresh
    // leaf {x}, w-bar_v becomes (1 - a) w_v + a w-bar_v, and the total weight, with w-bar of the
    // root as unit, 1 - reach + reach (share + a). `above` is the mixture of v's ancestors, and
    // `taken` their weight: 1 - reach, but not mere rounding where it is tiny.
    void predict_extending(Point x, std::span<double> mixture, std::span<double> above) const {
        std::ranges::fill(above, 0.0);
        const double a = options_.split_prior.alpha;
        double reach = 1, taken = 0, birth_time = 0;
        double stays = 1; // the probability that x has not branched off yet
        NodeId v = arena().root();
        while (true) {
            const bool last = is_leaf(v);
            const double leaf_share = options_.use_aggregation ? 1.0 - a : 0.0;
            const double share = last ? leaf_share : arena().inner(v).share;
            if (const double p = branch_probability(v, x, birth_time); p > 0) {
                const double weight = stays * p / (taken + reach * (share + a));
                add(weight, above, mixture);
                labels_.add_forecast(v, weight * (reach * share), mixture);
                labels_.add_default(weight * (reach * a), mixture);
                stays *= 1.0 - p;
            }
            labels_.add_forecast(v, last ? reach : reach * share, above);
            if (last) break;
            taken += reach * share;
            reach *= 1.0 - share;
            const InnerNode &node = arena().inner(v);
            birth_time = node.split_time;
            v = node.child[side_of(node, x.values)];
        }
        add(stays, above, mixture);
    }

    // Predict(x) in the unrestricted partition (Algorithm 3), in the mean over the splits that
    // would separate x from the point in its leaf. Of these, each new node has the leaf's forecast
    // and a share of 1 - a; below the last is the fresh leaf of x. So h(empty) gets a^K of what
    // reaches the leaf.
    void predict_in_box(Point x, std::span<double> mixture) const {
        Cell cell(arena().layout());
        double reach = 1;
        NodeId v = arena().root();
        while (!is_leaf(v)) {
            const InnerNode &node = arena().inner(v);
            const std::size_t side = side_of(node, x.values);
            labels_.add_forecast(v, reach * node.share, mixture);
            reach *= 1.0 - node.share;
            cell.narrow(node.feature, node.threshold, side);
            v = node.child[side];
        }
        double fresh = 0;
        if (!arena().is_empty(v) && !arena().is_at(v, x) && !is_full())
            fresh = options_.use_aggregation
                        ? cell.mean_power(options_.split_prior.alpha, x.values, arena().point(v))
                        : 1;
        labels_.add_forecast(v, reach * (1 - fresh), mixture);
        labels_.add_default(reach * fresh, mixture);
    }

    // p_v = 1 - exp(-Delta_v t_v), t_v being the time from v's birth to its children's.
    double branch_probability(NodeId v, Point x, double birth_time) const {
        const double extension = static_cast<double>(arena().extension(v, x));
        if (extension == 0 || is_full() || (!options_.split_pure && labels_.is_pure(v))) return 0;
        if (is_leaf(v)) return 1;
        return -std::expm1(-extension * (arena().inner(v).split_time - birth_time));
    }

    static void add(double weight, std::span<const double> from, std::span<double> to) {
        for (std::size_t k = 0; k < to.size(); ++k) to[k] += weight * from[k];
    }

    static constexpr std::size_t kAhead = 8;
    static constexpr std::size_t kBeyondCache = std::size_t{1} << 17; // nodes, of 64 bytes

    Options options_;
    Partition partition_;
    Labels labels_;
    Rng rng_;
    Rng::State before_{}; // the row that is about to be learnt, in the unrestricted partition
    std::size_t max_leaves_;
    Stack<Step> way_up_; // what is left of the last row's path
    Scaled gain_;        // of the node below it
};

} // namespace amforest
