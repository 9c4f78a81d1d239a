"""save and load of joint networks, banks, autoscaled models, committees and regressors; damaged and hostile files."""

import time
import tracemalloc

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from habnn_control import AutoscaledHABNN, HABNNCommittee, HABNNRegressor, JointHABNN, NoiseBank
from habnn_control.support.files import load_arrays, save_arrays
from real_scripts import script

mutated = script("_attack_files")["mutated"]
SMALL = {"hidden": (4,)}
JOINT = {"covariance": "joint", **SMALL}
QUICK = {"folds": 2, "passes": 2, "candidates": [{"covariance": "joint", "noise_variance": n} for n in (0.3, 0.01)]}


def data(n=60, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.uniform(-2, 2, size=(n, 3))
    return x, np.column_stack([np.sin(2 * x[:, 0]), x[:, 1] * x[:, 2]]) + 0.1 * rng.standard_normal((n, 2))


def fitted(model):
    return model.fit(*data())


MODELS = {
    "joint": lambda: fitted(JointHABNN(3, 2, noise_variance=[0.1, 0.2], **SMALL)),
    "joint, noise learned": lambda: fitted(JointHABNN(3, 2, heteroscedastic=True, **SMALL)),
    "joint, untrained": lambda: JointHABNN(3, 2, dof=np.inf, **SMALL),
    "bank": lambda: fitted(NoiseBank(3, 2, levels=(0.1, 1.0), **SMALL)),
    "autoscaled": lambda: fitted(AutoscaledHABNN(3, 2, warmup=20, **SMALL)),
    "autoscaled, diagonal": lambda: fitted(AutoscaledHABNN(3, 2, covariance="diagonal", warmup=20, **SMALL)),
    "autoscaled, in its warm-up": lambda: fitted(AutoscaledHABNN(3, 2, warmup=100, **JOINT)),
    "autoscaled, joint": lambda: fitted(AutoscaledHABNN(3, 2, warmup=20, **JOINT)),
    "autoscaled, relevance": lambda: fitted(
        AutoscaledHABNN(3, 2, noise_variance=0.1, passes=2, relevance=1, heteroscedastic=True, **JOINT)
    ),
    "committee": lambda: fitted(HABNNCommittee(3, 2, **SMALL, **QUICK)),
    "committee, two layers": lambda: fitted(HABNNCommittee(3, 2, hidden=(4, 3), folds=2, passes=2)),
    "committee, noise learned": lambda: fitted(HABNNCommittee(3, 2, heteroscedastic=True, **SMALL, **QUICK)),
}


def goes_on(model):
    """Learn more samples, where the model can, and return its predictions."""
    x, y = data(40, seed=1)
    getattr(model, "partial_fit", model.fit)(x, y)
    return model.predict(x)


@pytest.mark.parametrize("name", MODELS)
def test_loaded_model_continues_bit_for_bit(tmp_path, name):
    model = MODELS[name]()
    model.save(tmp_path / "model")
    loaded = type(model).load(tmp_path / "model")
    for ours, theirs in zip(goes_on(loaded), goes_on(model), strict=True):
        np.testing.assert_array_equal(ours, theirs)


@pytest.mark.parametrize("name", ["joint", "bank", "autoscaled, joint", "committee"])
def test_file_of_a_loaded_model_has_the_same_bytes(tmp_path, name):
    model = MODELS[name]()
    model.save(tmp_path / "first")
    type(model).load(tmp_path / "first").save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_committee_that_has_not_learned_is_loaded_as_such(tmp_path):
    HABNNCommittee(3, folds=3, **SMALL).save(tmp_path / "model")
    loaded = HABNNCommittee.load(tmp_path / "model")
    assert loaded.folds == 3
    with pytest.raises(ValueError, match="predict must follow fit"):
        loaded.predict(np.zeros((1, 3)))


def test_fit_of_a_loaded_committee_starts_anew_with_all_candidates(tmp_path):
    x, y = data()
    settings = {"folds": 2, "passes": 2, **SMALL}
    committee = HABNNCommittee(3, 2, **settings).fit(x, y)
    committee.save(tmp_path / "model")
    loaded = HABNNCommittee.load(tmp_path / "model").fit(x[::-1], y[::-1])
    expected = committee.fit(x[::-1], y[::-1])
    np.testing.assert_array_equal(loaded.predict(x).loc, expected.predict(x).loc)
    assert loaded.weights == expected.weights


@pytest.mark.parametrize("learn", ["fit", "partial_fit"])
@pytest.mark.parametrize("named", [True, False])
def test_loaded_regressor_predicts_and_knows_its_features(tmp_path, learn, named):
    x, y = data(120)
    x = pd.DataFrame(x, columns=["a", "b", "c"]) if named else x
    model = getattr(HABNNRegressor(**SMALL, **QUICK), learn)(x, y[:, 0])
    model.save(tmp_path / "model")
    loaded = HABNNRegressor.load(tmp_path / "model")
    for ours, theirs in zip(loaded.predict(x, return_std=True), model.predict(x, return_std=True), strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert loaded.predict(x).shape == (120,)
    assert loaded.n_features_in_ == 3
    assert list(getattr(loaded, "feature_names_in_", [])) == (["a", "b", "c"] if named else [])
    assert clone(loaded).get_params()["folds"] == 2
    with pytest.raises(ValueError, match="feature"):
        loaded.predict(x[["a", "b"]] if named else x[:, :2])


def test_regressor_that_is_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        HABNNRegressor().save(tmp_path / "model")
    assert not (tmp_path / "model").exists()


def test_load_names_the_kind_of_another_file(tmp_path):
    MODELS["joint"]().save(tmp_path / "model")
    with pytest.raises(ValueError, match="must be a habnn_control file of kind 'NoiseBank', got kind 'JointHABNN'"):
        NoiseBank.load(tmp_path / "model")


@pytest.mark.parametrize("name", ["joint", "committee"])
def test_load_raises_one_clear_error_on_mutations(tmp_path, name):
    model, path, rng = MODELS[name](), tmp_path / "model", np.random.default_rng(0)
    model.save(path)
    content = path.read_bytes()
    for _ in range(200):
        damaged = mutated(content, rng)
        path.write_bytes(damaged)
        if damaged != content:
            with pytest.raises(ValueError, match=r"^load: .*model must be a habnn_control file"):
                type(model).load(path)


def arrays_of(model):
    """Return which arrays a tree of a header has, by the path of names and numbers that leads to each."""
    if isinstance(model, dict):
        if "@array" in model:
            return {(): model["@array"]}
        parts = model.items()
    elif isinstance(model, list):
        parts = enumerate(model)
    else:
        return {}
    return {(name, *path): key for name, part in parts for path, key in arrays_of(part).items()}


@pytest.mark.parametrize("name", ["joint, noise learned", "bank", "autoscaled", "autoscaled, joint", "committee"])
def test_load_checks_every_array(tmp_path, name):
    model, path = MODELS[name](), tmp_path / "model"
    model.save(path)
    top, arrays = load_arrays(path, model._kind)
    found = arrays_of(top["model"])
    assert set(found.values()) == set(arrays)
    seen = set()
    for where, key in found.items():
        kind = tuple(part for part in where if isinstance(part, str))  # all members have the same arrays
        if kind in seen or arrays[key].size == 0:
            continue
        seen.add(kind)
        wrong = [np.full_like(arrays[key], np.nan), np.append(arrays[key], 0.0), np.array(["a"])]
        for array in wrong:
            save_arrays(path, top, arrays | {key: array})
            with pytest.raises(ValueError, match=rf"{model._kind}: .*model must hold the settings and the state"):
                type(model).load(path)


def changed(tree, where, value):
    """Return a copy of a nested tree with another value at a path of names and numbers."""
    if not where:
        return value
    copied = list(tree) if isinstance(tree, list) else dict(tree)
    copied[where[0]] = changed(tree[where[0]], where[1:], value)
    return copied


@pytest.mark.parametrize(
    ("name", "where", "value"),
    [
        ("joint", ("settings", "hidden"), [10**15]),
        ("joint", ("settings", "n_inputs"), 10**9),
        ("joint", ("settings", "n_outputs"), -1),
        ("joint", ("settings", "heteroscedastic"), True),
        ("joint", ("settings", "dof"), 0.5),
        ("joint", ("settings",), 7),
        ("joint", ("dof",), 1.0),
        ("joint", ("dof",), None),
        ("joint", ("n_samples",), -1),
        ("joint", ("loc",), {"@array": "99"}),
        ("joint", (), []),
        ("bank", ("networks",), []),
        ("bank", ("networks", 0, "settings", "hidden"), [10**9]),
        ("autoscaled", ("given", "hidden"), [10**12]),
        ("autoscaled", ("given", "n_inputs"), 10**9),
        ("autoscaled", ("given", "covariance"), "diagonal"),
        ("autoscaled", ("given", "unknown"), 1),
        ("autoscaled", ("count",), 0),
        ("autoscaled, joint", ("given", "levels"), [1.0] * 10**5),
        ("committee", ("given", "candidates", 0), {"hidden": [10**9]}),
        ("committee", ("given", "n_inputs"), 10**9),
        ("committee", ("kept", 0, "number"), 5),
        ("committee", ("kept", 0, "members"), []),
        ("committee", ("kept", 0, "members", 0, "given", "noise_variance"), 0.7),
        ("committee", ("dof",), 1.0),
    ],
)
def test_load_checks_values_within_bounded_memory(tmp_path, name, where, value):
    model, path = MODELS[name](), tmp_path / "model"
    model.save(path)
    top, arrays = load_arrays(path, model._kind)
    tree = top["model"]
    if where[:1] == ("given",) and where[-1] not in tree["given"]:
        tree["given"][where[-1]] = None
    save_arrays(path, {**top, "model": changed(tree, where, value)}, arrays)
    tracemalloc.start()
    begin = time.perf_counter()
    with pytest.raises(ValueError, match=rf"{model._kind}: .*model must hold the settings and the state"):
        type(model).load(path)
    assert time.perf_counter() - begin < 5
    assert tracemalloc.get_traced_memory()[1] < 2e8
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("where", "value"),
    [
        (("kind",), "HABNN"),
        (("features",), ["a"]),
        (("features",), [1, 2, 3]),
        (("parameters", "unknown"), 1),
        (("flat",), True),
        (("model",), {}),
    ],
)
def test_load_of_a_regressor_checks_values(tmp_path, where, value):
    x, y = data()
    path = tmp_path / "model"
    HABNNRegressor(**SMALL, **QUICK).fit(x, y).save(path)
    top, arrays = load_arrays(path, "HABNNRegressor")
    top["model"]["parameters"].setdefault(where[-1], None)
    save_arrays(path, {**top, "model": changed(top["model"], where, value)}, arrays)
    with pytest.raises(ValueError, match=r"HABNNRegressor: .*model must hold the settings and the state"):
        HABNNRegressor.load(path)
