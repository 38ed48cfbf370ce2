// amforest._core.ClassifierForest: counts of classes in whole numbers.
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

const Registration kClassifierForest([](nb::module_ &m) {
    auto forest =
        ForestBindings<Restricted, ClassCounts<std::uint32_t>>::bind(m, "ClassifierForest");
    bind_with_real_counts(forest);
});

} // namespace

} // namespace amforest
