"""Checkpoints: a run that was stopped, however it was, goes on from the last model it saved."""

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

from amforest._forest.base import check_weights, tree_seeds
from amforest._forest.features import Floats
from amforest.model_io import atomic_write, document, model_file
from amforest.model_io.interrupts import Interrupts
from amforest.model_io.json_values import to_json
from amforest.model_io.model_file import ModelFormatError, NewerFormatError

__all__ = ["Checkpoint"]

ROWS_AT_ONCE = 4_000  # that `partial_fit` learns before it looks for a signal
_NAME = re.compile(r"checkpoint-(\d{12,})(?:-(\d{12,}))?\.amf", re.ASCII)

Model = TypeVar("Model")


class Checkpoint(Generic[Model]):
    """Save a model while it learns, and resume from the newest file after any kind of stop.

    Within its block SIGINT (Ctrl-C) and SIGTERM wait for the next `step`, which saves and leaves:
    by KeyboardInterrupt, or by SystemExit with the status 143. A second signal raises
    KeyboardInterrupt at once. What was learnt is saved on leaving, after an error too.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, MondrianForestClassifier, or one of `amforest.river`'s
        What to begin with if the folder has no checkpoint. Those that it has must be of the same
        class and have the same parameters; only `n_jobs` may differ.
    folder : str or path-like
        Where the files are, for this run alone. It is made if needed; files with names other than
        those of checkpoints stay as they are.
    every : int or None, default=10_000
        After how many more rows `step` saves. None means on leaving only.
    keep : int, default=3
        How many files are kept: the newest ones.

    Attributes
    ----------
    model
        The model that learns: from within the block, the newest that could be loaded.
    resumed_from : Path or None
        The file which that was.
    extra : object
        Whatever else is to be saved with the model, in values of JSON; after resuming, what was.

    Notes
    -----
    The files are ``checkpoint-<n_samples>.amf``, or ``checkpoint-<n_samples>-<position>.amf`` where
    the two numbers differ. One that is damaged is renamed, with a warning, to end in ``.damaged``.
    A file that this version is too old for, or may not read, is an error.

    Signals are taken in the main thread only, and not where they were ignored before. A loop that
    waits for its next row ends when that comes, or with a second signal.

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
    ) -> None:
        document.name_of(model)  # refuses what cannot be saved
        if every is not None:
            check_scalar(every, "every", Integral, min_val=1)
        check_scalar(keep, "keep", Integral, min_val=1)
        self.model, self.folder, self.every, self.keep = model, Path(folder), every, keep
        if self.folder.exists() and not self.folder.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, "folder is a file", str(folder))
        self.resumed_from: Path | None = None
        self.extra: Any = None
        self._skipped = -self.n_samples  # rows of the stream that were not learnt; see `position`
        self._saved = self.n_samples, 0  # with position; what was given needs no saving either
        self._next = math.inf  # n_samples from which on a file is due
        self._interrupts: Interrupts | None = None  # within the block

    @property
    def n_samples(self) -> int:
        """How many rows the model has learnt."""
        return _n_samples(self.model)

    @property
    def position(self) -> int:
        """How many rows of the stream were consumed, in this run and those before it.

        Those learnt by `model`, as it was given, are not among them. What was learnt since the last
        `step` counts as one row each.
        """
        return self.n_samples + self._skipped

    def __enter__(self) -> Self:
        if self._interrupts is not None:
            raise RuntimeError("this Checkpoint is in use: leave its block before you enter again")
        self.folder.mkdir(parents=True, exist_ok=True)
        damaged = self._resume()
        atomic_write.remove_stale(self.folder, "checkpoint-")
        for path in damaged:
            path.rename(_aside(path))
        self._remove_old()  # runs that are killed again and again may not have come to it
        for path, reason in damaged.items():
            text = f"{path} is damaged and now called {_aside(path).name}: {reason}"
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
            self._save_if_newer()
        except Exception as failure:
            # Of all others, such as SystemExit, nobody would see the note.
            if not isinstance(error, (Exception, KeyboardInterrupt)):
                raise
            error.add_note(f"On leaving, the model could not be saved: {failure!r}")
        finally:
            interrupts.__exit__()
            self._interrupts = None
        if error is None:
            interrupts.deliver()
        elif interrupts.first is not None and isinstance(error, Exception):
            error.add_note(f"{signal.Signals(interrupts.first).name} came before this error")

    @property
    def is_due(self) -> bool:
        """Whether the next `step` will save: `every` more rows were learnt."""
        return self.n_samples >= self._next

    def step(self, position: int | None = None) -> None:
        """Save if it is time to; leave if a signal came. Call it after each row or batch.

        Parameters
        ----------
        position : int, default=None
            How many rows of the stream were consumed so far, for those who have rows which are not
            learnt: of weight 0, or refused with an error. None means that since the last step all
            were learnt.
        """
        interrupts = self._inside()
        if position is not None:
            self._set_position(position)
        if interrupts.came or self.is_due:
            self._save_if_newer()
            interrupts.deliver()

    def save(self) -> Path:
        """Save now, whatever is due, and return the file's path."""
        self._inside()
        with _lock(self.model):  # in its file, a model has as many rows as the name says
            now = n_samples, position = self.n_samples, self.position
            if now < self._saved:
                raise ValueError(
                    f"the model has learnt {n_samples} rows, but had learnt {self._saved[0]}: use "
                    "another folder for one that is fitted afresh"
                )
            self._plan()  # also if this fails: the next row need not try again
            differs = f"-{position:012}" if position != n_samples else ""
            path = self.folder / f"checkpoint-{n_samples:012}{differs}.amf"
            model_file.save(self.model, path, extra=self.extra)
        self._saved = now
        self._remove_old()
        return path

    def partial_fit(self, X: Any, y: Any, **how: Any) -> Self:
        """Learn a large batch in pieces, with a `step` after each; the forest is the same.

        An error leaves what was learnt before: `position` tells where it ends.

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
            raise TypeError(
                "models of river have no partial_fit: call model.learn_many, and then step"
            )
        check_consistent_length(X, y)
        X, y, n_rows = _sliceable(X), _sliceable(y, labels=True), _num_samples(X)
        weights = how.pop("sample_weight", None)
        if weights is not None:
            weights = check_weights(weights, n_rows)
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
            how.pop("classes", None)  # the model checks them once, and others may come
            self.step()
        return self

    def _knows(self, classes: ArrayLike | None) -> bool:
        if classes is None or not self.n_samples:
            return False
        known: Any = getattr(self.model, "classes_", np.empty(0))
        return set(np.asarray(classes).tolist()) <= set(known.tolist())

    def _pieces(self, n_rows: int, weights: Floats | None) -> Iterator[slice]:
        """Cut a batch; the first piece of all must have something to learn."""
        size = end = min(self.every or ROWS_AT_ONCE, ROWS_AT_ONCE)
        if weights is not None and not self.n_samples:
            end = max(size, int(np.argmax(weights > 0)) + 1)
        yield slice(0, end)
        for start in range(end, n_rows, size):
            yield slice(start, start + size)

    def _inside(self) -> Interrupts:
        if self._interrupts is None:
            raise RuntimeError("a Checkpoint works within its block: with Checkpoint(…) as …")
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
                "it must count all of them, also those before the run was resumed"
            )
        self._skipped = position - self.n_samples

    def _resume(self) -> dict[Path, ModelFormatError]:
        """Take the newest model that can be loaded; return what cannot. Changes no file."""
        damaged: dict[Path, ModelFormatError] = {}
        self.resumed_from = None
        for file in reversed(_files_in(self.folder)):
            try:
                model, extra = _load(file)
            except ModelFormatError as error:
                damaged[file.path] = error
                continue
            _check_same(self.model, model, file.path)
            _set_n_jobs(model, self.model)
            self.model, self.extra, self.resumed_from = model, extra, file.path
            self._skipped = file.position - file.n_samples
            self._saved = file.n_samples, file.position
            break
        return damaged


# Files


class _File(NamedTuple):
    """A checkpoint, as its name describes it; newer ones are greater."""

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


def _aside(path: Path) -> Path:
    return path.with_name(path.name + ".damaged")


def _load(file: _File) -> tuple[Any, Any]:
    """Load a checkpoint; `ModelFormatError` if it is damaged, other errors if it may be whole."""
    try:
        data = atomic_write.read_all(file.path)
        model = model_file.from_bytes(data)
    except NewerFormatError as error:
        raise ValueError(f"{file.path}: {error}") from error
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        raise ModelFormatError(str(error)) from error
    if (found := _n_samples(model)) != file.n_samples:
        raise ModelFormatError(f"it has learnt {found} rows, not as many as its name says")
    return model, model_file.extra_of(data)


# Models: scikit-learn's twins and river's, which hold one of those


def _n_samples(model: Any) -> int:
    try:
        return int(model.n_samples_seen_)
    except NotFittedError:
        return 0


def _lock(model: Any) -> AbstractContextManager[bool]:
    lock: AbstractContextManager[bool] = getattr(model, "_model", model)._lock
    return lock


def _params(model: Any) -> dict[str, Any]:
    is_river = hasattr(model, "_get_params")
    params: dict[str, Any] = model._get_params() if is_river else model.get_params(deep=False)
    return params


def _set_n_jobs(model: Any, like: Any) -> None:
    for part in (model, getattr(model, "_model", model)):
        part.n_jobs = like.n_jobs


def _check_same(given: Any, found: Any, path: Path) -> None:
    """Refuse to go on with another model than the one that is wanted."""
    if type(found) is not type(given):
        names = [f"{type(model).__module__}.{type(model).__name__}" for model in (found, given)]
        raise ValueError(f"{path} holds a {names[0]}, but model is a {names[1]}")
    saved = _params(found)
    for name, value in _params(given).items():
        if name != "n_jobs" and not _is_same(value, saved[name], name):
            raise ValueError(
                f"{path} was learnt with {name}={saved[name]!r}, but model has {name}={value!r}: "
                "give it the same value, or use another folder"
            )


def _is_same(given: Any, saved: Any, name: str) -> bool:
    if to_json(given, name) == to_json(saved, name):
        return True
    if not isinstance(given, RandomState):
        return False
    drawn = deepcopy(given)
    tree_seeds(drawn, 1)  # as the model did before it learnt its first row
    return bool(to_json(drawn, name) == to_json(saved, name))


# Batches


def _sliceable(values: Any, *, labels: bool = False) -> Any:
    if issparse(values):
        return values.tocsr()
    # All labels of a list become of one kind, whatever the kinds in each piece.
    is_list = labels and isinstance(values, (list, tuple))
    return np.asarray(values) if is_list or not hasattr(values, "__getitem__") else values


def _rows(values: Any, part: slice) -> Any:
    return values.iloc[part] if hasattr(values, "iloc") else values[part]


def _n_skipped(weights: Floats, n_learnt: int) -> int:
    """Count the rows of weight 0 up to the first that was not learnt but should have been."""
    rows = np.flatnonzero(weights)
    end = int(rows[n_learnt]) if n_learnt < len(rows) else len(weights)
    return end - n_learnt
