// amforest._core.UnrestrictedWeightedClassifierForest
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

const Registration kUnrestrictedWeightedClassifierForest([](nb::module_ &m) {
    using Counts = ClassCounts<double>;
    ForestBindings<Unrestricted, Counts>::bind(m, "UnrestrictedWeightedClassifierForest");
});

} // namespace

} // namespace amforest
