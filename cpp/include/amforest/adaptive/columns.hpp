// The columns of a tree: how it sees a row.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "amforest/adaptive/category_numbers.hpp"

namespace amforest {

// The columns of a tree: features of a row, categories as numbers. Features that are added later
// come last.
class Columns {
  public:
    Columns(const Layout &layout, std::vector<std::uint32_t> features)
        : n_codes_(layout.n_codes()), features_(std::move(features)) {}

    std::size_t size() const { return features_.size(); }
    const std::vector<std::uint32_t> &features() const { return features_; }
    bool is_code(std::size_t column) const { return features_[column] < n_codes_; }
    bool have_codes() const { return n_codes_ > 0; }

    // Those of a later layout: its new features come last.
    Columns extended(const Layout &from, const Layout &to) const {
        const std::size_t old_codes = from.n_codes(), n_codes = to.n_codes();
        std::vector<std::uint32_t> features = features_;
        for (std::uint32_t &f : features)
            if (f >= old_codes) f += static_cast<std::uint32_t>(n_codes - old_codes);
        for (std::size_t f = old_codes; f < n_codes; ++f)
            features.push_back(static_cast<std::uint32_t>(f));
        for (std::size_t j = from.n_numbers; j < to.n_numbers; ++j)
            features.push_back(static_cast<std::uint32_t>(n_codes + j));
        return {to, std::move(features)};
    }

    // `to` has room for all columns, padded; adding 0 turns -0 into 0.
    void encode(const float *row, const CategoryNumbers &numbers, float *to) const {
        for (std::size_t c = 0; c < size(); ++c) {
            const std::uint32_t f = features_[c];
            to[c] = f < n_codes_ ? numbers.of(f, row[f]) : row[f] + 0.0F;
        }
    }

  private:
    std::size_t n_codes_;
    std::vector<std::uint32_t> features_; // by column
};

} // namespace amforest
