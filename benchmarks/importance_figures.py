"""Importances that are learned online: whether they find the features that matter, and their cost.

``python -m benchmarks.importance_figures`` measures all; ``recovery``, ``agreement`` or ``cost``
only one of them. For the cost this version is built once more, with a core that credits no feature.
"""

import json
import re
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import spearmanr
from sklearn.inspection import permutation_importance
from sklearn.metrics import log_loss, roc_auc_score

from amforest import (
    AdaptiveAMFClassifier,
    AdaptiveAMFRegressor,
    AMFClassifier,
    AMFRegressor,
    datasets,
)
from amforest.inspection import importances

CHECKED_AT = (5_000, 20_000)
SEEDS = (1, 2, 3)
SALARY, COMMISSION, AGE, LEVEL, _CAR, _ZIPCODE, VALUE, YEARS, LOAN = range(9)
# On which features river's functions of Agrawal depend.
AGRAWAL: dict[int, set[int]] = {
    0: {AGE},
    1: {AGE, SALARY},
    2: {AGE, LEVEL},
    3: {AGE, LEVEL, SALARY},
    4: {AGE, SALARY, LOAN},
    5: {AGE, SALARY, COMMISSION},
    6: {SALARY, COMMISSION, LOAN},
    7: {SALARY, COMMISSION, LEVEL},
    8: {SALARY, COMMISSION, LEVEL, LOAN},
    9: {SALARY, COMMISSION, LEVEL, VALUE, YEARS},
}
N_HELD_OUT, N_SHUFFLES = 6_000, 10


@dataclass(frozen=True, eq=False)
class Known:
    """A stream of which the features that matter are known."""

    name: str
    X: NDArray[np.float64]
    y: NDArray[Any]
    matters: NDArray[np.bool_]

    @property
    def models(self) -> list[Callable[[int], Any]]:
        """The estimators, from a seed."""
        if self.y.dtype.kind == "f":
            return [
                lambda seed: AdaptiveAMFRegressor(random_state=seed),
                lambda seed: AMFRegressor(random_state=seed),
            ]
        return [
            lambda seed: AdaptiveAMFClassifier(random_state=seed),
            lambda seed: AMFClassifier(random_state=seed),
        ]


def friedman(seed: int, n_rows: int) -> Known:
    """Return Friedman's first function of 5 of 50 features."""
    rng = np.random.default_rng(seed)
    X = rng.random((n_rows, 50))
    a, b, c, d, e = X.T[:5]
    y = 10 * np.sin(np.pi * a * b) + 20 * (c - 0.5) ** 2 + 10 * d + 5 * e
    return Known("friedman1", X, y + rng.standard_normal(n_rows), np.arange(50) < 5)


def agrawal(function: int, seed: int, n_rows: int) -> Known:
    """Return one of Agrawal's functions, of nine features."""
    from river.datasets.synth import Agrawal  # noqa: PLC0415  # an optional dependency

    rows = islice(iter(Agrawal(classification_function=function, seed=seed)), n_rows)
    X, y = _arrays(rows)
    X /= X.max(axis=0)  # for forests that depend on scales
    return Known(f"agrawal {function}", X, y, np.isin(np.arange(9), list(AGRAWAL[function])))


def led(seed: int, n_rows: int) -> Known:
    """Return digits on seven segments with 10 % noise, beside 17 features that are noise alone."""
    from river.datasets.synth import LED  # noqa: PLC0415  # an optional dependency

    rows = islice(iter(LED(seed=seed, noise_percentage=0.1, irrelevant_features=True)), n_rows)
    X, y = _arrays(rows)
    return Known("led", X, y, np.arange(24) < 7)


def _arrays(rows: Any) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    pairs = [(list(x.values()), int(y)) for x, y in rows]
    return np.array([x for x, _ in pairs], dtype=np.float64), np.array([y for _, y in pairs])


def known_streams(seed: int, n_rows: int) -> Iterator[Known]:
    yield friedman(seed, n_rows)
    yield led(seed, n_rows)
    for function in AGRAWAL:
        yield agrawal(function, seed, n_rows)


