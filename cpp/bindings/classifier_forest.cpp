// amforest._core.ClassifierForest: counts of classes in whole numbers.
#include "amforest/labels/class_counts.hpp"
#include "forest_bindings.hpp"

namespace amforest {

namespace {

using Counts = ClassCounts<std::uint32_t>;

template <class Partition> void bind_classifier_forest(nb::module_ &m, const char *name) {
    using Weighted = Forest<Partition, ClassCounts<double>>;
    ForestBindings<Partition, Counts>::bind(m, name).def(
        "with_real_counts",
        [](const Forest<Partition, Counts> &forest) { return std::make_unique<Weighted>(forest); },
        nb::call_guard<nb::gil_scoped_release>());
}

} // namespace

void bind_classifier_forests(nb::module_ &m) {
    bind_classifier_forest<Restricted>(m, "ClassifierForest");
    bind_classifier_forest<Unrestricted>(m, "UnrestrictedClassifierForest");
}

} // namespace amforest
