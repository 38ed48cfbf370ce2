"""Checkpoints: a run that was stopped, in whatever way, resumes from the last model it saved."""

from __future__ import annotations

import errno
import math
import operator
import os
import re
import signal
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager
from copy import deepcopy
from numbers import Integral
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, NamedTuple, Self, TypeVar

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_consistent_length, check_scalar
from sklearn.utils.validation import _num_samples

from amforest._forest.core_handle import handle_of
from amforest._forest.core_options import tree_seeds
from amforest._forest.inputs import validate_weights
from amforest._forest.losses import Floats
from amforest.model_io import atomic_write, document, model_file
from amforest.model_io.interrupts import Interrupts
from amforest.model_io.json_values import to_json
from amforest.model_io.model_file import ModelFormatError, NewerFormatError

__all__ = ["Checkpoint", "newest_checkpoint"]

ROWS_AT_ONCE = 4_000  # that `partial_fit` learns between two checks for a signal
_NAME = re.compile(r"checkpoint-(\d{12,})(?:-(\d{12,}))?\.amf", re.ASCII)

Model = TypeVar("Model")


class Checkpoint(Generic[Model]):
    """Save a model while it learns, and resume from the newest file after any kind of stop.

    Within its block SIGINT (Ctrl-C) and SIGTERM are held back until the next `step`, which saves
    and raises KeyboardInterrupt, or SystemExit with status 143. A second signal raises
    KeyboardInterrupt at once. The model is also saved at the end of the block, even after an error,
    unless `at_end` is False.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, MondrianForestClassifier, or one of `amforest.river`'s
        The model to start with if the folder has no checkpoint. Those in the folder must be of the
        same class and have the same parameters; only `n_jobs` may differ.
    folder : str or path-like
        The folder of the files, for this run alone. It is created if needed; files with names other
        than those of checkpoints are not changed.
    every : int or None, default=10_000
        The number of rows after which `step` saves. None means at the end of the block only.
    keep : int, default=3
        The number of files to keep: the newest ones.
    at_end : bool, default=True
        Whether to save at the end of the block, too. False is for those who call `save` themselves,
        at moments when `extra` fits the model.

    Attributes
    ----------
    model
        The model that learns: within the block, the newest one that could be loaded.
    resumed_from : Path or None
        The file it was loaded from.
    extra : object
        Values of JSON to save with the model; after resuming, those that were saved.

    Notes
    -----
    The files are ``checkpoint-<n_samples>.amf``, or ``checkpoint-<n_samples>-<position>.amf`` where
    the two numbers differ. One that is damaged is renamed, with a warning, to end in ``.damaged``.
    A file that this version is too old for, or may not read, is an error.

    Signals are handled in the main thread only, and not if they were ignored before. A loop that
    waits for its next row stops when that comes, or at a second signal.

    Examples
    --------
    >>> from itertools import islice
    >>> from amforest import AMFClassifier, Checkpoint
    >>> stream = [([t % 7, t % 5], t % 2) for t in range(1_000)]
    >>> folder = getfixture("tmp_path")
    >>> def run(stream):
    ...     with Checkpoint(AMFClassifier(random_state=0), folder, every=250) as checkpoint:
    ...         print("from", checkpoint.position)
    ...         for x, y in islice(stream, checkpoint.position, None):
    ...             checkpoint.model.learn_one(x, y)
    ...             checkpoint.step()
    ...     return checkpoint.model
    >>> stopped = run(stream[:600])
    from 0
    >>> resumed = run(stream)
    from 600
    >>> sorted(path.name for path in folder.iterdir())
    ['checkpoint-000000000600.amf', 'checkpoint-000000000850.amf', 'checkpoint-000000001000.amf']
    """

    def __init__(
        self,
        model: Model,
        folder: str | os.PathLike[str],
        *,
        every: int | None = 10_000,
        keep: int = 3,
        at_end: bool = True,
    ) -> None:
        document.name_of(model)  # refuses what cannot be saved
        if every is not None:
            check_scalar(every, "every", Integral, min_val=1)
        check_scalar(keep, "keep", Integral, min_val=1)
        self.model, self.folder, self.every, self.keep = model, Path(folder), every, keep
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "folder is a file", str(folder))
        self.at_end = at_end
        self.resumed_from: Path | None = None
        self.extra: Any = None
        self._skipped = -self.n_samples  # rows of the stream that were not learned; see `position`
        self._saved = self.n_samples, 0  # with position; the given model needs no saving
        self._next = math.inf  # n_samples from which on a file is due
        self._interrupts: Interrupts | None = None  # within the block

    @property
    def n_samples(self) -> int:
        """The number of rows the model has learned."""
        return _n_samples(self.model)

    @property
    def position(self) -> int:
        """The number of rows of the stream that were consumed, in this run and those before it.

        Rows that the given `model` had learned before are not included. A row learned since the
        last `step` counts as one.
        """
        return self.n_samples + self._skipped

    def __enter__(self) -> Self:
        if self._interrupts is not None:
            raise RuntimeError("this Checkpoint is in use: it cannot be entered twice")
        self.folder.mkdir(parents=True, exist_ok=True)
        damaged = self._resume()
        atomic_write.remove_stale(self.folder, "checkpoint-")
        for path in damaged:
            path.rename(_aside(path))
        self._remove_old()  # a killed run may not have removed them
        for path, reason in damaged.items():
            text = f"{path} is damaged and was renamed to {_aside(path).name}: {reason}"
            warnings.warn(text, stacklevel=2)
        self._plan()
        self._interrupts = Interrupts().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        interrupts = self._inside()
        try:
            if self.at_end:
                self._save_if_newer()
        except Exception as failure:
            # The note on any other error, such as SystemExit, is never printed.
            if not isinstance(error, (Exception, KeyboardInterrupt)):
                raise
            error.add_note(f"The model could not be saved at the end of the block: {failure!r}")
        finally:
            interrupts.__exit__()
            self._interrupts = None
        if error is None:
            interrupts.deliver()
        elif interrupts.first is not None and isinstance(error, Exception):
            error.add_note(f"{signal.Signals(interrupts.first).name} came before this error")

    @property
    def is_due(self) -> bool:
        """Whether the next `step` saves: `every` more rows were learned."""
        return self.n_samples >= self._next

    def step(self, position: int | None = None) -> None:
        """Save if it is due, and raise if a signal is held back. Call it after each row or batch.

        Parameters
        ----------
        position : int, default=None
            The number of rows of the stream consumed so far, if some are not learned: rows of
            weight 0, or refused with an error. None means that all rows since the last step were
            learned.
        """
        interrupts = self._inside()
        if position is not None:
            self._set_position(position)
        if interrupts.received or self.is_due:
            self._save_if_newer()
            interrupts.deliver()

    def save(self) -> Path:
        """Save now, and return the path of the file."""
        self._inside()
        with _lock(self.model):  # the name of the file says how many rows the model has learned
            now = n_samples, position = self.n_samples, self.position
            if now < self._saved:
                raise ValueError(
                    f"the model has learned {n_samples} rows, but had learned {self._saved[0]}: "
                    "use another folder for a model that is fitted again"
                )
            self._plan()  # even if this fails: the next row must not try again
            differs = f"-{position:012}" if position != n_samples else ""
            path = self.folder / f"checkpoint-{n_samples:012}{differs}.amf"
            model_file.save(self.model, path, extra=self.extra)
        self._saved = now
        self._remove_old()
        return path

    def partial_fit(self, X: Any, y: Any, **how: Any) -> Self:
        """Learn a large batch in pieces, with a `step` after each; the result is the same.

        After an error, `position` is the row up to which the batch was learned.

        Parameters
        ----------
        X, y
            As in the model's `partial_fit`.
        **how
            `sample_weight`, and for classifiers `classes`, as there. After a resume, classes may be
            announced again.

        Returns
        -------
        self
        """
        self._inside()
        learn = getattr(self.model, "partial_fit", None)
        if learn is None:
            raise TypeError("models of river have no partial_fit: call model.learn_many, then step")
        check_consistent_length(X, y)
        X, y, n_rows = _sliceable(X), _sliceable(y, labels=True), _num_samples(X)
        weights = how.pop("sample_weight", None)
        if weights is not None:
            weights = validate_weights(weights, n_rows)
        if self._knows(how.get("classes")):
            del how["classes"]
        for part in self._pieces(n_rows, weights):
            before = self.n_samples
            if weights is not None:
                how["sample_weight"] = weights[part]
            try:
                learn(_rows(X, part), _rows(y, part), **how)
            finally:
                if weights is not None:
                    self._skipped += _n_skipped(weights[part], self.n_samples - before)
            how.pop("classes", None)  # they are announced once; further classes may follow
            self.step()
        return self

    def _knows(self, classes: ArrayLike | None) -> bool:
        if classes is None or not self.n_samples:
            return False
        known: Any = getattr(self.model, "classes_", np.empty(0))
        return set(np.asarray(classes).tolist()) <= set(known.tolist())

    def _pieces(self, n_rows: int, weights: Floats | None) -> Iterator[slice]:
        """Cut a batch; the very first piece must have a row of positive weight."""
        size = end = min(self.every or ROWS_AT_ONCE, ROWS_AT_ONCE)
        if weights is not None and not self.n_samples:
            end = max(size, int(np.argmax(weights > 0)) + 1)
        yield slice(0, end)
        for start in range(end, n_rows, size):
            yield slice(start, start + size)

    def _inside(self) -> Interrupts:
        if self._interrupts is None:
            raise RuntimeError("a Checkpoint works within its block only: with Checkpoint(…) as …")
        return self._interrupts

    def _plan(self) -> None:
        self._next = math.inf if self.every is None else self.n_samples + self.every

    def _remove_old(self) -> None:
        for old in _files_in(self.folder)[: -self.keep]:
            old.path.unlink(missing_ok=True)

    def _save_if_newer(self) -> None:
        if (self.n_samples, self.position) != self._saved:
            self.save()

    def _set_position(self, position: int) -> None:
        position = operator.index(position)
        if position < self.position:
            raise ValueError(
                f"position is {position}, but {self.position} rows of the stream were consumed: "
                "it must count all rows, including those before the run was resumed"
            )
        self._skipped = position - self.n_samples

    def _resume(self) -> dict[Path, ModelFormatError]:
        """Load the newest model that is not damaged; return the damaged files. No file changes."""
        self.resumed_from = None
        newest, damaged = _newest(self.folder)
        if newest is not None:
            file, model, extra = newest
            _check_same(self.model, model, file.path)
            _set_n_jobs(model, self.model)
            self.model, self.extra, self.resumed_from = model, extra, file.path
            self._skipped = file.position - file.n_samples
            self._saved = file.n_samples, file.position
        return damaged


