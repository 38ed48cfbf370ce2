"""Cores in files of their own: what shards of a forest on several machines write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from amforest._forest.core_handle import Core
from amforest.model_io.document import FORMAT, Arrays, core_from_document, core_to_document
from amforest.model_io.json_values import as_kind, entry, has_keys
from amforest.model_io.model_file import format_errors, open_file, sealed_pieces

_KEYS = ("cores", "number")
_VERSION = "format"  # which files of format 3 do not have


def cores_to_bytes(cores: Mapping[int, Core], number: int) -> bytes:
    """Return cores, by number, and one more number as the bytes of a file."""
    documents: dict[str, Any] = {}
    arrays: dict[str, Any] = {}
    for key, core in cores.items():
        documents[str(key)], own = core_to_document(core)
        arrays |= {f"{key}/{name}": array for name, array in own.items()}
    document = {"cores": documents, "number": number, _VERSION: FORMAT}
    return b"".join(sealed_pieces(document, arrays))


def cores_from_bytes(data: bytes) -> tuple[dict[int, Core], int]:
    """Undo `cores_to_bytes`; `ModelFormatError` if the bytes are not valid."""
    document, arrays = open_file(data)
    with format_errors():
        version = entry(document, _VERSION, int) if _VERSION in document else 3
        has_keys(document, (*_KEYS, _VERSION) if _VERSION in document else _KEYS)
        if not 3 <= version <= FORMAT:
            raise ValueError(f"it has format {version}; expected 3 to {FORMAT}")
        cores: dict[int, Core] = {}
        for key, part in entry(document, "cores", dict).items():
            own = {
                name.removeprefix(f"{key}/"): array
                for name, array in arrays.items()
                if name.startswith(f"{key}/")
            }
            cores[int(key)] = _core(as_kind(part, dict), own, version)
        return cores, entry(document, "number", int)


def _core(part: dict[str, Any], arrays: Arrays, version: int) -> Core:
    return core_from_document(
        part, arrays, version, has_classes="n_classes" in part, is_adaptive="groups" in part
    )
