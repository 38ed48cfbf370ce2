// Work spread over threads, and work interleaved within one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <span>
#include <thread>
#include <utility>
#include <vector>

namespace amforest {

// Threads that are joined at the end of a block. Not std::jthread: libc++ has it from version 20
// on.
class JoinedThreads {
  public:
    JoinedThreads() = default;
    JoinedThreads(const JoinedThreads &) = delete;
    JoinedThreads &operator=(const JoinedThreads &) = delete;
    ~JoinedThreads() {
        for (std::thread &thread : threads_) thread.join();
    }

    template <class Run> void start(const Run &run) { threads_.emplace_back(run); }

  private:
    std::vector<std::thread> threads_;
};

// Calls work(i, worker) for i in [0, count) from up to n_threads numbered threads, fewer where the
// system starts no more; rethrows the first exception.
template <class Work> void for_each_index(std::size_t count, std::size_t n_threads, Work &&work) {
    if (count <= 1 || n_threads <= 1) {
        for (std::size_t i = 0; i < count; ++i) work(i, std::size_t{0});
        return;
    }
    std::atomic<std::size_t> next{0}, next_worker{0};
    std::exception_ptr error;
    std::once_flag first_error;
    const auto run = [&]() noexcept {
        const std::size_t worker = next_worker++;
        try {
            for (std::size_t i = next++; i < count; i = next++) work(i, worker);
        } catch (...) {
            std::call_once(first_error, [&] { error = std::current_exception(); });
            next = count;
        }
    };
    {
        JoinedThreads helpers;
        try {
            for (std::size_t n = std::min(count, n_threads); n > 1; --n) helpers.start(run);
        } catch (const std::exception &) { // the threads that run do all the work
        }
        run();
    }
    if (error) std::rethrow_exception(error);
}

// Calls step(item) for each item, round after round, until it has returned false for all; reorders
// the items. Their waits for memory then overlap.
template <class Item, class Step> void interleave(std::span<Item> items, const Step &step) {
    for (std::size_t n = items.size(); n > 0;)
        for (std::size_t k = 0; k < n;)
            if (step(items[k]))
                ++k;
            else
                std::swap(items[k], items[--n]);
}

} // namespace amforest
