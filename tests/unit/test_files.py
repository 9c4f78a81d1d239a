"""Atomic writing and the array format: round trips, damaged files, killed writers."""

import errno
import math
import os
import re
import signal
import subprocess
import sys
import zipfile

import numpy as np
import pytest

from habnn_control.support.files import atomic_write, check_writable, load_arrays, save_arrays

ARRAYS = {"weights": np.arange(6.0).reshape(2, 3), "steps": np.array(7), "names": np.array(["a", "bc"])}


@pytest.mark.parametrize("convert", [str, lambda path: path])
def test_save_arrays_round_trip_keeps_path_header_and_arrays(tmp_path, convert):
    path = tmp_path / "folder" / "model"
    save_arrays(convert(path), {"kind": "demo", "dof": math.inf, "hidden": [3, 4]}, ARRAYS)
    header, arrays = load_arrays(convert(path), "demo")
    assert [entry.name for entry in path.parent.iterdir()] == ["model"]
    assert header["dof"] == math.inf
    assert header["hidden"] == [3, 4]
    assert arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(arrays[name], array)
        assert arrays[name].dtype == array.dtype


def test_save_arrays_opens_vs_numpy(tmp_path):
    save_arrays(tmp_path / "x", {"kind": "demo"}, ARRAYS)
    with np.load(tmp_path / "x", allow_pickle=False) as npz:
        np.testing.assert_array_equal(npz["weights"], ARRAYS["weights"])


def test_save_arrays_is_deterministic(tmp_path):
    for name in "ab":
        save_arrays(tmp_path / name, {"kind": "demo"}, ARRAYS)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_save_arrays_raises_on_object_array_and_keeps_old_file(tmp_path):
    path = tmp_path / "x"
    save_arrays(path, {"kind": "demo"}, ARRAYS)
    with pytest.raises(TypeError, match=r"arrays\['bad'\] must be numbers or text"):
        save_arrays(path, {"kind": "demo"}, {"bad": np.array([{}])})
    assert load_arrays(path, "demo")[1].keys() == ARRAYS.keys()


def test_save_arrays_raises_on_missing_kind(tmp_path):
    with pytest.raises(ValueError, match=r"header\['kind'\] must be a text, got None"):
        save_arrays(tmp_path / "x", {}, {})
    assert not list(tmp_path.iterdir())


def test_load_arrays_raises_on_every_truncation(tmp_path):
    path = tmp_path / "x"
    save_arrays(path, {"kind": "demo"}, ARRAYS)
    whole = path.read_bytes()
    for size in range(0, len(whole), 7):
        path.write_bytes(whole[:size])
        with pytest.raises(ValueError, match="damaged or foreign file"):
            load_arrays(path, "demo")


def test_load_arrays_raises_on_flipped_byte_of_data(tmp_path):
    path = tmp_path / "x"
    save_arrays(path, {"kind": "demo"}, ARRAYS)
    whole = bytearray(path.read_bytes())
    whole[whole.index(ARRAYS["weights"].tobytes()) + 20] ^= 1
    path.write_bytes(whole)
    with pytest.raises(ValueError, match="damaged or foreign file"):
        load_arrays(path, "demo")


def test_load_arrays_raises_on_foreign_files(tmp_path):
    (tmp_path / "text").write_text("hello")
    np.savez(tmp_path / "plain.npz", a=np.ones(2))
    np.save(tmp_path / "pickled.npy", np.array([{}]), allow_pickle=True)
    with zipfile.ZipFile(tmp_path / "other", "w") as archive:
        archive.writestr("header.json", "[1]")
    for name in ("text", "plain.npz", "pickled.npy", "other"):
        with pytest.raises(ValueError, match=rf"{name} must be a habnn_control file of kind 'demo', got a"):
            load_arrays(tmp_path / name, "demo")


def test_load_arrays_raises_on_other_kind_and_version(tmp_path):
    save_arrays(tmp_path / "x", {"kind": "other"}, {})
    with pytest.raises(ValueError, match="of kind 'demo', got kind 'other'"):
        load_arrays(tmp_path / "x", "demo")
    save_arrays(tmp_path / "x", {"kind": "demo", "format_version": 99}, {})
    with pytest.raises(ValueError, match="got format version 99"):
        load_arrays(tmp_path / "x", "demo")


def test_load_arrays_raises_on_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match="nothing"):
        load_arrays(tmp_path / "nothing", "demo")


def test_atomic_write_error_in_block_leaves_old_content_and_no_litter(tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"old")

    def fail() -> None:
        with atomic_write(path) as file:
            file.write(b"half")
            raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        fail()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_atomic_write_error_names_the_final_file(tmp_path):
    def write(path, error) -> None:
        with atomic_write(path):
            raise error

    with pytest.raises(OSError, match=re.escape(f"No space left on device: '{tmp_path / 'x'}'")):
        write(tmp_path / "x", OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(FileNotFoundError, match="another"):  # an error that is not about this file
        write(tmp_path / "x", FileNotFoundError(errno.ENOENT, "No such file", "another"))
    (tmp_path / "folder").mkdir()
    with pytest.raises(IsADirectoryError, match="folder'"):
        write_text(tmp_path / "folder")


def write_text(path):
    with atomic_write(path) as file:
        file.write(b"x")


def test_atomic_write_respects_umask(tmp_path):
    with atomic_write(tmp_path / "atomic") as file:
        file.write(b"x")
    (tmp_path / "plain").write_bytes(b"x")
    assert (tmp_path / "atomic").stat().st_mode == (tmp_path / "plain").stat().st_mode


def test_atomic_write_killed_process_leaves_old_content(tmp_path):
    path = tmp_path / "x"
    path.write_bytes(b"old")
    program = (
        "import os, signal; from habnn_control.support.files import atomic_write\n"
        f"with atomic_write({str(path)!r}) as file:\n"
        "    file.write(b'half' * 10_000); file.flush(); os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=os.environ, check=False)
    assert done.returncode == -signal.SIGKILL
    assert path.read_bytes() == b"old"


def test_check_writable_leaves_nothing_behind(tmp_path):
    check_writable(tmp_path / "new" / "table.csv")
    (tmp_path / "old.csv").write_text("kept")
    check_writable(tmp_path / "old.csv")
    assert (tmp_path / "old.csv").read_text() == "kept"
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["old.csv"]


def test_check_writable_raises_on_a_folder_and_below_a_file(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(IsADirectoryError):
        check_writable(tmp_path)
    with pytest.raises(OSError, match=r"(File exists|Not a directory): .*file/x\.csv'"):
        check_writable(tmp_path / "file" / "x.csv")
