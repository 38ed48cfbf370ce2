"""What an adaptive forest needs to predict numbers: a gain, and a mixer with a distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

from amforest.reference import Floats, Generator, Reals
from amforest.reference.student_t import StudentT, StudentTree


def gain(values: Floats, threshold: float, y: Reals, weight: Reals) -> float:
    """Return by how much a split reduces the sum of squares: n_0 n_1 / n (ȳ_0 - ȳ_1)².

    Only of the rows whose value is not missing.
    """
    labels = y - np.average(y, weights=weight)  # so that little cancels
    left, right = values <= threshold, values > threshold
    n_left, n_right = weight[left].sum(), weight[right].sum()
    if n_left == 0 or n_right == 0:
        return 0.0
    means = (weight[side] @ labels[side] for side in (left, right))
    distance = next(means) / n_left - next(means) / n_right
    return float(n_left * n_right / (n_left + n_right) * distance**2)


def margin(y: Reals, weight: Reals) -> float:
    """Return by how much a better split must be better: 1e-7 of the sum of squares.

    So rounding, which depends on the unit and the origin of labels, decides nothing.
    """
    return float(1e-7 * (weight @ (y - np.average(y, weights=weight)) ** 2))


def mean_of(values: Reals) -> float:
    """Return the mean: of equal numbers, that number to the last bit."""
    return float(values[0] + (values - values[0]).mean())


class LeastSquaresMixer:
    """y - m̄ ≈ Σ_g u_g (m_g - m̄), m̄ the plain mean of the m_g, by recursive least squares.

    The ridge is 5 v̂, v̂ the mean of (y - m̄)²; both forget. The result is clipped to the hull of the
    experts, widened by half its width on each side. A row of weight w counts as min(w, 10) rows, or
    less if its error, or a distance m_g - m̄, is more than 30 √v̂.
    """

    FORGETTING, RIDGE, MOST_DEVIATIONS = 0.998, 5.0, 30.0

    def __init__(self, n_experts: int) -> None:
        self.weights: Reals = np.zeros(n_experts)  # u
        self.products: Reals = np.zeros((n_experts, n_experts))
        self.targets: Reals = np.zeros(n_experts)
        self.squares = self.total = 0.0

    @property
    def parts(self) -> Reals:
        """The part of each expert in the mix, where nothing is clipped; they add up to 1."""
        return np.asarray(self.weights + (1 - self.weights.sum()) / len(self.weights))

    def mix(self, means: Reals) -> float:
        center, margin = mean_of(means), (means.max() - means.min()) / 2
        mixed = center + self.weights @ (means - center)
        return float(np.clip(mixed, means.min() - margin, means.max() + margin))

    def learn(self, means: Reals, y: float, weight: float) -> None:
        f, w = self.FORGETTING, min(weight, 10.0)
        distances, error = means - mean_of(means), y - mean_of(means)
        if self.squares > 0:
            largest = max(error**2, (distances**2).max())
            w *= min(1.0, self.MOST_DEVIATIONS**2 * self.squares / self.total / (largest or 1.0))
        self.products = f * self.products + w * np.outer(distances, distances)
        self.targets = f * self.targets + w * distances * error
        self.squares = f * self.squares + w * error**2
        self.total = f * self.total + w
        if self.squares > 0:
            ridge = self.RIDGE * self.squares / self.total * np.eye(len(means))
            self.weights = np.asarray(np.linalg.solve(self.products + ridge, self.targets))


class SharedMean:
    """A mean of the experts, whose weights follow their squared errors by fixed share.

    The likelihoods are halves of those of a normal, whose variance is that of the mix.
    """

    FORGETTING, SHARE = 0.998, 0.01

    def __init__(self, n_experts: int) -> None:
        self.weights: Reals = np.full(n_experts, 1 / n_experts)
        self.squares = self.total = 0.0

    def mix(self, means: Reals) -> float:
        return float(means[0] + self.weights @ (means - means[0]))

    def learn(self, means: Reals, y: float, weight: float) -> None:
        f, w = self.FORGETTING, min(weight, 1.0)
        self.squares = f * self.squares + w * (y - self.mix(means)) ** 2
        self.total = f * self.total + w
        if self.squares > 0:
            variance = self.squares / self.total
            self.weights = share(self.weights, -w * (y - means) ** 2 / (4 * variance), self.SHARE)


class PredictiveScale:
    """y = m + s T around the mixed mean m: s² = Σ_g π_g (v_g + (m_g - m)²), T a mixture of t's.

    The weights π of the experts and those of the components of T follow the rows by fixed share.
    Levels are tracked beside it: a part q_k of the labels was below the quantile of level a_k.
    """

    DEGREES, WIDTHS = np.meshgrid((3, 6, 30), (0.25, 0.35, 0.5, 0.7, 1, 1.4, 2), indexing="ij")
    LEVELS = np.array([0.005, 0.025, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.975, 0.995])

    def __init__(self, n_experts: int) -> None:
        self.experts: Reals = np.full(n_experts, 1 / n_experts)  # π
        self.components: Reals = np.full(self.WIDTHS.shape, 1 / self.WIDTHS.size)
        self.levels: Reals = self.LEVELS.copy()

    def scale(self, by_expert: Reals, mean: float) -> float:
        means, squares = by_expert.T
        return float(np.sqrt(self.experts @ (squares + (means - mean) ** 2)))

    def learn(self, by_expert: Reals, mean: float, y: float, weight: float) -> None:
        """Learn a row; one of weight w counts as min(w, 1) rows."""
        scale, distance, w = self.scale(by_expert, mean), y - mean, min(weight, 1.0)
        if scale == 0:
            return
        below = np.sum(self.components * stats.t.cdf(distance / scale / self.WIDTHS, self.DEGREES))
        rate = np.minimum(0.005, 0.1 * np.minimum(self.LEVELS, 1 - self.LEVELS))
        steps = w * rate * (self.LEVELS - (below < self.levels))
        self.levels = np.clip(self.levels + steps, 1e-5, 1 - 1e-5)
        densities = stats.t.logpdf(distance, self.DEGREES, scale=scale * self.WIDTHS)
        self.components = share(self.components, w * densities, 0.005)
        if (by_expert[:, 1] > 0).all():
            densities = stats.t.logpdf(distance, 6, scale=np.sqrt(by_expert[:, 1]))
            self.experts = share(self.experts, w * densities, 0.01)


def share(weights: Reals, log_likelihoods: Reals, part: float) -> Reals:
    """Multiply weights by likelihoods; then all give a part away, which all divide."""
    products = weights * np.exp(log_likelihoods - log_likelihoods.max())
    return np.asarray((1 - part) * products / products.sum() + part / products.size)


class NumberMixer:
    """A mean and the distribution around it, from the mean and the squared scale of each expert.

    Least squares over all experts need many rows. So a second least squares mixes three candidates:
    the first, the mean by fixed share, and the mean of all labels, which is the last expert.
    """

    def __init__(self, n_experts: int) -> None:
        self.first, self.shared = LeastSquaresMixer(n_experts), SharedMean(n_experts)
        self.second = LeastSquaresMixer(3)
        self.scale = PredictiveScale(n_experts)
        self.n_rows = 0

    @property
    def weights(self) -> Reals:
        """The part of each expert in the mean, where nothing is clipped; they add up to 1."""
        of_first, of_shared, of_mean = self.second.parts
        parts = of_first * self.first.parts + of_shared * self.shared.weights
        parts[-1] += of_mean
        return np.asarray(parts)

    def candidates(self, means: Reals) -> Reals:
        return np.array([self.first.mix(means), self.shared.mix(means), means[-1]])

    def mix(self, by_expert: Reals) -> Reals:
        """Return the mean, the scale, the weights of the components and the levels."""
        mean = self.second.mix(self.candidates(by_expert[:, 0]))
        components, levels = self.scale.components.ravel(), self.scale.levels
        return np.concatenate([[mean, self.scale.scale(by_expert, mean)], components, levels])

    def limit(self, by_expert: Reals, y: float) -> float:
        """Return what mixer and linear experts learn of y: at most 20 scales from all experts."""
        reach = 20 * np.sqrt(by_expert[:, 1])
        lower, upper = (by_expert[:, 0] - reach).min(), (by_expert[:, 0] + reach).max()
        return y if self.n_rows < 50 or lower == upper else float(np.clip(y, lower, upper))

    def learn(self, by_expert: Reals, y: float, weight: float = 1.0) -> None:
        self.n_rows += 1
        if self.n_rows == 1:  # before the first label the experts know nothing
            return
        means, candidates = by_expert[:, 0], self.candidates(by_expert[:, 0])
        self.scale.learn(by_expert, self.second.mix(candidates), y, weight)
        self.second.learn(candidates, y, weight)
        self.shared.learn(means, y, weight)
        self.first.learn(means, y, weight)


@dataclass
class NumberTask:
    """Nodes are Student-t, thresholds lie between two rows, and linear experts are mixed, too."""

    has_linear_experts = True
    cuts_between_rows = True
    regrows_per_memory = 1
    gain = staticmethod(gain)
    margin = staticmethod(margin)

    def new_tree(self, rng: Generator, **options: Any) -> StudentTree:
        return StudentTree(StudentT, rng, **options)

    def new_mixer(self, n_experts: int) -> NumberMixer:
        return NumberMixer(n_experts)

    def contrast(self, first_label: float, rng: Generator) -> Callable[[float], float]:
        """Return the distance from the first label, for which float32 suffices."""
        return lambda y: y - first_label

    def join(self, by_tree: Reals) -> Reals:
        """Return the mean of a group, and the squared scale of the mixture of its trees."""
        means, squares = by_tree.T
        return np.array([mean_of(means), squares.mean() + means.var()])
