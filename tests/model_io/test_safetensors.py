"""One content has one form, which the format's own library reads; all else is refused."""

import json
import tracemalloc

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amforest.model_io import safetensors_bytes
from amforest.model_io.safetensors_bytes import CODES, header, pack, unpack

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
METADATA = st.dictionaries(NAMES, NAMES, max_size=4)
ARRAYS = st.dictionaries(
    NAMES.filter(lambda name: name != "__metadata__"),
    hnp.arrays(
        st.sampled_from([np.dtype(name) for name in CODES]),
        hnp.array_shapes(min_dims=0, max_dims=8, min_side=0, max_side=2),
    ),
    max_size=5,
)
patiently = settings(deadline=None, suppress_health_check=list(HealthCheck))
SMALL = {
    "flags": np.array([True, False, True]),
    "none": np.zeros((0, 3), dtype=np.uint16),
    "one": np.array(2.5),
    "rows": np.arange(6, dtype=np.int32).reshape(2, 3),
}


def packed(arrays, metadata):
    return b"".join(pack(arrays, metadata))


def same(arrays, others):
    def facts(arrays):
        return {k: (a.dtype, a.shape, a.tobytes()) for k, a in arrays.items()}

    return facts(arrays) == facts(others)


def file(text, data=b"", pad=True):
    """A file of any header."""
    raw = text if isinstance(text, bytes) else text.encode()
    raw += b" " * (-len(raw) % 8 if pad else 0)
    return len(raw).to_bytes(8, "little") + raw + data


def entry(dtype="U8", shape=(2,), offsets=(0, 2), **more):
    """The header of a file with one array."""
    described = {"dtype": dtype, "shape": shape, "data_offsets": offsets, **more}
    return json.dumps({"__metadata__": {}, "a": described}, separators=(",", ":"))


@pytest.fixture(scope="module")
def library():
    pytest.importorskip("safetensors.numpy", reason="safetensors is not installed")
    return pytest.importorskip("safetensors")


# What is written


@patiently
@given(ARRAYS, METADATA)
def test_what_was_packed_is_unpacked(arrays, metadata):
    found, texts = unpack(packed(arrays, metadata))
    assert same(found, arrays)
    assert list(texts.items()) == list(metadata.items())


@patiently
@given(ARRAYS, METADATA)
def test_unpacked_arrays_are_aligned_read_only_views(arrays, metadata):
    data = packed(arrays, metadata)
    whole = np.frombuffer(data, np.uint8)
    for array in unpack(data)[0].values():
        assert array.flags.aligned
        assert not array.flags.writeable
        assert array.size == 0 or np.shares_memory(array, whole)


@patiently
@given(ARRAYS, METADATA, st.randoms())
def test_the_order_of_arrays_does_not_matter(arrays, metadata, random):
    shuffled = dict(random.sample(list(arrays.items()), len(arrays)))
    assert packed(shuffled, metadata) == packed(arrays, metadata)


def test_the_form_is_fixed():
    arrays = {"b": np.array([True]), "a": np.array([[7]], np.uint8), "z": np.array(1.0)}
    text = (
        '{"__metadata__":{"y":"\\u00e9","x":"1"},'
        '"z":{"dtype":"F64","shape":[],"data_offsets":[0,8]},'
        '"a":{"dtype":"U8","shape":[1,1],"data_offsets":[8,9]},'
        '"b":{"dtype":"BOOL","shape":[1],"data_offsets":[9,10]}}'
    )
    assert packed(arrays, {"y": "é", "x": "1"}) == file(text, np.float64(1).tobytes() + b"\7\1")


@pytest.mark.parametrize(
    "view",
    [
        lambda a: a.astype(a.dtype.newbyteorder(">")),
        lambda a: a.astype(a.dtype.newbyteorder("<")),
        np.asfortranarray,
        lambda a: np.repeat(a, 2, axis=1)[:, ::2],
        lambda a: a[::-1].copy()[::-1],
        np.ma.masked_array,
    ],
    ids=["big endian", "little endian", "Fortran order", "with gaps", "reversed", "masked"],
)
def test_an_array_in_any_layout_has_the_same_form(view):
    array = np.arange(12.0).reshape(3, 4)
    assert packed({"a": view(array)}, {}) == packed({"a": array}, {})


def test_contiguous_arrays_are_not_copied():
    array = np.zeros((100, 10))
    _, data = pack({"a": array}, {})
    assert np.shares_memory(np.frombuffer(data, np.uint8), array)


def test_the_header_is_the_first_piece():
    assert header(SMALL, {"k": "v"}) == pack(SMALL, {"k": "v"})[0]
    assert len(header(SMALL, {"k": "v"})) % 8 == 0


