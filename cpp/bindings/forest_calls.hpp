// What all forests can be called for from Python: growing, learning, predicting, inspecting.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "amforest/io/tree_table.hpp"
#include "amforest/rows.hpp"
#include "bindings.hpp"

namespace amforest {

using namespace nb::literals;

using SeedArray = std::optional<Input<std::uint64_t, 2>>; // trees x 4 words

// Calls without the GIL: whoever waits for a learner keeps no other thread waiting.
template <class Call> auto without_gil(const Call &call) {
    const nb::gil_scoped_release release;
    return call();
}

// Passes a batch on in chunks, each of as many rows as `limit` says; between two of them Ctrl-C is
// noticed, and other threads get the lock.
template <class Limit, class Work>
void for_each_chunk_within(std::size_t n_rows, const Limit &limit, const Work &work) {
    for (std::size_t first = 0, count = 0; first < n_rows; first += count) {
        count = limit(n_rows - first);
        without_gil([&] { work(first, count); });
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
}

template <class Work> void for_each_chunk(std::size_t n_rows, std::size_t chunk, const Work &work) {
    for_each_chunk_within(
        n_rows, [=](std::size_t n_left) { return std::min(chunk, n_left); }, work);
}

// The same for rows that are learned.
template <class Forest, class Work>
void learn_each_chunk(Forest &forest, std::size_t n_rows, std::size_t chunk, const Work &work) {
    for_each_chunk_within(
        n_rows, [&](std::size_t n_left) { return forest.limit_rows(std::min(chunk, n_left)); },
        work);
}

// `categories` has the room of each categorical feature.
inline Layout checked_layout(std::size_t n_numbers, const nb::list &categories) {
    require(n_numbers + categories.size() > 0, "there must be features");
    // One by one: if memory runs out while nanobind converts a vector, the process ends.
    std::vector<std::uint32_t> rooms;
    for (const nb::handle count : categories) {
        std::uint32_t room = 0;
        require(nb::try_cast(count, room, /*convert=*/false) && room > 0 && room <= kMostCategories,
                "categories must lie in [1, 65535]");
        rooms.push_back(room);
    }
    return {Categories(std::move(rooms)), n_numbers};
}

template <class Parameters> void read_parameters(const nb::dict &values, Parameters &parameters) {
    std::size_t n_known = 0;
    parameters.for_each([&](const char *name, auto &parameter) {
        if (!values.contains(name)) return;
        require(nb::try_cast(values[name], parameter), "parameters must have their types");
        ++n_known;
    });
    require(n_known == values.size(), "there are parameters that the label model does not have");
}

// The numbers of trees, which must be below `end` and ascend.
inline std::vector<std::size_t> checked_trees(const nb::list &numbers, std::size_t end) {
    std::vector<std::size_t> trees;
    for (const nb::handle item : numbers) {
        std::size_t t = 0;
        require(nb::try_cast(item, t, /*convert=*/false) && t < end &&
                    (trees.empty() || trees.back() < t),
                "the numbers of trees must ascend, and be those of trees");
        trees.push_back(t);
    }
    return trees;
}

inline nb::object to_object(const Everywhere &) { return nb::none(); }
inline nb::object to_object(const Bounds &bounds) {
    std::vector<float> ends = bounds.lower;
    ends.insert(ends.end(), bounds.upper.begin(), bounds.upper.end());
    return nb::cast(to_numpy(std::move(ends), {2, bounds.lower.size()}));
}

// `Forest` has trees of a label model, and learns in batches.
template <class Forest, LabelModel Labels> struct ForestCalls {
    using Tree = typename Forest::Tree;
    using Batch = typename Forest::Batch;
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;
    using Features = Input<float, 2>;
    using LabelArray = Input<Label, 1>;
    using Weights = Input<double, 1>;

    // Growing

    // A copy with room for more classes, categories or numbers.
    static std::unique_ptr<Forest> reserve(const Forest &forest,
                                           const std::optional<nb::list> &categories,
                                           const std::optional<std::size_t> &n_numbers,
                                           const nb::kwargs &label_parameters) {
        const std::size_t numbers = n_numbers.value_or(forest.layout().n_numbers);
        const Layout layout = categories ? checked_layout(numbers, *categories)
                                         : Layout{forest.layout().categories, numbers};
        const Parameters parameters = next_parameters(forest, label_parameters);
        return without_gil([&] { return std::make_unique<Forest>(forest, layout, parameters); });
    }

    static Parameters parameters_of(const Forest &forest) {
        return without_gil(
            [&] { return forest.inspect([](const Parameters &now, auto, auto) { return now; }); });
    }

    // The parameters of the labels, of which `values` sets some.
    static Parameters next_parameters(const Forest &forest, const nb::dict &values) {
        const Parameters now = parameters_of(forest);
        Parameters next = now;
        read_parameters(values, next);
        next.validate();
        now.check_successor(next);
        return next;
    }

    // Checks of arguments

    static Matrix matrix(const Features &X) { return {X.data(), X.shape(0), X.shape(1)}; }

    // Rows to be predicted.
    static Matrix checked_rows(const Forest &forest, const Features &X) {
        forest.check(matrix(X), "X", [](std::size_t) { return false; });
        return matrix(X);
    }

    static std::span<const Label> checked_labels(const Matrix &X, const LabelArray &y,
                                                 const Parameters &parameters) {
        const std::span<const Label> all(y.data(), y.shape(0));
        require(all.size() == X.n_rows, "X and y must have the same number of rows");
        for (const Label label : all)
            require(Labels::accepts(parameters, label), Labels::kAccepted);
        return all;
    }

    static std::span<const double> checked_weights(const Features &X,
                                                   const std::optional<Weights> &weights) {
        if (!weights) return {};
        const std::span<const double> all(weights->data(), weights->shape(0));
        require(all.size() == X.shape(0), "X and weights must have the same number of rows");
        for (const double weight : all) check_weight(weight);
        return all;
    }

    static void check_weight(double weight) {
        require(weight >= 0 && std::isfinite(weight), "weights must not be negative");
        require(weight == 0 || weight >= kLeastWeight, "weights must be 0, or at least 2**-100");
        require(!Labels::kHasWholeWeights || weight == std::floor(weight),
                "weights must be whole numbers");
    }

    // Learning

    // The arguments of a batch, checked.
    struct Arguments {
        Matrix X;
        std::span<const Label> y;
        std::span<const double> weights;
        Parameters parameters;

        std::span<const double> weights_of(std::size_t first, std::size_t count) const {
            return weights.empty() ? weights : weights.subspan(first, count);
        }
    };

    static Arguments checked(const Forest &forest, const Features &X, const LabelArray &y,
                             const std::optional<Weights> &weights, const nb::dict &parameters) {
        const std::span<const double> w = checked_weights(X, weights);
        forest.check(matrix(X), "X", [=](std::size_t i) { return w.empty() || w[i] > 0; });
        const Parameters next = next_parameters(forest, parameters);
        return {matrix(X), checked_labels(matrix(X), y, next), w, next};
    }

    // `parameters` of the labels, such as more classes, hold from the first row on.
    static void learn(Forest &forest, const Features &X, const LabelArray &y, std::size_t n_threads,
                      const std::optional<Weights> &weights,
                      const std::optional<nb::dict> &parameters) {
        const Arguments batch_of =
            checked(forest, X, y, weights, parameters ? *parameters : nb::dict());
        std::optional<Batch> batch;
        const std::size_t chunk = without_gil([&] {
            batch.emplace(forest, batch_of.X.n_rows, batch_of.weights, 0,
                          parameters ? std::optional(batch_of.parameters) : std::nullopt);
            return forest.chunk_size();
        });
        learn_each_chunk(
            forest, batch_of.X.n_rows, chunk, [&](std::size_t first, std::size_t count) {
                batch->learn(batch_of.X.rows(first, count), batch_of.y.subspan(first, count),
                             batch_of.weights_of(first, count), n_threads);
            });
    }

    // False, and nothing is learned, if x is not an array that can be read as it is, or if the
    // weights of all rows would add up to more than the forest counts.
    static bool learn_row(Forest &forest, nb::handle x, Label y, double weight) {
        const std::optional<std::vector<float>> values = floats_of(x);
        if (!values) return false;
        check_weight(weight);
        const Matrix row{values->data(), 1, values->size()};
        forest.check(row, "x", [=](std::size_t) { return weight > 0; });
        return without_gil([&] { return forest.learn(row, y, weight); });
    }

    static Output<double> predict_then_learn(Forest &forest, const Features &X, const LabelArray &y,
                                             std::size_t n_threads,
                                             const std::optional<Weights> &weights) {
        const Arguments batch_of = checked(forest, X, y, weights, nb::dict());
        const std::size_t n_rows = batch_of.X.n_rows;
        const std::size_t size = Forest::output_size(batch_of.parameters);
        // Before anything is learned: it may fail.
        const Output<double> out = to_numpy(std::vector<double>(n_rows * size), {n_rows, size});
        std::optional<Batch> batch;
        const std::size_t chunk = without_gil([&] {
            batch.emplace(forest, n_rows, batch_of.weights, size);
            return forest.chunk_size();
        });
        learn_each_chunk(forest, n_rows, chunk, [&](std::size_t first, std::size_t count) {
            batch->predict_then_learn(
                batch_of.X.rows(first, count), batch_of.y.subspan(first, count),
                batch_of.weights_of(first, count), out.data() + first * size, n_threads);
        });
        return out;
    }

    // The same by each of the trees that this part of a forest holds: [row][tree][output].
    static Output<double> predict_then_learn_by_tree(Forest &forest, const Features &X,
                                                     const LabelArray &y, std::size_t n_threads,
                                                     const std::optional<Weights> &weights,
                                                     const std::optional<nb::dict> &parameters) {
        const Arguments batch_of =
            checked(forest, X, y, weights, parameters ? *parameters : nb::dict());
        const std::size_t n_rows = batch_of.X.n_rows;
        const std::size_t size = Labels::prediction_size(batch_of.parameters);
        const std::size_t n_each = forest.n_trees() * size;
        const Output<double> out =
            to_numpy(std::vector<double>(n_rows * n_each), {n_rows, forest.n_trees(), size});
        std::optional<Batch> batch;
        const std::size_t chunk = without_gil([&] {
            batch.emplace(forest, n_rows, batch_of.weights, size,
                          parameters ? std::optional(batch_of.parameters) : std::nullopt);
            return forest.chunk_size();
        });
        learn_each_chunk(forest, n_rows, chunk, [&](std::size_t first, std::size_t count) {
            batch->predict_then_learn_by_tree(
                batch_of.X.rows(first, count), batch_of.y.subspan(first, count),
                batch_of.weights_of(first, count), out.data() + first * n_each, n_threads);
        });
        return out;
    }

    // Throws unless `learn` would accept the rows.
    static void check_batch(const Forest &forest, const Features &X, const LabelArray &y,
                            const std::optional<Weights> &weights,
                            const std::optional<nb::dict> &parameters) {
        checked(forest, X, y, weights, parameters ? *parameters : nb::dict());
    }

    // Predicting

    // Chunk after chunk, each with as many outputs as the forest has at its moment; those that came
    // later are 0 before. `predict(rows, values)` fills the values and returns the outputs; each
    // row has `n_each` predictions.
    template <class Predict>
    static std::pair<std::vector<double>, std::size_t>
    collect(const Forest &forest, const Matrix &X, std::size_t n_each, const Predict &predict,
            std::size_t most_rows = kMostRows) {
        std::vector<double> all, part;
        std::size_t size = 0;
        const std::size_t chunk =
            std::min(without_gil([&] { return forest.chunk_size(); }), most_rows);
        for_each_chunk(X.n_rows, chunk, [&](std::size_t first, std::size_t count) {
            const std::size_t now = predict(X.rows(first, count), part);
            if (now > size) {
                all = widened(all, size, now);
                all.reserve(X.n_rows * n_each * now);
                size = now;
            }
            if (first == 0 && count == X.n_rows)
                all.swap(part);
            else
                all.insert(all.end(), part.begin(), part.end());
        });
        if (X.n_rows == 0) size = without_gil([&] { return forest.prediction_size(); });
        return {std::move(all), size};
    }

    static std::vector<double> widened(const std::vector<double> &rows, std::size_t from,
                                       std::size_t to) {
        if (rows.empty()) return {};
        std::vector<double> wide(rows.size() / from * to);
        for (std::size_t i = 0; i * from < rows.size(); ++i)
            std::copy_n(&rows[i * from], from, &wide[i * to]);
        return wide;
    }

    static Output<double> predict(const Forest &forest, const Features &X, std::size_t n_threads) {
        auto [values, size] = collect(forest, checked_rows(forest, X), 1,
                                      [&](const Matrix &rows, std::vector<double> &out) {
                                          return forest.predict(rows, out, n_threads);
                                      });
        return to_numpy(std::move(values), {X.shape(0), size});
    }

    static Output<double> predict_by_tree(const Forest &forest, const Features &X,
                                          std::size_t n_threads) {
        auto [values, size] = collect(forest, checked_rows(forest, X), forest.n_trees(),
                                      [&](const Matrix &rows, std::vector<double> &out) {
                                          return forest.predict_by_tree(rows, out, n_threads);
                                      });
        return to_numpy(std::move(values), {X.shape(0), forest.n_trees(), size});
    }

    // None if x is not an array that can be read as it is.
    static nb::object predict_row(const Forest &forest, nb::handle x) {
        const std::optional<std::vector<float>> values = floats_of(x);
        if (!values) return nb::none();
        const Matrix row{values->data(), 1, values->size()};
        forest.check(row, "x", [](std::size_t) { return false; });
        thread_local std::vector<double> out; // kept for the next call
        without_gil([&] { forest.predict(row, out, 1); });
        return array_of(out);
    }

    // [row][0, then 1 + feature][output]: base values, and contributions. A class that came after a
    // row was explained has the base value `kBaseOfUnknown` there.
    static Output<double> explain(const Forest &forest, const Features &X, std::size_t n_threads) {
        constexpr std::size_t kValues = 1 << 20; // at once
        const std::size_t n_each = 1 + forest.layout().n_features();
        std::vector<std::pair<std::size_t, std::size_t>> parts; // rows, and their outputs
        auto [values, size] = collect(
            forest, checked_rows(forest, X), n_each,
            [&](const Matrix &rows, std::vector<double> &out) {
                parts.emplace_back(rows.n_rows, forest.explain(rows, out, n_threads));
                return parts.back().second;
            },
            std::max<std::size_t>(
                kValues / n_each / without_gil([&] { return forest.prediction_size(); }), 1));
        std::size_t row = 0;
        for (const auto &[n_rows, known] : parts)
            for (const std::size_t end = row + n_rows; row < end; ++row)
                std::fill(&values[row * n_each * size + known], &values[row * n_each * size] + size,
                          Forest::kBaseOfUnknown);
        return to_numpy(std::move(values), {X.shape(0), n_each, size});
    }

    // Inspecting

    static Output<double> weighted_depth(const Forest &forest, const Features &X,
                                         std::size_t n_threads) {
        const Matrix rows = checked_rows(forest, X);
        std::vector<double> out(rows.n_rows * forest.n_trees());
        const std::size_t chunk = without_gil([&] { return forest.chunk_size(); });
        for_each_chunk(rows.n_rows, chunk, [&](std::size_t first, std::size_t count) {
            forest.weighted_depth(rows.rows(first, count), &out[first * forest.n_trees()],
                                  n_threads);
        });
        return to_numpy(std::move(out), {rows.n_rows, forest.n_trees()});
    }

    // Leaves as rows of the trees' tables.
    static Output<std::int64_t> apply(const Forest &forest, const Features &X,
                                      std::size_t n_threads) {
        const Matrix rows = checked_rows(forest, X);
        std::vector<std::int64_t> out(rows.n_rows * forest.n_trees());
        without_gil([&] { forest.apply(rows, out.data(), n_threads); });
        return to_numpy(std::move(out), {rows.n_rows, forest.n_trees()});
    }

    // Of each tree, the largest depth of a leaf.
    static Output<std::int64_t> depths(const Forest &forest) {
        std::vector<std::int64_t> depths;
        without_gil([&] {
            forest.inspect([&](const Parameters &, std::span<const Tree> trees, std::size_t) {
                for (const Tree &tree : trees) depths.push_back(depth_of(tree.arena()));
            });
        });
        return to_numpy(std::move(depths), {forest.n_trees()});
    }

    static nb::dict to_dict(const Parameters &parameters) {
        nb::dict dict;
        parameters.for_each([&](const char *name, const auto &value) { dict[name] = value; });
        return dict;
    }

    static nb::dict label_parameters(const Forest &forest) {
        return to_dict(without_gil(
            [&] { return forest.inspect([](const Parameters &now, auto, auto) { return now; }); }));
    }

    // Of each tree, what its splits saved for each feature of a row, and the weight of the rows
    // that were credited.
    static nb::tuple importances(const Forest &forest) {
        std::vector<double> saved, weights;
        const std::size_t n_features = forest.layout().n_features();
        without_gil([&] {
            forest.inspect([&](const Parameters &, std::span<const Tree> trees, std::size_t) {
                saved.resize(trees.size() * n_features);
                for (std::size_t t = 0; t < trees.size(); ++t) {
                    const std::span<const double> by_column = trees[t].importance().saved();
                    for (std::size_t c = 0; c < n_features; ++c)
                        saved[t * n_features + forest.feature_of(c)] = by_column[c];
                    weights.push_back(trees[t].importance().weight());
                }
            });
        });
        const std::size_t n_trees = weights.size();
        return nb::make_tuple(to_numpy(std::move(saved), {n_trees, n_features}),
                              to_numpy(std::move(weights), {n_trees}));
    }

    static nb::dict tree_table(const Forest &forest, std::size_t i) {
        TreeTable<Labels> table;
        std::optional<Layout> layout; // the tree's: an adaptive forest's rows have another one
        without_gil([&] {
            forest.inspect([&](const Parameters &, std::span<const Tree> trees, std::size_t) {
                require(i < trees.size(), "i must be the number of a tree");
                table = to_table(trees[i]);
                layout = trees[i].arena().layout();
            });
        });
        nb::dict dict;
        const std::size_t n = table.n_rows();
        table.for_each(*layout, [&](const char *name, auto &column, std::size_t width) {
            dict[name] = to_numpy(std::move(column), width == kVector ? Shape{n} : Shape{n, width});
        });
        return dict;
    }

    // A property of one moment.
    template <class Of> static auto property(const Of &of) {
        return [of](const Forest &forest) {
            return without_gil([&] {
                return forest.inspect([&](const Parameters &, std::span<const Tree> trees,
                                          std::size_t n_rows) { return of(trees, n_rows); });
            });
        };
    }

    template <class Of> static auto sum_over_trees(const Of &of) {
        return property([of](std::span<const Tree> trees, std::size_t) {
            std::size_t sum = 0;
            for (const Tree &tree : trees) sum += of(tree);
            return sum;
        });
    }

    static void bind_calls(nb::class_<Forest> &cls) {
        using Trees = std::span<const Tree>;
        cls.def_prop_ro("n_numbers", [](const Forest &f) { return f.layout().n_numbers; })
            .def_prop_ro("categories", [](const Forest &f) { return f.layout().categories.room(); })
            .def_prop_ro("bounds", [](const Forest &f) { return to_object(f.domain()); })
            .def_prop_ro("n_trees", &Forest::n_trees)
            .def_prop_ro("n_in_all", &Forest::n_in_all)
            .def_prop_ro("is_part", &Forest::is_part)
            .def_prop_ro("n_samples", property([](Trees, std::size_t n_rows) { return n_rows; }))
            // Of the tree that has learned most.
            .def_prop_ro("total_weight", property([](Trees trees, std::size_t) {
                             double largest = 0;
                             for (const Tree &tree : trees)
                                 largest = std::max(largest, tree.total_weight());
                             return largest;
                         }))
            .def_prop_ro("n_nodes", sum_over_trees([](const Tree &tree) { return tree.n_nodes(); }))
            .def_prop_ro("prediction_size", &Forest::prediction_size,
                         nb::call_guard<nb::gil_scoped_release>())
            .def_prop_ro("label_parameters", &label_parameters)
            .def("depths", &depths)
            .def("reserve", &reserve, nb::kw_only(), "categories"_a = nb::none(),
                 "n_numbers"_a = nb::none(), "label_parameters"_a)
            .def("learn", &learn, "X"_a.noconvert(), "y"_a.noconvert(), "n_threads"_a,
                 "weights"_a.noconvert() = nb::none(), "parameters"_a = nb::none())
            .def("learn_row", &learn_row, "x"_a, "y"_a.noconvert(), "weight"_a = 1.0)
            .def("predict_then_learn", &predict_then_learn, "X"_a.noconvert(), "y"_a.noconvert(),
                 "n_threads"_a, "weights"_a.noconvert() = nb::none())
            .def("predict_then_learn_by_tree", &predict_then_learn_by_tree, "X"_a.noconvert(),
                 "y"_a.noconvert(), "n_threads"_a, "weights"_a.noconvert() = nb::none(),
                 "parameters"_a = nb::none())
            .def("check_batch", &check_batch, "X"_a.noconvert(), "y"_a.noconvert(),
                 "weights"_a.noconvert() = nb::none(), "parameters"_a = nb::none())
            .def("predict", &predict, "X"_a.noconvert(), "n_threads"_a)
            .def("predict_row", &predict_row, "x"_a)
            .def("predict_by_tree", &predict_by_tree, "X"_a.noconvert(), "n_threads"_a)
            .def_prop_ro("base_of_unknown", [](const Forest &) { return Forest::kBaseOfUnknown; })
            .def("explain", &explain, "X"_a.noconvert(), "n_threads"_a)
            .def("weighted_depth", &weighted_depth, "X"_a.noconvert(), "n_threads"_a)
            .def("apply", &apply, "X"_a.noconvert(), "n_threads"_a)
            .def("importances", &importances)
            .def("tree_table", &tree_table, "i"_a);
    }
};

} // namespace amforest
