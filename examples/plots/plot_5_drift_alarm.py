"""
An alarm for drift
==================

The forest follows a change by itself. `watch_drift` reports it: since which row the
predictions are worse, and which features matter more or less than before.
"""

# %%
# From row 2,000 on the label depends on another feature.

import numpy as np
from matplotlib import pyplot as plt

from amforest import AdaptiveAMFClassifier
from amforest.evaluation import Drift, watch_drift

rng = np.random.default_rng(0)
X = rng.normal(size=(4_000, 4))
y = np.where(np.arange(4_000) < 2_000, X[:, 0], X[:, 3]) > 0

# %%
# The function is called as soon as a drift is detected.


def tell(drift: Drift) -> None:
    """Print what is known of a drift."""
    print(f"row {drift.row}: the loss is {drift.after:.2f} since row {drift.since}, not")
    print(
        f"{drift.before:.2f}; features {[change.feature for change in drift.changed]} changed most"
    )


forest = AdaptiveAMFClassifier(classes=[False, True], random_state=0)
watch = watch_drift(forest, tell)
probabilities = forest.partial_fit_predict_proba(X, y)

# %%
# The loss of each row, which is what is watched, and the row of the alarm:

losses = 1 - probabilities[np.arange(4_000), y.astype(int)]
figure, ax = plt.subplots(figsize=(8, 3), layout="constrained")
ax.plot(np.convolve(losses, np.full(50, 1 / 50), mode="valid"), color="#0072b2")
for drift in watch.drifts:
    ax.axvline(drift.row, color="#d55e00", linestyle="--", label=f"alarm in row {drift.row}")
ax.set(xlabel="row", ylabel="mean loss of 50 rows")
ax.legend()
plt.show()