@pytest.mark.parametrize(
    ("arrays", "metadata", "error", "message"),
    [
        ({"a": np.zeros(1, np.float16)}, {}, TypeError, "'a' has dtype float16; it must be one of"),
        ({"a": np.array(["x"])}, {}, TypeError, "'a' has dtype <U1"),
        ({"a": np.zeros((1,) * 9)}, {}, ValueError, "'a' has more than 8 dimensions"),
        ({"__metadata__": np.zeros(1)}, {}, ValueError, "cannot have the name __metadata__"),
        ({"\ud800": np.zeros(1)}, {}, ValueError, "is not valid Unicode"),
        ({}, {"\ud800": ""}, ValueError, "is not valid Unicode"),
        ({}, {"k": "\ud800"}, ValueError, "is not valid Unicode"),
        ({}, {"k": 3}, ValueError, "the metadata's 'k' is 3; it must be a string"),
    ],
)
def test_what_could_not_be_read_is_not_written(arrays, metadata, error, message):
    with pytest.raises(error, match=message):
        pack(arrays, metadata)


def test_a_header_too_long_to_be_read_is_not_written(monkeypatch):
    monkeypatch.setattr(safetensors_bytes, "LONGEST_HEADER", 64)
    with pytest.raises(ValueError, match="the header has 128 bytes; the most are 64"):
        pack({}, {"k": "v" * 100})


# The format's own library


@patiently
@given(arrays=ARRAYS, metadata=METADATA)
def test_the_library_reads_what_is_written_here(arrays, metadata, library, tmp_path_factory):
    path = tmp_path_factory.mktemp("own") / "file"
    path.write_bytes(packed(arrays, metadata))
    with library.safe_open(path, framework="numpy") as read:
        assert (read.metadata() or {}) == metadata
        assert same({name: read.get_tensor(name) for name in read.keys()}, arrays)  # noqa: SIM118


@patiently
@given(arrays=ARRAYS, metadata=METADATA)
def test_what_the_library_writes_is_refused_or_read(arrays, metadata, library):
    data = library.numpy.save(arrays, metadata)
    try:
        found, texts = unpack(data)
    except ValueError:
        assert data != packed(arrays, metadata)
    else:
        assert same(found, arrays)
        assert texts == metadata


def test_the_library_writes_the_same_where_it_leaves_nothing_to_chance(library):
    assert library.numpy.save(SMALL, {"k": "v"}) == packed(SMALL, {"k": "v"})


# What is refused

REFUSED = {
    "too short": (b"\0" * 7, "there are 7 bytes; the header's length alone takes 8"),
    "length beyond the data": (file("{}")[:-1], "should have 8 bytes, but only 7 follow"),
    "length beyond the limit": (
        b"\xff" * 8,
        "has 18446744073709551615 bytes; the most are 100000000",
    ),
    "not ASCII": (file('{"é":1}'), "cannot be read: 'ascii' codec"),
    "not UTF-8": (file(b'{"\xff":1}'), "cannot be read: 'ascii' codec"),
    "not JSON": (file("{"), "cannot be read: Expecting property name"),
    "empty": (file(""), "cannot be read: Expecting value"),
    "duplicate arrays": (file('{"a":1,"a":1}'), "cannot be read: an object has the same key twice"),
    "duplicate metadata": (file('{"__metadata__":{"k":"","k":""}}'), "the same key twice"),
    "nested": (file('{"a":' + "[" * 100_000), "cannot be read: .*(recursion|overflow)"),
    "nested objects": (file('{"a":' * 100_000), "cannot be read: .*(recursion|overflow)"),
    "huge integer": (file('{"a":' + "9" * 5_000 + "}"), "cannot be read: Exceeds the limit"),
    "a list": (file("[]"), "is not a JSON object"),
    "no metadata": (file("{}"), "has no object __metadata__"),
    "metadata a list": (file('{"__metadata__":[]}'), "has no object __metadata__"),
    "metadata of numbers": (file('{"__metadata__":{"k":1}}'), "'k' is 1; it must be a string"),
    "lone surrogate": (file('{"__metadata__":{"k":"\\ud800"}}'), "is not valid Unicode"),
    "array a number": (file('{"__metadata__":{},"a":1}'), "'a' must have a dtype, a shape and"),
    "array with more": (file(entry(more=1), b"ab"), "'a' must have a dtype, a shape and"),
    "half precision": (file(entry("F16"), b"ab"), "'a' has the unknown dtype 'F16'"),
    "dtype a list": (file(entry(["U8"]), b"ab"), r"'a' has the unknown dtype \['U8'\]"),
    "shape a number": (file(entry(shape=2), b"ab"), "'a' has the shape 2; it must be a list"),
    "shape of truth": (file(entry(shape=[True]), b"a"), r"the shape \[True\]; it must be a list"),
    "shape of fractions": (file(entry(shape=[2.0]), b"ab"), r"the shape \[2.0\]; it must be a"),
    "negative shape": (file(entry(shape=[-2, -1]), b"ab"), r"the shape \[-2, -1\]; it must be a"),
    "nine dimensions": (file(entry(shape=[1] * 9), b"a"), "'a' has more than 8 dimensions"),
    "too large": (file(entry(shape=[2**62, 2]), b"ab"), "'a' has the shape .*, which is too large"),
    "too large and empty": (file(entry(shape=[0, 2**64], offsets=[0, 0])), "which is too large"),
    "offsets too far": (file(entry(offsets=[0, 3]), b"abc"), r"has the offsets \[0, 3\], which do"),
    "offsets with a gap": (file(entry(offsets=[1, 3]), b"abc"), r"'a' has the offsets \[1, 3\]"),
    "offsets a text": (file(entry(offsets="02"), b"ab"), "'a' has the offsets '02'"),
    "data missing": (file(entry(), b"a"), "the data end within array 'a'"),
    "petabytes missing": (file(entry(shape=[2**50], offsets=[0, 2**50])), "end within array 'a'"),
    "data left over": (file(entry(), b"abcd"), "2 bytes follow the last array"),
    "truth of 2": (file(entry("BOOL"), b"\1\2"), "'a' holds truth values other than 0 and 1"),
    "offsets as fractions": (file(entry(offsets=[0, 2.0]), b"ab"), "not in canonical form"),
    "a leading space": (file(" " + entry(), b"ab"), "not in canonical form"),
    "an inner space": (file(entry().replace(":", ": "), b"ab"), "not in canonical form"),
    "too few spaces": (file('{"__metadata__":{}}', pad=False), "not in canonical form"),
    "too many spaces": (file('{"__metadata__":{}}' + " " * 8), "not in canonical form"),
    "a needless escape": (file('{"__metadata__":{"\\u006b":"v"}}'), "not in canonical form"),
    "metadata last": (
        file('{"a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},"__metadata__":{}}'),
        "not in canonical form",
    ),
    "small items first": (
        file(
            '{"__metadata__":{},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},'
            '"b":{"dtype":"F64","shape":[1],"data_offsets":[1,9]}}',
            b"\0" * 9,
        ),
        "not in canonical form",
    ),
}


