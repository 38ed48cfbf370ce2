// An adaptive forest as a Python class, for any label model.
#pragma once

#include <nanobind/stl/tuple.h>

#include <tuple>
#include <type_traits>

#include "amforest/io/adaptive_columns.hpp"
#include "forest_calls.hpp"

namespace amforest {

template <class Task> struct AdaptiveBindings {
    using Forest = AdaptiveForest<Task>;
    using Labels = typename Task::Labels;
    using Tree = typename Forest::Tree;
    using Common = typename Forest::Common;
    using Parameters = typename Labels::Parameters;
    using Calls = ForestCalls<Forest, Labels>;
    using Memory = std::optional<std::size_t>;
    // The memory; whether it is honest and plain; and whether it has a base, if there are bases.
    using GroupTuple = std::conditional_t<Task::kHasBases, std::tuple<Memory, bool, bool, bool>,
                                          std::tuple<Memory, bool, bool>>;

    static AdaptiveOptions checked_options(const nb::list &groups, std::size_t n_estimators,
                                           std::size_t n_candidates, std::size_t row_limit,
                                           double mixer_rate) {
        AdaptiveOptions options{{}, n_estimators, n_candidates, row_limit, mixer_rate};
        for (const nb::handle item : groups) {
            GroupTuple group;
            require(nb::try_cast(item, group), "groups must be tuples (memory, honest, plain)");
            const Memory memory = std::get<0>(group);
            require(!memory || *memory >= kLeastMemory, "memories must be at least 8");
            Group own{memory.value_or(kUnlimited), std::get<1>(group), std::get<2>(group)};
            if constexpr (Task::kHasBases) own.has_base = std::get<3>(group);
            options.groups.push_back(own);
        }
        require(!options.groups.empty() && n_estimators > 0 &&
                    options.groups.size() * n_estimators <= kMostTrees,
                "there must be 1 to 65535 trees");
        require(n_candidates > 0 && n_candidates <= 10'000, "n_candidates must lie in [1, 10000]");
        require(row_limit >= 16 && row_limit <= kMostRows, "row_limit must lie in [16, 2**31 - 1]");
        require(mixer_rate >= 0 && mixer_rate <= 1, "mixer_rate must lie in [0, 1]");
        return options;
    }

    // A new forest from seeds, or a grown one from `trees`, the arrays of `state`.
    static void build(Forest *self, std::size_t n_numbers, const Options &options,
                      const SeedArray &seeds, const std::optional<nb::dict> &trees,
                      std::size_t n_samples, const nb::list &groups, std::size_t n_estimators,
                      std::size_t n_candidates, std::size_t row_limit, double mixer_rate,
                      const nb::list &categories, const std::optional<nb::list> &held,
                      const nb::kwargs &label_parameters) {
        require(std::isinf(options.lifetime) && options.discount == 0 && !options.predict_extends &&
                    options.split_prior.beta == 0,
                "an adaptive forest has no lifetime, discount, predict_extends and beta");
        const Layout layout = checked_layout(n_numbers, categories);
        Common common{layout, Columns(layout, {}), options,
                      checked_options(groups, n_estimators, n_candidates, row_limit, mixer_rate),
                      std::make_shared<Parameters>()};
        if (held) common.adaptive.held = checked_trees(*held, common.n_in_all());
        read_parameters(label_parameters, *common.parameters);
        common.parameters->validate();
        if (trees) {
            require(!seeds, "seeds must not be given beside trees");
            return restore(self, std::move(common), *trees, n_samples);
        }
        std::vector<std::uint32_t> features(layout.n_features());
        std::iota(features.begin(), features.end(), 0U);
        common.columns = Columns(layout, std::move(features));
        require(seeds && seeds->shape(1) == 4 && seeds->shape(0) == common.n_trees(),
                "seeds must be four words for each tree");
        std::vector<Rng::State> states(common.n_trees());
        for (std::size_t t = 0; t < states.size(); ++t)
            std::copy_n(seeds->data() + 4 * t, 4, states[t].begin());
        const nb::gil_scoped_release release;
        new (self) Forest(std::move(common), states);
    }

    static void restore(Forest *self, Common common, const nb::dict &arrays,
                        std::size_t n_samples) {
        FlatForest<Labels, Borrowed> trees;
        AdaptiveColumns<Task, Borrowed> memory;
        std::size_t n_columns = 0;
        const auto read = [&](const char *name, auto &column, std::size_t width, std::size_t n) {
            from_numpy(arrays, name, width, n, column);
            ++n_columns;
        };
        memory.for_each(common.layout, common.n_trees(), read);
        common.columns = AdaptiveRestorer<Task>::columns(memory, common.layout);
        trees.for_each(common.tree_layout(), *common.parameters, read);
        require(n_columns == arrays.size(), "there are columns that a forest does not have");
        require(memory.due.size() == common.n_trees(),
                "columns must be as long as there are trees");
        const nb::gil_scoped_release release;
        new (self) Forest(std::move(common), [&](Forest &forest) {
            AdaptiveRestorer<Task>(memory, forest).restore(trees, n_samples);
        });
    }

    static nb::list groups(const Forest &forest) {
        nb::list groups;
        for (const Group &group : forest.common().adaptive.groups) {
            Memory memory;
            if (group.memory != kUnlimited) memory = group.memory;
            if constexpr (Task::kHasBases)
                groups.append(GroupTuple(memory, group.is_honest, group.is_plain, group.has_base));
            else
                groups.append(GroupTuple(memory, group.is_honest, group.is_plain));
        }
        return groups;
    }

    // All that makes the forest, as plain values and arrays: the constructor's arguments.
    static nb::dict state(const Forest &forest) {
        FlatForest<Labels, Owned> trees;
        AdaptiveColumns<Task, Owned> memory;
        std::size_t n_samples = 0;
        Parameters parameters;
        without_gil([&] {
            forest.inspect_all([&](const Forest &now) {
                trees = flatten<Restricted, Labels>(now.regrown_trees().all());
                memory = flatten_memory<Task>(now);
                n_samples = now.n_rows();
                parameters = *now.common().parameters;
            });
        });
        const Common &common = forest.common();
        nb::dict state = Calls::to_dict(parameters);
        state["n_numbers"] = common.layout.n_numbers;
        state["categories"] = common.layout.categories.room();
        state["n_samples"] = n_samples;
        state["options"] = amforest::to_dict(common.options);
        state["groups"] = groups(forest);
        state["n_estimators"] = common.adaptive.n_estimators;
        state["n_candidates"] = common.adaptive.n_candidates;
        state["row_limit"] = common.adaptive.row_limit;
        state["mixer_rate"] = common.adaptive.mixer_rate;
        if (const auto &held = common.adaptive.held) state["held"] = nb::cast(*held);
        nb::dict arrays;
        const auto write = [&](const char *name, auto &column, std::size_t width,
                               std::size_t n_empty) {
            const Shape shape = shape_of(column.size(), width, n_empty);
            arrays[name] = to_numpy(std::move(column), shape);
        };
        trees.for_each(common.tree_layout(), parameters, write);
        memory.for_each(common.layout, common.n_trees(), write);
        state["trees"] = arrays;
        return state;
    }

    static Output<double> predict_by_expert(const Forest &forest, const typename Calls::Features &X,
                                            std::size_t n_threads) {
        auto [values, size] =
            Calls::collect(forest, Calls::checked_rows(forest, X), forest.n_experts(),
                           [&](const Matrix &rows, std::vector<double> &out) {
                               return forest.predict_by_expert(rows, out, n_threads);
                           });
        return to_numpy(std::move(values), {X.shape(0), forest.n_experts(), size});
    }

    // A part that holds only these trees.
    static std::unique_ptr<Forest> take(const Forest &forest, const nb::list &trees) {
        std::vector<std::size_t> held = checked_trees(trees, forest.n_in_all());
        return without_gil([&] {
            return std::make_unique<Forest>(forest, std::span<const Forest *const>(),
                                            std::optional(std::move(held)));
        });
    }

    // The forest whose trees the parts hold; this one has its mixer.
    static std::unique_ptr<Forest> join(const Forest &forest, const nb::list &parts) {
        std::vector<const Forest *> all;
        for (const nb::handle part : parts) all.push_back(nb::cast<const Forest *>(part));
        return without_gil([&] { return std::make_unique<Forest>(forest, all, std::nullopt); });
    }

    // Where the trees are elsewhere: their predictions of rows, by_tree[row][tree][output].
    using ByTree = Input<double, 3>;
    static void check_by_tree(const Forest &forest, const Matrix &X, const ByTree &by_tree,
                              const Parameters &parameters) {
        require(by_tree.shape(0) == X.n_rows && by_tree.shape(1) == forest.n_in_all() &&
                    by_tree.shape(2) == Labels::prediction_size(parameters),
                "by_tree must have a prediction for each row and tree");
    }

    static Output<double> mix(const Forest &forest, const typename Calls::Features &X,
                              const ByTree &by_tree) {
        const Matrix rows = Calls::checked_rows(forest, X);
        check_by_tree(forest, rows, by_tree, Calls::parameters_of(forest));
        std::vector<double> out;
        const std::size_t size = without_gil([&] { return forest.mix(rows, by_tree.data(), out); });
        return to_numpy(std::move(out), {rows.n_rows, size});
    }

    static Output<double> mix_by_expert(const Forest &forest, const typename Calls::Features &X,
                                        const ByTree &by_tree) {
        const Matrix rows = Calls::checked_rows(forest, X);
        check_by_tree(forest, rows, by_tree, Calls::parameters_of(forest));
        std::vector<double> out;
        const std::size_t size =
            without_gil([&] { return forest.mix_by_expert(rows, by_tree.data(), out); });
        return to_numpy(std::move(out), {rows.n_rows, forest.n_experts(), size});
    }

    static Output<double> mix_then_learn(Forest &forest, const typename Calls::Features &X,
                                         const typename Calls::LabelArray &y, const ByTree &by_tree,
                                         const std::optional<typename Calls::Weights> &weights,
                                         const std::optional<nb::dict> &parameters) {
        require(forest.n_trees() == 0, "a forest that mixes the trees of others has none");
        const auto batch_of =
            Calls::checked(forest, X, y, weights, parameters ? *parameters : nb::dict());
        check_by_tree(forest, batch_of.X, by_tree, batch_of.parameters);
        const std::size_t n_rows = batch_of.X.n_rows;
        const std::size_t size = Forest::output_size(batch_of.parameters);
        const std::size_t n_each = by_tree.shape(1) * by_tree.shape(2);
        const Output<double> out = to_numpy(std::vector<double>(n_rows * size), {n_rows, size});
        std::optional<typename Forest::Batch> batch;
        const std::size_t chunk = without_gil([&] {
            batch.emplace(forest, n_rows, batch_of.weights, size,
                          parameters ? std::optional(batch_of.parameters) : std::nullopt);
            return forest.chunk_size();
        });
        // Ctrl-C is not noticed here: the trees have learned all rows.
        without_gil([&] {
            for (std::size_t first = 0; first < n_rows; first += chunk) {
                const std::size_t count = std::min(chunk, n_rows - first);
                batch->mix_then_learn(batch_of.X.rows(first, count),
                                      batch_of.y.subspan(first, count),
                                      batch_of.weights_of(first, count),
                                      by_tree.data() + first * n_each, out.data() + first * size);
            }
        });
        return out;
    }

    static Output<double> mixer_weights(const Forest &forest) {
        std::vector<double> weights;
        without_gil([&] {
            forest.inspect_all([&](const Forest &now) {
                for (std::size_t g = 0; g < now.n_experts(); ++g)
                    weights.push_back(now.mixed_experts().mixer().part(g));
            });
        });
        return to_numpy(std::move(weights), {forest.n_experts()});
    }

    // The rows after which weights were recorded, and the weights; then those of now.
    static nb::tuple weight_history(const Forest &forest) {
        std::vector<std::int64_t> rows;
        std::vector<double> weights;
        without_gil([&] {
            forest.inspect_all([&](const Forest &now) {
                const WeightHistory &history = now.mixed_experts().history();
                for (std::size_t k = 0; k < history.n_points(); ++k)
                    rows.push_back(static_cast<std::int64_t>(history.row(k)));
                weights.assign(history.values().begin(), history.values().end());
                const auto n_rows = static_cast<std::int64_t>(now.n_rows());
                if (n_rows == 0 || (!rows.empty() && rows.back() == n_rows)) return;
                rows.push_back(n_rows);
                for (std::size_t g = 0; g < now.n_experts(); ++g)
                    weights.push_back(now.mixed_experts().mixer().part(g));
            });
        });
        const std::size_t n = rows.size();
        return nb::make_tuple(to_numpy(std::move(rows), {n}),
                              to_numpy(std::move(weights), {n, forest.n_experts()}));
    }

    // The number of the first row, and the losses.
    static nb::tuple take_losses(Forest &forest) {
        auto [first, losses] = without_gil([&] { return forest.take_losses(); });
        const std::size_t n = losses.size();
        return nb::make_tuple(first, to_numpy(std::move(losses), {n}));
    }

    static Output<std::int64_t> n_regrows(const Forest &forest) {
        std::vector<std::int64_t> counts;
        without_gil([&] {
            forest.inspect_all([&](const Forest &now) {
                for (const auto &slot : now.regrown_trees().slots())
                    counts.push_back(static_cast<std::int64_t>(slot.n_regrows));
            });
        });
        return to_numpy(std::move(counts), {forest.n_trees()});
    }

    static Output<std::uint32_t> tree_columns(const Forest &forest) {
        std::vector<std::uint32_t> features = forest.common().columns.features();
        const std::size_t n = features.size();
        return to_numpy(std::move(features), {n});
    }

    static std::size_t n_remembered(const Forest &forest) {
        return without_gil([&] {
            return forest.inspect_all([](const Forest &now) {
                return now.regrown_trees().store().end() - now.regrown_trees().store().first();
            });
        });
    }

    static double remembered_weight(const Forest &forest) {
        return without_gil([&] {
            return forest.inspect_all(
                [](const Forest &now) { return now.regrown_trees().store().total_weight(); });
        });
    }

    static nb::class_<Forest> bind(nb::module_ &m, const char *name) {
        nb::class_<Forest> cls(m, name);
        cls.def("__init__", &build, nb::kw_only(), "n_numbers"_a, "options"_a,
                "seeds"_a.noconvert() = nb::none(), "trees"_a = nb::none(), "n_samples"_a = 0,
                "groups"_a, "n_estimators"_a, "n_candidates"_a, "row_limit"_a, "mixer_rate"_a = 0.0,
                "categories"_a = nb::list(), "held"_a = nb::none(), "label_parameters"_a)
            .def("take", &take, "trees"_a)
            .def("join", &join, "parts"_a)
            .def("mix", &mix, "X"_a.noconvert(), "by_tree"_a.noconvert())
            .def("mix_by_expert", &mix_by_expert, "X"_a.noconvert(), "by_tree"_a.noconvert())
            .def("mix_then_learn", &mix_then_learn, "X"_a.noconvert(), "y"_a.noconvert(),
                 "by_tree"_a.noconvert(), "weights"_a.noconvert() = nb::none(),
                 "parameters"_a = nb::none())
            .def_prop_ro("n_bytes", &Forest::bytes, nb::call_guard<nb::gil_scoped_release>())
            .def_prop_ro("weight_history", &weight_history)
            .def("keep_losses", &Forest::keep_losses, "are_kept"_a,
                 nb::call_guard<nb::gil_scoped_release>())
            .def("take_losses", &take_losses)
            .def_prop_ro("mixer_weights", &mixer_weights, nb::rv_policy::move)
            .def_prop_ro("n_regrows", &n_regrows, nb::rv_policy::move)
            .def_prop_ro("n_remembered", &n_remembered)
            .def_prop_ro("remembered_weight", &remembered_weight)
            .def_prop_ro("groups", &groups)
            .def_prop_ro("tree_columns", &tree_columns, nb::rv_policy::move)
            .def("predict_by_expert", &predict_by_expert, "X"_a.noconvert(), "n_threads"_a)
            .def("state", &state);
        Calls::bind_calls(cls);
        return cls;
    }
};

} // namespace amforest
