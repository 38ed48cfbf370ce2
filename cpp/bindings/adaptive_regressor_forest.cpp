// amforest._core.AdaptiveRegressorForest: trees of normal distributions, regrown from rows.
#include "adaptive_bindings.hpp"
#include "amforest/adaptive/number_task.hpp"

namespace amforest {

namespace {

const Registration kAdaptiveRegressorForest([](nb::module_ &m) {
    AdaptiveBindings<NumberTask>::bind(m, "AdaptiveRegressorForest");
});

} // namespace

} // namespace amforest