def newest_checkpoint(folder: str | os.PathLike[str]) -> tuple[Any, Any] | None:
    """Load the newest model in a folder of checkpoints that is not damaged.

    Parameters
    ----------
    folder : str or path-like
        It need not exist.

    Returns
    -------
    tuple or None
        The model, and the `extra` that was saved with it; None if there is no checkpoint.
    """
    newest = _newest(Path(folder))[0] if Path(folder).is_dir() else None
    return None if newest is None else newest[1:]


# Files


class _File(NamedTuple):
    """A checkpoint, as its name describes it; newer ones compare greater."""

    n_samples: int
    position: int
    path: Path


def _files_in(folder: Path) -> list[_File]:
    """Return the checkpoints, oldest first."""
    files = []
    for path in folder.iterdir():
        if (name := _NAME.fullmatch(path.name)) and path.is_file():
            n_samples, position = name.groups()
            files.append(_File(int(n_samples), int(position or n_samples), path))
    return sorted(files)


def _newest(folder: Path) -> tuple[tuple[_File, Any, Any] | None, dict[Path, ModelFormatError]]:
    """Load the newest checkpoint that is not damaged; return it, and the damaged files."""
    damaged: dict[Path, ModelFormatError] = {}
    for file in reversed(_files_in(folder)):
        try:
            return (file, *_load(file)), damaged
        except ModelFormatError as error:
            damaged[file.path] = error
    return None, damaged


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ".damaged")


