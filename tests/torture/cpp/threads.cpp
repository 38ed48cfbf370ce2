// One learner and eight threads that forecast, on one forest, watched by ThreadSanitizer.
//
// Claimed: no data race; each forecast is that of a moment between two calls that learn, bit for
// bit; and the learner gets on however much is forecast. To show the second, the learner first does
// to a twin of the forest, which nobody else knows, what it then does to the forest, and notes how
// the twin forecasts some rows. The threads note what they got. The notes are compared in the end:
// until then nothing but the forest's own locks synchronises the threads, which could hide a race.
//
//     threads SECONDS
#include <sys/mman.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <unordered_set>

#include "fuzz_case.hpp"

using namespace amforest;

// In the place of mremap (--wrap), of which ThreadSanitizer does not know: it would take what other
// threads once did at the new address for races.
extern "C" void *__wrap_mremap(void *from, std::size_t before, std::size_t bytes, int, ...) {
    void *const to = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (to == MAP_FAILED) return to;
    std::memcpy(to, from, before);
    ::munmap(from, before);
    return to;
}

namespace {

constexpr std::size_t kThreads = 8, kTrees = 5, kProbes = 4, kMostNotes = 50'000;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
    return std::chrono::duration<double>(Clock::now() - start).count();
}

void hold(bool holds, const char *claim) {
    if (holds) return;
    std::fprintf(stderr, "VIOLATED: %s\n", claim);
    std::exit(1);
}

using Hash = std::uint64_t;

Hash hash_of(std::span<const double> forecast) { // FNV, of the bits
    Hash hash = 0xcbf29ce484222325 + forecast.size();
    for (const double value : forecast)
        hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3;
    return hash;
}

// Forests of one kind, and rows for them.
template <class Labels> struct Kind {
    using Label = typename Labels::Label;
    static constexpr bool kHasClasses = Case<Labels>::kHasClasses;

    const char *name;
    Case<Labels> start; // has learnt nothing
    bool has_gaps = false, has_weights = false;

    std::unique_ptr<Forest<Labels>> forest() const { return restored_forest(start); }

    std::vector<float> rows(Rng &rng, std::size_t n_rows) const {
        const Layout layout = start.layout();
        std::vector<float> values;
        for (std::size_t i = 0; i < n_rows; ++i) {
            for (const std::uint32_t room : layout.categories.room())
                values.push_back(std::floor(static_cast<float>(rng.uniform() * room)));
            for (std::size_t j = 0; j < layout.n_numbers; ++j)
                values.push_back(has_gaps && rng.uniform() < 0.1
                                     ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(rng.uniform()));
        }
        return values;
    }

    Label label(Rng &rng, std::size_t n_classes) const {
        if constexpr (kHasClasses)
            return static_cast<Label>(rng.uniform() * static_cast<double>(n_classes));
        return static_cast<Label>(rng.uniform());
    }

    Matrix matrix(const std::vector<float> &values) const {
        const std::size_t width = start.layout().n_features();
        return {values.data(), values.size() / width, width};
    }
};

// What the learner does next: the same to both forests.
template <class Labels> struct Lesson {
    std::vector<float> X;
    std::vector<typename Labels::Label> y;
    std::vector<double> weights;
    std::optional<ClassPrior> prior;

    Lesson(const Kind<Labels> &kind, Rng &rng, std::size_t n_classes) {
        const auto &settings = kind.start.settings;
        if (kind.kHasClasses && n_classes < settings.capacity && rng.uniform() < 0.02)
            prior = ClassPrior(++n_classes, settings.dirichlet);
        const std::size_t n_rows =
            rng.uniform() < 0.8 ? 1 : 1 + static_cast<std::size_t>(rng.uniform() * 200);
        X = kind.rows(rng, n_rows);
        for (std::size_t i = 0; i < n_rows; ++i) y.push_back(kind.label(rng, n_classes));
        if (kind.has_weights)
            for (std::size_t i = 0; i < n_rows; ++i) weights.push_back(2 * rng.uniform());
    }

    void give(const Kind<Labels> &kind, Forest<Labels> &forest) const {
        const Matrix rows = kind.matrix(X);
        if (rows.n_rows == 1 && !prior)
            return forest.learn(rows, y[0], weights.empty() ? 1.0 : weights[0]);
        typename Forest<Labels>::Batch batch(forest, rows.n_rows, weights, 0, prior);
        batch.learn(rows, y, weights, 2);
    }
};

