"""One Ray cluster for all tests here, and actors that they share."""

import pytest

from amforest.distributed.ray_shards import RayShards


@pytest.fixture(scope="session")
def cluster(tmp_path_factory):
    """Start Ray; actors import compiled modules, whatever the environment says."""
    ray = pytest.importorskip("ray", reason="ray is not installed: pip install 'amforest[ray]'")
    cache = {
        "PYTHONDONTWRITEBYTECODE": "",
        "PYTHONPYCACHEPREFIX": str(tmp_path_factory.mktemp("cache")),
    }
    ray.init(
        address="local",  # not that of another program on this machine
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        ignore_reinit_error=True,
        runtime_env={"env_vars": cache},
    )
    yield
    ray.shutdown()


@pytest.fixture(scope="session")
def idle_actors():
    """Actors that forests use one after the other: an actor takes seconds to start."""
    return []


@pytest.fixture(autouse=True)
def _actors_are_used_again(monkeypatch, idle_actors):
    start = RayShards._start

    def start_or_use(self, k):
        if not idle_actors:
            return start(self, k)
        actor = idle_actors.pop()
        actor.reset.remote(self._saved[k])
        return actor

    monkeypatch.setattr(RayShards, "_start", start_or_use)
    monkeypatch.setattr(RayShards, "close", lambda self: idle_actors.extend(self.actors))
