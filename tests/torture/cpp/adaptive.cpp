// Adaptive forests of random settings, of classes and of numbers in turn, which learn random
// streams; under ASan and UBSan.
//
// The claims:
// - Once a batch has made room, learning it allocates nothing: so it cannot fail.
// - However the stream is cut into batches, the forest is the same, bit for bit; so is one that was
//   saved, restored or copied in between, in the middle of regrowths, too.
// - The forest never has more nodes and bytes than it may, but for bytes after its rows have become
//   wider, until its trees are regrown.
// - Damaged arrays are refused, or give a forest that can be predicted from, learns and is saved.
//
//     adaptive N SEED     tries out N forests
#include <sys/mman.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <string>

#include "adaptive_case.hpp"

using namespace amforest;

namespace {

bool is_banned = false; // to allocate

[[noreturn]] void fail(const char *claim) {
    is_banned = false;
    std::fprintf(stderr, "VIOLATED: %s\n", claim);
    std::abort();
}

void hold(bool holds, const char *claim) {
    if (!holds) fail(claim);
}

void count_allocation() {
    if (is_banned) fail("nothing is allocated after room was made");
}

} // namespace

void *operator new(std::size_t bytes) {
    count_allocation();
    if (void *const data = std::malloc(bytes)) return data;
    throw std::bad_alloc();
}
void *operator new(std::size_t bytes, std::align_val_t alignment) {
    count_allocation();
    const auto unit = static_cast<std::size_t>(alignment);
    if (void *const data = std::aligned_alloc(unit, (bytes + unit - 1) / unit * unit)) return data;
    throw std::bad_alloc();
}
void operator delete(void *data) noexcept { std::free(data); }
void operator delete(void *data, std::size_t) noexcept { std::free(data); }
void operator delete(void *data, std::align_val_t) noexcept { std::free(data); }
void operator delete(void *data, std::size_t, std::align_val_t) noexcept { std::free(data); }

extern "C" {
// The linker replaces them by these (--wrap).
void *__real_mmap(void *, std::size_t, int, int, int, off_t);
void *__wrap_mmap(void *at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
    count_allocation();
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}
void *__real_mremap(void *, std::size_t, std::size_t, int, ...);
void *__wrap_mremap(void *at, std::size_t before, std::size_t bytes, int flags, ...) {
    count_allocation();
    return __real_mremap(at, before, bytes, flags);
}
}

namespace {

template <class Task> using Common = typename AdaptiveForest<Task>::Common;
template <class Task> using Label = typename Task::Labels::Label;
template <class Task> using Parameters = typename Task::Labels::Parameters;
template <class Task> using Owner = std::unique_ptr<AdaptiveForest<Task>>;

template <class Task> constexpr bool kHasClasses = std::is_integral_v<Label<Task>>;

class Random {
  public:
    explicit Random(std::uint64_t seed) : rng_({seed + 1, 2, 3, 4}) {}

    std::size_t below(std::size_t n) { return n == 0 ? 0 : rng_.below(n); }
    bool is_lucky(std::size_t one_in) { return below(one_in) == 0; }
    double uniform() { return rng_.uniform(); }
    template <class T> T among(std::initializer_list<T> values) {
        return values.begin()[below(values.size())];
    }
    std::uint64_t word() { return rng_.fork()[0]; }

