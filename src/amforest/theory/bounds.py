"""The paper's bounds of regret, risk and depth, as formulas.

n is the number of samples; it may be an array. Statements and equations have the paper's numbers;
``as_stated=False`` corrects those that are wrong.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from amforest.theory.prunings import Floats, require


def _log(n: ArrayLike) -> Floats:
    require("n", n, np.asarray(n) >= 1, "at least 1")
    logs: Floats = np.log(n)
    return logs


def pruning_regret_bound(n_nodes: float, step: float) -> float:
    """Lemma 1, Equation (9): n log(2) / η, for the regret to a pruning of n = n_nodes nodes.

    The loss must be η-exp-concave, η = step: 1 for log-loss, 1 / (8 B²) for the square loss of
    labels and predictions in [-B, B].

    Examples
    --------
    >>> round(pruning_regret_bound(3, step=0.5), 4)  # 6 log 2
    4.1589
    """
    require("n_nodes", n_nodes, n_nodes >= 1, "at least 1")
    require("step", step, step > 0, "above 0")
    return n_nodes * math.log(2) / step


def kt_regret_bound(n: ArrayLike, n_classes: int) -> Floats:
    """Lemma 5, Equation (32): ½ (K - 1) log(4n), of the KT rule to the best constant.

    Examples
    --------
    >>> float(kt_regret_bound(1, n_classes=2).round(4))  # log 2
    0.6931
    """
    require("n_classes", n_classes, n_classes >= 1, "at least 1")
    return (n_classes - 1) / 2 * (math.log(4) + _log(n))


def mean_regret_bound(n: ArrayLike, label_bound: float) -> Floats:
    """Lemma 6, Equation (34): 8 B² (1 + log n), of the running mean to the best constant.

    Labels are in [-B, B], B = label_bound.

    Examples
    --------
    >>> float(mean_regret_bound(1, label_bound=0.5))
    2.0
    """
    require("label_bound", label_bound, label_bound > 0, "above 0")
    return 8 * label_bound * label_bound * (1 + _log(n))


def log_loss_regret_bound(n: ArrayLike, n_nodes: float, n_classes: int) -> Floats:
    """Corollary 1, Equation (10): ``|T| log 2 + ¼ (|T| + 1) (K - 1) log(4n)``.

    The regret, for η = 1 and α = ½, to the functions that are constant on the leaves of T, a
    pruning of ``|T|`` = n_nodes nodes.

    Examples
    --------
    >>> float(log_loss_regret_bound(1, n_nodes=1, n_classes=2).round(4))  # 2 log 2
    1.3863
    """
    return pruning_regret_bound(n_nodes, 1) + (n_nodes + 1) / 2 * kt_regret_bound(n, n_classes)


def square_loss_regret_bound(
    n: ArrayLike, n_nodes: float, label_bound: float, *, as_stated: bool = True
) -> Floats:
    """Corollary 2, Equation (11): ``4 B² (|T| + 1) log n``.

    The regret, for η = 1 / (8 B²), to the functions that are constant on the leaves of T. As stated
    it is wrong for n = 1, though right for n >= 21, because the running mean's regret, which is
    Σ_t (ŷ_t - y_t)² / t, is at most B² (1 + 4 log n). What Lemmas 1 and 6 give is right for all n:
    ``8 B² |T| log 2 + 4 B² (|T| + 1) (1 + log n)``.

    Examples
    --------
    >>> float(square_loss_regret_bound(100, n_nodes=3, label_bound=0.5).round(4))  # 4 log 100
    18.4207
    """
    in_leaves = (n_nodes + 1) / 2 * mean_regret_bound(n, label_bound)
    of_pruning = pruning_regret_bound(n_nodes, 1 / (8 * label_bound * label_bound))
    if as_stated:
        return 4 * label_bound * label_bound * (n_nodes + 1) * _log(n)
    return of_pruning + in_leaves


def lifetime_regret_bound(
    n: ArrayLike, lifetime: float, n_features: int, label_bound: float, *, as_stated: bool = True
) -> Floats:
    """Corollary 3, Equation (12): 8 B² (1 + λ)^d log n.

    The mean regret to the functions that are constant on the cells of MP(λ) on [0, 1]^d: Corollary
    2 (and its `as_stated`) with the mean number of nodes, 2 (1 + λ)^d - 1.

    Examples
    --------
    >>> float(lifetime_regret_bound(100, 1.0, n_features=2, label_bound=0.5).round(4))
    36.8414
    """
    require("lifetime", lifetime, lifetime >= 0, "at least 0")
    n_nodes = 2 * math.pow(1 + lifetime, n_features) - 1
    return square_loss_regret_bound(n, n_nodes, label_bound, as_stated=as_stated)


def lifetime_risk_bound(
    n: ArrayLike, lifetime: float, n_features: int, label_bound: float, *, as_stated: bool = True
) -> Floats:
    """Theorem 1, Equation (16): 8 B² (1 + λ)^d log(n) / n, which is Corollary 3 over n.

    For i.i.d. samples: how much the mean risk of `OnlineToBatch` can be above that of the
    functions that are constant on the cells of MP(λ).

    Examples
    --------
    >>> float(lifetime_risk_bound(100, 1.0, n_features=2, label_bound=0.5).round(4))
    0.3684
    """
    regret = lifetime_regret_bound(n, lifetime, n_features, label_bound, as_stated=as_stated)
    return regret / np.asarray(n, dtype=np.float64)


def holder_rate(n: ArrayLike, n_features: int, beta: float) -> Floats:
    """Theorem 2, Equation (17): (log(n) / n)^(2β / (d + 2β)), for f* that is β-Hölder, β <= 1.

    E[(f̃_n(x) - f*(x))²] is of this order; the constant is not part of it.

    Examples
    --------
    >>> float(holder_rate(np.e, n_features=1, beta=0.5).round(4))  # exp(-1/2)
    0.6065
    """
    require("beta", beta, 0 < beta <= 1, "in (0, 1]")
    rate: Floats = (_log(n) / np.asarray(n)) ** (2 * beta / (n_features + 2 * beta))
    return rate


def holder_risk_bound(
    n: ArrayLike,
    lifetime: float,
    n_features: int,
    label_bound: float,
    *,
    beta: float,
    holder_constant: float,
    as_stated: bool = True,
) -> Floats:
    """Equation (42), Theorem 2's proof: (4d)^β L² / λ^(2β) + Theorem 1's 8 B² (1 + λ)^d log(n) / n.

    This bounds ``E[(f̃_n(x) - f*(x))²]`` for every λ > 0 if ``|f*(u) - f*(v)| <= L |u - v|^β``; with
    λ of the order ``(n / log n)^(1 / (d + 2β))`` it has the rate of Theorem 2.

    Examples
    --------
    >>> bound = holder_risk_bound(100, 1.0, 1, label_bound=0.5, beta=0.5, holder_constant=1)
    >>> float(bound.round(4))  # 2 + 4 log(100) / 100
    2.1842
    """
    require("beta", beta, 0 < beta <= 1, "in (0, 1]")
    require("lifetime", lifetime, lifetime > 0, "above 0")
    bias = math.pow(4 * n_features / lifetime**2, beta) * holder_constant * holder_constant
    return bias + lifetime_risk_bound(n, lifetime, n_features, label_bound, as_stated=as_stated)


def depth_bound(n: ArrayLike, density_ratio: float, *, as_stated: bool = True) -> Floats:
    """Proposition 2: log(n) / log(2M / (2M - 1)) + 2M, M = density_ratio.

    The mean depth of x in the tree restricted to x and n other samples, if their density varies by
    a factor of at most M along all lines parallel to an axis. As stated it is wrong: for uniform
    samples, M = 1, the depth is of the order 2 log n. The proof takes E[min(U, 1 - U)] for ½, which
    is ¼ for U uniform on [0, 1], and P(D >= k) for P(D > k). Corrected, it gives
    log(n) / log(4M / (4M - 1)) + 4M + 1.

    Examples
    --------
    >>> float(depth_bound(1024, density_ratio=1))
    12.0
    """
    require("density_ratio", density_ratio, density_ratio >= 1, "at least 1")
    m = 2 * density_ratio if as_stated else 4 * density_ratio
    return _log(n) / math.log(m / (m - 1)) + m + (0 if as_stated else 1)
