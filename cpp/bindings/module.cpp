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
#include <string_view>
#include <utility>
#include <vector>

#include "amforest/flat_forest.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace amforest {
namespace {

template <class T, std::size_t N>
using Input = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T> using Output = nb::ndarray<nb::numpy, T>;

using Shape = std::vector<std::size_t>;
using Seeds = std::optional<Input<std::uint64_t, 2>>; // trees x 4 words
using Flat = std::optional<nb::dict>;                 // the trees of a grown forest, as arrays
using Bounds = std::optional<Input<float, 2>>;

// A one-dimensional array of float or double, through the buffer protocol: for single rows, of
// which nanobind's way of taking an array would be the greater part of the cost.
class RowBuffer {
  public:
    explicit RowBuffer(nb::handle array, int flags = PyBUF_SIMPLE) {
        if (PyObject_GetBuffer(array.ptr(), &view_, PyBUF_C_CONTIGUOUS | PyBUF_FORMAT | flags) != 0)
            refuse();
        const std::string_view format = view_.format == nullptr ? "" : view_.format;
        is_double_ = format == "d";
        if (view_.ndim == 1 && (is_double_ || format == "f")) return;
        PyBuffer_Release(&view_);
        refuse();
    }
    RowBuffer(const RowBuffer &) = delete;
    RowBuffer &operator=(const RowBuffer &) = delete;
    ~RowBuffer() { PyBuffer_Release(&view_); }

    std::size_t size() const { return static_cast<std::size_t>(view_.shape[0]); }
    std::span<double> doubles() const {
        require(is_double_, "out must be an array of doubles");
        return {static_cast<double *>(view_.buf), size()};
    }

    // What is too large for float32 becomes infinite and is refused later.
    std::vector<float> floats() const {
        if (is_double_) return copy(static_cast<const double *>(view_.buf));
        return copy(static_cast<const float *>(view_.buf));
    }

  private:
    template <class T> std::vector<float> copy(const T *from) const {
        return {from, from + size()};
    }

    [[noreturn]] static void refuse() {
        PyErr_Clear();
        throw nb::type_error("a row must be a contiguous array of float32 or float64");
    }

