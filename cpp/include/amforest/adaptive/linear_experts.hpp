// Linear regressions that learn row by row and forget at different rates: recursive least squares.
// The last expert is the mean of all labels, for streams in which features tell nothing.
//
// With forgetting f, the information is A <- f A + w z z', with a prior that does not fade: each
// row restores that of one slope in turn. P = 1 / A. Features are z = (x - center) / scale; these
// are set anew when the number of rows doubles, and the slopes then converted, which changes no
// prediction.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "amforest/adaptive/linear_base.hpp"
#include "amforest/base/limits.hpp"

namespace amforest {

class LinearExperts {
  public:
    static constexpr std::array<double, 3> kForgetting = {1, 0.999, 0.98};
    static constexpr double kPenalty = 1;             // the prior information about a slope
    static constexpr double kInterceptPenalty = 0.01; // and about the intercept

    // The number features of a row, behind `first`.
    LinearExperts(std::size_t first, std::size_t n_numbers)
        : first_(first), n_(std::min(n_numbers, kMostLinear)), features_(n_), z_(n_ + 1),
          image_(n_ + 1) {
        active_.reserve(n_);
        for (Expert &expert : experts_) {
            expert.slopes.resize(n_ + 1);
            expert.inverse.resize((n_ + 1) * (n_ + 1));
            forget(expert);
        }
    }

    // A copy with features that come later, of which nothing is known.
    LinearExperts(const LinearExperts &earlier, std::size_t first, std::size_t n_numbers)
        : LinearExperts(first, n_numbers) {
        n_rows_ = earlier.n_rows_;
        reference_ = earlier.reference_;
        labels_ = earlier.labels_;
        std::ranges::copy(earlier.features_, features_.begin());
        const auto place = [&](std::size_t j) { return j < earlier.n_ ? j : n_; };
        for (std::size_t e = 0; e < experts_.size(); ++e) {
            const Expert &from = earlier.experts_[e];
            for (std::size_t j = 0; j <= earlier.n_; ++j) {
                experts_[e].slopes[place(j)] = from.slopes[j];
                for (std::size_t k = 0; k <= earlier.n_; ++k)
                    at(experts_[e], place(j), place(k)) = from.inverse[j * (earlier.n_ + 1) + k];
            }
            experts_[e].squares = from.squares;
            experts_[e].weight = from.weight;
        }
        list_active();
    }

    static constexpr std::size_t size() { return kForgetting.size() + 1; }
    std::size_t bytes() const { return bytes_for(n_); }
    static std::size_t bytes_for(std::size_t n_numbers) {
        const std::size_t n = std::min(n_numbers, kMostLinear);
        return kForgetting.size() * (n + 1) * (n + 2) * sizeof(double) + n * sizeof(Feature);
    }

    // The mean and the squared scale of each expert; `z` is scratch of `scratch_size`.
    std::size_t scratch_size() const { return n_ + 1; }
    void predict(const float *row, std::span<double> out, std::span<double> z) const {
        if (n_rows_ == 0) {
            std::ranges::fill(out, 0.0);
            return;
        }
        standardise(row, z, true);
        for (std::size_t e = 0; e < experts_.size(); ++e) {
            const Expert &expert = experts_[e];
            double mean = reference_, leverage = 0;
            for (std::size_t j = 0; j <= n_; ++j) {
                const double *of_j = &expert.inverse[j * (n_ + 1)];
                double sum = 0;
                for (std::size_t k = 0; k <= n_; ++k) sum += of_j[k] * z[k];
                mean += expert.slopes[j] * z[j];
                leverage += sum * z[j];
            }
            const double variance = expert.variance() * (1 + leverage);
            // False for NaN, too, which only a file can bring about.
            const bool is_sound = std::abs(mean) <= kLargestMean && variance <= kLargestSquare;
            out[2 * e] = is_sound ? mean : reference_ + labels_.mean;
            out[2 * e + 1] = is_sound ? std::max(variance, 0.0) : labels_.variance();
        }
        out[2 * experts_.size()] = reference_ + labels_.mean;
        out[2 * experts_.size() + 1] = labels_.variance() * (1 + 1 / labels_.weight);
    }

    // Calls base(e, value) and then term(e, feature, contribution) for each expert, whose mean is
    // the sum of these; `predictions` are those of `predict`.
    template <class Base, class Term>
    void explain(const float *row, std::span<const double> predictions, std::span<double> z,
                 const Base &base, const Term &term) const {
        standardise(row, z, true);
        for (std::size_t e = 0; e < experts_.size(); ++e) {
            const std::vector<double> &slopes = experts_[e].slopes;
            double mean = reference_;
            for (std::size_t j = 0; j <= n_; ++j) mean += slopes[j] * z[j];
            if (mean != predictions[2 * e]) { // it was not sound
                base(e, predictions[2 * e]);
                continue;
            }
            base(e, reference_ + slopes[n_]);
            for (std::size_t j = 0; j < n_; ++j) term(e, first_ + j, slopes[j] * z[j]);
        }
        base(experts_.size(), predictions[2 * experts_.size()]);
    }

