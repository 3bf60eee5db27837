"""Every command: its effect, its output as text and JSON, and its files."""

import json

import numpy as np
import pandas as pd
import pytest

import dpem
from dpem.cli import main, options
from dpem.cli.console import with_command_remedies
from dpem.data.column import UNREADABLE
from dpem.errors import LedgerError
from dpem.generated_tables import PATIENTS_SCHEMA, patients
from dpem.report import profile_of
from dpem.statistics.gaussian import COVARIANCES
from support.commands import called, hospital

NUMBERS = "age,bmi,systolic,hba1c,stay"


@pytest.fixture(scope="module")
def ward(tmp_path_factory):
    """Create a folder with a table, its schema, a ledger and two models."""
    folder = tmp_path_factory.mktemp("ward")
    table, schema, ledger = hospital(folder, 6000)
    assert main(["budget", "init", str(ledger), "--name", "demo patients", "--epsilon", "8", "--json"]) == 0
    common = ["--schema", str(schema), "--epsilon", "2", "--ledger", str(ledger), "--json"]
    clusters = ["fit", str(table), "--columns", NUMBERS, "-k", "3", "-o", str(folder / "clusters.dpem")]
    assert main([*clusters, *common, "--purpose", "groups", "--analyst", "registry"]) == 0
    rows = ["fit", str(table), "--model", "table", "--target", "ward", "-o", str(folder / "table.dpem")]
    assert main([*rows, *common]) == 0
    return folder


# -- plan --------------------------------------------------------------------------------------------------


def test_plan_agrees_with_python(ward, capsys):
    """The JSON equals the result of `dpem.plan`; the text shows units, components and accountants."""
    arguments = ["plan", "-n", 5000, "-s", ward / "patients.toml", "--columns", NUMBERS, "-k", 4, "-e", 0.5]
    arguments += ["--accuracy", "age=0.5", "--spread", "age=9", "--ledger", ward / "patients.ledger"]
    found = called(capsys, *arguments, "--json")
    assert found.code == 0
    assert found.err == ""
    model = dpem.GaussianMixture(
        4, epsilon=0.5, delta=1e-6, schema=PATIENTS_SCHEMA.select(NUMBERS.split(","))
    )
    outlook = dpem.plan(model, 5000, spread={"age": 9.0})
    for key, value in json.loads(json.dumps(outlook.to_dict())).items():
        assert found.json[key] == value
    assert found.json["epsilon_needed"] == dpem.epsilon_needed(model, 5000, {"age": 0.5}, spread={"age": 9.0})
    assert found.json["ledger"]["suffices"] is True
    text = " ".join(called(capsys, *arguments).out.split())
    for word in ("mmHg", "years", "components: 4 of 4", "zcdp", "the fit needs epsilon", "which suffices"):
        assert word in text


def test_the_command_has_all_covariance_types():
    assert tuple(options.Covariance) == COVARIANCES


def test_plan_without_a_schema_warns_of_small_tables(capsys):
    found = called(capsys, "plan", "--rows", 200, "--columns", 6, "-k", 10, "--epsilon", 0.1)
    assert found.code == 0
    assert "got enough for 1 at" in " ".join(found.err.split())
    for model in ("kmeans", "factors"):
        assert (
            called(capsys, "plan", "--rows", 9999, "--columns", 6, "-m", model, "-e", 1, "--json").code == 0
        )
    found = called(capsys, "plan", "--rows", 9999, "--columns", 6, "-m", "table", "-e", 1)
    assert found.code == 2
    assert "--schema" in found.err


# -- schema ------------------------------------------------------------------------------------------------


