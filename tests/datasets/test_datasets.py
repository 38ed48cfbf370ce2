"""The data sets have the paper's shapes, and an error says what is missing."""

import os
import zipfile

import numpy as np
import pytest

from amforest import AMFClassifier, datasets

TABLE_3 = {  # samples, features, classes
    "adult": (32561, 107, 2),
    "bank": (45211, 51, 2),
    "car": (1728, 21, 4),
    "cardio": (2126, 24, 3),
    "churn": (3333, 71, 2),
    "default_cb": (30000, 23, 2),
    "letter": (20000, 16, 26),
    "satimage": (5104, 36, 6),
    "sensorless": (58509, 48, 11),
    "spambase": (4601, 57, 2),
}
ONE_HOT_LEVELS = {"adult": 102, "bank": 44, "car": 21, "churn": 55}

needs_data = pytest.mark.skipif(
    not os.environ.get("AMFOREST_DATA"),
    reason="AMFOREST_DATA does not name the folder of the UCI data sets",
)


@pytest.fixture(scope="module", params=datasets.NAMES)
def dataset(request):
    return datasets.load(request.param)


@pytest.fixture
def write_csv(tmp_path):
    """Return a function that zips a CSV file into a folder and returns the folder."""

    def write(stem, text):
        with zipfile.ZipFile(tmp_path / f"{stem}.csv.zip", "w") as archive:
            archive.writestr(f"__MACOSX/._{stem}.csv", "not data")
            archive.writestr(f"{stem}.csv", text)
        return tmp_path

    return write


def test_the_names_are_those_of_the_paper_in_alphabetical_order():
    assert list(datasets.NAMES) == sorted(TABLE_3)


@needs_data
def test_shapes_are_those_of_the_papers_table_3(dataset):
    assert (*dataset.X.shape, len(dataset.classes)) == TABLE_3[dataset.name]
    assert dataset.y.shape == dataset.X.shape[:1]


@needs_data
def test_features_are_contiguous_float32_that_span_the_unit_interval(dataset):
    X = dataset.X
    assert X.dtype == np.float32
    assert X.flags.c_contiguous
    assert np.all(X.min(axis=0) == 0)  # with the next line: finite, and no column is constant
    assert np.all(X.max(axis=0) == 1)


@needs_data
def test_labels_are_class_indices_and_every_class_occurs(dataset):
    assert dataset.y.dtype == np.int64
    assert np.array_equal(np.unique(dataset.y), np.arange(len(dataset.classes)))


@needs_data
def test_every_feature_has_a_name_of_its_own(dataset):
    assert len(set(dataset.feature_names)) == len(dataset.feature_names) == dataset.X.shape[1]


@needs_data
def test_a_row_has_exactly_one_level_of_each_categorical_column(dataset):
    blocks = {}
    for j, feature in enumerate(dataset.feature_names):
        if "=" in feature:
            blocks.setdefault(feature.split("=")[0], []).append(j)
    assert sum(map(len, blocks.values())) == ONE_HOT_LEVELS.get(dataset.name, 0)
    for block in blocks.values():
        assert np.all(np.isin(dataset.X[:, block], (0, 1)))
        assert np.all(dataset.X[:, block].sum(axis=1) == 1)


@needs_data
def test_no_feature_of_cardio_determines_the_target():
    diagnosis = {"A", "B", "C", "D", "E", "AD", "DE", "LD", "FS", "SUSP", "CLASS", "NSP"}
    assert diagnosis.isdisjoint(datasets.load("cardio").feature_names)


def test_columns_are_scaled_and_a_constant_one_becomes_0(write_csv):
    folder = write_csv("letter", ",X0,X1,y\n0,-1,7,3\n1,3,7,10\n2,0,7,3\n")
    letter = datasets.load("letter", folder=folder)
    assert letter.feature_names == ("X0", "X1")
    assert letter.X.tolist() == [[0, 0], [1, 0], [0.25, 0]]


def test_numeric_labels_sort_as_numbers(write_csv):
    letter = datasets.load("letter", folder=write_csv("letter", ",X0,y\n0,1,10\n1,2,3\n"))
    assert letter.classes == ("3", "10")
    assert letter.y.tolist() == [1, 0]


def test_categories_become_one_hot_columns_in_place(write_csv):
    rows = "NJ,1,no,no,5,True.\nKS,2,yes,no,9,False.\n"
    header = "State,Phone,Int'l Plan,VMail Plan,Day Mins,Churn?\n"
    churn = datasets.load("churn", folder=write_csv("churn", header + rows))
    assert churn.feature_names[:4] == ("State=KS", "State=NJ", "Int'l Plan=no", "Int'l Plan=yes")
    assert churn.X.tolist() == [[0, 1, 1, 0, 0, 0], [1, 0, 0, 1, 0, 1]]
    assert churn.classes == ("False.", "True.")


def test_categories_may_stay_one_column_of_codes(write_csv):
    rows = "NJ,1,no,no,5,True.\nKS,2,yes,no,9,False.\n"
    header = "State,Phone,Int'l Plan,VMail Plan,Day Mins,Churn?\n"
    churn = datasets.load("churn", one_hot=False, folder=write_csv("churn", header + rows))
    assert churn.feature_names == ("State", "Int'l Plan", "VMail Plan", "Day Mins")
    assert churn.categories == (("KS", "NJ"), ("no", "yes"), ("no",), ())
    assert churn.categorical_features == [0, 1, 2]
    assert churn.X.tolist() == [[1, 0, 0, 0], [0, 1, 0, 1]]


