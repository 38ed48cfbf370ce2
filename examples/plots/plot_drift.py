"""
A stream that changes
=====================

The labels depend on other features from row 3,000 on. The adaptive forest follows.
"""

# %%
# Each row is predicted, then learned.

from amforest import AdaptiveAMFClassifier
from amforest.datasets import make_drift

X, y = make_drift(2_000, random_state=0)
model = AdaptiveAMFClassifier(random_state=0)
probabilities = model.partial_fit_predict_proba(X, y)
print(probabilities.shape)
