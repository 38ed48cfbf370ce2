"""The first prediction of a new process: ``python -m benchmarks.first_prediction LIBRARY``.

Prints the wall seconds of import, first fit and first predict as JSON. Nothing that the library
imports may be imported before the clock starts: so building the rows is part of the first fit.
"""

import json
import sys
import time

from benchmarks.importing import import_library


def main(name: str) -> None:
    start = time.perf_counter()
    import_library("river.forest" if name == "river" else name)
    imported = time.perf_counter()

    import numpy as np  # noqa: PLC0415

    from benchmarks.peers import LIBRARIES  # noqa: PLC0415

    rng = np.random.default_rng(0)
    X, y = rng.random((100, 16), dtype=np.float32), rng.integers(2, size=100)
    forest = LIBRARIES[name](2, 0)
    forest.learn(X, y)
    learned = time.perf_counter()
    forest.predict(X)
    predicted = time.perf_counter()
    stages = {
        "import": imported - start,
        "first fit": learned - imported,
        "first predict": predicted - learned,
    }
    json.dump(stages, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
