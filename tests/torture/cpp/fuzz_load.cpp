// libFuzzer on load -> predict -> learn -> save, at the level of the core's arrays.
//
// Claimed, for any arrays: restoring them throws std::invalid_argument or gives a forest, in memory
// of at most 64 times their size, what one count of every class takes in each tree, and a megabyte.
// On that forest every forecast and every table can be asked for; it learns any rows that may be
// learnt, or refuses them and stays as it was. Saved, it is restored to the same bits, and both go
// on alike. ASan, UBSan and LSan watch all of it.
//
//     fuzz_load --make-corpus FOLDER     writes grown forests of many kinds, to start from
//     fuzz_load [libFuzzer's options] FOLDER
#include <sys/mman.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <string>

#include "fuzz_case.hpp"

using namespace amforest;

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t *data, std::size_t size, std::size_t max_size);
extern "C" int __sanitizer_install_malloc_and_free_hooks(void (*malloc_hook)(const volatile void *,
                                                                             std::size_t),
                                                         void (*free_hook)(const volatile void *));

namespace {

[[noreturn]] void fail(const char *claim) {
    std::fprintf(stderr, "VIOLATED: %s\n", claim);
    std::abort();
}

void hold(bool holds, const char *claim) {
    if (!holds) fail(claim);
}

// What was tried; told at the end.
struct Counts {
    std::size_t tried = 0, accepted = 0;
    ~Counts() {
        if (tried > 0) std::fprintf(stderr, "accepted: %zu of %zu\n", accepted, tried);
    }
} counts;

// Memory: all that is allocated while `counting`, freed or not.

bool counting = false;
std::size_t allocated = 0;

void count_bytes(std::size_t bytes) {
    if (counting) allocated += bytes;
}

} // namespace

extern "C" {
// The linker puts these in the place of mmap and mremap (--wrap).
void *__real_mmap(void *, std::size_t, int, int, int, off_t);
void *__wrap_mmap(void *at, std::size_t bytes, int protection, int flags, int fd, off_t offset) {
    count_bytes(bytes);
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}
void *__real_mremap(void *, std::size_t, std::size_t, int, ...);
void *__wrap_mremap(void *at, std::size_t before, std::size_t bytes, int flags, ...) {
    count_bytes(bytes);
    return __real_mremap(at, before, bytes, flags);
}
}

namespace {

template <class Labels>
std::unique_ptr<Forest<Labels>> restored_in_little_memory(const Case<Labels> &given,
                                                          std::size_t size) {
    size += 2 * given.n_classes(); // a file names them
    const std::size_t most = 64 * size + given.class_bytes() + (1 << 20);
    const auto check = [&] {
        counting = false;
        if (allocated > most)
            std::fprintf(stderr, "%zu bytes allocated for %zu\n", allocated, size);
        hold(allocated <= most, "memory is a small multiple of the arrays'");
    };
    allocated = 0;
    counting = true;
    try {
        auto forest = restored_forest(given);
        check();
        return forest;
    } catch (const std::invalid_argument &) {
        check();
        return nullptr;
    }
}

// Rows for a forest

class Random {
  public:
    explicit Random(std::uint64_t seed) : state_(seed) {}

    std::uint64_t next() { // splitmix64
        std::uint64_t z = state_ += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        return z ^ z >> 31;
    }
    std::size_t below(std::size_t n) { return n == 0 ? 0 : next() % n; }
    double uniform() { return static_cast<double>(next() >> 11) * 0x1.0p-53; }
    template <class T> T among(std::initializer_list<T> values) {
        return values.begin()[below(values.size())];
    }
    // One of the column's, which is not empty.
    template <class T> T among(const std::vector<T> &column) {
        return column[below(column.size())];
    }

