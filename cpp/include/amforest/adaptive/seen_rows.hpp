// Rows as the trees of an adaptive forest see them.
#pragma once

#include <cstddef>
#include <vector>

#include "amforest/adaptive/columns.hpp"
#include "amforest/partition/cell.hpp"
#include "amforest/rows.hpp"

namespace amforest {

// Rows [first, last) of a matrix: one copy for all trees, or one for each where there are
// categories, whose numbers differ between trees.
class SeenRows {
  public:
    // `numbers_of(t)` has the numbers that tree t gives to categories.
    template <class NumbersOf>
    SeenRows(const Columns &columns, std::size_t n_trees, const NumbersOf &numbers_of,
             const Matrix &X, std::size_t first, std::size_t last)
        : X(X), first(first), last(last), have_codes_(columns.have_codes()),
          width_(padded(columns.size())),
          values_((have_codes_ ? n_trees : 1) * (last - first) * width_) {
        for (std::size_t t = 0; t < (have_codes_ ? n_trees : 1); ++t)
            for (std::size_t i = first; i < last; ++i)
                columns.encode(X[i], numbers_of(t), &values_[place(t, i)]);
    }

    // Row i as tree t sees it.
    const float *row(std::size_t t, std::size_t i) const { return &values_[place(t, i)]; }
    Point operator()(std::size_t t, std::size_t i) const { return {row(t, i), nullptr}; }

    const Matrix &X;
    const std::size_t first, last;

  private:
    std::size_t place(std::size_t t, std::size_t i) const {
        return ((have_codes_ ? t * (last - first) : 0) + i - first) * width_;
    }

    bool have_codes_;
    std::size_t width_;
    std::vector<float> values_;
};

} // namespace amforest
