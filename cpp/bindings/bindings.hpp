// What is bound: one file per class.
#pragma once

#include "amforest/options.hpp"
#include "arrays.hpp"

namespace amforest {

void bind_rng(nb::module_ &m);
void bind_options(nb::module_ &m);
nb::dict to_dict(const Options &options);

// Forests: a label model on a partition.
void bind_classifier_forest(nb::module_ &m);
void bind_weighted_classifier_forest(nb::module_ &m);
void bind_regressor_forest(nb::module_ &m);
void bind_unrestricted_classifier_forest(nb::module_ &m);
void bind_unrestricted_weighted_classifier_forest(nb::module_ &m);
void bind_unrestricted_regressor_forest(nb::module_ &m);

} // namespace amforest