def test_a_drafted_schema_depends_only_on_names_and_types(tmp_path, capsys):
    """Two CSV files with the same header and different rows give the same draft; Parquet files give kinds."""
    drafts = []
    for name, rows in (("a", "31,F\n47,M\n"), ("b", "\xff\xfe,,,,\n" * 3)):
        (tmp_path / f"{name}.csv").write_bytes(("age,sex\n" + rows).encode("latin-1"))
        found = called(capsys, "schema", tmp_path / f"{name}.csv", "-o", tmp_path / f"{name}.toml")
        assert found.code == 0
        drafts.append((tmp_path / f"{name}.toml").read_bytes())
    assert drafts[0] == drafts[1]
    assert b"# bounds = " in drafts[0]
    frame = pd.DataFrame({"age": [31], "sex": ["F"], "smoker": [True], "bmi": [22.5]})
    frame.to_parquet(tmp_path / "c.parquet")
    found = called(capsys, "schema", tmp_path / "c.parquet", "-o", tmp_path / "c.json", "--json")
    kinds = {name: column["kind"] for name, column in found.json["schema"].items()}
    assert kinds == {"age": "integer", "sex": "categorical", "smoker": "boolean", "bmi": "continuous"}
    assert found.json["lacking"] == ["age", "sex", "bmi"]


def test_options_declare_a_whole_schema(ward, tmp_path, capsys):
    """Options alone reproduce the schema of the demo."""
    arguments = ["schema", ward / "patients.csv", "-o", tmp_path / "s.toml", "--drop", "patient"]
    arguments += ["--dataset", "demo patients", "--missing", "smoker"]
    for column in PATIENTS_SCHEMA.columns:
        if column.is_number:
            option = "--integer" if column.kind == "integer" else "--number"
            low, high = column.bounds
            arguments += [option, f"{column.name}={low:g}:{high:g}", "--unit", f"{column.name}={column.unit}"]
        elif column.kind == "boolean":
            arguments += ["--boolean", column.name]
        else:
            arguments += ["--category", f"{column.name}={','.join(column.categories)}"]
    assert called(capsys, *arguments).code == 0
    assert dpem.Schema.read(tmp_path / "s.toml") == PATIENTS_SCHEMA


def test_bounds_estimated_for_a_schema_are_charged(ward, tmp_path, capsys):
    """The ledger is charged for estimated bounds, and the schema records their cost."""
    ledger = tmp_path / "l.ledger"
    dpem.Ledger.create(ledger, name="demo patients", cap_epsilon=1.0, cap_delta=1e-6)
    arguments = ["schema", ward / "patients.csv", "-o", tmp_path / "s.toml", "--integer", "age=0:110"]
    for name in ("patient", "sex", "ward", "smoker", "readmitted", "stay"):
        arguments += ["--drop", name]
    found = called(capsys, *arguments, "--bounds-epsilon", 0.9, "--ledger", ledger)
    assert found.code == 0
    schema = dpem.Schema.read(tmp_path / "s.toml")
    assert schema.columns[0].bounds_cost is None
    assert all(column.bounds_cost == (0.9, 1e-6) for column in schema.columns[1:])
    assert [spend.purpose for spend in dpem.Ledger(ledger).history()] == ["dpem.private_bounds"]


# -- fit ---------------------------------------------------------------------------------------------------


def test_a_fitted_model_loads_in_python(ward, capsys):
    """The model file loads in Python; its charge is in the ledger with purpose and analyst."""
    model = dpem.load(ward / "clusters.dpem")
    assert isinstance(model, dpem.GaussianMixture)
    assert model.privacy_.is_private
    assert model.n_rows_ == 6000
    ledger = dpem.Ledger(ward / "patients.ledger")
    first = ledger.history()[0]
    assert (first.purpose, first.analyst) == ("dpem.GaussianMixture.fit: groups", "registry")
    assert model.charge_.hash == first.hash
    verified = called(capsys, "budget", "verify", ward / "patients.ledger", "--model", ward / "clusters.dpem")
    assert verified.code == 0
    assert "record 1" in verified.out
    assert not list(ward.glob("*.partial"))


