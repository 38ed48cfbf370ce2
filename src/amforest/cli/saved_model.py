"""Models that `amforest run` has saved: a file, or a folder with the models of keys."""

from __future__ import annotations

from typing import Any

from amforest.cli.console import CommandError
from amforest.distributed import KeyedForests
from amforest.distributed.keyed_state import KeyedState, holds_models
from amforest.model_io import atomic_write, model_file, newest_checkpoint
from amforest.reading import Scheme


def load_with_scheme(path: str) -> tuple[Any, dict[str, Any], Scheme]:
    """Load a model that `amforest run` has saved, the state saved with it, and its scheme.

    The models of keys are in a folder.
    """
    if holds_models(path):
        model: Any = KeyedForests.load(path)
        state = model.extra_
    else:
        data = atomic_write.read_all(path)
        try:
            model, state = model_file.from_bytes(data), model_file.extra_of(data)
        except model_file.ModelFormatError as error:
            raise CommandError(f"{path}: {error}") from error
    return model, state, _scheme_of(state)


def load_checkpoint(folder: str) -> tuple[Any, Scheme] | None:
    """Return the model of the newest checkpoint, and its scheme; None if there is none.

    Of one model per key it is the one that all are copies of.
    """
    if holds_models(folder):
        keyed, _ = KeyedState.read(folder)
        return model_file.from_bytes(keyed.estimator), _scheme_of(keyed.extra)
    newest = newest_checkpoint(folder)
    return None if newest is None else (newest[0], _scheme_of(newest[1]))


def _scheme_of(state: Any) -> Scheme:
    is_state = isinstance(state, dict) and "scheme" in state
    return Scheme.from_json(state["scheme"] if is_state else None)
