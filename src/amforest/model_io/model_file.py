"""The model file: a forest as bytes, which are validated before use.

The format is safetensors: arrays, and a document in JSON. No pickle is read or written, and no code
is run. Reading any bytes yields a valid forest or raises `ModelFormatError`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from os import PathLike
from typing import Any

import amforest
from amforest._forest.core_handle import handle_of
from amforest.model_io import atomic_write, safetensors_bytes
from amforest.model_io.document import (
    FORMAT,
    Arrays,
    Document,
    from_document,
    to_document,
)
from amforest.model_io.json_values import as_kind, entry, has_keys

__all__ = [
    "ModelFormatError",
    "NewerFormatError",
    "extra_of",
    "from_bytes",
    "load",
    "save",
    "to_bytes",
]

_DOCUMENT, _DIGEST = "amforest", "sha256"
_BLANK = "0" * 64  # instead of the digest, while it is computed
_TEXT_BYTES = 8  # the length of a header, of which the last ones are 0


class ModelFormatError(ValueError):
    """The bytes are not a model, or not one of this format."""


class NewerFormatError(ModelFormatError):
    """The bytes may be a model of a newer version."""


def save(model: Any, path: str | PathLike[str], *, extra: Any = None) -> str:
    """Write a model to a file, atomically: after any failure the file is the old or the new one.

    Parameters
    ----------
    model : AMFClassifier, AMFRegressor, MondrianForestClassifier, or one of `amforest.river`'s
        The model, fitted or not.
    path : str or path-like
        The file. Only its owner may read it.
    extra : object, default=None
        Values of JSON to store with the model: `extra_of` returns them.

    Returns
    -------
    str
        The SHA-256 digest of the file, for `load`.

    Examples
    --------
    >>> import amforest
    >>> model = amforest.AMFClassifier(random_state=0).fit([[0.0], [1.0]], ["no", "yes"])
    >>> folder = getfixture("tmp_path")
    >>> digest = amforest.save(model, folder / "model.amf")
    >>> amforest.load(folder / "model.amf", sha256=digest).predict([[0.1]])
    array(['no'], dtype='<U3')
    """
    return atomic_write.write_atomically(path, _encode(model, extra))


def load(path: str | PathLike[str], *, sha256: str | None = None) -> Any:
    """Read a model, which continues as if it had never been saved.

    Parameters
    ----------
    path : str or path-like
        The file.
    sha256 : str, default=None
        The digest that the file must have: the one that `save` returned, or ``sha256sum`` prints.

    Returns
    -------
    The model.

    Raises
    ------
    ModelFormatError
        If the file holds no valid model, has another digest, or is of a newer format.
    """
    data = atomic_write.read_all(path)
    if sha256 is not None:
        digest = hashlib.sha256(data).hexdigest()
        if digest != sha256.strip().lower():
            raise ModelFormatError(f"{path} has the SHA-256 digest {digest}, not {sha256}")
    return from_bytes(data)


def to_bytes(model: Any, *, extra: Any = None) -> bytes:
    """Return a model as the bytes that `save` writes. Equal models give equal bytes."""
    return b"".join(_encode(model, extra))


def from_bytes(data: bytes, *, may_lack_trees: bool = False) -> Any:
    """Restore a model from the bytes of `to_bytes`; `ModelFormatError` if they are not valid.

    `may_lack_trees`: a model whose trees are elsewhere is valid, too.
    """
    document, arrays = open_file(data)
    with format_errors():
        version = entry(document, "format", int)
        if version > FORMAT:
            library = entry(document, "library", str)
            raise NewerFormatError(
                f"the model has format {version}, written by amforest {library}; this is "
                f"amforest {amforest.__version__}, which reads formats up to {FORMAT}: install a "
                "newer one"
            )
        if version < 1:
            raise ValueError(f"there is no format {version}")
        model = from_document(document, arrays)
        fitted = handle_of(model).fitted
        if fitted is not None and fitted.core.is_part and not may_lack_trees:
            raise ValueError("its trees are elsewhere: use amforest.distributed.RayForest.resume")
        return model


def extra_of(data: bytes) -> Any:
    """Return the `extra` that was given to `to_bytes`."""
    document, _ = open_file(data)
    with format_errors():
        return document["extra"]


# Bytes


def sealed_pieces(document: Document, arrays: Arrays) -> list[bytes | memoryview]:
    """Return the pieces of a file, with its digest."""
    text = json.dumps(document, separators=(",", ":"), ensure_ascii=True, allow_nan=False)
    blank = safetensors_bytes.pack(arrays, {_DOCUMENT: text, _DIGEST: _BLANK})
    digest = hashlib.sha256()
    for piece in blank:
        digest.update(piece)
    sealed = {_DOCUMENT: text, _DIGEST: digest.hexdigest()}
    return [safetensors_bytes.header(arrays, sealed), *blank[1:]]


def _encode(model: Any, extra: Any) -> list[bytes | memoryview]:
    document, arrays = to_document(model)
    return sealed_pieces(document | {"extra": extra}, arrays)


def open_file(data: bytes) -> tuple[Document, Arrays]:
    """Undo `sealed_pieces`; `ModelFormatError` if the bytes are not valid."""
    with format_errors():
        if _is_text(as_kind(data, bytes)):
            raise ValueError(
                "it is text, such as CSV or JSON; expected a file that `amforest.save` or "
                "`amforest run --save` wrote"
            )
        arrays, metadata = safetensors_bytes.unpack(as_kind(data, bytes))
        has_keys(metadata, (_DOCUMENT, _DIGEST))
        blank = safetensors_bytes.header(arrays, metadata | {_DIGEST: _BLANK})
        digest = hashlib.sha256(blank)
        digest.update(memoryview(data)[len(blank) :])
        if digest.hexdigest() != metadata[_DIGEST]:
            raise ValueError("its digest is not that of its content: it was changed or damaged")
        document = json.loads(
            metadata[_DOCUMENT],
            parse_constant=_no_constant,
            object_pairs_hook=safetensors_bytes.unique_keys,
        )
        return as_kind(document, dict), arrays


def _is_text(data: bytes) -> bool:
    """Return whether data begin with printable text, unlike the length of a header."""
    head = data[:_TEXT_BYTES].decode("latin-1")
    return len(head) == _TEXT_BYTES and all(c.isprintable() or c in "\t\r\n" for c in head)


@contextmanager
def format_errors() -> Iterator[None]:
    """Raise all errors in a file as `ModelFormatError`."""
    try:
        yield
    except ModelFormatError:
        raise
    except (ValueError, TypeError, LookupError, ArithmeticError, RecursionError) as error:
        raise ModelFormatError(f"this is not a model of amforest: {error}") from error


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not a value of JSON")
