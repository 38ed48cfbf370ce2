// One learner and eight predicting threads on one forest, under ThreadSanitizer.
//
// The claims: there is no data race; each prediction is that of a moment between two calls that
// change the forest, bit for bit; and the learner makes progress however much is predicted. The
// learner learns rows. From time to time it replaces the forest by a copy with room for more
// features, categories and classes, and continues with that; the others continue with the one they
// have for some calls. To test the second claim, the learner first changes a twin of the forest,
// which no other thread reads, and records its predictions of some rows. The threads record theirs.
// The records are compared at the end: until then little but the forest's own locks synchronises
// the threads, which could hide a race.
//
//     threads SECONDS
#include <sys/mman.h>

#include <array>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>

#include "adaptive_case.hpp"
#include "fuzz_case.hpp"

using namespace amforest;

// Replaces mremap (--wrap), which ThreadSanitizer does not intercept: it would report what other
// threads once did at the new address as races.
extern "C" void *__wrap_mremap(void *from, std::size_t before, std::size_t bytes, int, ...) {
    void *const to = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (to == MAP_FAILED) return to;
    std::memcpy(to, from, before);
    ::munmap(from, before);
    return to;
}

namespace {

constexpr std::size_t kThreads = 8, kTrees = 5, kProbes = 4, kMostRecords = 50'000;
constexpr std::size_t kCalls = 64; // of a thread, before it takes the current forest
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

Hash hash_of(std::span<const double> prediction) { // FNV, of the bits
    Hash hash = 0xcbf29ce484222325 + prediction.size();
    for (const double value : prediction)
        hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x100000001b3;
    return hash;
}

// Groups of one tree each, which are regrown for some rows.
template <class Task> struct SharedAdaptive {
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Parameters = typename Labels::Parameters;
    using Forest = AdaptiveForest<Task>;
    using Tree = typename Forest::Tree;

    static constexpr bool kHasClasses = std::is_integral_v<Label>;
    static constexpr bool kIsBounded = false, kIsAdaptive = true;

    Settings settings;
    std::optional<SavedAdaptive<Task>> saved = {};

    std::unique_ptr<Forest> restore() {
        if (saved) return saved->restore();
        constexpr bool kBase = Task::kHasBases;
        AdaptiveOptions options{{{kUnlimited},
                                 {60, false, false, kBase},
                                 {15},
                                 {60, true, false, kBase},
                                 {kUnlimited, false, true}},
                                kTrees / 5,
                                300,
                                200,
                                0.01};
        const Layout layout = settings.layout();
        typename Forest::Common common{
            layout, first_columns(layout), settings.options(), std::move(options),
            std::make_shared<Parameters>(settings.valid_parameters<Parameters>())};
        return std::make_unique<Forest>(std::move(common),
                                        std::vector<Rng::State>(kTrees, {1, 2, 3, 4}));
    }
    SharedAdaptive save(const Forest &forest) const {
        return {settings, SavedAdaptive<Task>::of(forest)};
    }
};

// Forests of one kind.
template <class Case> struct Kind {
    const char *name;
    Case start; // has learned nothing
    bool has_gaps = false, has_weights = false;
};

// Rows of the layout of the settings.
template <class Case>
std::vector<float> draw_rows(const Kind<Case> &kind, const Settings &settings, Rng &rng,
                             std::size_t n_rows) {
    std::vector<float> values;
    for (std::size_t i = 0; i < n_rows; ++i) {
        for (const std::uint32_t room : settings.rooms())
            values.push_back(std::floor(static_cast<float>(rng.uniform() * room)));
        for (std::size_t j = 0; j < settings.n_numbers; ++j)
            values.push_back(kind.has_gaps && rng.uniform() < 0.1
                                 ? std::numeric_limits<float>::quiet_NaN()
                                 : static_cast<float>(rng.uniform()));
    }
    return values;
}

Matrix matrix_of(const std::vector<float> &values, const Settings &settings) {
    const std::size_t width = settings.layout().n_features();
    return {values.data(), values.size() / width, width};
}

// What the learner does next: the same to both forests.
template <class Case> class Lesson {
    using Forest = typename Case::Forest;
    using Label = typename Case::Label;

  public:
    // `settings` are those of the forest, and become those after the lesson.
    Lesson(const Kind<Case> &kind, Rng &rng, Settings &settings) {
        const double chance = rng.uniform();
        adds_class_ = chance < 0.02 && settings.n_classes < settings.capacity;
        if (adds_class_) ++settings.n_classes;
        needs_room_ = chance > 0.9;
        if (needs_room_) enlarge(rng, settings);
        settings_ = settings;
        const std::size_t n_rows =
            rng.uniform() < 0.8 ? 1 : 1 + static_cast<std::size_t>(rng.uniform() * 200);
        X_ = draw_rows(kind, settings, rng, n_rows);
        for (std::size_t i = 0; i < n_rows; ++i) y_.push_back(draw_label(rng));
        if (kind.has_weights)
            for (std::size_t i = 0; i < n_rows; ++i) weights_.push_back(2 * rng.uniform());
    }

    std::size_t n_rows() const { return y_.size(); }
    bool needs_room() const { return needs_room_; }

    // Both are moments of their own.
    std::unique_ptr<Forest> larger_copy(const Forest &forest) const {
        return std::make_unique<Forest>(forest, settings_.layout(), parameters());
    }
    void learn(Forest &forest) const {
        const Matrix rows = matrix_of(X_, settings_);
        if (rows.n_rows == 1 && !adds_class_)
            return hold(forest.learn(rows, y_[0], weights_.empty() ? 1.0 : weights_[0]),
                        "few rows are learned");
        const auto next = adds_class_ ? std::optional(parameters()) : std::nullopt;
        typename Forest::Batch(forest, rows.n_rows, weights_, 0, next).learn(rows, y_, weights_, 2);
    }

  private:
    // Bounds settle the features.
    static void enlarge(Rng &rng, Settings &settings) {
        const auto is_lucky = [&] { return rng.uniform() < 0.5; };
        if (is_lucky() && settings.n_classes < 12) {
            settings.capacity = static_cast<std::uint16_t>(settings.n_classes + 3);
            if (is_lucky()) ++settings.n_classes;
        }
        if (Case::kIsBounded) return;
        if (is_lucky() && settings.n_numbers < 12) ++settings.n_numbers;
        if (is_lucky() && settings.n_codes < std::size(settings.room))
            settings.room[settings.n_codes++] = 3;
        for (std::uint16_t &room : std::span(settings.room).first(settings.n_codes))
            if (is_lucky() && room < 100) room = static_cast<std::uint16_t>(room + 5);
    }

    auto parameters() const {
        return settings_.template valid_parameters<typename Case::Parameters>();
    }

    Label draw_label(Rng &rng) const {
        if constexpr (Case::kHasClasses)
            return static_cast<Label>(rng.uniform() * static_cast<double>(settings_.n_classes));
        else
            return rng.uniform();
    }

    Settings settings_;
    bool adds_class_ = false, needs_room_ = false;
    std::vector<float> X_;
    std::vector<Label> y_;
    std::vector<double> weights_;
};

// The predictions of the probes at one moment.
template <class Forest> Hash predict(const Forest &forest, const Matrix &probes) {
    std::vector<double> out;
    forest.predict(probes, out, 1);
    return hash_of(out);
}

// The same as the mean of the trees' predictions.
template <class Forest> Hash predict_by_tree(const Forest &forest, const Matrix &probes) {
    std::vector<double> by_tree;
    const std::size_t size = forest.predict_by_tree(probes, by_tree, 2);
    std::vector<double> out(probes.n_rows * size);
    for (std::size_t i = 0; i < probes.n_rows; ++i)
        for (std::size_t t = 0; t < kTrees; ++t)
            for (std::size_t k = 0; k < size; ++k)
                out[i * size + k] += by_tree[(i * kTrees + t) * size + k];
    for (double &value : out) value /= kTrees;
    return hash_of(out);
}

// The predictions that a thread got: of each probe, and of all together (the last entry).
struct Records {
    std::array<std::vector<Hash>, kProbes + 1> seen;
    std::size_t n_calls = 0, n_restored = 0, n_copied = 0;

