// The last rows of a stream, by their numbers, in a ring.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "amforest/base/memory.hpp"

namespace amforest {

template <class Label> class RowStore {
  public:
    // `capacity` rows are kept at least.
    RowStore(std::size_t n_features, std::size_t capacity)
        : n_features_(n_features), capacity_(capacity), rows_(row_bytes(n_features)) {}

    static std::size_t row_bytes(std::size_t n_features) {
        const std::size_t bytes = sizeof(Header) + n_features * sizeof(float);
        return (bytes + alignof(Header) - 1) / alignof(Header) * alignof(Header);
    }

    std::size_t capacity() const { return capacity_; }
    // Of all rows, each weight rounded up: exact, in whatever order they came, and no sum of some
    // of them is more, however it is rounded.
    double total_weight() const { return static_cast<double>(total_); }
    std::size_t bytes() const { return rows_.bytes(); }
    // Rows [first, end) are there.
    std::size_t end() const { return end_; }
    std::size_t first() const { return end_ - rows_.size(); }
    // Before the first append: the numbers of rows start here.
    void start_at(std::size_t start) { start_ = end_ = start; }

    void make_room(std::size_t count) {
        rows_.make_room(std::min(count, capacity_ - rows_.size()));
    }

    void append(const float *x, Label y, double weight) {
        if (rows_.size() < capacity_)
            rows_.add();
        else
            total_ -= rounded_up(this->weight(first()));
        total_ += rounded_up(weight);
        std::byte *row = at(end_++);
        const Header header{weight, y};
        std::memcpy(row, &header, sizeof header);
        std::memcpy(row + sizeof header, x, n_features_ * sizeof(float));
    }

    const float *features(std::size_t i) const {
        return reinterpret_cast<const float *>(at(i) + sizeof(Header));
    }
    Label label(std::size_t i) const { return header(i).label; }
    double weight(std::size_t i) const { return header(i).weight; }

  private:
    struct Header {
        double weight;
        Label label;
    };

    static std::uint64_t rounded_up(double weight) {
        return static_cast<std::uint64_t>(std::ceil(weight));
    }
    std::size_t place_of(std::size_t i) const { return (i - start_) % capacity_; }
    std::byte *at(std::size_t i) { return rows_.template at<std::byte>(place_of(i)); }
    const std::byte *at(std::size_t i) const { return rows_.template at<std::byte>(place_of(i)); }
    const Header &header(std::size_t i) const { return *reinterpret_cast<const Header *>(at(i)); }

    std::size_t n_features_, capacity_;
    std::size_t start_ = 0, end_ = 0;
    std::uint64_t total_ = 0;
    Rows rows_;
};

} // namespace amforest
