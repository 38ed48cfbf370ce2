"""
One model for each sensor
=========================

`KeyedForests` has a forest for each key, behind the methods of one estimator, in as much memory as
you allow. Models that are not in use wait on disk.
"""

# %%
# 50 sensors; each has its own threshold, above which it raises an alarm.

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from amforest import AMFClassifier
from amforest.distributed import KeyedForests

rng = np.random.default_rng(0)
n = 10_000
readings = pd.DataFrame(
    {
        "sensor": [f"sensor {i}" for i in rng.integers(0, 50, size=n)],
        "value": rng.random(n),
        "noise": rng.random(n),
    }
)
thresholds = {f"sensor {i}": 0.2 + 0.6 * i / 49 for i in range(50)}
alarm = (readings["value"] > readings["sensor"].map(thresholds)).to_numpy()

# %%
# One stream of rows. The column of keys is no feature.

forests = KeyedForests(AMFClassifier(classes=[False, True], random_state=0), key="sensor")
by_key = forests.partial_fit_predict_proba(readings, alarm).argmax(axis=1) == alarm
one = AMFClassifier(classes=[False, True], random_state=0)
by_one = one.partial_fit_predict_proba(readings[["value", "noise"]], alarm).argmax(axis=1) == alarm
print(f"{len(forests)} models: accuracy {by_key.mean():.3f}; one for all: {by_one.mean():.3f}")

# %%
# Each model has learned the threshold of its sensor, here from 200 rows on average.

values = np.linspace(0, 1, 200)
figure, ax = plt.subplots(figsize=(8, 3.5), layout="constrained")
for i in (0, 25, 49):
    frame = pd.DataFrame({"sensor": f"sensor {i}", "value": values, "noise": 0.5})
    (line,) = ax.plot(values, forests.predict_proba(frame)[:, 1], label=f"sensor {i}")
    ax.axvline(thresholds[f"sensor {i}"], color=line.get_color(), linestyle=":")
ax.set(xlabel="value", ylabel="probability of an alarm")
ax.legend()
plt.show()
forests.close()
