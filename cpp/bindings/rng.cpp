// amforest._core.Rng
#include <nanobind/stl/array.h>

#include "amforest/base/rng.hpp"
#include "bindings.hpp"

using namespace nb::literals;

namespace amforest {

namespace {

const Registration kRng([](nb::module_ &m) {
    nb::class_<Rng>(m, "Rng")
        .def(nb::init<const Rng::State &>(), "state"_a)
        .def("uniform", &Rng::uniform)
        .def("below", &Rng::below, "count"_a)
        .def("fork", &Rng::fork)
        .def("exponential", &Rng::exponential, "rate"_a)
        .def(
            "discrete",
            [](Rng &rng, const Input<float, 1> &weights) {
                return rng.discrete({weights.data(), weights.shape(0)});
            },
            "weights"_a.noconvert());
});

} // namespace

} // namespace amforest
