"""Files of earlier versions are loaded for ever, and their models go on as they did then."""

import hashlib
import json
from pathlib import Path

import pytest

from amforest import load
from amforest.model_io import model_file, safetensors_bytes
from amforest.model_io.model_file import ModelFormatError, from_bytes
from make_golden import FOLDER, FORMAT, FROZEN, GOLDEN, described

FOLDERS = {version: FOLDER / f"format_{version}" for version in range(1, FORMAT + 1)}
ABOUT = {
    version: json.loads((folder / "golden.json").read_text("utf-8"))["files"]
    for version, folder in FOLDERS.items()
}
FILES = [(version, name) for version in FOLDERS for name in ABOUT[version]]
NAMES = list(GOLDEN)
NEWEST = FOLDERS[FORMAT]


@pytest.mark.parametrize("version", FOLDERS)
def test_all_files_are_there_and_small(version):
    files = {path.stem: path for path in FOLDERS[version].glob("*.amf")}
    assert sorted(files) == sorted(ABOUT[version])
    assert sorted(ABOUT[FORMAT]) == sorted(GOLDEN)
    assert all(path.stat().st_size < 18_000 for path in files.values())


@pytest.mark.parametrize(("version", "name"), FILES)
def test_a_file_is_loaded_and_its_model_goes_on_as_it_did(version, name):
    expected, path = ABOUT[version][name], FOLDERS[version] / f"{name}.amf"
    model = load(path, sha256=expected["sha256"])
    assert described(name, model, path.read_bytes()) == expected


@pytest.mark.parametrize(("version", "name"), [file for file in FILES if file[0] < FORMAT])
def test_a_file_of_an_earlier_format_is_written_in_the_newest(version, name):
    old = load(FOLDERS[version] / f"{name}.amf")
    assert version == 3 or old.max_categories is None  # it had no limit
    assert without_newer(old.to_bytes()) == without_newer((NEWEST / f"{name}.amf").read_bytes())


@pytest.mark.parametrize("name", ["adaptive_regressor", "river_adaptive_regressor"])
def test_a_regressor_whose_mixer_has_one_level_goes_on_as_it_did(name):
    folder = FOLDER / "format_3_one_level"
    expected = json.loads((folder / "golden.json").read_text("utf-8"))["files"][name]
    data = (folder / f"{name}.amf").read_bytes()
    model = load(folder / f"{name}.amf", sha256=expected["sha256"])
    found, known = without_newer(model.to_bytes()), without_newer(data)
    assert found[0].pop("format") == known[0].pop("format") + 1
    assert found == known
    assert described(name, model, data) == expected


@pytest.mark.parametrize("name", FROZEN)
def test_a_frozen_copy_predicts_as_it_did(name):
    folder = FOLDER / "frozen_3"
    expected = json.loads((folder / "golden.json").read_text("utf-8"))["files"][name]
    frozen = load(folder / f"{name}.amf", sha256=expected["sha256"])
    assert GOLDEN[name].predictions(frozen) == expected["predictions"]
    (again, arrays), (document, golden_arrays) = map(
        parts, (frozen.to_bytes(), (folder / f"{name}.amf").read_bytes())
    )
    assert again | {"format": document["format"]} == document
    assert arrays == golden_arrays


@pytest.mark.parametrize("name", NAMES)
def test_a_file_of_this_format_is_written_again_as_it_is(name):
    data = (NEWEST / f"{name}.amf").read_bytes()
    assert parts(from_bytes(data).to_bytes()) == parts(data)


def parts(data):
    """All but the version of the library, and with it the digest."""
    arrays, metadata = safetensors_bytes.unpack(data)
    document = json.loads(metadata["amforest"])
    del document["library"]
    return document, {name: (array.shape, array.tobytes()) for name, array in arrays.items()}


def without_newer(data):
    """The parts of a file without what formats before 4 do not have."""
    document, arrays = parts(data)
    newer = ("importance", "weight_history")
    return document, {k: v for k, v in arrays.items() if not k.startswith(newer)}


@pytest.mark.parametrize("name", NAMES)
def test_the_stream_makes_the_same_model_today(name):
    golden = GOLDEN[name]
    model = golden.build()
    expected = ABOUT[FORMAT][name]
    if golden.n_learned:
        assert golden.predictions(model) == expected["forecasts"]
    assert golden.predictions(golden.continue_learning(model)) == expected["next_forecasts"]


def newer(data: bytes, document: dict) -> bytes:
    """A file of a format yet to come, whose other parts may be anything."""
    arrays, _ = safetensors_bytes.unpack(data)
    return b"".join(model_file.sealed_pieces(document, {"strange": arrays["seeds"]}))


@pytest.mark.parametrize("more", [{}, {"trees": [1, {"x": None}]}, {"forest": 3}])
def test_a_newer_format_is_an_error_that_names_the_version(more, tmp_path):
    document = {"format": FORMAT + 1, "library": "12.3.4"} | more
    data = newer((NEWEST / "classifier.amf").read_bytes(), document)
    path = Path(tmp_path / "newer.amf")
    path.write_bytes(data)
    message = rf"format {FORMAT + 1}, written by amforest 12\.3\.4; .* install a newer one"
    with pytest.raises(ModelFormatError, match=message):
        load(path, sha256=hashlib.sha256(data).hexdigest())