@pytest.mark.parametrize("model", ["kmeans", "factors"])
def test_other_models_can_be_fitted(ward, tmp_path, capsys, model):
    output = tmp_path / "m.dpem"
    found = called(
        capsys,
        "fit",
        ward / "patients.csv",
        "-s",
        ward / "patients.toml",
        "--columns",
        NUMBERS,
        "-m",
        model,
        "-k",
        2,
        "-e",
        1,
        "-o",
        output,
    )
    assert found.code == 0
    assert "±" in found.out
    scores = called(capsys, "predict", output, ward / "patients.csv", "-o", tmp_path / "p.csv")
    assert scores.code == 0
    assert len(pd.read_csv(tmp_path / "p.csv")) == 6000
    drawn = called(capsys, "sample", output, "-n", 10)
    assert drawn.code == (2 if model == "kmeans" else 0)
    assert called(capsys, "report", output, "-o", tmp_path / "r.html").code == 0


def test_estimated_bounds_without_a_ledger_give_no_warning_of_many_releases(ward, tmp_path, capsys):
    """Bounds and model are one fit, whose guarantee states both; the note says that no ledger was charged."""
    schema = tmp_path / "s.json"
    columns = {"age": {"kind": "integer", "bounds": [0, 110]}, "bmi": {"kind": "continuous"}}
    schema.write_text(json.dumps(columns))
    arguments = ["fit", ward / "patients.csv", "-s", schema, "-k", 2, "-e", 2, "--estimate-bounds", 0.2]
    fitted = called(capsys, *arguments, "-o", tmp_path / "m.dpem")
    assert fitted.code == 0
    assert "private releases in this process" not in fitted.err
    assert "No ledger was charged" in fitted.err + fitted.out


def test_estimated_bounds_cost_a_share_of_epsilon(ward, tmp_path, capsys):
    """A ledger whose cap is the stated epsilon covers bounds and model together."""
    schema, ledger, output = tmp_path / "s.json", tmp_path / "l.ledger", tmp_path / "m.dpem"
    columns = {"age": {"kind": "integer", "bounds": [0, 110]}, "bmi": {"kind": "continuous"}}
    schema.write_text(json.dumps(columns))
    dpem.Ledger.create(ledger, name="l", cap_epsilon=2.0, cap_delta=1e-6)
    arguments = ["fit", ward / "patients.csv", "-s", schema, "-k", 2, "-e", 2, "-l", ledger, "-o", output]
    refused = called(capsys, *arguments)
    assert refused.code == 2
    assert "--estimate-bounds" in refused.err
    assert "'bmi'" in refused.err
    assert dpem.Ledger(ledger).history() == []
    assert called(capsys, *arguments, "--estimate-bounds", 0.2).code == 0
    spends = dpem.Ledger(ledger).history()
    assert [spend.purpose.partition(":")[0] for spend in spends] == [
        "dpem.private_bounds",
        "dpem.GaussianMixture.fit",
    ]
    share = spends[0].cost.mu ** 2 / dpem.Ledger(ledger).cap.mu ** 2
    assert share == pytest.approx(0.2, rel=1e-3)
    assert sum(spend.cost.mu**2 for spend in spends) == pytest.approx(
        dpem.Ledger(ledger).cap.mu ** 2, rel=1e-3
    )
    assert dpem.load(output).privacy_.bounds_source == "estimated"


def test_seeds_do_not_determine_the_noise(ward, tmp_path, capsys):
    means = []
    for name in "ab":
        output = tmp_path / f"{name}.dpem"
        found = called(
            capsys,
            "fit",
            ward / "patients.csv",
            "-s",
            ward / "patients.toml",
            "--columns",
            "age,bmi",
            "-k",
            2,
            "-e",
            1,
            "--seed",
            3,
            "-o",
            output,
            "--json",
        )
        assert found.code == 0
        means.append(dpem.load(output).means_)
    assert not np.array_equal(*means)


# -- sample and predict ------------------------------------------------------------------------------------


