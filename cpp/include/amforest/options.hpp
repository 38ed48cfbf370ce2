// The options that all trees of a forest share.
#pragma once

#include <cstddef>
#include <limits>

#include "amforest/base/limits.hpp"
#include "amforest/weights/split_prior.hpp"

namespace amforest {

struct Options {
    double step = 1;              // eta
    bool use_aggregation = true;  // mix all prunings; otherwise predict with the leaf alone
    bool split_pure = false;      // split nodes whose labels are all equal
    bool charge_first = false;    // charge a node for the loss of its first label
    bool predict_extends = false; // extend the partition by x before predicting x
    SplitPrior split_prior = {};  // of the prunings
    double discount = 0;          // gamma of the original Mondrian forest; 0: mix prunings instead
    double lifetime = std::numeric_limits<double>::infinity(); // no split is later
    // Of the forest. Each tree gets an equal part, so that the order of the trees does not matter.
    std::size_t max_nodes = kUnlimited, max_bytes = kUnlimited;

    // Whether predicting x reads the ranges of the nodes on its path.
    bool predicts_from_ranges() const { return predict_extends || discount > 0; }
};

} // namespace amforest
