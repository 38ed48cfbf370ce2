// The meaning of the fuzzer's bytes: a model file, as the core reads it.
//
// Settings of a fixed size, then the columns of a FlatForest, each as a length and its elements;
// those of an adaptive forest's memory follow. Where the bytes end early, the rest is zero or
// empty: so any bytes are a case.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <stdexcept>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "adaptive_case.hpp"
#include "amforest/io/restore.hpp"
#include "amforest/labels/class_counts.hpp"
#include "amforest/labels/running_mean.hpp"

namespace amforest {

using Bytes = std::span<const std::uint8_t>;

struct Settings {
    std::uint8_t model = 0; // the label model and the partition: see `with_case`
    std::uint8_t n_codes = 0;
    std::uint8_t use_aggregation = 1, split_pure = 0, charge_first = 0, predict_extends = 0;
    std::uint16_t n_classes = 2, capacity = 2;
    std::uint16_t room[3] = {}; // of each categorical feature
    std::uint32_t n_numbers = 0;
    std::uint32_t rows_seed = 0; // of the rows that are learned and predicted
    double step = 1, alpha = 0.5, beta = 0, discount = 0;
    double lifetime = std::numeric_limits<double>::infinity(), dirichlet = 0.5;
    std::uint64_t max_nodes = kUnlimited, max_bytes = kUnlimited, n_samples = 0;

    std::vector<std::uint32_t> rooms() const { return {room, room + n_codes % 4}; }

    Layout layout() const { return {Categories(rooms()), n_numbers}; }

    void set(const Layout &layout) {
        n_numbers = static_cast<std::uint32_t>(layout.n_numbers);
        n_codes = static_cast<std::uint8_t>(layout.n_codes());
        std::ranges::copy(layout.categories.room(), room);
    }

    Options options() const {
        return {step,
                use_aggregation % 2 == 1,
                split_pure % 2 == 1,
                charge_first % 2 == 1,
                predict_extends % 2 == 1,
                {alpha, beta},
                discount,
                lifetime,
                max_nodes,
                max_bytes};
    }

    // Calls use(the setting that a label model's parameter of this name has).
    template <class Self, class Use>
    static void with_parameter(Self &self, std::string_view name, const Use &use) {
        if (name == "n_classes") return use(self.n_classes);
        if (name == "capacity") return use(self.capacity);
        if (name == "dirichlet") return use(self.dirichlet);
        throw std::logic_error("the settings lack a parameter of the label model");
    }

    // Not validated.
    template <class Parameters> Parameters parameters() const {
        Parameters parameters;
        parameters.for_each([&](const char *name, auto &value) {
            with_parameter(*this, name, [&](auto setting) {
                value = static_cast<std::remove_reference_t<decltype(value)>>(setting);
            });
        });
        return parameters;
    }

    template <class Parameters> Parameters valid_parameters() const {
        auto valid = parameters<Parameters>();
        valid.validate();
        return valid;
    }

    template <class Parameters> void set_parameters(const Parameters &parameters) {
        parameters.for_each([&](const char *name, const auto &value) {
            with_parameter(*this, name, [&](auto &setting) {
                setting = static_cast<std::remove_reference_t<decltype(setting)>>(value);
            });
        });
    }
};
static_assert(sizeof(Settings) == 96); // no padding: the bytes are the settings

// The domain of each partition, as the binding checks it; `bounds` has lower, then upper ends.

inline Everywhere checked_domain(const std::vector<float> &bounds, const Settings &settings,
                                 const Everywhere &) {
    require(bounds.empty() && settings.beta == 0, "bounds");
    return {};
}

inline Bounds checked_domain(const std::vector<float> &bounds, const Settings &settings,
                             const Bounds &) {
    const std::size_t n = settings.n_numbers;
    require(settings.rooms().empty() && bounds.size() == 2 * n, "bounds");
    require(std::isinf(settings.lifetime) && settings.discount == 0, "lifetime and discount");
    require(settings.beta == 0 || !settings.options().predict_extends, "beta");
    const std::span<const float> lower = std::span(bounds).first(n),
                                 upper = std::span(bounds).last(n);
    for (std::size_t j = 0; j < n; ++j)
        require(std::abs(lower[j]) <= kLargestFeature && std::abs(upper[j]) <= kLargestFeature &&
                    lower[j] < upper[j],
                "bounds");
    return {{lower.begin(), lower.end()}, {upper.begin(), upper.end()}};
}

// Bytes

class ByteReader {
  public:
    explicit ByteReader(Bytes bytes) : rest_(bytes) {}

