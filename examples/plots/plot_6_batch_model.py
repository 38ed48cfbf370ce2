"""
Instead of training again every night
=====================================

A model for fixed tables must be trained again and again to keep up with a stream. Here a random
forest of scikit-learn is trained after every 500 rows, on all rows so far or on the last 500; the
adaptive forest learns each row once.
"""

# %%
# The stream drifts slowly all the time. One label in twenty is wrong.

import numpy as np
from matplotlib import pyplot as plt
from numpy.typing import NDArray
from sklearn.ensemble import RandomForestClassifier

from amforest import AdaptiveAMFClassifier
from amforest.datasets import make_drift

X, y = make_drift(5_000, drift="gradual", n_changes=3, noise=0.05, random_state=0)


def predict_retrained(n_rows: int) -> NDArray[np.int64]:
    """Predict 500 rows at a time, by a forest trained on at most the `n_rows` before them."""
    predictions = [np.full(500, y[0])]
    for start in range(500, len(X), 500):
        rows = slice(max(0, start - n_rows), start)
        model = RandomForestClassifier(random_state=0).fit(X[rows], y[rows])
        predictions.append(model.predict(X[start : start + 500]))
    return np.concatenate(predictions)


# %%
# All predict the same rows; the first 500 do not count.

forest = AdaptiveAMFClassifier(classes=[0, 1], random_state=0)
predictions = {
    "adaptive forest": forest.partial_fit_predict_proba(X, y).argmax(axis=1),
    "retrained on all": predict_retrained(len(X)),
    "retrained on the last 500": predict_retrained(500),
}
for name, predicted in predictions.items():
    print(f"{name:26} accuracy {np.mean(predicted[500:] == y[500:]):.3f}")

# %%
# The accuracy over the last 500 rows:

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
for (name, predicted), style in zip(predictions.items(), ("-", "--", ":"), strict=True):
    accuracy = np.convolve(predicted == y, np.full(500, 1 / 500), mode="valid")
    ax.plot(np.arange(1_000, 5_001), accuracy[500:], style, label=name)
ax.set(xlabel="row", ylabel="accuracy, last 500 rows")
ax.legend()
plt.show()
