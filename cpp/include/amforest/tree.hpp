// One AMF tree: Algorithms 4 and 6 on a partition, its weights and a label model.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "amforest/base/parallel.hpp"
#include "amforest/base/require.hpp"
#include "amforest/base/rng.hpp"
#include "amforest/importance.hpp"
#include "amforest/labels/label_model.hpp"
#include "amforest/options.hpp"
#include "amforest/partition/restricted.hpp"
#include "amforest/partition/unrestricted.hpp"
#include "amforest/weights/odds.hpp"

namespace amforest {

// What a tree may split: where all features are numbers, whose ceilings are infinite, one
// comparison suffices. This saves 5 to 10 % of the time of learning and predicting.
enum class Splits { kNumbers, kAny };

// Which nodes a walk takes: a prediction needs those with a share, contributions need all.
enum class Nodes { kWithShare, kAll };

// A row to learn.
template <class Label> struct Row {
    Point x;
    Label y;
    double weight; // 0: the row is skipped
};

// Aligned so that threads that work on different trees share no cache line.
template <class Partition, LabelModel Labels> class alignas(128) Tree {
  public:
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;

    Tree(Partition partition, const Options &options, Labels labels, const Rng::State &seed,
         std::size_t n_trees)
        : options_(options), partition_(std::move(partition)), labels_(std::move(labels)),
          rng_(seed), importance_(arena().layout().n_features()), max_leaves_(max_leaves(n_trees)) {
        require(max_leaves_ > 0, kNoNode);
        make_room(1);
    }

    // A copy with the features of a later layout, or the classes of other parameters, or the counts
    // of another label model. Larger nodes leave room for fewer leaves, as in a restored tree.
    template <LabelModel Others>
    Tree(const Tree<Partition, Others> &earlier, const Layout &layout,
         std::shared_ptr<const Parameters> parameters, std::size_t n_trees)
        : options_(earlier.options_), partition_(earlier.partition_, layout),
          labels_(earlier.labels_, std::move(parameters)), rng_(earlier.rng_),
          n_rows_(earlier.n_rows_),
          importance_(earlier.importance_, earlier.arena().layout(), layout),
          max_leaves_(max_leaves(n_trees)) {
        require(max_leaves_ > 0, kNoNode);
        make_room(1);
    }

    // Forgets all nodes, and keeps the memory and the importances.
    void clear() {
        partition_.clear();
        labels_.clear();
        way_up_.clear();
        n_rows_ = 0;
    }
    void reset(const Rng::State &seed, std::span<const float> feature_weights) {
        clear();
        partition_.set_weights(feature_weights);
        rng_ = Rng(seed);
    }

    Partition &partition() { return partition_; }
    const Partition &partition() const { return partition_; }
    Labels &labels() { return labels_; }
    const Labels &labels() const { return labels_; }
    NodeArena &arena() { return partition_.arena(); }
    const NodeArena &arena() const { return partition_.arena(); }
    const Rng::State &rng_state() const { return rng_.state(); }
    Rng &rng() { return rng_; }
    const Options &options() const { return options_; }
    Importance &importance() { return importance_; }
    const Importance &importance() const { return importance_; }
    bool is_empty() const { return arena().root() == kNone; }
    // The rows learned, and the sum of their weights.
    std::size_t n_rows() const { return n_rows_; }
    void set_n_rows(std::size_t n_rows) { n_rows_ = n_rows; }
    double total_weight() const {
        return is_empty() ? 0 : static_cast<double>(labels_.n_samples(arena().root()));
    }
    std::size_t n_nodes() const { return arena().n_inner() + arena().n_leaves(); }
    std::size_t bytes() const { return arena().bytes() + labels_.bytes() + importance_.bytes(); }
    // Before the first leaf; and of one more leaf and inner node at most.
    std::size_t empty_bytes() const {
        return arena().empty_bytes() + labels_.empty_bytes() + importance_.bytes();
    }
    std::size_t split_bytes() const { return arena().split_bytes() + labels_.split_bytes(); }

    // Room for `count` splits: learning as many rows cannot fail after that.
    void make_room(std::size_t count) {
        partition_.make_room(count);
        labels_.make_room(count);
        way_up_.make_room(arena().n_inner() + count + 1);
        if constexpr (Labels::kInherits) likelihoods_.make_room(arena().n_inner() + count + 2);
    }

    bool is_full() const { return arena().n_leaves() >= max_leaves_; }
    std::size_t max_leaves() const { return max_leaves_; }
    void set_max_leaves(std::size_t max_leaves) { max_leaves_ = max_leaves; }

    // Nodes that are not the result of learning: a split, without labels; and a leaf.
    NodeId add_grown(const InnerNode &node) {
        labels_.add_inner();
        const NodeId v = arena().add_inner(node);
        if (options_.use_aggregation)
            set_odds(arena().inner(v).weight, odds_above_leaf(options_.split_prior.alpha));
        return v;
    }
    NodeId add_grown(const Range &range) {
        labels_.add_leaf();
        return arena().add_leaf(range);
    }

    // Learns a row in the tree as it is, from its leaf upward; `parent_of(v)` is kStem above the
    // root. A row that is not charged is only counted.
    template <class ParentOf>
    void replay(NodeId leaf, Label y, double weight, bool is_charged, const ParentOf &parent_of) {
        ++n_rows_;
        const bool weighs = is_charged && options_.use_aggregation;
        if constexpr (Labels::kInherits)
            if (weighs) {
                way_up_.clear();
                for (NodeId v = parent_of(leaf); v != kStem; v = parent_of(v))
                    way_up_.push_back({v, 0});
                const std::size_t depth = way_up_.size();
                learn_downward(depth, leaf, y, weight,
                               [&](std::size_t i) { return way_up_[depth - 1 - i].inner; });
                way_up_.clear();
            }
        if (weighs)
            learn_in_leaf(leaf, y, weight);
        else
            labels_.update(leaf, y, weight);
        for (NodeId v = parent_of(leaf); v != kStem; v = parent_of(v))
            if (weighs)
                gain_ = weigh(arena().inner(v).weight, charge(v, y, weight), gain_);
            else
                labels_.update(v, y, weight);
    }

    // After the odds were set from outside.
    void refresh_shares() {
        if (!options_.use_aggregation) return;
        for (NodeId v = 1; v <= arena().n_inner(); ++v) {
            NodeWeight &weight = arena().inner(v).weight;
            set_odds(weight, weight.odds);
        }
    }

    // MondrianUpdate(x, y): x descends to a leaf; there the partition is extended by x; on the way
    // up y is weighed and counted. One node at a time: descend until it returns false, extend,
    // ascend until it returns false.
    NodeId start() { return partition_.start(); }

    template <Splits kSplits = Splits::kAny> bool descend(NodeId &v, const float *x, Label y) {
        const bool continues =
            partition_.descend(v, x, [this](const InnerNode &node, const float *row) {
                return side_of<kSplits>(node, row);
            });
        if (continues) labels_.prefetch(v, y);
        return continues;
    }

    // After the descent, before the extension: credits the features with what the splits on the
    // path save. Not inlined, for it is called for few rows.
    [[gnu::noinline]] void credit(Label y, double weight) {
        importance_.count(weight);
        const Stack<Step> &path = partition_.path();
        if (path.size() < 2) return; // there is no split
        typename Labels::PathPredictions predictions(labels_, y);
        double prediction = predictions.of_root(path[1].inner);
        double above = 0, reach = 1, loss = Labels::loss(prediction, y);
        for (std::size_t i = 1; i < path.size(); ++i) {
            const InnerNode &node = arena().inner(path[i].inner);
            above += reach * node.weight.share * prediction;
            reach *= 1.0 - node.weight.share;
            if (reach == 0) return;
            prediction = predictions.below(node.child[path[i].side]);
            const double next = Labels::loss(above + reach * prediction, y);
            importance_.add(node.feature, weight * (loss - next));
            loss = next;
        }
    }
    void credit_in_turn(Label y, double weight) {
        if (importance_.is_due(n_rows_)) [[unlikely]]
            credit(y, weight);
    }

    // New nodes get their weights and labels.
    void extend(const Row<Label> &row) {
        if constexpr (Partition::kSplitsOnce)
            extend_by_one(row);
        else
            extend_by_cuts(row);
        ++n_rows_;
    }

    // After the descent: adds up the mixture of the nodes on the path, as `finish` does.
    void predict_on_path(std::span<double> mixture) {
        const Stack<Step> &path = partition_.path();
        if (is_empty()) return labels_.add_default(1.0, mixture);
        std::array<Share, 32> taken;
        std::size_t n_taken = 0;
        double reach = 1;
        for (std::size_t i = 1; i < path.size(); ++i) {
            const NodeId v = path[i].inner;
            const double share = arena().inner(v).weight.share;
            taken[n_taken] = {v, share};
            n_taken += Labels::kInherits || std::bit_cast<std::uint64_t>(share) != 0 ? 1 : 0;
            if (n_taken < taken.size()) continue;
            reach = labels_.add_predictions(std::span(taken), reach, mixture);
            n_taken = 0;
        }
        reach = labels_.add_predictions(std::span(taken).first(n_taken), reach, mixture);
        const Step &last = path.back();
        labels_.add_prediction(arena().inner(last.inner).child[last.side], reach, mixture);
    }

    // Before the extension, where its size is random: draws how the cell of x will be split, and
    // makes room for that. If this fails, in this tree or in a later one, `undo_preparation`
    // restores the random stream.
    void prepare_extension(Point x) {
        before_ = rng_.state();
        const std::size_t more = max_leaves_ - std::min(max_leaves_, arena().n_leaves());
        make_room(partition_.draw_cuts(x, rng_, more) + 1);
    }
    void undo_preparation() { rng_ = Rng(before_); }

    // w_v, w-bar_v; and the label is counted.
    bool ascend(Label y, double weight) {
        const NodeId v = way_up_.back().inner;
        way_up_.pop_back();
        if (v == kStem) return false;
        if (options_.use_aggregation)
            gain_ = weigh(arena().inner(v).weight, learn_in(v, y, weight), gain_);
        else
            labels_.update(v, y, weight);
        return true;
    }

    // Learns one row, for which room was made, and credits no feature.
    void learn_one(const Row<Label> &row) {
        NodeId v = start();
        while (descend(v, row.x.values, row.y)) {
        }
        extend(row);
        while (ascend(row.y, row.weight)) {
        }
    }

    // Learns many rows, in their order; `row_of(i)` is row i. A row's way up shares nothing with
    // the next row's way down but the links (and counts, where values are missing), so the two are
    // interleaved: one waits for memory, the other for divisions.
    template <class RowOf> void learn(const RowOf &row_of, std::size_t n_rows) {
        if (arena().layout().n_codes() == 0)
            learn_rows<Splits::kNumbers>(row_of, n_rows);
        else
            learn_rows<Splits::kAny>(row_of, n_rows);
    }

    // Predict(x), one node at a time: start, descend until it returns false, finish.
    struct Walk {
        const Tree *tree;
        const float *x;
        NodeId v;
        std::uint32_t n_taken;
        std::array<Share, 32> taken; // of nodes above v
    };

    void start(Walk &walk, const float *x) const {
        walk.tree = this;
        walk.x = x;
        walk.v = arena().root();
        walk.n_taken = 0;
    }

    // Takes the share of the walk's node and moves on to its child; false at the end, or when the
    // walk can take no more. About half of the nodes have a share, which no processor can predict:
    // so there is no branch on it, and the place of a node without one is overwritten.
    template <Splits kSplits = Splits::kAny, Nodes kNodes = Nodes::kWithShare>
    bool descend(Walk &walk) const {
        if (is_leaf(walk.v)) return false;
        const InnerNode &node = arena().inner(walk.v);
        const NodeId child = node.child[side_of<kSplits>(node, walk.x)];
        // A node without a share matters only to those below that inherit from it.
        const NodeId has_share = kNodes == Nodes::kAll || Labels::kInherits ||
                                 std::bit_cast<std::uint64_t>(node.weight.share) != 0;
        labels_.prefetch(walk.v & -has_share); // or those of the stem, which are there
        walk.taken[walk.n_taken] = {walk.v, node.weight.share};
        walk.n_taken += has_share;
        walk.v = child;
        if (is_leaf(child) || walk.n_taken == walk.taken.size()) return false;
        arena().prefetch_header(child);
        return true;
    }

    // Adds up the mixture of Equation (6), zero at the start. A long walk continues meanwhile.
    void finish(Walk &walk, std::span<double> mixture) const {
        double reach = 1; // weight of the prunings that continue below the nodes added so far
        while (true) {
            const std::span<Share> taken(walk.taken.data(), walk.n_taken);
            reach = labels_.add_predictions(taken, reach, mixture);
            if (is_leaf(walk.v)) break;
            walk.n_taken = 0;
            while (descend(walk)) {
            }
        }
        if (walk.v == kNone) [[unlikely]]
            return labels_.add_default(reach, mixture); // the tree is empty
        labels_.add_prediction(walk.v, reach, mixture);
    }

    // Sum over the prunings T of w(T) depth_T(x).
    double weighted_depth(const float *x) const {
        double depth = 0, reach = 1;
        for (NodeId v = arena().root(); !is_leaf(v);) {
            const InnerNode &node = arena().inner(v);
            reach *= 1.0 - node.weight.share;
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

    // s_v < x_j <= ceiling goes to child 1. Where x_j is missing, x follows most of the weight.
    template <Splits kSplits = Splits::kAny>
    std::size_t side_of(const InnerNode &node, const float *x) const {
        const float value = x[node.feature];
        if (std::isnan(value)) [[unlikely]]
            return labels_.n_samples(node.child[1]) > labels_.n_samples(node.child[0]) ? 1 : 0;
        if constexpr (kSplits == Splits::kNumbers) return value <= node.threshold ? 0 : 1;
        return static_cast<std::size_t>(value > node.threshold) &
               static_cast<std::size_t>(value <= node.ceiling);
    }

    // Before rows with missing values are learned.
    void expect_gaps() { partition_.expect_gaps(); }

  private:
    template <class, LabelModel> friend class Tree;

    static constexpr const char *kNoNode = "max_nodes and max_bytes must let each tree have a node";
    static constexpr std::size_t kAhead = 8;
    static constexpr std::size_t kBeyondCache = std::size_t{1} << 17; // nodes, of 64 bytes

    // How many leaves fit into the tree's part of the limits, whatever they will hold. One more
    // leaf is one more inner node.
    std::size_t max_leaves(std::size_t n_trees) const {
        const std::size_t nodes = options_.max_nodes / n_trees,
                          bytes = options_.max_bytes / n_trees;
        const std::size_t by_nodes = nodes == 0 ? 0 : (nodes - 1) / 2 + 1;
        return std::min(by_nodes,
                        bytes < empty_bytes() ? 0 : (bytes - empty_bytes()) / split_bytes());
    }

    // Flattened, because the compiler inlines less the more label models there are, which cost a
    // fifth of the speed.
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
                if (down) down = descend<kSplits>(v, row.x.values, row.y);
                if (up) up = ascend(last.y, last.weight);
            }
            credit_in_turn(row.y, row.weight);
            extend(row);
            last = row;
        }
        finish_way_up(last);
    }

