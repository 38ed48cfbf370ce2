// How large the parts of an adaptive forest may become.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "amforest/adaptive/schedule.hpp"

namespace amforest {

// What determines the sizes.
struct SizeLimits {
    std::size_t max_bytes = kUnlimited, max_nodes = kUnlimited;
    std::size_t row_limit = 0;   // of the store
    std::size_t store_bytes = 0; // of a row in the store
    std::size_t split_bytes = 0; // of a leaf and an inner node
    std::size_t grown_bytes = 0; // of a row while a tree is regrown from it
    std::size_t n_trees = 0;     // of each group
    std::size_t fixed_bytes = 0; // whatever the number of rows
    std::size_t regrows_per_memory = 1;
};

struct AdaptiveSizes {
    static constexpr std::size_t kChunk = 256; // rows that are learned together, at most

    std::size_t store_rows = 0;          // from which a tree may be regrown
    std::vector<std::size_t> memory;     // of each group
    std::vector<std::size_t> max_leaves; // of a tree of each group

    // The store keeps some more rows, which a regrowth may still read.
    static std::size_t capacity(std::size_t store_rows) {
        return store_rows + spare(store_rows) + kChunk;
    }
    static std::size_t spare(std::size_t store_rows) { return store_rows / 4; }

    // A tree with a memory has one leaf for each row of it, and for those that it learns before it
    // is replaced. So has the tree that will replace it.
    static std::size_t leaves_for(std::size_t memory, const SizeLimits &limits) {
        return memory + memory / limits.regrows_per_memory + 64;
    }

    AdaptiveSizes(std::span<const Group> groups, const SizeLimits &limits) {
        if (!fit(groups, limits)) throw std::invalid_argument(refusal(groups, limits));
    }

  private:
    static constexpr std::size_t kNodesPerLeaf = 3; // of a tree, and of the half that replaces it

    AdaptiveSizes() = default;

    // False if the limits are too small.
    bool fit(std::span<const Group> groups, const SizeLimits &limits) {
        store_rows = limits.row_limit;
        std::size_t bytes = limits.max_bytes;
        if (bytes != kUnlimited) {
            if (bytes < limits.fixed_bytes) return false;
            bytes -= limits.fixed_bytes;
            const std::size_t affordable = bytes / 4 / limits.store_bytes;
            if (capacity(kLeastMemory) > affordable) return false;
            store_rows = std::min(store_rows, (affordable - kChunk) / 5 * 4);
            bytes -= capacity(store_rows) * limits.store_bytes;
        }
        std::size_t nodes = limits.max_nodes;
        std::size_t n_left = groups.size() * limits.n_trees; // trees that have no part yet
        for (const Group &group : groups) {
            memory.push_back(std::min(group.memory, store_rows));
            max_leaves.push_back(0);
        }
        // The shortest memories take what they need first; those without end divide the rest.
        std::vector<std::size_t> order(groups.size());
        std::iota(order.begin(), order.end(), std::size_t{0});
        // A stable sort would do with less memory where it cannot have what it wants.
        std::ranges::sort(order, {}, [&](std::size_t g) { return std::pair(groups[g].memory, g); });
        for (const std::size_t g : order) {
            if (groups[g].memory == kUnlimited) continue;
            while (!fits(memory[g], limits, part(bytes, n_left), part(nodes, n_left)))
                memory[g] -= std::max<std::size_t>(memory[g] / 16, 1);
            if (memory[g] < kLeastMemory) return false;
            max_leaves[g] = leaves_for(memory[g], limits);
            if (bytes != kUnlimited) bytes -= limits.n_trees * bytes_for(memory[g], limits);
            if (nodes != kUnlimited) nodes -= limits.n_trees * nodes_for(memory[g], limits);
            n_left -= limits.n_trees;
        }
        for (std::size_t g = 0; g < groups.size(); ++g) {
            if (groups[g].memory != kUnlimited) continue;
            max_leaves[g] =
                std::min(unlimited_leaves(part(bytes, n_left), limits),
                         part(nodes, n_left) == kUnlimited ? kUnlimited
                                                           : part(nodes, n_left) / kNodesPerLeaf);
            if (max_leaves[g] < 2 * kLeastMemory) return false;
            memory[g] = std::min(memory[g], max_leaves[g] / 2);
        }
        return true;
    }

    // What is too small, and what would suffice.
    static std::string refusal(std::span<const Group> groups, const SizeLimits &limits) {
        const auto fits = [&](std::size_t SizeLimits::*which, std::size_t limit) {
            SizeLimits alone = limits;
            alone.max_bytes = alone.max_nodes = kUnlimited;
            alone.*which = limit;
            return AdaptiveSizes().fit(groups, alone);
        };
        const bool has_too_few_nodes = !fits(&SizeLimits::max_nodes, limits.max_nodes);
        const auto which = has_too_few_nodes ? &SizeLimits::max_nodes : &SizeLimits::max_bytes;
        std::size_t low = 0, high = kUnlimited / 2;
        while (high - low > 1) {
            const std::size_t middle = low + (high - low) / 2;
            (fits(which, middle) ? high : low) = middle;
        }
        return std::string(has_too_few_nodes ? "max_nodes" : "max_bytes") + " is " +
               std::to_string(limits.*which) + "; for " +
               std::to_string(groups.size() * limits.n_trees) +
               " trees of so many features and classes it must be at least " + std::to_string(high);
    }

    static std::size_t part(std::size_t of, std::size_t n_trees) {
        return of == kUnlimited ? kUnlimited : of / n_trees;
    }
    static std::size_t bytes_for(std::size_t memory, const SizeLimits &limits) {
        return 2 * leaves_for(memory, limits) * limits.split_bytes + memory * limits.grown_bytes;
    }
    static std::size_t nodes_for(std::size_t memory, const SizeLimits &limits) {
        return 4 * leaves_for(memory, limits);
    }
    static bool fits(std::size_t memory, const SizeLimits &limits, std::size_t bytes,
                     std::size_t nodes) {
        return memory == 0 ||
               (bytes_for(memory, limits) <= bytes && nodes_for(memory, limits) <= nodes);
    }
    // A full tree is regrown from half as many rows as it has leaves.
    static std::size_t unlimited_leaves(std::size_t bytes, const SizeLimits &limits) {
        if (bytes == kUnlimited) return kUnlimited;
        return 2 * bytes / (3 * limits.split_bytes + limits.grown_bytes);
    }
};

} // namespace amforest
