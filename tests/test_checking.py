"""`dpem.check_table`: its findings and remedies, private values that it hides, and supported tables."""

import dask.dataframe as dd
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import dpem
from dpem import Schema, check_table
from dpem.errors import InvalidArgumentError
from dpem.testing import trial_table
from support.commands import called

NUMBER = {"kind": "continuous", "bounds": [0, 20_000]}


def checked(cells, declared):
    """Check a single text column and return the result."""
    return check_table(pd.DataFrame({"c": cells}), Schema({"c": declared})).columns[0]


@pytest.mark.parametrize(
    ("cells", "declared", "expected"),
    [
        (["1,234.50", "2,000.00", "17"], NUMBER, 'thousands = ","'),
        (["1.234,50", "2.225,00", "3,75"], NUMBER, 'decimal = ",", thousands = "."'),
        (["1,5", "2,25", "3"], NUMBER, 'decimal = ","'),
        (["31.01.2024", "01.02.2024"], {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"]}, "%d.%m.%Y"),
        (["NA", "3", "N/A"], NUMBER, "na_values"),
        (["31.01.2024", "NA"] * 9, {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"]}, "na_values"),
    ],
)
def test_the_remedy_names_the_cell_format(cells, declared, expected):
    """The first remedy is the correct line for the schema."""
    column = checked(cells, declared)
    assert not column.is_read
    assert expected in column.remedies[0]
    assert any(f"In the schema: {column.remedies[0]}" in words for words in _findings(cells, declared))


DATE = {"kind": "date", "bounds": ["2000-01-01", "2030-01-01"]}


@pytest.mark.parametrize(
    ("cells", "declared"),
    [
        (["31.01.2024"] * 90 + ["2024-02-28"] * 10, DATE | {"format": "%d.%m.%Y"}),
        (["31.01.2024"] * 90 + ["2024-02-28"] * 10, DATE),
        (["31.01.2024"] * 60 + ["02/28/2024"] * 40, DATE),
        (["1,5"] * 80 + ["1.5"] * 20, NUMBER),
    ],
)
def test_two_formats_in_a_column_have_no_remedy_in_the_schema(cells, declared):
    """A suggested format raises the share of cells that are read, so a second check suggests no other one."""
    (words,) = _findings(cells, declared)
    assert "one format: convert the column first." in words
    assert "In the schema" not in words
    assert checked(cells, declared).remedies == ()


@pytest.mark.parametrize(
    ("cells", "declared", "expected"),
    [
        (["1234.5", "17"], NUMBER | {"decimal": ",", "thousands": "."}, 'decimal = ".", thousands = ","'),
        (["1234.5", "17.5"], NUMBER | {"decimal": ","}, 'decimal = "."'),
        (["1,5", "17"], NUMBER | {"thousands": ","}, 'decimal = ",", thousands = "."'),
        (["2024-01-31"], DATE | {"format": "%d.%m.%Y"}, 'format = "%Y-%m-%d"'),
        (["n/a", "3", "-1"], NUMBER | {"missing": True, "na_values": ["-1"]}, 'na_values = ["-1", "n/a"]'),
    ],
)
def test_a_remedy_names_every_key_to_change(cells, declared, expected):
    (remedy, *others) = checked(cells, declared).remedies
    assert remedy.removesuffix(", missing = true") == expected
    assert not others


def test_an_unreadable_column_has_one_finding():
    assert len(_findings(["x", "y"], NUMBER)) == 1
    assert len(_findings(["x", "y"], {"kind": "categorical", "categories": ["F", "M"]})) == 1


def test_malformed_lines_are_one_finding(tmp_path):
    """Their cells are missing, and not one finding for each column."""
    text = "a,b,c\n1,2,3\n4,5\n6,7,8\n6,7,8,9\n1,2,4\n"
    (tmp_path / "t.csv").write_text(text)
    schema = Schema({name: {"kind": "integer", "bounds": [0, 9]} for name in "abc"})
    check = check_table(tmp_path / "t.csv", schema)
    assert check.findings == ("2 lines have a wrong number of fields; all their cells count as missing.",)
    assert check.columns[0].absent == 0.4
    (tmp_path / "t.csv").write_text(text + ",3,4\n")
    _, cells = check_table(tmp_path / "t.csv", schema).findings
    assert cells.startswith("a: 50.0% of the cells are missing")


def test_another_encoding_is_named(tmp_path):
    file = tmp_path / "t.csv"
    file.write_bytes("stadt\nKöln/Bonn\nUlm\nUlm\n".encode("cp1252"))
    schema = Schema({"stadt": {"kind": "categorical", "categories": ["Ulm", "Köln/Bonn"]}})
    words = " ".join(check_table(file, schema).findings)
    assert "1 line has bytes that the encoding of the files does not have" in words
    assert "--encoding" in words
    assert "they count as 'Ulm'" in words
    assert "Bonn" not in words
    assert not check_table(dpem.Files(file, encoding="cp1252"), schema).findings


def _findings(cells, declared):
    return check_table(pd.DataFrame({"c": cells}), Schema({"c": declared})).findings


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["F", "f", " m"], "They differ from a category in upper and lower case only."),
        (["F", "f", "x"], "Some of them differ from a category"),
        (["F", "x", "y"], None),
    ],
)
def test_cells_that_differ_in_case_are_named(cells, expected):
    words = " ".join(_findings(cells, {"kind": "categorical", "categories": ["F", "M"]}))
    assert "outside the declared categories" in words
    assert (expected in words) if expected else ("case" not in words)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('a,b\n1,2\n"3,4\n5,6\n7,8\n', "4 lines and 2 rows"),  # a quote that is not closed
        ("a,b\n1,2\n\n3,4,5\n5,6", None),
        ("a,b\r\n1,2\r\n3,4\r\n", None),
    ],
)
def test_lines_within_quotes_are_named(text, expected, tmp_path):
    (tmp_path / "t.csv").write_bytes(text.encode())
    number = {"kind": "integer", "bounds": [0, 9], "missing": True}
    words = " ".join(check_table(tmp_path / "t.csv", Schema({"a": number, "b": number})).findings)
    assert (expected in words) if expected else ("lines" not in words)