    void add(std::size_t probe, Hash hash) {
        if (seen[probe].size() < kMostRecords) seen[probe].push_back(hash);
    }
};

// Sizes of one moment.
template <class Case> void check_sizes(const typename Case::Forest &forest) {
    hold(forest.chunk_size() > 0 && forest.prediction_size() > 0, "sizes are positive");
    forest.inspect([&](const auto &, std::span<const typename Case::Tree> trees, std::size_t) {
        hold(trees.size() == kTrees, "trees stay");
        for (const auto &tree : trees) {
            hold(tree.bytes() > 0 && tree.n_nodes() > 0 && tree.total_weight() > 0,
                 "sizes are positive");
            hold(depth_of(tree.arena()) >= 0, "depths are those of nodes");
            hold(Case::kIsAdaptive || tree.arena().layout() == forest.layout(),
                 "trees have the layout of the forest");
        }
    });
}

// A forest, and rows of its layout to predict.
template <class Case> struct Version {
    std::shared_ptr<typename Case::Forest> forest;
    std::vector<float> values;
    Settings settings;

    Matrix probes() const { return matrix_of(values, settings); }
};

// The current version. The learner locks it only to replace it, and the others seldom, because this
// synchronises the threads.
template <class Case> class Current {
  public:
    std::shared_ptr<const Version<Case>> get() const {
        const std::lock_guard lock(mutex_);
        return version_;
    }

    // The version before goes when the last thread that has it takes this one.
    void replace(std::shared_ptr<const Version<Case>> version) {
        const std::lock_guard lock(mutex_);
        version_.swap(version);
    }

  private:
    mutable std::mutex mutex_;
    std::shared_ptr<const Version<Case>> version_;
};

// The predictions of a copy that is made while the learner learns. None if a class was added since
// the parameters were read.
template <class Forest>
std::optional<Hash> predict_by_copy(const Forest &forest, const Matrix &probes) {
    const auto parameters = forest.inspect([](const auto &now, auto, auto) { return now; });
    try {
        return predict(Forest(forest, forest.layout(), parameters), probes);
    } catch (const std::invalid_argument &) {
        return std::nullopt;
    }
}

// Calls all that predicts or inspects, again and again.
template <class Case>
void predict_until(const std::atomic<bool> &stop, const Kind<Case> &kind,
                   const Current<Case> &current, std::size_t thread, Records &records) {
    std::vector<double> depth(kProbes * kTrees);
    std::vector<std::int64_t> leaves(kProbes * kTrees);
    auto version = current.get();
    for (std::size_t k = thread; !stop.load(std::memory_order_relaxed); ++k, ++records.n_calls) {
        if (k % kCalls == 0) version = current.get();
        const typename Case::Forest &forest = *version->forest;
        const Matrix probes = version->probes();
        switch (k % 16) {
        case 0:
            records.add(kProbes, predict(forest, probes));
            break;
        case 1: // a mixer, and no mean, combines the trees of an adaptive forest
            if (const Hash hash = predict_by_tree(forest, probes); !Case::kIsAdaptive)
                records.add(kProbes, hash);
            break;
        case 2:
            forest.weighted_depth(probes, depth.data(), 1);
            break;
        case 3:
            forest.apply(probes, leaves.data(), 1);
            break;
        case 4:
            check_sizes<Case>(forest);
            break;
        case 5: // a saved forest is that of one moment, too
            if (k % 64 != 5) break;
            records.add(kProbes, predict(*kind.start.save(forest).restore(), probes));
            ++records.n_restored;
            break;
        case 6:
            if (k % 64 != 6) break;
            if (const auto hash = predict_by_copy(forest, probes)) {
                records.add(kProbes, *hash);
                ++records.n_copied;
            }
            break;
        default:
            records.add(k % kProbes, predict(forest, probes.rows(k % kProbes, 1)));
        }
    }
}

// One forest, its twin, and what the twin predicted so far.
template <class Case> class Pair {
    using Forest = typename Case::Forest;

  public:
    Pair(Kind<Case> &kind, Rng &rng)
        : kind_(kind), rng_(rng), settings_(kind.start.settings), twin_(kind.start.restore()) {
        replace(kind.start.restore());
    }

    const Current<Case> &current() const { return current_; }
    std::size_t n_enlarged() const { return n_enlarged_; }
    std::size_t n_moments() const { return published_[kProbes].size(); }
    bool has_predicted(std::size_t probe, Hash hash) const {
        return published_[probe].contains(hash);
    }

    // Learns for some seconds; returns the rows per second of the time that learning took, waiting
    // included.
    double learn(double seconds) {
        double busy = 0;
        std::size_t n_rows = 0;
        for (const auto start = Clock::now(); seconds_since(start) < seconds;) {
            const Lesson<Case> lesson(kind_, rng_, settings_);
            if (lesson.needs_room()) {
                twin_ = lesson.larger_copy(*twin_);
                replace(lesson.larger_copy(*version_->forest));
                ++n_enlarged_;
            }
            lesson.learn(*twin_);
            publish();
            const auto begin = Clock::now();
            lesson.learn(*version_->forest);
            busy += seconds_since(begin);
            n_rows += lesson.n_rows();
        }
        return static_cast<double>(n_rows) / busy;
    }

  private:
    // Replaces the forest by one that is the same as the twin.
    void replace(std::unique_ptr<Forest> forest) {
        version_ = std::make_shared<const Version<Case>>(Version<Case>{
            std::move(forest), draw_rows(kind_, settings_, rng_, kProbes), settings_});
        publish();
        current_.replace(version_);
    }

    void publish() {
        const Matrix probes = version_->probes();
        published_[kProbes].insert(predict(*twin_, probes));
        for (std::size_t p = 0; p < kProbes; ++p)
            published_[p].insert(predict(*twin_, probes.rows(p, 1)));
    }

    const Kind<Case> &kind_;
    Rng &rng_;
    Settings settings_; // of both
    std::unique_ptr<Forest> twin_;
    std::shared_ptr<const Version<Case>> version_; // the learner's own: it needs no lock
    Current<Case> current_;
    std::array<std::unordered_set<Hash>, kProbes + 1> published_;
    std::size_t n_enlarged_ = 0;
};

template <class Case> void run(Kind<Case> kind, double seconds, std::uint64_t seed) {
    Rng rng({seed, 2, 3, 4});
    Pair<Case> pair(kind, rng);
    const double alone = pair.learn(seconds / 5);
    std::array<Records, kThreads> records;
    std::atomic<bool> stop = false;
    double among_others = 0;
    {
        std::vector<std::jthread> threads;
        for (std::size_t t = 0; t < kThreads; ++t)
            threads.emplace_back(
                [&, t] { predict_until(stop, kind, pair.current(), t, records[t]); });
        among_others = pair.learn(seconds);
        stop = true;
    }
    std::size_t n_calls = 0, n_compared = 0, n_restored = 0, n_copied = 0;
    for (const Records &own : records) {
        n_calls += own.n_calls;
        n_restored += own.n_restored;
        n_copied += own.n_copied;
        for (std::size_t p = 0; p <= kProbes; ++p)
            for (const Hash hash : own.seen[p]) {
                hold(pair.has_predicted(p, hash), "a prediction is that of some moment");
                ++n_compared;
            }
    }
    hold(n_compared > 0 && n_restored > 0 && n_copied > 0, "there are predictions to compare");
    hold(among_others > 0, "the learner makes progress");
    const std::size_t n_samples = pair.current().get()->forest->inspect(
        [](const auto &, auto, std::size_t n_rows) { return n_rows; });
    std::printf("{\"kind\": \"%s\", \"inspections\": %zu, \"compared\": %zu, \"moments\": %zu, "
                "\"samples\": %zu, \"enlarged\": %zu, \"alone\": %.0f, \"among_others\": %.0f}\n",
                kind.name, n_calls, n_compared, pair.n_moments(), n_samples, pair.n_enlarged(),
                alone, among_others);
    std::fflush(stdout);
}

template <class Partition, class Labels>
Kind<Case<Partition, Labels>> kind_of(const char *name, std::uint32_t n_numbers) {
    Kind<Case<Partition, Labels>> kind{name, {}};
    kind.start.settings.n_numbers = n_numbers;
    kind.start.settings.capacity = 3;
    kind.start.flat.n_nodes.resize(kTrees);
    kind.start.flat.n_rows.resize(kTrees);
    for (std::uint64_t word = 1; word <= 4 * kTrees; ++word) kind.start.flat.seeds.push_back(word);
    return kind;
}

} // namespace

