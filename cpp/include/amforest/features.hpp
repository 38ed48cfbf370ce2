// What a row of features is: categories, then numbers.
//
// A categorical feature means as many columns as it has categories, 1 where a row has the category
// and 0 elsewhere. The ranges of these columns follow from the set S of the categories seen: [0, 1]
// for each of several, [1, 1] for the only one, and [0, 0] for all others, those nobody has met yet
// included. So a node keeps S as bits instead of two floats per column.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "amforest/ranges.hpp"

namespace amforest {

using Word = std::uint32_t; // of a set
inline constexpr std::size_t kWordBits = 32;

// A set, or the union of two.
struct Sets {
    const Word *a, *b;
    Word operator[](std::size_t w) const { return a[w] | b[w]; }
};

// The code of a category that is not known, which no node has seen.
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

    void insert(std::size_t f, float code, Word *set) const {
        const std::size_t bit = bit_of(f, code);
        set[bit / kWordBits] |= Word{1} << bit % kWordBits;
    }

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

    // Delta, summed over the columns of all features: it is 1 in each column that x would change.
    float extension(const float *codes, const Word *x, Sets seen) const {
        if (includes(seen, x)) return 0;
        std::size_t sum = 0;
        for (std::size_t f = 0; f < n_features(); ++f) sum += changed(f, codes[f], seen).size;
        return static_cast<float>(sum);
    }

    // Columns, by their codes.
    struct Columns {
        std::array<float, 2> code;
        std::size_t size;
    };

    // The columns of feature f that x would change, in the order of the codes: its own, if that
    // category is new, and the column of the only category there was. If there was none, because
    // the feature was missing so far, nothing changes.
    Columns changed(std::size_t f, float code, Sets seen) const {
        if (std::isnan(code) || contains(f, code, seen)) return {{}, 0};
        const auto [first, count] = first_of(f, seen);
        if (count == 0) return {{}, 0};
        if (count > 1) return {{code}, 1};
        return {{std::min(code, first), std::max(code, first)}, 2};
    }

  private:
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
    // The box that the unrestricted partition cuts; without it, the partition is the restricted
    // one.
    std::vector<float> lower = {}, upper = {};

    bool has_box() const { return !lower.empty(); }

    std::size_t n_codes() const { return categories.n_features(); }
    std::size_t n_features() const { return n_codes() + n_numbers; }
    std::size_t width() const { return padded(n_numbers); } // of the numbers
};

// A row of which also the categories are there as a set, and whose numbers are padded.
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
