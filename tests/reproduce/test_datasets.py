"""Data sets are real if their checksum matches, else labelled stand-ins; loaders use a local server."""

import http.server
import threading
import zipfile
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.io import savemat

from dpem.errors import DataError
from dpem.reproduce import Datasets, datasets, downloads
from dpem.reproduce.datasets import SOURCES, checksum


@pytest.fixture
def accepted(monkeypatch):
    """Return a function that registers the checksum of other values for a data set."""

    def accept(name, values):
        monkeypatch.setitem(SOURCES, name, replace(SOURCES[name], sha256=checksum(values)))
        datasets._load.cache_clear()

    yield accept
    datasets._load.cache_clear()


@pytest.fixture
def server(tmp_path):
    """Serve a folder over HTTP."""
    folder = tmp_path / "served"
    folder.mkdir()

    class Handler(http.server.SimpleHTTPRequestHandler):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, directory=folder, **options)

        def log_message(self, *arguments):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield folder, f"http://127.0.0.1:{running.server_address[1]}"
        running.shutdown()


@pytest.mark.parametrize("name", [name for name in SOURCES if name != "gowalla_checkins"])
def test_stand_ins_are_labelled_and_lie_in_the_ball(name):
    data = Datasets(None, "tiny").load(name)
    assert not data.is_real
    assert data.title.startswith("STAND-IN")
    assert np.isfinite(data.rows).all()
    if name != "olivetti_faces":
        assert np.linalg.norm(data.rows, axis=1).max() == pytest.approx(1)
    else:
        assert 0 <= data.rows.min() < data.rows.max() <= 1


def lifesci_table(seed=0):
    rng = np.random.default_rng(seed)
    columns = {f"pc{i}": rng.normal(size=50).astype(np.float32) for i in range(10)}
    return pd.DataFrame(columns | {"label": np.zeros(50, dtype=np.int8)})


def test_values_are_real_only_if_their_checksum_matches(tmp_path, accepted):
    table = lifesci_table()
    table.to_parquet(tmp_path / "lifesci.parquet")
    with pytest.raises(DataError, match=r"lifesci.*checksum differs"):
        Datasets(str(tmp_path)).load("lifesci")
    accepted("lifesci", table.iloc[:, :10].to_numpy())
    data = Datasets(str(tmp_path)).load("lifesci")
    assert data.is_real
    assert data.title == "Life Science"
    np.testing.assert_allclose(data.rows * data.radius, table.iloc[:, :10], rtol=1e-6)
    table.loc[7, "pc3"] += np.float32(1e-3)  # one cell
    table.to_parquet(tmp_path / "lifesci.parquet")
    datasets._load.cache_clear()
    with pytest.raises(DataError, match="checksum differs"):
        Datasets(str(tmp_path)).load("lifesci")


def test_the_error_about_a_wrong_file_has_its_name(tmp_path):
    pd.DataFrame({"x": [1.0]}).to_parquet(tmp_path / "olivetti_faces.parquet")
    with pytest.raises(DataError, match=r"olivetti_faces.*got another file"):
        Datasets(str(tmp_path)).load("olivetti_faces")
    datasets._load.cache_clear()
    pd.DataFrame({"pixels": [1, 2]}).to_parquet(tmp_path / "olivetti_faces.parquet")
    with pytest.raises(DataError, match="got another file"):
        Datasets(str(tmp_path)).load("olivetti_faces")
    (tmp_path / "olivetti_faces.parquet").write_text("no table")
    with pytest.raises(DataError, match="got another file"):
        Datasets(str(tmp_path)).load("olivetti_faces")


