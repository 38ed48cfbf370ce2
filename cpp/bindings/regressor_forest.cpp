// amforest._core.RegressorForest: the mean of the labels.
#include "amforest/labels/running_mean.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

const Registration kRegressorForest([](nb::module_ &m) {
    ForestBindings<Restricted, RunningMean>::bind(m, "RegressorForest");
});

} // namespace

} // namespace amforest
