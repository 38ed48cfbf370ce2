// The limits of a forest, each in one place; Python reads them from the module.
#pragma once

#include <cstddef>
#include <limits>

namespace amforest {

inline constexpr std::size_t kUnlimited = std::numeric_limits<std::size_t>::max();

inline constexpr std::size_t kMostTrees = 65'535;
inline constexpr std::size_t kMostClasses = 65'535;    // a leaf's label has 16 bits in a model file
inline constexpr std::size_t kMostCategories = 65'535; // of one feature
inline constexpr std::size_t kMostThreads = 256;

inline constexpr std::size_t kMostRows = (std::size_t{1} << 31) - 1; // node ids have 31 bits

inline constexpr std::size_t kLeastMemory = 8; // rows from which a tree is regrown

// Features beyond this could make a sum of extensions overflow in float32.
inline constexpr float kLargestFeature = 0x1.0p100F;

// Numeric labels beyond this could make a sum of squares overflow.
inline constexpr double kLargestLabel = 1e75;

// The smallest weight of a row: far below it, ratios of counts would overflow.
inline constexpr double kLeastWeight = 0x1.0p-100;

// The largest count of a node, so that adding 1 is never lost to rounding.
inline constexpr double kMostCounted = 0x1.0p31 - 1; // in whole numbers
inline constexpr double kMostAddedUp = 0x1.0p53;     // in real numbers

} // namespace amforest
