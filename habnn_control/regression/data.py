"""The data sets: read from a folder of CSV files, or downloaded once into a cache."""

import hashlib
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from habnn_control.support.files import atomic_write
from habnn_control.support.names import nearest

Array = NDArray[np.float64]
MIN_ROWS = 20  # a tenth is the test set, and a tenth of the rest chooses noise levels


class Source(NamedTuple):
    """A data set on OpenML, with the number of rows and the target mean that the right columns have."""

    openml_id: int
    target: str
    rows: int
    target_mean: float


SOURCES = {
    "concrete": Source(44959, "strength", 1030, 35.818),
    "energy": Source(44960, "heating_load", 768, 22.307),
    "wine": Source(287, "quality", 6497, 5.8184),
    "naval": Source(44969, "gt_compressor_decay_state_coefficient", 11934, 0.975),
    "yacht": Source(42370, "Residuary_resistance", 308, 10.495),
    "kin8nm": Source(44980, "y", 8192, 0.71428),
}


# Sets that scikit-learn brings or generates: the function and its arguments.
BUILT_IN: dict[str, tuple[str, dict[str, Any]]] = {
    "diabetes": ("load_diabetes", {}),
    "friedman1": ("make_friedman1", {"n_samples": 500, "noise": 1.0, "random_state": 0}),
    "friedman2": ("make_friedman2", {"n_samples": 500, "noise": 125.0, "random_state": 0}),
}


def locate(name: str, data_dir: str | Path | None = None) -> Path:
    """Return the CSV file of a data set: in `data_dir` if given, else in the cache, downloaded if missing.

    The sets in BUILT_IN come from scikit-learn, whatever `data_dir` is.

    The cache is $XDG_CACHE_HOME/habnn_control (or ~/.cache/habnn_control); each file lies beside its SHA-256.
    """
    check_dataset(name, data_dir)
    if name in BUILT_IN:
        return _built_in(name)
    if data_dir:
        return Path(data_dir) / f"{name}.csv"
    path = cache_folder() / f"{name}.csv"
    if not path.is_file():
        _download(name, path)
    if sha256(path) != path.with_suffix(".sha256").read_text().strip():
        raise ValueError(f"uci: {path} must be the file that was downloaded, got another checksum; delete it.")
    return path


def check_dataset(name: str, data_dir: str | Path | None = None) -> None:
    """Raise unless `locate` knows a data set of that name; nothing is downloaded."""
    if name in BUILT_IN:
        return
    if data_dir:
        if not (Path(data_dir) / f"{name}.csv").is_file():
            found = sorted(file.stem for file in Path(data_dir).glob("*.csv"))
            raise ValueError(f"uci: dataset must be a CSV file in {data_dir}, got {name!r}; {nearest(name, found)}")
    elif name not in SOURCES:
        raise ValueError(f"uci: dataset must be one of {', '.join(SOURCES)}, got {name!r}; {nearest(name, SOURCES)}")


def read(path: str | Path) -> tuple[Array, Array]:
    """Read inputs (n, d) and targets (n,) from a CSV file, with or without a header, with the target as last column."""
    with open(path) as file:
        first = file.readline()
    try:
        table = pd.read_csv(path, header=None if _numeric(first) else 0).to_numpy(dtype=np.float64)
    except (ValueError, pd.errors.ParserError) as error:
        raise ValueError(f"uci: {path} must be a CSV file of numbers, got {error}; encode categories first.") from error
    if table.shape[1] < 2 or len(table) < MIN_ROWS:
        raise ValueError(
            f"uci: {path} must have an input, a target and {MIN_ROWS} rows at least, got shape {table.shape}; add data."
        )
    if not np.isfinite(table).all():
        row = int(np.flatnonzero(~np.isfinite(table).all(axis=1))[0])
        raise ValueError(f"uci: {path} must hold finite numbers, got {table[row]} in row {row}; remove such rows.")
    return table[:, :-1], table[:, -1]


def sha256(path: str | Path) -> str:
    """Return the checksum of a file."""
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def _numeric(line: str) -> bool:
    try:
        [float(cell) for cell in line.split(",")]
    except ValueError:
        return False
    return True


def cache_folder() -> Path:
    """Return the folder for downloaded data sets."""
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "habnn_control"


def _built_in(name: str) -> Path:
    """Write a set of scikit-learn to the cache and return the file."""
    from sklearn import datasets

    function, arguments = BUILT_IN[name]
    x, y = getattr(datasets, function)(**arguments, **({"return_X_y": True} if function.startswith("load") else {}))
    path = cache_folder() / f"{name}.csv"
    with atomic_write(path) as file:
        np.savetxt(file, np.column_stack([x, y]), delimiter=",", fmt="%.17g")
    return path


def _download(name: str, path: Path) -> None:
    """Fetch a data set from OpenML (scikit-learn checks the server's own checksum) and write it with ours."""
    from sklearn.datasets import fetch_openml

    source = SOURCES[name]
    try:
        table = fetch_openml(data_id=source.openml_id, as_frame=True, parser="auto").frame
    except Exception as error:  # whatever the network or the server does, the remedy is the same
        raise ValueError(
            f"uci: dataset {name!r} must be in a folder or downloadable, got {type(error).__name__}: {error}; "
            f"pass --data-dir with {name}.csv, target last."
        ) from error
    if source.target not in table or len(table) != source.rows:
        raise ValueError(
            f"uci: OpenML {source.openml_id} must have {source.rows} rows and a column {source.target}, "
            f"got {len(table)} rows and {', '.join(table)}; pass --data-dir with {name}.csv."
        )
    table = table[[*(column for column in table if column != source.target), source.target]].apply(pd.to_numeric)
    mean = float(table[source.target].mean())
    if not abs(mean - source.target_mean) < 0.005 * abs(source.target_mean):
        raise ValueError(
            f"uci: {source.target} of OpenML {source.openml_id} must have the mean {source.target_mean}, got {mean:g}; "
            f"pass --data-dir with {name}.csv."
        )
    with atomic_write(path) as file:
        table.to_csv(file, index=False, lineterminator="\n")
    with atomic_write(path.with_suffix(".sha256")) as file:
        file.write(f"{sha256(path)}\n".encode())
