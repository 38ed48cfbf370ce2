"""What parameters of the adaptive forest are worth: log-loss over that of the default ones."""

from typing import Any

from benchmarks.quality.contenders import ADAPTIVE, ADAPTIVE_CLASS, run_ours
from benchmarks.quality.kept import kept
from benchmarks.quality.scores import score
from benchmarks.quality.streams import load_stream

STREAMS = ("churn", "letter", "spambase", "adult", "agrawal_drift", "hyperplane", "led_drift")
MAX_ROWS = 6_000
DEFAULT = "default"
OPTIONS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "n_estimators=2": {"n_estimators": 2},
    "n_estimators=10": {"n_estimators": 10},
    "n_candidates=1": {"n_candidates": 1},
    "n_candidates=10": {"n_candidates": 10},
    "n_candidates=100": {"n_candidates": 100},
    "mixer_rate=0.005": {"mixer_rate": 0.005},
    "mixer_rate=0.02": {"mixer_rate": 0.02},
    "no honest memories": {"honest_memories": ()},
}


def measure(name: str, setting: str, max_rows: int = MAX_ROWS) -> dict[str, float]:
    """Return the log-loss and the time per row of a setting."""
    result: dict[str, float] = kept(
        "ablation", ADAPTIVE, (name, setting, max_rows), lambda: _run(name, setting, max_rows)
    )
    return result


def _run(name: str, setting: str, max_rows: int) -> dict[str, float]:
    stream = load_stream(name, max_rows)
    predictions, seconds = run_ours(ADAPTIVE_CLASS, stream, 0, **OPTIONS[setting])
    scores = score(predictions, stream.y, seconds)
    return {"log_loss": scores.log_loss, "us_per_row": scores.us_per_row}