  private:
    std::uint64_t state_;
};

template <class Labels> struct Stream {
    using Label = typename Labels::Label;

    std::size_t n_features = 0;
    std::vector<float> X;
    std::vector<Label> y;
    std::vector<double> weights; // none: all are 1

    std::size_t size() const { return y.size(); }
    Matrix matrix() const { return {X.data(), size(), n_features}; }
};

// Rows that may be learnt or, if they are not, at least be forecast: near the forest's own values,
// far away, on the border, and missing.
template <class Labels> class RowMaker {
  public:
    RowMaker(const Case<Labels> &given, Random &random)
        : given_(given), layout_(given.layout()), random_(random) {}

    Stream<Labels> stream(std::size_t n_rows, bool is_learnt, std::size_t n_classes) {
        Stream<Labels> rows{layout_.n_features(), {}, {}, {}};
        const bool has_gaps = random_.below(2) == 0, has_weights = random_.below(2) == 0;
        for (std::size_t i = 0; i < n_rows; ++i) {
            for (std::size_t f = 0; f < layout_.n_codes(); ++f)
                rows.X.push_back(code(f, is_learnt, has_gaps));
            for (std::size_t j = 0; j < layout_.n_numbers; ++j)
                rows.X.push_back(layout_.has_box() ? number_in_box(j) : number(has_gaps));
            rows.y.push_back(label(n_classes));
            if (has_weights) rows.weights.push_back(weight());
        }
        check_features(rows.matrix(), layout_, "X", [=](std::size_t) { return is_learnt; });
        return rows;
    }

  private:
    static constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

    float code(std::size_t f, bool is_learnt, bool has_gaps) {
        if (has_gaps && random_.below(4) == 0) return kMissing;
        if (!is_learnt && random_.below(4) == 0) return kUnknown;
        const std::size_t room = layout_.categories.room()[f];
        return static_cast<float>(
            random_.below(random_.among({room, std::min<std::size_t>(room, 3)})));
    }

    float number(bool has_gaps) {
        if (has_gaps && random_.below(4) == 0) return kMissing;
        switch (random_.below(6)) {
        case 0:
            return random_.among(
                {0.0F, -0.0F, 1.0F, -1e-45F, 1e-38F, kLargestFeature, -kLargestFeature});
        case 1:
            return near(given_.flat.threshold);
        case 2:
            return near(given_.flat.lower);
        case 3:
            return near(given_.flat.upper);
        default:
            return static_cast<float>(random_.uniform() * 4 - 2);
        }
    }

    // A value of the column, or the next one to it.
    float near(const std::vector<float> &column) {
        if (column.empty()) return 0.5F;
        const float value = random_.among(column);
        const float next = std::nextafter(value, random_.among({-1e30F, 1e30F}));
        const float chosen = random_.among({value, next});
        return std::abs(chosen) <= kLargestFeature ? chosen : 0.25F;
    }

    float number_in_box(std::size_t j) {
        const float lower = layout_.lower[j], upper = layout_.upper[j];
        const float near_it = number(false);
        if (near_it >= lower && near_it <= upper) return near_it;
        const double inside = lower + random_.uniform() * (static_cast<double>(upper) - lower);
        return std::clamp(random_.among({lower, upper, static_cast<float>(inside)}), lower, upper);
    }

    typename Labels::Label label(std::size_t n_classes) {
        if constexpr (Case<Labels>::kHasClasses) {
            return static_cast<std::uint32_t>(random_.below(n_classes));
        } else {
            const double mean =
                given_.flat.labels.mean.empty() ? 0.5 : random_.among(given_.flat.labels.mean);
            const double own = std::abs(mean) <= 1e75 ? mean : 1e75;
            return random_.among({own, 0.0, 1.0, 1e75, -1e75, random_.uniform()});
        }
    }

    double weight() {
        if (Labels::kWholeWeights) return random_.among({0.0, 1.0, 1.0, 2.0, 7.0, 0x1.0p31 - 1});
        return random_.among(
            {0.0, 1.0, 0.5, 3.0, random_.uniform(), 1e-20, kLeastWeight, 0x1.0p53});
    }

    const Case<Labels> &given_;
    Layout layout_;
    Random &random_;
};

// Forecasts and looks

template <class Labels> void hold_sane(std::span<const double> forecast) {
    double sum = 0;
    for (const double value : forecast) {
        hold(std::isfinite(value), "forecasts are finite");
        sum += value;
    }
    hold(!Case<Labels>::kHasClasses || std::abs(sum - 1) < 1e-6, "probabilities sum to 1");
}

template <class Labels>
std::vector<double> forecasts_of(const Forest<Labels> &forest, const Stream<Labels> &rows) {
    const std::size_t entries = forest.forecast_size();
    std::vector<double> all(rows.size() * entries);
    forest.predict(rows.matrix(), all.data(), entries, 1);
    for (std::size_t i = 0; i < rows.size(); ++i)
        hold_sane<Labels>(std::span(all).subspan(i * entries, entries));
    return all;
}

// All that may be asked of a forest.
template <class Labels> void look_at(const Forest<Labels> &forest, const Stream<Labels> &rows) {
    const Matrix X = rows.matrix();
    const std::size_t n = X.n_rows, entries = forest.forecast_size(), n_trees = forest.n_trees();
    const std::size_t n_nodes = forest.n_nodes();
    const std::vector<double> all = forecasts_of(forest, rows);
    std::vector<double> by_tree(n * n_trees * entries), depth(n * n_trees), row(entries);
    std::vector<std::int64_t> leaves(n * n_trees);
    forest.predict_by_tree(X, by_tree.data(), entries, 1);
    forest.weighted_depth(X, depth.data(), 1);
    forest.apply(X, leaves.data(), 1);
    for (std::size_t i = 0; i < n; ++i) {
        forest.predict_row(X.rows(i, 1), row);
        hold(std::ranges::equal(row, std::span(all).subspan(i * entries, entries)),
             "a row alone is forecast as among others");
    }
    for (const double value : depth)
        hold(value >= 0 && value <= static_cast<double>(n_nodes), "depths are those of nodes");
    for (const std::int64_t leaf : leaves)
        hold(leaf >= 0 && static_cast<std::size_t>(leaf) < n_nodes, "leaves are in the table");
    std::size_t n_rows = 0;
    for (std::size_t t = 0; t < n_trees; ++t) n_rows += to_table(forest.tree(t)).n_rows();
    hold(n_rows == n_nodes, "the tables hold all nodes");
    hold(forest.depths().size() == n_trees && forest.bytes() > 0, "sizes can be asked for");
}

enum class Way { kBatch, kTestFirst, kNewClass, kSingly };

// Whether the rows were learnt; a forest that refuses them stays as it was.
template <class Labels>
bool learn(Forest<Labels> &forest, const Case<Labels> &given, const Stream<Labels> &rows, Way way) {
    using Batch = typename Forest<Labels>::Batch;
    const Matrix X = rows.matrix();
    const double most = std::accumulate(rows.weights.begin(), rows.weights.end(), 8.0);
    const bool may_fail = forest.total_weight() + most > Labels::kMost;
    const auto now = [&] {
        return may_fail ? encoded(saved(given, forest)) : std::vector<std::uint8_t>();
    };
    auto before = now();
    const std::size_t entries = forest.forecast_size();
    std::vector<double> forecasts(rows.size() * entries);
    try {
        if (way == Way::kTestFirst)
            Batch(forest, rows.size(), rows.weights, entries)
                .predict_then_learn(X, rows.y, rows.weights, forecasts.data(), 1);
        else if (way == Way::kNewClass)
            Batch(forest, rows.size(), rows.weights, 0,
                  ClassPrior(entries + 1, given.settings.dirichlet))
                .learn(X, rows.y, rows.weights, 1);
        else if (way == Way::kBatch)
            Batch(forest, rows.size(), rows.weights).learn(X, rows.y, rows.weights, 1);
        else
            for (std::size_t i = 0; i < rows.size(); ++i) {
                forest.learn(X.rows(i, 1), rows.y[i], rows.weights.empty() ? 1 : rows.weights[i]);
                before = now();
            }
        return true;
    } catch (const std::length_error &) { // the weights add up to too much
        hold(may_fail && now() == before, "rows that are refused change nothing");
        return false;
    }
}

// The fuzzer's target

template <class Labels> void try_out(Bytes bytes) {
    Case<Labels> given = decoded<Labels>(bytes);
    try {
        given.check();
    } catch (const std::invalid_argument &) {
        return;
    }
    const auto forest = restored_in_little_memory(given, bytes.size());
    if (!forest) return;
    ++counts.accepted;
    Random random(given.settings.rows_seed);
    RowMaker<Labels> rows(given, random);
    const std::size_t n_classes = given.n_classes();
    look_at(*forest, rows.stream(3, false, n_classes));
    learn(*forest, given, rows.stream(1 + random.below(4), true, n_classes),
          random.among({Way::kBatch, Way::kTestFirst, Way::kSingly}));
    // Saved and restored, it is the same, and goes on alike.
    const Case<Labels> kept = saved(given, *forest);
    std::unique_ptr<Forest<Labels>> again;
    try {
        again = restored_forest(kept);
    } catch (const std::invalid_argument &error) {
        fail(error.what());
    }
    hold(encoded(saved(kept, *again)) == encoded(kept), "what was saved is restored");
    const bool is_new = Case<Labels>::kHasClasses && n_classes < given.settings.capacity;
    const auto more = rows.stream(2, true, n_classes + (is_new ? 1 : 0));
    hold(learn(*forest, given, more, is_new ? Way::kNewClass : Way::kTestFirst) ==
             learn(*again, kept, more, is_new ? Way::kNewClass : Way::kBatch),
         "both learn the same rows");
    hold(encoded(saved(given, *forest)) == encoded(saved(kept, *again)), "both go on alike");
    const auto others = rows.stream(2, false, n_classes);
    hold(forecasts_of(*forest, others) == forecasts_of(*again, others), "both forecast alike");
}

// Mutations

// Changes bytes in place.
template <class T> void mutate_bytes(T &value) {
    auto *bytes = reinterpret_cast<std::uint8_t *>(&value);
    LLVMFuzzerMutate(bytes, sizeof(T), sizeof(T));
}

template <class T> void mutate_element(std::vector<T> &column, Random &random) {
    if (column.empty()) return;
    T &element = column[random.below(column.size())];
    switch (random.below(4)) {
    case 0:
        element = random.among(column);
        break;
    case 1:
        element =
            random.among({T(0), T(1), T(2), T(-1), std::numeric_limits<T>::max(),
                          std::numeric_limits<T>::min(), std::numeric_limits<T>::quiet_NaN()});
        break;
    case 2:
        if constexpr (std::is_floating_point_v<T>)
            element = std::nextafter(element, random.among({T(-1e30), T(1e30)}));
        else
            element =
                static_cast<T>(static_cast<std::uint64_t>(element) + random.among({1UL, ~0UL}));
        break;
    default:
        mutate_bytes(element);
    }
}

// A row more or less.
template <class T> void resize(std::vector<T> &column, std::size_t width, Random &random) {
    if (width == 0 || width > column.size()) return;
    if (random.below(2) == 0)
        column.resize(column.size() - width);
    else
        column.insert(column.end(), column.end() - static_cast<std::ptrdiff_t>(width),
                      column.end());
}

// Learns a row, if the forest is valid: so that mutations start from valid forests again.
template <class Labels> void grow(Case<Labels> &given, Random &random) {
    if (given.flat.feature.size() > 40) return; // small forests are quick
    try {
        given.check();
        const auto forest = restored_forest(given);
        RowMaker<Labels> rows(given, random);
        learn(*forest, given, rows.stream(1 + random.below(3), true, given.n_classes()),
              Way::kBatch);
        given = saved(given, *forest);
    } catch (const std::invalid_argument &) { // then it stays as it is
    }
}

template <class Labels> bool is_valid(Case<Labels> &given) {
    try {
        given.check();
        restored_forest(given);
        return true;
    } catch (const std::invalid_argument &) {
        return false;
    }
}

template <class Labels> void mutate(Case<Labels> &given, Random &random) {
    const std::size_t what = random.below(8);
    if (what == 0) return mutate_bytes(given.settings);
    if (what == 1) return grow(given, random);
    std::size_t n_columns = 0;
    given.for_each_column([&](auto &, std::size_t) { ++n_columns; });
    const std::size_t chosen = random.below(n_columns);
    std::size_t k = 0;
    given.for_each_column([&](auto &column, std::size_t width) {
        if (k++ != chosen) return;
        if (what == 2)
            resize(column, width, random);
        else
            mutate_element(column, random);
    });
}

// The first forests

template <class Labels>
std::vector<std::uint8_t> grown(std::uint8_t model, std::size_t kind, std::size_t variant) {
    Random random(100 * kind + variant);
    Case<Labels> given;
    Settings &s = given.settings;
    s.model = model;
    s.n_numbers = std::array{1U, 3U, 0U, 2U, 2U}[kind];
    s.n_codes = std::array{0, 0, 2, 1, 0}[kind];
    s.room[0] = 3, s.room[1] = 40;
    s.rows_seed = static_cast<std::uint32_t>(random.next());
    s.n_classes = static_cast<std::uint16_t>(1 + random.below(4));
    s.capacity = static_cast<std::uint16_t>(s.n_classes + random.below(s.n_classes + 1U));
    if (kind == 4) given.bounds = {-2, -2, 2, 3};
    s.split_pure = variant % 2;
    s.predict_extends = variant == 2;
    s.use_aggregation = variant != 3;
    if (variant == 4 && kind != 4) s.lifetime = 5;
    if (variant == 4 && kind != 4 && Case<Labels>::kHasClasses) s.discount = 2;
    if (variant == 5) s.max_nodes = 9;
    if (variant == 6) s.charge_first = 1, s.step = 0.25;
    const std::size_t n_trees = 1 + random.below(2);
    given.flat.n_nodes.resize(n_trees);
    for (std::size_t i = 0; i < 4 * n_trees; ++i) given.flat.seeds.push_back(random.next());
    const auto forest = restored_forest(given);
    RowMaker<Labels> rows(given, random);
    for (std::size_t i = 0, n = 1 + random.below(8); i < n; ++i)
        learn(*forest, given, rows.stream(1, true, s.n_classes), Way::kBatch);
    return encoded(saved(given, *forest));
}

void make_corpus(const std::string &folder) {
    for (std::size_t kind = 0; kind < 5; ++kind)
        for (std::size_t variant = 0; variant < 8; ++variant)
            for (const std::uint8_t model : {0, 1, 2}) {
                const auto bytes = with_model({&model, 1}, [&]<class Labels>() {
                    return grown<Labels>(model, kind, variant);
                });
                const std::string name = {static_cast<char>('0' + model), '-',
                                          static_cast<char>('0' + kind), '-',
                                          static_cast<char>('0' + variant)};
                std::ofstream(folder + "/" + name, std::ios::binary)
                    .write(reinterpret_cast<const char *>(bytes.data()),
                           static_cast<std::streamsize>(bytes.size()));
            }
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *argc, char ***argv) {
    if (*argc == 3 && std::string((*argv)[1]) == "--make-corpus") {
        make_corpus((*argv)[2]);
        std::exit(0);
    }
    __sanitizer_install_malloc_and_free_hooks(
        [](const volatile void *, std::size_t bytes) { count_bytes(bytes); },
        [](const volatile void *) {});
    return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t *data, std::size_t size) {
    ++counts.tried;
    const Bytes bytes(data, size);
    with_model(bytes, [&]<class Labels>() { try_out<Labels>(bytes); });
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
    Random random(seed);
    if (random.below(16) == 0) return LLVMFuzzerMutate(data, size, max_size);
    const Bytes bytes(data, size);
    const auto mutated = with_model(bytes, [&]<class Labels>() {
        Case<Labels> given = decoded<Labels>(bytes);
        // What is refused is refused early: so half of the time a valid forest has to stay valid.
        const bool stays_valid = random.below(2) == 0 && is_valid(given);
        for (std::size_t n = 1 + random.below(4); n > 0; --n) {
            Case<Labels> next = given;
            mutate(next, random);
            if (!stays_valid || is_valid(next)) given = std::move(next);
        }
        return encoded(std::move(given));
    });
    if (mutated.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, mutated.data(), mutated.size());
    return mutated.size();
}
