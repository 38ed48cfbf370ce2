// Categories as numbers, by the table of one tree.
//
// Until a tree is regrown, and in trees that never look at labels, a category is a random number.
// At a regrow it becomes the smoothed mean of a statistic of the labels, (sum + kPrior mean) / (n +
// kPrior) over some of the rows; a category that these rows do not have gets the mean of all.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "amforest/partition/layout.hpp"

namespace amforest {

class CategoryNumbers {
  public:
    static constexpr double kPrior = 2;

    explicit CategoryNumbers(std::uint64_t key = 0) : key_(key) {}

    std::uint64_t key() const { return key_; }
    void set_key(std::uint64_t key) { key_ = key; }
    bool is_learned() const { return is_learned_; }
    float prior() const { return prior_; }
    std::size_t bytes() const { return entries_.size() * (sizeof(Entry) + sizeof(Sum)); }

    // The number of category `code` of feature f; NaN stays missing.
    float of(std::size_t f, float code) const {
        if (std::isnan(code)) return code;
        const auto k = static_cast<std::uint32_t>(static_cast<std::int32_t>(code));
        if (!is_learned_) return random_number(f, k);
        if (k == kFree) return prior_; // an unknown category
        const Entry &entry = entries_[place_of(f, k)];
        return entry.code == k ? entry.value : prior_;
    }

    // There are so many features now: nothing was learned of the categories of new ones.
    void widen(std::size_t n_features) {
        if (!is_learned_) return;
        const std::size_t n_free = n_features - (starts_.size() - 1), first = starts_.back();
        entries_.resize(std::max(entries_.size(), first + n_free));
        sums_.resize(entries_.size());
        std::fill_n(&entries_[first], n_free, Entry{});
        while (starts_.size() <= n_features) starts_.push_back(starts_.back() + 1);
    }

    // Room to learn from so many rows.
    void make_room(const Categories &categories, std::size_t n_rows) {
        std::size_t size = 0;
        for (const std::uint32_t room : categories.room()) size += table_size(n_rows, room);
        entries_.resize(std::max(entries_.size(), size));
        sums_.resize(entries_.size()); // also if this failed before
        starts_.reserve(categories.n_features() + 1);
    }

    // Learning: start, count, then finish.
    void start(const Categories &categories, std::size_t n_rows) {
        starts_.assign(1, 0);
        for (const std::uint32_t room : categories.room())
            starts_.push_back(starts_.back() + table_size(n_rows, room));
        std::fill_n(entries_.begin(), starts_.back(), Entry{});
        std::fill_n(sums_.begin(), starts_.back(), Sum{});
        total_ = {};
        is_learned_ = true;
    }

    void count(std::size_t f, float code, double statistic, double weight) {
        if (std::isnan(code)) return;
        const auto k = static_cast<std::uint32_t>(code);
        const std::size_t place = place_of(f, k);
        entries_[place].code = k;
        sums_[place].add(statistic, weight);
    }

    void count_row(double statistic, double weight) { total_.add(statistic, weight); }

    void finish() {
        const double mean = total_.weight > 0 ? total_.sum / total_.weight : 0;
        const auto value_of = [&](const Sum &sum) {
            return (sum.sum + kPrior * mean) / (sum.weight + kPrior);
        };
        double largest = std::abs(mean);
        for (std::size_t i = 0; i < starts_.back(); ++i)
            largest = std::max(largest, std::abs(value_of(sums_[i])));
        const double unit = unit_for(largest);
        prior_ = static_cast<float>(mean * unit);
        for (std::size_t i = 0; i < starts_.back(); ++i)
            entries_[i].value = static_cast<float>(value_of(sums_[i]) * unit);
    }

    // The model file: calls use(code, value) for each category of feature f, in their order.
    template <class Use> void for_each(std::size_t f, const Use &use) const {
        std::vector<Entry> entries;
        for (std::size_t i = starts_[f]; i < starts_[f + 1]; ++i)
            if (entries_[i].code != kFree) entries.push_back(entries_[i]);
        std::ranges::sort(entries, {}, &Entry::code);
        for (const Entry &entry : entries) use(entry.code, entry.value);
    }
    void restore(std::span<const std::uint64_t> sizes, float prior) {
        starts_.assign(1, 0);
        for (const std::uint64_t size : sizes)
            starts_.push_back(starts_.back() +
                              std::bit_ceil(2 * static_cast<std::size_t>(size) + 1));
        entries_.assign(starts_.back(), Entry{});
        sums_.resize(starts_.back());
        is_learned_ = true;
        prior_ = prior;
    }
    void set(std::size_t f, std::uint32_t code, float value) {
        entries_[place_of(f, code)] = {code, value};
    }

  private:
    static constexpr std::uint32_t kFree = ~std::uint32_t{0}; // also the code of unknown categories

    struct Entry {
        std::uint32_t code = kFree;
        float value = 0;
    };
    struct Sum {
        double sum = 0, weight = 0;
        void add(double value, double w) {
            sum += w * value;
            weight += w;
        }
    };

    // Statistics far from 1 in size would not fit float32: a power of two brings them near.
    static double unit_for(double largest) {
        constexpr double kFar = 0x1.0p60;
        const bool is_near = largest == 0 || (largest < kFar && largest > 1 / kFar);
        return is_near ? 1 : std::ldexp(1.0, -std::ilogb(largest));
    }

    // Half of a table is free at least, so that a category is found at once: codes are given in the
    // order of appearance, and those of a window of rows are close together.
    static std::size_t table_size(std::size_t n_rows, std::uint32_t room) {
        return std::bit_ceil(2 * std::min<std::size_t>(n_rows, room) + 1);
    }

    std::size_t place_of(std::size_t f, std::uint32_t code) const {
        const std::size_t start = starts_[f], mask = starts_[f + 1] - start - 1;
        std::size_t i = code & mask;
        while (entries_[start + i].code != code && entries_[start + i].code != kFree)
            i = (i + 1) & mask;
        return start + i;
    }

    // On [0, 1), by the finaliser of splitmix64.
    float random_number(std::size_t f, std::uint32_t code) const {
        std::uint64_t z = key_ + 0x9e3779b97f4a7c15U * ((std::uint64_t{f} << 32U | code) + 1);
        z = (z ^ z >> 30U) * 0xbf58476d1ce4e5b9U;
        z = (z ^ z >> 27U) * 0x94d049bb133111ebU;
        return static_cast<float>((z ^ z >> 31U) >> 40U) * 0x1.0p-24F;
    }

    std::uint64_t key_;
    bool is_learned_ = false;
    float prior_ = 0;
    std::vector<std::size_t> starts_ = {0}; // of each feature's entries, and the end
    std::vector<Entry> entries_;            // open addressing
    std::vector<Sum> sums_;
    Sum total_;
};

} // namespace amforest