int main(int argc, char **argv) {
    const double seconds = argc > 1 ? std::atof(argv[1]) : 10;
    auto classes = kind_of<Restricted, ClassCounts<std::uint32_t>>("classes, categories, gaps", 2);
    classes.start.settings.n_codes = 1;
    classes.start.settings.room[0] = 7;
    classes.has_gaps = true;
    auto numbers = kind_of<Restricted, RunningMean>("numbers, gaps, extends", 3);
    numbers.start.settings.predict_extends = 1;
    numbers.start.flat.feature_weights.assign(3 * kTrees, 0.7F);
    numbers.has_gaps = true;
    auto weighted = kind_of<Restricted, ClassCounts<double>>("weighted classes, smoothing", 3);
    weighted.start.settings.discount = 2;
    weighted.has_weights = true;
    auto bounded = kind_of<Unrestricted, ClassCounts<std::uint32_t>>("classes, unrestricted", 2);
    bounded.start.bounds = {0, 0, 1, 1};
    Kind<SharedAdaptive<ClassTask>> adaptive{"adaptive, categories, gaps, weights", {}, true, true};
    adaptive.start.settings = classes.start.settings;
    Kind<SharedAdaptive<NumberTask>> adaptive_numbers{
        "adaptive numbers, categories, gaps, weights", {}, true, true};
    adaptive_numbers.start.settings = classes.start.settings;
    // In rounds, so that forests stay small and threads come and go.
    const auto start = Clock::now();
    const double each = std::min(5.0, seconds / 7);
    for (std::uint64_t round = 1; seconds_since(start) < seconds; ++round) {
        run(classes, each, round);
        run(numbers, each, round);
        run(weighted, each, round);
        run(bounded, each, round);
        run(adaptive, each, round);
        run(adaptive_numbers, each, round);
    }
}
