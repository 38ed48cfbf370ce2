"""What `make wheels` refuses."""

import io
import tarfile
import zipfile

import pytest

from tools import wheels

DATA = "amforest-1.2.0.dist-info"
FILES = ["amforest/__init__.py", "amforest/py.typed", "amforest/_core.abi3.so"]
FILES += [f"{DATA}/METADATA", f"{DATA}/licenses/LICENSE"]


@pytest.fixture
def built(tmp_path):
    """Return a function that writes an sdist and a wheel with some files."""

    def build(files, version="1.2.0"):
        sdist = tmp_path / "amforest-1.2.0.tar.gz"
        with tarfile.open(sdist, "w:gz") as archive:
            about = f"Metadata-Version: 2.2\nName: amforest\nVersion: {version}\n".encode()
            entry = tarfile.TarInfo("amforest-1.2.0/PKG-INFO")
            entry.size = len(about)
            archive.addfile(entry, io.BytesIO(about))
        wheel = tmp_path / "amforest-1.2.0-cp312-abi3-linux_x86_64.whl"
        with zipfile.ZipFile(wheel, "w") as archive:
            for name in files:
                archive.writestr(name, b"\0" * 1_000)
        return sdist, wheel

    return build


def test_a_sound_wheel_is_described(built, capsys):
    wheels.check(*built(FILES))
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.endswith("5 files, the core as amforest/_core.abi3.so")


def test_a_large_wheel_is_refused(built, monkeypatch):
    monkeypatch.setattr(wheels, "MOST_BYTES", 5_000)
    with pytest.raises(wheels.WheelError, match=r"bytes; it must have less than 5,000"):
        wheels.check(*built(FILES))


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ([*FILES, "tests/test_core.py"], "files that are not the package's"),
        (FILES[:2] + FILES[3:], "0 compiled cores, not one"),
        ([*FILES, "amforest/_core.pyd"], "2 compiled cores, not one"),
        (FILES[:-1], "lacks its licence"),
        ([FILES[0], *FILES[2:]], r"lacks its licence or py\.typed"),
    ],
)
def test_a_wheel_with_wrong_files_is_refused(files, message, built):
    with pytest.raises(wheels.WheelError, match=message):
        wheels.check(*built(files))


def test_an_sdist_of_another_version_is_refused(built):
    with pytest.raises(wheels.WheelError, match="has another version than"):
        wheels.check(*built(FILES, version="1.3.0"))
