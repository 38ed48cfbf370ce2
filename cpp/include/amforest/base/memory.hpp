// Rows of equal size in one growing, 64-byte aligned block.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace amforest {

// For memory that is used again and again: it never becomes smaller.
template <class T> void ensure_size(std::vector<T> &values, std::size_t size) {
    if (values.size() < size) values.resize(size);
}

// Memory that can grow. On Linux a large block is a mapping of its own: growing it moves page
// tables instead of bytes and leaves no hole behind, and pages never written cost nothing.
class Block {
  public:
    Block() = default;
    Block(Block &&other) noexcept
        : data_(std::exchange(other.data_, nullptr)), bytes_(std::exchange(other.bytes_, 0)) {}
    Block &operator=(Block &&other) noexcept {
        Block taken(std::move(other));
        swap(*this, taken);
        return *this;
    }
    ~Block() { release(data_, bytes_); }

    std::byte *data() const { return data_; }

    friend void swap(Block &a, Block &b) noexcept {
        std::swap(a.data_, b.data_);
        std::swap(a.bytes_, b.bytes_);
    }

    // Makes the block larger and keeps what is in it. If that fails, throws and changes nothing.
    void grow(std::size_t bytes) {
        bytes = std::max((bytes + kAlignment - 1) / kAlignment, std::size_t{1}) * kAlignment;
        data_ = resized(bytes);
        bytes_ = bytes;
    }

  private:
    static constexpr std::size_t kAlignment = 64;

    std::byte *resized(std::size_t bytes) const {
#if defined(__linux__)
        if (is_mapped(bytes_)) return checked(::mremap(data_, bytes_, bytes, MREMAP_MAYMOVE));
#endif
        std::byte *grown = allocate(bytes);
        if (data_ == nullptr) return grown;
        std::memcpy(grown, data_, bytes_);
        release(data_, bytes_);
        return grown;
    }

    static std::byte *allocate(std::size_t bytes) {
#if defined(__linux__)
        if (is_mapped(bytes))
            return checked(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0));
#endif
        return static_cast<std::byte *>(::operator new(bytes, std::align_val_t{kAlignment}));
    }

    static void release(std::byte *data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__)
        if (is_mapped(bytes)) {
            ::munmap(data, bytes);
            return;
        }
#endif
        ::operator delete(data, std::align_val_t{kAlignment});
    }

#if defined(__linux__)
    static bool is_mapped(std::size_t bytes) { return bytes >= std::size_t{1} << 16; }

    static std::byte *checked(void *mapping) {
        if (mapping == MAP_FAILED) throw std::bad_alloc();
        return static_cast<std::byte *>(mapping);
    }
#endif

    std::byte *data_ = nullptr;
    std::size_t bytes_ = 0;
};

// Rows of a size known at run time. Moved-from rows are empty.
class Rows {
  public:
    explicit Rows(std::size_t row_bytes) : row_bytes_(row_bytes) {}
    Rows(Rows &&other) noexcept
        : block_(std::move(other.block_)), row_bytes_(other.row_bytes_),
          size_(std::exchange(other.size_, 0)), capacity_(std::exchange(other.capacity_, 0)) {}
    Rows &operator=(Rows &&other) noexcept {
        block_ = std::move(other.block_);
        row_bytes_ = other.row_bytes_;
        size_ = std::exchange(other.size_, 0);
        capacity_ = std::exchange(other.capacity_, 0);
        return *this;
    }

    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * row_bytes_; }
    void clear() { size_ = 0; } // and keeps the memory

    // Makes sure that `count` more rows fit. If they do not, throws and changes nothing.
    void make_room(std::size_t count) {
        if (size_ + count <= capacity_) return;
        const std::size_t capacity = std::max(size_ + count, capacity_ + capacity_ / 2);
        block_.grow(capacity * row_bytes_);
        capacity_ = capacity;
    }

    // A new row, not initialised. Room must have been made.
    std::uint32_t add() { return static_cast<std::uint32_t>(size_++); }

    template <class T> T *at(std::size_t row) {
        return reinterpret_cast<T *>(block_.data() + row * row_bytes_);
    }
    template <class T> const T *at(std::size_t row) const {
        return reinterpret_cast<const T *>(block_.data() + row * row_bytes_);
    }

  protected:
    Block block_;

  private:
    std::size_t row_bytes_;
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

    T &operator[](std::size_t row) { return reinterpret_cast<T *>(block_.data())[row]; }
    const T &operator[](std::size_t row) const {
        return reinterpret_cast<const T *>(block_.data())[row];
    }
};

// What one row needs on its way through a tree. Room is made before, so that nothing can fail on
// the way; in a large block, what is not used costs nothing. A moved-from stack is empty.
template <class T> class Stack {
  public:
    Stack() = default;
    Stack(Stack &&other) noexcept { swap(*this, other); }
    Stack &operator=(Stack &&other) noexcept {
        Stack taken(std::move(other));
        swap(*this, taken);
        return *this;
    }

    std::size_t size() const { return size_; }
    bool empty() const { return size_ == 0; }
    void clear() { size_ = 0; }
    void shrink(std::size_t size) { size_ = size; }

    void make_room(std::size_t capacity) {
        if (capacity <= capacity_) return;
        capacity = std::max(capacity, capacity_ + capacity_ / 2);
        block_.grow(capacity * sizeof(T));
        capacity_ = capacity;
    }

    void push_back(const T &item) { data()[size_++] = item; }
    void pop_back() { --size_; }
    T &back() { return data()[size_ - 1]; }
    const T &back() const { return data()[size_ - 1]; }
    T &operator[](std::size_t i) { return data()[i]; }
    const T &operator[](std::size_t i) const { return data()[i]; }

    friend void swap(Stack &a, Stack &b) noexcept {
        swap(a.block_, b.block_);
        std::swap(a.size_, b.size_);
        std::swap(a.capacity_, b.capacity_);
    }

  private:
    T *data() const { return reinterpret_cast<T *>(block_.data()); }

    Block block_;
    std::size_t size_ = 0, capacity_ = 0;
};

} // namespace amforest
