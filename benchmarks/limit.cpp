// Learns a stream, counts what it loads, and measures how fast this machine could have read it.
//
// limit FILE ROWS FEATURES CLASSES prints, per sample of the last tenth of the stream, the CPU
// seconds, nodes visited and bytes loaded; the forest's bytes; and the read bandwidth of a block
// of that size, in bytes per second. The file holds float32 features, then uint32 labels.
#include <algorithm>
#include <array>
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

using namespace amforest;

namespace {

using Counts = ClassCounts<std::uint32_t>;

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
    volatile std::uint64_t sink = 0; // so that the sums are not left out
    double best = 0;
    for (int repetition = 0; repetition < 7; ++repetition) {
        const double start = cpu_seconds();
        for (std::size_t pass = 0; pass < passes; ++pass) sink = sink + sum(block);
        const double seconds = cpu_seconds() - start;
        best = std::max(best, static_cast<double>(passes * bytes) / seconds);
    }
    return best;
}

} // namespace

int main(int argc, char **argv) {
    if (argc != 5) return EXIT_FAILURE;
    const std::size_t n = std::stoul(argv[2]), d = std::stoul(argv[3]), k = std::stoul(argv[4]);
    std::vector<float> X(n * d);
    std::vector<std::uint32_t> y(n);
    std::ifstream file(argv[1], std::ios::binary);
    file.read(reinterpret_cast<char *>(X.data()), static_cast<std::streamsize>(4 * X.size()));
    file.read(reinterpret_cast<char *>(y.data()), static_cast<std::streamsize>(4 * y.size()));
    if (!file) return EXIT_FAILURE;

    const auto prior = std::make_shared<ClassPrior>(k, k > 2 ? 0.01 : 0.5);
    std::vector<Tree<Counts>> trees;
    std::mt19937_64 seeds; // from states of small numbers, the first splits would all come at once
    for (std::size_t t = 0; t < kTrees; ++t)
        trees.emplace_back(Layout{Categories(), d}, Options{}, Counts(prior, k),
                           Rng::State{seeds(), seeds(), seeds(), seeds()}, kTrees);
    Forest<Counts> forest(std::move(trees));
    const auto learn = [&](std::size_t first, std::size_t last) {
        while (first < last) {
            const std::size_t count = std::min(forest.rows_at_once(), last - first);
            Forest<Counts>::Batch(forest, count, {})
                .learn({&X[first * d], count, d}, {&y[first], count}, {}, 1);
            first += count;
        }
    };
    const std::size_t last_tenth = n - n / 10;
    learn(0, last_tenth);
    counters = {};
    const double start = cpu_seconds();
    learn(last_tenth, n);
    const double seconds = cpu_seconds() - start;
    const auto samples = static_cast<double>(n - last_tenth);
    std::printf("{\"amforest\": %g, \"visits\": %g, \"bytes\": %g, \"working set\": %zu, "
                "\"bandwidth\": %g}\n",
                seconds / samples, static_cast<double>(counters.visits) / samples,
                static_cast<double>(counters.bytes) / samples, forest.bytes(),
                read_bandwidth(forest.bytes()));
}
