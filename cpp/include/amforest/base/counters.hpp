// Counts what learning visits and loads, for benchmarks/limit.cpp, which defines AMFOREST_COUNT;
// elsewhere the calls compile to nothing.
#pragma once

#include <cstddef>
#include <cstdint>

namespace amforest {

#if defined(AMFOREST_COUNT)
struct Counters {
    std::uint64_t visits = 0, bytes = 0;
};
inline Counters counters;

inline void count_visit() { ++counters.visits; }
inline void count_load(std::size_t bytes) { counters.bytes += bytes; }
#else
inline void count_visit() {}
inline void count_load(std::size_t) {}
#endif

} // namespace amforest
