// The Python module amforest._core: arrays in, arrays out, no algorithm.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "arrays.hpp"

using namespace nb::literals;

namespace amforest {
namespace {

// Asks the forest without the GIL: whoever waits for a learner keeps no other thread waiting.
template <class Question> auto ask(const Question &question) {
    const nb::gil_scoped_release release;
    return question();
}

// A batch goes to the forest in chunks of rows; between two of them Ctrl-C is heard, and other
// threads get their turn.
template <class Forest, class Work>
void for_each_chunk(const Forest &forest, std::size_t n_rows, const Work &work) {
    const std::size_t chunk = ask([&] { return forest.rows_at_once(); });
    for (std::size_t first = 0; first < n_rows; first += chunk) {
        {
            const nb::gil_scoped_release release;
            work(first, std::min(chunk, n_rows - first));
        }
        if (PyErr_CheckSignals() != 0) throw nb::python_error();
    }
}

template <class Labels> struct Bindings {
    using Forest = amforest::Forest<Labels>;
    using Batch = typename Forest::Batch;
    using Label = typename Labels::Label;
    using Features = Input<float, 2>;
    using LabelArray = Input<Label, 1>;
    using Weights = Input<double, 1>;
    using WithoutGil = nb::call_guard<nb::gil_scoped_release>;

    static Matrix matrix(const Forest &forest, const Features &X) {
        const Matrix rows{X.data(), X.shape(0), X.shape(1)};
        check(forest, rows, "X", [](std::size_t) { return false; });
        return rows;
    }

    // Rows to be learnt, unless their weight is 0.
    static Matrix matrix(const Forest &forest, const Features &X, const std::span<const double> w) {
        const Matrix rows{X.data(), X.shape(0), X.shape(1)};
        check(forest, rows, "X", [=](std::size_t i) { return w.empty() || w[i] > 0; });
        return rows;
    }

    static std::vector<float> row(const Forest &forest, nb::handle x, bool is_learnt) {
        std::vector<float> values = floats_of(x);
        check(forest, {values.data(), 1, values.size()}, "x",
              [=](std::size_t) { return is_learnt; });
        return values;
    }

    template <class IsLearnt>
    static void check(const Forest &forest, const Matrix &rows, const char *name,
                      const IsLearnt &is_learnt) {
        const Layout &layout = forest.layout();
        if (rows.n_features != layout.n_features())
            throw std::invalid_argument(
                std::string(name) + " has " + std::to_string(rows.n_features) +
                " features; the forest was built for " + std::to_string(layout.n_features()));
        check_features(rows, layout, name, is_learnt);
    }

    static std::span<const Label> labels(const Forest &forest, const Matrix &X, const LabelArray &y,
                                         const std::optional<ClassPrior> &prior = {}) {
        const std::span<const Label> all(y.data(), y.shape(0));
        require(all.size() == X.n_rows, "X and y must have the same number of rows");
        for (const Label label : all)
            if (!prior || !(static_cast<double>(label) < static_cast<double>(prior->n_classes)))
                check_label(forest, label);
        return all;
    }

    static void check_label(const Forest &forest, Label y) {
        require(forest.tree(0).labels().accepts(y), Labels::kAccepted);
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
        require(!Labels::kWholeWeights || weight == std::floor(weight),
                "weights must be whole numbers");
    }

    // With `classes`, so many are known, with a parameter of the prior, from the first row on.
    static void learn(Forest &forest, const Features &X, const LabelArray &y, std::size_t n_threads,
                      const std::optional<Weights> &weights, const NewClasses &classes) {
        const auto weight = checked_weights(X, weights);
        const Matrix rows = matrix(forest, X, weight);
        const std::optional<ClassPrior> prior = new_prior(forest.tree(0).labels(), classes);
        const auto all = labels(forest, rows, y, prior);
        std::optional<Batch> batch;
        begin(batch, forest, rows, weight, 0, prior);
        for_each_chunk(forest, rows.n_rows, [&](std::size_t first, std::size_t count) {
            batch->learn(rows.rows(first, count), all.subspan(first, count),
                         weight.empty() ? weight : weight.subspan(first, count), n_threads);
        });
    }

    // Without the GIL, because others may have to end their work before.
    static void begin(std::optional<Batch> &batch, Forest &forest, const Matrix &rows,
                      std::span<const double> weights, std::size_t entries,
                      const std::optional<ClassPrior> &prior = {}) {
        const nb::gil_scoped_release release;
        batch.emplace(forest, rows.n_rows, weights, entries, prior);
    }

    static void learn_row(Forest &forest, nb::handle x, Label y, double weight) {
        const std::vector<float> values = row(forest, x, weight > 0);
        check_label(forest, y);
        check_weight(weight);
        const nb::gil_scoped_release release;
        forest.learn({values.data(), 1, values.size()}, y, weight);
    }

    static Output<double> predict_then_learn(Forest &forest, const Features &X, const LabelArray &y,
                                             std::size_t n_threads,
                                             const std::optional<Weights> &weights) {
        const auto weight = checked_weights(X, weights);
        const Matrix rows = matrix(forest, X, weight);
        const auto all = labels(forest, rows, y);
        const std::size_t size = forecast_size(forest);
        const Output<double> out =
            to_numpy(std::vector<double>(rows.n_rows * size), {rows.n_rows, size});
        std::optional<Batch> batch;
        begin(batch, forest, rows, weight, size);
        for_each_chunk(forest, rows.n_rows, [&](std::size_t first, std::size_t count) {
            batch->predict_then_learn(rows.rows(first, count), all.subspan(first, count),
                                      weight.empty() ? weight : weight.subspan(first, count),
                                      out.data() + first * size, n_threads);
        });
        return out;
    }

    static std::size_t forecast_size(const Forest &forest) {
        return ask([&] { return forest.forecast_size(); });
    }

    // One of the forest's functions of rows, with `size` doubles per row.
    template <class Function>
    static std::vector<double> by_row(const Forest &forest, const Matrix &rows, std::size_t size,
                                      const Function &function) {
        std::vector<double> out(rows.n_rows * size);
        for_each_chunk(forest, rows.n_rows, [&](std::size_t first, std::size_t count) {
            function(rows.rows(first, count), &out[first * size]);
        });
        return out;
    }

    static Output<double> predict(const Forest &forest, const Features &X, std::size_t n_threads) {
        const Matrix rows = matrix(forest, X);
        const std::size_t size = forecast_size(forest);
        return to_numpy(by_row(forest, rows, size,
                               [&](const Matrix &chunk, double *out) {
                                   forest.predict(chunk, out, size, n_threads);
                               }),
                        {rows.n_rows, size});
    }

    // A forecast of as many numbers as the caller expects; None if it has more by now.
    static nb::object predict_row(const Forest &forest, nb::handle x, std::size_t size) {
        const std::vector<float> values = row(forest, x, false);
        auto [array, out] = new_doubles(size);
        const std::size_t true_size = ask(
            [&, to = out] { return forest.predict_row({values.data(), 1, values.size()}, to); });
        return true_size == size ? std::move(array) : nb::none();
    }

    static Output<double> predict_by_tree(const Forest &forest, const Features &X,
                                          std::size_t n_threads) {
        const Matrix rows = matrix(forest, X);
        const std::size_t size = forecast_size(forest);
        return to_numpy(by_row(forest, rows, forest.n_trees() * size,
                               [&](const Matrix &chunk, double *out) {
                                   forest.predict_by_tree(chunk, out, size, n_threads);
                               }),
                        {rows.n_rows, forest.n_trees(), size});
    }

    static Output<double> weighted_depth(const Forest &forest, const Features &X,
                                         std::size_t n_threads) {
        const Matrix rows = matrix(forest, X);
        return to_numpy(by_row(forest, rows, forest.n_trees(),
                               [&](const Matrix &chunk, double *out) {
                                   forest.weighted_depth(chunk, out, n_threads);
                               }),
                        {rows.n_rows, forest.n_trees()});
    }

    // Leaves as rows of the trees' tables.
    static Output<std::int64_t> apply(const Forest &forest, const Features &X,
                                      std::size_t n_threads) {
        const Matrix rows = matrix(forest, X);
        std::vector<std::int64_t> out(rows.n_rows * forest.n_trees());
        {
            const nb::gil_scoped_release release;
            forest.apply(rows, out.data(), n_threads);
        }
        return to_numpy(std::move(out), {rows.n_rows, forest.n_trees()});
    }

    // Of each tree, the largest depth of a leaf.
    static Output<std::int64_t> depths(const Forest &forest) {
        return to_numpy(ask([&] { return forest.depths(); }), {forest.n_trees()});
    }

    static nb::dict tree_table(const Forest &forest, std::size_t i) {
        auto table = ask([&] {
            const auto lock = forest.reading();
            return to_table(forest.tree(i));
        });
        return to_dict(std::move(table), forest.layout());
    }

    // All that makes the forest, as plain values and arrays: the constructor's arguments.
    static nb::dict state(const Forest &forest) {
        FlatForest<Labels, Owned> flat;
        std::size_t n_samples;
        {
            const nb::gil_scoped_release release;
            flat = flattened(forest, n_samples);
        }
        const Layout &layout = forest.layout();
        nb::dict state = label_parameters(forest.tree(0).labels());
        state["n_numbers"] = layout.n_numbers;
        state["categories"] = layout.categories.room();
        state["bounds"] = bounds_of(layout);
        state["n_samples"] = n_samples;
        state["options"] = to_dict(forest.tree(0).options());
        nb::dict trees;
        flat.for_each_column(
            layout, n_classes(forest.tree(0).labels()),
            [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                const std::size_t size = column.size();
                const Shape shape = width == kVector ? Shape{size}
                                    : width == 0     ? Shape{n_empty, 0}
                                                     : Shape{size / width, width};
                trees[name] = to_numpy(std::move(column), shape);
            });
        state["trees"] = trees;
        return state;
    }

    // Builds a forest in place: a new one from seeds, or a grown one from `trees`.
    template <class NewLabels>
    static void build(Forest *self, const Layout &layout, const Options &options,
                      const NewLabels &new_labels, const Seeds &seeds, const Flat &trees,
                      std::size_t n_samples) {
        require(options.split_prior.beta == 0 || (layout.has_box() && !options.predict_extends),
                "beta must be 0 without bounds, and with predict_extends");
        require(!layout.has_box() || (std::isinf(options.lifetime) && options.discount == 0),
                "bounds leave no lifetime and no discount");
        require(options.discount == 0 || HasTables<Labels>, "discount belongs to classifiers");
        FlatForest<Labels, Borrowed> flat;
        const Labels labels = new_labels();
        std::vector<std::uint64_t> no_nodes;
        if (trees) {
            require(!seeds, "seeds must not be given beside trees");
            flat.for_each_column(
                layout, n_classes(labels),
                [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                    from_numpy(*trees, name, width, n_empty, column);
                });
        } else {
            require(seeds && seeds->shape(1) == 4, "seeds must be rows of four words");
            no_nodes.resize(seeds->shape(0));
            flat.seeds = {seeds->data(), seeds->size()};
            flat.n_nodes = no_nodes;
        }
        const nb::gil_scoped_release release;
        const auto new_tree = [&](const Rng::State &state, std::size_t n_trees) {
            return Tree<Labels>(layout, options, new_labels(), state, n_trees);
        };
        std::vector<Tree<Labels>> all =
            restored<Labels>(flat, layout, n_classes(labels), n_samples, new_tree);
        require(all.front().max_leaves() > 0,
                "max_nodes and max_bytes must let each tree have a node");
        new (self) Forest(std::move(all), n_samples);
    }

    static void bind(nb::class_<Forest> &cls) {
        cls.def_prop_ro("n_numbers", [](const Forest &f) { return f.layout().n_numbers; })
            .def_prop_ro("categories", [](const Forest &f) { return f.layout().categories.room(); })
            .def_prop_ro("bounds", [](const Forest &f) { return bounds_of(f.layout()); })
            .def_prop_ro("n_trees", &Forest::n_trees)
            .def_prop_ro("n_samples", &Forest::n_samples, WithoutGil())
            .def_prop_ro("total_weight", &Forest::total_weight, WithoutGil())
            .def_prop_ro("n_bytes", &Forest::bytes, WithoutGil())
            .def_prop_ro("n_nodes", &Forest::n_nodes, WithoutGil())
            .def("depths", &depths)
            .def_prop_ro("forecast_size", &Forest::forecast_size, WithoutGil())
            .def("learn", &learn, "X"_a.noconvert(), "y"_a.noconvert(), "n_threads"_a,
                 "weights"_a.noconvert() = nb::none(), "classes"_a = nb::none())
            .def("learn_row", &learn_row, "x"_a, "y"_a.noconvert(), "weight"_a = 1.0)
            .def("predict_then_learn", &predict_then_learn, "X"_a.noconvert(), "y"_a.noconvert(),
                 "n_threads"_a, "weights"_a.noconvert() = nb::none())
            .def("predict", &predict, "X"_a.noconvert(), "n_threads"_a)
            .def("predict_row", &predict_row, "x"_a, "size"_a)
            .def("predict_by_tree", &predict_by_tree, "X"_a.noconvert(), "n_threads"_a)
            .def("weighted_depth", &weighted_depth, "X"_a.noconvert(), "n_threads"_a)
            .def("apply", &apply, "X"_a.noconvert(), "n_threads"_a)
            .def("tree_table", &tree_table, "i"_a)
            .def("state", &state);
    }
};

// `capacity` is the number of classes for which there is room.
template <class Count> void bind_classifier(nb::module_ &m, const char *name) {
    using Classifier = Bindings<ClassCounts<Count>>;
    using Forest = typename Classifier::Forest;
    nb::class_<Forest> classifier(m, name);
    classifier.def(
        "__init__",
        [](Forest *self, std::size_t n_numbers, const Options &options, std::size_t n_classes,
           double dirichlet, std::size_t capacity, const Seeds &seeds, const Flat &trees,
           std::size_t n_samples, const nb::list &categories, const Bounds &bounds) {
            require(capacity <= 65535, "capacity must be at most 65535");
            const auto prior =
                std::make_shared<ClassPrior>(checked_prior(n_classes, dirichlet, capacity));
            const auto new_labels = [&] { return ClassCounts<Count>(prior, capacity); };
            Classifier::build(self, checked_layout(n_numbers, categories, bounds), options,
                              new_labels, seeds, trees, n_samples);
        },
        nb::kw_only(), "n_numbers"_a, "options"_a, "n_classes"_a, "dirichlet"_a, "capacity"_a,
        "seeds"_a.noconvert() = nb::none(), "trees"_a = nb::none(), "n_samples"_a = 0,
        "categories"_a = nb::list(), "bounds"_a.noconvert() = nb::none());
    classifier.def_prop_ro("capacity",
                           [](const Forest &forest) { return forest.tree(0).labels().capacity(); });
    Classifier::bind(classifier);
}

NB_MODULE(_core, m) {
    m.doc() = "The compiled core of amforest: use the estimators instead.";
    nb::set_leak_warnings(false);
    import_numpy();

    nb::class_<Rng>(m, "Rng")
        .def(nb::init<const Rng::State &>(), "state"_a)
        .def("uniform", &Rng::uniform)
        .def("exponential", &Rng::exponential, "rate"_a)
        .def(
            "discrete",
            [](Rng &rng, const Input<float, 1> &weights) {
                return rng.discrete({weights.data(), weights.shape(0)});
            },
            "weights"_a.noconvert());

    nb::class_<Options>(m, "Options")
        .def(
            "__init__",
            [](Options *self, double step, bool use_aggregation, bool split_pure, bool charge_first,
               bool predict_extends, const std::pair<double, double> &split_prior, double discount,
               double lifetime, const Limit &max_nodes, const Limit &max_bytes) {
                const auto [alpha, beta] = split_prior;
                require(step > 0 && step <= 1e100, "step must lie in (0, 1e100]");
                require(alpha >= 1e-100 && alpha <= 1 - 0x1.0p-50 && beta >= 0 && beta <= 10,
                        "split_prior must be (alpha, beta), 1e-100 <= alpha < 1, 0 <= beta <= 10");
                require(discount >= 0 && std::isfinite(discount) && lifetime > 0,
                        "discount must not be negative, and lifetime must be positive");
                new (self) Options{step,
                                   use_aggregation,
                                   split_pure,
                                   charge_first,
                                   predict_extends,
                                   {alpha, beta},
                                   discount,
                                   lifetime,
                                   max_nodes.value_or(kUnlimited),
                                   max_bytes.value_or(kUnlimited)};
            },
            nb::kw_only(), "step"_a, "use_aggregation"_a, "split_pure"_a, "charge_first"_a,
            "predict_extends"_a, "split_prior"_a = std::pair(0.5, 0.0), "discount"_a = 0.0,
            "lifetime"_a = std::numeric_limits<double>::infinity(), "max_nodes"_a = nb::none(),
            "max_bytes"_a = nb::none());

    bind_classifier<std::uint32_t>(m, "ClassifierForest");
    bind_classifier<double>(m, "WeightedClassifierForest");

    using Regressor = Bindings<RunningMean>;
    nb::class_<Regressor::Forest> regressor(m, "RegressorForest");
    regressor.def(
        "__init__",
        [](Regressor::Forest *self, std::size_t n_numbers, const Options &options,
           const Seeds &seeds, const Flat &trees, std::size_t n_samples, const nb::list &categories,
           const Bounds &bounds) {
            const auto new_labels = [] { return RunningMean(); };
            Regressor::build(self, checked_layout(n_numbers, categories, bounds), options,
                             new_labels, seeds, trees, n_samples);
        },
        nb::kw_only(), "n_numbers"_a, "options"_a, "seeds"_a.noconvert() = nb::none(),
        "trees"_a = nb::none(), "n_samples"_a = 0, "categories"_a = nb::list(),
        "bounds"_a.noconvert() = nb::none());
    Regressor::bind(regressor);
}

} // namespace
} // namespace amforest
