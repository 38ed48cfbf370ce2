// libFuzzer on load -> predict -> learn -> copy -> save, at the level of the core's arrays.
//
// The claims, for any arrays:
// - Restoring them throws std::invalid_argument or gives a forest. It allocates at most 64 times
//   their size, the labels of a few nodes of each tree, the linear regressions, and a megabyte.
// - That forest can be predicted from and inspected. It learns any valid rows, or refuses them and
//   stays as it was.
// - Saved, it is restored to the same bits, and both forests continue alike.
// - A copy with room for more features, categories and classes differs in nothing else. It leaves
//   the forest as it is. Both predict and learn the same rows alike, where the features that the
//   copy adds are missing. A copy with real counts predicts alike, too. (A copy of an adaptive
//   forest predicts alike and leaves the forest as it is, but it may choose other splits.)
// All runs under ASan, UBSan and LSan.
//
//     fuzz_load --make-corpus FOLDER     writes forests of many kinds, to start from
//     fuzz_load [libFuzzer's options] FOLDER
#include <sys/mman.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <numeric>
#include <optional>
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

// Counts the inputs; prints them at the end.
struct Counts {
    std::size_t tried = 0, accepted = 0;
    ~Counts() {
        if (tried > 0) std::fprintf(stderr, "accepted: %zu of %zu\n", accepted, tried);
    }
} counts;

// Memory: all that is allocated while `is_counting`, freed or not.

bool is_counting = false;
std::size_t allocated = 0;

void count_bytes(std::size_t bytes) {
    if (is_counting) allocated += bytes;
}

} // namespace

