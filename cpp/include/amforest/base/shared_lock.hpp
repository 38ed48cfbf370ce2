// Many may read, or one may write; a writer that waits comes first.
#pragma once

#include <atomic>
#include <mutex>
#include <shared_mutex>

namespace amforest {

class SharedLock {
  public:
    // The right to read, together with others. Many who read could otherwise keep a writer waiting
    // for ever.
    std::shared_lock<std::shared_mutex> read() const {
        if (writer_waits_) const std::lock_guard wait(gate_);
        return std::shared_lock(mutex_);
    }

    // The right to change what the lock guards, alone.
    std::unique_lock<std::shared_mutex> write() {
        const std::lock_guard ahead(gate_);
        writer_waits_ = true;
        std::unique_lock lock(mutex_);
        writer_waits_ = false;
        return lock;
    }

  private:
    mutable std::shared_mutex mutex_;
    mutable std::mutex gate_; // before it
    std::atomic<bool> writer_waits_ = false;
};

} // namespace amforest