def test_sampled_rows_conform_to_the_schema(ward, tmp_path, capsys):
    """The schema reads every cell of sampled CSV and Parquet files, of both kinds of model."""
    for model, names in (("clusters", NUMBERS.split(",")), ("table", list(PATIENTS_SCHEMA.names))):
        schema = PATIENTS_SCHEMA.select(names)
        for ending in ("csv", "parquet"):
            output = tmp_path / f"{model}.{ending}"
            found = called(capsys, "sample", ward / f"{model}.dpem", "-n", 300, "-o", output, "--seed", 1)
            assert found.code == 0
            frame = pd.read_csv(output) if ending == "csv" else pd.read_parquet(output)
            assert list(frame.columns) == names
            assert len(frame) == 300
            for column in schema.columns:
                cells = frame[column.name].astype(object).to_numpy()
                _, found = column.parse(cells)
                assert (found < UNREADABLE).all()
    first = called(capsys, "sample", ward / "table.dpem", "-n", 5, "--seed", 1, "--json").json["rows"]
    assert first == called(capsys, "sample", ward / "table.dpem", "-n", 5, "--seed", 1, "--json").json["rows"]


def test_a_sample_with_decimal_commas_has_semicolons(ward, tmp_path, capsys):
    """The fields need no quotes, and the same schema reads them."""
    schema = dpem.Schema({"bmi": {"kind": "continuous", "bounds": [10, 60], "decimal": ","}})
    table = pd.read_csv(ward / "patients.csv")[["bmi"]]
    dpem.GaussianMixture(1, epsilon=2.0, schema=schema).fit(table).save(tmp_path / "m.dpem")
    output = tmp_path / "s.csv"
    assert called(capsys, "sample", tmp_path / "m.dpem", "-n", 9, "-o", output).code == 0
    for text in (output.read_text(), called(capsys, "sample", tmp_path / "m.dpem", "-n", 9).out):
        assert '"' not in text
        assert text.count(",") == 9
    assert dpem.check_table(dpem.Files(output, delimiter=";"), schema).is_read


def test_warnings_name_options_of_the_command():
    found = with_command_remedies("Fewer n_components, n_clusters=3, or covariance_type='diag', and so on.")
    assert found == "Fewer -k, -k 3, or --covariance diag, and so on."


def test_batches_of_a_sample_differ(ward, capsys, monkeypatch):
    """All batches share one random stream, so the second batch does not repeat the first."""
    monkeypatch.setattr("dpem.cli.sample._BATCH_ROWS", 50)
    rows = called(capsys, "sample", ward / "clusters.dpem", "-n", 100, "--seed", 1, "--json").json["rows"]
    assert len(rows) == 100
    assert rows[:50] != rows[50:]


def test_sampled_rows_have_the_given_values(ward, tmp_path, capsys):
    output = tmp_path / "s.csv"
    given = ["--given", "ward=surgery", "--given", "age=40", "--given", "smoker="]
    assert called(capsys, "sample", ward / "table.dpem", "-n", 50, "-o", output, *given).code == 0
    frame = pd.read_csv(output)
    assert set(frame["ward"]) == {"surgery"}
    assert set(frame["age"]) == {40}
    assert frame["smoker"].isna().all()
    for wrong, word in (("ward=heaven", "'geriatrics'"), ("wing=1", "wing"), ("age=old", "--given age")):
        found = called(capsys, "sample", ward / "table.dpem", "--given", wrong)
        assert found.code == 2
        assert word in found.err


def test_predictions_agree_with_python(ward, tmp_path, capsys):
    table = pd.read_csv(ward / "patients.csv")
    clusters = dpem.load(ward / "clusters.dpem")
    output = tmp_path / "p.parquet"
    assert called(capsys, "predict", ward / "clusters.dpem", ward / "patients.csv", "-o", output).code == 0
    assert np.array_equal(pd.read_parquet(output)["component"], clusters.predict(table) + 1)
    arguments = ["predict", ward / "clusters.dpem", ward / "patients.csv", "-o", output, "--probabilities"]
    assert called(capsys, *arguments, "--overwrite").code == 0
    assert np.allclose(pd.read_parquet(output), clusters.predict_proba(table))
    output = tmp_path / "w.csv"
    found = called(capsys, "predict", ward / "table.dpem", ward / "patients.csv", "-o", output)
    assert "as sensitive as the rows" in found.out
    assert "6000" not in found.out.replace(",", "")  # the number of rows may be private
    expected = list(dpem.load(ward / "table.dpem").predict(table))
    assert list(pd.read_csv(output)["ward"]) == expected
    # The table may lack the target, which is predicted.
    table.drop(columns="ward").to_csv(tmp_path / "others.csv", index=False)
    assert (
        called(
            capsys, "predict", ward / "table.dpem", tmp_path / "others.csv", "-o", output, "--overwrite"
        ).code
        == 0
    )
    assert list(pd.read_csv(output)["ward"]) == expected


