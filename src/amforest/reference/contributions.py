"""What each feature contributes to a prediction, as formulas.

By summation by parts, the mixture of a tree is ŷ_root + Σ reach_v (ŷ_v - ŷ_u), over the nodes v
below the root on the path of x; u is the node above v, and reach_v the product of (1 - share) over
all nodes above v. Each term belongs to the feature that u splits.

All functions return an array of shape (1 + number of columns, size of ŷ): first the base value,
then the contributions. Its sum over the first axis is the prediction.
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np

from amforest.reference import Floats, Node, Reals, Tree, UnrestrictedTree, extension_by_feature
from amforest.reference.adaptive import AdaptiveForest
from amforest.reference.adaptive_classes import Mixer
from amforest.reference.adaptive_numbers import LeastSquaresMixer, NumberMixer
from amforest.reference.linear_models import LinearBase, LinearExperts
from amforest.reference.regrowth import ForestTree
from amforest.reference.student_t import StudentTree, statistics


def explain_tree(tree: Tree, x: Floats) -> Reals:
    """Explain the prediction of a tree."""
    if tree.root is None:
        default = explained(tree.new_labels().prediction(), tree)
        return np.array([default, *[np.zeros_like(default)] * len(x)])
    path = list(tree.path(x))
    shares = [tree.share(v) for v in path]
    terms = explain_path(tree, path, shares, len(x))
    if not tree.predict_extends:
        return terms
    if isinstance(tree, UnrestrictedTree):
        return terms + fresh_in_a_box(tree, x, path, shares)
    mean, stays = np.zeros_like(terms), 1.0
    for depth, v in enumerate(path):
        if (p := tree.branch_probability(v, x)) > 0:
            mean += stays * p * explain_branch(tree, x, path[: depth + 1])
            stays *= 1.0 - p
    return mean + stays * terms


def explain_path(tree: Tree, path: list[Node], shares: list[float], n_columns: int) -> Reals:
    """Add up reach_v (ŷ_v - ŷ_u)."""
    root = prediction(tree, path[0])
    terms = np.zeros((1 + n_columns, len(root)))
    terms[0], reach = root, 1.0
    for (u, v), share in zip(pairwise(path), shares, strict=False):
        reach *= 1.0 - share
        terms[1 + u.feature] += reach * (prediction(tree, v) - prediction(tree, u))
    return terms


def explain_branch(tree: Tree, x: Floats, path: list[Node]) -> Reals:
    """Explain the prediction of the tree in which x branches off at the last node of the path.

    Above this node v is a new one, with its labels and weight; its children are v and {x}, whose
    w̄ is 1, and which predicts h(∅). It splits feature j with the probability λ_j Δ_j / Δ.
    """
    a, v = tree.split_prior[0], path[-1]
    shares: list[float] = []  # from below
    if tree.use_aggregation:
        ends = math.log(1 - a) + v.log_w
        log_w_bar = float(np.logaddexp(ends, math.log(a) + v.log_w_bar))
        shares.append(math.exp(ends - log_w_bar))
        for u, child in pairwise(path[::-1]):
            left, right = child.children() or (u, u)
            sibling = right if u is left else left
            ends = math.log(1 - a) + child.log_w
            below = math.log(a) + log_w_bar + sibling.log_w_bar
            log_w_bar = float(np.logaddexp(ends, below))
            shares.append(math.exp(ends - log_w_bar))
    else:
        shares = [0.0] * len(path)
    terms = explain_path(tree, path, shares[::-1], len(x))
    fresh = tree.new_labels().prediction()
    delta = tree.extensions(x, v).astype(np.float64)
    reach = math.prod(1.0 - share for share in shares)
    terms[1:] += reach * np.outer(delta / delta.sum(), fresh - prediction(tree, v))
    return terms


def fresh_in_a_box(
    tree: UnrestrictedTree, x: Floats, path: list[Node], shares: list[float]
) -> Reals:
    """Return the terms of the fresh leaf; all other new nodes predict as x's leaf does.

    The feature j separates x from the point x' in its leaf with a probability ∝ λ_j |x_j - x'_j|.
    """
    *above, leaf = path
    y = prediction(tree, leaf)
    terms = np.zeros((1 + len(x), len(y)))
    if (new := tree.mean_power(x, above, leaf)) > 0:
        delta = tree.weighted(extension_by_feature(x, leaf)).astype(np.float64)
        reach = math.prod(1.0 - share for share in shares[:-1])
        fresh = tree.new_labels().prediction()
        terms[1:] = reach * new * np.outer(delta / delta.sum(), fresh - y)
    return terms


def prediction(tree: Tree, v: Node) -> Reals:
    """ŷ_v; of a distribution, the mean."""
    if isinstance(tree, StudentTree):
        return np.array([statistics(v).posterior(tree.posterior(v.parent)).mean])
    return np.asarray(tree.prediction(v))


def explained(y: Reals, tree: Tree) -> Reals:
    """Return the numbers of a prediction that are explained."""
    return y[:1] if isinstance(tree, StudentTree) else y


# The adaptive forest


def explain_forest(forest: AdaptiveForest, x: Floats) -> Reals:
    """Explain a mean, or the scores log p(k), of which the mean over the classes is 0.

    Columns are the features of a row. What the mixer makes of an expert's prediction is linear
    around x, or becomes so: its contributions are multiplied by a slope.
    """
    by_tree = np.array([explain_slot(slot, x) for slot in forest.slots])
    experts = by_tree.reshape(len(forest.groups), forest.n_estimators, *by_tree.shape[1:]).mean(1)
    if forest.experts:
        experts = np.append(experts, explain_experts(forest.experts, x), axis=0)
    by_expert = forest.predict_by_expert(x)
    if isinstance(forest.mixer, Mixer):
        return explain_scores(forest.mixer, by_expert, experts)
    assert isinstance(forest.mixer, NumberMixer)
    return np.asarray(np.tensordot(slopes_of(forest.mixer, by_expert[:, 0]), experts, 1))


def explain_slot(slot: ForestTree, row: Floats) -> Reals:
    """Explain the prediction of a tree and its base."""
    x = slot.numbers.encode(row)
    terms = explain_tree(slot.tree, x)
    if slot.base:
        terms[:, 0] += explain_base(slot.base, x)
    return terms


def explain_base(base: LinearBase, x: Floats) -> Reals:
    """Explain a linear regression: its intercept, and slope · (value - center) of each column."""
    terms = np.zeros(1 + len(x))
    values = np.clip(x[base.columns].astype(np.float64), base.lower, base.upper)
    terms[0] = base.intercept
    terms[1 + np.array(base.columns, dtype=int)] = np.nan_to_num(
        base.slopes * (values - base.centers)
    )
    return terms


def explain_experts(experts: LinearExperts, x: Floats) -> Reals:
    """Explain the regressions that learn row by row, and the mean of all labels."""
    terms = np.zeros((experts.N, 1 + len(x), 1))
    if not experts.rows:
        return terms
    ends = [reduce.reduce(experts.rows) for reduce in (np.fmin, np.fmax)]
    z = experts.standardise(np.clip(experts.numbers(x), *ends))
    for own, expert in zip(terms, experts.experts, strict=False):
        *slopes, intercept = expert.slopes() * z
        first = 1 + experts.n_codes
        own[0], own[first : first + len(slopes), 0] = intercept, slopes
    terms[-1, 0] = experts.mean()[0]
    terms[:, 0] += experts.first_label
    return terms


def explain_scores(mixer: Mixer, by_group: Reals, groups: Reals) -> Reals:
    """Explain s_k = Σ_g u_g ℓ_gk: ℓ_gk minus its base value is divided as p_g(k) minus its own is.

    So the contributions to p_g(k) are multiplied by the slope of the secant.
    """
    bases = groups[:, 0]
    logs, base_logs, distances = mixer.logs(by_group), mixer.logs(bases), by_group - bases
    tangents = (1 - 1e-4) / np.exp(base_logs)
    is_far = np.abs(distances) > 1e-9 * np.exp(base_logs)
    slopes = np.where(is_far, (logs - base_logs) / np.where(is_far, distances, 1.0), tangents)
    scores = np.einsum("g,gk,gjk->jk", mixer.weights, slopes, groups)
    scores[0] = mixer.weights @ base_logs
    return np.asarray(scores - scores.mean(axis=1, keepdims=True))


def slopes_of(mixer: NumberMixer, means: Reals) -> Reals:
    """Return the part of each expert in the mean."""
    of_first, of_shared, of_mean = parts_of(mixer.second, mixer.candidates(means))
    slopes = of_first * parts_of(mixer.first, means) + of_shared * mixer.shared.weights
    slopes[-1] += of_mean
    return np.asarray(slopes)


def parts_of(mixer: LeastSquaresMixer, means: Reals) -> Reals:
    """Return the parts in a mix: where it is clipped, those of the lowest and the highest mean.

    The ends of the widened hull are m_low - (m_high - m_low) / 2 and m_high + (m_high - m_low) / 2.
    """
    low, high = int(means.argmin()), int(means.argmax())
    margin, mixed = (means[high] - means[low]) / 2, float(mixer.parts @ means)
    if means[low] - margin <= mixed <= means[high] + margin:
        return mixer.parts
    parts = np.zeros(len(means))
    parts[low], parts[high] = (1.5, -0.5) if mixed < means[low] else (-0.5, 1.5)
    return parts
