"""Write files whole or not at all, and keep arrays with a JSON header in one file without pickle."""

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

    The bytes go to a hidden temporary file beside `path`, which then takes its name: a reader, or a process that is
    killed, never meets half a file. Missing parent folders are made.

    Parameters
    ----------
    path : str or Path
        Where the file shall be; used as given, no suffix is added.

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
        raise OSError(error.errno, error.strerror, str(path)) from error  # names the file that people know
    finally:
        with suppress(OSError):  # there may be none, and a read-only disk says so of any
            temporary.unlink()


def save_arrays(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Save named arrays and a JSON header as one file, atomically and without pickle.

    The file is an npz that `numpy.load` opens, with one more member, header.json. Equal content gives equal bytes.

    Parameters
    ----------
    path : str or Path
        Used as given.
    header : mapping
        What JSON can hold (infinity included); must have a text under "kind", the name `load_arrays` asks for.
    arrays : mapping of str to array
        Any dtype but object.
    """
    if not isinstance(header.get("kind"), str):
        raise ValueError(f"save_arrays: header['kind'] must be a text, got {header.get('kind')!r}; name what it holds.")
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
    """Load what `save_arrays` wrote, with every checksum verified.

    Parameters
    ----------
    path : str or Path
        The file.
    kind : str
        The header["kind"] it must have.

    Returns
    -------
    header : dict
    arrays : dict of str to array
    """
    wanted = f"load: {path} must be a {FORMAT} file of kind {kind!r}"
    try:
        with zipfile.ZipFile(path) as archive:
            header = json.loads(archive.read(_HEADER))
            arrays = {
                name.removesuffix(".npy"): np.lib.format.read_array(io.BytesIO(archive.read(name)), allow_pickle=False)
                for name in archive.namelist()
                if name != _HEADER
            }
    except _DAMAGE as error:
        raise ValueError(f"{wanted}, got a damaged or foreign file ({error}); save it again.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{wanted}, got a file of another program; pass a file that was saved by {FORMAT}.")
    if header.get("format_version") != FORMAT_VERSION:
        version = header.get("format_version")
        raise ValueError(f"{wanted}, got format version {version!r}; this release reads version {FORMAT_VERSION}.")
    if header.get("kind") != kind:
        raise ValueError(f"{wanted}, got kind {header.get('kind')!r}; pass the file of a {kind}.")
    return header, arrays
