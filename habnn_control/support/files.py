"""Atomic writing of files, and one file format for named arrays with a JSON header, without pickle."""

import io
import json
import os
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

FORMAT = "habnn_control"
FORMAT_VERSION = 1
_HEADER = "header.json"
_DAMAGE = (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, RuntimeError)


@contextmanager
def atomic_write(path: str | Path) -> Iterator[BinaryIO]:
    """Open a binary file that appears under `path` only when the block ends without an error.

    The bytes are written to a hidden temporary file in the same folder, which is renamed to `path` at the end. A reader
    never sees an incomplete file, even if the writing process is killed. Missing parent folders are created.

    Parameters
    ----------
    path : str or Path
        Final name of the file; no suffix is added.

    Yields
    ------
    BinaryIO
        The open temporary file.
    """
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        if error.errno is None or error.filename not in (None, str(temporary)):
            raise
        raise OSError(
            error.errno, error.strerror, str(path)
        ) from error  # the temporary name would mean nothing to the user
    finally:
        with suppress(OSError):  # renamed, never created, or on a read-only disk
            temporary.unlink()


def save_arrays(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Save named arrays and a JSON header as one file, atomically and without pickle.

    The file is an npz archive that `numpy.load` opens, with one additional member, header.json. Equal content gives
    equal bytes.

    Parameters
    ----------
    path : str or Path
        Name of the file; no suffix is added.
    header : mapping
        Values that JSON can represent (infinity included). The text under "kind" names the type of the object, which
        `load_arrays` checks.
    arrays : mapping of str to array
        Arrays of any dtype except object.
    """
    if not isinstance(header.get("kind"), str):
        raise ValueError(f"save_arrays: header['kind'] must be a text, got {header.get('kind')!r}; name the object.")
    text = json.dumps({"format": FORMAT, "format_version": FORMAT_VERSION, **header})
    members = {name: np.asanyarray(array) for name, array in arrays.items()}
    for name, array in members.items():
        if array.dtype.hasobject:
            raise TypeError(f"save_arrays: arrays[{name!r}] must be numbers or text, got dtype object; convert it.")
    with atomic_write(path) as file, zipfile.ZipFile(file, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for name, array in members.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())


def load_arrays(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file written by `save_arrays`, after verifying all checksums.

    Parameters
    ----------
    path : str or Path
        Name of the file.
    kind : str
        Required value of header["kind"].

    Returns
    -------
    header : dict
    arrays : dict of str to array
    """
    requirement = f"load: {path} must be a {FORMAT} file of kind {kind!r}"
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(_HEADER))
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name != _HEADER
            }
    except _DAMAGE as error:
        raise ValueError(f"{requirement}, got a damaged or foreign file ({error}); save it again.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{requirement}, got a file of another program; pass a file that was saved by {FORMAT}.")
    if header.get("format_version") != FORMAT_VERSION:
        version = header.get("format_version")
        raise ValueError(f"{requirement}, got format version {version!r}; this release reads version {FORMAT_VERSION}.")
    if header.get("kind") != kind:
        raise ValueError(f"{requirement}, got kind {header.get('kind')!r}; pass the file of a {kind}.")
    return header, arrays
