// What learning visits and loads. Counted in benchmarks/limit.cpp alone, which defines
// AMFOREST_COUNT; elsewhere nothing is left of it.
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
