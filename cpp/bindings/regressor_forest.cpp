// amforest._core.RegressorForest: the mean of the labels.
#include "amforest/labels/running_mean.hpp"
#include "forest_bindings.hpp"

namespace amforest {

void bind_regressor_forests(nb::module_ &m) {
    ForestBindings<Restricted, RunningMean>::bind(m, "RegressorForest");
    ForestBindings<Unrestricted, RunningMean>::bind(m, "UnrestrictedRegressorForest");
}

} // namespace amforest