def test_the_share_of_unreadable_cells():
    assert checked(["1,234", "n.d."], NUMBER | {"thousands": ","}).unreadable == 0.5


def test_shares_are_exact_and_bounds_are_not_revealed():
    """The text shows no values of bounds or categories, and states that reading it is not private."""
    table = pd.DataFrame(
        {
            "age": [-5.0, 31.0, 47.0, 999.0, np.nan],
            "ward": ["a", "b", "secretward", None, "a"],
            "one": [1, 1, 1, 1, 1],
        }
    )
    schema = Schema(
        {
            "age": {"kind": "integer", "bounds": [0, 120]},
            "ward": {"kind": "categorical", "categories": ["a", "b"], "missing": True},
            "one": {"kind": "integer", "bounds": [0, 9]},
        }
    )
    check = check_table(table, schema)
    age, ward, one = check.columns
    assert (age.below, age.above, age.absent, age.read) == (0.2, 0.2, 0.2, 0.8)
    assert (ward.outside, ward.missing, ward.read) == (0.2, 0.2, 0.8)
    assert one.narrow
    assert not age.narrow
    words = str(check)
    assert words.startswith("NOT FOR RELEASE")
    assert "from_rows = true" in words
    assert "dpem.private_bounds" in words
    for value in ("999", "secretward", "-5"):
        assert value not in words
    assert check.to_frame().loc["age", "below"] == 0.2


def forms(frame, folder):
    """Return the same table in every form that a fit accepts."""
    frame.to_csv(folder / "t.csv", index=False)
    frame.to_parquet(folder / "t.parquet")
    half = len(frame) // 2
    return {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "arrow": pa.Table.from_pandas(frame),
        "csv": folder / "t.csv",
        "parquet": folder / "t.parquet",
        "files": [folder / "t.csv"],
        "batches": lambda: iter([frame.iloc[:half], frame.iloc[half:]]),
        "dask": dd.from_pandas(frame, npartitions=3),
        "rows": frame.to_numpy(dtype=object),
    }


def test_every_supported_table_gives_the_same_check(tmp_path):
    frame = trial_table("amounts", n_rows=400)
    schema = Schema({"amount": NUMBER, "age": {"kind": "integer", "bounds": [20, 80]}})
    shares = [
        [vars(column) | {"remedies": ()} for column in check_table(table, schema).columns]
        for table in forms(frame, tmp_path).values()
    ]
    assert all(one == shares[0] for one in shares[1:])


def test_findings_about_persons_and_widths():
    table = trial_table("age_income", n_rows=300).assign(id=[*range(290), *[0] * 10])
    schema = Schema(
        {
            "age": {"kind": "continuous", "bounds": [0, 120]},
            "income": {"kind": "continuous", "bounds": [0, 300_000]},
        }
    )
    words = "\n".join(check_table(table, schema, person="id").findings)
    assert "persons have more than 1 row" in words
    assert "2,500 times as wide" in words
    assert "persons" not in "\n".join(check_table(table, schema, person="id", rows_per_person=11).findings)


def test_a_file_without_a_header_is_recognised(tmp_path):
    (tmp_path / "t.csv").write_text("31,2.5\n47,1.5\n")
    schema = Schema({"age": {"kind": "integer", "bounds": [0, 120]}})
    with pytest.raises(InvalidArgumentError) as caught:
        check_table(tmp_path / "t.csv", schema)
    assert "--header" in str(caught.value)
    assert "31" not in str(caught.value)


def test_the_command(tmp_path, capsys):
    """The exit code is 1 if a column cannot be read, else 0; no ledger is used."""
    frame = trial_table("answers", n_rows=200)
    frame.to_csv(tmp_path / "t.csv", index=False)
    schema = Schema({"smoker": {"kind": "boolean"}, "age": {"kind": "integer", "bounds": [0, 120]}})
    schema.save(tmp_path / "s.toml")
    found = called(capsys, "check", tmp_path / "t.csv", "-s", tmp_path / "s.toml")
    assert found.code == 1
    assert found.out.startswith("NOT FOR RELEASE")
    assert "na_values" in found.out
    schema.declare({"smoker": {"missing": True, "na_values": ["n/a"]}}).save(tmp_path / "s.toml")
    found = called(capsys, "check", tmp_path / "t.csv", "-s", tmp_path / "s.toml", "--json")
    assert found.code == 0
    assert found.json["notice"] == "NOT FOR RELEASE"
    assert found.json["is_read"]


def test_a_check_changes_no_fit(tmp_path):
    """Models before and after a check are the same, and nothing is charged."""
    from dpem.testing import insecure_noise

    frame = trial_table("amounts", n_rows=500)
    schema = Schema({"age": {"kind": "integer", "bounds": [0, 120]}})
    centres = []
    for look in (False, True):
        if look:
            check_table(frame, schema)
        with pytest.warns(dpem.errors.InsecureNoiseWarning), insecure_noise(0):
            model = dpem.KMeans(2, epsilon=5.0, schema=schema, random_state=0).fit(frame)
        centres.append(model.cluster_centers_)
    np.testing.assert_array_equal(*centres)
