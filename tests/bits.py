"""Hash the releases of seeded fits, to show that a refactoring changes no bit of them.

`python tests/bits.py record FILE` writes a hash for every fit, and `python tests/bits.py compare FILE` names
the fits with a different hash. Hashes are valid for one machine and one set of libraries only, because
floating-point sums of a linear-algebra library differ between processors.
"""

import hashlib
import io
import json
import sys
import tempfile
import warnings
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

import dpem
from dpem import registry
from dpem.audit.subject import subject_of
from dpem.estimator.trials import mixed_table
from dpem.statistics.gaussian import COVARIANCES
from dpem.testing import insecure_noise, record
from support.estimators import BY_ADD_REMOVE, ESTIMATORS
from support.sources import LOCAL

N_ROWS = 240


def saved(model):
    """Return the members of a saved model, by name."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(Path(folder) / "model")
        with np.load(io.BytesIO((Path(folder) / "model").read_bytes())) as file:
            return {name: file[name].tobytes() for name in sorted(file)}


def applied(model, rows):
    """Return predictions and scores of the fitted model on rows, and sampled rows."""
    calls = {
        name: lambda name=name: np.ascontiguousarray(getattr(model, name)(rows)).tobytes()
        for name in ("predict", "predict_proba", "transform", "score_samples")
    }
    calls["sample"] = lambda: repr(np.asarray(model.sample(5, random_state=3)).tolist()).encode()
    found = {}
    for name, call in calls.items():
        if hasattr(model, name):
            try:
                found[name] = call()
            except dpem.errors.DpemError as error:  # a model without a target, a plug-in without a method
                found[name] = str(error).encode()
    return found


def digest(run, rows=None):
    """Run under seeded noise; return one hash of the releases and the results."""
    total = hashlib.sha256()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with insecure_noise(11), record() as transcript:
            result = run()
        for release in transcript.releases:
            for part in (release.stage.encode(), release.raw.tobytes(), release.noisy.tobytes()):
                total.update(part)
        if hasattr(result, "save"):
            parts = saved(result) | ({} if rows is None else applied(result, rows))
        else:
            parts = {"result": repr(result).encode()}
    for name, part in sorted(parts.items()):
        total.update(name.encode())
        total.update(part)
    return total.hexdigest()


def cases():
    """Return every fit by name, as a function and the rows for its predictions."""
    found = {}
    for name, trial in registry.trials().items():
        if trial.rows is mixed_table:
            continue  # below
        n = 40 if trial.slow else N_ROWS
        for adjacency in trial.relations:
            for epsilon in sorted({trial.epsilon, trial.budgets[-1]}):

                def run(trial=trial, adjacency=adjacency, epsilon=epsilon, name=name, n=n):
                    return subject_of(name, epsilon, adjacency).run(trial.rows(n), None)

                rows = trial.rows(n) if trial.source is None else None
                found[f"{name}, {adjacency}, epsilon {epsilon:g}"] = (run, rows)
    frame = mixed_table()
    for name, make in ESTIMATORS.items():
        for adjacency in ("replace_one", "add_remove") if name in BY_ADD_REMOVE else (None,):
            settings = {} if adjacency is None else {"adjacency": adjacency}

            def run(make=make, settings=settings):
                return make(**settings).fit(frame)

            found[f"{name}, table, {adjacency}"] = (run, frame)
    for source, hand_over in LOCAL.items():
        for name in ("KMeans", "MixedMixture"):

            def run(name=name, hand_over=hand_over):
                with tempfile.TemporaryDirectory() as folder:
                    return ESTIMATORS[name]().fit(hand_over(frame, Path(folder)))

            found[f"{name}, {source}"] = (run, None)
    rng = np.random.default_rng(0)
    wide = rng.normal(0, 0.1, (20_000, 24)) + 0.1 * rng.integers(0, 4, (20_000, 1))
    holes = np.where(rng.random(wide[:, :12].shape) < 0.2, np.nan, wide[:, :12])
    for n_jobs in (1, 2):
        common = {"epsilon": 2.0, "data_norm": 2.0, "random_state": 0, "n_jobs": n_jobs}
        for name, make in {
            "KMeans": lambda common=common: dpem.KMeans(8, **common),
            "GaussianMixture": lambda common=common: dpem.GaussianMixture(5, **common),
            "GaussianMixture diag": lambda common=common: dpem.GaussianMixture(
                5, covariance_type="diag", **common
            ),
            "FactorAnalysis": lambda common=common: dpem.FactorAnalysis(3, **common),
            "paper.GaussianMixture": lambda common=common: dpem.paper.GaussianMixture(
                4, max_iter=3, **common
            ),
        }.items():
            found[f"{name}, 20,000 rows, n_jobs {n_jobs}"] = (lambda make=make: make().fit(wide), wide[:100])
        for kind in COVARIANCES:

            def run(common=common, kind=kind):
                return dpem.GaussianMixture(5, covariance_type=kind, missing="em", **common).fit(holes)

            found[f"GaussianMixture, {kind}, missing cells, n_jobs {n_jobs}"] = (run, holes[:100])
    return found


def main(action, path):
    """Write the hashes to a file, or compare them with those in the file."""
    found = {}
    for name, (run, rows) in cases().items():
        found[name] = digest(run, rows)
        print(name, found[name][:12], flush=True)
    if action == "record":
        Path(path).write_text(json.dumps(found, indent=1) + "\n")
        return 0
    before = json.loads(Path(path).read_text())
    differ = [name for name in before | found if before.get(name) != found.get(name)]
    print(f"{len(before)} fits, {len(differ)} differ: {differ}")
    return int(bool(differ))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
