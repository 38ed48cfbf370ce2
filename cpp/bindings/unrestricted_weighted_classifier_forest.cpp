// amforest._core.UnrestrictedWeightedClassifierForest
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

void bind_unrestricted_weighted_classifier_forest(nb::module_ &m) {
    using Counts = ClassCounts<double>;
    ForestBindings<Unrestricted, Counts>::bind(m, "UnrestrictedWeightedClassifierForest");
}

} // namespace amforest