    void learn(const float *row, double y, double weight) {
        if (n_rows_ == 0) reference_ = y;
        for (std::size_t j = 0; j < n_; ++j) features_[j].add(row[first_ + j]);
        ++n_rows_;
        if (std::has_single_bit(n_rows_)) set_scales();
        standardise(row, z_, false);
        for (std::size_t e = 0; e < experts_.size(); ++e) {
            learn(experts_[e], kForgetting[e], y - reference_, weight);
            if (!is_sound(experts_[e])) forget(experts_[e]);
        }
        labels_.add(y - reference_, weight);
    }

    // The model file: calls use(value) for each number that makes the experts.
    template <class Use> void for_each(const Use &use) { visit(*this, use); }
    template <class Use> void for_each(const Use &use) const { visit(*this, use); }
    bool is_valid() const {
        for (const Feature &own : features_) {
            const bool has_range = own.lower <= own.upper &&
                                   std::abs(own.lower) <= kLargestNumber &&
                                   std::abs(own.upper) <= kLargestNumber;
            const bool has_moments = own.n >= 0 && own.n <= kLargestNumber &&
                                     std::abs(own.mean) <= kLargestNumber && own.m2 >= 0 &&
                                     own.m2 <= kLargestNumber;
            const bool has_scale = std::abs(own.center) <= kLargestNumber && own.scale >= 0 &&
                                   own.scale <= kLargestNumber;
            if (!has_moments || !has_scale || (own.n > 0 && !has_range)) return false;
        }
        return std::ranges::all_of(experts_, is_sound) && std::abs(reference_) <= kLargestLabel &&
               std::abs(labels_.mean) <= 4 * kLargestLabel &&
               (labels_.weight == 0 || labels_.weight >= kLeastWeight) &&
               labels_.weight <= kLargestNumber && labels_.squares >= 0 &&
               labels_.squares <= kLargestSquare * labels_.weight;
    }
    bool have_learned() const { return labels_.weight > 0; }
    void set_n_rows(std::size_t n_rows) {
        n_rows_ = n_rows;
        list_active();
    }

  private:
    struct Feature {
        double n = 0, mean = 0, m2 = 0; // of the values so far
        double lower = std::numeric_limits<double>::infinity(), upper = -lower;
        double center = 0, scale = 0; // in use; the scale is an inverse, and 0 while none is known

        void add(float x) {
            const auto value = static_cast<double>(x);
            if (std::isnan(value)) return;
            lower = std::min(lower, value);
            upper = std::max(upper, value);
            const double distance = value - mean;
            n += 1;
            mean += distance / n;
            m2 += std::max(distance * (value - mean), 0.0); // the mean may be rounded beyond it
        }
        double spread() const { return n > 0 ? std::sqrt(m2 / n) : 0; }
    };

    // Distances from the reference.
    struct Labels {
        double weight = 0, mean = 0, squares = 0;

        void add(double y, double w) {
            const double distance = y - mean;
            weight += w;
            mean += w / weight * distance;
            squares += std::max(w * distance * (y - mean), 0.0); // as in Feature
        }
        double variance() const { return squares / weight; }
    };

    struct Expert {
        std::vector<double> slopes;  // and the intercept, last
        std::vector<double> inverse; // P
        double squares = 0, weight = 0;
        double variance() const { return weight > 0 ? squares / weight : 0; }
    };

    static constexpr double kLargestNumber = 1e140; // of which sums of products are finite
    static constexpr double kLargestMean = 1e80, kLargestSquare = 1e160, kLargestSquares = 1e200;

    // Whether rounding, or a file, has not made nonsense of it.
    static bool is_sound(const Expert &expert) {
        const auto is_number = [](double value) { return std::abs(value) <= kLargestNumber; };
        return std::ranges::all_of(expert.slopes, is_number) &&
               std::ranges::all_of(expert.inverse, is_number) && expert.squares >= 0 &&
               expert.squares <= kLargestSquares && expert.weight >= 0 && is_number(expert.weight);
    }

    void forget(Expert &expert) {
        std::ranges::fill(expert.slopes, 0.0);
        std::ranges::fill(expert.inverse, 0.0);
        for (std::size_t j = 0; j < n_; ++j) at(expert, j, j) = 1 / kPenalty;
        at(expert, n_, n_) = 1 / kInterceptPenalty;
        expert.squares = expert.weight = 0;
    }

    template <class Self, class Use> static void visit(Self &self, const Use &use) {
        for (auto *value :
             {&self.reference_, &self.labels_.weight, &self.labels_.mean, &self.labels_.squares})
            use(*value);
        for (auto &feature : self.features_)
            for (auto *value : {&feature.n, &feature.mean, &feature.m2, &feature.lower,
                                &feature.upper, &feature.center, &feature.scale})
                use(*value);
        for (auto &expert : self.experts_) {
            for (auto &slope : expert.slopes) use(slope);
            for (auto &entry : expert.inverse) use(entry);
            use(expert.squares);
            use(expert.weight);
        }
    }