def test_a_malformed_line_is_predicted_as_a_row_of_missing_cells(ward, tmp_path, capsys):
    """One line of output for each line of the table, in its order, in the command and in Python."""
    header, *lines = (ward / "patients.csv").read_text().splitlines()[:7]
    broken = [lines[0], "1,2", lines[1], lines[2] + ",x", *lines[3:], "7"]
    table, output = tmp_path / "t.csv", tmp_path / "p.csv"
    table.write_text("\n".join([header, *broken]))
    model = dpem.load(ward / "clusters.dpem")
    expected = model.predict(table)
    assert len(expected) == len(broken)
    proper = [j for j, line in enumerate(broken) if line in lines]
    (tmp_path / "proper.csv").write_text("\n".join([header, *(broken[j] for j in proper)]))
    assert np.array_equal(expected[proper], model.predict(tmp_path / "proper.csv"))
    arguments = ["predict", ward / "clusters.dpem", table, "-o", output, "--keep", "sex"]
    assert called(capsys, *arguments).code == 0
    found = pd.read_csv(output)
    assert np.array_equal(found["component"], expected + 1)
    assert list(found["sex"].isna()) == [line not in lines for line in broken]


def test_files_in_another_encoding(tmp_path, capsys):
    """`check` and `fit` read a file of Windows with --encoding."""
    (tmp_path / "t.csv").write_bytes(("gr\xf6\xdfe\n" + "1\n2\n" * 50).encode("cp1252"))
    options = ["--encoding", "cp1252"]
    drafted = ["schema", tmp_path / "t.csv", "-o", tmp_path / "s.toml", "--number", "gr\xf6\xdfe=0:9"]
    assert called(capsys, *drafted, *options).code == 0
    fitted = [tmp_path / "t.csv", "-s", tmp_path / "s.toml"]
    assert called(capsys, "check", *fitted, *options).code == 0
    assert "--encoding cp1252" in called(capsys, "check", *fitted).err
    budget = ["-m", "kmeans", "-k", 1, "-e", 1, "-o", tmp_path / "m.dpem"]
    assert "--encoding cp1252" in called(capsys, "fit", *fitted, *budget).err
    assert called(capsys, "fit", *fitted, *budget, *options).code == 0
    output = ["-o", tmp_path / "p.csv"]
    assert called(capsys, "predict", tmp_path / "m.dpem", tmp_path / "t.csv", *output, *options).code == 0


@pytest.mark.parametrize("command", ["check", "fit", "predict", "python"])
def test_another_separator_has_one_remedy_everywhere(ward, tmp_path, capsys, command):
    table = tmp_path / "t.csv"
    table.write_text((ward / "patients.csv").read_text().replace(",", ";"))
    model = ward / "clusters.dpem"
    if command == "python":
        for call in (
            dpem.load(model).predict,
            dpem.KMeans(2, epsilon=1.0, schema=PATIENTS_SCHEMA.select(["age"])).fit,
        ):
            with pytest.raises(dpem.errors.InvalidArgumentError, match=r'Files\(path, delimiter=";"\)'):
                call(table)
        return
    arguments = {
        "check": [table, "-s", ward / "patients.toml"],
        "fit": [table, "-s", ward / "patients.toml", "-e", 1, "-o", tmp_path / "m.dpem"],
        "predict": [model, table, "-o", tmp_path / "p.csv"],
    }
    found = called(capsys, command, *arguments[command])
    assert found.code == 2
    assert "another separator, pass it with --delimiter. If the file has no header line" in found.err


