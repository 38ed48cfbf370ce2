// amforest._core.UnrestrictedClassifierForest
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

const Registration kUnrestrictedClassifierForest([](nb::module_ &m) {
    using Counts = ClassCounts<std::uint32_t>;
    auto forest = ForestBindings<Unrestricted, Counts>::bind(m, "UnrestrictedClassifierForest");
    bind_with_real_counts(forest);
});

} // namespace

} // namespace amforest
