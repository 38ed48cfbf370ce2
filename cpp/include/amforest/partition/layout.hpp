// The layout of a row: codes of categories, then numbers.
//
// A categorical feature stands for as many one-hot columns as it has categories. The ranges of
// these columns follow from the set S of the categories seen: [0, 1] for each of several, [1, 1]
// for a single one, and [0, 0] for all others, including those not seen yet. So a node keeps S as
// bits instead of two floats per column.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>
#include <vector>

#include "amforest/partition/range_kernels.hpp"

namespace amforest {

using Word = std::uint32_t; // of a set
inline constexpr std::size_t kWordBits = 32;

// A set, or the union of two.
struct Sets {
    const Word *a, *b;
    Word operator[](std::size_t w) const { return a[w] | b[w]; }
};

// The code of an unknown category, which no node has seen.
inline constexpr float kUnknown = -1;

// The sets of all categorical features side by side. The bits of a feature are those of the codes
// -1 (kUnknown), 0, 1, ...
class Categories {
  public:
    // `room[f]` is the number of categories that feature f may have.
    explicit Categories(std::vector<std::uint32_t> room = {}) : room_(std::move(room)) {
        for (const std::uint32_t count : room_) first_bit_.push_back(first_bit_.back() + 1 + count);
    }

    std::size_t n_features() const { return room_.size(); }
    std::size_t n_words() const { return (first_bit_.back() + kWordBits - 1) / kWordBits; }
    const std::vector<std::uint32_t> &room() const { return room_; }
    bool operator==(const Categories &) const = default;

    bool extend(const Categories &earlier) const {
        return n_features() >= earlier.n_features() &&
               std::equal(earlier.room_.begin(), earlier.room_.end(), room_.begin(),
                          std::less_equal<>());
    }

    // A set of an earlier layout, as one of this.
    void copy_set(const Categories &earlier, const Word *from, Word *to) const {
        std::fill_n(to, n_words(), Word{0});
        for (std::size_t f = 0; f < earlier.n_features(); ++f)
            for (std::size_t bit = earlier.first_bit_[f]; bit < earlier.first_bit_[f + 1]; ++bit)
                if ((from[bit / kWordBits] >> bit % kWordBits & 1) != 0)
                    set_bit(first_bit_[f] + bit - earlier.first_bit_[f], to);
    }

    void insert(std::size_t f, float code, Word *set) const { set_bit(bit_of(f, code), set); }

    bool contains(std::size_t f, float code, Sets set) const {
        const std::size_t bit = bit_of(f, code);
        return (set[bit / kWordBits] >> bit % kWordBits & 1) != 0;
    }

    bool includes(Sets set, const Word *subset) const {
        Word rest = 0;
        for (std::size_t w = 0; w < n_words(); ++w) rest |= subset[w] & ~set[w];
        return rest == 0;
    }

    std::size_t count(std::size_t f, Sets set) const { return first_of(f, set).second; }

    // Whether the words are a set of known categories: no other bits are there.
    bool is_set(const Word *words) const {
        const Sets set{words, words};
        std::size_t known = 0, all = 0;
        for (std::size_t f = 0; f < n_features(); ++f)
            if (!contains(f, kUnknown, set)) known += count(f, set);
        for (std::size_t w = 0; w < n_words(); ++w)
            all += static_cast<std::size_t>(std::popcount(words[w]));
        return known == all;
    }

    // Delta, summed over the columns of all features: lambda_f in each column that x would change,
    // `weight_of(f)` being lambda_f.
    template <class WeightOf>
    float extension(const float *codes, const Word *x, Sets seen, const WeightOf &weight_of) const {
        if (includes(seen, x)) return 0;
        float sum = 0;
        for (std::size_t f = 0; f < n_features(); ++f)
            if (const std::size_t size = changed(f, codes[f], seen).size; size > 0)
                sum += weight_of(f) * static_cast<float>(size);
        return sum;
    }

    // Columns, by their codes.
    struct Columns {
        std::array<float, 2> code;
        std::size_t size;
    };

