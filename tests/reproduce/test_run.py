"""The command from end to end at its smallest size, interrupted runs, and the reliability of its verdicts."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpem.errors import OutputError
from dpem.reproduce import EXPERIMENTS, Datasets, gowalla, lifesci, motivation, reproduce, sentences, stroke
from dpem.reproduce.experiment import Task, folds
from dpem.reproduce.mixtures import OURS
from dpem.reproduce.results import Results
from dpem.reproduce.text import paired
from support.commands import called


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """Run all experiments, at a size far too small for conclusions."""
    output = tmp_path_factory.mktemp("reproduction")
    return output, reproduce(EXPERIMENTS, Datasets(None, "tiny"), output)


def test_all_results_are_written_and_labelled(whole):
    output, done = whole
    text = done.page.read_text()
    assert done.page == output / "reproduction-tiny.md"
    assert "stand-in: generated rows" in text
    assert "far too small to mean anything" in text
    for name in EXPERIMENTS:
        table = pd.read_csv(output / "reproduction" / f"{name}-tiny.csv")
        assert len(table) == len(EXPERIMENTS[name].tasks(Datasets(None, "tiny")))
        assert not table.isna().any().any()
        picture = (output / "reproduction" / f"{name}-tiny.png").read_bytes()
        assert picture.startswith(b"\x89PNG")
        drawn = (output / "reproduction" / f"{name}-tiny.svg").read_text()
        assert "STAND-IN" in drawn or name == "motivation", "a figure of generated rows that does not say so"
        assert f"reproduction/{name}-tiny.png" in text
    assert (
        text.count("*On a stand-in") == len(sentences._CHECKS) - 2
    )  # the motivating example is always synthetic
    assert text.count("of a stand-in: generated rows") == 4


def test_the_recorded_page_has_the_text_of_the_template():
    """The command writes the page in docs/paper, so every fixed line of the template is in it."""
    template = Path(sentences.__file__).with_name("reproduction.md.jinja").read_text()
    page = (Path(__file__).parents[2] / "docs" / "paper" / "reproduction.md").read_text().splitlines()
    fixed = [line for line in template.splitlines() if "{" not in line and not line.startswith("**")]
    assert len(fixed) > 80
    assert not set(fixed) - set(page)


def test_an_interrupted_run_continues(whole, tmp_path):
    """A killed run leaves complete lines and perhaps a partial one; only the remaining tasks run."""
    output, done = whole
    name = "gowalla"
    lines = (output / "reproduction" / f"{name}-tiny.csv").read_text().splitlines(keepends=True)
    (tmp_path / "reproduction").mkdir()
    (tmp_path / "reproduction" / f"{name}-tiny.csv").write_text("".join(lines[:4]) + lines[4][:9])
    (tmp_path / "reproduction" / f"{name}-tiny.png").write_text("a figure of other results")
    told = []
    again = reproduce(
        [name],
        Datasets(None, "tiny"),
        tmp_path,
        jobs=2,
        progress=lambda *progress: told.append(progress),
    )
    n = len(lines) - 1
    assert [done for _, done, _ in told] == list(range(4, n + 1))
    pd.testing.assert_frame_equal(again.results[name], done.results[name])
    for kind in ("png", "svg"):
        picture = f"reproduction/{name}-tiny.{kind}"
        assert (tmp_path / picture).read_bytes() == (output / picture).read_bytes()
    assert list(again.results) == [name]


def test_a_page_contains_earlier_results(whole):
    output, _ = whole
    before = (output / "reproduction" / "stroke-tiny.csv").read_bytes()
    told = []
    (output / "reproduction" / "lifesci-tiny.csv").rename(output / "kept")
    (output / "reproduction" / "lifesci-tiny.csv").write_text(
        "something,else\n1,2\n"
    )  # not requested: stays unchanged
    again = reproduce(["gowalla"], Datasets(None, "tiny"), output, progress=lambda *one: told.append(one))
    (output / "kept").rename(output / "reproduction" / "lifesci-tiny.csv")
    assert told == []  # no task is left
    assert set(again.results) == set(EXPERIMENTS) - {"lifesci"}
    assert (output / "reproduction" / "stroke-tiny.csv").read_bytes() == before


def test_results_of_stand_ins_and_other_versions_are_not_reused(tmp_path):
    task, path = Task("lifesci", "dpem", 1.0), tmp_path / "x.csv"
    Results(path, is_real=False).keep(task, {"value": 1.0})
    assert Results(path, is_real=False).has(task)
    assert not Results(path, is_real=True).has(task)
    path.write_text(path.read_text().replace("False", "True"))
    assert Results(path, is_real=True).has(task)
    assert not Results(path, is_real=True, fresh=True).has(task)
    old = pd.read_csv(path).assign(version="0.0.1")
    old.to_csv(path, index=False)
    assert not Results(path, is_real=True).has(task)
    path.write_text("something,else\n1,2\n")
    with pytest.raises(OutputError, match="another file"):
        Results(path, is_real=True)


def test_folds_are_a_partition():
    parts = [folds(103, fold) for fold in range(10)]
    assert sorted(np.concatenate([test for _, test in parts])) == list(range(103))
    for fit, test in parts:
        assert not set(fit) & set(test)
        assert len(fit) + len(test) == 103


def test_command(whole, tmp_path, capsys, monkeypatch):
    """It runs what an interrupted run has left, here the last tasks."""
    monkeypatch.delenv("DPEM_DATA", raising=False)
    lines = (whole[0] / "reproduction" / "gowalla-tiny.csv").read_text().splitlines(keepends=True)
    (tmp_path / "reproduction").mkdir()
    kept = tmp_path / "reproduction" / "gowalla-tiny.csv"
    kept.write_text("".join(lines[:-9]))
    ended = called(capsys, "reproduce", "gowalla", "--tiny", "-o", tmp_path, "--json", "--jobs", "1")
    assert ended.code == 0
    assert ended.json["page"] == str(tmp_path / "reproduction-tiny.md")
    assert all(Path(path).is_file() for path in ended.json["results"] + ended.json["figures"])
    assert len(kept.read_text().splitlines()) == len(lines)
    assert any("stand-ins" in one for one in ended.json["warnings"])
    assert called(capsys, "reproduce", "nothing").code == 2
    ended = called(capsys, "reproduce", "gowalla", "--data", tmp_path / "no", "-o", tmp_path)
    assert ended.code == 4
    assert "--data" in ended.err
    (tmp_path / "file").write_text("")
    ended = called(capsys, "reproduce", "gowalla", "--tiny", "-o", tmp_path / "file", "--jobs", "1")
    assert ended.code == 5


# -- the reliability of verdicts --------------------------------------------------------------------------


def curves(difference, noise=1.0, seed=0):
    """Return results of two methods over ten folds, with the given difference between them."""
    rng = np.random.default_rng(seed)
    rows = []
    for epsilon in (0.1, 1.0, 4.0):
        for fold in range(10):
            common = rng.normal(0, 50)  # folds differ far more than methods
            for method, mean in (("a", difference), ("b", 0.0)):
                value = common + mean + rng.normal(0, noise)
                rows.append(("x", method, epsilon, fold, 0, 1.0, value))
    names = ["data", "method", "epsilon", "fold", "seed", "part", "value"]
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize(
    ("difference", "verdict", "flipped"),
    [
        (20.0, "holds", "does not hold"),
        (-20.0, "does not hold", "holds"),
        (0.0, "cannot tell", "cannot tell"),
    ],
)
def test_verdicts_use_paired_differences(difference, verdict, flipped):
    """Folds that differ by 50 do not hide a difference of 20; without a difference there is no verdict."""
    results = curves(difference)
    assert sentences._compare(results, [("a", "b")], "value")[1] == verdict
    assert sentences._compare(results, [("a", "b")], "value", sign=-1.0)[1] == flipped


def test_one_fold_proves_nothing():
    one = curves(20.0)
    one = one[one.fold == 0]
    assert np.isinf(paired(one, "a", "b", "value")["sem"]).all()
    assert sentences._compare(one, [("a", "b")], "value")[1] == "cannot tell"
    assert sentences._compare(one, [("a", "c")], "value") == ("not run", "cannot tell")


@pytest.mark.parametrize(
    ("small", "large", "printed", "verdict"),
    [
        (5.0, 0.0, 5.0, "holds"),
        (5.0, 0.0, 0.0, "holds with orders up to 100"),
        (5.0, 0.0, -5.0, "holds with orders up to 100"),
        (5.0, 0.0, None, "holds with orders up to 100"),
        (5.0, 2.0, 5.0, "holds in part"),
        (-5.0, 0.0, 5.0, "holds in part"),
        (-5.0, 2.0, 5.0, "does not hold"),
        (-5.0, 2.0, 0.0, "does not hold"),
    ],
)
def test_the_verdict_on_zcdp_and_moments(small, large, printed, verdict):
    """Both halves of the claim are judged; it holds unconditionally only if all integer orders agree."""
    rng = np.random.default_rng(0)
    rows = []
    for fold in range(10):
        for epsilon, gap in ((0.1, small), (1.0, large)):
            base = {"data": "x", "epsilon": epsilon, "fold": fold, "seed": 0, "part": 1.0, "is_real": True}
            for form, apart in (("", gap), (", as printed", printed)):
                if apart is None:
                    continue
                near = rng.normal(0, 0.1)
                gaussian = near + apart + (0.01 if apart else 1.0) * (-1) ** fold
                rows.append(base | {"method": f"GGG moments{form}", "log_likelihood": near})
                rows.append(base | {"method": f"GGG zcdp{form}", "log_likelihood": gaussian})
    # Equality at larger epsilons requires more than noise of 0.01 about zero.
    table = pd.DataFrame(rows)
    found = sentences._zcdp_above_moments({"stroke": table, "lifesci": table}, Datasets(None, "tiny"))
    assert found.holds == verdict
    assert "on Life Science " in found.measured
    assert ("not run with all integers" in found.measured) == (printed is None)


def test_ggg_and_llg_are_compared_on_the_papers_own_data():
    """Section 8 is about zCDP and moments only; other results are reported without a verdict."""
    rng = np.random.default_rng(0)
    rows = [
        ("lifesci", f"{scenario} {how}", 1.0, fold, 0, 1.0, value + rng.normal(0, 0.01))
        for fold in range(10)
        for how, gap in (("zcdp", 5.0), ("moments", 5.0), ("linear", -5.0), ("advanced", -5.0))
        for scenario, value in (("GGG", gap), ("LLG", 0.0))
    ]
    names = ["data", "method", "epsilon", "fold", "seed", "part", "log_likelihood"]
    found = {"lifesci": pd.DataFrame(rows, columns=names)}
    judged = sentences._ggg_above_llg_in_general(found, Datasets(None, "tiny"))
    assert judged.holds == "holds"
    assert judged.source == "section 8"
    assert "clearly for the claim in 0 and clearly against it in 2 of 2 comparisons" in judged.measured


def test_compositions_are_compared_in_ggg_alone():
    """Section 7 focuses on GGG before it compares compositions."""
    rng = np.random.default_rng(0)
    rows = [
        ("stroke", f"{scenario} {how}", 1.0, fold, 0, 1.0, value + rng.normal(0, 0.01))
        for fold in range(10)
        for scenario, gap in (("GGG", 5.0), ("LLG", -5.0))
        for how, value in (("zcdp", gap), ("moments", gap), ("linear", 0.0), ("advanced", 0.0))
    ]
    names = ["data", "method", "epsilon", "fold", "seed", "part", "log_likelihood"]
    found = {"stroke": pd.DataFrame(rows, columns=names)}
    judged = sentences._tight_above_loose("stroke", "Stroke")(found, Datasets(None, "tiny"))
    assert judged.holds == "holds"
    assert judged.measured.startswith("Clearly for the claim in 4 and clearly against it in 0 of 4 ")


@pytest.mark.parametrize(
    ("first", "second", "joined"),
    [
        ("holds", "holds", "holds"),
        ("holds", "cannot tell", "holds in part"),
        ("does not hold", "cannot tell", "does not hold"),
        ("does not hold", "holds", "holds in part"),
        ("cannot tell", "cannot tell", "cannot tell"),
    ],
)
def test_verdicts_on_two_halves_are_joined(first, second, joined):
    assert sentences._of_both(first, second) == sentences._of_both(second, first) == joined


def test_the_suspected_reason_is_judged_by_arithmetic():
    names = {"a": "GGG zcdp, as printed", "b": "GGG moments, as printed"}
    alike = curves(0.0).rename(columns={"value": "log_likelihood"}).replace({"method": names})
    found = sentences._because_of_integers({"stroke": alike}, Datasets(None, "tiny"))
    assert found.holds == "does not hold"
    assert "0.538 with orders up to 100" in found.measured
    assert "clearly for the claim in 0 and clearly against it in 0 of 1" in found.measured


def nicv_over_the_grid(gap_at):
    """Return the NICV of two methods and of their plain forms: `gap_at` of (K, J), else too noisy."""
    rng = np.random.default_rng(0)
    rows = [
        ("gowalla_x", gowalla.on_grid(form, *point), 0.01, fold, 0, 1.0, value)
        for point in gowalla.GRID_OF_BOTH
        for fold in range(10)
        for method, value in (
            (gowalla.ZCDP, gap_at.get(point, 1000 * (-1) ** fold) + rng.normal(0, 0.01)),
            (gowalla.LINEAR, 0.0),
        )
        for form in (method, gowalla.LITERAL[method])
    ]
    names = ["data", "method", "epsilon", "fold", "seed", "part", "nicv"]
    return pd.DataFrame(rows, columns=names)


@pytest.mark.parametrize("gap", [-1.0, 1.0])
def test_verdicts_are_counted_over_the_grid_of_clusters_and_steps(gap):
    """The gap is `gap` from 20 steps on, a little worse below 20 with 3 clusters, and noise elsewhere."""
    away = {point: gap for point in gowalla.GRID_OF_BOTH if point[1] >= 20} | {(3, 5): 0.1, (3, 10): 0.1}
    measured = sentences._on_grid(nicv_over_the_grid(away), gowalla.ZCDP, gowalla.LINEAR)
    assert "J = 10: 0 for and 1 against of 3" in measured
    clear = "3 for and 0 against" if gap < 0 else "0 for and 3 against"
    assert f"J = 20: {clear} of 3; J = 30: {clear} of 3; J = 40: {clear} of 3" in measured


def test_kmeans_is_judged_at_each_setting_of_the_authors():
    """A clear result at one setting decides neither the other setting nor the rest of the grid."""
    away = {point: -1.0 for point in gowalla.GRID_OF_BOTH if point[1] == 20} | {(3, 10): 1.0}
    check = sentences._kmeans("a claim", "a place", gowalla.ZCDP, gowalla.LINEAR)
    judged = check({"gowalla": nicv_over_the_grid(away)}, Datasets(None, "tiny"))
    assert judged.holds == (
        "K = 3, J = 10: does not hold; not private: does not hold. "
        "K = 5, J = 40: cannot tell; not private: cannot tell"
    )
    # By arithmetic, zCDP has the larger noise below 19 steps.
    assert (
        "zCDP leaves a mechanism 0.00074, linear composition 0.001: arithmetic is against the claim."
        in judged.measured
    )
    assert (
        "zCDP leaves a mechanism 0.00037, linear composition 0.00025: arithmetic is in favour of the claim."
        in judged.measured
    )


def test_names_on_the_grid_of_kmeans_set_clusters_and_steps():
    rows = np.random.default_rng(0).uniform(-0.5, 0.5, (500, 2))
    for name, clusters in ((gowalla.on_grid(gowalla.ZCDP, 10, 5), 10), (gowalla.PAPER, gowalla.CLUSTERS)):
        assert gowalla._centres(Task("gowalla_locations", name, 1.0), rows).shape == (clusters, 2)


def test_the_reason_for_a_low_plain_em_uses_measured_values_only():
    rows = [
        (method, epsilon, fold, value)
        for fold in (0, 1)
        for method, epsilon, value in (
            ("dpem", 4.0, 310.0),
            ("plain EM", np.inf, 270.0),
            ("dpem, on the rows that were fitted", 4.0, 312.0),
            ("plain EM, on the rows that were fitted", np.inf, 275.0),
            ("plain EM, started at the fit of dpem", 4.0, 330.0),
            ("plain EM, other starts", np.inf, 250.0),
        )
    ]
    table = pd.DataFrame(rows, columns=["method", "epsilon", "fold", "log_likelihood"])
    text = stroke._why_plain_em_is_lower(table)
    assert "Plain EM (270) lies below `dpem` at epsilon 4 (310)" in text
    assert "reach 250 to 270" in text
    assert "Overfitting is not the reason" in text
    overfitted = table.replace({"log_likelihood": {275.0: 400.0}})
    assert "do not name one reason" in stroke._why_plain_em_is_lower(overfitted)


@pytest.mark.parametrize(
    ("ours", "words"),
    [
        ({0.1: 5.0, 1.0: 9.0}, "reaches this between the tested epsilons 0.1 and 1: 4 to 40 times less"),
        (
            {0.1: 9.0, 1.0: 9.5},
            "reaches this at epsilon 0.1, the smallest that was tested: at least 40 times less",
        ),
        ({0.1: 1.0, 1.0: 2.0}, "does not reach this"),
    ],
)
def test_the_text_on_the_saving_agrees_with_the_results(ours, words):
    rows = [(OURS, e, 1.0, value) for e, value in ours.items()] + [("GGG zcdp", 4.0, 1.0, 8.0)]
    table = pd.DataFrame(rows, columns=["method", "epsilon", "part", "log_likelihood"])
    assert words in lifesci.SETTING.saving(table)


def test_the_attacker_succeeds_only_if_the_worlds_differ():
    """The attacker is nearly always right if the worlds differ by three deviations, else half of the time."""
    rng = np.random.default_rng(0)

    def results(shift):
        features = rng.normal(size=(800, len(motivation.FEATURES)))
        worlds = np.repeat([motivation.WITHOUT, motivation.WITH], 400)
        features[:, 0] += shift * worlds
        table = pd.DataFrame(features, columns=list(motivation.FEATURES))
        return table.assign(fold=worlds, seed=np.tile(np.arange(400), 2))

    assert motivation.attack(results(6.0))[0] > 0.98
    right, low, high = motivation.attack(results(0.0))
    assert abs(right - 0.5) < 0.13  # 5 deviations
    assert low < right < high
    assert 0.06 < high - low < 0.14
    assert motivation.attack(results(60.0))[1:] == pytest.approx((0.990, 1.0), abs=1e-3)  # Wilson, 400 of 400


def test_the_two_worlds_differ_in_one_person():
    with_, without = (motivation.people(1, world, 0) for world in (motivation.WITH, motivation.WITHOUT))
    assert len(with_) == len(without) == 104
    assert (with_ != without).any(axis=1).sum() == 1  # neighbours: all other persons are the same
    near = [np.linalg.norm(X - np.array(motivation.PERSON), axis=1) < 1.0 for X in (with_, without)]
    assert near[0].sum() == 1
    assert near[1].sum() == 0
    low, high = np.array(motivation.BOUNDS)
    assert ((with_ > low) & (with_ < high)).all()
    assert len(motivation.people(50, motivation.WITH, 0)) == 5200
