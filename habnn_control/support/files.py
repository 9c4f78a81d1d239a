"""Atomic writing of files, and one file format for named arrays with a JSON header, without pickle."""

import errno
import hashlib
import io
import json
import math
import os
import re
import stat
import time
import uuid
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

FORMAT = "habnn_control"
FORMAT_VERSION = 2
LARGEST_FILE = 2**30  # bytes of a file of arrays
LARGEST_JSON = 2**22  # bytes of a JSON file, and of the header of a file of arrays
_HEADER = "header.json"
_SEAL = "sha256:"  # the comment of the archive: this, and the digest of all bytes before the comment
_SEAL_SIZE = len(_SEAL) + 64
_KINDS = "biufcSU"  # dtypes: bool, numbers, bytes, text
_LEFTOVER = re.compile(r"\..+\.[0-9a-f]{12}\.tmp")  # temporary file of `atomic_write` in a process that was killed
_STALE = 3600.0  # seconds after which no process can still be writing to a temporary file


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


def check_writable(path: str | Path) -> None:
    """Raise OSError unless a file can be written to `path`: before a long computation whose result shall go there.

    Missing parent folders are created; a file that is there stays as it is.
    """
    path = Path(path)
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    probe = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        probe.open("xb").close()
        probe.unlink()
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(path)) from error


def is_leftover(path: Path) -> bool:
    """Return whether a file is a temporary one of `atomic_write`: of a process that writes now, or was killed."""
    return _LEFTOVER.fullmatch(path.name) is not None


def remove_leftovers(folder: str | Path) -> None:
    """Remove the temporary files that killed processes left in a folder and its subfolders.

    Files younger than an hour stay: another process may be writing to them.
    """
    for path in Path(folder).rglob(".*.tmp"):
        with suppress(OSError):  # another process was faster, or the disk is read-only
            if is_leftover(path) and time.time() - path.stat().st_mtime > _STALE:
                path.unlink()


def read_json(path: str | Path) -> Any:
    """Return the content of a JSON file; raise ValueError, which names the file, if it is not a readable one."""
    try:
        return json.loads(bytes(_read(path, LARGEST_JSON)))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"read_json: {path} must be a JSON file, got {error}; restore or remove the file.") from error


def save_arrays(path: str | Path, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Save named arrays and a JSON header as one file, atomically and without pickle.

    The file is an uncompressed npz archive that `numpy.load` opens, with one additional member, header.json. Its
    comment is the SHA-256 digest of everything before. Equal content gives equal bytes.

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
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as archive:
        archive.writestr(zipfile.ZipInfo(_HEADER), text)
        for name, array in members.items():
            buffer = io.BytesIO()
            np.lib.format.write_array(buffer, array, allow_pickle=False)
            archive.writestr(zipfile.ZipInfo(f"{name}.npy"), buffer.getvalue())
        archive.comment = bytes(_SEAL_SIZE)  # its length is part of what is sealed
    sealed = content.getbuffer()[:-_SEAL_SIZE]
    with atomic_write(path) as file:
        file.write(sealed)
        file.write(_seal(sealed))


def load_arrays(path: str | Path, kind: str) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file written by `save_arrays`, after verifying its checksum.

    A file that is damaged, foreign or made to do harm raises ValueError. Nothing in a file is executed, and the memory
    needed is at most a few times the size of the file, which must not exceed LARGEST_FILE.

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
        content = _read(path, LARGEST_FILE)
        header = _header(content)
    except OSError:
        raise
    except Exception as error:  # whatever the parsers of zip and JSON raise, the bytes are the reason
        raise ValueError(f"{requirement}, got a damaged or foreign file ({error}); save it again.") from error
    if not isinstance(header, dict) or header.get("format") != FORMAT:
        raise ValueError(f"{requirement}, got a file of another program; pass a file that was saved by {FORMAT}.")
    if header.get("format_version") != FORMAT_VERSION:
        version = header.get("format_version")
        raise ValueError(f"{requirement}, got format version {version!r}; this release reads version {FORMAT_VERSION}.")
    if bytes(content[-_SEAL_SIZE:]) != _seal(content[:-_SEAL_SIZE]):
        raise ValueError(f"{requirement}, got a damaged or foreign file (its checksum is wrong); save it again.")
    if header.get("kind") != kind:
        raise ValueError(f"{requirement}, got kind {header.get('kind')!r}; pass the file of a {kind}.")
    try:
        return header, _arrays(content)
    except Exception as error:  # as above
        raise ValueError(f"{requirement}, got a damaged or foreign file ({error}); save it again.") from error


def _read(path: str | Path, largest: int) -> memoryview:
    """Return the bytes of a regular file; raise ValueError if it is something else or larger than `largest`."""
    mode = os.stat(path).st_mode
    if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):  # to open a pipe or a device could take for ever
        raise ValueError("not a regular file")
    with Path(path).open("rb", buffering=0) as file:
        size = os.fstat(file.fileno()).st_size
        if size > largest:
            raise ValueError(f"{size} bytes, where at most {largest} are read")
        try:
            return memoryview(file.read(size))
        except OSError as error:  # does not name the file
            raise OSError(error.errno, error.strerror, str(path)) from error


def _seal(content: memoryview) -> bytes:
    return (_SEAL + hashlib.sha256(content).hexdigest()).encode()


def _header(content: memoryview) -> Any:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return json.loads(_member(archive, archive.getinfo(_HEADER), LARGEST_JSON))


def _arrays(content: memoryview) -> dict[str, NDArray[Any]]:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = [info for info in archive.infolist() if info.filename != _HEADER]
        if len({info.filename for info in members}) < len(members):
            raise ValueError("two members of one name")
        return {info.filename.removesuffix(".npy"): _array(_member(archive, info, len(content))) for info in members}


def _member(archive: zipfile.ZipFile, info: zipfile.ZipInfo, largest: int) -> bytes:
    """Return the bytes of a member, which must be stored without compression: it cannot be larger than the file."""
    if info.compress_type != zipfile.ZIP_STORED or info.file_size != info.compress_size or info.file_size > largest:
        raise ValueError(f"member {info.filename!r} is compressed or too large")
    return archive.read(info)


def _array(content: bytes) -> NDArray[Any]:
    """Return the array in the bytes of an npy file; memory is only taken for as many bytes as there are."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    read_header = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}[version]
    shape, _, dtype = read_header(file)
    if dtype.kind not in _KINDS or math.prod(shape) * dtype.itemsize != len(content) - file.tell():
        raise ValueError(f"an array of shape {shape} and dtype {dtype} in {len(content)} bytes")
    file.seek(0)
    return np.asarray(np.lib.format.read_array(file, allow_pickle=False))