def test_raw_categories_are_strings_and_raw_numbers_are_those_of_the_file(write_csv):
    rows = "NJ,1,no,no,5.25,True.\nKS,2,yes,no,9,False.\n"
    header = "State,Phone,Int'l Plan,VMail Plan,Day Mins,Churn?\n"
    churn = datasets.load("churn", raw=True, folder=write_csv("churn", header + rows))
    assert churn.feature_names == ("State", "Int'l Plan", "VMail Plan", "Day Mins")
    assert churn.X.tolist() == [["NJ", "no", "no", 5.25], ["KS", "yes", "no", 9.0]]
    assert churn.categorical_features == [0, 1, 2]
    assert churn.y.tolist() == [1, 0]


def test_raw_numbers_are_a_matrix_of_doubles(write_csv):
    letter = datasets.load("letter", raw=True, folder=write_csv("letter", ",X0,y\n0,-7,1\n1,2,3\n"))
    assert letter.X.dtype == np.float64
    assert letter.X.tolist() == [[-7], [2]]


@needs_data
@pytest.mark.parametrize("name", ["adult", "car", "churn", "cardio"])
def test_one_hot_codes_and_raw_features_agree(name):
    one_hot, codes, raw = (
        datasets.load(name, **variant) for variant in ({}, {"one_hot": False}, {"raw": True})
    )
    assert codes.feature_names == raw.feature_names
    assert codes.categories == raw.categories
    for j, (feature, levels) in enumerate(zip(raw.feature_names, raw.categories, strict=True)):
        if levels:
            assert np.array_equal(
                np.array(levels, dtype=object)[codes.X[:, j].astype(int)], raw.X[:, j]
            )
            block = [one_hot.feature_names.index(f"{feature}={level}") for level in levels]
            assert np.array_equal(one_hot.X[:, block].argmax(axis=1), codes.X[:, j])
        else:
            numbers = raw.X[:, j].astype(float)
            scaled = (numbers - numbers.min()) / np.ptp(numbers)
            assert np.array_equal(scaled.astype(np.float32), codes.X[:, j])
            assert np.array_equal(one_hot.X[:, one_hot.feature_names.index(feature)], codes.X[:, j])


def test_raw_categories_can_be_learned(write_csv):
    rows = "vhigh,low,2,2,small,low,unacc\nlow,low,4,4,big,high,vgood\n" * 20
    car = datasets.load("car", raw=True, folder=write_csv("car", rows))
    forest = AMFClassifier(categorical_features=car.categorical_features, random_state=0)
    assert forest.fit(car.X, car.y).predict(car.X).tolist() == car.y.tolist()


def test_cardio_has_decimal_commas(write_csv):
    folder = write_csv("cardiotocography", "MSTV;NSP\r\n0,5;1\r\n1,5;2\r\n0,75;1")
    assert datasets.load("cardio", folder=folder).X.tolist() == [[0], [1], [0.25]]


def test_a_ragged_file_is_an_error(write_csv):
    with pytest.raises(ValueError, match="row 2"):
        datasets.load("letter", folder=write_csv("letter", ",X0,y\n0,1,1\n1,2\n"))


def test_a_file_that_unpacks_to_too_much_is_an_error(write_csv, monkeypatch):
    monkeypatch.setattr(datasets.uci, "MAX_BYTES", 20)
    folder = write_csv("letter", ",X0,y\n" + "0,1,1\n" * 10)
    with pytest.raises(ValueError, match=r"letter\.csv\.zip unpacks to more than 20 bytes"):
        datasets.load("letter", folder=folder)


@pytest.mark.parametrize("damage", [lambda data: b"", lambda data: data[:40], lambda data: b"PK"])
def test_a_damaged_archive_is_an_error(write_csv, damage):
    path = write_csv("letter", ",X0,y\n0,1,1\n") / "letter.csv.zip"
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(
        ValueError, match=r"letter\.csv\.zip is not an archive that contains letter\.csv"
    ):
        datasets.load("letter", folder=path.parent)


def test_an_archive_without_the_file_is_an_error(write_csv):
    folder = write_csv("letter", ",X0,y\n0,1,1\n")
    (folder / "letter.csv.zip").rename(folder / "satimage.csv.zip")
    with pytest.raises(
        ValueError, match=r"satimage\.csv\.zip is not an archive that contains satimage"
    ):
        datasets.load("satimage", folder=folder)


def test_an_unknown_name_is_an_error_that_lists_the_names():
    with pytest.raises(ValueError, match=r"'iris'.*adult, bank, .*spambase"):
        datasets.load("iris")


@pytest.mark.parametrize("environment", [{}, {"AMFOREST_DATA": ""}])
def test_without_a_folder_the_error_says_what_to_set(monkeypatch, tmp_path, environment):
    monkeypatch.setattr(os, "environ", environment | {"AMFOREST_CACHE": str(tmp_path)})
    with pytest.raises(FileNotFoundError, match=r"set AMFOREST_DATA to .* holds adult\.csv\.zip"):
        datasets.load("adult", download=False)


def test_the_error_names_the_folder_that_does_not_exist(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere does not exist"):
        datasets.load("adult", folder=tmp_path / "nowhere")


def test_the_error_names_the_file_that_is_missing(tmp_path, monkeypatch):
    monkeypatch.setenv("AMFOREST_DATA", str(tmp_path))
    with pytest.raises(FileNotFoundError, match=r"cardiotocography\.csv\.zip does not exist"):
        datasets.load("cardio")
