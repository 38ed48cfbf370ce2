"""Changed streams: noise and an identifier added, features rescaled, categories as codes."""

from dataclasses import replace

import numpy as np

from benchmarks.quality.streams import Stream, load_stream

NOISE, SCALES, CODES, CODES_AND_ID = "noise", "scales", "codes", "codes and ID"
N_NOISE = 50


def load(name: str, max_rows: int, variant: str = "", seed: int = 0) -> Stream:
    """Return a stream, changed if a variant is given."""
    stream = load_stream(name, max_rows)
    if variant == NOISE:
        return with_noise(stream, seed)
    if variant == SCALES:
        return with_scales(stream, seed)
    if variant in (CODES, CODES_AND_ID):
        return with_codes(stream, variant == CODES_AND_ID)
    return stream


def with_noise(stream: Stream, seed: int) -> Stream:
    """Return the stream with columns of Gaussian noise."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((len(stream.y), N_NOISE))
    return replace(stream, X=np.hstack([stream.X, noise]))


def with_scales(stream: Stream, seed: int) -> Stream:
    """Return the stream with each feature multiplied by a random power of ten."""
    powers = np.random.default_rng(seed).integers(-6, 10, size=stream.X.shape[1])
    return replace(stream, X=stream.X * 10.0**powers)


def with_codes(stream: Stream, has_id: bool) -> Stream:
    """Return the stream with one column per categorical feature, and perhaps a unique ID."""
    X, categorical = stream.codes, stream.code_columns
    if has_id:
        ids = np.random.default_rng(0).permutation(len(stream.y))[:, None]
        categorical = (*categorical, X.shape[1])
        X = np.hstack([X, ids])
    return replace(stream, X=X, categorical=categorical)
