"""The paper, reproduced: one module per figure and table of Sections 2 to 5.

Each module computes, draws, and compares what it found with what the paper claims. `reproduce` runs
them and writes a report; ``python -m experiments.paper`` is the command.
"""

from experiments.paper._findings import Claim, Table
from experiments.paper._reproduce import NAMES, Finding, reproduce
from experiments.paper._run import Run

__all__ = ["NAMES", "Claim", "Finding", "Run", "Table", "reproduce"]