  private:
    Rng rng_;
};

// Settings

Layout draw_layout(Random &random) {
    std::vector<std::uint32_t> rooms;
    for (std::size_t f = random.among({0UL, 0UL, 1UL, 2UL}); f > 0; --f)
        rooms.push_back(static_cast<std::uint32_t>(random.among({1UL, 3UL, 40UL, 3'000UL})));
    return {Categories(rooms), random.below(5) + (rooms.empty() ? 1 : 0)};
}

template <class Task> AdaptiveOptions draw_adaptive(Random &random) {
    AdaptiveOptions options;
    for (std::size_t g = 1 + random.below(4); g > 0; --g) {
        const std::size_t memory =
            random.among({kUnlimited, 8UL, 15UL, 60UL, 8 + random.below(400)});
        options.groups.push_back({memory, random.is_lucky(3), random.is_lucky(5),
                                  Task::kHasBases && random.is_lucky(2)});
    }
    options.n_estimators = 1 + random.below(3);
    options.n_candidates = random.among({1UL, 3UL, 30UL, 30UL, 2'000UL});
    options.row_limit = random.among({16UL, 50UL, 300UL, 65'536UL});
    options.mixer_rate = random.among({0.0, 0.01, 1.0});
    return options;
}

// The number in the core's refusal.
template <class Task> std::size_t least(Common<Task> common, std::size_t Options::*limit) {
    common.options.max_bytes = common.options.max_nodes = kUnlimited;
    common.options.*limit = 1;
    try {
        RegrownTrees<Task>::sizes_of(common);
    } catch (const std::invalid_argument &error) {
        const std::string text = error.what();
        return std::stoull(text.substr(text.rfind(' ')));
    }
    fail("a limit of 1 is refused");
}

template <class Task> Parameters<Task> draw_parameters(Random &random) {
    Parameters<Task> parameters;
    if constexpr (kHasClasses<Task>) {
        parameters.n_classes = 1 + random.below(4);
        parameters.capacity = parameters.n_classes + random.below(3);
        parameters.dirichlet = 0.5;
    }
    parameters.validate();
    return parameters;
}

template <class Task> Common<Task> draw_common(Random &random) {
    const Layout layout = draw_layout(random);
    Common<Task> common{layout, first_columns(layout), Options(), draw_adaptive<Task>(random),
                        std::make_shared<Parameters<Task>>(draw_parameters<Task>(random))};
    common.options.split_pure = random.is_lucky(2);
    common.options.use_aggregation = !random.is_lucky(5);
    const double enough = 1 + random.uniform() * random.among({0.0, 0.5, 3.0});
    for (const auto limit : {&Options::max_bytes, &Options::max_nodes})
        if (random.is_lucky(3))
            common.options.*limit =
                static_cast<std::size_t>(enough * static_cast<double>(least<Task>(common, limit)));
    return common;
}

// A stream

template <class Label> struct Rows {
    std::vector<float> X;
    std::vector<Label> y;
    std::vector<double> weights;
    std::size_t width;

    Matrix matrix(std::size_t first, std::size_t count) const {
        return {X.data() + first * width, count, width};
    }
};

// Labels of one stream: classes, or numbers in some unit.
template <class Task> class LabelSource {
  public:
    LabelSource(const Parameters<Task> &parameters, Random &random)
        : parameters_(parameters), random_(random),
          unit_(random.among({1.0, 1.0, 1e-70, 1e-9, 1e9, kLargestLabel})),
          n_values_(random.among({1UL, 2UL, 7UL, 1UL << 40})) {}

    Label<Task> draw() {
        if constexpr (kHasClasses<Task>)
            return static_cast<Label<Task>>(random_.below(parameters_.n_classes));
        else
            return unit_ * static_cast<double>(random_.below(n_values_)) /
                   static_cast<double>(n_values_) * random_.among({1.0, -1.0});
    }

  private:
    const Parameters<Task> &parameters_;
    Random &random_;
    double unit_;
    std::size_t n_values_;
};

template <class Task>
Rows<Label<Task>> draw_rows(const AdaptiveForest<Task> &forest, std::size_t n_rows,
                            Random &random) {
    const Layout &layout = forest.layout();
    Rows<Label<Task>> rows{{}, {}, {}, layout.n_features()};
    LabelSource<Task> labels(*forest.common().parameters, random);
    const std::size_t one_in = random.among({3UL, 1UL << 40}),
                      grid = random.among({2UL, 1UL << 20});
    const bool has_weights = random.is_lucky(3);
    for (std::size_t i = 0; i < n_rows; ++i) {
        for (std::size_t j = 0; j < layout.n_features(); ++j) {
            const std::size_t n = j < layout.n_codes() ? layout.categories.room()[j] : grid;
            const auto value = static_cast<float>(random.below(n));
            rows.X.push_back(random.is_lucky(one_in) ? std::numeric_limits<float>::quiet_NaN()
                                                     : value);
        }
        rows.y.push_back(labels.draw());
        if (has_weights)
            rows.weights.push_back(
                random.among({0.0, 1.0, 0.5, 7.0, 1e-20, kLeastWeight, 0x1.0p36}));
    }
    return rows;
}

// In batches of some rows each, or one by one; after room was made nothing is allocated.
template <class Task>
void learn(AdaptiveForest<Task> &forest, const Rows<Label<Task>> &rows, std::size_t n_batch,
           const std::optional<Parameters<Task>> &parameters = {}) {
    std::optional<Parameters<Task>> next = parameters;
    for (std::size_t first = 0; first < rows.y.size(); first += n_batch) {
        const std::size_t count = std::min(n_batch, rows.y.size() - first);
        const std::span<const double> weights =
            std::span(rows.weights)
                .subspan(rows.weights.empty() ? 0 : first, rows.weights.empty() ? 0 : count);
        if (n_batch == 1 && !next) {
            const double weight = weights.empty() ? 1.0 : weights[0];
            hold(forest.learn(rows.matrix(first, 1), rows.y[first], weight), "a row is learned");
            continue;
        }
        typename AdaptiveForest<Task>::Batch batch(forest, count, weights, 0, next);
        next.reset();
        for (std::size_t at = 0; at < count; at += forest.chunk_size()) {
            const std::size_t n = std::min(forest.chunk_size(), count - at);
            is_banned = true;
            batch.learn(rows.matrix(first + at, n), std::span(rows.y).subspan(first + at, n),
                        weights.empty() ? weights : weights.subspan(at, n), 1);
            is_banned = false;
        }
    }
}

// Saving

template <class Task> Owner<Task> restored(SavedAdaptive<Task> saved) {
    try {
        return saved.restore();
    } catch (const std::invalid_argument &error) {
        fail(error.what());
    }
}

// Growing

Layout draw_larger(const Layout &layout, Random &random) {
    std::vector<std::uint32_t> rooms = layout.categories.room();
    for (std::uint32_t &room : rooms)
        if (random.is_lucky(2)) room += 7;
    if (random.is_lucky(2) && rooms.size() < 3) rooms.push_back(5);
    return {Categories(rooms), layout.n_numbers + random.below(3)};
}

template <class Task>
Owner<Task> larger(const AdaptiveForest<Task> &forest, const Layout &layout,
                   std::size_t n_more_classes) {
    Parameters<Task> parameters = *forest.common().parameters;
    if constexpr (kHasClasses<Task>) parameters.capacity += n_more_classes;
    parameters.validate();
    return std::make_unique<AdaptiveForest<Task>>(forest, layout, parameters);
}

// The parameters with a class more, where there is room for it, or the same; or none.
template <class Task>
std::optional<Parameters<Task>> draw_next(const AdaptiveForest<Task> &forest, Random &random) {
    Parameters<Task> next = *forest.common().parameters;
    if (!random.is_lucky(3)) return {};
    if constexpr (kHasClasses<Task>) {
        if (next.n_classes == next.capacity) return {};
        ++next.n_classes;
    }
    next.validate();
    return next;
}

// Claims

template <class Task>
std::vector<double> predict(const AdaptiveForest<Task> &forest, const Rows<Label<Task>> &rows) {
    std::vector<double> all;
    const std::size_t size = forest.predict(rows.matrix(0, rows.y.size()), all, 1);
    for (std::size_t i = 0; i < rows.y.size(); ++i) {
        double sum = 0;
        for (std::size_t k = 0; k < size; ++k) {
            hold(std::isfinite(all[i * size + k]), "predictions are finite");
            sum += all[i * size + k];
        }
        hold(!kHasClasses<Task> || std::abs(sum - 1) < 1e-6, "probabilities sum to 1");
    }
    return all;
}

template <class Task> std::size_t n_nodes(const AdaptiveForest<Task> &forest) {
    return forest.inspect([](const auto &, auto trees, std::size_t) {
        std::size_t sum = 0;
        for (const auto &tree : trees) sum += tree.n_nodes();
        return sum;
    });
}

template <class Task>
void hold_alike(const AdaptiveForest<Task> &forest, const AdaptiveForest<Task> &twin,
                Random &random) {
    auto one = SavedAdaptive<Task>::of(forest), other = SavedAdaptive<Task>::of(twin);
    const auto columns = one.bytes(), others = other.bytes();
    for (std::size_t k = 0; k < columns.size(); ++k)
        if (columns[k] != others[k]) std::fprintf(stderr, "column %zu differs\n", k);
    hold(columns == others && one.n_rows == other.n_rows, "twins are the same");
    const auto probes = draw_rows(forest, 3, random);
    hold(predict(forest, probes) == predict(twin, probes), "twins predict the same");
}

template <class T> void damage(std::vector<T> &column, Random &random) {
    if (column.empty()) return;
    T &element = column[random.below(column.size())];
    switch (random.below(6)) {
    case 0:
        element = column[random.below(column.size())];
        break;
    case 1:
        element = random.among({T(0), T(1), T(2), T(-1), std::numeric_limits<T>::max(),
                                std::numeric_limits<T>::min()});
        break;
    case 2:
        element = static_cast<T>(element + T(1));
        break;
    case 3:
        element = static_cast<T>(element - T(1));
        break;
    case 4:
        column.pop_back();
        break;
    default:
        reinterpret_cast<unsigned char *>(&element)[random.below(sizeof(T))] ^=
            static_cast<unsigned char>(1U << random.below(8));
    }
}

// Returns whether damaged arrays give a forest, which then works.
template <class Task> bool survives_damage(SavedAdaptive<Task> saved, Random &random) {
    std::size_t n_columns = 0, k = 0;
    saved.for_each_column([&](auto &) { ++n_columns; });
    const std::size_t chosen = random.below(n_columns);
    saved.for_each_column([&](auto &column) {
        if (k++ == chosen) damage(column, random);
    });
    Owner<Task> forest;
    try {
        forest = saved.restore();
    } catch (const std::invalid_argument &) {
        return false;
    }
    predict(*forest, draw_rows(*forest, 3, random));
    try {
        learn(*forest, draw_rows(*forest, 40, random), random.among({1UL, 40UL}));
    } catch (const std::length_error &) { // a row may have any weight
        return true;
    }
    const auto again = restored(SavedAdaptive<Task>::of(*forest));
    const auto rows = draw_rows(*forest, 40, random);
    learn(*forest, rows, 40);
    learn(*again, rows, 7);
    hold_alike(*forest, *again, random);
    return true;
}

struct Tally {
    std::size_t n_rows = 0, n_regrows = 0, n_restored_in_regrowths = 0, n_damaged = 0,
                n_survived = 0;
};

template <class Task> std::size_t n_active(const AdaptiveForest<Task> &forest) {
    return forest.inspect_all([](const auto &now) {
        std::size_t count = 0;
        for (const auto &slot : now.regrown_trees().slots())
            count += slot.regrowth.is_active() ? 1 : 0;
        return count;
    });
}

template <class Task> void try_out(std::uint64_t seed, Tally &tally) {
    using Forest = AdaptiveForest<Task>;
    using Saved = SavedAdaptive<Task>;
    Random random(seed);
    const Common<Task> common = draw_common<Task>(random);
    std::vector<Rng::State> seeds;
    for (std::size_t t = 0; t < common.n_trees(); ++t)
        seeds.push_back({random.word(), random.word(), random.word(), random.word()});
    Common<Task> own = common;
    own.parameters = std::make_shared<Parameters<Task>>(*common.parameters);
    auto forest = std::make_unique<Forest>(common, seeds),
         twin = std::make_unique<Forest>(own, seeds);
    bool has_grown = false;
    for (std::size_t lesson = 0; lesson < 12; ++lesson) {
        if (lesson > 0 && random.is_lucky(5)) {
            const Layout layout = draw_larger(forest->layout(), random);
            const std::size_t n_more = random.below(3);
            try {
                auto next = larger(*forest, layout, n_more);
                twin = larger(*twin, layout, n_more);
                forest = std::move(next);
                has_grown = true;
            } catch (const std::invalid_argument &error) { // larger rows do not fit
                hold(std::strstr(error.what(), "must be at least") != nullptr, error.what());
            }
        }
        const auto parameters = draw_next(*forest, random);
        const auto rows =
            draw_rows(*forest, 1 + random.below(random.among({10UL, 60UL, 600UL})), random);
        learn(*forest, rows, random.among({rows.y.size(), 1UL, 7UL}), parameters);
        learn(*twin, rows, random.among({rows.y.size(), 1UL, 50UL}), parameters);
        hold_alike(*forest, *twin, random);
        hold(n_nodes(*forest) <= common.options.max_nodes, "there are not too many nodes");
        hold(has_grown || forest->bytes() <= common.options.max_bytes,
             "there are not too many bytes");
        if (random.is_lucky(2)) {
            tally.n_restored_in_regrowths += n_active(*twin) > 0 ? 1 : 0;
            twin = restored(Saved::of(*twin));
        }
        if (random.is_lucky(4)) twin = larger(*twin, twin->layout(), 0);
        for (std::size_t k = 0; k < 4; ++k, ++tally.n_damaged)
            tally.n_survived += survives_damage(Saved::of(*forest), random) ? 1 : 0;
        tally.n_rows += rows.y.size();
    }
    forest->inspect_all([&](const Forest &now) {
        for (const auto &slot : now.regrown_trees().slots()) tally.n_regrows += slot.n_regrows;
    });
}

} // namespace

int main(int argc, char **argv) {
    const std::size_t n = argc > 1 ? std::stoull(argv[1]) : 100;
    const std::uint64_t seed = argc > 2 ? std::stoull(argv[2]) : 0;
    Tally tally;
    for (std::size_t i = 0; i < n; ++i) {
        std::fprintf(stderr, "\r%zu", i); // which one, if it fails
        if ((seed + i) % 2 == 0)
            try_out<ClassTask>(seed + i, tally);
        else
            try_out<NumberTask>(seed + i, tally);
    }
    std::printf("{\"forests\": %zu, \"rows\": %zu, \"regrows\": %zu, \"restored\": %zu, "
                "\"damaged\": %zu, \"survived\": %zu}\n",
                n, tally.n_rows, tally.n_regrows, tally.n_restored_in_regrowths, tally.n_damaged,
                tally.n_survived);
}
