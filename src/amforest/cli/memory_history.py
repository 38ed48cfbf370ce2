"""The weights of an adaptive forest's memories along a run, for the report."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from numpy.typing import NDArray

from amforest.evaluation.adapters import Prediction, SklearnAdapter
from amforest.evaluation.blocks import Block, slice_block
from amforest.evaluation.result import Curve

FIRST_EVERY, MOST_POINTS = 50, 100  # each point costs the overhead of a call


class MemoryRecorder(SklearnAdapter):
    """An adapter that cuts blocks where it records the weights of the memories.

    The number of points is bounded. Cutting changes no prediction.

    Parameters
    ----------
    adapter : SklearnAdapter
        That of a model with `memory_weights_`.
    """

    def __init__(self, adapter: SklearnAdapter) -> None:
        super().__init__(adapter.model, adapter.task, adapter.classes)
        self._adapter, self._n_rows = adapter, 0
        self.learns_late_rows = adapter.learns_late_rows
        self._curve = Curve(first_every=FIRST_EVERY, most_points=MOST_POINTS)

    def history(self) -> dict[str, NDArray[Any]]:
        """Return numbers of rows learned, under "row", and after each the weight of each memory."""
        return self._curve.arrays(self._n_rows, self._weights() if self._n_rows else {})

    def block_size(self, requested: int | None) -> int:
        """Return how many rows the model gets at once."""
        return self._adapter.block_size(requested)

    def convert_block(self, X: Any) -> Any:
        """Convert many rows, where that is faster than row by row."""
        return self._adapter.convert_block(X)

    def convert_rows(self, X: Any) -> Any:
        """Convert rows that the stream yields one by one."""
        return self._adapter.convert_rows(X)

    def test_then_train(self, block: Block) -> Iterator[tuple[Block, Prediction | None]]:
        """Predict rows, then learn them, in parts that end where the curve has a point."""
        for part in self._parts(len(block.y)):
            yield from self._adapter.test_then_train(slice_block(block, part))
            self._advance(part.stop - part.start)

    def test_then_train_late(
        self, block: Block, due: Block
    ) -> Iterator[tuple[Block, Prediction | None]]:
        """Predict rows and learn others in turns, in parts that end where the curve has a point."""
        for part in self._parts(len(block.y)):
            some = slice_block(block, part), slice_block(due, part)
            yield from self._adapter.test_then_train_late(*some)
            self._advance(part.stop - part.start)

    def _parts(self, n_rows: int) -> Iterator[slice]:
        start = 0
        while start < n_rows:
            end = min(n_rows, start + self._curve.next - self._n_rows)
            yield slice(start, end)
            start = end

    def predict(self, block: Block) -> Prediction | None:
        """Predict rows; None if the model cannot predict yet."""
        return self._adapter.predict(block)

    def learn(self, block: Block) -> None:
        """Learn rows."""
        self._adapter.learn(block)
        self._advance(len(block.y))

    def _advance(self, n_rows: int) -> None:
        self._n_rows += n_rows
        if self._n_rows == self._curve.next:
            self._curve.add(self._n_rows, self._weights())

    def _weights(self) -> dict[str, float]:
        model = self.model
        return dict(zip(model.memory_names_, model.memory_weights_.tolist(), strict=True))
