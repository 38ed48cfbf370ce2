// amforest._core.WeightedClassifierForest: counts of classes in real numbers.
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

void bind_weighted_classifier_forests(nb::module_ &m) {
    using Counts = ClassCounts<double>;
    ForestBindings<Restricted, Counts>::bind(m, "WeightedClassifierForest");
    ForestBindings<Unrestricted, Counts>::bind(m, "UnrestrictedWeightedClassifierForest");
}

} // namespace amforest
