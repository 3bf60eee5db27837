"""Cells of a tensor are parsed on its device as `Column.parse` parses them, and get the same grid rows."""

import numpy as np
import pytest
import torch

import dpem
from dpem.data import Domain, TableGrid
from dpem.data.device_cells import parse
from dpem.data.levels import LevelGrid
from dpem.errors import InvalidArgumentError

DEVICES = ["cpu", *(["cuda"] if torch.cuda.is_available() else [])]
COLUMNS = {
    "number": {"kind": "continuous", "bounds": [-1.5, 2.25]},
    "missing": {"kind": "continuous", "bounds": [0, 10], "missing": True},
    "outside": {"kind": "continuous", "bounds": [0, 10], "missing": True, "outside": "missing"},
    "words": {"kind": "continuous", "bounds": [-10, 10], "missing": True, "na_values": ["-9", "n/a", "1e3"]},
    "absent": {"kind": "integer", "bounds": [0, 7], "na_values": ["-9.0", "inf", "true"]},
    "comma": {"kind": "continuous", "bounds": [0, 3], "decimal": ",", "na_values": ["0,5", "0.25"]},
    "whole": {"kind": "integer", "bounds": [-3, 1000], "missing": True},
    "codes": {"kind": "categorical", "categories": [0, 1, 2, 7]},
    "labels": {"kind": "categorical", "categories": ["0", "2.5", "b", "1.0", "inf", "true"], "missing": True},
    "huge": {"kind": "categorical", "categories": [2**53 + 1, -1e300, 1e-7]},
    "other": {"kind": "categorical", "categories": [1, 2, 3], "outside": "other"},
    "third": {"kind": "ordered", "categories": [1, 2, 3], "outside": 3, "na_values": ["2"], "missing": True},
    "text": {"kind": "categorical", "categories": ["a", "b"]},
    "flag": {"kind": "boolean"},
    "answer": {"kind": "boolean", "true": ["1", "2"], "false": ["0", "-1"], "missing": True},
    "bools": {"kind": "categorical", "categories": [True, False]},
    "day": {"kind": "date", "bounds": ["2020-01-01", "2029-12-31"], "format": "%Y%m%d", "missing": True},
    "took": {"kind": "duration", "bounds": ["0:00:00", "8:00:00"], "resolution": "minute"},
}
HOSTILE = np.array(
    [0.0, -0.0, 1.0, 2.0, 2.5, 3.0, 3.5, 7.0, -1.0, -9.0, 0.25, 0.5, 1e3, 1e-7, 0.1, np.nan, np.inf, -np.inf,
     1e300, -1e300, 5e-324, 2.0**53, 20240131.0, 1e9, 90.4, -1.5, 2.25, 480.0, 10.0, 1000.5]
)  # fmt: skip


@pytest.fixture(params=DEVICES)
def device(request):
    return request.param


@pytest.mark.parametrize("name", COLUMNS)
@pytest.mark.parametrize(
    "dtype",
    [torch.float64, torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.uint8, torch.bool],
)
def test_cells_are_parsed_as_on_the_processor(name, dtype, device):
    (column,) = dpem.Schema({name: COLUMNS[name]}).columns
    cells = torch.as_tensor(HOSTILE)
    if not dtype.is_floating_point:
        cells = torch.nan_to_num(cells, nan=4.0).clamp(-(2.0**62), 2.0**62).to(torch.int64)
    cells = cells.to(dtype)
    plain = cells.to(torch.float64) if dtype in {torch.float16, torch.bfloat16} else cells
    with np.errstate(all="ignore"):
        expected, reasons = column.parse(plain.numpy())
    values, found = parse(column, cells.to(device))
    assert values.dtype == found.dtype == torch.float64
    np.testing.assert_array_equal(values.cpu().numpy(), expected)
    np.testing.assert_array_equal(found.cpu().numpy(), reasons)


def test_grids_of_tables_equal_those_of_the_processor(device):
    schema = dpem.Schema(COLUMNS)
    random = np.random.default_rng(1)
    cells = np.where(random.random((len(COLUMNS), 500)) < 0.3, random.normal(0, 9, (len(COLUMNS), 500)), 0.0)
    cells[:, :90] = random.permuted(np.resize(HOSTILE, (len(COLUMNS), 90)), axis=1)
    with np.errstate(all="ignore"):
        parsed = np.stack([c.parse(own)[0] for c, own in zip(schema.columns, cells, strict=True)])
        for grid in (
            LevelGrid(schema),
            TableGrid(schema),
            Domain.from_arguments(len(COLUMNS), schema=schema),
        ):
            found = grid.to_grid_tensor(torch.as_tensor(parsed, device=device))
            np.testing.assert_array_equal(found.cpu().numpy(), grid.to_grid(parsed))


def test_errors_about_tensors_show_no_cells():
    """Shapes are public; an error never contains a cell."""
    schema = dpem.Schema({"a": {"kind": "integer", "bounds": [0, 9]}, "b": {"kind": "boolean"}})
    with pytest.raises(InvalidArgumentError, match="Expected the 2 columns of the schema, got 3") as error:
        dpem.KMeans(2, epsilon=1.0, schema=schema).fit(torch.full((5, 3), 8128.5))
    assert "8128" not in str(error.value)
    tensor = torch.tensor([[8128.5, np.nan], [np.inf, -8128.5]] * 50)
    with pytest.warns(dpem.errors.DataQualityWarning) as warned:
        model = dpem.KMeans(2, epsilon=50.0, schema=schema).fit(tensor)
    shown = [str(one.message) for one in warned]
    assert "8128" not in " ".join([repr(model), str(model), str(model.data_quality_), *shown])
