"""The first forecast of a fresh process: ``python -m benchmarks.first_forecast LIBRARY``.

Prints the wall seconds of import, first fit and first predict as JSON. Nothing that the library
itself would load may be loaded before the clock starts.
"""

import json
import sys
import time

from benchmarks.importing import import_library


def main(name: str) -> None:
    start = time.perf_counter()
    import_library("river.forest" if name == "river" else name)
    imported = time.perf_counter()

    from benchmarks.data import uniform  # noqa: PLC0415
    from benchmarks.peers import LIBRARIES  # noqa: PLC0415

    stream = uniform(100, seed=0)
    learn_start = time.perf_counter()
    forest = LIBRARIES[name](stream.n_classes, 0)
    forest.learn(stream.X, stream.y)
    learnt = time.perf_counter()
    forest.predict(stream.X)
    predicted = time.perf_counter()
    stages = {
        "import": imported - start,
        "first fit": learnt - learn_start,
        "first predict": predicted - learnt,
    }
    json.dump(stages, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1])
