// What is bound: one file per class.
#pragma once

#include "amforest/options.hpp"
#include "arrays.hpp"

namespace amforest {

void bind_rng(nb::module_ &m);
void bind_options(nb::module_ &m);
nb::dict to_dict(const Options &options);

// One per label model: each binds a forest on the restricted partition, and one on the
// unrestricted.
void bind_classifier_forests(nb::module_ &m);
void bind_weighted_classifier_forests(nb::module_ &m);
void bind_regressor_forests(nb::module_ &m);

} // namespace amforest
