"""One table in every form that a fit accepts, in uneven parts."""

from itertools import pairwise

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.feather

import dpem
from dpem.estimator.trials import HOLES, NUMBERS, TABLE, mixed_table

__all__ = [
    "HOLES", "LOCAL", "NUMBERS", "TABLE", "VISITS", "mixed_table", "parts", "visits",
]  # fmt: skip

N_ROWS = 603
CUTS = (0, 1, 1, 38, 301, 302, N_ROWS)  # one row, no rows, an odd number, half, one row, the rest


def parts(frame):
    """Return parts of the table with uneven sizes, other orders of columns, and other types."""
    cut = [frame.iloc[start:stop].reset_index(drop=True) for start, stop in pairwise(CUTS)]
    cut[2] = cut[2][list(frame.columns[::-1])]
    cut[3] = cut[3].astype({"a": np.float32, "visits": np.int16})
    cut[4] = cut[4].astype({"visits": float})
    return cut


def _parquet(frame, folder):
    frame.to_parquet(folder / "one.parquet", row_group_size=37)
    return folder / "one.parquet"


def _parquet_files(frame, folder):
    for i, part in enumerate(parts(frame)):
        part.to_parquet(folder / f"part-{i}.parquet")
    return str(folder / "part-*.parquet")


def _csv_files(frame, folder):
    for i, part in enumerate(parts(frame)):
        part.astype({"a": float}).to_csv(folder / f"part-{i}.csv", index=False)  # all digits
    return sorted(folder.glob("part-*.csv"))


def _folder_of_feather(frame, folder):
    (folder / "feather").mkdir()
    for i, part in enumerate(parts(frame)):
        pa.feather.write_feather(
            pa.Table.from_pandas(part), folder / "feather" / f"{i}.feather", chunksize=29
        )
    return folder / "feather"


def _arrow_stream(frame, folder):
    table = pa.Table.from_pandas(frame)
    with (
        pa.OSFile(str(folder / "rows.arrows"), "wb") as file,
        pa.ipc.new_stream(file, table.schema) as writer,
    ):
        writer.write_table(table, max_chunksize=50)
    return folder / "rows.arrows"


def _semicolons(frame, folder):
    shown = frame.assign(note='a "quoted"; note\nin two lines')
    shown.to_csv(folder / "rows.txt", index=False, sep=";")
    return dpem.Files(folder / "rows.txt", format="csv", delimiter=";")


def _no_header(frame, folder):
    frame.to_csv(folder / "bare.csv", index=False, header=False)
    return dpem.Files([folder / "bare.csv"], header=list(frame.columns))


LOCAL = {
    "pandas": lambda frame, folder: frame,
    "polars": lambda frame, folder: pl.from_pandas(frame),
    "pyarrow": lambda frame, folder: pa.Table.from_pandas(frame),
    "arrow types": lambda frame, folder: frame.convert_dtypes(dtype_backend="pyarrow"),
    "parquet": _parquet,
    "parquet files": _parquet_files,
    "csv files": _csv_files,
    "csv.gz": lambda frame, folder: frame.to_csv(folder / "r.csv.gz", index=False) or folder / "r.csv.gz",
    "csv with semicolons": _semicolons,
    "csv without header": _no_header,
    "folder of feather": _folder_of_feather,
    "arrow stream": _arrow_stream,
    "dataset": lambda frame, folder: pa.dataset.dataset(_parquet(frame, folder)),
    "function of frames": lambda frame, folder: lambda: iter(parts(frame)),
    "function of record batches": lambda frame, folder: lambda: pa.Table.from_pandas(frame).to_reader(99),
}


VISITS = dpem.Schema(
    {
        "day": {"kind": "date", "bounds": ["2020-01-01", "2029-12-31"], "missing": True},
        "took": {"kind": "duration", "bounds": ["0:00:00", "8:00:00"], "resolution": "minute"},
        "paid": {"kind": "continuous", "bounds": [0, 9999], "thousands": ","},
        "again": {"kind": "boolean", "true": ["ja"], "false": ["nein"]},
    }
)


def visits(n=300):
    """Return a table with dates, durations, amounts as text, and words; one date is missing."""
    rng = np.random.default_rng(0)
    days = np.datetime64("2023-01-01", "us") + rng.integers(0, 700, n).astype("timedelta64[D]")
    table = pd.DataFrame(
        {
            "day": days,
            "took": [f"{minutes // 60}:{minutes % 60:02}:00" for minutes in rng.integers(5, 300, n)],
            "paid": [f"{paid:,.2f}" for paid in rng.uniform(0, 5000, n)],
            "again": rng.choice(["ja", "nein"], n),
        }
    )
    table.loc[3, "day"] = pd.NaT
    return table
