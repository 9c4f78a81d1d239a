"""Attack the files of networks and agents: mutations, and archives made to do harm with a right checksum."""

import io
import json
import tempfile
import tracemalloc
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
from _attack import Outcome  # type: ignore[import-not-found]

import agents
import envs  # noqa: F401  # registers the environments
from habnn_control import HABNN
from habnn_control.support import files
from habnn_control.support.files import LARGEST_JSON, load_arrays


def mutated(content: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with a change of a random kind: bits, a run of bytes, a cut, a swap, an insertion."""
    data, at = bytearray(content), int(rng.integers(len(content)))
    kind, length = rng.integers(6), int(rng.integers(1, 40))
    if kind == 0:
        data[at] ^= 1 << int(rng.integers(8))
    elif kind == 1:
        data[at : at + length] = rng.bytes(len(data[at : at + length]))
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        del data[at : at + length]
    elif kind == 4:
        other = int(rng.integers(len(content)))
        data[at : at + length], data[other : other + length] = data[other : other + length], data[at : at + length]
    else:
        data[at:at] = rng.bytes(length)
    return bytes(data)


def sealed(path: Path, members: Sequence[tuple[str, str | bytes]], compression: int = zipfile.ZIP_STORED) -> None:
    """Write an archive with a right checksum: what an attacker would do."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", compression) as archive:
        for name, content in members:
            archive.writestr(zipfile.ZipInfo(name), content, compress_type=compression)
        archive.comment = bytes(files._SEAL_SIZE)
    body = memoryview(buffer.getvalue())[: -files._SEAL_SIZE]
    path.write_bytes(bytes(body) + files._seal(body))


def header(**more: Any) -> tuple[str, str]:
    """Return the member that says what a file is."""
    return "header.json", json.dumps({"format": "habnn_control", "format_version": 2, "kind": "demo", **more})


def npy(shape: tuple[int, ...], dtype: Any = "<f8", data: bytes = b"") -> bytes:
    """Return an npy file whose header may promise anything."""
    text = f"{{'descr': {dtype!r}, 'fortran_order': False, 'shape': {shape}}}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode() + data


CRAFTED: dict[str, list[tuple[str, str | bytes]]] = {
    "huge shape": [header(), ("a.npy", npy((10**12,)))],
    "huge item": [header(), ("a.npy", npy((), "|V2000000000"))],
    "negative shape": [header(), ("a.npy", npy((-1,)))],
    "objects": [header(), ("a.npy", npy((1,), "|O", b"\x80\x04N."))],
    "fields": [header(), ("a.npy", npy((1,), [("x", "<f8")], bytes(8)))],
    "no array": [header(), ("a.npy", b"hello")],
    "unknown version": [header(), ("a.npy", b"\x93NUMPY\x09\x00" + bytes(20))],
    "nested json": [("header.json", "[" * 100_000 + "]" * 100_000)],
    "large json": [("header.json", " " * (LARGEST_JSON + 1) + "{}")],
    "long number": [("header.json", "1" * 10_000)],
    "not utf-8": [("header.json", b"\xff\xfe\x00")],
    "no header": [("a.npy", npy((0,)))],
}


def attack(effort: float) -> list[Outcome]:
    """Return the outcomes of mutated and of crafted files."""
    n = max(int(3000 * effort), 50)
    with tempfile.TemporaryDirectory() as folder:
        path, env = Path(folder, "file"), gym.make("IndustrialBenchmark-v0")
        env.reset(seed=0)
        HABNN.control(2, 1, hidden=(2,)).save(path)
        outcomes = [_mutations("network", path, lambda: HABNN.load(path), n)]
        agents.make("wander", env).learn(3).save(path)
        outcomes.append(_mutations("agent", path, lambda: agents.load(path, env), n))
        return [*outcomes, _crafted(path)]


def _mutations(what: str, path: Path, load: Callable[[], object], n: int) -> Outcome:
    content, rng = path.read_bytes(), np.random.default_rng(0)
    clear = loaded = changed = 0
    for _ in range(n):
        damaged = mutated(content, rng)
        if damaged == content:
            continue
        changed += 1
        path.write_bytes(damaged)
        try:
            load()
            loaded += 1
        except ValueError as error:
            clear += str(path) in str(error)
    told = f"{clear} clear errors that name the file, {loaded} loaded, {changed - clear - loaded} others"
    return Outcome(f"files: mutated {what} files", changed, told, clear == changed)


def _crafted(path: Path) -> Outcome:
    clear, most = 0, 0.0
    for members in CRAFTED.values():
        sealed(path, members)
        tracemalloc.start()
        try:
            load_arrays(path, "demo")
        except ValueError as error:
            clear += str(path) in str(error)
        most = max(most, tracemalloc.get_traced_memory()[1] / max(path.stat().st_size, 100_000))
        tracemalloc.stop()
    told = f"{clear} clear errors, memory at most {most:.1f} times the file (at least 100 kB)"
    return Outcome("files: crafted with a right checksum", len(CRAFTED), told, clear == len(CRAFTED) and most < 10)
