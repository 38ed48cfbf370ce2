"""The columns of X in a model file: which become parts of dates, and which are dropped."""

import pandas as pd
import pytest

from amforest import AMFClassifier
from amforest.model_io.document import from_document, to_document

X = pd.DataFrame({"day": pd.date_range("2024-01-01", periods=9), "size": range(9)})
Y = [0, 1, 0] * 3


def with_columns(columns):
    document, arrays = to_document(AMFClassifier(2, random_state=0).fit(X, Y))
    document["forest"]["fitted"]["columns"] |= columns
    return document, arrays


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"names": ["day"]}, "as many as columns"),
        ({"names": ["day", "day"]}, "all different"),
        ({"names": ["date", "size"]}, "do not follow"),
        ({"names": None}, "do not follow"),
        ({"parts": [[""], [""]]}, "do not follow"),
        ({"parts": [[".year"], [""]]}, "those of dates"),
        ({"more": 1}, "the keys are"),
    ],
)
def test_columns_that_do_not_fit_the_features_are_refused(columns, message):
    assert from_document(*with_columns({})).feature_names_in_.tolist() == ["day", "size"]
    with pytest.raises(ValueError, match=message):
        from_document(*with_columns(columns))


def test_a_pickle_of_an_earlier_version_is_strict_and_keeps_its_meaning():
    model = AMFClassifier(2, categorical_features="from_dtype").fit(X[["size"]], Y)
    state = model.__getstate__()
    del state["params"]["strict"]
    old = AMFClassifier.__new__(AMFClassifier)
    old.__setstate__(state)
    assert old.get_params() == model.get_params()
    assert old.predict(X[["size"]]).tolist() == model.predict(X[["size"]]).tolist()
