// What an adaptive forest needs to predict classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amforest/adaptive/linear_experts.hpp"
#include "amforest/adaptive/logistic_mixer.hpp"
#include "amforest/base/memory.hpp"
#include "amforest/base/rng.hpp"
#include "amforest/labels/class_counts.hpp"

namespace amforest {

// The statistic of the label whose means are the numbers of categories: with two classes whether
// it is the second, with more a random number for each class.
class ClassContrast {
  public:
    void make_room(std::size_t capacity) { ensure_size(values_, capacity); }
    void start(std::size_t n_classes, std::uint32_t, Rng &rng) {
        for (std::size_t k = 0; k < n_classes; ++k)
            values_[k] = n_classes <= 2 ? static_cast<double>(k) : rng.uniform();
    }
    double of(std::uint32_t y) const { return values_[y]; }

  private:
    std::vector<double> values_;
};

struct ClassTask {
    using Labels = ClassCounts<double>;
    using Mixer = LogisticMixer;
    using Experts = NoExperts;
    using Contrast = ClassContrast;
    static constexpr bool kHasBases = false;
    static constexpr bool kCutsBetweenRows = false;
    static constexpr std::size_t kOutputs = 0; // of a tree: one for each class
    static constexpr std::size_t kRegrowsPerMemory = 2;

    static std::size_t n_classes(const ClassParameters &parameters) { return parameters.n_classes; }
    static std::size_t capacity(const ClassParameters &parameters) { return parameters.capacity; }

    // The mean of the trees of a group; `group` is 0 before the first of `n` trees.
    static void add_tree(std::span<double> group, std::span<const double> tree, std::size_t,
                         std::size_t n) {
        const auto count = static_cast<double>(n);
        for (std::size_t k = 0; k < group.size(); ++k) group[k] += tree[k] / count;
    }
};

} // namespace amforest
