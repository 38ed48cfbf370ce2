// amforest._core.freeze, and the frozen copies that it returns.
#include "amforest/adaptive/class_task.hpp"
#include "amforest/adaptive/number_task.hpp"
#include "amforest/frozen/freeze.hpp"
#include "amforest/frozen/frozen_columns.hpp"
#include "forest_calls.hpp"

namespace amforest {

namespace {

using Features = Input<float, 2>;

// The trees of columns, of which `n_more` others are in the same dict.
std::vector<PlainTree> read_trees(const nb::dict &arrays, std::size_t n_trees, const Layout &layout,
                                  std::size_t n_outputs, std::size_t n_more) {
    PlainNodes<Borrowed> nodes;
    std::size_t n_columns = n_more;
    nodes.for_each(n_outputs,
                   [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                       from_numpy(arrays, name, width, n_empty, column);
                       ++n_columns;
                   });
    require(n_columns == arrays.size(), "there are columns that a frozen forest does not have");
    return without_gil([&] { return read_plain(nodes, n_trees, layout, n_outputs); });
}

template <class Forest> void write_trees(const Forest &forest, nb::dict &arrays) {
    PlainTree plain = without_gil([&] { return to_plain(forest.trees()); });
    plain.for_each(forest.n_outputs(),
                   [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                       const Shape shape = shape_of(column.size(), width, n_empty);
                       arrays[name] = to_numpy(std::move(column), shape);
                   });
}

void check_outputs(std::size_t n_outputs) {
    require(n_outputs > 0 && n_outputs <= kMostClasses, "n_outputs must lie in [1, 65535]");
}

void build(FrozenForest *self, std::size_t n_numbers, const nb::list &categories,
           std::size_t n_outputs, std::size_t n_samples, std::size_t n_trees,
           const nb::dict &trees) {
    check_outputs(n_outputs);
    const Layout layout = checked_layout(n_numbers, categories);
    const auto plain = read_trees(trees, n_trees, layout, n_outputs, 0);
    new (self) FrozenForest({layout, n_outputs, n_samples}, plain);
}

template <class Forest> nb::dict state_of_rows(const Forest &forest) {
    nb::dict state;
    state["n_numbers"] = forest.layout().n_numbers;
    state["categories"] = forest.layout().categories.room();
    state["n_outputs"] = forest.n_outputs();
    state["n_samples"] = forest.n_rows();
    return state;
}

nb::dict state(const FrozenForest &forest) {
    nb::dict state = state_of_rows(forest), arrays;
    state["n_trees"] = forest.trees().size();
    write_trees(forest, arrays);
    state["trees"] = arrays;
    return state;
}

template <class Task> struct AdaptiveCalls {
    using Forest = FrozenAdaptive<Task>;
    using Common = typename Forest::Common;

    static void build(Forest *self, std::size_t n_numbers, const nb::list &categories,
                      std::size_t n_outputs, std::size_t n_samples, std::size_t n_groups,
                      std::size_t n_estimators, const nb::dict &trees) {
        check_outputs(n_outputs);
        require(Task::kOutputs == 0 || n_outputs == Task::kOutputs,
                "n_outputs must be that of the kind of forest");
        require(n_groups > 0 && n_groups <= kMostTrees && n_estimators > 0 &&
                    n_estimators <= kMostTrees,
                "there must be 1 to 65535 trees");
        Common common{checked_layout(n_numbers, categories),
                      {},
                      n_outputs,
                      n_groups,
                      n_estimators,
                      n_samples};
        require(n_samples > 0, "a forest must have learned something");
        FrozenColumns<Borrowed> flat;
        std::size_t n_columns = 0;
        flat.for_each(Task::kHasBases, FrozenNumbers(common.layout.categories).width(),
                      common.n_trees(),
                      [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                          from_numpy(trees, name, width, n_empty, column);
                          ++n_columns;
                      });
        FrozenPartsReader<Task> reader(flat, common);
        const auto plain =
            read_trees(trees, common.n_trees(), common.tree_layout(), n_outputs, n_columns);
        auto parts = reader.read();
        new (self) Forest(std::move(common), std::move(parts), plain);
    }

    static nb::dict state(const Forest &forest) {
        nb::dict state = state_of_rows(forest), arrays;
        state["n_groups"] = forest.common().n_groups;
        state["n_estimators"] = forest.common().n_estimators;
        write_trees(forest, arrays);
        FrozenColumns<Owned> flat = flatten(forest);
        flat.for_each(Task::kHasBases, forest.parts().numbers.width(), forest.trees().size(),
                      [&](const char *name, auto &column, std::size_t width, std::size_t n_empty) {
                          const Shape shape = shape_of(column.size(), width, n_empty);
                          arrays[name] = to_numpy(std::move(column), shape);
                      });
        state["trees"] = arrays;
        return state;
    }
};

// What all of them can be called for.
template <class Forest> struct FrozenCalls {
    static Output<double> predict(const Forest &forest, const Features &X, std::size_t n_threads) {
        constexpr std::size_t kChunk = std::size_t{1} << 16; // rows between two looks for Ctrl-C
        const Matrix rows{X.data(), X.shape(0), X.shape(1)};
        without_gil([&] { forest.check(rows, "X"); });
        const std::size_t size = forest.prediction_size();
        std::vector<double> out(rows.n_rows * size);
        for_each_chunk(rows.n_rows, kChunk, [&](std::size_t first, std::size_t count) {
            forest.predict(rows.rows(first, count), out.data() + first * size, n_threads);
        });
        return to_numpy(std::move(out), {rows.n_rows, size});
    }

    // None if x is not an array that can be read as it is.
    static nb::object predict_row(const Forest &forest, nb::handle x) {
        const std::optional<std::vector<float>> values = floats_of(x);
        if (!values) return nb::none();
        const Matrix row{values->data(), 1, values->size()};
        forest.check(row, "x");
        thread_local std::vector<double> out; // kept for the next call
        out.resize(forest.prediction_size());
        without_gil([&] { forest.predict(row, out.data(), 1); });
        return array_of(out);
    }

    static nb::class_<Forest> bind(nb::module_ &m, const char *name) {
        nb::class_<Forest> cls(m, name);
        cls.def_prop_ro("n_numbers", [](const Forest &f) { return f.layout().n_numbers; })
            .def_prop_ro("categories", [](const Forest &f) { return f.layout().categories.room(); })
            .def_prop_ro("n_trees", [](const Forest &f) { return f.trees().size(); })
            .def_prop_ro("n_samples", &Forest::n_rows)
            .def_prop_ro("is_part", [](const Forest &) { return false; })
            .def_prop_ro("n_nodes",
                         [](const Forest &f) {
                             std::size_t sum = 0;
                             for (const FrozenTree &tree : f.trees()) sum += tree.n_nodes();
                             return sum;
                         })
            .def_prop_ro("n_bytes", &Forest::bytes)
            .def_prop_ro("prediction_size", &Forest::prediction_size)
            .def("predict", &predict, "X"_a.noconvert(), "n_threads"_a)
            .def("predict_row", &predict_row, "x"_a);
        return cls;
    }
};

template <class Task> void bind_adaptive(nb::module_ &m, const char *name) {
    using Forest = FrozenAdaptive<Task>;
    FrozenCalls<Forest>::bind(m, name)
        .def("__init__", &AdaptiveCalls<Task>::build, nb::kw_only(), "n_numbers"_a, "categories"_a,
             "n_outputs"_a, "n_samples"_a, "n_groups"_a, "n_estimators"_a, "trees"_a)
        .def("state", &AdaptiveCalls<Task>::state);
    m.def(
        "freeze", [](const AdaptiveForest<Task> &forest) { return freeze(forest); }, "forest"_a,
        nb::call_guard<nb::gil_scoped_release>());
}

template <class Labels> void bind_freeze(nb::module_ &m) {
    m.def(
        "freeze", [](const Forest<Restricted, Labels> &forest) { return freeze(forest); },
        "forest"_a, nb::call_guard<nb::gil_scoped_release>());
}

const Registration kFrozenForests([](nb::module_ &m) {
    FrozenCalls<FrozenForest>::bind(m, "FrozenForest")
        .def("__init__", &build, nb::kw_only(), "n_numbers"_a, "categories"_a, "n_outputs"_a,
             "n_samples"_a, "n_trees"_a, "trees"_a)
        .def("state", &state);
    bind_adaptive<ClassTask>(m, "FrozenAdaptiveClassifierForest");
    bind_adaptive<NumberTask>(m, "FrozenAdaptiveRegressorForest");
    bind_freeze<ClassCounts<std::uint32_t>>(m);
    bind_freeze<ClassCounts<double>>(m);
    bind_freeze<RunningMean>(m);
});

} // namespace

} // namespace amforest
