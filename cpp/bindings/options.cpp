// amforest._core.Options
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>

#include <cmath>

#include "bindings.hpp"

using namespace nb::literals;

namespace amforest {

namespace {

using Limit = std::optional<std::size_t>;

Limit limit(std::size_t most) { return most == kUnlimited ? Limit() : Limit(most); }

} // namespace

nb::dict to_dict(const Options &options) {
    nb::dict dict;
    dict["step"] = options.step;
    dict["use_aggregation"] = options.use_aggregation;
    dict["split_pure"] = options.split_pure;
    dict["charge_first"] = options.charge_first;
    dict["predict_extends"] = options.predict_extends;
    dict["discount"] = options.discount;
    dict["lifetime"] = options.lifetime;
    dict["split_prior"] = std::pair(options.split_prior.alpha, options.split_prior.beta);
    dict["max_nodes"] = limit(options.max_nodes);
    dict["max_bytes"] = limit(options.max_bytes);
    return dict;
}

namespace {

const Registration kOptions([](nb::module_ &m) {
    nb::class_<Options>(m, "Options")
        .def(
            "__init__",
            [](Options *self, double step, bool use_aggregation, bool split_pure, bool charge_first,
               bool predict_extends, const std::pair<double, double> &split_prior, double discount,
               double lifetime, const Limit &max_nodes, const Limit &max_bytes) {
                const auto [alpha, beta] = split_prior;
                require(step > 0 && step <= 1e100, "step must lie in (0, 1e100]");
                require(alpha >= 1e-100 && alpha <= 1 - 0x1.0p-50 && beta >= 0 && beta <= 10,
                        "split_prior must be (alpha, beta), 1e-100 <= alpha < 1, 0 <= beta <= 10");
                require(discount >= 0 && std::isfinite(discount) && lifetime > 0,
                        "discount must not be negative, and lifetime must be positive");
                new (self) Options{step,
                                   use_aggregation,
                                   split_pure,
                                   charge_first,
                                   predict_extends,
                                   {alpha, beta},
                                   discount,
                                   lifetime,
                                   max_nodes.value_or(kUnlimited),
                                   max_bytes.value_or(kUnlimited)};
            },
            nb::kw_only(), "step"_a, "use_aggregation"_a, "split_pure"_a, "charge_first"_a,
            "predict_extends"_a, "split_prior"_a = std::pair(0.5, 0.0), "discount"_a = 0.0,
            "lifetime"_a = std::numeric_limits<double>::infinity(), "max_nodes"_a = nb::none(),
            "max_bytes"_a = nb::none());
});

} // namespace

} // namespace amforest
