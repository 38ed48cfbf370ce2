// Each tree of an adaptive forest predicts each row, then learns it.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>
#include <vector>

#include "amforest/adaptive/regrown_trees.hpp"
#include "amforest/base/memory.hpp"
#include "amforest/base/parallel.hpp"
#include "amforest/rows.hpp"

namespace amforest {

template <class Task> class TreeLearner {
  public:
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;
    using Trees = RegrownTrees<Task>;
    using Tree = typename Trees::Tree;
    using Common = AdaptiveCommon<Task>;

    TreeLearner(const Common &common, Trees &trees) : common_(common), trees_(trees) {}

    // For chunks of so many rows.
    void make_room(std::size_t n_rows, const Parameters &parameters) {
        const std::size_t n_trees = trees_.size(), width = padded(common_.columns.size());
        ensure_size(predictions_, n_rows * n_trees * Labels::prediction_size(parameters));
        ensure_size(mixtures_, n_trees * Labels::mixture_size(parameters));
        ensure_size(encoded_, (common_.columns.have_codes() ? n_trees : 1) * n_rows * width);
    }

    void predict_then_learn(const Matrix &X, std::span<const Label> y,
                            std::span<const double> weights, std::size_t n_threads) {
        const std::size_t n_before = trees_.n_rows();
        trees_.remember(X, y, weights);
        if (!common_.columns.have_codes() && trees_.size() > 0)
            for (std::size_t i = 0; i < X.n_rows; ++i)
                common_.columns.encode(X[i], trees_.slots()[0].numbers,
                                       encoded_row(0, X.n_rows, i));
        if (X.n_rows == 1)
            learn_side_by_side(X, {{}, y[0], weight_at(weights, 0)}, n_before);
        else
            for_each_index(trees_.size(), n_threads, [&](std::size_t t, std::size_t) {
                std::size_t now = n_before;
                for (std::size_t i = 0; i < X.n_rows; ++i)
                    learn_row(t, {point(t, X, i), y[i], weight_at(weights, i)},
                              prediction_of(t, X.n_rows, i), now);
            });
    }

    // That of row i of `n_rows`, made before the row was learned.
    std::span<double> prediction_of(std::size_t t, std::size_t n_rows, std::size_t i) {
        const std::size_t size = common_.tree_size();
        return std::span(predictions_).subspan((t * n_rows + i) * size, size);
    }

  private:
    // Importances of fewer rows would be those of chance.
    static constexpr double kLeastImportanceMemory = 250;

    void learn_row(std::size_t t, const Row<Label> &row, std::span<double> prediction,
                   std::size_t &now) {
        Tree &tree = trees_[t];
        NodeId v = tree.start();
        while (tree.template descend<Splits::kNumbers>(v, row.x.values, row.y)) {
        }
        finish_row(t, row, prediction, now);
    }

    // One row finds none of its nodes in the cache: it descends the trees together.
    void learn_side_by_side(const Matrix &X, Row<Label> row, std::size_t n_before) {
        struct Learner {
            Tree *tree;
            const float *x;
            NodeId v;
        };
        std::array<Learner, kTogether> places;
        for (std::size_t first = 0; first < trees_.size(); first += kTogether) {
            const std::size_t count = std::min(kTogether, trees_.size() - first);
            const std::span<Learner> learners(places.data(), count);
            for (std::size_t k = 0; k < count; ++k) {
                Tree &tree = trees_[first + k];
                learners[k] = {&tree, point(first + k, X, 0).values, tree.start()};
            }
            interleave(learners, [&](Learner &l) {
                return l.tree->template descend<Splits::kNumbers>(l.v, l.x, row.y);
            });
        }
        for (std::size_t t = 0; t < trees_.size(); ++t) {
            std::size_t now = n_before;
            row.x = {encoded_row(t, 1, 0), nullptr};
            finish_row(t, row, prediction_of(t, 1, 0), now);
        }
    }

    // After the descent: predicts the row, learns it, and works on the tree that will come next.
    void finish_row(std::size_t t, const Row<Label> &row, std::span<double> prediction,
                    std::size_t &now) {
        Tree &tree = trees_[t];
        const std::size_t size = Labels::mixture_size(*common_.parameters);
        const std::span<double> mixture = std::span(mixtures_).subspan(t * size, size);
        std::ranges::fill(mixture, 0.0);
        tree.predict_on_path(mixture);
        std::ranges::copy(tree.labels().finish(mixture), prediction.begin());
        Row<Label> own = row;
        if constexpr (Task::kHasBases) {
            const double base = trees_.slots()[t].base.of(row.x.values);
            prediction[0] += base;
            own.y -= base;
        }
        if (row.weight == 0) return;
        credit_in_turn(t, row, own, now);
        tree.extend(own);
        while (tree.ascend(own.y, own.weight)) {
        }
        trees_.regrow(t, ++now);
    }

    // Each row is credited in one tree of each group. A group with a memory forgets what its trees
    // saved long ago: the older of so many rows as the memory holds count 1 / e.
    void credit_in_turn(std::size_t t, const Row<Label> &row, const Row<Label> &own,
                        std::size_t now) {
        const std::size_t n = common_.adaptive.n_estimators;
        if (now % n != common_.id(t) % n) return;
        Tree &tree = trees_[t];
        Importance &importance = tree.importance();
        const Group &group = common_.group(t);
        if (group.memory != kUnlimited) {
            const double memory =
                std::max(static_cast<double>(group.memory), kLeastImportanceMemory);
            importance.fade(memory / (memory + static_cast<double>(n)));
        }
        tree.credit(own.y, row.weight);
        if constexpr (Task::kHasBases)
            trees_.slots()[t].base.credit(row.x.values, row.y,
                                          [&](std::size_t column, double saved) {
                                              importance.add(column, row.weight * saved);
                                          });
    }

    float *encoded_row(std::size_t t, std::size_t n_rows, std::size_t i) {
        const std::size_t place = common_.columns.have_codes() ? t * n_rows + i : i;
        return &encoded_[place * padded(common_.columns.size())];
    }

    // Row i as tree t sees it.
    Point point(std::size_t t, const Matrix &X, std::size_t i) {
        float *x = encoded_row(t, X.n_rows, i);
        if (common_.columns.have_codes())
            common_.columns.encode(X[i], trees_.slots()[t].numbers, x);
        return {x, nullptr};
    }

    const Common &common_;
    Trees &trees_;
    std::vector<double> predictions_, mixtures_;
    std::vector<float> encoded_;
};

} // namespace amforest
