"""Data of the regression study: CSV files, the cache, and what happens without a network."""

import numpy as np
import pandas as pd
import pytest

from habnn_control.regression import data


def csv(path, rows=30, header="a,b,y", bad=None):
    table = np.random.default_rng(0).standard_normal((rows, 3))
    lines = [",".join(map(repr, row.tolist())) for row in table]
    if bad is not None:
        lines[7] = bad
    path.write_text("\n".join([*([header] if header else []), *lines]) + "\n")
    return table


@pytest.mark.parametrize("header", ["a,b,y", ""])
def test_read_takes_the_last_column_as_target(tmp_path, header):
    table = csv(tmp_path / "my.csv", header=header)
    x, y = data.read(tmp_path / "my.csv")
    np.testing.assert_array_equal(x, table[:, :2])
    np.testing.assert_array_equal(y, table[:, 2])


@pytest.mark.parametrize(
    ("bad", "message"), [("1,2,red", "must be a CSV file of numbers"), ("1,,3", "must hold finite numbers.*row 7")]
)
def test_read_raises_on_cells(tmp_path, bad, message):
    csv(tmp_path / "my.csv", bad=bad)
    with pytest.raises(ValueError, match=message):
        data.read(tmp_path / "my.csv")


def test_read_raises_on_too_few_rows(tmp_path):
    csv(tmp_path / "my.csv", rows=5)
    with pytest.raises(ValueError, match=r"20 rows at least, got shape \(5, 3\)"):
        data.read(tmp_path / "my.csv")


def test_locate_finds_files_and_suggests_names(tmp_path):
    csv(tmp_path / "yacht.csv")
    assert data.locate("yacht", tmp_path) == tmp_path / "yacht.csv"
    with pytest.raises(ValueError, match="did you mean 'yacht'"):
        data.locate("yact", tmp_path)
    with pytest.raises(ValueError, match="did you mean 'kin8nm'"):
        data.locate("kin8", None)


@pytest.fixture
def openml(monkeypatch, tmp_path):
    """Return a stand-in for fetch_openml that serves what the test puts into its frame, from an empty cache."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    source = data.SOURCES["yacht"]
    rng = np.random.default_rng(0)

    class Server:
        frame = pd.DataFrame({source.target: np.full(source.rows, source.target_mean), "a": rng.normal(size=308)})
        calls = 0

        def fetch(self, data_id, **_):
            assert data_id == source.openml_id
            self.calls += 1
            if self.frame is None:
                raise OSError("no route to host")
            return self

    server = Server()
    monkeypatch.setattr("sklearn.datasets.fetch_openml", server.fetch)
    return server


def test_locate_downloads_once_and_puts_the_target_last(openml):
    path = data.locate("yacht")
    x, y = data.read(data.locate("yacht"))
    assert openml.calls == 1
    np.testing.assert_allclose(y, data.SOURCES["yacht"].target_mean)
    np.testing.assert_array_equal(x[:, 0], openml.frame["a"])
    assert path.with_suffix(".sha256").read_text().strip() == data.sha256(path)


def test_locate_raises_on_a_damaged_cache(openml):
    path = data.locate("yacht")
    path.write_text(path.read_text()[:-2])
    with pytest.raises(ValueError, match="got another checksum; delete it"):
        data.locate("yacht")


def test_locate_raises_on_no_network(openml):
    openml.frame = None
    with pytest.raises(ValueError, match=r"got OSError: no route to host; pass --data-dir with yacht\.csv"):
        data.locate("yacht")
    assert not (data.cache_folder() / "yacht.csv").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda frame: frame.rename(columns={"Residuary_resistance": "z"}), "a column Residuary_resistance"),
        (lambda frame: frame[:-1], "must have 308 rows"),
        (lambda frame: frame + 1, "must have the mean 10.495"),
    ],
)
def test_locate_raises_on_another_set_than_expected(openml, change, message):
    openml.frame = change(openml.frame)
    with pytest.raises(ValueError, match=message):
        data.locate("yacht")


def test_locate_writes_a_set_of_scikit_learn_to_the_cache(tmp_path, monkeypatch):
    from sklearn.datasets import load_diabetes

    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    x, y = data.read(data.locate("diabetes", tmp_path / "elsewhere"))
    wanted_x, wanted_y = load_diabetes(return_X_y=True)
    np.testing.assert_array_equal(x, wanted_x)
    np.testing.assert_array_equal(y, wanted_y)
