// What each feature contributes to a prediction of an adaptive forest.
//
// What the mixer makes of its experts is linear around a row, so that it has a slope for each of
// them; their trees share it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amforest/adaptive/mixed_experts.hpp"
#include "amforest/adaptive/regrown_trees.hpp"
#include "amforest/adaptive/seen_rows.hpp"
#include "amforest/contributions.hpp"

namespace amforest {

template <class Task> class AdaptiveExplainer {
  public:
    using Labels = typename Task::Labels;
    using Common = AdaptiveCommon<Task>;
    using Trees = RegrownTrees<Task>;
    using Mixed = MixedExperts<Task>;

    AdaptiveExplainer(const Common &common, const Trees &trees, const Mixed &mixed)
        : common_(common), trees_(trees), mixed_(mixed), n_groups_(common.n_groups()),
          n_experts_(common.n_experts()), size_(Labels::explained_size(*common.parameters)),
          bases_(base_values()) {}

    std::size_t size() const { return size_; } // outputs
    std::size_t row_size() const { return (1 + common_.layout.n_features()) * size_; }

    // out[row][0, then 1 + feature][output], 0 at the start; `by_expert` has the predictions of all
    // experts for these rows.
    void explain(const SeenRows &rows, std::span<const double> by_expert, double *out) const {
        const std::size_t n = rows.last - rows.first, n_slopes = n_experts_ * size_;
        const std::size_t n_predicted = n_experts_ * common_.tree_size();
        std::vector<double> slopes(n * n_slopes);
        const auto out_of = [&](std::size_t i) {
            return std::span(out + (i - rows.first) * row_size(), row_size());
        };
        const auto slopes_of = [&](std::size_t i, std::size_t g) {
            return &slopes[(i - rows.first) * n_slopes + g * size_];
        };
        std::vector<double> scratch(mixed_.experts().scratch_size());
        for (std::size_t i = rows.first; i < rows.last; ++i) {
            const auto predictions = by_expert.subspan((i - rows.first) * n_predicted, n_predicted);
            mixed_.mixer().linearise(predictions, bases_, {slopes_of(i, 0), n_slopes},
                                     out_of(i).first(size_));
            explain_experts(rows.X[i], predictions, slopes_of(i, n_groups_), out_of(i), scratch);
            for (std::size_t s = 0; s < n_groups_ * size_; ++s)
                slopes_of(i, 0)[s] /= static_cast<double>(common_.adaptive.n_estimators);
        }
        Explainer<Restricted, Labels>(common_.options, *common_.parameters)
            .explain(trees_.all(), rows, rows.first, rows.last, [&](std::size_t t, std::size_t i) {
                const double *own = slopes_of(i, common_.group_of(t));
                if constexpr (Task::kHasBases) explain_base(t, rows.row(t, i), *own, out_of(i));
                return ScaledSums{out_of(i), own, common_.columns.features()};
            });
        for (std::size_t i = rows.first; i < rows.last; ++i)
            for (std::size_t j = 0; j < row_size(); j += size_)
                Task::Mixer::center(out_of(i).subspan(j, size_));
    }

  private:
    // Adds up base values and contributions, multiplied by slopes.
    struct ScaledSums {
        std::span<double> out;
        const double *slopes;
        const std::vector<std::uint32_t> &features; // by column

        void base(std::span<const double> p) const {
            for (std::size_t k = 0; k < p.size(); ++k) out[k] += slopes[k] * p[k];
        }
        void term(std::size_t column, double weight, std::span<const double> p,
                  std::span<const double> above) const {
            double *to = &out[(1 + features[column]) * p.size()];
            for (std::size_t k = 0; k < p.size(); ++k)
                to[k] += weight * slopes[k] * (p[k] - above[k]);
        }
    };

    // Of the groups: [group][output].
    std::vector<double> base_values() const {
        std::vector<double> values(n_groups_ * size_);
        Explainer<Restricted, Labels> explainer(common_.options, *common_.parameters);
        for (std::size_t t = 0; t < trees_.size(); ++t) {
            const std::span<const double> base = explainer.base_of(trees_[t]);
            for (std::size_t k = 0; k < size_; ++k)
                values[common_.group_of(t) * size_ + k] +=
                    base[k] / static_cast<double>(common_.adaptive.n_estimators);
        }
        return values;
    }

    void explain_experts(const float *row, std::span<const double> by_expert, const double *slopes,
                         std::span<double> out, std::vector<double> &scratch) const {
        mixed_.experts().explain(
            row, by_expert.subspan(n_groups_ * common_.tree_size()), scratch,
            [&](std::size_t e, double base) { out[0] += slopes[e] * base; },
            [&](std::size_t e, std::size_t feature, double value) {
                out[1 + feature] += slopes[e] * value;
            });
    }

    // Of the linear base of a tree.
    void explain_base(std::size_t t, const float *x, double slope, std::span<double> out) const {
        const LinearBase &base = trees_.slots()[t].base;
        out[0] += slope * base.intercept();
        base.for_each_term(x, [&](std::uint32_t column, double value) {
            out[1 + common_.columns.features()[column]] += slope * value;
        });
    }

    const Common &common_;
    const Trees &trees_;
    const Mixed &mixed_;
    std::size_t n_groups_, n_experts_, size_;
    std::vector<double> bases_; // of the groups
};

} // namespace amforest