def served_files(folder):
    """Write small files in the formats of the four public sources; return their expected values."""
    table = lifesci_table()
    table.to_csv(folder / "lifesci.csv", header=False, index=False)
    (folder / "first.txt").write_text(
        "33.4511375333-111.9734930833\t0.00000\n3.0869421300101.5465751800\t0.7\n-27.4610659049153.0325197215\t0.0\n"
    )
    (folder / "second.txt").write_text("59.335227551618.0647580795\t0.0\n33.4511375333-111.9734930833\t0.0\n")
    places = [[33.45113753, -111.97349308], [3.08694213, 101.54657518], [-27.4610659, 153.03251972]]
    locations = np.array([*places, [59.33522755, 18.06475808]], dtype=np.float32)
    pixels = np.random.default_rng(1).integers(0, 243, (4096, 20)).astype(np.uint8)
    savemat(folder / "faces.mat", {"faces": pixels})
    upright = np.stack([column.reshape(64, 64).T.ravel() for column in pixels.T])
    n = 60
    visits = pd.DataFrame(
        {
            "encounter_id": range(n),
            "patient_nbr": np.repeat(np.arange(n // 2)[::-1], 2),  # two visits each
            "diag_1": ["250", "?"] * (n // 2),
            "diag_2": ["V27"] * n,
            "diag_3": ["?"] * (n - 2) + ["401"] * 2,  # a single patient, who is left out
            "metformin": ["No", "Up"] * 10 + ["No", "No"] * (n // 2 - 10),
            "insulin": ["No"] * n,
            "change": ["No"] * n,
        }
    )
    with zipfile.ZipFile(folder / "patients.zip", "w") as archive:
        archive.writestr("a/diabetic_data.csv", visits.to_csv(index=False))
    bits = np.column_stack([np.ones(30), np.ones(30), np.arange(30) < 10]).astype(bool)
    return {
        "lifesci": table.iloc[:, :10].to_numpy(),
        "gowalla_locations": locations[np.lexsort(locations.T)],
        "olivetti_faces": upright,
        "diabetes130_binary": bits,
    }


def test_loaders_convert_every_format_to_one_table(tmp_path, server, accepted):
    folder, address = server
    expected = served_files(folder)
    for name, values in expected.items():
        accepted(name, values)
    mirrors = {
        "lifesci": [["missing.csv"], ["first.txt"], ["lifesci.csv"]],  # the third is correct
        "gowalla_locations": [["first.txt", "second.txt"]],
        "olivetti_faces": [["faces.mat"]],
        "diabetes130_binary": [["patients.zip"]],
    }
    places = {
        name: replace(
            downloads.PLACES[name],
            mirrors=tuple(tuple(f"{address}/{file}" for file in files) for files in some),
        )
        for name, some in mirrors.items()
    }
    target = tmp_path / "data"
    assert list(downloads.fetch(target, places, places=places)) == list(places)
    assert list(downloads.fetch(target, places, places=places)) == []  # all files exist
    for name, values in expected.items():
        read = datasets.values_of(name, target / f"{name}.parquet")
        np.testing.assert_array_equal(read, values)
        assert Datasets(str(target)).has(name)
    assert list(downloads.fetch(target, ["gowalla_checkins"], places=places)) == []  # has no public source


def test_files_with_a_wrong_checksum_are_not_saved(tmp_path, server):
    folder, address = server
    served_files(folder)
    place = replace(downloads.PLACES["lifesci"], mirrors=((f"{address}/lifesci.csv",),))
    with pytest.raises(DataError, match=r"lifesci.*checksum differs.*Nothing was stored"):
        list(downloads.fetch(tmp_path / "data", ["lifesci"], places={"lifesci": place}))
    assert list((tmp_path / "data").iterdir()) == []


@pytest.mark.parametrize("name", downloads.PLACES)
def test_a_web_page_instead_of_the_file_raises(tmp_path, server, name):
    """A captive portal, a moved file or an interrupted connection gives a page instead of the file."""
    folder, address = server
    (folder / "page.html").write_text("<html><body>Please log in.</body></html>")
    place = replace(downloads.PLACES[name], mirrors=((f"{address}/page.html",) * 2,))
    with pytest.raises(
        DataError, match=rf"{name} on a public server, got: http://127.*another file|checksum"
    ):
        list(downloads.fetch(tmp_path / "data", [name], places={name: place}))


def test_a_missing_server_and_an_address_without_https_raise(tmp_path):
    nobody = downloads.Place((("http://127.0.0.1:9/x",),), downloads.PLACES["lifesci"].parse)
    with pytest.raises(DataError, match=r"lifesci on a public server, got: http://127"):
        list(downloads.fetch(tmp_path, ["lifesci"], places={"lifesci": nobody}))
    plain = downloads.Place((("http://example.org/x",),), downloads.PLACES["lifesci"].parse)
    with pytest.raises(DataError, match="https"):
        list(downloads.fetch(tmp_path, ["lifesci"], places={"lifesci": plain}))
    assert all(a.startswith("https://") for p in downloads.PLACES.values() for one in p.mirrors for a in one)


def test_the_checksum_does_not_depend_on_the_memory_layout():
    values = np.arange(6.0).reshape(2, 3)
    assert checksum(values) == checksum(np.asfortranarray(values))
    assert checksum(values) != checksum(values.reshape(3, 2))
