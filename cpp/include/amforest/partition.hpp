// The Mondrian partition, restricted (Algorithm 5) or, in a box, not (Algorithm 2). It knows no
// labels and no weights.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "amforest/cell.hpp"
#include "amforest/node_arena.hpp"
#include "amforest/rng.hpp"

namespace amforest {

// One step down: from an inner node to its child on a side.
struct Step {
    NodeId inner;
    std::size_t side;
};

class Partition {
  public:
    explicit Partition(const Layout &layout)
        : arena_(layout), range_(layout), delta_(2 * layout.n_codes() + layout.n_numbers) {
        make_room(0);
    }

    NodeArena &arena() { return arena_; }
    const NodeArena &arena() const { return arena_; }

    // Room for what `count` splits can add at the most, and for the longest path there can be.
    void make_room(std::size_t count) {
        arena_.make_room(count);
        const std::size_t longest = arena_.n_inner() + count + 1;
        path_.make_room(longest);
        extensions_.make_room(longest);
    }

    // ExtendCell(root, x) in two parts. First x goes down by the thresholds, one node at a time:
    // start, then go_down until it returns false. The path leads from the stem to a leaf.
    NodeId start() {
        path_.clear();
        path_.push_back({kStem, 0});
        return arena_.root();
    }

    // `side_of(node, x)` is the side of the node's split on which x lies.
    template <class SideOf> bool go_down(NodeId &v, const float *x, const SideOf &side_of) {
        if (v != kNone) count_visit();
        if (is_leaf(v)) return false; // or there is no root yet
        count_load(sizeof(InnerNode));
        const InnerNode &node = arena_.inner(v);
        const std::size_t side = side_of(node, x);
        path_.push_back({v, side});
        v = node.child[side];
        arena_.prefetch_header(v);
        if (is_leaf(v)) {
            arena_.prefetch_range(v);
            arena_.prefetch_range(path_.back().inner);
        }
        return true;
    }

    // Then the partition is extended by x, and the path leads to the leaf of x. Ranges are nested:
    // if one holds x, then also those above it. So they are looked at from the leaf upward, until
    // one holds x, and above that nothing happens. A node for which `stays_whole(v)` holds is not
    // split, and none is after the lifetime.
    template <class StaysWhole>
    void extend(Point x, Rng &rng, double lifetime, const StaysWhole &stays_whole) {
        if (arena_.root() == kNone) return hang(arena_.add_leaf(x));
        extensions_.clear(); // of the nodes on the path that do not hold x, the leaf first
        for (std::size_t i = path_.size(); i-- > 0;) {
            const NodeId v = child(path_[i]);
            const float extension = arena_.extension(v, x);
            if (extension == 0 && (!has_gaps_ || arena_.holds(v, x))) break;
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

    // The same for the unrestricted partition, in two parts. The leaf of x holds one other point at
    // the most: its cell is split until x is alone, but not more than `most` times. First the
    // splits are drawn; there must be room for them before the cell is extended.
    std::size_t draw_cuts(Point x, Rng &rng, std::size_t most) {
        cuts_.clear();
        if (arena_.root() == kNone || most == 0) return 0;
        const NodeId leaf = child(path_.back());
        if (arena_.is_empty(leaf) || arena_.is_at(leaf, x)) return 0;
        draw_cuts(x.values, arena_.point(leaf), rng, most);
        return cuts_.size();
    }

    void extend_cell(Point x) {
        if (arena_.root() == kNone) return hang(arena_.add_leaf(x));
        const NodeId leaf = child(path_.back());
        if (arena_.is_empty(leaf)) return arena_.settle(leaf, x);
        for (const CellCut &cut : cuts_) {
            const bool is_last = cut.x_side != cut.other_side;
            std::array<NodeId, 2> child{};
            child[cut.other_side] = leaf; // for now, unless this is the last
            child[1 - cut.other_side] = is_last ? arena_.add_leaf(x) : arena_.add_empty_leaf();
            const NodeId v = arena_.add_inner({.child = child,
                                               .feature = static_cast<std::uint32_t>(cut.feature),
                                               .threshold = cut.threshold,
                                               .split_time = cut.time});
            hang(v);
            path_.push_back({v, cut.x_side});
        }
    }

    // How many inner nodes the last extension has added; they are the last ones.
    std::size_t n_new_inner() const { return cuts_.size(); }

    // Whether values may be missing in what was learnt.
    bool has_gaps() const { return has_gaps_; }
    void expect_gaps() { has_gaps_ = true; }

    Stack<Step> &path() { return path_; }

  private:
    NodeId child(const Step &step) const { return arena_.inner(step.inner).child[step.side]; }

    // Inserts a node above v, which keeps its id and its subtree, and hangs x's leaf beside v.
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
            keep_range_of_parent(x);
        else
            keep_range(above, v, x);
        hang(above);
        path_.push_back({above, cut.x_side});
    }

    // A split of the extended range that has x alone on one side.
    struct Cut {
        std::size_t feature;
        float threshold, ceiling;
        std::size_t x_side;
    };

    // The column is drawn with probability Delta_j / Delta, the threshold uniformly.
    Cut draw_cut(Point x, Rng &rng) {
        const Layout &layout = arena_.layout();
        const std::size_t n_codes = layout.n_codes();
        const Sets seen{range_.seen.data(), range_.seen.data()};
        // Two columns of a categorical feature at the most change, by 1.
        for (std::size_t f = 0; f < n_codes; ++f) {
            const std::size_t size = layout.categories.changed(f, x.values[f], seen).size;
            delta_[2 * f] = size > 0 ? 1 : 0;
            delta_[2 * f + 1] = size > 1 ? 1 : 0;
        }
        for (std::size_t j = 0; j < layout.n_numbers; ++j)
            delta_[2 * n_codes + j] =
                extension_of(x.values[n_codes + j], range_.lower[j], range_.upper[j]);
        const std::size_t column = rng.discrete(delta_);
        const double u = rng.uniform();
        if (column >= 2 * n_codes) return cut_number(column - 2 * n_codes, x, u);
        // Any threshold between 0 and 1 has those of the category alone on the right.
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
    void keep_range_of_parent(Point x) {
        const NodeId parent = path_.back().inner;
        if (parent != kStem && arena_.inner(parent).box == kNone) keep_range(parent, parent, x);
    }

    // Gives `to` a range of its own: that of `from`, widened by x.
    void keep_range(NodeId to, NodeId from, Point x) {
        arena_.copy_range(from, range_);
        arena_.set_range(to, range_);
        arena_.widen(to, x);
    }

    // Splits of the cell at the end of the path, until one separates x from the other point.
    void draw_cuts(const float *x, const float *other, Rng &rng, std::size_t most) {
        Cell cell(arena_.layout());
        for (std::size_t i = 1; i < path_.size(); ++i) {
            const InnerNode &node = arena_.inner(path_[i].inner);
            cell.narrow(node.feature, node.threshold, path_[i].side);
        }
        double time = arena_.inner(path_.back().inner).split_time;
        cuts_.clear();
        do {
            cuts_.push_back(cell.split(time, x, other, rng));
            time = cuts_.back().time;
        } while (cuts_.back().x_side == cuts_.back().other_side && cuts_.size() < most);
    }

    // Puts v at the end of the path.
    void hang(NodeId v) { arena_.inner(path_.back().inner).child[path_.back().side] = v; }

    NodeArena arena_;
    Stack<Step> path_;
    Stack<float> extensions_;
    bool has_gaps_ = false;
    Range range_; // of the node that is being split
    std::vector<float> delta_;
    std::vector<CellCut> cuts_;
};

} // namespace amforest
