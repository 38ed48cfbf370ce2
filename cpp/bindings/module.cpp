// The Python module amforest._core: arrays in, arrays out, no algorithm.
#define AMFOREST_IMPORTS_NUMPY
#include "bindings.hpp"

namespace amforest {

NB_MODULE(_core, m) {
    m.doc() = "The compiled core of amforest: use the estimators instead.";
    nb::set_leak_warnings(false);
    if (PyArray_ImportNumPyAPI() < 0) throw nb::python_error();

    m.attr("MOST_TREES") = kMostTrees;
    m.attr("MOST_CLASSES") = kMostClasses;
    m.attr("MOST_CATEGORIES") = kMostCategories;
    m.attr("MOST_THREADS") = kMostThreads;
    m.attr("MOST_ROWS") = kMostRows;
    m.attr("MOST_COUNTED") = kMostCounted;
    m.attr("LARGEST_FEATURE") = kLargestFeature;
    m.attr("LARGEST_LABEL") = kLargestLabel;
    m.attr("LEAST_WEIGHT") = kLeastWeight;
    m.attr("LEAST_MEMORY") = kLeastMemory;

    for (const Registration::Bind bind : Registration::all()) bind(m);
}

} // namespace amforest
