// amforest._core.AdaptiveRegressorForest: trees of normal distributions, regrown from rows.
#include <nanobind/stl/array.h>

#include "adaptive_bindings.hpp"
#include "amforest/adaptive/number_task.hpp"

namespace amforest {

namespace {

const Registration kAdaptiveRegressorForest([](nb::module_ &m) {
    AdaptiveBindings<NumberTask>::bind(m, "AdaptiveRegressorForest");
    m.attr("WIDTHS") = PredictiveScale::kWidths;
    m.attr("DEGREES") = PredictiveScale::kDegrees;
    m.attr("LEVELS") = PredictiveScale::kLevels;
    m.attr("FORGETTING") = LinearExperts::kForgetting;
    m.attr("MOST_LINEAR") = kMostLinear;
});

} // namespace

} // namespace amforest
