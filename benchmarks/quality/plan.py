"""The size of a run: full, or as much as five minutes allow."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Plan:
    """The size of a run."""

    name: str
    max_rows: int  # of a stream
    n_seeds: int
    streams: tuple[str, ...]  # empty: all
    contenders: tuple[str, ...]  # empty: all
    robust_streams: tuple[str, ...]  # empty: the paper's ten
    speed_streams: tuple[str, ...]
    speed_rows: int  # of the streams whose time per row is measured
    slow_rows: int  # of river's forests, where time per row is measured
    latency_rows: int
    flip_rows: int
    long_rows: int
    regression_streams: tuple[str, ...]  # empty: all
    regression_speed_streams: tuple[str, ...]
    noise_rows: int  # of the stream whose error is compared with its noise


FULL = Plan(
    name="full",
    max_rows=20_000,
    n_seeds=3,
    streams=(),
    contenders=(),
    robust_streams=(),
    speed_streams=(
        *("adult", "bank", "car", "churn", "letter", "satimage", "sensorless", "spambase"),
        *("segments", "agrawal_drift", "hyperplane", "rbf_fast", "led_drift", "sea_drift"),
    ),
    speed_rows=20_000,
    slow_rows=2_000,
    latency_rows=1_000_000,
    flip_rows=10_000,
    long_rows=10_000_000,
    regression_streams=(),
    regression_speed_streams=(
        *("bike", "elevators", "ailerons", "abalone"),
        *("friedman1", "friedman2", "friedman3", "friedman1_50"),
    ),
    noise_rows=40_000,
)

QUICK = Plan(
    name="quick",
    max_rows=2_000,
    n_seeds=1,
    streams=("adult", "car", "churn", "letter", "spambase", "agrawal_drift", "hyperplane"),
    contenders=(
        *("adaptive", "AMF", "AMF unscaled", "ARF-10", "SRP-10", "ARF-100", "river ARF"),
        *("adaptive-Reg", "AMF-Reg", "AMF-Reg auto", "ARF-Reg", "SOKNL", "SGBR", "river ARF-Reg"),
    ),
    robust_streams=("car", "churn", "spambase"),
    speed_streams=("churn", "hyperplane"),
    speed_rows=2_000,
    slow_rows=500,
    latency_rows=50_000,
    flip_rows=4_000,
    long_rows=300_000,
    regression_streams=("bike", "friedman1"),
    regression_speed_streams=("bike", "friedman1"),
    noise_rows=2_000,
)