    // The nodes of a large tree are far away: some rows descend together to prefetch theirs.
    template <class RowOf>
    void look_ahead(const RowOf &row_of, std::size_t first, std::size_t last) const {
        struct Walker {
            const float *x;
            NodeId v;
        };
        std::array<Walker, kAhead> rows;
        for (std::size_t i = first; i < last; ++i)
            rows[i - first] = {row_of(i).x.values, arena().root()};
        interleave(std::span(rows).first(last - first), [this](Walker &row) {
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

    void finish_way_up(const Row<Label> &row) {
        for (bool up = !way_up_.empty(); up;) up = ascend(row.y, row.weight);
    }

    // The leaf at the end of the way up.
    NodeId leaf_below() const {
        const Step &above = way_up_.back();
        return arena().inner(above.inner).child[above.side];
    }

    void learn_in_leaf(NodeId leaf, Label y, double weight) {
        if constexpr (Labels::kInherits)
            if (!options_.use_aggregation) return labels_.update(leaf, y, weight);
        gain_ = charge(leaf, y, weight);
    }

    // exp(-eta loss) of y in v, which then counts it.
    Scaled learn_in(NodeId v, Label y, double weight) {
        if constexpr (Labels::kInherits) { // it has learned on the way down
            const Scaled likelihood = likelihoods_.back();
            likelihoods_.pop_back();
            return likelihood;
        } else {
            return labels_.learn(v, y, weight, options_.step);
        }
    }

    // The same, where v may have no label yet.
    Scaled charge(NodeId v, Label y, double weight) {
        if constexpr (!Labels::kInherits)
            if (!options_.charge_first && labels_.n_samples(v) == 0) {
                labels_.update(v, y, weight);
                return labels_.likelihood_after_first(y, weight, options_.step);
            }
        return learn_in(v, y, weight);
    }

    // All nodes of a path learn y, from the root down to the leaf; `inner_at(i)` is the inner node
    // at depth i. Their likelihoods wait for the way up.
    template <class InnerAt>
    void learn_downward(std::size_t depth, NodeId leaf, Label y, double weight,
                        const InnerAt &inner_at) {
        const auto node_at = [&](std::size_t i) { return i < depth ? inner_at(i) : leaf; };
        likelihoods_.clear();
        auto belief = labels_.belief_of_root(node_at(0));
        likelihoods_.push_back(labels_.learn_in_root(node_at(0), belief, y, weight));
        for (std::size_t i = 1; i <= depth; ++i) {
            labels_.descend(node_at(i), belief);
            likelihoods_.push_back(labels_.learn_below(node_at(i), belief, y, weight));
        }
    }

    // In the restricted partition: x may add a leaf, with an inner node above it.
    void extend_by_one(const Row<Label> &row) {
        partition_.extend(row.x, rng_, options_.lifetime, [&](NodeId v) {
            // An inner node has labels of two kinds already.
            return is_full() || (is_leaf(v) && !options_.split_pure && labels_.is_pure(v, row.y));
        });
        swap(way_up_, partition_.path());
        const NodeId leaf = leaf_below();
        const bool is_new = row_of(leaf) == labels_.n_leaves();
        const bool has_new_node = is_new && way_up_.back().inner != kStem;
        if (is_new) labels_.add_leaf();
        if (has_new_node) start_new_node();
        if constexpr (Labels::kInherits)
            if (options_.use_aggregation) // the path starts with the stem
                learn_downward(way_up_.size() - 1, leaf, row.y, row.weight,
                               [this](std::size_t i) { return way_up_[i + 1].inner; });
        learn_in_leaf(leaf, row.y, row.weight);
        if (has_new_node) learn_in_new_node(row.y, row.weight);
    }

    // The new inner node at the end of the path starts as the node it moved down.
    void start_new_node() {
        const auto [v, side] = way_up_.back();
        InnerNode &node = arena().inner(v);
        const NodeId moved = node.child[1 - side];
        labels_.add_inner(moved);
        const double a = options_.split_prior.alpha;
        if (options_.use_aggregation)
            node.weight.odds =
                is_leaf(moved) ? odds_above_leaf(a) : odds_above(arena().inner(moved).weight, a);
    }

    void learn_in_new_node(Label y, double weight) {
        const NodeId v = way_up_.back().inner;
        way_up_.pop_back();
        if (options_.use_aggregation)
            gain_ = weigh(arena().inner(v).weight, learn_in(v, y, weight), gain_,
                          before_split(options_.split_prior.alpha));
        else
            labels_.update(v, y, weight);
    }

    // In the unrestricted partition: all new inner nodes start as the leaf they split. Its weight
    // is w-bar of them all, so that they learn as others do.
    void extend_by_cuts(const Row<Label> &row) {
        const Stack<Step> &path = partition_.path();
        const NodeId split =
            is_empty() ? kNone : arena().inner(path.back().inner).child[path.back().side];
        partition_.extend(row.x);
        const std::size_t first = path.size() - partition_.n_new_inner();
        for (std::size_t i = first; i < path.size(); ++i) {
            labels_.add_inner(split);
            // The stem comes first in the path, so the depth of step i is i - 1.
            NodeWeight &weight = arena().inner(path[i].inner).weight;
            weight.odds = odds_above_leaf(options_.split_prior.at(i - 1));
            if (options_.use_aggregation) set_odds(weight, weight.odds);
        }
        while (labels_.n_leaves() < arena().n_leaves()) labels_.add_leaf();
        swap(way_up_, partition_.path());
        learn_in_leaf(leaf_below(), row.y, row.weight);
    }

    Options options_;
    Partition partition_;
    Labels labels_;
    Rng rng_;
    Rng::State before_{}; // the preparation of an extension
    std::size_t n_rows_ = 0;
    Importance importance_;
    std::size_t max_leaves_;
    Stack<Step> way_up_;        // the rest of the last row's path
    Scaled gain_;               // of the node below it
    Stack<Scaled> likelihoods_; // of its nodes, where they inherit
};

} // namespace amforest