def _load(file: _File) -> tuple[Any, Any]:
    """Load a checkpoint; `ModelFormatError` if it is damaged, other errors if it may not be."""
    try:
        data = atomic_write.read_all(file.path)
        model = model_file.from_bytes(data)
    except NewerFormatError as error:
        raise ValueError(f"{file.path}: {error}") from error
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise ModelFormatError(str(error)) from error
    if (n_samples := _n_samples(model)) != file.n_samples:
        raise ModelFormatError(f"it has learned {n_samples} rows, not as many as its name says")
    return model, model_file.extra_of(data)


# Models: those of river hold one of scikit-learn's kind


def _n_samples(model: Any) -> int:
    try:
        return int(model.n_samples_seen_)
    except NotFittedError:
        return 0


def _lock(model: Any) -> AbstractContextManager[bool]:
    lock: AbstractContextManager[bool] = handle_of(model).lock
    return lock


def _params(model: Any) -> dict[str, Any]:
    is_river = hasattr(model, "_get_params")
    params: dict[str, Any] = model._get_params() if is_river else model.get_params(deep=False)
    return params


def _set_n_jobs(model: Any, like: Any) -> None:
    for part in (model, getattr(model, "_model", model)):
        part.n_jobs = like.n_jobs


def _check_same(given: Any, loaded: Any, path: Path) -> None:
    """Refuse to resume from a model of another class, or with other parameters."""
    if type(loaded) is not type(given):
        names = [f"{type(model).__module__}.{type(model).__name__}" for model in (loaded, given)]
        raise ValueError(f"{path} holds a {names[0]}, but model is a {names[1]}")
    saved = _params(loaded)
    for name, value in _params(given).items():
        if name != "n_jobs" and not _is_same(value, saved[name], name):
            raise ValueError(
                f"{path} was trained with {name}={saved[name]!r}, but model has {name}={value!r}: "
                "use the same value, or another folder"
            )


def _is_same(given: Any, saved: Any, name: str) -> bool:
    if to_json(given, name) == to_json(saved, name):
        return True
    if not isinstance(given, RandomState):
        return False
    drawn = deepcopy(given)
    tree_seeds(drawn, 1)  # as the model did before its first row
    return bool(to_json(drawn, name) == to_json(saved, name))


# Batches


def _sliceable(values: Any, *, labels: bool = False) -> Any:
    if issparse(values):
        return values.tocsr()
    # All labels of a list get one dtype, whatever the types in each piece.
    is_list = labels and isinstance(values, (list, tuple))
    return np.asarray(values) if is_list or not hasattr(values, "__getitem__") else values


def _rows(values: Any, part: slice) -> Any:
    return values.iloc[part] if hasattr(values, "iloc") else values[part]


def _n_skipped(weights: Floats, n_learned: int) -> int:
    """Count the rows of weight 0 before the first row that was not learned because of an error."""
    rows = np.flatnonzero(weights)
    end = int(rows[n_learned]) if n_learned < len(rows) else len(weights)
    return end - n_learned
