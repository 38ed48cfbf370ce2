"""The paper's theory, computed: Mondrian partitions, prunings, bounds, online to batch.

Trees are tables, as `AMFClassifier.tree_table` and `MondrianPartition.table` give them. A pruning T
is an array of its leaves, rows of the table; it has |T| = 2 · leaves - 1 nodes. Statements and
equations have the paper's numbers; ``as_stated=False`` corrects those that are wrong.
"""

from amforest.theory.bounds import (
    depth_bound,
    holder_rate,
    holder_risk_bound,
    kt_regret_bound,
    lifetime_regret_bound,
    lifetime_risk_bound,
    log_loss_regret_bound,
    mean_regret_bound,
    pruning_regret_bound,
    square_loss_regret_bound,
)
from amforest.theory.mondrian import MondrianPartition, sample_mondrian, sample_mondrians
from amforest.theory.online_to_batch import OnlineToBatch
from amforest.theory.prunings import (
    best_constants_loss,
    best_pruning,
    constants_losses,
    leaves_of,
    node_predictions,
    online_losses,
    time_pruning,
)

__all__ = [
    "MondrianPartition",
    "OnlineToBatch",
    "best_constants_loss",
    "best_pruning",
    "constants_losses",
    "depth_bound",
    "holder_rate",
    "holder_risk_bound",
    "kt_regret_bound",
    "leaves_of",
    "lifetime_regret_bound",
    "lifetime_risk_bound",
    "log_loss_regret_bound",
    "mean_regret_bound",
    "node_predictions",
    "online_losses",
    "pruning_regret_bound",
    "sample_mondrian",
    "sample_mondrians",
    "square_loss_regret_bound",
    "time_pruning",
]
