// amforest._core.WeightedClassifierForest: counts of classes in real numbers.
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

void bind_weighted_classifier_forest(nb::module_ &m) {
    ForestBindings<Restricted, ClassCounts<double>>::bind(m, "WeightedClassifierForest");
}

} // namespace amforest