def recovery() -> Iterator[dict[str, Any]]:
    """Yield whether the features that matter have the largest importances.

    `auc`: of importance against truth. `margin`: the least importance of a feature that matters,
    less the largest of one that does not; negative where noise is above.
    """
    for seed in SEEDS:
        for stream in known_streams(seed, max(CHECKED_AT)):
            for build in stream.models:
                model, n_learned = build(seed), 0
                for end in CHECKED_AT:
                    model.partial_fit(stream.X[n_learned:end], stream.y[n_learned:end])
                    n_learned = end
                    found = model.feature_importances_
                    matters, noise = found[stream.matters], found[~stream.matters]
                    yield {
                        "stream": stream.name,
                        "model": type(model).__name__,
                        "seed": seed,
                        "rows": end,
                        "auc": float(roc_auc_score(stream.matters, found)),
                        "margin": float(matters.min() - noise.max()),
                    }


def agreement(n_rows: int = 6_000) -> Iterator[dict[str, Any]]:
    """Yield the rank correlation with permutation importance on rows held out, by data set.

    Both have one value for a column, also where it holds categories. `reliability` is the rank
    correlation of two permutation importances, each on half of these rows: more than its square
    root can hardly be reached. `long-term` is that of the trees with the longest memories.
    """
    for name in datasets.NAMES:
        data = datasets.load(name, one_hot=False)
        order = np.random.default_rng(0).permutation(len(data.y))
        end = min(n_rows, 2 * len(order) // 3)
        learned, held_out = order[:end], order[end : end + N_HELD_OUT]
        categorical = data.categorical_features or None
        for cls in (AdaptiveAMFClassifier, AMFClassifier):
            model = cls(categorical_features=categorical, random_state=0)
            model.fit(data.X[learned], data.y[learned])
            first, second = (
                permutation_importance(
                    model,
                    data.X[half],
                    data.y[half],
                    scoring=partial(_negative_loss, labels=model.classes_),
                    n_repeats=N_SHUFFLES,
                    random_state=0,
                ).importances_mean
                for half in np.array_split(held_out, 2)
            )
            found, by_permutation = importances(model), first + second
            yield {
                "data": name,
                "model": cls.__name__,
                "spearman": float(spearmanr(found.total, by_permutation).statistic),
                "long-term": float(spearmanr(found.long_term(), by_permutation).statistic),
                "reliability": float(spearmanr(first, second).statistic),
            }


def _negative_loss(model: Any, X: Any, y: Any, labels: Any) -> float:
    return -float(log_loss(y, model.predict_proba(X), labels=labels))


# Cost. Both cores learn the same rows with the same seeds in turns of some rows; the cost of a turn
# is its least CPU time over all rounds.

ROOT = Path(__file__).parents[1]
_CALL = re.compile(r"^ *(tree\.)?credit_in_turn\([^{\n]*\);\n", re.MULTILINE)
_CALLERS = ("tree.hpp", "forest.hpp", "adaptive/adaptive_forest.hpp")


def build_without_credits(folder: Path) -> str:
    """Build this version with a core that credits no feature; return its interpreter."""
    sources = folder / "sources"
    for name in ("cpp", "src"):
        shutil.copytree(ROOT / name, sources / name)
    for name in ("pyproject.toml", "CMakeLists.txt", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, sources)
    for name in _CALLERS:
        path = sources / "cpp" / "include" / "amforest" / name
        text, n_calls = _CALL.subn("", path.read_text(encoding="utf-8"))
        if n_calls != 1:
            raise RuntimeError(f"{name} calls credit_in_turn {n_calls} times; expected one call")
        path.write_text(text, encoding="utf-8")
    venv, python = folder / "venv", str(folder / "venv" / "bin" / "python")
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    install = ["-m", "pip", "install", "--quiet", "--no-deps", str(sources)]
    subprocess.run([python, *install], check=True)
    libraries = next((venv / "lib").glob("python*")) / "site-packages"
    # All else is that of this environment; its own amforest comes later on the path.
    (libraries / "others.pth").write_text(sysconfig.get_path("purelib") + "\n", encoding="utf-8")
    return python


_WORKER = """
import json, sys, time, gc
import numpy as np
import amforest
from amforest.datasets import make_simulated
X = y = None
for line in sys.stdin:
    model_name, rows, turn, by_row, data = json.loads(line)
    if data == "friedman1":
        rng = np.random.default_rng(0)
        X = rng.random((rows, 10)).astype(np.float32)
        y = 10 * np.sin(np.pi * X[:, 0] * X[:, 1]) + 20 * (X[:, 2] - 0.5) ** 2 + 10 * X[:, 3]
    else:
        stream = make_simulated(data)
        X, y = stream.X[:rows].astype(np.float32), stream.y[:rows]
    options = {"classes": np.unique(y)} if "Classifier" in model_name else {}
    model = getattr(amforest, model_name)(random_state=0, **options)
    gc.disable()
    times = []
    for first in range(0, rows, turn):
        some = slice(first, first + turn)
        start = time.process_time()
        if by_row and first:
            for x, label in zip(X[some], y[some].tolist()):
                model.learn_one(x, label)
        else:
            model.partial_fit(X[some], y[some])
        times.append(time.process_time() - start)
    gc.enable()
    print(json.dumps(times), flush=True)
"""
COSTS = [
    ("AMFClassifier", 20_000, 2_000, False, "adult"),
    ("AMFClassifier", 20_000, 2_000, False, "letter"),
    ("AMFClassifier", 8_000, 2_000, True, "bank"),
    ("AMFRegressor", 20_000, 2_000, False, "friedman1"),
    ("AdaptiveAMFClassifier", 4_000, 500, False, "bank"),
    ("AdaptiveAMFClassifier", 3_000, 500, True, "bank"),
    ("AdaptiveAMFClassifier", 4_000, 500, False, "letter"),
    ("AdaptiveAMFRegressor", 4_000, 500, False, "friedman1"),
    ("AdaptiveAMFRegressor", 3_000, 500, True, "friedman1"),
]


def cost(n_rounds: int = 5) -> Iterator[dict[str, Any]]:
    """Yield the CPU time of learning, as a ratio to that of a core that credits no feature."""
    with tempfile.TemporaryDirectory() as folder:
        yield from _ratios(build_without_credits(Path(folder)), n_rounds)


def _ratios(without: str, n_rounds: int) -> Iterator[dict[str, Any]]:
    workers = {
        name: subprocess.Popen(
            [python, "-c", _WORKER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for name, python in {"without": without, "with": sys.executable}.items()
    }
    try:
        for case in COSTS:
            times: dict[str, list[list[float]]] = {name: [] for name in workers}
            for _ in range(n_rounds):
                for name, worker in workers.items():
                    assert worker.stdin is not None
                    assert worker.stdout is not None
                    worker.stdin.write(json.dumps(case) + "\n")
                    worker.stdin.flush()
                    times[name].append(json.loads(worker.stdout.readline()))
            least = {name: np.min(rounds, axis=0).sum() for name, rounds in times.items()}
            model, rows, _, by_row, data = case
            yield {
                "model": model,
                "data": data,
                "rows": "one by one" if by_row else "batches",
                "µs": float(least["with"] / rows * 1e6),
                "ratio": float(least["with"] / least["without"]),
            }
    finally:
        for worker in workers.values():
            worker.kill()


def _show(rows: Iterator[dict[str, Any]], *means: str) -> None:
    found = []
    for row in rows:
        found.append(row)
        print(" | ".join(f"{v:.4f}" if isinstance(v, float) else str(v) for v in row.values()))
    for name in means:
        for model in sorted({row["model"] for row in found}):
            values = [row[name] for row in found if row["model"] == model]
            print(
                f"{name} of {model}: mean {fmean(values):.4f}, from {min(values):.4f} to "
                f"{max(values):.4f}"
            )


def main(arguments: list[str]) -> None:
    start = time.monotonic()
    wanted = arguments[0] if arguments else None
    if wanted in (None, "recovery"):
        _show(recovery(), "auc", "margin")
    if wanted in (None, "agreement"):
        _show(agreement(), "spearman", "long-term", "reliability")
    if wanted in (None, "cost"):
        _show(cost(), "ratio")
    print(f"{(time.monotonic() - start) / 60:.1f} minutes")


if __name__ == "__main__":
    main(sys.argv[1:])
