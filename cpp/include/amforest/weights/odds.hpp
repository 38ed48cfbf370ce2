// The weights of the prunings: w-bar_v = (1 - a) w_v + a w-bar_v0 w-bar_v1, where a is the prior
// probability that a pruning continues below v: 1/2 in the paper.
//
// Only their ratios matter, so an inner node keeps its odds o_v = (1 - a) / a w_v / (w-bar_v0
// w-bar_v1): the prunings that stop at v against those that continue. No logarithm is needed.
// Learning y multiplies w_v by its likelihood m_v = exp(-eta loss), and w-bar of each node of the
// path by a gain: in the leaf g = m, and in v above a child c, with the odds before,
//     g_v = (o_v m_v + g_c) / (o_v + 1),   then   o_v <- o_v m_v / g_c.
// Odds and likelihoods may lie far beyond the range of a double: hence `Scaled`.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "amforest/base/scaled.hpp"

namespace amforest {

// The weight of an inner node among the prunings that reach it. The node carries it, so that both
// are on one cache line; the partition never reads it.
struct NodeWeight {
    Scaled odds = {1, 0}; // o_v
    double share = 0;     // o_v / (o_v + 1), stored so that predicting need not divide
};

inline double share_of(double odds) {
    constexpr double kNegligible = 0x1.0p-64; // predicting skips such a node
    const double share = odds / (odds + 1);
    return share < kNegligible ? 0 : share;
}

inline void set_odds(NodeWeight &v, Scaled odds) {
    v.odds = odds;
    v.share = share_of(odds.clamped());
}

// Returns the gain of v, whose w-bar was `before` in units of a w-bar_v0 w-bar_v1.
inline Scaled weigh(NodeWeight &v, Scaled likelihood, Scaled gain, Scaled before) {
    const Scaled odds = v.odds;
    set_odds(v, Scaled::of(odds.value * likelihood.value / gain.value,
                           odds.scale + likelihood.scale - gain.scale));
    return (odds * likelihood + gain) / before;
}

// The same for a node that has lost its share and has odds below 2^-63: beside a gain above 2^-9 a
// likelihood times these is lost to rounding, so the gain passes through unchanged, and the node
// gets no share either unless the odds grow.
inline Scaled pass_through(NodeWeight &v, double likelihood, Scaled gain) {
    constexpr double kNever = 0x1.0p-65;
    const Scaled odds = Scaled::of(v.odds.value * likelihood / gain.value, v.odds.scale);
    if (odds.clamped() < kNever) [[likely]]
        v.odds = odds;
    else
        set_odds(v, odds);
    return gain;
}

// The same for a node of which w-bar is that of its odds. Most nodes have either no share or plain
// odds, which are the fast cases. What nearly always holds is tested apart from the share, which
// half of the nodes have and no processor can predict.
inline Scaled weigh(NodeWeight &v, Scaled likelihood, Scaled gain) {
    constexpr double kMuch = 0x1.0p-9;
    if (likelihood.is_unscaled() && gain.is_unscaled()) [[likely]] {
        if (std::bit_cast<std::uint64_t>(v.share) == 0) {
            if (likelihood.value <= 1 && gain.value >= kMuch) [[likely]]
                return pass_through(v, likelihood.value, gain);
        } else if (v.odds.is_unscaled()) [[likely]] {
            const double odds = v.odds.value, next = odds * likelihood.value / gain.value;
            if (Scaled::is_plain(next)) [[likely]] {
                v.odds.value = next;
                v.share = share_of(next);
                return Scaled::of((odds * likelihood.value + gain.value) / (odds + 1));
            }
        }
    }
    return weigh(v, likelihood, gain, v.odds + Scaled{1});
}

// A new node above u, beside a fresh leaf, has the weight w_u, and below it w-bar_u times the
// leaf's 1. In its place was w-bar_u: 1 / a units of `weigh`.
inline Scaled before_split(double a) { return Scaled::of(1 / a); }
inline Scaled odds_above(const NodeWeight &u, double a) {
    return Scaled::of(u.odds.value / a, u.odds.scale) / (u.odds + Scaled{1});
}
inline Scaled odds_above_leaf(double a) { return Scaled::of((1 - a) / a); } // where w = w-bar

} // namespace amforest
