// Adaptive forests as the arrays of a model file.
#pragma once

#include <cstddef>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "amforest/adaptive/class_task.hpp"
#include "amforest/adaptive/number_task.hpp"
#include "amforest/io/adaptive_columns.hpp"

namespace amforest {

template <class Task> struct SavedAdaptive {
    using Forest = AdaptiveForest<Task>;
    using Labels = typename Task::Labels;
    using Common = typename Forest::Common;
    using Parameters = typename Labels::Parameters;

    Common common;
    std::size_t n_rows;
    FlatForest<Labels, Owned> trees;
    AdaptiveColumns<Task, Owned> memory;

    // As the forest is now.
    static SavedAdaptive of(const Forest &forest) {
        return forest.inspect_all([&](const Forest &now) {
            SavedAdaptive saved{now.common(), now.n_rows(),
                                flatten<Restricted, Labels>(now.regrown_trees().all()),
                                flatten_memory<Task>(now)};
            saved.common.parameters = std::make_shared<Parameters>(*now.common().parameters);
            return saved;
        });
    }

    template <class Use> void for_each_column(const Use &use) {
        const auto each = [&](const char *, auto &column, std::size_t, std::size_t) {
            use(column);
        };
        trees.for_each(common.tree_layout(), *common.parameters, each);
        memory.for_each(common.layout, common.n_trees(), each);
    }

    // The bytes of each column.
    std::vector<std::string> bytes() {
        std::vector<std::string> all;
        for_each_column([&](const auto &column) {
            all.emplace_back(reinterpret_cast<const char *>(column.data()),
                             std::span(column).size_bytes());
        });
        return all;
    }

    // As the binding does; throws std::invalid_argument if the arrays are refused.
    std::unique_ptr<Forest> restore() {
        FlatForest<Labels, Borrowed> flat_trees;
        AdaptiveColumns<Task, Borrowed> flat_memory;
        std::vector<std::pair<const void *, std::size_t>> columns;
        for_each_column([&](auto &column) { columns.emplace_back(column.data(), column.size()); });
        auto next = columns.begin();
        const auto borrow = [&]<class T>(const char *, std::span<T> &column, auto...) {
            column = {static_cast<T *>(next->first), next->second};
            ++next;
        };
        flat_trees.for_each(common.tree_layout(), *common.parameters, borrow);
        flat_memory.for_each(common.layout, common.n_trees(), borrow);
        Common own = common;
        own.parameters = std::make_shared<Parameters>(*common.parameters);
        own.columns = AdaptiveRestorer<Task>::columns(flat_memory, own.layout);
        return std::make_unique<Forest>(std::move(own), [&](Forest &forest) {
            AdaptiveRestorer<Task>(flat_memory, forest).restore(flat_trees, n_rows);
        });
    }
};

// The columns of trees before features came later.
inline Columns first_columns(const Layout &layout) {
    std::vector<std::uint32_t> features(layout.n_features());
    std::iota(features.begin(), features.end(), 0U);
    return {layout, std::move(features)};
}

} // namespace amforest
