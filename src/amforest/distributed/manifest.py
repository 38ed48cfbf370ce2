"""Manifests: numbered files that say what a folder holds. The newest one that is whole counts.

No file is overwritten, so that a writer that dies at any moment leaves the manifest before, also in
storage that cannot replace a file atomically.
"""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from amforest.distributed.store_folder import StoreFolder
from amforest.model_io import ModelFormatError

FORMAT = 1
_NAME = re.compile(r"manifest-(\d{12})\.json")


def write_manifest(folder: StoreFolder, generation: int, content: dict[str, Any]) -> None:
    """Write the manifest of a generation: a line with a digest, then JSON."""
    data = json.dumps({"format": FORMAT, **content}, allow_nan=False).encode()
    digest = hashlib.sha256(data).hexdigest().encode()
    folder.write(name_of(generation), [digest, b"\n", data])


def read_manifest(folder: StoreFolder, generation: int) -> dict[str, Any]:
    """Return the content of a manifest; `ModelFormatError` if it is damaged or too new."""
    name = name_of(generation)
    digest, _, data = folder.read(name).partition(b"\n")
    if hashlib.sha256(data).hexdigest().encode() != digest:
        raise ModelFormatError(f"{name} is damaged: its digest is not that of its content")
    content: dict[str, Any] = json.loads(data)
    if content["format"] > FORMAT:
        raise ModelFormatError(
            f"{name} has format {content['format']}; this version reads formats up to {FORMAT}: "
            "install a newer one"
        )
    return content


def generations_in(folder: StoreFolder) -> list[int]:
    """Return the generations that a folder has manifests of, in their order."""
    return sorted(int(match[1]) for match in map(_NAME.fullmatch, folder.names()) if match)


def name_of(generation: int) -> str:
    """Return the name of the file."""
    return f"manifest-{generation:012}.json"