// The forecasts of the probes at one moment, or nothing if a class became known meanwhile.
template <class Labels>
std::optional<Hash> forecast(const Forest<Labels> &forest, const Matrix &probes, std::size_t way) {
    const std::size_t n = probes.n_rows, entries = forest.forecast_size();
    std::vector<double> out(n * entries), by_tree(n * kTrees * entries);
    if (way == 0) {
        forest.predict(probes, out.data(), entries, 1);
    } else { // the mean of the trees' forecasts
        forest.predict_by_tree(probes, by_tree.data(), entries, 2);
        for (std::size_t i = 0; i < n; ++i)
            for (std::size_t t = 0; t < kTrees; ++t)
                for (std::size_t k = 0; k < entries; ++k)
                    out[i * entries + k] += by_tree[(i * kTrees + t) * entries + k];
        for (double &value : out) value /= kTrees;
    }
    if (forest.forecast_size() != entries) return {};
    return hash_of(out);
}

template <class Labels>
std::optional<Hash> forecast_row(const Forest<Labels> &forest, const Matrix &probe) {
    std::vector<double> out(forest.forecast_size());
    if (forest.predict_row(probe, out) != out.size()) return {};
    return hash_of(out);
}

// What a thread saw: of all probes together (the last entry), and of each.
struct Notes {
    std::array<std::vector<Hash>, kProbes + 1> seen;
    std::size_t n_looks = 0, n_restored = 0;

    void note(std::size_t of, std::optional<Hash> hash) {
        if (hash && seen[of].size() < kMostNotes) seen[of].push_back(*hash);
    }
};

// All that may be asked of a forest, again and again.
template <class Labels>
void look(const Kind<Labels> &kind, const Forest<Labels> &forest, const Matrix &probes,
          const std::atomic<bool> &stop, std::size_t thread, Notes &notes) {
    std::vector<double> depth(kProbes * kTrees);
    std::vector<std::int64_t> leaves(kProbes * kTrees);
    for (std::size_t k = thread; !stop.load(std::memory_order_relaxed); ++k, ++notes.n_looks) {
        switch (k % 16) {
        case 0:
            notes.note(kProbes, forecast(forest, probes, 0));
            break;
        case 1:
            notes.note(kProbes, forecast(forest, probes, 1));
            break;
        case 2:
            forest.weighted_depth(probes, depth.data(), 1);
            break;
        case 3:
            forest.apply(probes, leaves.data(), 1);
            break;
        case 4:
            hold(forest.bytes() > 0 && forest.n_nodes() > 0, "sizes are positive");
            hold(forest.depths().size() == kTrees && forest.total_weight() > 0, "and the others");
            break;
        case 5:
            if (k % 64 == 5) { // what is saved is of one moment, too
                const std::size_t entries = forest.forecast_size();
                const Case<Labels> copy = saved(kind.start, forest);
                if (forest.forecast_size() != entries) break; // a class became known meanwhile
                notes.note(kProbes, forecast(*restored_forest(copy), probes, 0));
                ++notes.n_restored;
            }
            break;
        default:
            notes.note(k % kProbes, forecast_row(forest, probes.rows(k % kProbes, 1)));
        }
    }
}

struct Rates {
    double alone = 0, among_others = 0;
};

