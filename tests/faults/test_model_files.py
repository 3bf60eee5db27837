"""A model file that is truncated or has a flipped bit is refused or gives the same model."""

import os
import random
import zipfile

import pytest

import dpem
from dpem.errors import ModelFileError
from support.estimators import ESTIMATORS
from support.model_files import load, same, saved


@pytest.mark.parametrize("name", ESTIMATORS)
def test_truncated_files_are_refused(name, tmp_path):
    """Files are cut at about 25 lengths, including the last bytes."""
    content, model = saved(name)
    path = tmp_path / "model"
    path.write_bytes(content)
    assert same(load(name, path), model)
    chance = random.Random(name)
    lengths = {0, 1, 22, *range(len(content) - 12, len(content)), *chance.sample(range(len(content)), 12)}
    for length in lengths:
        path.write_bytes(content[:length])
        with pytest.raises(ModelFileError):
            load(name, path)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_flipped_bit_never_gives_a_different_model(name, tmp_path):
    """For each of 50 flips, loading raises `ModelFileError` or gives the same model to the last bit."""
    content, model = saved(name)
    path, chance = tmp_path / "model", random.Random(name)
    refused = 0
    for bit in chance.sample(range(8 * len(content)), 50):
        damaged = bytearray(content)
        damaged[bit // 8] ^= 1 << bit % 8
        path.write_bytes(damaged)
        try:
            assert same(load(name, path), model), bit
        except ModelFileError:
            refused += 1
    assert refused > 12


def test_only_regular_files_are_read(tmp_path):
    """Reading a pipe would wait forever, and a device may never end."""
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, "/dev/zero"):
        with pytest.raises(ModelFileError, match="not a regular file"):
            dpem.load(path)


def test_models_beyond_the_limit_of_compression_are_saved_and_loaded(tmp_path, monkeypatch):
    """Arrays beyond the limit are not compressed, so that the file is as large as its header claims."""
    model = saved("GaussianMixture")[1]
    monkeypatch.setattr("dpem.estimator.files._MEMORY_LIMIT", 100)
    model.save(tmp_path / "model")
    with zipfile.ZipFile(tmp_path / "model") as file:
        assert {member.compress_type for member in file.infolist()} == {zipfile.ZIP_STORED}
    assert same(dpem.load(tmp_path / "model"), model)
    (tmp_path / "small").write_bytes(saved("GaussianMixture")[0])
    with pytest.raises(ModelFileError):
        dpem.load(tmp_path / "small")
