// Values between Python and the core: arrays as they lie in memory, tables, and checked options.
#pragma once

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <numpy/arrayobject.h>

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "amforest/restoring.hpp"

namespace nb = nanobind;

namespace amforest {

template <class T, std::size_t N>
using Input = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T> using Output = nb::ndarray<nb::numpy, T>;

using Shape = std::vector<std::size_t>;
using Seeds = std::optional<Input<std::uint64_t, 2>>; // trees x 4 words
using Flat = std::optional<nb::dict>;                 // the trees of a grown forest, as arrays
using Bounds = std::optional<Input<float, 2>>;

// Single rows go through numpy's own interface: of these, nanobind's way of taking and making an
// array, or the buffer protocol, would be a good part of the cost.
inline void import_numpy() {
    if (PyArray_ImportNumPyAPI() < 0) throw nb::python_error();
}

// The values of a one-dimensional array. What is too large for float32 becomes infinite and is
// refused later.
inline std::vector<float> floats_of(nb::handle array) {
    auto *row = reinterpret_cast<PyArrayObject *>(array.ptr());
    if (PyArray_Check(array.ptr()) && PyArray_NDIM(row) == 1 && PyArray_ISCARRAY_RO(row)) {
        const auto copy = [row]<class T>(const T *from) {
            return std::vector<float>(from, from + PyArray_DIM(row, 0));
        };
        const void *data = PyArray_DATA(row);
        if (PyArray_TYPE(row) == NPY_FLOAT) return copy(static_cast<const float *>(data));
        if (PyArray_TYPE(row) == NPY_DOUBLE) return copy(static_cast<const double *>(data));
    }
    throw nb::type_error("a row must be a contiguous array of float32 or float64");
}

// A new one-dimensional array, not initialised, and what is in it.
inline std::pair<nb::object, std::span<double>> new_doubles(std::size_t size) {
    auto length = static_cast<npy_intp>(size);
    nb::object array = nb::steal(PyArray_SimpleNew(1, &length, NPY_DOUBLE));
    if (!array.is_valid()) throw nb::python_error();
    auto *data = PyArray_DATA(reinterpret_cast<PyArrayObject *>(array.ptr()));
    return {array, {static_cast<double *>(data), size}};
}

// Hands a vector's memory to a numpy array, without a copy.
template <class T> Output<T> to_numpy(std::vector<T> values, const Shape &shape) {
    auto owner = std::make_unique<std::vector<T>>(std::move(values));
    T *data = owner->data();
    const nb::capsule capsule(owner.get(),
                              [](void *p) noexcept { delete static_cast<std::vector<T> *>(p); });
    owner.release();
    return Output<T>(data, shape.size(), shape.data(), capsule);
}

inline Output<bool> to_numpy(const std::vector<bool> &values, const Shape &shape) {
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

inline nb::dict label_columns(LabelColumns<RunningMean> columns, std::size_t n_rows) {
    nb::dict dict;
    dict["n_samples"] = to_numpy(std::move(columns.n_samples), {n_rows});
    dict["mean"] = to_numpy(std::move(columns.mean), {n_rows});
    dict["constant"] = to_numpy(columns.constant, {n_rows});
    return dict;
}

using Limit = std::optional<std::size_t>;

inline Limit limit(std::size_t most) { return most == kUnlimited ? Limit() : Limit(most); }

inline nb::dict to_dict(const Options &options) {
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

inline nb::dict label_parameters(const RunningMean &) { return {}; }

template <class Count> std::size_t n_classes(const ClassCounts<Count> &labels) {
    return labels.n_classes();
}
inline std::size_t n_classes(const RunningMean &) { return 0; }

// `categories` is the number of categories for which there is room, of each feature.
// `bounds`, a row of lower and one of upper ends, makes the partition the unrestricted one.
inline Layout checked_layout(std::size_t n_numbers, const nb::list &counts, const Bounds &bounds) {
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

inline nb::object bounds_of(const Layout &layout) {
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

inline ClassPrior checked_prior(std::size_t n_classes, double dirichlet, std::size_t capacity) {
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
inline std::optional<ClassPrior> new_prior(const RunningMean &, const NewClasses &classes) {
    require(!classes, "classes belong to classifiers");
    return {};
}

} // namespace amforest
