// Rows of equal size in one growing, 64-byte aligned block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace amforest {

// Growth goes through realloc: on Linux it moves the pages of a large block instead of copying
// them, and pages that were never written cost nothing.
class Rows {
  public:
    explicit Rows(std::size_t row_bytes) : row_bytes_(row_bytes) {}

    Rows(Rows &&other) noexcept
        : row_bytes_(other.row_bytes_), block_(std::exchange(other.block_, nullptr)),
          first_(std::exchange(other.first_, nullptr)), size_(std::exchange(other.size_, 0)),
          capacity_(std::exchange(other.capacity_, 0)) {}

    Rows(const Rows &) = delete;
    Rows &operator=(const Rows &) = delete;
    Rows &operator=(Rows &&) = delete;
    ~Rows() { std::free(block_); }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * row_bytes_; }

    // Makes sure that `count` more rows fit. If they do not, throws and changes nothing.
    void make_room(std::size_t count) {
        if (size_ + count <= capacity_) return;
        const std::size_t capacity = std::max(size_ + count, capacity_ + capacity_ / 2);
        const std::ptrdiff_t offset = first_ - block_;
        void *grown = std::realloc(block_, capacity * row_bytes_ + kAlignment);
        if (grown == nullptr) throw std::bad_alloc();
        block_ = static_cast<std::byte *>(grown);
        first_ = block_ + (kAlignment - reinterpret_cast<std::uintptr_t>(block_) % kAlignment);
        if (first_ - block_ != offset) std::memmove(first_, block_ + offset, bytes());
        capacity_ = capacity;
    }

    // A new row, not initialised. Room must have been made.
    std::uint32_t add() { return static_cast<std::uint32_t>(size_++); }

    template <class T> T *at(std::size_t row) {
        return reinterpret_cast<T *>(first_ + row * row_bytes_);
    }
    template <class T> const T *at(std::size_t row) const {
        return reinterpret_cast<const T *>(first_ + row * row_bytes_);
    }

  protected:
    static constexpr std::size_t kAlignment = 64;

    std::size_t row_bytes_;
    std::byte *block_ = nullptr; // as malloc gave it
    std::byte *first_ = nullptr; // its first aligned byte
    std::size_t size_ = 0, capacity_ = 0;
};

// Rows of one type, whose size the compiler knows.
template <class T> class Pool : public Rows {
  public:
    Pool() : Rows(sizeof(T)) {}

    std::uint32_t add(const T &value) {
        const std::uint32_t row = Rows::add();
        (*this)[row] = value;
        return row;
    }

    T &operator[](std::size_t row) { return reinterpret_cast<T *>(first_)[row]; }
    const T &operator[](std::size_t row) const { return reinterpret_cast<const T *>(first_)[row]; }
};

} // namespace amforest
