// Work on indices, shared between threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace amforest {

// Calls work(i) for i in [0, count) from up to n_threads threads; rethrows the first exception.
template <class Work> void for_each_index(std::size_t count, std::size_t n_threads, Work &&work) {
    std::atomic<std::size_t> next{0};
    std::exception_ptr error;
    std::once_flag first_error;
    const auto run = [&]() noexcept {
        try {
            for (std::size_t i = next++; i < count; i = next++) work(i);
        } catch (...) {
            std::call_once(first_error, [&] { error = std::current_exception(); });
            next = count;
        }
    };
    {
        std::vector<std::jthread> helpers;
        const std::size_t n_helpers = std::max<std::size_t>(std::min(count, n_threads), 1) - 1;
        helpers.reserve(n_helpers);
        while (helpers.size() < n_helpers) helpers.emplace_back(run);
        run();
    }
    if (error) std::rethrow_exception(error);
}

} // namespace amforest
