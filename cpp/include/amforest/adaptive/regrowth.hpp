// A tree that is being regrown from remembered rows, in steps of bounded work.
//
// 1. Read the rows: draw which of them choose splits, and learn the numbers of categories.
// 2. Encode them as the tree sees them.
// 3. Where trees have a linear base: fit it, and subtract it from the labels.
// 4. Set the feature weights: lambda_j = 1 / mean |x_j - x'_j| over random pairs of rows.
// 5. Grow: a node is split by the best of some random candidates.
// 6. Join the ranges of the nodes, from the leaves upward.
// 7. Replay the rows in their order: they are charged as if the tree had met them online.
// 8. Catch up with the rows that came meanwhile, as any tree learns.
//
// All depends on the rows, the seed and the number of steps alone. So a regrowth is saved as these
// three, and restored by the same steps.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "amforest/adaptive/grower.hpp"
#include "amforest/adaptive/linear_base.hpp"
#include "amforest/adaptive/row_store.hpp"
#include "amforest/base/memory.hpp"

namespace amforest {

// What all regrowths of a forest share.
struct RegrowthContext {
    const Layout &layout; // of the rows
    const Columns &columns;
    std::size_t n_candidates;
    std::size_t n_classes, capacity; // of labels; room is made for the capacity
    std::size_t n_spare;             // rows that the store keeps longer than memories reach
};

template <class Task> class Regrowth {
  public:
    using Labels = typename Task::Labels;
    using Label = typename Labels::Label;
    using Tree = amforest::Tree<Restricted, Labels>;
    using Store = RowStore<Label>;
    using Context = RegrowthContext;

    static constexpr double kChoosing = 0.7; // the part of an honest tree's rows

    Regrowth(const Group &group, Tree tree) : group_(group), grower_(group, std::move(tree)) {}

    // Room for a regrowth from `n_rows` rows, and for `n_more` rows that the tree learns later. One
    // that is under way has yet to learn those that came since it started.
    void make_room(const Context &context, std::size_t n_rows, std::size_t n_more) {
        const std::size_t n_columns = context.columns.size();
        grower_.make_room(n_columns, context.capacity, n_rows, n_more);
        if (learns_numbers(context)) numbers_.make_room(context.layout.categories, n_rows);
        contrast_.make_room(context.capacity);
        ensure_size(row_, padded(n_columns));
        if (!group_.has_base) return;
        fit_.make_room(n_columns);
        base_.make_room(n_columns);
    }
    bool has_room() const { return grower_.has_room(); }

    std::size_t bytes() const {
        return grower_.bytes() + numbers_.bytes() + fit_.bytes() + base_.bytes();
    }

    // Starts to regrow a tree from rows [first, last).
    void start(const Context &context, const Store &store, const Rng::State &seed,
               std::uint64_t key, std::size_t first, std::size_t last) {
        seed_ = seed;
        first_ = first;
        last_ = last;
        numbers_.set_key(key);
        credit_ = 0;
        restart(context, store);
    }

    // Starts again, with the same rows and seed: after the classes or the features have changed.
    void restart(const Context &context, const Store &store) {
        n_steps_ = 0;
        rng_ = Rng(seed_);
        phase_ = Phase::kRead;
        next_ = 0;
        is_active_ = true;
        grower_.start(context.columns.size(), n_rows(), learns_numbers(context));
        base_.clear();
        if (group_.has_base)
            if constexpr (Task::kHasBases) fit_.start(context.columns.size(), store.label(first_));
        if (!learns_numbers(context)) return;
        numbers_.start(context.layout.categories, last_ - first_);
        contrast_.start(context.n_classes, store.label(first_), rng_);
    }

    bool is_active() const { return is_active_; }
    // After the trees were swapped: the other one is forgotten.
    void stop() {
        is_active_ = false;
        tree().clear();
    }
    std::size_t first() const { return first_; }
    std::size_t last() const { return last_; }
    const Rng::State &seed() const { return seed_; }
    std::size_t n_steps() const { return n_steps_; }
    std::int64_t credit() const { return credit_; }

    Tree &tree() { return grower_.tree(); }
    const Tree &tree() const { return grower_.tree(); }
    CategoryNumbers &numbers() { return numbers_; }
    LinearBase &base() { return base_; }

    // Works for one more row; rows before `now` may be read. True once the tree has learned them.
    bool work(const Context &context, const Store &store, std::size_t now) {
        credit_ += work_for(now - last_, context.n_spare);
        while (credit_ > 0) {
            if (phase_ == Phase::kCatchUp && next_ == now) return true;
            credit_ -= static_cast<std::int64_t>(step(context, store));
        }
        return phase_ == Phase::kCatchUp && next_ == now;
    }

    // After a restart: the steps that were taken before. False if there are not so many.
    bool repeat(const Context &context, const Store &store, std::size_t n_steps,
                std::int64_t credit) {
        credit_ = credit;
        while (n_steps_ < n_steps) {
            if (phase_ == Phase::kCatchUp && next_ == store.end()) return false;
            step(context, store);
        }
        return true;
    }

    // Work is counted in units of about a nanosecond, for some ten features. It does not depend on
    // their number: rows with features that come later must take the same steps.
    static constexpr std::int64_t kWorkPerRow = 1 << 14;

    // Before the last step there was some credit; the largest step may be of any phase.
    static std::int64_t least_credit(const Context &context, std::size_t n_rows) {
        std::size_t most =
            Grower<Task>::most_work(n_rows, context.n_candidates) + kRowsAtOnce * 128;
        if (Task::kHasBases)
            most += kRowsAtOnce * (16 + kMostLinear * kMostLinear) +
                    kMostLinear * kMostLinear * kMostLinear / 6;
        return -static_cast<std::int64_t>(most);
    }

  private:
    enum class Phase : std::uint8_t {
        kRead,
        kEncode,
        kMeasure,
        kMultiply,
        kSubtract,
        kWeigh,
        kGrow,
        kJoin,
        kReplay,
        kCatchUp
    };
    static constexpr std::size_t kRowsAtOnce = 128;
    // For a row, `n_late` after the start. The end must come while the store has all rows since
    // then: when half of the time is over, the work doubles again and again.
    static std::int64_t work_for(std::size_t n_late, std::size_t n_spare) {
        const std::size_t half = std::max<std::size_t>(n_spare / 2, 1);
        if (n_late <= half) return kWorkPerRow;
        return kWorkPerRow << std::min<std::size_t>(1 + 16 * (n_late - half) / half, 32);
    }

    std::size_t n_rows() const { return last_ - first_; }
    bool learns_numbers(const Context &context) const {
        return context.columns.have_codes() && !group_.is_plain;
    }

    // Takes one step; returns its work.
    std::size_t step(const Context &context, const Store &store) {
        ++n_steps_;
        switch (phase_) {
        case Phase::kRead:
            return read(context, store);
        case Phase::kEncode:
            return encode(context, store);
        case Phase::kMeasure:
            return measure();
        case Phase::kMultiply:
            return multiply();
        case Phase::kSubtract:
            return subtract();
        case Phase::kWeigh:
            phase_ = Phase::kGrow;
            return grower_.weigh_features(rng_);
        case Phase::kGrow:
            return grow(context);
        case Phase::kJoin:
            return join();
        case Phase::kReplay:
            return replay();
        case Phase::kCatchUp:
            break;
        }
        return catch_up(context, store);
    }

    // Calls use(i) for the next rows; then comes the next phase.
    template <class Use> std::size_t for_next(std::size_t end, Phase next, const Use &use) {
        const std::size_t first = next_, last = std::min(end, first + kRowsAtOnce);
        for (; next_ < last; ++next_) use(next_);
        if (next_ == end) {
            phase_ = next;
            next_ = 0;
        }
        return last - first;
    }

    // 1. Read

    std::size_t read(const Context &context, const Store &store) {
        const bool learns = learns_numbers(context);
        const std::size_t n_codes = context.layout.n_codes();
        const std::size_t count = for_next(n_rows(), Phase::kEncode, [&](std::size_t i) {
            const Label y = store.label(first_ + i);
            const double weight = store.weight(first_ + i);
            const bool chooses = !group_.is_honest || rng_.uniform() < kChoosing;
            const bool is_counted = learns && rng_.uniform() < 0.5;
            grower_.set_row(i, y, weight, chooses, is_counted);
            if (!chooses || !is_counted) return;
            const double statistic = contrast_.of(y);
            numbers_.count_row(statistic, weight);
            const float *x = store.features(first_ + i);
            for (std::size_t f = 0; f < n_codes; ++f) numbers_.count(f, x[f], statistic, weight);
        });
        if (phase_ != Phase::kRead && learns) numbers_.finish();
        return count * 4;
    }

    // 2. Encode

    std::size_t encode(const Context &context, const Store &store) {
        const Phase next = group_.has_base ? Phase::kMeasure : Phase::kWeigh;
        const std::size_t count = for_next(n_rows(), next, [&](std::size_t i) {
            grower_.set_features(i, [&](float *to) {
                context.columns.encode(store.features(first_ + i), numbers_, to);
            });
        });
        return count * 16;
    }

    // 3. Fit the base, on the rows that do not know the labels of their categories; and give each
    // row the residual of the base without it.

    bool is_fitted(std::size_t i) const { return !grower_.is_counted(i); }

    std::size_t measure() {
        const std::size_t count = for_next(n_rows(), Phase::kMultiply, [&](std::size_t i) {
            fit_.add_moments(grower_.encoded(i), grower_.label(i), grower_.weight(i), is_fitted(i));
        });
        if (phase_ != Phase::kMeasure) fit_.finish_moments();
        return count * 32;
    }

    std::size_t multiply() {
        const std::size_t count = for_next(n_rows(), Phase::kSubtract, [&](std::size_t i) {
            if (is_fitted(i))
                fit_.add_products(grower_.encoded(i), grower_.label(i), grower_.weight(i));
        });
        const std::size_t n = fit_.size();
        std::size_t work = count * (16 + n * n / 4);
        if (phase_ != Phase::kMultiply) {
            fit_.solve(base_);
            work += n * n * n / 6;
        }
        return work;
    }

    std::size_t subtract() {
        const std::size_t count = for_next(n_rows(), Phase::kWeigh, [&](std::size_t i) {
            const double weight = is_fitted(i) ? grower_.weight(i) : 0;
            if constexpr (Task::kHasBases)
                grower_.set_label(
                    i, fit_.left_over(grower_.encoded(i), grower_.label(i), weight, base_));
        });
        return count * (16 + fit_.size() * fit_.size());
    }

    // 5. Grow

    std::size_t grow(const Context &context) {
        const std::size_t work = grower_.grow(context.columns, context.n_candidates, rng_);
        if (grower_.is_grown()) {
            phase_ = Phase::kJoin;
            next_ = tree().arena().n_inner();
        }
        return work;
    }

    // 6. Join

    std::size_t join() {
        std::size_t n_joined = 0;
        for (; next_ > 0 && n_joined < kRowsAtOnce; --next_, ++n_joined)
            grower_.join(static_cast<NodeId>(next_));
        if (next_ == 0) phase_ = Phase::kReplay;
        return n_joined * 32;
    }

    // 7. Replay

    std::size_t replay() {
        const std::size_t count =
            for_next(n_rows(), Phase::kCatchUp, [&](std::size_t i) { grower_.replay(i); });
        if (phase_ == Phase::kCatchUp) next_ = last_;
        return count * 128;
    }

    // 8. Catch up

    std::size_t catch_up(const Context &context, const Store &store) {
        context.columns.encode(store.features(next_), numbers_, row_.data()); // padded with 0
        const auto is_missing = [](float x) { return std::isnan(x); };
        if (std::any_of(row_.begin(), row_.end(), is_missing)) tree().expect_gaps();
        Label y = store.label(next_);
        if constexpr (Task::kHasBases) y -= base_.of(row_.data());
        tree().learn_one({{row_.data(), nullptr}, y, store.weight(next_)});
        ++next_;
        return 1024;
    }

    Group group_;
    Grower<Task> grower_;
    CategoryNumbers numbers_;
    LinearBase base_;
    LinearFit fit_;

    // What makes the regrowth.
    Rng::State seed_{};
    std::size_t first_ = 0, last_ = 0; // rows
    std::size_t n_steps_ = 0;
    std::int64_t credit_ = 0; // the work that may still be done now; below 0, what was done ahead
    bool is_active_ = false;

    // What follows from that.
    Rng rng_{Rng::State{}};
    Phase phase_ = Phase::kRead;
    std::size_t next_ = 0; // row or node of the phase
    typename Task::Contrast contrast_;
    std::vector<float> row_; // the one that is learned
};

} // namespace amforest
