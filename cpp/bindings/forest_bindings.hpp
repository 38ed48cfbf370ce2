// A forest as a Python class, for any partition and label model.
#pragma once

#include "amforest/io/restore.hpp"
#include "forest_calls.hpp"

namespace amforest {

using BoundsArray = std::optional<Input<float, 2>>; // a row of lower and one of upper ends
using WeightArray = std::optional<Input<float, 2>>; // trees x features

inline Everywhere checked_domain(const BoundsArray &bounds, const Layout &, const Options &options,
                                 Everywhere) {
    require(!bounds, "bounds belong to the unrestricted partition");
    require(options.split_prior.beta == 0, "beta must be 0 without bounds");
    return {};
}

inline Bounds checked_domain(const BoundsArray &bounds, const Layout &layout,
                             const Options &options, const Bounds &) {
    const std::size_t n = layout.n_numbers;
    require(bounds.has_value(), "bounds must be given");
    require(layout.n_codes() == 0, "bounds leave no room for categories");
    require(std::isinf(options.lifetime) && options.discount == 0,
            "bounds leave no lifetime and no discount");
    require(options.split_prior.beta == 0 || !options.predict_extends,
            "beta must be 0 with predict_extends");
    require(bounds->shape(0) == 2 && bounds->shape(1) == n,
            "bounds must be two rows of as many numbers as there are features");
    const float *lower = bounds->data(), *upper = lower + n;
    for (std::size_t j = 0; j < n; ++j)
        require(std::abs(lower[j]) <= kLargestFeature && std::abs(upper[j]) <= kLargestFeature &&
                    lower[j] < upper[j],
                "bounds must be finite, lie within ±2**100, and have lower ends below upper ones");
    return {{lower, upper}, {upper, upper + n}};
}

template <class Partition, LabelModel Labels> struct ForestBindings {
    using Forest = amforest::Forest<Partition, Labels>;
    using Tree = typename Forest::Tree;
    using Common = typename Forest::Common;
    using Parameters = typename Labels::Parameters;
    using Calls = ForestCalls<Forest, Labels>;

    // Building

    // A new forest from seeds, or a grown one from `trees`, the arrays of `state`.
    static void build(Forest *self, std::size_t n_numbers, const Options &options,
                      const SeedArray &seeds, const std::optional<nb::dict> &trees,
                      std::size_t n_samples, const nb::list &categories, const BoundsArray &bounds,
                      const WeightArray &feature_weights,
                      const std::optional<std::size_t> &n_in_all,
                      const nb::kwargs &label_parameters) {
        require(!n_in_all || (*n_in_all > 0 && *n_in_all <= kMostTrees),
                "n_in_all must lie in [1, 65535]");
        Common common{checked_layout(n_numbers, categories),
                      {},
                      options,
                      std::make_shared<Parameters>(),
                      n_in_all};
        common.domain = checked_domain(bounds, common.layout, options, common.domain);
        require(options.discount == 0 || HasTables<Labels>, "discount belongs to classifiers");
        read_parameters(label_parameters, *common.parameters);
        common.parameters->validate();
        FlatForest<Labels, Borrowed> flat;
        std::vector<std::uint64_t> zeros;
        if (trees) {
            require(!seeds && !feature_weights, "seeds must not be given beside trees");
            std::size_t n_columns = 0;
            flat.for_each(common.layout, *common.parameters,
                          [&](const char *name, auto &column, std::size_t width, std::size_t n) {
                              from_numpy(*trees, name, width, n, column);
                              ++n_columns;
                          });
            require(n_columns == trees->size(), "there are columns that a forest does not have");
        } else {
            require(seeds && seeds->shape(1) == 4, "seeds must be rows of four words");
            zeros.resize(seeds->shape(0));
            flat.seeds = {seeds->data(), seeds->size()};
            flat.n_nodes = flat.n_rows = zeros;
            if (feature_weights)
                flat.feature_weights = {feature_weights->data(), feature_weights->size()};
        }
        const nb::gil_scoped_release release;
        std::vector<Tree> all = Restorer<Partition, Labels>(flat, common).restore(n_samples);
        new (self) Forest(std::move(common), std::move(all), n_samples);
    }

    // All that makes the forest, as plain values and arrays: the constructor's arguments.
    static nb::dict state(const Forest &forest) {
        FlatForest<Labels, Owned> flat;
        std::size_t n_samples = 0;
        Parameters parameters;
        without_gil([&] {
            forest.inspect(
                [&](const Parameters &now, std::span<const Tree> trees, std::size_t n_rows) {
                    flat = flatten<Partition, Labels>(trees);
                    n_samples = n_rows;
                    parameters = now;
                });
        });
        nb::dict state = Calls::to_dict(parameters);
        state["n_numbers"] = forest.layout().n_numbers;
        state["categories"] = forest.layout().categories.room();
        state["bounds"] = to_object(forest.domain());
        state["n_samples"] = n_samples;
        state["options"] = amforest::to_dict(forest.options());
        if (forest.is_part()) state["n_in_all"] = forest.n_in_all();
        nb::dict trees;
        flat.for_each(forest.layout(), parameters,
                      [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                          const Shape shape = shape_of(column.size(), width, n_empty);
                          trees[name] = to_numpy(std::move(column), shape);
                      });
        state["trees"] = trees;
        return state;
    }

    // A part that holds only these trees.
    static std::unique_ptr<Forest> take(const Forest &forest, const nb::list &trees) {
        const std::vector<std::size_t> held = checked_trees(trees, forest.n_trees());
        const std::array forests = {&forest};
        return without_gil([&] { return std::make_unique<Forest>(forests, held, true); });
    }

    // The forest whose part k of n holds its trees k, k + n, …; this one holds none.
    static std::unique_ptr<Forest> join(const Forest &forest, const nb::list &parts) {
        std::vector<const Forest *> forests = {&forest};
        std::vector<std::size_t> first = {0}; // of each part, counted through
        for (const nb::handle part : parts) {
            forests.push_back(nb::cast<const Forest *>(part));
            first.push_back(first.back() + forests.back()->n_trees());
        }
        require(parts.size() > 0 && forest.n_trees() == 0 && first.back() == forest.n_in_all(),
                "the parts must hold all trees");
        std::vector<std::size_t> held;
        for (std::size_t t = 0; t < forest.n_in_all(); ++t)
            held.push_back(first[t % parts.size()] + t / parts.size());
        return without_gil([&] { return std::make_unique<Forest>(forests, held, false); });
    }

    static nb::class_<Forest> bind(nb::module_ &m, const char *name) {
        nb::class_<Forest> cls(m, name);
        cls.def("__init__", &build, nb::kw_only(), "n_numbers"_a, "options"_a,
                "seeds"_a.noconvert() = nb::none(), "trees"_a = nb::none(), "n_samples"_a = 0,
                "categories"_a = nb::list(), "bounds"_a.noconvert() = nb::none(),
                "feature_weights"_a.noconvert() = nb::none(), "n_in_all"_a = nb::none(),
                "label_parameters"_a)
            .def("take", &take, "trees"_a)
            .def("join", &join, "parts"_a)
            .def_prop_ro("step", [](const Forest &forest) { return forest.options().step; })
            .def_prop_ro("n_bytes",
                         Calls::sum_over_trees([](const Tree &tree) { return tree.bytes(); }))
            .def("state", &state);
        Calls::bind_calls(cls);
        return cls;
    }
};

// `Labels` are of the template of a label model whose counts may be whole or real numbers.
template <class Partition, template <class> class Labels>
void bind_with_real_counts(nb::class_<Forest<Partition, Labels<std::uint32_t>>> &cls) {
    using Whole = Forest<Partition, Labels<std::uint32_t>>;
    using Real = Forest<Partition, Labels<double>>;
    cls.def(
        "with_real_counts",
        [](const Whole &forest) {
            const auto parameters = forest.inspect([](const auto &now, auto, auto) { return now; });
            return std::make_unique<Real>(forest, forest.layout(), parameters);
        },
        nb::call_guard<nb::gil_scoped_release>());
}

} // namespace amforest
