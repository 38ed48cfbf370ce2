// What differs between kinds of labels. A label model owns everything about them: the statistics
// of the nodes, their prior, prediction and loss, its columns in the model file, the checks of
// those columns, and its part of the tree table. CONTRIBUTING.md tells how to add one.
//
// A model keeps the statistics of all nodes of one tree, by NodeId, in step with the arena:
// add_leaf and add_inner are called in the order in which the arena adds nodes. A mixture is a sum
// of coefficient * prediction, finished into a prediction at the end.
#pragma once

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>

#include "amforest/base/scaled.hpp"
#include "amforest/labels/file_columns.hpp"
#include "amforest/partition/node_arena.hpp"

namespace amforest {

// An inner node on the path of a row that is predicted, and its share of the mixture.
struct Share {
    NodeId v;
    double share;
};

// Likelihoods. Nodes of some models inherit from the node above: they learn on the way down.
template <class M>
concept LearnsDownward = requires(M m, const M cm, NodeId v, typename M::Label y, double weight,
                                  typename M::Belief &belief) {
    belief = cm.belief_of_root(v);
    cm.descend(v, belief); // from a node to its child v
    { m.learn_in_root(v, belief, y, weight) } -> std::same_as<Scaled>;
    { m.learn_below(v, belief, y, weight) } -> std::same_as<Scaled>;
};
template <class M>
concept LearnsByItself =
    requires(M m, const M cm, NodeId v, typename M::Label y, double weight, double step) {
        { m.learn(v, y, weight, step) } -> std::same_as<Scaled>; // exp(-step loss); updates
        // Of a node without labels, for all of the weight but the first label's.
        { cm.likelihood_after_first(y, weight, step) } -> std::same_as<Scaled>;
    };

// A label of weight w counts as w labels in sequence, also where w is not an integer.
template <class M>
concept LabelModel =
    // The parameters, which all trees of a forest share. They may change while the forest grows.
    requires(const typename M::Parameters p, typename M::Parameters &next) {
        p.for_each([](const char *, const auto &) {}); // the name and value of each
        next.for_each([](const char *, auto &) {});
        next.validate();         // throws std::invalid_argument; derives the rest
        p.check_successor(next); // the same, for a larger copy
        p.check_update(next);    // the same, in place
        { p == next } -> std::same_as<bool>;
    } &&
    // Statistics.
    requires(M m, const M cm, NodeId v, typename M::Label y, double weight, double coefficient,
             std::size_t count, std::shared_ptr<const typename M::Parameters> parameters) {
        M(parameters);
        M(cm, parameters);  // a copy, with room for what the parameters say
        m.make_room(count); // for as many more nodes
        { cm.bytes() } -> std::same_as<std::size_t>;
        { cm.empty_bytes() } -> std::same_as<std::size_t>;
        { cm.split_bytes() } -> std::same_as<std::size_t>; // of a leaf and an inner node at most
        { cm.n_leaves() } -> std::same_as<std::size_t>;
        m.add_leaf();
        m.add_inner();  // without labels
        m.add_inner(v); // a copy of v's statistics
        cm.prefetch(v);
        cm.prefetch(v, y); // and what learning y will change
        { M::accepts(*parameters, y) } -> std::same_as<bool>;
        { cm.n_samples(v) } -> std::convertible_to<double>; // the sum of the weights
        { cm.is_pure(v) } -> std::same_as<bool>;
        { cm.is_pure(v, y) } -> std::same_as<bool>;
        m.update(v, y, weight);
    } &&
    ((M::kInherits && LearnsDownward<M>) || (!M::kInherits && LearnsByItself<M>)) &&
    // Predictions.
    requires(const M cm, NodeId v, double coefficient, std::span<double> mixture,
             std::span<Share> shares, const typename M::Parameters &parameters) {
        { M::mixture_size(parameters) } -> std::same_as<std::size_t>;
        { M::prediction_size(parameters) } -> std::same_as<std::size_t>;
        cm.add_prediction(v, coefficient, mixture);
        // Of nodes, one below the other, each of which takes its share of what reaches it. Returns
        // what reaches the node below them; overwrites the shares.
        { cm.add_predictions(shares, coefficient, mixture) } -> std::same_as<double>;
        cm.add_default(coefficient, mixture);
        { cm.finish(mixture) } -> std::same_as<std::span<const double>>;
    } &&
    // Contributions: those to the first numbers of a prediction.
    requires(const M cm, NodeId v, typename M::Way &way, std::span<double> prediction,
             const typename M::Parameters &parameters) {
        { M::explained_size(parameters) } -> std::same_as<std::size_t>;
        cm.predict_node(v, way, prediction); // of each node of a way, from the root downward
    } &&
    // What the nodes of a path predict of a label, in the order of the path: numbers that may be
    // mixed; and the loss of a mixture.
    requires(typename M::PathPredictions predictions, NodeId v, typename M::Label y,
             double prediction) {
        requires std::constructible_from<typename M::PathPredictions, const M &, typename M::Label>;
        { predictions.of_root(v) } -> std::same_as<double>;
        { predictions.below(v) } -> std::same_as<double>;
        { M::loss(prediction, y) } -> std::same_as<double>;
    } &&
    // The model file, and the tree table.
    requires(M m, const M cm, NodeId v, typename M::template FileColumns<Owned> &columns,
             typename M::Reader &reader, typename M::TableColumns &table) {
        cm.append(v, columns); // in preorder, as all columns
        reader.read(v, m);     // checks one node
        { reader.is_at_end() } -> std::same_as<bool>;
        cm.check_sums(v, v, v); // of a node and its children
        table.append(cm, v);
    };

} // namespace amforest
