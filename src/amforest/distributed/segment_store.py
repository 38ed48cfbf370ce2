"""A store of the models of many keys, as bytes, in files that hold thousands of them each.

A model of a few rows has a few kilobytes: a file for each would cost more than its content, in time
(two syncs of a disk, or one request to object storage, for each write) and in space. So models that
are put are collected, and written as one *segment* when there are enough of them. A segment never
changes. Its end lists its keys, and a manifest lists the segments; of two models of a key, that in
the later segment counts. When more than half of all bytes are outdated, the models that still count
in the most outdated segments are put again, and these segments are removed.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from amforest.distributed.manifest import name_of, read_manifest, write_manifest
from amforest.distributed.store_folder import StoreFolder
from amforest.model_io import ModelFormatError

Key = str | int

SEGMENT_BYTES = 8 * 2**20


class _Place(NamedTuple):
    segment: int
    start: int
    length: int


@dataclass
class _Segment:
    """A file of models: its keys, where its index starts, and how many bytes still count."""

    keys: list[Key]
    size: int  # of the models; the index follows
    index_digest: str
    live: int


class SegmentStore:
    """The models of many keys, as bytes.

    `commit` makes a generation: what the store held at that moment. It can be opened again as long
    as it is one of the last two. What was put after the last commit is lost with the process.

    Parameters
    ----------
    folder : StoreFolder
        It belongs to one store in one process at a time.
    segment_bytes : int, default=SEGMENT_BYTES
        The size from which on models that were put are written.
    generation : int or None, default=None
        The generation to open; None means an empty store.
    """

    def __init__(
        self,
        folder: StoreFolder,
        *,
        segment_bytes: int = SEGMENT_BYTES,
        generation: int | None = None,
    ) -> None:
        self._folder, self._segment_bytes = folder, segment_bytes
        self._buffer: dict[Key, bytes] = {}
        self.buffered_bytes = 0
        self._places: dict[Key, _Place] = {}
        self._segments: dict[int, _Segment] = {}
        self._committed: dict[int, set[int]] = {}  # the segments of the last generations
        self._next = 0
        if generation is not None:
            self._open(generation)
        self._remove_others()

    def __contains__(self, key: Key) -> bool:
        return key in self._buffer or key in self._places

    def __len__(self) -> int:
        return len(self._places) + sum(key not in self._places for key in self._buffer)

    def __iter__(self) -> Iterator[Key]:
        yield from self._places
        yield from (key for key in self._buffer if key not in self._places)

    @property
    def n_bytes(self) -> int:
        """The bytes of all models that count."""
        return self._live_bytes() + self.buffered_bytes

    def get(self, key: Key) -> bytes:
        """Return the bytes of a key."""
        if (data := self._buffer.get(key)) is not None:
            return data
        place = self._places[key]
        return self._folder.read(_file_name(place.segment), place.start, place.length)

    def put(self, key: Key, data: bytes) -> None:
        """Set the bytes of a key."""
        if (place := self._places.get(key)) is not None and key not in self._buffer:
            self._segments[place.segment].live -= place.length
        self._add(key, data)
        if self.buffered_bytes >= self._segment_bytes:
            self._write_segment()
            self._compact()

    def commit(self, generation: int) -> None:
        """Write everything, as a generation with a number above all before."""
        self._write_segment()
        segments = [
            [number, segment.size, segment.index_digest]
            for number, segment in self._segments.items()
        ]
        write_manifest(self._folder, generation, {"segments": segments})
        before = self._referenced()
        self._committed[generation] = set(self._segments)
        for old in sorted(self._committed)[:-2]:
            del self._committed[old]
            self._folder.remove(name_of(old))
        self._remove_files(before - self._referenced())

    # Segments

    def _add(self, key: Key, data: bytes) -> None:
        self.buffered_bytes += len(data) - len(self._buffer.get(key, b""))
        self._buffer[key] = data

    def _write_segment(self) -> None:
        if not self._buffer:
            return
        number, self._next = self._next, self._next + 1
        index = _encode_index(self._buffer)
        self._folder.write(_file_name(number), [*self._buffer.values(), index])
        segment = _Segment(list(self._buffer), 0, hashlib.sha256(index).hexdigest(), 0)
        self._segments[number] = segment
        for key, data in self._buffer.items():
            self._places[key] = _Place(number, segment.size, len(data))
            segment.size += len(data)
        segment.live = segment.size
        self._buffer, self.buffered_bytes = {}, 0

    def _compact(self) -> None:
        """Put the models again that count in segments that are mostly outdated."""
        before = self._referenced()
        total = sum(segment.size for segment in self._segments.values())
        while total > 2 * (self._live_bytes() + self.buffered_bytes) + self._segment_bytes:
            number = min(self._segments, key=self._live_part)
            segment = self._segments.pop(number)
            data = self._folder.read(_file_name(number), 0, segment.size)
            for key in segment.keys:
                place = self._places.get(key)
                if place is not None and place.segment == number:
                    del self._places[key]
                    if key not in self._buffer:
                        self._add(key, data[place.start : place.start + place.length])
            total -= segment.size
        self._remove_files(before - self._referenced())

    def _live_part(self, number: int) -> float:
        segment = self._segments[number]
        return segment.live / segment.size

    def _live_bytes(self) -> int:
        return sum(segment.live for segment in self._segments.values())

    def _referenced(self) -> set[int]:
        return set(self._segments).union(*self._committed.values())

    def _remove_files(self, numbers: set[int]) -> None:
        for number in numbers:
            self._folder.remove(_file_name(number))

    # Opening

    def _open(self, generation: int) -> None:
        """Read the keys of all segments of a generation."""
        for number, size, digest in read_manifest(self._folder, generation)["segments"]:
            name = _file_name(number)
            index = self._folder.read(name, size, None)
            if hashlib.sha256(index).hexdigest() != digest:
                raise ModelFormatError(f"{name} is damaged: its keys are not those it was given")
            entries: list[tuple[Key, int]] = json.loads(index)
            self._segments[number] = _Segment([key for key, _ in entries], size, digest, 0)
            start = 0
            for key, length in entries:
                self._places[key] = _Place(number, start, length)
                start += length
        for place in self._places.values():
            self._segments[place.segment].live += place.length
        self._committed = {generation: set(self._segments)}
        self._next = max(self._segments, default=-1) + 1

    def _remove_others(self) -> None:
        """Remove what belongs to no generation, or to one that is not the opened one."""
        kept = {*map(_file_name, self._segments), *map(name_of, self._committed)}
        for name in self._folder.names():
            if name not in kept:
                self._folder.remove(name)


def _file_name(number: int) -> str:
    return f"models-{number:09}.seg"


def _encode_index(buffer: dict[Key, bytes]) -> bytes:
    return json.dumps([[key, len(data)] for key, data in buffer.items()]).encode()
