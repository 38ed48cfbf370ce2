// What small forests are and predict, to compare platforms: tools/platforms.py.
//
//     platforms     prints a line for each forest: its name, a hash of all its arrays, predictions
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "adaptive_case.hpp"
#include "amforest/predictor.hpp"

using namespace amforest;

namespace {

constexpr std::size_t kRows = 3'000, kWidth = 11, kProbes = 5;

struct Stream {
    std::vector<float> X;
    std::vector<double> targets;

    Matrix matrix(std::size_t first, std::size_t count) const {
        return {X.data() + first * kWidth, count, kWidth};
    }
};

// Half of the numbers are rounded, so that there are ties; some are missing.
Stream draw_stream() {
    Rng rng({1, 2, 3, 4});
    Stream stream;
    for (std::size_t i = 0; i < kRows; ++i) {
        double sum = 0;
        for (std::size_t j = 0; j < kWidth; ++j) {
            const double u = rng.uniform();
            const auto x = static_cast<float>(j % 2 == 0 ? u : std::floor(8 * u));
            stream.X.push_back(rng.below(20) == 0 ? std::numeric_limits<float>::quiet_NaN() : x);
            sum += u * static_cast<double>(j);
        }
        stream.targets.push_back(sum + rng.uniform());
    }
    return stream;
}

std::uint64_t hash(const std::vector<std::string> &columns) { // FNV-1a
    std::uint64_t value = 0xcbf29ce484222325U;
    for (const std::string &column : columns)
        for (const char byte : column) {
            value ^= static_cast<unsigned char>(byte);
            value *= 0x100000001b3U;
        }
    return value;
}

template <class Task, class Label>
void show(const char *name, const Stream &stream, const std::vector<Label> &labels,
          typename Task::Labels::Parameters parameters) {
    using Forest = AdaptiveForest<Task>;
    parameters.validate();
    AdaptiveOptions adaptive;
    adaptive.n_estimators = 2;
    adaptive.groups = {{kUnlimited, false, false, Task::kHasBases},
                       {200, true, false, false},
                       {kUnlimited, false, true, false}};
    const Layout layout(Categories(), kWidth);
    const typename Forest::Common common{
        layout, first_columns(layout), Options(), adaptive,
        std::make_shared<typename Task::Labels::Parameters>(parameters)};
    std::vector<Rng::State> seeds;
    for (std::uint64_t t = 0; t < common.n_trees(); ++t) seeds.push_back({t + 1, 2, 3, 4});
    Forest forest(common, seeds);
    typename Forest::Batch batch(forest, kRows, {}, 0, {});
    for (std::size_t first = 0; first < kRows; first += forest.chunk_size()) {
        const std::size_t count = std::min(forest.chunk_size(), kRows - first);
        batch.learn(stream.matrix(first, count), std::span(labels).subspan(first, count), {}, 2);
    }
    std::printf("%s %016llx", name,
                static_cast<unsigned long long>(hash(SavedAdaptive<Task>::of(forest).bytes())));
    std::vector<double> predictions;
    forest.predict(stream.matrix(0, kProbes), predictions, 2);
    for (const double value : predictions) std::printf(" %.17g", value);
    std::printf("\n");
}

} // namespace

int main() {
    const Stream stream = draw_stream();
    std::vector<std::uint32_t> classes;
    for (const double target : stream.targets) classes.push_back(target > 30 ? 1 : 0);
    show<ClassTask>("classes", stream, classes, {.n_classes = 2, .capacity = 2, .dirichlet = 0.5});
    show<NumberTask>("numbers", stream, stream.targets, {});
}
