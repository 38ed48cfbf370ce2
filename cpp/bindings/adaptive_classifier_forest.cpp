// amforest._core.AdaptiveClassifierForest: trees that count classes, regrown from rows.
#include "adaptive_bindings.hpp"
#include "amforest/labels/class_counts.hpp"

namespace amforest {

namespace {

const Registration kAdaptiveClassifierForest([](nb::module_ &m) {
    AdaptiveBindings<ClassCounts<double>>::bind(m, "AdaptiveClassifierForest");
});

} // namespace

} // namespace amforest