    Py_buffer view_{};
    bool is_double_ = false;
};

// Hands a vector's memory to a numpy array, without a copy.
template <class T> Output<T> to_numpy(std::vector<T> values, const Shape &shape) {
    auto owner = std::make_unique<std::vector<T>>(std::move(values));
    T *data = owner->data();
    const nb::capsule capsule(owner.get(),
                              [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    owner.release();
    return Output<T>(data, shape.size(), shape.data(), capsule);
}

Output<bool> to_numpy(const std::vector<bool> &values, const Shape &shape) {
    auto copy = std::make_unique<bool[]>(values.size());
    std::ranges::copy(values, copy.get());
    bool *data = copy.get();
    const nb::capsule capsule(data, [](void *p) noexcept { delete[] static_cast<bool *>(p); });
    copy.release();
    return Output<bool>(data, shape.size(), shape.data(), capsule);
}

// A column of the dict as it lies in memory: of just this type and shape.
template <class T>
void from_numpy(const nb::dict &columns, const char *name, std::size_t width, std::size_t n_empty,
                std::span<const T> &to) {
    require(columns.contains(name), "columns are missing");
    nb::ndarray<const T, nb::c_contig, nb::device::cpu> array;
    require(nb::try_cast(columns[name], array, /*convert=*/false), "columns must have their types");
    require(array.ndim() == (width == kVector ? 1 : 2) &&
                (width == kVector || array.shape(1) == width) &&
                (width != 0 || array.shape(0) == n_empty),
            "columns must have their shapes");
    to = {array.data(), array.size()};
}

template <class Count>
nb::dict label_columns(LabelColumns<ClassCounts<Count>> columns, std::size_t n_rows) {
    nb::dict dict;
    const std::size_t n_classes = columns.n_classes;
    dict["n_samples"] = to_numpy(std::move(columns.n_samples), {n_rows});
    dict["counts"] = to_numpy(std::move(columns.counts), {n_rows, n_classes});
    return dict;
}

nb::dict label_columns(LabelColumns<RunningMean> columns, std::size_t n_rows) {
    nb::dict dict;
    dict["n_samples"] = to_numpy(std::move(columns.n_samples), {n_rows});
    dict["mean"] = to_numpy(std::move(columns.mean), {n_rows});
    dict["constant"] = to_numpy(columns.constant, {n_rows});
    return dict;
}

using Limit = std::optional<std::size_t>;

Limit limit(std::size_t most) { return most == kUnlimited ? Limit() : Limit(most); }

nb::dict to_dict(const Options &options) {
    nb::dict dict;
    dict["step"] = options.step;
    dict["use_aggregation"] = options.use_aggregation;
    dict["split_pure"] = options.split_pure;
    dict["charge_first"] = options.charge_first;
    dict["predict_extends"] = options.predict_extends;
    dict["discount"] = options.discount;
    dict["lifetime"] = options.lifetime;
    dict["split_prior"] = std::pair(options.split_prior.alpha, options.split_prior.beta);
    dict["max_nodes"] = limit(options.max_nodes);
    dict["max_bytes"] = limit(options.max_bytes);
    return dict;
}

template <class Count> nb::dict label_parameters(const ClassCounts<Count> &labels) {
    nb::dict dict;
    dict["n_classes"] = labels.n_classes();
    dict["capacity"] = labels.capacity();
    dict["dirichlet"] = labels.alpha();
    return dict;
}

nb::dict label_parameters(const RunningMean &) { return {}; }

template <class Count> std::size_t n_classes(const ClassCounts<Count> &labels) {
    return labels.n_classes();
}
std::size_t n_classes(const RunningMean &) { return 0; }

// `categories` is the number of categories for which there is room, of each feature.
// `bounds`, a row of lower and one of upper ends, makes the partition the unrestricted one.
Layout checked_layout(std::size_t n_numbers, const nb::list &counts, const Bounds &bounds) {
    require(n_numbers + counts.size() > 0, "there must be features");
    // One by one: if memory runs out while nanobind converts a vector, the process ends.
    std::vector<std::uint32_t> categories;
    for (const nb::handle count : counts) {
        std::uint32_t room = 0;
        require(nb::try_cast(count, room, /*convert=*/false) && room > 0 && room <= 65535,
                "categories must lie in [1, 65535]");
        categories.push_back(room);
    }
    Layout layout{Categories(std::move(categories)), n_numbers};
    if (!bounds) return layout;
    require(layout.n_codes() == 0, "bounds leave no room for categories");
    require(bounds->shape(0) == 2 && bounds->shape(1) == n_numbers,
            "bounds must be two rows of as many numbers as there are features");
    const float *ends = bounds->data();
    for (std::size_t j = 0; j < n_numbers; ++j)
        require(std::abs(ends[j]) <= kLargestFeature &&
                    std::abs(ends[n_numbers + j]) <= kLargestFeature &&
                    ends[j] < ends[n_numbers + j],
                "bounds must be finite, lie within ±2**100, and have lower ends below upper ones");
    layout.lower.assign(ends, ends + n_numbers);
    layout.upper.assign(ends + n_numbers, ends + 2 * n_numbers);
    return layout;
}

nb::object bounds_of(const Layout &layout) {
    if (!layout.has_box()) return nb::none();
    std::vector<float> ends = layout.lower;
    ends.insert(ends.end(), layout.upper.begin(), layout.upper.end());
    return nb::cast(to_numpy(std::move(ends), {2, layout.n_numbers}));
}

// A table as a dict of arrays, one per column.
template <class Labels> nb::dict to_dict(TreeTable<Labels> table, const Layout &layout) {
    const std::size_t n = table.n_rows();
    nb::dict dict = label_columns(std::move(table.labels), n);
    dict["parent"] = to_numpy(std::move(table.parent), {n});
    dict["left"] = to_numpy(std::move(table.left), {n});
    dict["right"] = to_numpy(std::move(table.right), {n});
    dict["depth"] = to_numpy(std::move(table.depth), {n});
    dict["feature"] = to_numpy(std::move(table.feature), {n});
    dict["threshold"] = to_numpy(std::move(table.threshold), {n});
    dict["birth_time"] = to_numpy(std::move(table.birth_time), {n});
    dict["category"] = to_numpy(std::move(table.category), {n});
    dict["lower"] = to_numpy(std::move(table.lower), {n, layout.n_numbers});
    dict["upper"] = to_numpy(std::move(table.upper), {n, layout.n_numbers});
    dict["seen"] = to_numpy(std::move(table.seen), {n, layout.categories.n_words()});
    dict["share"] = to_numpy(std::move(table.share), {n});
    dict["odds"] = to_numpy(std::move(table.odds), {n});
    dict["odds_scale"] = to_numpy(std::move(table.odds_scale), {n});
    return dict;
}

ClassPrior checked_prior(std::size_t n_classes, double dirichlet, std::size_t capacity) {
    require(n_classes > 0 && n_classes <= capacity, "n_classes must lie in [1, capacity]");
    require(dirichlet >= 1e-100 && dirichlet <= 1e100, "dirichlet must lie in [1e-100, 1e100]");
    return {n_classes, dirichlet};
}

using NewClasses = std::optional<std::pair<std::size_t, double>>;

template <class Count>
std::optional<ClassPrior> new_prior(const ClassCounts<Count> &labels, const NewClasses &classes) {
    if (!classes) return {};
    require(classes->first >= labels.n_classes(), "classes must not become fewer");
    return checked_prior(classes->first, classes->second, labels.capacity());
}
std::optional<ClassPrior> new_prior(const RunningMean &, const NewClasses &classes) {
    require(!classes, "classes belong to classifiers");
    return {};
}

// A batch goes to the forest in chunks of rows; between two of them Ctrl-C is heard, and other
// threads get their turn.
template <class Forest, class Work>
void for_each_chunk(const Forest &forest, std::size_t n_rows, const Work &work) {
    const std::size_t chunk = forest.rows_at_once();
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
        std::vector<float> values = RowBuffer(x).floats();
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
        const std::size_t size = forest.forecast_size();
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
        const std::size_t size = forest.forecast_size();
        return to_numpy(by_row(forest, rows, size,
                               [&](const Matrix &chunk, double *out) {
                                   forest.predict(chunk, out, size, n_threads);
                               }),
                        {rows.n_rows, size});
    }

    // Into an array of the caller's: numpy makes one in a third of the time that we need. Returns
    // how many numbers a forecast has.
    static std::size_t predict_row(const Forest &forest, nb::handle x, nb::handle out) {
        const std::vector<float> values = row(forest, x, false);
        const RowBuffer buffer(out, PyBUF_WRITABLE);
        const std::span<double> forecast = buffer.doubles();
        const nb::gil_scoped_release release;
        return forest.predict_row({values.data(), 1, values.size()}, forecast);
    }

    static Output<double> predict_by_tree(const Forest &forest, const Features &X,
                                          std::size_t n_threads) {
        const Matrix rows = matrix(forest, X);
        const std::size_t size = forest.forecast_size();
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
        std::vector<std::int64_t> out;
        {
            const nb::gil_scoped_release release;
            out = forest.depths();
        }
        return to_numpy(std::move(out), {forest.n_trees()});
    }

    static nb::dict tree_table(const Forest &forest, std::size_t i) {
        TreeTable<Labels> table;
        {
            const nb::gil_scoped_release release;
            const auto lock = forest.reading();
            table = to_table(forest.tree(i));
        }
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
            .def_prop_ro("n_samples", &Forest::n_samples)
            .def_prop_ro("total_weight", &Forest::total_weight)
            .def_prop_ro("n_bytes", &Forest::bytes)
            .def_prop_ro("n_nodes", &Forest::n_nodes)
            .def("depths", &depths)
            .def_prop_ro("forecast_size", &Forest::forecast_size)
            .def("learn", &learn, "X"_a.noconvert(), "y"_a.noconvert(), "n_threads"_a,
                 "weights"_a.noconvert() = nb::none(), "classes"_a = nb::none())
            .def("learn_row", &learn_row, "x"_a, "y"_a.noconvert(), "weight"_a = 1.0)
            .def("predict_then_learn", &predict_then_learn, "X"_a.noconvert(), "y"_a.noconvert(),
                 "n_threads"_a, "weights"_a.noconvert() = nb::none())
            .def("predict", &predict, "X"_a.noconvert(), "n_threads"_a)
            .def("predict_row", &predict_row, "x"_a, "out"_a)
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
