// The restricted Mondrian partition (Algorithm 5): it splits within the range of the rows seen.
#pragma once

#include <array>
#include <cmath>
#include <limits>
#include <utility>
#include <vector>

#include "amforest/base/rng.hpp"
#include "amforest/partition/descent.hpp"

namespace amforest {

// All of space: rows may lie anywhere, and values may be missing.
struct Everywhere {};

class Restricted : public Descent {
  public:
    using Domain = Everywhere;
    // A row adds one leaf and one inner node at most, so that room for many rows can be made ahead.
    static constexpr bool kSplitsOnce = true;

    Restricted(const Layout &layout, const Domain &, FeatureWeights weights)
        : Restricted(NodeArena(layout, std::move(weights))) {}

    // A copy with the features of a later layout.
    Restricted(const Restricted &earlier, const Layout &layout)
        : Restricted(NodeArena(earlier.arena_, layout)) {
        const bool has_more = layout.n_features() > earlier.arena_.layout().n_features();
        if (earlier.has_gaps_ || has_more) expect_gaps();
    }

    // Forgets everything and keeps the memory.
    void clear() {
        arena_.clear();
        path_.clear();
        has_gaps_ = false;
        set_may_lie_outside();
    }
    // Before the first row; weights were given to the constructor, too.
    void set_weights(std::span<const float> weights) {
        arena_.weights().assign(weights);
        set_may_lie_outside();
    }

    void make_room(std::size_t count) {
        Descent::make_room(count);
        extensions_.make_room(longest_path(count));
    }

    // After the descent: extends the partition by x. Then the path leads to the leaf of x.
    //
    // Ranges are nested: if one holds x, so do those above it. So they are tested from the leaf
    // upward, until one holds x; above that nothing happens. A node for which `stays_whole(v)`
    // holds is not split, and none is split after the lifetime.
    template <class StaysWhole>
    void extend(Point x, Rng &rng, double lifetime, const StaysWhole &stays_whole) {
        if (arena_.root() == kNone) return attach(arena_.add_leaf(x));
        extensions_.clear(); // of the nodes on the path that do not hold x, the leaf first
        for (std::size_t i = path_.size(); i-- > 0;) {
            const NodeId v = child(path_[i]);
            const float extension = arena_.extension(v, x);
            if (extension == 0 && (!may_lie_outside_ || arena_.holds(v, x))) break;
            extensions_.push_back(extension);
        }
        for (std::size_t i = path_.size() - extensions_.size(); i < path_.size(); ++i) {
            const NodeId v = child(path_[i]);
            const double extension = static_cast<double>(extensions_[path_.size() - 1 - i]);
            if (extension > 0 && !stays_whole(v)) {
                const double birth_time = arena_.inner(path_[i].inner).split_time;
                const double end = is_leaf(v) ? lifetime : arena_.inner(v).split_time;
                const double time = birth_time + rng.exponential_below(end - birth_time, extension);
                if (time < end) {
                    path_.shrink(i + 1);
                    return split(v, x, time, rng);
                }
            }
            arena_.widen(v, x);
        }
    }

    // Whether values may be missing in the rows learned.
    bool has_gaps() const { return has_gaps_; }
    void expect_gaps() { has_gaps_ = may_lie_outside_ = true; }

    void copy_range(NodeId v, Range &range) const { arena_.copy_range(v, range); }

  private:
    explicit Restricted(NodeArena arena)
        : Descent(std::move(arena)), range_(arena_.layout()),
          delta_(2 * arena_.layout().n_codes() + arena_.layout().n_numbers) {
        set_may_lie_outside();
        make_room(0);
    }

    void set_may_lie_outside() {
        const auto weights = arena_.weights().values();
        may_lie_outside_ = std::ranges::any_of(weights, [](float weight) { return weight < 1; });
    }

    // Inserts a node above v, which keeps its id and its subtree, with x's new leaf beside v.
    void split(NodeId v, Point x, double time, Rng &rng) {
        arena_.copy_range(v, range_);
        const Cut cut = draw_cut(x, rng);
        const NodeId leaf = arena_.add_leaf(x);
        const NodeId above = arena_.add_inner({
            .child = cut.x_side == 0 ? std::array{leaf, v} : std::array{v, leaf},
            .feature = static_cast<std::uint32_t>(cut.feature),
            .threshold = cut.threshold,
            .ceiling = cut.ceiling,
            .split_time = time,
        });
        if (is_leaf(v))
            store_range_of_parent(x);
        else
            store_range(above, v, x);
        attach(above);
        path_.push_back({above, cut.x_side});
    }

    // A split of the extended range that has x alone on one side.
    struct Cut {
        std::size_t feature;
        float threshold, ceiling;
        std::size_t x_side;
    };

    // The column is drawn with probability lambda_j Delta_j / Delta, the threshold uniformly.
    Cut draw_cut(Point x, Rng &rng) {
        const Layout &layout = arena_.layout();
        const FeatureWeights &weights = arena_.weights();
        const std::size_t n_codes = layout.n_codes();
        const Sets seen{range_.seen.data(), range_.seen.data()};
        // Two columns of a categorical feature at most change, by 1.
        for (std::size_t f = 0; f < n_codes; ++f) {
            const std::size_t size = layout.categories.changed(f, x.values[f], seen).size;
            delta_[2 * f] = size > 0 ? weights.of_code(f) : 0;
            delta_[2 * f + 1] = size > 1 ? weights.of_code(f) : 0;
        }
        for (std::size_t j = 0; j < layout.n_numbers; ++j)
            delta_[2 * n_codes + j] =
                extension_of(x.values[n_codes + j], range_.lower[j], range_.upper[j]);
        if (!weights.are_ones())
            for (std::size_t j = 0; j < layout.n_numbers; ++j)
                delta_[2 * n_codes + j] *= weights.of_number(j);
        const std::size_t column = rng.discrete(delta_);
        const double u = rng.uniform();
        if (column >= 2 * n_codes) return cut_number(column - 2 * n_codes, x, u);
        // Any threshold between 0 and 1 has the rows of the category alone on the right.
        const std::size_t f = column / 2;
        const float code = layout.categories.changed(f, x.values[f], seen).code[column % 2];
        return {f, code - 0.5F, code + 0.5F, x.values[f] == code ? 1U : 0U};
    }

    Cut cut_number(std::size_t j, Point x, double u) const {
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        const std::size_t feature = arena_.layout().n_codes() + j;
        const float value = x.values[feature];
        if (value < range_.lower[j])
            return {feature, threshold_between(value, range_.lower[j], u), kInfinity, 0};
        return {feature, threshold_between(range_.upper[j], value, u), kInfinity, 1};
    }

    // The parent of a leaf that is about to be split will have an inner child.
    void store_range_of_parent(Point x) {
        const NodeId parent = path_.back().inner;
        if (parent != kStem && arena_.inner(parent).box == kNone) store_range(parent, parent, x);
    }

    // Gives `to` a range of its own: that of `from`, widened by x.
    void store_range(NodeId to, NodeId from, Point x) {
        arena_.copy_range(from, range_);
        arena_.set_range(to, range_);
        arena_.widen(to, x);
    }

    Stack<float> extensions_;
    bool has_gaps_ = false;
    // Whether x may lie outside of a range although its extension is 0: where no value was seen, or
    // where lambda_j < 1 rounds a tiny distance to 0.
    bool may_lie_outside_ = false;
    Range range_; // of the node that is being split
    std::vector<float> delta_;
};

} // namespace amforest
