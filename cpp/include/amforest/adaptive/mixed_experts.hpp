// What an adaptive forest predicts from the predictions of its trees: the mixer, and the experts
// that are mixed beside the groups of trees.
#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "amforest/adaptive/adaptive_common.hpp"
#include "amforest/adaptive/weight_history.hpp"
#include "amforest/base/memory.hpp"
#include "amforest/rows.hpp"

namespace amforest {

template <class Task> class MixedExperts {
  public:
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Mixer = typename Task::Mixer;
    using Experts = typename Task::Experts;
    using Parameters = typename Labels::Parameters;
    using Common = AdaptiveCommon<Task>;

    explicit MixedExperts(const Common &common)
        : common_(common), mixer_(common.n_experts(), common.adaptive.mixer_rate),
          experts_(common.layout.n_codes(), common.layout.n_numbers), history_(common.n_experts()) {
    }

    // Becomes a copy, with room for the features that come later.
    void copy(const MixedExperts &other) {
        mixer_ = other.mixer_;
        experts_ = Experts(other.experts_, common_.layout.n_codes(), common_.layout.n_numbers);
        if (common_.is_mixed()) history_ = other.history_;
        are_losses_kept_ = other.are_losses_kept_;
        losses_ = other.losses_;
        losses_from_ = other.losses_from_;
    }

    const Mixer &mixer() const { return mixer_; }
    Mixer &mixer() { return mixer_; }
    const Experts &experts() const { return experts_; }
    Experts &experts() { return experts_; }
    const WeightHistory &history() const { return history_; }
    WeightHistory &history() { return history_; }
    std::size_t bytes() const { return experts_.bytes() + history_.bytes(); }

    static std::size_t output_size(const Parameters &parameters) {
        return Mixer::output_size(Labels::prediction_size(parameters));
    }

    // Losses

    void keep_losses(bool are_kept) {
        are_losses_kept_ = are_kept;
        if (!are_kept) losses_ = {};
    }
    // Those of the rows since the last call, and the number of the first of these rows.
    std::pair<std::size_t, std::vector<double>> take_losses() {
        return {losses_from_, std::exchange(losses_, {})};
    }

    // Learning

    // Room for all that learning `n_rows` rows after `now` may need.
    void make_room(std::size_t now, std::size_t n_rows, const Parameters &parameters) {
        if (common_.is_mixed()) history_.make_room(now + n_rows);
        if (are_losses_kept_) losses_.reserve(losses_.size() + n_rows);
        ensure_size(by_expert_, common_.n_experts() * Labels::prediction_size(parameters));
        ensure_size(mixed_, output_size(parameters));
        ensure_size(scratch_, experts_.scratch_size());
    }

    // Predicts each row, then learns it. `prediction_at(t, i)` is that of tree t of all, `now` the
    // number of rows before these; out[row][output] may be null.
    template <class PredictionAt>
    void predict_then_learn(const Matrix &X, std::span<const Label> y,
                            std::span<const double> weights, std::size_t now,
                            const PredictionAt &prediction_at, double *out) {
        const std::size_t n_outputs = output_size(*common_.parameters);
        const std::span<double> by_expert =
            std::span(by_expert_).first(common_.n_experts() * common_.tree_size());
        const std::span<double> mixed = std::span(mixed_).first(n_outputs);
        for (std::size_t i = 0; i < X.n_rows; ++i) {
            collect(X[i], i, prediction_at, by_expert, scratch_);
            mixer_.mix(by_expert, mixed);
            if (out != nullptr) std::ranges::copy(mixed, out + i * n_outputs);
            const double weight = weight_at(weights, i);
            if (weight == 0) continue;
            ++now;
            if (are_losses_kept_) {
                if (losses_.empty()) losses_from_ = now;
                losses_.push_back(Mixer::loss(mixed, y[i]));
            }
            const Label label = mixer_.limit(by_expert, y[i]);
            mixer_.learn(by_expert, mixed, label, weight);
            experts_.learn(X[i], label, weight);
            history_.add(now, [&](std::size_t g) { return mixer_.part(g); });
        }
    }

    // Predicting

    // From the predictions of all trees those of the experts: by_expert[expert][output of a tree].
    template <class PredictionAt>
    void collect(const float *row, std::size_t i, const PredictionAt &prediction_at,
                 std::span<double> by_expert, std::vector<double> &scratch) const {
        std::ranges::fill(by_expert, 0.0);
        for (std::size_t t = 0; t < common_.n_in_all(); ++t)
            add_tree(by_expert, t, prediction_at(t, i));
        predict_experts(row, by_expert, scratch);
    }

    // Adds the prediction of tree t of all to that of its group.
    void add_tree(std::span<double> by_expert, std::size_t t,
                  std::span<const double> prediction) const {
        const std::size_t n = common_.adaptive.n_estimators, size = prediction.size();
        Task::add_tree(by_expert.subspan(t / n * size, size), prediction, t % n, n);
    }

    // Behind those of the groups.
    void predict_experts(const float *row, std::span<double> by_expert,
                         std::vector<double> &scratch) const {
        experts_.predict(row, by_expert.subspan(common_.n_groups() * common_.tree_size()), scratch);
    }

  private:
    const Common &common_;
    Mixer mixer_;
    Experts experts_;
    WeightHistory history_; // of the mixer
    bool are_losses_kept_ = false;
    std::vector<double> losses_;  // of the last rows
    std::size_t losses_from_ = 0; // the number of the first of them
    // Scratch of the learner.
    std::vector<double> by_expert_, mixed_, scratch_;
};

} // namespace amforest
