// amforest._core.Mixer: the mixer of an adaptive forest by itself, for tests.
#include "amforest/adaptive/logistic_mixer.hpp"

#include "bindings.hpp"

using namespace nb::literals;

namespace amforest {

namespace {

using ByGroup = Input<double, 2>; // groups x classes

// l_gk of the groups, and the prediction.
struct Mixed {
    std::vector<double> logs, prediction;
};

Mixed mix(const LogisticMixer &mixer, const ByGroup &by_group) {
    require(by_group.shape(0) == mixer.weights().size() && by_group.shape(1) > 0,
            "by_group must have a row for each group, and classes");
    Mixed mixed{{by_group.data(), by_group.data() + by_group.size()},
                std::vector<double>(by_group.shape(1))};
    mixer.mix(mixed.logs, mixed.prediction);
    return mixed;
}

void learn(LogisticMixer &mixer, const ByGroup &by_group, std::size_t y, double weight) {
    const Mixed mixed = mix(mixer, by_group);
    require(y < mixed.prediction.size(), "y must be the index of a class");
    mixer.learn(mixed.logs, mixed.prediction, y, weight);
}

const Registration kMixer([](nb::module_ &m) {
    nb::class_<LogisticMixer>(m, "Mixer")
        .def(nb::init<std::size_t, double>(), "n_groups"_a, "rate"_a)
        .def_prop_ro("weights",
                     [](const LogisticMixer &mixer) { return array_of(mixer.weights()); })
        .def(
            "mix",
            [](const LogisticMixer &mixer, const ByGroup &by_group) {
                return array_of(mix(mixer, by_group).prediction);
            },
            "by_group"_a.noconvert())
        .def("learn", &learn, "by_group"_a.noconvert(), "y"_a, "weight"_a = 1.0);
});

} // namespace

} // namespace amforest
