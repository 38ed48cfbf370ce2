// What the parts of an adaptive forest have in common: its shape and its parameters.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "amforest/adaptive/columns.hpp"
#include "amforest/adaptive/schedule.hpp"
#include "amforest/base/require.hpp"
#include "amforest/options.hpp"
#include "amforest/partition/layout.hpp"

namespace amforest {

// The parameters of an adaptive forest beside those of its trees.
struct AdaptiveOptions {
    std::vector<Group> groups;
    std::size_t n_estimators = 5;   // trees of each group
    std::size_t n_candidates = 30;  // splits of which the best is taken
    std::size_t row_limit = 65'536; // rows that are remembered
    double mixer_rate = 0.01;
    // The trees that a part of a forest holds, ascending; its others are elsewhere. None: all.
    std::optional<std::vector<std::size_t>> held = {};
};

// `Task` tells what is predicted: class_task.hpp, number_task.hpp.
template <class Task> struct AdaptiveCommon {
    using Labels = typename Task::Labels;
    using Parameters = typename Labels::Parameters;

    Layout layout;   // of rows: codes of categories, then numbers
    Columns columns; // of trees
    Options options; // of trees
    AdaptiveOptions adaptive;
    std::shared_ptr<Parameters> parameters; // of the labels

    Layout tree_layout() const { return {Categories(), columns.size()}; }
    std::size_t tree_size() const { return Labels::prediction_size(*parameters); } // outputs

    std::size_t n_groups() const { return adaptive.groups.size(); }
    std::size_t n_experts() const { return n_groups() + Task::Experts::size(); } // that are mixed

    std::size_t n_in_all() const { return n_groups() * adaptive.n_estimators; }
    std::size_t n_trees() const { return adaptive.held ? adaptive.held->size() : n_in_all(); }
    bool is_part() const { return adaptive.held.has_value(); }
    // Whether predictions are mixed here: not in a part with trees.
    bool is_mixed() const { return !is_part() || adaptive.held->empty(); }

    // The number of tree t among all of the forest, of which this may be a part.
    std::size_t id(std::size_t t) const { return adaptive.held ? (*adaptive.held)[t] : t; }
    std::size_t group_of(std::size_t t) const { return id(t) / adaptive.n_estimators; }
    const Group &group(std::size_t t) const { return adaptive.groups[group_of(t)]; }

    // The same of a part that holds these trees.
    AdaptiveCommon holding(std::optional<std::vector<std::size_t>> held) const {
        AdaptiveCommon common = *this;
        common.parameters = std::make_shared<Parameters>(*parameters);
        common.adaptive.held = std::move(held);
        return common;
    }

    // The same with a later layout or with more classes.
    AdaptiveCommon extended(const Layout &to, const Parameters &next) const {
        require(to.extends(layout), "features and categories must not become fewer");
        parameters->check_successor(next);
        return {to, columns.extended(layout, to), options, adaptive,
                std::make_shared<Parameters>(next)};
    }
};

} // namespace amforest
