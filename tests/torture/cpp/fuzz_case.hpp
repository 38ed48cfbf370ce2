// What the fuzzer's bytes mean: a model file, as the core sees it.
//
// Settings of a fixed size, then the columns of a FlatForest, each as a length and its elements.
// Where the bytes end early, what is missing is zero or empty: so any bytes mean something.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <vector>

#include "amforest/restoring.hpp"

namespace amforest {

using Bytes = std::span<const std::uint8_t>;

struct Settings {
    std::uint8_t model = 0; // which label model: see `with_model`
    std::uint8_t n_codes = 0;
    std::uint8_t use_aggregation = 1, split_pure = 0, charge_first = 0, predict_extends = 0;
    std::uint16_t n_classes = 2, capacity = 2;
    std::uint16_t room[3] = {}; // of each categorical feature
    std::uint32_t n_numbers = 0;
    std::uint32_t rows_seed = 0; // of the rows that are learnt and forecast
    double step = 1, alpha = 0.5, beta = 0, discount = 0;
    double lifetime = std::numeric_limits<double>::infinity(), dirichlet = 0.5;
    std::uint64_t max_nodes = kUnlimited, max_bytes = kUnlimited, n_samples = 0;
};
static_assert(std::has_unique_object_representations_v<std::uint64_t> && sizeof(Settings) == 96);

// How the label models differ where a forest is made.
template <class Labels> Labels new_labels(const Settings &, const std::shared_ptr<ClassPrior> &);
template <> inline RunningMean new_labels(const Settings &, const std::shared_ptr<ClassPrior> &) {
    return {};
}
template <>
inline ClassCounts<std::uint32_t> new_labels(const Settings &settings,
                                             const std::shared_ptr<ClassPrior> &prior) {
    return {prior, settings.capacity};
}
template <>
inline ClassCounts<double> new_labels(const Settings &settings,
                                      const std::shared_ptr<ClassPrior> &prior) {
    return {prior, settings.capacity};
}

template <class Labels> struct Case {
    static constexpr bool kHasClasses = !std::is_same_v<Labels, RunningMean>;

    Settings settings;
    std::vector<float> bounds; // lower, then upper ends; empty: the restricted partition
    FlatForest<Labels, Owned> flat;

    std::size_t n_classes() const { return kHasClasses ? settings.n_classes : 0; }

    // Calls use(column, width of its rows, or 1).
    template <class Use> void for_each_column(const Use &use) {
        use(bounds, std::size_t{1});
        flat.for_each_column(layout(), n_classes(),
                             [&](const char *, auto &column, std::size_t width, std::size_t) {
                                 use(column, width == kVector ? 1 : width);
                             });
    }

    std::vector<std::uint32_t> room() const {
        return {settings.room, settings.room + settings.n_codes % 4};
    }

    Layout layout() const {
        Layout layout{Categories(room()), settings.n_numbers};
        const auto half = static_cast<std::ptrdiff_t>(bounds.size() / 2);
        layout.lower.assign(bounds.begin(), bounds.begin() + half);
        layout.upper.assign(bounds.begin() + half, bounds.begin() + 2 * half);
        return layout;
    }

    Options options() const {
        return {settings.step,
                settings.use_aggregation % 2 == 1,
                settings.split_pure % 2 == 1,
                settings.charge_first % 2 == 1,
                settings.predict_extends % 2 == 1,
                {settings.alpha, settings.beta},
                settings.discount,
                settings.lifetime,
                settings.max_nodes,
                settings.max_bytes};
    }

    // Throws std::invalid_argument where the binding or persistence.py does, before the trees are
    // looked at.
    void check() {
        const Settings &s = settings;
        require(s.step > 0 && s.step <= 1e100, "step");
        require(s.alpha >= 1e-100 && s.alpha <= 1 - 0x1.0p-50, "split_prior");
        require(s.beta >= 0 && s.beta <= 10, "split_prior");
        require(s.discount >= 0 && std::isfinite(s.discount) && s.lifetime > 0, "lifetime");
        require(s.n_samples > 0, "n_samples");
        if (kHasClasses) {
            require(s.n_classes > 0 && s.n_classes <= s.capacity, "n_classes");
            // Not 65,535: with so many, one input can take seconds.
            require(s.n_classes <= 4'096, "n_classes");
            require(s.capacity <= std::max(2 * s.n_classes, s.n_classes + 1), "capacity");
            require(s.dirichlet >= 1e-100 && s.dirichlet <= 1e100, "dirichlet");
        }
        require(s.n_numbers + room().size() > 0, "features");
        for (const std::uint32_t count : room()) require(count > 0, "categories");
        check_bounds();
        const bool has_box = !bounds.empty();
        require(s.beta == 0 || (has_box && !options().predict_extends), "beta");
        require(!has_box || (std::isinf(s.lifetime) && s.discount == 0), "lifetime and discount");
        require(kHasClasses || s.discount == 0, "discount");
        std::size_t n_bytes = 0;
        for_each_column([&](const auto &column, std::size_t width) {
            require(width == 0 ? column.empty() : column.size() % width == 0, "shape");
            n_bytes += std::span(column).size_bytes();
        });
        require(class_bytes() <= 64 * n_bytes + (1 << 24), "too many trees for so many classes");
    }

    // What one count of every class takes, in all trees.
    std::size_t class_bytes() const {
        return kHasClasses ? std::size_t{8} * settings.capacity * flat.n_nodes.size() : 0;
    }

    void check_bounds() const {
        const std::size_t n = settings.n_numbers;
        require(bounds.empty() || (bounds.size() == 2 * n && room().empty()), "bounds");
        for (std::size_t j = 0; j < bounds.size() / 2; ++j)
            require(std::abs(bounds[j]) <= kLargestFeature &&
                        std::abs(bounds[n + j]) <= kLargestFeature && bounds[j] < bounds[n + j],
                    "bounds");
    }
};

// Bytes

class Reader {
  public:
    explicit Reader(Bytes bytes) : rest_(bytes) {}

    template <class T> void read(std::span<T> to) {
        const Bytes taken = rest_.first(std::min(rest_.size(), to.size_bytes()));
        if (!taken.empty()) std::memcpy(to.data(), taken.data(), taken.size());
        rest_ = rest_.subspan(taken.size());
    }

    template <class T> void read(std::vector<T> &column) {
        std::uint32_t size = 0;
        read(std::span(&size, 1));
        column.resize(std::min<std::size_t>(size, rest_.size() / sizeof(T)));
        read(std::span(column));
    }

  private:
    Bytes rest_;
};

template <class Labels> Case<Labels> decoded(Bytes bytes) {
    Case<Labels> read;
    Reader reader(bytes);
    reader.read(std::span(&read.settings, 1));
    read.for_each_column([&](auto &column, std::size_t) { reader.read(column); });
    return read;
}

template <class Labels> std::vector<std::uint8_t> encoded(Case<Labels> from) {
    std::vector<std::uint8_t> bytes;
    const auto append = [&](const void *data, std::size_t size) {
        const auto *begin = static_cast<const std::uint8_t *>(data);
        bytes.insert(bytes.end(), begin, begin + size);
    };
    append(&from.settings, sizeof(Settings));
    from.for_each_column([&](const auto &column, std::size_t) {
        const auto size = static_cast<std::uint32_t>(column.size());
        append(&size, sizeof size);
        append(column.data(), column.size() * sizeof(column[0]));
    });
    return bytes;
}

// Calls use.template operator()<Labels>() for the label model that the bytes ask for.
template <class Use> auto with_model(Bytes bytes, const Use &use) {
    switch (bytes.empty() ? 0 : bytes[0] % 3) {
    case 0:
        return use.template operator()<ClassCounts<std::uint32_t>>();
    case 1:
        return use.template operator()<ClassCounts<double>>();
    default:
        return use.template operator()<RunningMean>();
    }
}

// Forests

template <class Labels> using Columns = FlatForest<Labels, Owned>;

template <class Labels> FlatForest<Labels, Borrowed> borrowed(const Columns<Labels> &from) {
    FlatForest<Labels, Borrowed> to;
    to.seeds = from.seeds, to.n_nodes = from.n_nodes, to.feature = from.feature;
    to.threshold = from.threshold, to.split_time = from.split_time, to.odds = from.odds;
    to.odds_scale = from.odds_scale, to.kind = from.kind, to.lower = from.lower;
    to.upper = from.upper, to.seen = from.seen;
    to.labels.n_samples = from.labels.n_samples;
    if constexpr (Case<Labels>::kHasClasses) {
        to.labels.counts = from.labels.counts;
        to.labels.label = from.labels.label;
        to.labels.mixed = from.labels.mixed;
    } else {
        to.labels.mean = from.labels.mean;
        to.labels.constant = from.labels.constant;
    }
    return to;
}

// As the binding does; throws std::invalid_argument if the case is refused.
template <class Labels> std::unique_ptr<Forest<Labels>> restored_forest(const Case<Labels> &from) {
    const Settings &s = from.settings;
    const auto prior = std::make_shared<ClassPrior>(s.n_classes, s.dirichlet);
    const Layout layout = from.layout();
    const Options options = from.options();
    auto trees = restored<Labels>(
        borrowed<Labels>(from.flat), layout, from.n_classes(), s.n_samples,
        [&](const Rng::State &state, std::size_t n_trees) {
            return Tree<Labels>(layout, options, new_labels<Labels>(s, prior), state, n_trees);
        });
    require(trees.front().max_leaves() > 0, "max_nodes and max_bytes");
    return std::make_unique<Forest<Labels>>(std::move(trees), s.n_samples);
}

// The case of a forest as it is now.
template <class Labels> Case<Labels> saved(const Case<Labels> &from, const Forest<Labels> &forest) {
    Case<Labels> to{from.settings, from.bounds, {}};
    std::size_t n_samples = 0;
    to.flat = flattened(forest, n_samples);
    to.settings.n_samples = n_samples;
    if constexpr (Case<Labels>::kHasClasses)
        to.settings.n_classes = static_cast<std::uint16_t>(forest.forecast_size());
    return to;
}

} // namespace amforest
