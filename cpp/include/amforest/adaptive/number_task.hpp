// What an adaptive forest needs to predict numbers.
#pragma once

#include <cstddef>
#include <span>

#include "amforest/adaptive/linear_experts.hpp"
#include "amforest/adaptive/number_mixer.hpp"
#include "amforest/base/rng.hpp"
#include "amforest/labels/student_t.hpp"

namespace amforest {

// The statistic of the label whose means are the numbers of categories: its distance from the first
// label, so that float32 suffices for it.
class NumberContrast {
  public:
    void make_room(std::size_t) {}
    void start(std::size_t, double first_label, Rng &) { first_label_ = first_label; }
    double of(double y) const { return y - first_label_; }

  private:
    double first_label_ = 0;
};

struct NumberTask {
    using Labels = StudentT;
    using Mixer = NumberMixer;
    using Experts = LinearExperts;
    using Contrast = NumberContrast;
    static constexpr bool kHasBases = true;
    static constexpr bool kCutsBetweenRows = true;
    static constexpr std::size_t kOutputs = 2; // of a tree: the mean, the squared scale
    static constexpr std::size_t kRegrowsPerMemory = 1;

    static std::size_t n_classes(const NoParameters &) { return 0; }
    static std::size_t capacity(const NoParameters &) { return 1; }

    // The mean of the trees' means, and the squared scale of their mixture: the mean of theirs and
    // the variance of the means.
    static void add_tree(std::span<double> group, std::span<const double> tree, std::size_t i,
                         std::size_t n) {
        const double distance = i == 0 ? 0 : tree[0] - group[0];
        group[0] = i == 0 ? tree[0] : group[0] + distance / static_cast<double>(i + 1);
        group[1] += (tree[1] + distance * (tree[0] - group[0])) / static_cast<double>(n);
    }
};

} // namespace amforest