// Learns for some seconds; returns the rows per second of the time that learning took, waiting
// included. Fills in how the twin forecast the probes.
template <class Labels>
double learn(const Kind<Labels> &kind, Forest<Labels> &forest, Forest<Labels> &twin, Rng &rng,
             const Matrix &probes, double seconds,
             std::array<std::unordered_set<Hash>, kProbes + 1> &published) {
    const auto publish = [&] {
        published[kProbes].insert(*forecast(twin, probes, 0));
        for (std::size_t p = 0; p < kProbes; ++p)
            published[p].insert(*forecast_row(twin, probes.rows(p, 1)));
    };
    publish();
    double busy = 0;
    std::size_t n_rows = 0;
    for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
        const Lesson<Labels> lesson(kind, rng, twin.forecast_size());
        lesson.give(kind, twin);
        publish();
        const auto begin = Clock::now();
        lesson.give(kind, forest);
        busy += seconds_since(begin);
        n_rows += lesson.y.size();
    }
    return static_cast<double>(n_rows) / busy;
}

template <class Labels> void run(const Kind<Labels> &kind, double seconds, std::uint64_t seed) {
    Rng rng({seed, 2, 3, 4});
    const auto forest = kind.forest(), twin = kind.forest();
    const std::vector<float> values = kind.rows(rng, kProbes);
    const Matrix probes = kind.matrix(values);
    std::array<std::unordered_set<Hash>, kProbes + 1> published;
    Rates rates;
    rates.alone = learn(kind, *forest, *twin, rng, probes, seconds / 5, published);
    std::array<Notes, kThreads> notes;
    std::atomic<bool> stop = false;
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < kThreads; ++t)
            threads.emplace_back([&, t] { look(kind, *forest, probes, stop, t, notes[t]); });
        rates.among_others = learn(kind, *forest, *twin, rng, probes, seconds, published);
        stop = true;
    }
    std::size_t n_looks = 0, n_compared = 0, n_restored = 0;
    for (const Notes &own : notes) {
        n_looks += own.n_looks;
        n_restored += own.n_restored;
        for (std::size_t p = 0; p <= kProbes; ++p)
            for (const Hash hash : own.seen[p]) {
                hold(published[p].contains(hash), "a forecast is that of some moment");
                ++n_compared;
            }
    }
    hold(n_compared > 0 && n_restored > 0, "there was something to compare");
    hold(rates.among_others > 0, "the learner gets on");
    std::printf("{\"kind\": \"%s\", \"looks\": %zu, \"compared\": %zu, \"moments\": %zu, "
                "\"samples\": %zu, \"alone\": %.0f, \"among_others\": %.0f}\n",
                kind.name, n_looks, n_compared, published[kProbes].size(), forest->n_samples(),
                rates.alone, rates.among_others);
    std::fflush(stdout);
}

template <class Labels> Kind<Labels> kind_of(const char *name, std::uint32_t n_numbers) {
    Kind<Labels> kind{name, {}};
    kind.start.settings.n_numbers = n_numbers;
    kind.start.settings.capacity = 5;
    kind.start.flat.n_nodes.resize(kTrees);
    for (std::uint64_t word = 1; word <= 4 * kTrees; ++word) kind.start.flat.seeds.push_back(word);
    return kind;
}

} // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
    auto classes = kind_of<ClassCounts<std::uint32_t>>("classes, categories, gaps", 2);
    classes.start.settings.n_codes = 1;
    classes.start.settings.room[0] = 7;
    classes.has_gaps = true;
    auto numbers = kind_of<RunningMean>("numbers, gaps, extends", 3);
    numbers.start.settings.predict_extends = 1;
    numbers.has_gaps = true;
    auto weighted = kind_of<ClassCounts<double>>("weighted classes, smoothing", 3);
    weighted.start.settings.discount = 2;
    weighted.has_weights = true;
    auto box = kind_of<RunningMean>("numbers, unrestricted", 2);
    box.start.bounds = {0, 0, 1, 1};
    // In rounds, so that forests stay small and threads come and go.
    const auto start = Clock::now();
    const double each = std::min(5.0, seconds / 5);
    for (std::uint64_t round = 1; seconds_since(start) < seconds; ++round) {
        run(classes, each, round);
        run(numbers, each, round);
        run(weighted, each, round);
        run(box, each, round);
    }
}
