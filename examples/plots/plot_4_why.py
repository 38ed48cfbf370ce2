"""
Why this prediction?
====================

`explain` returns what each feature contributes to a prediction. Contributions are exact: with the
base value they add up to the prediction.
"""

# %%
# Wine, by the results of a chemical analysis. Two classes make the log-odds the natural unit.

from matplotlib import pyplot as plt
from sklearn.datasets import load_wine
from sklearn.utils import shuffle

from amforest import AdaptiveAMFClassifier
from amforest.plotting import plot_contribution_swarm, plot_contributions

wine = load_wine(as_frame=True)
X, y = shuffle(wine.data, wine.target == 0, random_state=0)
forest = AdaptiveAMFClassifier(random_state=0).fit(X[:130], y[:130])
print(f"accuracy on the other wines: {forest.score(X[130:], y[130:]):.3f}")

# %%
# One wine: from the base value to its log-odds, the largest contribution first.

explanation = forest.explain(X[130:])
figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
plot_contributions(explanation[0], ax=ax)

# %%
# All of them: a dot for each, colored by the value of the feature.

figure, ax = plt.subplots(figsize=(8, 4.5), layout="constrained")
plot_contribution_swarm(explanation, ax=ax)
plt.show()
