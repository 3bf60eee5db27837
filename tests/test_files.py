"""Files are written completely or not at all."""

import pytest

from dpem._files import make_folder, replacing
from dpem.errors import OutputError


def test_an_error_keeps_the_old_file(tmp_path):
    """Neither a partial file nor a temporary file is left."""
    (tmp_path / "a").write_text("before")

    def write(error):
        with replacing(tmp_path / "a") as temporary:
            temporary.write_text("half")
            raise error

    with pytest.raises(KeyError):
        write(KeyError())
    with pytest.raises(OutputError, match="no space"):
        write(OSError(28, "no space"))
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("a", "before")]


def test_folders_are_created_or_the_error_states_the_reason(tmp_path):
    make_folder(tmp_path / "a" / "b")
    make_folder(tmp_path / "a" / "b")
    (tmp_path / "file").touch()
    with pytest.raises(OutputError, match=r"a folder that can be created.*file"):
        make_folder(tmp_path / "file" / "c")
