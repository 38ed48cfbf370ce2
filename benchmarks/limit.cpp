// Learns a stream, counts the bytes it loads, and measures how fast this machine can read them.
//
// limit FILE ROWS FEATURES CLASSES TIMED prints, per sample of the last tenth of the stream, the
// CPU seconds, nodes visited and bytes loaded; the forest's bytes; the read bandwidth of a block of
// that size, in bytes per second; and where the seconds go (see `Parts`). As many forests learn as
// are needed to time so many rows. The file holds float32 features, then uint32 labels.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <fstream>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "amforest/forest.hpp"
#include "amforest/labels/class_counts.hpp"

using namespace amforest;

namespace {

using Counts = ClassCounts<std::uint32_t>;
using Classifier = Forest<Restricted, Counts>;

constexpr std::uint64_t kTrees = 10;

using Lanes [[gnu::vector_size(32)]] = std::uint64_t;

double cpu_seconds() {
    timespec now{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

#if defined(__x86_64__)
[[gnu::target("avx2")]]
#endif
std::uint64_t sum(const std::vector<Lanes> &block) {
    std::array<Lanes, 8> sums{}; // enough of them that loads, not additions, take the time
    for (std::size_t i = 0; i + sums.size() <= block.size(); i += sums.size())
        for (std::size_t j = 0; j < sums.size(); ++j) sums[j] += block[i + j];
    for (const Lanes &other : sums) sums[0] += other;
    return sums[0][0] + sums[0][3];
}

// The best of some passes over the block, each long enough to be timed.
double read_bandwidth(std::size_t bytes) {
    const std::vector<Lanes> block(bytes / sizeof(Lanes) + 1, Lanes{1, 2, 3, 4});
    const std::size_t passes = 1 + (std::size_t{1} << 28) / bytes;
    volatile std::uint64_t sink = 0; // so that the compiler keeps the sums
    double best = 0;
    for (int repetition = 0; repetition < 7; ++repetition) {
        const double start = cpu_seconds();
        for (std::size_t pass = 0; pass < passes; ++pass) sink = sink + sum(block);
        const double seconds = cpu_seconds() - start;
        best = std::max(best, static_cast<double>(passes * bytes) / seconds);
    }
    return best;
}

struct Stream {
    std::size_t n_rows, n_features, n_classes;
    std::vector<float> X;
    std::vector<std::uint32_t> y;

    std::size_t last_tenth() const { return n_rows - n_rows / 10; }
    Layout layout() const { return {Categories(), n_features}; }
    Matrix matrix(std::size_t first, std::size_t count) const {
        return {&X[first * n_features], count, n_features};
    }
};

bool read(Stream &stream, const char *path) {
    stream.X.resize(stream.n_rows * stream.n_features);
    stream.y.resize(stream.n_rows);
    std::ifstream file(path, std::ios::binary);
    const auto read_all = [&file](auto &values) {
        file.read(reinterpret_cast<char *>(values.data()),
                  static_cast<std::streamsize>(4 * values.size()));
    };
    read_all(stream.X);
    read_all(stream.y);
    return static_cast<bool>(file);
}

Classifier::Common common_of(const Stream &stream) {
    const std::size_t k = stream.n_classes;
    ClassParameters parameters{.n_classes = k, .capacity = k, .dirichlet = k > 2 ? 0.01 : 0.5};
    parameters.validate();
    return {stream.layout(), {}, {}, std::make_shared<ClassParameters>(parameters)};
}

std::vector<Classifier::Tree> build_trees(const Classifier::Common &common, std::uint64_t seed) {
    std::vector<Classifier::Tree> trees;
    std::mt19937_64 words(seed); // a state of small numbers would make all first splits at once
    for (std::size_t t = 0; t < kTrees; ++t)
        trees.emplace_back(Restricted(common.layout, common.domain, {}), common.options,
                           Counts(common.parameters),
                           Rng::State{words(), words(), words(), words()}, kTrees);
    return trees;
}

void learn(Classifier &forest, const Stream &stream, std::size_t first, std::size_t last) {
    while (first < last) {
        const std::size_t count = std::min(forest.chunk_size(), last - first);
        Classifier::Batch(forest, count, {})
            .learn(stream.matrix(first, count), {&stream.y[first], count}, {}, 1);
        first += count;
    }
}

// Reads all that learning (x, y) will read.
void fetch(const Classifier::Tree &tree, Point x, std::uint32_t y, std::vector<NodeId> &path) {
    double sum = 0;
    path.clear();
    for (NodeId v = tree.arena().root(); true;) {
        path.push_back(v);
        sum += tree.labels().count(v, y) + tree.labels().n_samples(v);
        if (is_leaf(v)) break;
        const InnerNode &node = tree.arena().inner(v);
        sum += node.weight.share;
        v = node.child[tree.side_of(node, x.values)];
    }
    for (float extension = 1; extension > 0 && !path.empty(); path.pop_back()) {
        extension = tree.arena().extension(path.back(), x);
        sum += static_cast<double>(extension);
    }
    volatile double sink = sum; // so that the compiler keeps the reads
    static_cast<void>(sink);
}

// Learning the last tenth.
struct Cost {
    double seconds = 0;
    std::uint64_t visits = 0, loaded = 0;
    std::size_t bytes = 0; // of the last forest

    void measure(const Stream &stream, std::uint64_t seed) {
        const Classifier::Common common = common_of(stream);
        Classifier forest(common, build_trees(common, seed), 0);
        learn(forest, stream, 0, stream.last_tenth());
        const Counters before = counters;
        const double start = cpu_seconds();
        learn(forest, stream, stream.last_tenth(), stream.n_rows);
        seconds += cpu_seconds() - start;
        visits += counters.visits - before.visits;
        loaded += counters.bytes - before.bytes;
        bytes = forest.inspect([](const auto &, std::span<const Classifier::Tree> trees, auto) {
            std::size_t sum = 0;
            for (const Classifier::Tree &tree : trees) sum += tree.bytes();
            return sum;
        });
    }
};

// Where the time goes. A tree learns blocks of a few rows in one of three ways, alternately: as
// they come; just after all that they read was read, so that it is in the cache; and once more,
// just after they were learned, so that moreover nothing is new.
struct Parts {
    enum Way { kAsTheyCome, kInCache, kOnceMore, kWays };

    void measure(const Stream &stream, std::uint64_t seed) {
        constexpr std::size_t kBlock = 4; // whose nodes fit into the smallest cache
        const Classifier::Common common = common_of(stream);
        const PreparedRows rows(common.layout, stream.matrix(0, stream.n_rows));
        std::vector<Classifier::Tree> trees = build_trees(common, seed);
        const auto learn = [&](Classifier::Tree &tree, std::size_t first, std::size_t count) {
            tree.learn(
                [&](std::size_t i) { return Row{rows[first + i], stream.y[first + i], 1.0}; },
                count);
        };
        for (Classifier::Tree &tree : trees) {
            tree.make_room(stream.n_rows + stream.n_rows / 10);
            learn(tree, 0, stream.last_tenth());
        }
        std::size_t n_blocks = 0;
        for (Classifier::Tree &tree : trees)
            for (std::size_t first = stream.last_tenth(); first + kBlock <= stream.n_rows;
                 first += kBlock) {
                const std::size_t way = n_blocks++ % kWays;
                if (way == kInCache)
                    for (std::size_t i = first; i < first + kBlock; ++i)
                        fetch(tree, rows[i], stream.y[i], path_);
                if (way == kOnceMore) learn(tree, first, kBlock);
                const auto start = std::chrono::steady_clock::now();
                learn(tree, first, kBlock);
                seconds_[way] +=
                    std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
                samples_[way] += kBlock;
            }
    }

    // Per sample, by all trees.
    double seconds(Way way) const {
        return kTrees * seconds_[way] / static_cast<double>(samples_[way]);
    }

  private:
    std::array<double, kWays> seconds_{};
    std::array<std::size_t, kWays> samples_{};
    std::vector<NodeId> path_;
};

} // namespace

int main(int argc, char **argv) {
    if (argc != 6) return EXIT_FAILURE;
    Stream stream{std::stoul(argv[2]), std::stoul(argv[3]), std::stoul(argv[4]), {}, {}};
    if (!read(stream, argv[1])) return EXIT_FAILURE;
    const std::size_t n_timed = std::stoul(argv[5]), tenth = stream.n_rows - stream.last_tenth();
    const std::size_t n_forests = (n_timed + tenth - 1) / tenth;
    Cost cost;
    Parts parts;
    for (std::uint64_t seed = 0; seed < n_forests; ++seed) {
        cost.measure(stream, seed);
        parts.measure(stream, seed);
    }
    const auto samples = static_cast<double>(n_forests * tenth);
    std::printf("{\"amforest\": %g, \"visits\": %g, \"bytes\": %g, \"working set\": %zu, "
                "\"bandwidth\": %g, \"as they come\": %g, \"in the cache\": %g, "
                "\"once more\": %g}\n",
                cost.seconds / samples, static_cast<double>(cost.visits) / samples,
                static_cast<double>(cost.loaded) / samples, cost.bytes, read_bandwidth(cost.bytes),
                parts.seconds(Parts::kAsTheyCome), parts.seconds(Parts::kInCache),
                parts.seconds(Parts::kOnceMore));
}
