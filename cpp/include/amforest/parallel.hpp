// Work on indices, shared between threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace amforest {

// Calls work(i) for i in [0, count) from up to n_threads threads. The work must not throw.
template <class Work> void for_each_index(std::size_t count, std::size_t n_threads, Work &&work) {
    std::atomic<std::size_t> next{0};
    const auto run = [&]() noexcept {
        for (std::size_t i = next++; i < count; i = next++) work(i);
    };
    std::vector<std::jthread> helpers;
    const std::size_t n_helpers = std::max<std::size_t>(std::min(count, n_threads), 1) - 1;
    helpers.reserve(n_helpers);
    while (helpers.size() < n_helpers) helpers.emplace_back(run);
    run();
}

} // namespace amforest
