"""Models of many keys are saved as one, survive failures, and are opened again as they were."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from keyed_streams import CLASSIFIER, all_bytes, keyed_stream

from amforest.distributed import KeyedForests
from amforest.distributed.keyed_state import KeyedState, move_to_shards
from amforest.distributed.segment_store import SegmentStore
from amforest.distributed.store_folder import FsspecFolder, LocalFolder, open_folder
from amforest.model_io import ModelFormatError

X, Y, KEYS = keyed_stream(400, 60)


def _learn(forests: KeyedForests, start: int, end: int) -> KeyedForests:
    for a in range(start, end, 50):
        forests.partial_fit(X[a : a + 50], Y[a : a + 50], keys=KEYS[a : a + 50])
    return forests


@pytest.fixture(params=["path", "url"])
def directory(request, tmp_path):
    if request.param == "path":
        yield tmp_path / "models"
        return
    pytest.importorskip("fsspec")
    yield "memory://amforest-test/models"
    FsspecFolder("memory://amforest-test").remove_all()


def test_a_stream_continues_where_it_was_saved(directory):
    whole = all_bytes(_learn(KeyedForests(CLASSIFIER), 0, 400))
    with KeyedForests(CLASSIFIER, directory=directory, max_bytes=30_000) as forests:
        _learn(forests, 0, 200)
    for start in (200, 300):
        with KeyedForests.load(directory, max_bytes=30_000) as forests:
            assert forests.n_samples_seen_ == start
            _learn(forests, start, start + 100)
    with KeyedForests.load(directory) as forests:
        assert all_bytes(forests) == whole
        assert forests.classes_.tolist() == [0, 1]


def test_a_process_that_dies_leaves_what_was_saved_last(directory):
    forests = _learn(KeyedForests(CLASSIFIER, directory=directory, max_bytes=20_000), 0, 200)
    forests.save(extra={"position": 200})
    saved = all_bytes(forests)
    _learn(forests, 200, 400)  # evicts models, and then dies
    with KeyedForests.load(directory) as again:
        assert all_bytes(again) == saved
        assert again.extra_ == {"position": 200}
        assert all_bytes(_learn(again, 200, 400)) == all_bytes(
            _learn(KeyedForests(CLASSIFIER), 0, 400)
        )


def test_a_damaged_manifest_gives_way_to_the_one_before(tmp_path):
    forests = _learn(KeyedForests(CLASSIFIER, directory=tmp_path), 0, 200)
    forests.save()
    saved = all_bytes(forests)
    _learn(forests, 200, 400).save()
    newest = max(tmp_path.glob("manifest-*.json"))
    newest.write_bytes(newest.read_bytes()[:-10])
    assert all_bytes(KeyedForests.load(tmp_path)) == saved


def test_damaged_models_are_refused(tmp_path):
    _learn(KeyedForests(CLASSIFIER, directory=tmp_path), 0, 400).close()
    (segment,) = tmp_path.glob("shard-*/*.seg")
    content = bytearray(segment.read_bytes())
    segment.write_bytes(content[:-3])
    with pytest.raises(ModelFormatError, match="its keys are not those"):
        KeyedForests.load(tmp_path)
    content[len(content) // 2] ^= 1
    segment.write_bytes(content)
    with pytest.raises(ModelFormatError):
        all_bytes(KeyedForests.load(tmp_path))


def test_save_to_another_folder_is_a_copy(tmp_path, directory):
    forests = _learn(KeyedForests(CLASSIFIER, max_bytes=20_000), 0, 200)
    forests.save(directory)
    saved = all_bytes(forests)
    _learn(forests, 200, 400).close()
    assert all_bytes(KeyedForests.load(directory)) == saved
    with pytest.raises(FileExistsError, match="holds models already"):
        KeyedForests.load(directory).save(directory)


def test_a_folder_with_models_is_not_overwritten(tmp_path):
    _learn(KeyedForests(CLASSIFIER, directory=tmp_path), 0, 50).close()
    with pytest.raises(FileExistsError, match="continue with KeyedForests"):
        _learn(KeyedForests(CLASSIFIER, directory=tmp_path), 0, 50)
    with pytest.raises(FileNotFoundError, match="holds no saved KeyedForests"):
        KeyedForests.load(tmp_path / "nothing")


def test_closed_forests_are_refused(tmp_path):
    forests = KeyedForests(CLASSIFIER, directory=tmp_path)
    forests.close()
    with pytest.raises(ValueError, match="closed: continue with KeyedForests"):
        _learn(forests, 0, 50)


def test_files_are_few_and_outdated_models_are_removed(tmp_path):
    with KeyedForests(CLASSIFIER, directory=tmp_path, max_bytes=1) as forests:
        for _ in range(6):
            _learn(forests, 0, 400)
        forests.save()
        forests.save()  # the generation before refers to outdated models
        size = sum(path.stat().st_size for path in tmp_path.glob("shard-*/*.seg"))
        assert size < 2.5 * forests.stats()["bytes_saved"] + 2**17
        assert len(list(tmp_path.rglob("*"))) < 60


@given(
    actions=st.lists(
        st.one_of(
            st.tuples(st.integers(0, 20), st.integers(0, 3000)),
            st.sampled_from(["commit", "die"]),
        ),
        max_size=60,
    )
)
def test_a_store_holds_what_was_put_or_after_a_death_what_was_committed(tmp_path_factory, actions):
    folder = LocalFolder(tmp_path_factory.mktemp("store"))
    store, generation = SegmentStore(folder, segment_bytes=4000), 0
    store.commit(generation)
    held: dict[int, bytes] = {}
    committed: dict[int, bytes] = {}
    for n, action in enumerate(actions):
        if action == "commit":
            generation += 1
            store.commit(generation)
            committed = dict(held)
        elif action == "die":
            store = SegmentStore(folder, segment_bytes=4000, generation=generation)
            held = dict(committed)
        else:
            key, size = action
            held[key] = bytes([n]) * size
            store.put(key, held[key])
        assert {key: store.get(key) for key in store} == held
        assert len(store) == len(held)
        assert store.n_bytes == sum(map(len, held.values()))


def test_a_generation_before_the_last_can_be_opened(tmp_path):
    store = SegmentStore(LocalFolder(tmp_path))
    for generation in range(3):
        store.put("a", bytes([generation]))
        store.commit(generation)
    assert SegmentStore(LocalFolder(tmp_path), generation=1).get("a") == b"\x01"


def test_urls_need_fsspec(monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "fsspec.core", None)
    with pytest.raises(ImportError, match=r"amforest\[fsspec\]"):
        open_folder("s3://bucket/models")


def test_models_may_move_to_another_number_of_shards(tmp_path):
    _learn(KeyedForests(CLASSIFIER, directory=tmp_path), 0, 400).close()
    with KeyedForests.load(tmp_path) as forests:
        saved = all_bytes(forests)
    move_to_shards(tmp_path, *KeyedState.read(tmp_path), 3)
    assert len(list(tmp_path.glob("shard-*-of-00003"))) == 3
    with KeyedForests.load(tmp_path) as forests:
        assert all_bytes(forests) == saved