@pytest.mark.parametrize(("data", "message"), REFUSED.values(), ids=REFUSED)
def test_other_forms_are_refused_with_a_reason(data, message):
    with pytest.raises(ValueError, match=message):
        unpack(data)


def test_strange_names_and_numbers_do_not_flood_the_message():
    text = entry(shape=["x" * 10_000] * 100).replace('"a"', '"' + "a" * 10_000 + '"')
    with pytest.raises(ValueError, match=r"array 'a+\.\.\.a+' has the shape") as caught:
        unpack(file(text))
    assert len(str(caught.value)) < 500


def test_every_truncation_is_refused():
    data = packed(SMALL, {"k": "v"})
    for length in range(len(data)):
        with pytest.raises(ValueError, match=r"bytes|the data end within"):
            unpack(data[:length])


def test_a_flipped_bit_is_refused_or_makes_another_canonical_file():
    data = packed(SMALL, {"k": "v"})
    refused = 0
    for bit in range(8 * len(data)):
        changed = bytearray(data)
        changed[bit // 8] ^= 1 << bit % 8
        try:
            content = unpack(bytes(changed))
        except ValueError:
            refused += 1
        else:
            assert packed(*content) == changed
    assert refused > 4 * len(header(SMALL, {"k": "v"}))  # most bits of the header


# Memory


def peak_bytes(call):
    tracemalloc.start()
    try:
        call()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_packing_and_unpacking_take_no_memory_for_the_data():
    arrays = {"a": np.zeros(1_000_000), "b": np.zeros(1_000_000, dtype=bool)}
    data = packed(arrays, {})
    assert peak_bytes(lambda: pack(arrays, {})) < 1e5
    assert peak_bytes(lambda: unpack(data)) < 1e5


@pytest.mark.parametrize(
    "text",
    [
        "[" + ",".join(["[]"] * 50_000) + "]",
        "[" + ",".join(['{"":0}'] * 50_000) + "]",
        ' {"__metadata__":{' + ",".join(f'"{k}":""' for k in range(50_000)) + "}}",
        ' {"__metadata__":{},'
        + ",".join(f'"{k}":{{"dtype":"U8","shape":[0],"data_offsets":[0,0]}}' for k in range(9_999))
        + "}",
    ],
    ids=["lists", "objects", "texts", "arrays"],
)
def test_the_worst_headers_take_a_bounded_multiple_of_their_size(text):
    def refused():
        with pytest.raises(ValueError, match="header"):
            unpack(data)

    data = file(text)
    assert peak_bytes(refused) < 40 * len(data)