extern "C" {
// The linker replaces mmap and mremap by these (--wrap).
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

template <class Case>
std::unique_ptr<typename Case::Forest> restore_in_little_memory(Case &given, std::size_t size) {
    size += 2 * Case::Labels::prediction_size(given.parameters()); // a file names the classes
    const std::size_t most = 64 * size + given.fixed_bytes() + (1 << 20);
    const auto check = [&] {
        is_counting = false;
        if (allocated > most)
            std::fprintf(stderr, "%zu bytes allocated for %zu\n", allocated, size);
        hold(allocated <= most, "memory is a small multiple of the arrays'");
    };
    allocated = 0;
    is_counting = true;
    try {
        auto forest = given.restore();
        check();
        return forest;
    } catch (const std::invalid_argument &) {
        check();
        return nullptr;
    }
}

template <class Case> std::unique_ptr<typename Case::Forest> restore_saved(Case &saved) {
    try {
        return saved.restore();
    } catch (const std::invalid_argument &error) {
        fail(error.what());
    }
}

template <class Case> bool is_restorable(Case &given) {
    try {
        given.restore();
        return true;
    } catch (const std::invalid_argument &) {
        return false;
    }
}

template <class Case> bool is_valid(Case &given) {
    try {
        given.check();
    } catch (const std::invalid_argument &) {
        return false;
    }
    return is_restorable(given);
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
    bool is_lucky(std::size_t one_in) { return below(one_in) == 0; }
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

constexpr float kMissing = std::numeric_limits<float>::quiet_NaN();

template <class Label> struct Stream {
    Layout layout;
    std::vector<float> X;
    std::vector<Label> y;
    std::vector<double> weights; // none: all are 1

    std::size_t size() const { return y.size(); }
    Matrix matrix() const { return {X.data(), size(), layout.n_features()}; }

    // The same rows in a later layout: features that it adds are missing.
    Stream widened(const Layout &later) const {
        Stream wide{later, {}, y, weights};
        const auto append = [&](const float *from, std::size_t count, std::size_t n_all) {
            wide.X.insert(wide.X.end(), from, from + count);
            wide.X.insert(wide.X.end(), n_all - count, kMissing);
        };
        for (std::size_t i = 0; i < size(); ++i) {
            const float *const row = matrix()[i];
            append(row, layout.n_codes(), later.n_codes());
            append(row + layout.n_codes(), layout.n_numbers, later.n_numbers);
        }
        return wide;
    }
};

enum class Use { kLearn, kPredict };

// Rows that may be learned or, if they are not, be predicted: near the forest's own values, far
// away, on the border, and missing.
template <class Case> class RowSource {
    using Label = typename Case::Label;

  public:
    RowSource(const Case &given, Random &random)
        : given_(given), layout_(given.settings.layout()),
          domain_(checked_domain(given.bounds, given.settings, typename Case::Domain{})),
          random_(random) {
        collect_labels();
    }

    Stream<Label> draw(std::size_t n_rows, Use use) {
        Stream<Label> rows{layout_, {}, {}, {}};
        const bool has_gaps = random_.is_lucky(2), has_weights = random_.is_lucky(2);
        for (std::size_t i = 0; i < n_rows; ++i) {
            for (std::size_t f = 0; f < layout_.n_codes(); ++f)
                rows.X.push_back(code(f, use, has_gaps));
            for (std::size_t j = 0; j < layout_.n_numbers; ++j)
                rows.X.push_back(number_of(j, has_gaps, domain_));
            rows.y.push_back(label());
            if (has_weights) rows.weights.push_back(weight());
        }
        return rows;
    }

  private:
    float code(std::size_t f, Use use, bool has_gaps) {
        if (has_gaps && random_.is_lucky(4)) return kMissing;
        if (use == Use::kPredict && random_.is_lucky(4)) return kUnknown;
        const std::size_t room = layout_.categories.room()[f];
        return static_cast<float>(
            random_.below(random_.among({room, std::min<std::size_t>(room, 3)})));
    }

    float number() {
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

    float number_of(std::size_t, bool has_gaps, const Everywhere &) {
        return has_gaps && random_.is_lucky(4) ? kMissing : number();
    }

    float number_of(std::size_t j, bool, const Bounds &bounds) {
        const float value = number();
        if (bounds.hold(j, value)) return value;
        const float lower = bounds.lower[j], upper = bounds.upper[j];
        const double length = static_cast<double>(upper) - static_cast<double>(lower);
        const double inside = static_cast<double>(lower) + random_.uniform() * length;
        return std::clamp(random_.among({lower, upper, static_cast<float>(inside)}), lower, upper);
    }

    // Numbers in the columns of the label model are labels near those that were learned.
    void collect_labels() {
        if constexpr (!Case::kHasClasses) {
            auto columns = given_.flat.labels;
            columns.for_each(given_.parameters(), [&](const char *, auto &column, auto...) {
                if constexpr (std::is_same_v<decltype(column), std::vector<Label> &>)
                    labels_.insert(labels_.end(), column.begin(), column.end());
            });
            labels_.insert(labels_.end(), {0, 1, kLargestLabel, -kLargestLabel});
        }
    }

    Label label() {
        const auto parameters = given_.parameters();
        if constexpr (Case::kHasClasses) {
            return static_cast<Label>(random_.below(Case::Labels::prediction_size(parameters)));
        } else {
            const Label drawn = random_.is_lucky(4) ? random_.uniform() : random_.among(labels_);
            return Case::Labels::accepts(parameters, drawn) ? drawn : kLargestLabel;
        }
    }

    double weight() {
        if (Case::Labels::kHasWholeWeights)
            return random_.among({0.0, 1.0, 1.0, 2.0, 7.0, 0x1.0p31 - 1});
        return random_.among(
            {0.0, 1.0, 0.5, 3.0, random_.uniform(), 1e-20, kLeastWeight, 0x1.0p53});
    }

    const Case &given_;
    Layout layout_;
    typename Case::Domain domain_;
    Random &random_;
    std::vector<Label> labels_; // candidates
};

// Predictions and inspection

bool have_equal_bits(const std::vector<double> &a, const std::vector<double> &b) {
    return a.size() == b.size() &&
           (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0);
}

template <class Case> void hold_valid(std::span<const double> prediction) {
    double sum = 0;
    for (const double value : prediction) {
        hold(std::isfinite(value), "predictions are finite");
        sum += value;
    }
    hold(!Case::kHasClasses || std::abs(sum - 1) < 1e-6, "probabilities sum to 1");
}

// `Forest` is the case's, or one with other counts.
template <class Case, class Forest>
std::vector<double> predict(const Forest &forest, const Stream<typename Case::Label> &rows) {
    std::vector<double> all;
    forest.check(rows.matrix(), "X", [](std::size_t) { return false; });
    const std::size_t size = forest.predict(rows.matrix(), all, 1);
    hold(size == forest.prediction_size() && all.size() == rows.size() * size,
         "each row has a prediction");
    for (std::size_t i = 0; i < rows.size(); ++i)
        hold_valid<Case>(std::span(all).subspan(i * size, size));
    return all;
}

// All that can be inspected.
template <class Case>
void inspect(const typename Case::Forest &forest, const Stream<typename Case::Label> &rows) {
    const Matrix X = rows.matrix();
    const std::size_t n = X.n_rows, n_trees = forest.n_trees();
    const std::vector<double> all = predict<Case>(forest, rows);
    std::vector<double> by_tree, row, depth(n * n_trees);
    std::vector<std::int64_t> leaves(n * n_trees);
    const std::size_t size = forest.prediction_size();
    const std::size_t tree_size = forest.predict_by_tree(X, by_tree, 1);
    hold(by_tree.size() == n * n_trees * tree_size, "each tree has a prediction");
    forest.weighted_depth(X, depth.data(), 1);
    forest.apply(X, leaves.data(), 1);
    for (std::size_t i = 0; i < n; ++i) {
        forest.predict(X.rows(i, 1), row, 1);
        hold(std::ranges::equal(row, std::span(all).subspan(i * size, size)),
             "a row alone has the same prediction as among others");
    }
    forest.inspect([&](const auto &, std::span<const typename Case::Tree> trees, std::size_t) {
        for (std::size_t t = 0; t < n_trees; ++t) {
            const std::size_t n_nodes = to_table(trees[t]).n_rows();
            hold(n_nodes == trees[t].n_nodes() && trees[t].bytes() > 0, "tables have all nodes");
            hold(depth_of(trees[t].arena()) < static_cast<std::int64_t>(n_nodes) || n_nodes == 0,
                 "depths are those of nodes");
            for (std::size_t i = 0; i < n && n_nodes > 0; ++i) {
                const double own_depth = depth[i * n_trees + t];
                const std::int64_t leaf = leaves[i * n_trees + t];
                hold(own_depth >= 0 && own_depth <= static_cast<double>(n_nodes),
                     "weighted depths are those of nodes");
                hold(leaf >= 0 && leaf < static_cast<std::int64_t>(n_nodes),
                     "leaves are in the table");
            }
        }
    });
}

enum class Way { kBatch, kTestThenTrain, kNewParameters, kSingly };

// Whether the forest is so near its limits that it may refuse the rows. Real weights are rounded.
template <class Case>
bool may_refuse(const typename Case::Forest &forest, const Stream<typename Case::Label> &rows) {
    const double rounding = Case::Labels::kHasWholeWeights ? 0 : 8;
    const double more = rows.weights.empty()
                            ? rounding + static_cast<double>(rows.size())
                            : std::accumulate(rows.weights.begin(), rows.weights.end(), rounding);
    if constexpr (Case::kIsAdaptive) // whose trees are regrown from the rows of its store
        if (forest.inspect_all([&](const auto &now) {
                return now.regrown_trees().store().total_weight() + more +
                           static_cast<double>(rows.size()) >
                       Case::Labels::kMost;
            }))
            return true;
    return forest.inspect(
        [&](const auto &, std::span<const typename Case::Tree> trees, std::size_t n_rows) {
            const auto weighs_much = [&](const auto &tree) {
                return tree.total_weight() + more > Case::Labels::kMost;
            };
            return n_rows + rows.size() > kMostRows || std::ranges::any_of(trees, weighs_much);
        });
}

// Whether the rows were learned. With kNewParameters, those of `given` hold from now on.
template <class Case>
bool learn(typename Case::Forest &forest, const Case &given,
           const Stream<typename Case::Label> &rows, Way way) {
    using Batch = typename Case::Forest::Batch;
    const Matrix X = rows.matrix();
    forest.check(X, "X", [](std::size_t) { return true; });
    const bool may_fail = may_refuse<Case>(forest, rows);
    const auto now = [&] {
        return may_fail ? given.save(forest).encode() : std::vector<std::uint8_t>();
    };
    auto before = now();
    const auto refuse_rows = [&] { // their weights, or those of all rows, are too many
        hold(may_fail && now() == before, "refused rows change nothing");
        return false;
    };
    const std::size_t size = forest.prediction_size();
    std::vector<double> predictions(rows.size() * size);
    const auto learn_batch = [&](Batch batch) { // in chunks, as the binding does
        for (std::size_t i = 0; i < rows.size(); i += forest.chunk_size()) {
            const std::size_t n = std::min(forest.chunk_size(), rows.size() - i);
            const auto y = std::span(rows.y).subspan(i, n);
            const auto weights =
                std::span(rows.weights)
                    .subspan(rows.weights.empty() ? 0 : i, rows.weights.empty() ? 0 : n);
            if (way == Way::kTestThenTrain)
                batch.predict_then_learn(X.rows(i, n), y, weights, predictions.data() + i * size,
                                         1);
            else
                batch.learn(X.rows(i, n), y, weights, 1);
        }
    };
    try {
        if (way == Way::kTestThenTrain)
            learn_batch(Batch(forest, rows.size(), rows.weights, size));
        else if (way == Way::kNewParameters)
            learn_batch(Batch(forest, rows.size(), rows.weights, 0, given.valid_parameters()));
        else if (way == Way::kBatch)
            learn_batch(Batch(forest, rows.size(), rows.weights, 0));
        else
            for (std::size_t i = 0; i < rows.size(); ++i) {
                const double weight = rows.weights.empty() ? 1 : rows.weights[i];
                if (!forest.learn(X.rows(i, 1), rows.y[i], weight)) return refuse_rows();
                before = now();
            }
        return true;
    } catch (const std::length_error &) {
        return refuse_rows();
    }
}

// Copies

// Room for more of some of what there is. Bounds settle the features.
template <class Case> Settings draw_larger(const Case &given, Random &random) {
    Settings s = given.settings;
    s.capacity = static_cast<std::uint16_t>(s.capacity + random.below(3));
    if (s.n_classes < s.capacity && random.is_lucky(2)) ++s.n_classes;
    if (Case::kIsBounded) return s;
    Layout layout = s.layout();
    std::vector<std::uint32_t> rooms = layout.categories.room();
    for (std::uint32_t &room : rooms) room += static_cast<std::uint32_t>(random.below(40));
    if (rooms.size() < std::size(s.room) && random.is_lucky(2)) rooms.push_back(1);
    for (std::uint32_t &room : rooms) room = std::min<std::uint32_t>(room, kMostCategories);
    s.set(Layout{Categories(std::move(rooms)), layout.n_numbers + random.below(10)});
    return s;
}

// Rows of another width: `fill` is behind what they had.
template <class T>
void resize_rows(std::vector<T> &column, std::size_t from, std::size_t to, T fill) {
    std::vector<T> rows;
    for (auto row = column.begin(); row != column.end();) {
        const auto end = row + static_cast<std::ptrdiff_t>(from);
        rows.insert(rows.end(), row, end);
        rows.insert(rows.end(), to - from, fill);
        row = end;
    }
    column = std::move(rows);
}

// Rows of all features, of which those that are added have a value; codes come before numbers.
template <class T>
std::vector<T> widen_features(const std::vector<T> &rows, const Layout &from, const Layout &to,
                              T added) {
    std::vector<T> wide;
    for (auto row = rows.begin(); row != rows.end();) {
        const auto codes = row + static_cast<std::ptrdiff_t>(from.n_codes());
        const auto end = row + static_cast<std::ptrdiff_t>(from.n_features());
        wide.insert(wide.end(), row, codes);
        wide.insert(wide.end(), to.n_codes() - from.n_codes(), added);
        wide.insert(wide.end(), codes, end);
        wide.insert(wide.end(), to.n_numbers - from.n_numbers, added);
        row = end;
    }
    return wide;
}

std::vector<Word> widen_sets(const std::vector<Word> &sets, std::size_t n_sets,
                             const Categories &from, const Categories &to) {
    std::vector<Word> wide(n_sets * to.n_words());
    for (std::size_t i = 0; i < n_sets; ++i) {
        const Word *const set = sets.data() + i * from.n_words();
        for (std::size_t f = 0; f < from.n_features(); ++f)
            for (std::uint32_t code = 0; code < from.room()[f]; ++code)
                if (from.contains(f, static_cast<float>(code), {set, set}))
                    to.insert(f, static_cast<float>(code), wide.data() + i * to.n_words());
    }
    return wide;
}

template <class Case> void widen_features(Case &saved, const Layout &to) {
    const Layout from = saved.settings.layout();
    auto &flat = saved.flat;
    const auto n_codes = static_cast<std::int32_t>(from.n_codes());
    for (std::int32_t &feature : flat.feature)
        if (feature >= n_codes) feature += static_cast<std::int32_t>(to.n_codes()) - n_codes;
    flat.feature_weights = widen_features(flat.feature_weights, from, to, 1.0F);
    flat.importance = widen_features(flat.importance, from, to, 0.0);
    if (from.n_numbers == 0) { // then the number of rows is not that of the column
        flat.lower.assign(flat.kind.size() * to.n_numbers, kMissing);
    } else {
        resize_rows(flat.lower, from.n_numbers, to.n_numbers, kMissing);
        resize_rows(flat.upper, from.n_numbers, to.n_numbers, kMissing);
    }
    flat.seen = widen_sets(flat.seen, flat.kind.size(), from.categories, to.categories);
}

// Rows of labels have a 0 for each class that is added.
template <class Case> void widen_labels(Case &saved, const typename Case::Parameters &to) {
    std::vector<std::size_t> widths;
    auto &labels = saved.flat.labels;
    labels.for_each(saved.parameters(), [&](const char *, auto &, std::size_t width, auto) {
        widths.push_back(width);
    });
    auto before = widths.begin();
    labels.for_each(to,
                    [&]<class T>(const char *, std::vector<T> &column, std::size_t width, auto) {
                        if (width != kVector) resize_rows(column, *before, width, T{0});
                        ++before;
                    });
}

// What a larger copy must be: nothing was seen of new features and categories, and no label is of a
// new class.
template <class Case> Case widen(Case saved, const Settings &larger) {
    widen_features(saved, larger.layout());
    widen_labels(saved, larger.parameters<typename Case::Parameters>());
    saved.settings = larger;
    return saved;
}

template <class Case>
std::unique_ptr<typename Case::Forest> copy_with_room(const typename Case::Forest &forest,
                                                      const Settings &larger) {
    return std::make_unique<typename Case::Forest>(
        forest, larger.layout(), larger.valid_parameters<typename Case::Parameters>());
}

// A row of the earlier layout is one of the later layout with missing values. (Within bounds
// nothing is missing, and the layout stays.)
template <class Case>
Stream<typename Case::Label> rows_in(const Settings &later,
                                     const Stream<typename Case::Label> &rows) {
    return Case::kIsBounded ? rows : rows.widened(later.layout());
}

// Classes must not become fewer.
template <class Case>
void hold_fewer_are_refused(const typename Case::Forest &forest, Settings settings) {
    if (!Case::kHasClasses || settings.n_classes == 1) return;
    --settings.n_classes;
    try {
        copy_with_room<Case>(forest, settings);
    } catch (const std::invalid_argument &) {
        return;
    }
    fail("a copy with fewer classes is refused");
}

// Real counts hold the same numbers.
template <class Case>
void hold_real_counts_alike(const typename Case::Forest &forest, const Case &given,
                            const Stream<typename Case::Label> &rows) {
    if constexpr (std::is_same_v<typename Case::Labels, ClassCounts<std::uint32_t>>) {
        using Real = Forest<typename Case::Partition, ClassCounts<double>>;
        std::optional<Real> real;
        try {
            real.emplace(forest, forest.layout(), given.valid_parameters());
        } catch (const std::invalid_argument &) {
            return hold(given.settings.max_bytes < kUnlimited, "there is room for real counts");
        }
        hold(have_equal_bits(predict<Case>(*real, rows), predict<Case>(forest, rows)),
             "real counts change no prediction");
    }
}

// The larger copy of a forest, which is `before`; none if the larger nodes do not fit into
// max_bytes. Sets `expected` to what the copy is.
template <class Case>
std::unique_ptr<typename Case::Forest> try_copying(const typename Case::Forest &forest,
                                                   Case &before, Case &expected, Random &random) {
    const Settings larger = draw_larger(before, random);
    expected = widen(before, larger);
    std::unique_ptr<typename Case::Forest> copy;
    try {
        copy = copy_with_room<Case>(forest, larger);
    } catch (const std::invalid_argument &) {
        hold(!is_restorable(expected), "a copy fits if it can be restored");
    }
    hold(before.save(forest).encode() == before.encode(), "a copy leaves the forest as it is");
    if (!copy) return copy;
    hold(expected.save(*copy).encode() == expected.encode(), "room changes nothing else");
    const auto rows = RowSource<Case>(before, random).draw(3, Use::kPredict);
    const auto predictions = predict<Case>(*copy, rows_in<Case>(larger, rows));
    if (larger.n_classes == before.settings.n_classes)
        hold(have_equal_bits(predictions, predict<Case>(forest, rows)),
             "room changes no prediction");
    hold_real_counts_alike(forest, before, rows);
    hold_fewer_are_refused<Case>(forest, before.settings);
    return copy;
}

// The fuzzer's target

// At most so many rows are learned: enough for regrowths.
template <class Case> constexpr std::size_t kRows = Case::kIsAdaptive ? 24 : 4;

// Both forests are the same, and continue alike.
template <class Case>
void hold_alike(typename Case::Forest &a, typename Case::Forest &b, Case &given, Random &random) {
    const bool is_new = given.settings.n_classes < given.settings.capacity;
    if (is_new) ++given.settings.n_classes;
    RowSource<Case> rows(given, random);
    const auto more = rows.draw(kRows<Case> / 2, Use::kLearn), others = rows.draw(2, Use::kPredict);
    hold(learn(a, given, more, is_new ? Way::kNewParameters : Way::kTestThenTrain) ==
             learn(b, given, more, is_new ? Way::kNewParameters : Way::kBatch),
         "both learn the same rows");
    hold(given.save(a).encode() == given.save(b).encode(), "both continue alike");
    hold(predict<Case>(a, others) == predict<Case>(b, others), "both predict alike");
}

// A forest, its larger copy, and that copy restored learn rows of the earlier layout alike.
template <class Case>
void hold_earlier_rows_alike(typename Case::Forest &forest, typename Case::Forest &copy,
                             typename Case::Forest &copy_again, const Case &before,
                             const Case &larger, Random &random) {
    const auto rows = RowSource<Case>(before, random).draw(2, Use::kLearn);
    const auto wide = rows_in<Case>(larger.settings, rows);
    const bool is_learned = learn(copy, larger, wide, Way::kBatch);
    hold(learn(copy_again, larger, wide, Way::kTestThenTrain) == is_learned,
         "both copies learn the same rows");
    Case saved = larger.save(copy);
    hold(larger.save(copy_again).encode() == saved.encode(), "both copies learn alike");
    // New classes change the prior, and of larger nodes fewer fit into max_bytes.
    if (larger.settings.n_classes > before.settings.n_classes ||
        larger.settings.max_bytes < kUnlimited)
        return;
    hold(learn(forest, before, rows, Way::kBatch) == is_learned,
         "the forest and its copy learn the same rows");
    Settings settings = larger.settings;
    Case own = before.save(forest);
    settings.n_samples = own.settings.n_samples;
    hold(widen(own, settings).encode() == saved.encode(), "the forest and its copy learn alike");
}

// A larger copy of an adaptive forest predicts alike, is restored, and continues alike.
template <class Case>
void try_copying_adaptive(const typename Case::Forest &forest, const Case &given, Random &random) {
    Case before = given.save(forest), larger = before;
    static_cast<Settings &>(larger.settings) = draw_larger(before, random);
    std::unique_ptr<typename Case::Forest> copy;
    try {
        copy = copy_with_room<Case>(forest, larger.settings);
    } catch (const std::invalid_argument &) {
        hold(larger.settings.max_bytes < kUnlimited, "there is room for a larger copy");
    }
    hold(before.save(forest).encode() == before.encode(), "a copy leaves the forest as it is");
    if (!copy) return;
    const auto rows = RowSource<Case>(before, random).draw(3, Use::kPredict);
    const auto predictions = predict<Case>(*copy, rows_in<Case>(larger.settings, rows));
    if (!Case::kHasClasses || larger.settings.n_classes == before.settings.n_classes)
        hold(have_equal_bits(predictions, predict<Case>(forest, rows)),
             "room changes no prediction");
    hold_fewer_are_refused<Case>(forest, before.settings);
    Case saved = larger.save(*copy);
    const auto again = restore_saved(saved);
    hold(saved.save(*again).encode() == saved.encode(), "a copy is restored");
    hold_alike(*copy, *again, saved, random);
}

template <class Case> void try_out(Bytes bytes) {
    Case given = Case::decode(bytes);
    try {
        given.check();
    } catch (const std::invalid_argument &) {
        return;
    }
    const auto forest = restore_in_little_memory(given, bytes.size());
    if (!forest) return;
    ++counts.accepted;
    Random random(given.settings.rows_seed);
    RowSource<Case> rows(given, random);
    inspect<Case>(*forest, rows.draw(3, Use::kPredict));
    learn(*forest, given, rows.draw(1 + random.below(kRows<Case>), Use::kLearn),
          random.among({Way::kBatch, Way::kTestThenTrain, Way::kSingly}));
    Case saved = given.save(*forest);
    const auto again = restore_saved(saved);
    hold(saved.save(*again).encode() == saved.encode(), "a saved forest is restored");
    hold_alike(*forest, *again, saved, random);

    if constexpr (Case::kIsAdaptive) {
        try_copying_adaptive(*forest, given, random);
    } else {
        Case before = given.save(*forest), larger;
        const auto copy = try_copying(*forest, before, larger, random);
        if (!copy) return;
        const auto copy_again = restore_saved(larger);
        hold(larger.save(*copy_again).encode() == larger.encode(), "a copy is restored");
        if (random.is_lucky(2)) // else rows of the later layout come first
            hold_earlier_rows_alike(*forest, *copy, *copy_again, before, larger, random);
        hold_alike(*copy, *copy_again, larger, random);
    }
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
    if (random.is_lucky(2))
        column.resize(column.size() - width);
    else
        column.insert(column.end(), column.end() - static_cast<std::ptrdiff_t>(width),
                      column.end());
}

// Gives the trees weights of their features, or takes them away.
template <class Case> void mutate_feature_weights(Case &given, Random &random) {
    std::vector<float> &weights = given.flat.feature_weights;
    const std::size_t size = given.flat.n_nodes.size() * given.settings.layout().n_features();
    if (!weights.empty() || size > 256) return weights.clear();
    for (std::size_t i = 0; i < size; ++i)
        weights.push_back(random.among({0.0F, 1.0F, 0.5F, 3.0F, 1e-40F, 1e-20F, 1e20F,
                                        kLargestFeature, static_cast<float>(random.uniform())}));
}

// Calls change(forest) with the case's forest, if it is valid, and saves it: so that mutations
// start from valid forests again.
template <class Case, class Change>
void change_forest(Case &given, std::size_t n_most, const Change &change) {
    if (given.flat.feature.size() > n_most) return; // small forests are quick
    try {
        given.check();
        auto forest = given.restore();
        change(forest);
        given = given.save(*forest);
    } catch (const std::invalid_argument &) { // then it stays as it is
    }
}

template <class Case> void mutate(Case &given, Random &random) {
    const std::size_t what = random.below(10);
    if (what == 0) return mutate_bytes(given.settings);
    if (what == 1)
        return change_forest(given, 40, [&](auto &forest) {
            const auto rows =
                RowSource<Case>(given, random).draw(1 + random.below(kRows<Case> - 1), Use::kLearn);
            learn(*forest, given, rows, Way::kBatch);
        });
    if (what == 2 && random.is_lucky(4))
        return change_forest(given, 20, [&](auto &forest) {
            forest = copy_with_room<Case>(*forest, draw_larger(given, random));
        });
    if (what == 3) return mutate_feature_weights(given, random);
    std::size_t n_columns = 0;
    given.for_each_column([&](auto &, std::size_t) { ++n_columns; });
    const std::size_t chosen = random.below(n_columns);
    std::size_t k = 0;
    given.for_each_column([&](auto &column, std::size_t width) {
        if (k++ != chosen) return;
        if (what == 4)
            resize(column, width, random);
        else
            mutate_element(column, random);
    });
}

// The first forests

template <class Case>
std::vector<std::uint8_t> build_case(std::uint8_t model, std::size_t kind, std::size_t variant) {
    Random random(100 * kind + variant);
    Case given;
    Settings &s = given.settings;
    s.model = model;
    s.n_numbers = std::array{1U, 3U, 0U, 2U}[kind];
    s.n_codes = std::array<std::uint8_t, 4>{0, 0, 2, 1}[kind];
    s.room[0] = 3, s.room[1] = 40;
    if (Case::kIsBounded) s.n_numbers = 1 + static_cast<std::uint32_t>(kind), s.n_codes = 0;
    s.rows_seed = static_cast<std::uint32_t>(random.next());
    s.n_classes = static_cast<std::uint16_t>(1 + random.below(4));
    s.capacity = static_cast<std::uint16_t>(s.n_classes + random.below(s.n_classes + 1U));
    if (Case::kIsBounded) {
        given.bounds.assign(s.n_numbers, -2);
        given.bounds.resize(2 * s.n_numbers, 3);
    }
    s.split_pure = variant % 2;
    s.predict_extends = variant == 2;
    s.use_aggregation = variant != 3;
    if (variant == 4 && !Case::kIsBounded) s.lifetime = 5;
    if (variant == 4 && !Case::kIsBounded && HasTables<typename Case::Labels>) s.discount = 2;
    if (variant == 5) s.max_nodes = 9;
    if (variant == 6) s.charge_first = 1, s.step = 0.25;
    const std::size_t n_trees = 1 + random.below(2);
    given.flat.n_nodes.resize(n_trees);
    given.flat.n_rows.resize(n_trees);
    for (std::size_t i = 0; i < 4 * n_trees; ++i) given.flat.seeds.push_back(random.next());
    if (variant == 7) mutate_feature_weights(given, random);
    const auto forest = given.restore();
    RowSource<Case> rows(given, random);
    for (std::size_t i = 0, n = 1 + random.below(8); i < n; ++i)
        learn(*forest, given, rows.draw(1, Use::kLearn), Way::kBatch);
    return given.save(*forest).encode();
}

template <class Case>
std::vector<std::uint8_t> build_adaptive_case(std::uint8_t model, std::size_t kind,
                                              std::size_t variant) {
    Random random(100 * kind + variant);
    Case given;
    AdaptiveSettings &s = given.settings;
    s.model = model;
    s.n_numbers = std::array{1U, 3U, 0U, 2U}[kind];
    s.n_codes = std::array<std::uint8_t, 4>{0, 0, 2, 1}[kind];
    s.room[0] = 3, s.room[1] = 40;
    s.rows_seed = static_cast<std::uint32_t>(random.next());
    s.n_classes = static_cast<std::uint16_t>(1 + random.below(4));
    s.capacity = static_cast<std::uint16_t>(s.n_classes + random.below(s.n_classes + 1U));
    s.n_groups = static_cast<std::uint8_t>(1 + variant % 3);
    s.kind[0] = variant % 2 == 1 ? s.kHonest : 0, s.kind[1] = s.kBase;
    s.kind[2] = variant % 2 == 1 ? s.kBase | s.kHonest : 0;
    if (variant == 4) s.kind[0] = s.kPlain;
    s.split_pure = variant % 2;
    for (std::uint64_t &memory : s.memory) memory = random.among({8UL, 12UL, 60UL, kUnlimited});
    s.row_limit = random.among({16UL, 65'536UL});
    s.n_candidates = random.among<std::uint16_t>({1, 30, 300}); // the last ones take some rows
    if (variant == 5) s.max_nodes = 4'000;
    const std::vector<Rng::State> seeds(given.n_trees(), {random.next(), random.next(), 3, 4});
    const auto forest = given.start(seeds);
    // A regrowth starts near row 16, and is sometimes under way.
    const std::size_t n_rows = 2 + random.below(variant < 2 ? 8 : 28);
    for (std::size_t i = 0; i < n_rows; ++i)
        learn(*forest, given, RowSource<Case>(given, random).draw(1, Use::kLearn), Way::kBatch);
    return given.save(*forest).encode();
}

void make_corpus(const std::string &folder) {
    for (std::size_t kind = 0; kind < 4; ++kind)
        for (std::size_t variant = 0; variant < 8; ++variant)
            for (std::uint8_t model = 0; model < kModels; ++model) {
                const auto bytes = with_case({&model, 1}, [&]<class Case>() {
                    if constexpr (Case::kIsAdaptive)
                        return build_adaptive_case<Case>(model, kind, variant);
                    else
                        return build_case<Case>(model, kind, variant);
                });
                const std::string name = std::to_string(model) + '-' + std::to_string(kind) + '-' +
                                         std::to_string(variant);
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
    with_case(bytes, [&]<class Case>() { try_out<Case>(bytes); });
    return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t *data, std::size_t size,
                                               std::size_t max_size, unsigned seed) {
    Random random(seed);
    if (random.is_lucky(16)) return LLVMFuzzerMutate(data, size, max_size);
    const Bytes bytes(data, size);
    const auto mutated = with_case(bytes, [&]<class Case>() {
        Case given = Case::decode(bytes);
        // What is refused is refused early: so half of the time a valid forest has to stay valid.
        const bool stays_valid = random.is_lucky(2) && is_valid(given);
        for (std::size_t n = 1 + random.below(4); n > 0; --n) {
            Case next = given;
            mutate(next, random);
            if (!stays_valid || is_valid(next)) given = std::move(next);
        }
        return given.encode();
    });
    if (mutated.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
    std::memcpy(data, mutated.data(), mutated.size());
    return mutated.size();
}
