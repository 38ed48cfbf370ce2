"""
A data frame as it is
=====================

Text, dates and missing values need no preparation. Here a shop predicts which visits end in a sale.
"""

# %%
# The columns are of all kinds, and one visit in ten has no age.

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from amforest import AdaptiveAMFClassifier
from amforest.evaluation import progressive_validation
from amforest.plotting import plot_importances

rng = np.random.default_rng(0)
n = 5_000
visits = pd.DataFrame(
    {
        "when": pd.date_range("2026-01-01", periods=n, freq="20min"),
        "device": rng.choice(["phone", "laptop", "tablet"], size=n, p=[0.6, 0.3, 0.1]),
        "town": rng.choice([f"town {i}" for i in range(200)], size=n),
        "basket": rng.gamma(2, 20, size=n),
        "age": np.where(rng.random(n) < 0.1, np.nan, rng.integers(18, 80, size=n)),
    }
)
is_evening = visits["when"].dt.hour >= 18
score = visits["basket"] / 20 + 2 * (visits["device"] == "laptop") + 2 * is_evening - 3.5
bought = np.where(rng.random(n) < 1 / (1 + np.exp(-score)), "yes", "no")
visits.head()

# %%
# The stream is learned row by row, each row after it was predicted.

forest = AdaptiveAMFClassifier(random_state=0)
progressive_validation(forest, visits, bought)

# %%
# A date has become a year, a month, a day, a weekday and an hour. Which columns matter was learned
# online, too:

figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
plot_importances(forest, ax=ax)
plt.show()
