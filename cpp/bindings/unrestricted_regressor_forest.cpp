// amforest._core.UnrestrictedRegressorForest
#include "amforest/labels/running_mean.hpp"
#include "forest_bindings.hpp"

namespace amforest {

void bind_unrestricted_regressor_forest(nb::module_ &m) {
    ForestBindings<Unrestricted, RunningMean>::bind(m, "UnrestrictedRegressorForest");
}

} // namespace amforest
