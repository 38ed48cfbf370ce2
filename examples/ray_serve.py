"""Serve a forest that predicts while it learns: ``python examples/ray_serve.py --to build/served``.

It answers JSON. ``{"row": {"size": 3, "colour": "red"}}`` is predicted. With a ``"label"`` the row
is then learned, too. With a ``"position"``, the number of the row in its stream, it is learned
once, however often it is sent. A row may have any features, and a label may be new.

    curl -d '{"row": {"size": 3, "colour": "red"}, "label": "apple"}' localhost:8000

It needs ``ray[serve]`` and ``amforest[ray,river]``.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path
from threading import Lock
from typing import Any

from ray import serve
from starlette.requests import Request
from starlette.responses import JSONResponse

from amforest.distributed import RayForest
from amforest.model_io import load, save
from amforest.river import AdaptiveAMFClassifier


class PositionError(Exception):
    """Rows of the stream are missing before the one that was sent."""


class ForestServer:
    """One forest, in one process: a second replica would learn other rows, and predict differently.

    Parameters
    ----------
    folder : str
        Where the model is saved. A replica that is started again goes on from there.
    n_shards : int, default=0
        0: the forest is in this process, so that a prediction takes well below a millisecond, and
        never waits for learning. Otherwise it is a RayForest with so many actors, for forests that
        one machine cannot hold: each call then waits for all of them.
    save_every : int, default=1000
        The rows after which the model is saved. They are lost if the process dies before: a client
        that sends positions is told from where to send again.
    """

    def __init__(self, folder: str, n_shards: int = 0, save_every: int = 1_000) -> None:
        self._path, self._every = Path(folder) / "forest.amf", save_every
        self._path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self._path.exists()
        self.model: Any = AdaptiveAMFClassifier(seed=0) if is_new else load(self._path)
        if n_shards:
            self.model = RayForest.from_local(self.model, n_shards)
        self._learning = Lock()

    async def __call__(self, request: Request) -> JSONResponse:
        """Answer a request, in a thread: others are answered meanwhile."""
        try:
            return JSONResponse(await asyncio.to_thread(self.answer, **await request.json()))
        except PositionError as error:
            return JSONResponse({"error": str(error), **self.counts()}, status_code=409)
        except (TypeError, ValueError) as error:
            return JSONResponse({"error": str(error)}, status_code=400)

    def answer(
        self, row: dict[str, Any], label: Any = None, position: int | None = None
    ) -> dict[str, Any]:
        """Predict a row; learn it if it has a label."""
        probabilities = self.model.predict_proba_one(row)
        if label is not None:
            self.learn(row, label, position)
        return {
            "label": max(probabilities, key=probabilities.__getitem__, default=None),
            "probabilities": {str(name): value for name, value in probabilities.items()},
            **self.counts(),
        }

    def learn(self, row: dict[str, Any], label: Any, position: int | None) -> None:
        """Learn a row, unless it was learned before."""
        with self._learning:
            n_learned = self.model.n_samples_seen_
            if position is not None and position > n_learned:
                raise PositionError(f"position is {position}; it must be at most {n_learned}")
            if position is None or position == n_learned:
                self.model.learn_one(row, label)
                if (n_learned + 1) % self._every == 0:
                    self.save()

    def save(self) -> None:
        """Save the model, as one file, whatever holds its trees."""
        is_local = not isinstance(self.model, RayForest)
        save(self.model if is_local else self.model.to_local(), self._path)

    def counts(self) -> dict[str, int]:
        """Return the number of learned rows: the position of the next one."""
        return {"n_learned": self.model.n_samples_seen_}


def build(folder: Path, **options: Any) -> serve.Application:
    """Return the application for `serve.run`."""
    deployment = serve.deployment(
        num_replicas=1, max_ongoing_requests=64, ray_actor_options={"num_cpus": 0}
    )
    return deployment(ForestServer).bind(str(folder.resolve()), **options)


def main() -> None:
    """Serve on port 8000 until Ctrl-C."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--to", type=Path, default=Path("build/ray_serve"))
    parser.add_argument("--n-shards", type=int, default=0)
    arguments = parser.parse_args()
    serve.run(build(arguments.to, n_shards=arguments.n_shards), blocking=True)


if __name__ == "__main__":
    main()
