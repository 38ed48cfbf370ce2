// amforest._core.AdaptiveClassifierForest: trees that count classes, regrown from rows.
#include "adaptive_bindings.hpp"
#include "amforest/adaptive/class_task.hpp"

namespace amforest {

namespace {

const Registration kAdaptiveClassifierForest([](nb::module_ &m) {
    AdaptiveBindings<ClassTask>::bind(m, "AdaptiveClassifierForest");
});

} // namespace

} // namespace amforest