def test_components_have_the_same_numbers_everywhere(ward, tmp_path, capsys):
    """`fit`, the report and `predict` number components alike."""
    model = dpem.load(ward / "clusters.dpem")
    frame = pd.DataFrame(model.means_, columns=NUMBERS.split(","))
    frame.to_csv(tmp_path / "means.csv", index=False)
    assert (
        called(
            capsys, "predict", ward / "clusters.dpem", tmp_path / "means.csv", "-o", tmp_path / "p.csv"
        ).code
        == 0
    )
    assert list(pd.read_csv(tmp_path / "p.csv")["component"]) == [1, 2, 3]
    profile = profile_of(model)
    assert [cells[1].value for _, cells in profile.rows] == list(model.means_[:, 0])


def test_non_private_models_give_a_warning(ward, tmp_path, capsys):
    table = pd.read_csv(ward / "patients.csv")
    plain = dpem.GaussianMixture(2, epsilon=np.inf, schema=PATIENTS_SCHEMA.select(["age", "bmi"])).fit(table)
    plain.save(tmp_path / "plain.dpem")
    for command in (
        ["sample", tmp_path / "plain.dpem", "-n", 3],
        ["report", tmp_path / "plain.dpem", "-o", tmp_path / "r.html"],
    ):
        assert "NOT PRIVATE" in called(capsys, *command).err


# -- budget ------------------------------------------------------------------------------------------------


def test_the_ledger_breaks_no_word_in_a_narrow_terminal(tmp_path, capsys, monkeypatch):
    """Times and purposes wrap between words; only a column of very long words is broken."""
    monkeypatch.setenv("COLUMNS", "80")
    path = tmp_path / "l"
    dpem.Ledger.create(path, name="n", cap_epsilon=5, cap_delta=1e-6)
    rows = np.random.default_rng(0).normal(size=(2000, 2))
    for purpose, analyst in ((None, "registry"), ("second quarter, all regions", "marie.curie@ward.org")):
        ledger = dpem.Ledger(path, purpose=purpose, analyst=analyst)
        dpem.KMeans(2, epsilon=0.5, bounds=(-5, 5), ledger=ledger).fit(rows)
    text = called(capsys, "budget", "show", path).out
    assert max(map(len, text.splitlines())) <= 80
    words = text.split()
    day, clock = dpem.Ledger(path).history()[0].time.removesuffix("+00:00").split("T")
    for word in (day, clock, "dpem.KMeans.fit", "quarter,", "registry", "marie.curie@ward.org"):
        assert word in words, word


def test_the_ledger_is_shown_and_verified(ward, tmp_path, capsys):
    ledger = ward / "patients.ledger"
    shown = called(capsys, "budget", "show", ledger, "--json").json
    assert [spend["number"] for spend in shown["spends"]] == [1, 2]
    assert 0 < shown["spent_part"] < 1
    text = called(capsys, "budget", "show", ledger).out
    assert "groups" in text
    head = called(capsys, "budget", "verify", ledger, "--json").json["head"]
    whole = called(capsys, "budget", "verify", ledger, "--head", f"{head['number']}:{head['hash']}")
    assert whole.code == 0
    cut = called(capsys, "budget", "verify", ledger, "--head", f"{head['number']}:{'0' * 64}")
    assert cut.code == 5
    other = tmp_path / "other.ledger"
    assert called(capsys, "budget", "init", other, "--name", "other", "-e", 1).code == 0
    for command in (
        ["budget", "verify", other, "--model"],
        ["report", "-l", other, "-o", tmp_path / "r.html"],
    ):
        assert called(capsys, *command, ward / "clusters.dpem").code == 5
    assert not (tmp_path / "r.html").exists()


