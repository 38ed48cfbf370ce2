"""
Numbers with intervals
======================

Demand by the hour, with noise that grows. The intervals of `AdaptiveAMFRegressor` are learned from
the errors of its own predictions, so they widen by themselves and go on holding 90 % of the
labels.
"""

# %%
# Features are the hour and the day of the week; the noise is four times as large from row 2,000
# on.

import numpy as np
from matplotlib import pyplot as plt

from amforest import AdaptiveAMFRegressor
from amforest.plotting import plot_predictions

rng = np.random.default_rng(0)
t = np.arange(3_000)
X = np.column_stack([t % 24, t // 24 % 7])
noise = np.where(t < 2_000, 1, 4) * rng.normal(size=len(t))
demand = 50 + 10 * np.sin(2 * np.pi * X[:, 0] / 24) + 5 * (X[:, 1] < 5) + noise

# %%
# One call predicts the distribution of each row, then learns the row.

forest = AdaptiveAMFRegressor(random_state=0)
predicted = forest.partial_fit_predict_dist(X, demand)
low, high = predicted.quantiles([0.05, 0.95]).T
shown = slice(1_900, 2_200)
figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
ends = np.column_stack([low, high])
plot_predictions(demand[shown], predicted.mean()[shown], ends[shown], rows=t[shown], ax=ax)
plt.show()

# %%
# How many labels are within their interval, before the change and after it:

is_inside = (low <= demand) & (demand <= high)
for name, rows in {"before": slice(200, 2_000), "after": slice(2_000, None)}.items():
    print(f"{name}: {is_inside[rows].mean():.1%}, mean width {(high - low)[rows].mean():.1f}")
