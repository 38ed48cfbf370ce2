"""The size of a run: full, or as much as three minutes allow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    name: str
    max_rows: int | None  # of a data set
    repetitions: int
    batch_rows: int  # minimum over all repetitions: small data sets take milliseconds
    memory_repetitions: int
    one_row_data: tuple[str, ...] | None  # None: all
    grown_rows: int  # learned before one-row calls are timed
    turns: int  # of one-row calls
    one_row_seeds: int  # of forests for one-row calls
    checkpoints: tuple[int, ...]  # of the growing stream
    peer_stops_at: int  # samples of the growing stream
    stream_repetitions: int
    cold_starts: int
    limit_rows: int  # of the uniform stream, in addition to the data sets
    limit_timed: int  # minimum number of rows, over as many forests as necessary


FULL = Plan(
    name="full",
    max_rows=None,
    repetitions=5,
    batch_rows=50_000,
    memory_repetitions=3,
    one_row_data=None,
    grown_rows=3_000,
    turns=4,
    one_row_seeds=2,
    checkpoints=(1_000, 3_000, 10_000, 30_000, 100_000, 300_000, 1_000_000),
    peer_stops_at=100_000,
    stream_repetitions=3,
    cold_starts=3,
    limit_rows=300_000,
    limit_timed=10_000,
)

QUICK = Plan(
    name="quick",
    max_rows=4_000,
    repetitions=3,
    batch_rows=12_000,
    memory_repetitions=1,
    one_row_data=("adult", "letter", "satimage"),
    grown_rows=1_000,
    turns=3,
    one_row_seeds=1,
    checkpoints=(1_000, 3_000, 10_000, 30_000, 100_000),
    peer_stops_at=10_000,
    stream_repetitions=2,
    cold_starts=1,
    limit_rows=30_000,
    limit_timed=1_000,
)