    double &at(Expert &expert, std::size_t j, std::size_t k) {
        return expert.inverse[j * (n_ + 1) + k];
    }

    // Missing values are at the center; predictions go no further than the values learned.
    void standardise(const float *row, std::span<double> z, bool is_clamped) const {
        for (std::size_t j = 0; j < n_; ++j) {
            const Feature &own = features_[j];
            auto value = static_cast<double>(row[first_ + j]);
            if (is_clamped && own.lower <= own.upper)
                value = std::clamp(value, own.lower, own.upper);
            z[j] = std::isnan(value) ? 0 : (value - own.center) * own.scale;
        }
        z[n_] = 1;
    }

    // theta' z' + b' = theta z + b for all x, and the same for P.
    void set_scales() {
        for (std::size_t j = 0; j < n_; ++j) {
            Feature &own = features_[j];
            const double spread = own.spread();
            if (!(spread > 0)) continue;
            const double scale = 1 / spread;
            if (own.scale > 0) {
                const double ratio = own.scale / scale, shift = (own.mean - own.center) * own.scale;
                for (Expert &expert : experts_) convert(expert, j, ratio, shift);
            }
            own.center = own.mean;
            own.scale = scale;
        }
        list_active();
    }

    void list_active() {
        active_.clear();
        for (std::uint32_t j = 0; j < n_; ++j)
            if (features_[j].scale > 0) active_.push_back(j);
    }

    // z_j = ratio z'_j + shift: the slope is multiplied, and the intercept takes the rest.
    void convert(Expert &expert, std::size_t j, double ratio, double shift) {
        expert.slopes[n_] += shift * expert.slopes[j];
        expert.slopes[j] *= ratio;
        for (std::size_t k = 0; k <= n_; ++k) at(expert, n_, k) += shift * at(expert, j, k);
        for (std::size_t k = 0; k <= n_; ++k) at(expert, k, n_) += shift * at(expert, k, j);
        for (std::size_t k = 0; k <= n_; ++k) at(expert, j, k) *= ratio;
        for (std::size_t k = 0; k <= n_; ++k) at(expert, k, j) *= ratio;
    }

    void learn(Expert &expert, double forgetting, double y, double weight) {
        double error = y;
        for (std::size_t j = 0; j <= n_; ++j) error -= expert.slopes[j] * z_[j];
        std::ranges::fill(image_, 0.0);
        for (std::size_t j = 0; j <= n_; ++j)
            for (std::size_t k = 0; k <= n_; ++k) image_[k] += at(expert, j, k) * z_[j];
        double leverage = 0;
        for (std::size_t j = 0; j <= n_; ++j) leverage += image_[j] * z_[j];
        expert.squares = forgetting * expert.squares + weight * error * error / (1 + leverage);
        expert.weight = forgetting * expert.weight + weight;
        observe(expert, forgetting / weight + leverage, error, forgetting);
        if (forgetting == 1) return;
        for (std::size_t j = 0; j < n_; ++j)
            if (features_[j].scale == 0) at(expert, j, j) = 1 / kPenalty;
        if (active_.empty()) return;
        const std::size_t j = active_[n_rows_ % active_.size()];
        const double restored = static_cast<double>(active_.size()) * (1 - forgetting) * kPenalty;
        std::copy_n(&at(expert, j, 0), n_ + 1, image_.begin());
        observe(expert, 1 / restored + image_[j], -expert.slopes[j], 1);
    }

    // An observation with the image P z, the variance z'Pz + noise, and the error.
    void observe(Expert &expert, double variance, double error, double forgetting) {
        const double inverse = 1 / forgetting;
        for (std::size_t j = 0; j <= n_; ++j) {
            const double gain = image_[j] / variance;
            expert.slopes[j] += gain * error;
            double *row = &at(expert, j, 0);
            for (std::size_t k = 0; k <= j; ++k) row[k] = (row[k] - gain * image_[k]) * inverse;
        }
        for (std::size_t j = 0; j <= n_; ++j)
            for (std::size_t k = j + 1; k <= n_; ++k) at(expert, j, k) = at(expert, k, j);
    }

    std::size_t first_, n_;
    std::size_t n_rows_ = 0;
    double reference_ = 0; // the first label
    Labels labels_;
    std::vector<Feature> features_;
    std::vector<std::uint32_t>
        active_; // features with a scale: columns without values are not there
    std::array<Expert, kForgetting.size()> experts_;
    std::vector<double> z_, image_; // scratch of the learner
};

// Where there are none.
struct NoExperts {
    NoExperts(std::size_t, std::size_t) {}
    NoExperts(const NoExperts &, std::size_t, std::size_t) {}
    static std::size_t size() { return 0; }
    static std::size_t bytes() { return 0; }
    static std::size_t bytes_for(std::size_t) { return 0; }
    static std::size_t scratch_size() { return 0; }
    void predict(const float *, std::span<double>, std::span<double>) const {}
    template <class Base, class Term>
    void explain(const float *, std::span<const double>, std::span<double>, const Base &,
                 const Term &) const {}
    template <class Label> void learn(const float *, Label, double) {}
};

} // namespace amforest