    template <class T> void read(std::span<T> to) {
        const Bytes next = rest_.first(std::min(rest_.size(), to.size_bytes()));
        if (!next.empty()) std::memcpy(to.data(), next.data(), next.size());
        rest_ = rest_.subspan(next.size());
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

template <class Case> Case decode_as(Bytes bytes) {
    Case decoded;
    ByteReader reader(bytes);
    reader.read(std::span(&decoded.settings, 1));
    decoded.for_each_column([&](auto &column, std::size_t) { reader.read(column); });
    return decoded;
}

template <class Case> std::vector<std::uint8_t> encode_from(Case &given) {
    std::vector<std::uint8_t> bytes;
    const auto append = [&](const void *data, std::size_t size) {
        const auto *begin = static_cast<const std::uint8_t *>(data);
        bytes.insert(bytes.end(), begin, begin + size);
    };
    append(&given.settings, sizeof given.settings);
    given.for_each_column([&](const auto &column, std::size_t) {
        const auto size = static_cast<std::uint32_t>(column.size());
        append(&size, sizeof size);
        append(column.data(), std::span(column).size_bytes());
    });
    return bytes;
}

// Throws std::invalid_argument where the binding or the reader of model files does for any forest,
// before the trees are read.
template <class Case> void check_case(Case &given) {
    const Settings &s = given.settings;
    require(s.step > 0 && s.step <= 1e100, "step");
    require(s.alpha >= 1e-100 && s.alpha <= 1 - 0x1.0p-50, "split_prior");
    require(s.beta >= 0 && s.beta <= 10, "split_prior");
    require(s.discount >= 0 && std::isfinite(s.discount) && s.lifetime > 0, "lifetime");
    require(s.discount == 0 || HasTables<typename Case::Labels>, "discount");
    require(s.n_samples > 0, "n_samples");
    given.valid_parameters();
    require(s.n_classes <= 4'096, "n_classes"); // with 65,535, one input can take seconds
    require(s.capacity <= 2 * s.n_classes, "capacity");
    require(s.n_numbers + s.rooms().size() > 0, "features");
    for (const std::uint32_t room : s.rooms()) require(room > 0, "categories");
    checked_domain(given.bounds, s, typename Case::Domain{});
    std::size_t n_bytes = 0;
    given.for_each_column([&](const auto &column, std::size_t width) {
        require(width == 0 ? column.empty() : column.size() % width == 0, "shape");
        n_bytes += std::span(column).size_bytes();
    });
    require(given.fixed_bytes() <= 64 * n_bytes + (1 << 24), "too many trees for so many classes");
}

// A forest in a model file.
template <class PartitionOf, LabelModel LabelsOf> struct Case {
    using Partition = PartitionOf;
    using Labels = LabelsOf;
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;
    using Domain = typename Partition::Domain;
    using Forest = amforest::Forest<Partition, Labels>;
    using Tree = typename Forest::Tree;
    using Common = typename Forest::Common;

    static constexpr bool kHasClasses = std::is_integral_v<Label>; // labels are indices
    static constexpr bool kIsBounded = !std::is_empty_v<Domain>;
    static constexpr bool kIsAdaptive = false;

    Settings settings;
    std::vector<float> bounds;
    FlatForest<Labels, Owned> flat;

    static Case decode(Bytes bytes) { return decode_as<Case>(bytes); }
    std::vector<std::uint8_t> encode() { return encode_from(*this); }

    // Calls use(column, width of its rows, or 1).
    template <class Use> void for_each_column(const Use &use) {
        use(bounds, std::size_t{1});
        flat.for_each(settings.layout(), parameters(),
                      [&](const char *, auto &column, std::size_t width, std::size_t) {
                          use(column, width == kVector ? 1 : width);
                      });
    }

    Parameters parameters() const { return settings.parameters<Parameters>(); } // not validated
    Parameters valid_parameters() const { return settings.valid_parameters<Parameters>(); }

    void check() { check_case(*this); }

    // The labels of a few nodes of each tree.
    std::size_t fixed_bytes() const {
        const Labels labels(std::make_shared<Parameters>(valid_parameters()));
        return flat.n_nodes.size() * (labels.empty_bytes() + labels.split_bytes());
    }

    // As the binding does; throws std::invalid_argument if the case is refused.
    std::unique_ptr<Forest> restore() {
        Common common{settings.layout(), checked_domain(bounds, settings, Domain{}),
                      settings.options(), std::make_shared<Parameters>(valid_parameters())};
        const FlatForest<Labels, Borrowed> columns = borrow();
        auto trees = Restorer<Partition, Labels>(columns, common).restore(settings.n_samples);
        return std::make_unique<Forest>(std::move(common), std::move(trees), settings.n_samples);
    }

    // The case of a forest as it is now; the rest is as in this one.
    Case save(const Forest &forest) const {
        Case saved{settings, bounds, {}};
        saved.settings.set(forest.layout());
        forest.inspect([&](const Parameters &now, std::span<const Tree> trees, std::size_t n_rows) {
            saved.flat = flatten<Partition, Labels>(trees);
            saved.settings.n_samples = n_rows;
            saved.settings.set_parameters(now);
        });
        return saved;
    }

  private:
    FlatForest<Labels, Borrowed> borrow() {
        std::vector<std::pair<const void *, std::size_t>> columns;
        const auto visit = [this](auto &forest, const auto &use) {
            forest.for_each(
                settings.layout(), parameters(),
                [&](const char *, auto &column, std::size_t, std::size_t) { use(column); });
        };
        visit(flat, [&](auto &column) { columns.emplace_back(column.data(), column.size()); });
        FlatForest<Labels, Borrowed> borrowed;
        auto next = columns.begin();
        visit(borrowed, [&]<class T>(std::span<T> &column) {
            column = {static_cast<T *>(next->first), next->second};
            ++next;
        });
        return borrowed;
    }
};

// What an adaptive forest has beside the settings of any.
struct AdaptiveSettings : Settings {
    static constexpr std::uint8_t kHonest = 1, kPlain = 2, kBase = 4;

    std::uint8_t kind[4] = {}; // of each group: some of these bits
    std::uint8_t n_groups = 1;
    std::uint8_t n_estimators = 1;
    std::uint16_t n_candidates = 30;
    std::uint64_t memory[4] = {kUnlimited, kUnlimited, kUnlimited, kUnlimited};
    std::uint64_t row_limit = 65'536;
    double mixer_rate = 0.01;

    template <class Task> AdaptiveOptions adaptive() const {
        AdaptiveOptions options{{}, n_estimators, n_candidates, row_limit, mixer_rate};
        for (std::size_t g = 0; g < n_groups % 5; ++g)
            options.groups.push_back({memory[g], (kind[g] & kHonest) != 0, (kind[g] & kPlain) != 0,
                                      Task::kHasBases && (kind[g] & kBase) != 0});
        return options;
    }
};
static_assert(sizeof(AdaptiveSettings) == sizeof(Settings) + 56); // no padding

// An adaptive forest in a model file.
template <class Task> struct AdaptiveCase {
    using Partition = Restricted;
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;
    using Domain = Everywhere;
    using Forest = AdaptiveForest<Task>;
    using Tree = typename Forest::Tree;
    using Common = typename Forest::Common;
    using Saved = SavedAdaptive<Task>;

    static constexpr bool kHasClasses = std::is_integral_v<Label>;
    static constexpr bool kIsBounded = false, kIsAdaptive = true;

    AdaptiveSettings settings;
    std::vector<float> bounds; // always empty
    FlatForest<Labels, Owned> flat;
    AdaptiveColumns<Task, Owned> memory;

    static AdaptiveCase decode(Bytes bytes) { return decode_as<AdaptiveCase>(bytes); }
    std::vector<std::uint8_t> encode() { return encode_from(*this); }

    Parameters parameters() const { return settings.parameters<Parameters>(); } // not validated
    Parameters valid_parameters() const { return settings.valid_parameters<Parameters>(); }

    // Calls use(column, width of its rows, or 1). Trees see all features as numbers.
    template <class Use> void for_each_column(const Use &use) {
        const auto each = [&](const char *, auto &column, std::size_t width, std::size_t) {
            use(column, width == kVector ? 1 : width);
        };
        const Layout layout = settings.layout();
        flat.for_each({Categories(), layout.n_features()}, parameters(), each);
        memory.for_each(layout, n_trees(), each);
    }

    std::size_t n_trees() const { return (settings.n_groups % 5) * settings.n_estimators; }

    void check() {
        const AdaptiveSettings &s = settings;
        check_case(*this);
        require(memory.columns.size() == s.layout().n_features(), "columns");
        require(std::isinf(s.lifetime) && s.discount == 0 && s.beta == 0 &&
                    !s.options().predict_extends,
                "lifetime, discount, beta, predict_extends");
        require(n_trees() > 0 && memory.due.size() == n_trees(), "trees");
        for (const Group &group : s.adaptive<Task>().groups)
            require(group.memory >= kLeastMemory, "memories");
        require(s.n_candidates > 0 && s.n_candidates <= 500, "n_candidates"); // 10,000 take long
        require(s.row_limit >= 16 && s.row_limit <= kMostRows, "row_limit");
        require(s.mixer_rate >= 0 && s.mixer_rate <= 1, "mixer_rate");
    }

    // The labels of a few nodes of each tree, and of the one that may replace it; and the linear
    // regressions.
    std::size_t fixed_bytes() const {
        const Labels labels(std::make_shared<Parameters>(valid_parameters()));
        const auto groups = settings.adaptive<Task>().groups;
        const auto n_bases =
            static_cast<std::size_t>(std::ranges::count(groups, true, &Group::has_base)) *
            settings.n_estimators;
        return 2 * n_trees() * (labels.empty_bytes() + labels.split_bytes()) +
               Task::Experts::bytes_for(settings.n_numbers) +
               n_bases * LinearFit::bytes_for(settings.layout().n_features());
    }

    // As the binding does; throws std::invalid_argument if the case is refused.
    std::unique_ptr<Forest> restore() { return saved().restore(); }

    // The case of a forest as it is now; the rest is as in this one.
    AdaptiveCase save(const Forest &forest) const {
        AdaptiveCase result{settings, {}, {}, {}};
        Saved now = Saved::of(forest);
        result.settings.set(now.common.layout);
        result.settings.set_parameters(*now.common.parameters);
        result.settings.n_samples = now.n_rows;
        result.flat = std::move(now.trees);
        result.memory = std::move(now.memory);
        return result;
    }

    // A forest that has learned nothing.
    std::unique_ptr<Forest> start(const std::vector<Rng::State> &seeds) const {
        const Layout layout = settings.layout();
        return std::make_unique<Forest>(common(first_columns(layout)), seeds);
    }

  private:
    Common common(Columns columns) const {
        return {settings.layout(), std::move(columns), settings.options(),
                settings.adaptive<Task>(), std::make_shared<Parameters>(valid_parameters())};
    }
    Saved saved() const {
        // `SavedAdaptive` reads the columns of trees itself; until then they are in their order.
        return {common(first_columns(settings.layout())), settings.n_samples, flat, memory};
    }
};

constexpr std::uint8_t kModels = 8;

// Calls use.template operator()<Case>() for the label model and the partition of the bytes.
template <class Use> auto with_case(Bytes bytes, const Use &use) {
    switch (bytes.empty() ? 0 : bytes[0] % kModels) {
    case 0:
        return use.template operator()<Case<Restricted, ClassCounts<std::uint32_t>>>();
    case 1:
        return use.template operator()<Case<Restricted, ClassCounts<double>>>();
    case 2:
        return use.template operator()<Case<Restricted, RunningMean>>();
    case 3:
        return use.template operator()<Case<Unrestricted, ClassCounts<std::uint32_t>>>();
    case 4:
        return use.template operator()<Case<Unrestricted, ClassCounts<double>>>();
    case 5:
        return use.template operator()<Case<Unrestricted, RunningMean>>();
    case 6:
        return use.template operator()<AdaptiveCase<ClassTask>>();
    default:
        return use.template operator()<AdaptiveCase<NumberTask>>();
    }
}

} // namespace amforest
