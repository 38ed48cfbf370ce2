"""
A stream that changes
=====================

What the labels depend on changes twice. The adaptive forest follows without being told, because
its groups of trees remember different numbers of rows, and a mixer learns the weight of each.
"""

# %%
# The classes of `make_drift` are the sides of a line that rotates by a right angle at each change.
# One label in ten is wrong, so an accuracy of 0.9 is the best possible.

from matplotlib import pyplot as plt

from amforest import AdaptiveAMFClassifier, AMFClassifier
from amforest.datasets import make_drift
from amforest.evaluation import progressive_validation
from amforest.plotting import plot_memory_weights, plot_progress

X, y = make_drift(6_000, n_changes=2, random_state=0)

# %%
# Test-then-train: each row is predicted, then learned. Thin dashed lines are the accuracy of the
# last 500 rows, solid ones that of all rows so far.

forest = AdaptiveAMFClassifier(random_state=0)
results = {
    "adaptive forest": progressive_validation(forest, X, y, window=500),
    "AMF": progressive_validation(AMFClassifier(random_state=0), X, y, window=500),
}
axes = plot_progress(results, ["accuracy"])

# %%
# After each change the long memories lose their weight, which may even become negative, and those
# of 1,000 and 250 rows take over.

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
plot_memory_weights(forest, ax=ax)
plt.show()
