// amforest._core.WeightedClassifierForest: counts of classes in real numbers.
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

const Registration kWeightedClassifierForest([](nb::module_ &m) {
    ForestBindings<Restricted, ClassCounts<double>>::bind(m, "WeightedClassifierForest");
});

} // namespace

} // namespace amforest