def test_a_charge_must_belong_to_the_model(ward, tmp_path):
    """A model that names the record of another model fails verification, and so does one without a charge."""
    ledger = dpem.Ledger(ward / "patients.ledger")
    model, other = dpem.load(ward / "clusters.dpem"), dpem.load(ward / "table.dpem")
    model.verify_charge(ledger)
    model.charge_ = other.charge_
    with pytest.raises(LedgerError, match="they differ in purpose"):
        model.verify_charge(ledger)
    model.charge_ = None
    with pytest.raises(LedgerError, match="without a charge"):
        model.verify_charge(ledger)


# -- all of them -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "plan",
        "schema",
        "fit",
        "sample",
        "predict",
        "report",
        "demo",
        "budget init",
        "budget show",
        "budget verify",
    ],
)
def test_every_command_has_help_with_an_example(name, capsys):
    shown = called(capsys, *name.split(), "--help")
    assert shown.code == 0
    assert f"dpem {name} " in shown.out
    assert "--json" in shown.out


def test_the_version_is_printed(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"dpem {dpem.__version__}\n"


def test_an_unexpected_exception_shows_no_value(ward, tmp_path, capsys, monkeypatch):
    """Only type and place are reported, because the message may contain a cell of the table."""

    def broken(self, X, y=None):
        raise ValueError("the patient's age is 424242")

    monkeypatch.setattr(dpem.KMeans, "fit", broken)
    arguments = [
        "fit",
        ward / "patients.csv",
        "-s",
        ward / "patients.toml",
        "--columns",
        "age",
        "-m",
        "kmeans",
        "-e",
        1,
    ]
    for more in ([], ["--json"]):
        found = called(capsys, *arguments, "-o", tmp_path / "m.dpem", *more)
        assert found.code == 1
        assert "424242" not in found.out + found.err
        assert "ValueError" in found.out + found.err
    assert list(tmp_path.iterdir()) == []


def test_generated_patients_conform_to_their_schema():
    """The table of the demo lies within its public schema, and is the same every time."""
    table = patients(3000, 1)
    for column in PATIENTS_SCHEMA.columns:
        _, found = column.parse(table[column.name].astype(object).to_numpy())
        assert (found < UNREADABLE).all()
    assert table.equals(patients(3000, 1))


# -- persons -----------------------------------------------------------------------------------------------


def test_a_whole_workflow_with_persons(tmp_path, capsys):
    """Two of the five rows of each person are used; the person column is not part of the schema."""
    rows = np.random.default_rng(0).normal(50, 10, 5000).round(1)
    table = pd.DataFrame({"patient": [f"p{i % 1000}" for i in range(5000)], "age": rows})
    table.to_csv(tmp_path / "visits.csv", index=False)
    persons = ["--person", "patient", "--rows-per-person", 2]
    ledger, schema, model = (tmp_path / name for name in ("visits.ledger", "visits.toml", "model.dpem"))
    assert called(capsys, "budget", "init", ledger, "--name", "visits", "-e", 4, *persons).code == 0
    estimate = ["--bounds-epsilon", 1, "--ledger", ledger, "--purpose", "bounds of ages"]
    draft = called(capsys, "schema", tmp_path / "visits.csv", "-o", schema, *estimate, *persons, "--no-ask")
    assert draft.code == 0
    assert dpem.Schema.read(schema).names == ("age",)
    fit = ["fit", tmp_path / "visits.csv", "-s", schema, "-k", 1, "-e", 1, "--ledger", ledger, "-o", model]
    refused = called(capsys, *fit)
    assert refused.code == 2
    assert "privacy unit" in refused.err
    assert called(capsys, *fit, *persons).code == 0
    fitted = dpem.load(model)
    assert fitted.n_rows_ == 2000
    assert "Column 'patient' identifies persons" in fitted.privacy_.neighbours
    assert [spend.purpose for spend in dpem.Ledger(ledger).history()] == [
        "dpem.private_bounds: bounds of ages",
        "dpem.GaussianMixture.fit",
    ]
    assert called(capsys, "plan", "-n", 2000, "-s", schema, "-e", 1, "--ledger", ledger, *persons).code == 0