    // The columns of feature f that x would change, in the order of the codes: its own, if that
    // category is new, and that of the single category seen so far. If none was seen, because the
    // feature was missing so far, nothing changes.
    Columns changed(std::size_t f, float code, Sets seen) const {
        if (std::isnan(code) || contains(f, code, seen)) return {{}, 0};
        const auto [first, count] = first_of(f, seen);
        if (count == 0) return {{}, 0};
        if (count > 1) return {{code}, 1};
        return {{std::min(code, first), std::max(code, first)}, 2};
    }

  private:
    static void set_bit(std::size_t bit, Word *set) {
        set[bit / kWordBits] |= Word{1} << bit % kWordBits;
    }

    std::size_t bit_of(std::size_t f, float code) const {
        return first_bit_[f] + static_cast<std::size_t>(code - kUnknown);
    }

    // The first category of feature f in the set, and how many there are.
    std::pair<float, std::size_t> first_of(std::size_t f, Sets set) const {
        std::size_t count = 0;
        float first = kUnknown;
        const std::size_t begin = first_bit_[f], end = first_bit_[f + 1];
        for (std::size_t w = begin / kWordBits; w * kWordBits < end; ++w) {
            Word bits = set[w];
            if (w * kWordBits < begin) bits &= ~Word{0} << begin % kWordBits;
            if ((w + 1) * kWordBits > end) bits &= (Word{1} << end % kWordBits) - 1;
            if (count == 0 && bits != 0)
                first = kUnknown + static_cast<float>(
                                       w * kWordBits +
                                       static_cast<std::size_t>(std::countr_zero(bits)) - begin);
            count += static_cast<std::size_t>(std::popcount(bits));
        }
        return {first, count};
    }

    std::vector<std::uint32_t> room_;
    std::vector<std::size_t> first_bit_ = {0}; // of each feature, and the end
};

// The features of a row: the codes of categories first, then numbers.
struct Layout {
    Categories categories;
    std::size_t n_numbers;

    std::size_t n_codes() const { return categories.n_features(); }
    std::size_t n_features() const { return n_codes() + n_numbers; }
    std::size_t width() const { return padded(n_numbers); } // of the numbers
    bool operator==(const Layout &) const = default;

    // Features are only ever added, each behind those of its kind.
    bool extends(const Layout &earlier) const {
        return n_numbers >= earlier.n_numbers && categories.extend(earlier.categories);
    }
};

// lambda_j, by which each feature counts in extensions; without values, all are 1.
class FeatureWeights {
  public:
    FeatureWeights() = default;
    // `values` of all features; features that are added to the layout later count 1.
    FeatureWeights(const Layout &layout, std::span<const float> values)
        : n_codes_(layout.n_codes()), n_numbers_(layout.n_numbers),
          values_(layout.n_codes() + layout.width(), 0.0F) {
        std::ranges::copy(values, values_.begin());
    }

    // Replaces the values given to the constructor.
    void assign(std::span<const float> values) { std::ranges::copy(values, values_.begin()); }
    // Features from this number on count 0.
    void ignore_from(std::size_t j) {
        std::fill(values_.begin() + static_cast<std::ptrdiff_t>(n_codes_ + j), values_.end(), 0.0F);
    }

    bool are_ones() const { return values_.empty(); }
    float of_code(std::size_t f) const { return are_ones() ? 1.0F : values_[f]; }
    float of_number(std::size_t j) const { return are_ones() ? 1.0F : values_[n_codes_ + j]; }
    const float *numbers() const { return values_.data() + n_codes_; } // padded
    std::span<const float> values() const {
        return std::span(values_).first(are_ones() ? 0 : n_codes_ + n_numbers_);
    }

    FeatureWeights extended(const Layout &layout) const {
        if (are_ones()) return {};
        std::vector<float> values(layout.n_features(), 1.0F);
        std::copy_n(values_.begin(), n_codes_, values.begin());
        std::copy_n(numbers(), n_numbers_, &values[layout.n_codes()]);
        return {layout, values};
    }

  private:
    std::size_t n_codes_ = 0, n_numbers_ = 0;
    std::vector<float> values_;
};

// A row that is ready for a tree: its categories are also a set, and its numbers are padded.
struct Point {
    const float *values;
    const Word *categories;
};

// The range of a node: corners, and the categories seen.
struct Range {
    explicit Range(const Layout &layout)
        : lower(layout.width()), upper(layout.width()), seen(layout.categories.n_words()) {}

    std::vector<float> lower, upper;
    std::vector<Word> seen;
};

} // namespace amforest
