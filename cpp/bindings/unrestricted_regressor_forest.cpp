// amforest._core.UnrestrictedRegressorForest
#include "amforest/labels/running_mean.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

const Registration kUnrestrictedRegressorForest([](nb::module_ &m) {
    ForestBindings<Unrestricted, RunningMean>::bind(m, "UnrestrictedRegressorForest");
});

} // namespace

} // namespace amforest
