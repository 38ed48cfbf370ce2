"""A figure with its target, and the figures that classifiers and regressors have in common."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any


@dataclass(frozen=True)
class Check:
    """A figure, its target, and whether it is reached."""

    name: str
    value: float
    target: float
    case: str = ""  # the worst one
    at_least: bool = False
    digits: int = 3

    @property
    def is_met(self) -> bool:
        """Whether the figure reaches its target."""
        return self.value >= self.target if self.at_least else self.value <= self.target

    @property
    def verdict(self) -> str:
        """Met or missed."""
        return "met" if self.is_met else "missed"

    @property
    def value_text(self) -> str:
        """The figure, as it is printed."""
        return f"{self.value:,.{self.digits}f}"

    @property
    def target_text(self) -> str:
        """The target with its direction."""
        return f"{'≥' if self.at_least else '≤'} {self.target:,g}"


def mean_and_worst(
    name: str, by_case: Mapping[str, float], mean: float, worst: float
) -> list[Check]:
    """Return two figures, the geometric mean of the cases and the highest; none without cases."""
    if not by_case:
        return []
    case = max(by_case, key=lambda key: by_case[key])
    return [
        Check(f"{name}, geometric mean of {len(by_case)}", geometric_mean(by_case.values()), mean),
        Check(f"{name}, worst", by_case[case], worst, case),
    ]


def latency_checks(row: Mapping[str, float] | None, title: str) -> Iterator[Check]:
    """Yield how much longer the slowest calls take than most."""
    if row:
        for quantile, name, target in (("p99.9", "99.9th percentile", 15), ("max", "maximum", 60)):
            value = row[f"cpu {quantile}"] / row["cpu median"]
            yield Check(f"{title}: {name} over the median", value, target, digits=1)


def long_checks(row: Mapping[str, Any] | None, title: str, max_bytes: int) -> Iterator[Check]:
    """Yield the size of a forest after a long stream, and whether it predicts as well as before."""
    if row:
        name = f"{row['n_rows']:,} {title}"
        peak = row["peak_bytes"] / 1e6
        yield Check(f"{name}: peak of the model, MB", peak, max_bytes / 1e6, digits=0)
        value = row["losses"][-1] / row["losses"][0]
        yield Check(f"{name}: loss of the last tenth over that of the first", value, 1.02)
