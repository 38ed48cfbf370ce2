// Many may read, or one may write; a writer that waits comes first.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <mutex>
#include <shared_mutex>

namespace amforest {

class SharedLock {
  public:
    // The right to read, together with others. Many who read could otherwise keep a writer waiting
    // forever.
    std::shared_lock<std::shared_mutex> read() const {
        if (writer_waits_) const std::lock_guard wait(gate_);
        std::shared_lock lock(mutex_, std::try_to_lock);
        if (!lock) {
            was_delayed_ = true;
            lock.lock();
        }
        return lock;
    }

    // The right to change what the lock guards, alone.
    std::unique_lock<std::shared_mutex> write() {
        const std::lock_guard ahead(gate_);
        writer_waits_ = true;
        std::unique_lock lock(mutex_);
        writer_waits_ = false;
        return lock;
    }

    // How many of some rows to learn within one lock: few for a while after readers had to wait,
    // so that others wait less. Nobody waits where one thread learns and predicts in turns.
    std::size_t limit_rows(std::size_t n_rows) {
        constexpr std::size_t kFew = 8, kWhile = 1 << 12;
        if (was_delayed_.exchange(false)) n_cautious_ = kWhile;
        const std::size_t left = n_cautious_;
        const std::size_t n_next = left > 0 ? std::min(n_rows, kFew) : n_rows;
        n_cautious_ = left - std::min(left, n_next);
        return n_next;
    }

  private:
    mutable std::shared_mutex mutex_;
    mutable std::mutex gate_; // before it
    std::atomic<bool> writer_waits_ = false;
    mutable std::atomic<bool> was_delayed_ = false; // whether a reader had to wait
    std::atomic<std::size_t> n_cautious_ = 0;       // rows for which the writer learns few at once
};

} // namespace amforest
