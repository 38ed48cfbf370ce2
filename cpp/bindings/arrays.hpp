// Values between Python and the core: arrays as they lie in memory.
#pragma once

#define PY_ARRAY_UNIQUE_SYMBOL amforest_numpy
#if !defined(AMFOREST_IMPORTS_NUMPY)
#define NO_IMPORT_ARRAY
#endif
#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <numpy/arrayobject.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "amforest/base/require.hpp"
#include "amforest/labels/file_columns.hpp"

namespace nb = nanobind;

namespace amforest {

template <class T, std::size_t N>
using Input = nb::ndarray<const T, nb::ndim<N>, nb::c_contig, nb::device::cpu>;
template <class T> using Output = nb::ndarray<nb::numpy, T>;
using Shape = std::vector<std::size_t>;

// Single rows go through numpy's own interface: nanobind's way of reading and building an array, or
// the buffer protocol, would be a good part of the cost.

// The values of a one-dimensional contiguous array of floats; nothing if it is none. What is too
// large for float32 becomes infinite and is refused later.
inline std::optional<std::vector<float>> floats_of(nb::handle array) {
    auto *row = reinterpret_cast<PyArrayObject *>(array.ptr());
    if (PyArray_Check(array.ptr()) && PyArray_NDIM(row) == 1 && PyArray_ISCARRAY_RO(row)) {
        const auto copy = [row]<class T>(const T *from) {
            return std::vector<float>(from, from + PyArray_DIM(row, 0));
        };
        const void *data = PyArray_DATA(row);
        if (PyArray_TYPE(row) == NPY_FLOAT) return copy(static_cast<const float *>(data));
        if (PyArray_TYPE(row) == NPY_DOUBLE) return copy(static_cast<const double *>(data));
    }
    return std::nullopt;
}

// A new one-dimensional array with the values.
inline nb::object array_of(std::span<const double> values) {
    auto length = static_cast<npy_intp>(values.size());
    nb::object array = nb::steal(PyArray_SimpleNew(1, &length, NPY_DOUBLE));
    if (!array.is_valid()) throw nb::python_error();
    auto *data = PyArray_DATA(reinterpret_cast<PyArrayObject *>(array.ptr()));
    std::ranges::copy(values, static_cast<double *>(data));
    return array;
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

// The shape of a column whose rows have a width, or kVector. Rows of width 0 are `n_empty`.
inline Shape shape_of(std::size_t size, std::size_t width, std::size_t n_empty) {
    if (width == kVector) return {size};
    return width == 0 ? Shape{n_empty, 0} : Shape{size / width, width};
}

// A column of the dict as it lies in memory: of exactly this type and shape.
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

} // namespace amforest
