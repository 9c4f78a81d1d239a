"""The SB3 baselines: the real classes, exactly the steps asked for, repeatable, safe to load."""

import io
import pickle
import subprocess
import sys
import zipfile

import numpy as np
import pytest

import agents
from agents.runner import Recorder, make_env
from habnn_control.support.files import load_arrays, save_arrays

CLASSES = {"a2c": "A2C", "td3": "TD3", "sac": "SAC", "ppo": "PPO"}

BASELINES = [f"{name}{tuned}" for name in ("a2c", "td3", "sac", "ppo") for tuned in ("", "-tuned")]


def new_env(seed=7):
    return Recorder(make_env(100.0), seed)


def losses(name, steps, seed=1, env_seed=7, **settings):
    env = new_env(env_seed)
    agents.make(name, env, seed, **settings).learn(steps)
    return env.columns()["loss"]


@pytest.mark.parametrize("name", CLASSES)
def test_baseline_default_form_vs_sb3(name):
    import stable_baselines3
    import torch

    steps = 110 if name in ("td3", "sac") else 50  # past learning_starts; a multiple of A2C's rollout
    torch.set_num_threads(1)
    env = new_env()
    theirs = getattr(stable_baselines3, CLASSES[name])("MlpPolicy", env, seed=1, device="cpu")
    theirs.learn(steps)
    np.testing.assert_array_equal(losses(name, steps), env.columns()["loss"][:steps])


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_steps_exactly_and_is_deterministic(name):
    first, again = losses(name, 23), losses(name, 23)  # no multiple of any rollout
    assert len(first) == 23
    np.testing.assert_array_equal(first, again)
    assert (first != losses(name, 23, seed=2)).any()


@pytest.mark.parametrize("name", BASELINES)
def test_baseline_load_predicts_the_same(name, tmp_path):
    env = new_env()
    agent = agents.make(name, env, seed=1).learn(30)
    agent.save(tmp_path / "agent")
    loaded = agents.load(tmp_path / "agent", new_env())
    observations = np.random.default_rng(0).uniform(0, 100, (5, 6))
    before, _ = agent.predict(observations)
    after, _ = loaded.predict(observations)
    np.testing.assert_array_equal(before, after)
    assert np.abs(after).max() <= 1.0
    assert loaded.predict(observations[0])[0].shape == (3,)
    assert (before != agents.make(name, env, seed=2).predict(observations)[0]).any()


def test_baseline_loaded_agent_goes_on_learning(tmp_path):
    agents.make("sac-tuned", new_env(), seed=1).learn(30).save(tmp_path / "agent")
    env = new_env()
    agents.load(tmp_path / "agent", env).learn(20)
    assert np.isfinite(env.columns()["loss"]).sum() == 20


def test_load_never_unpickles_the_sb3_data(tmp_path):
    class Bomb:
        def __reduce__(self):
            return exec, ("raise SystemExit('unpickled')",)

    agents.make("a2c", new_env(), seed=1).save(tmp_path / "agent")
    header, arrays = load_arrays(tmp_path / "agent", "agent")
    archive, poisoned = zipfile.ZipFile(io.BytesIO(arrays["sb3_zip"].tobytes())), io.BytesIO()
    with zipfile.ZipFile(poisoned, "w") as target:
        for member in archive.namelist():
            target.writestr(member, pickle.dumps(Bomb()) if member == "data" else archive.read(member))
    save_arrays(tmp_path / "bad", header, arrays | {"sb3_zip": np.frombuffer(poisoned.getvalue(), np.uint8)})
    assert agents.load(tmp_path / "bad", new_env()).name == "a2c"


def test_baseline_leaves_the_seed_of_the_environment_alone():
    env = make_env(100.0)
    first = env.reset(seed=5)[0]
    agents.make("a2c", env, seed=5).learn(1)
    again = env.reset(seed=5)[0]
    np.testing.assert_array_equal(first, again)
    seen = []
    env.reset(seed=5)
    expected = env.reset()[0]
    env.reset(seed=5)
    agents.make("a2c", env, seed=99).learn(1, callback=lambda step: seen.append(step.observation))
    np.testing.assert_array_equal(seen[0], expected)


def test_baseline_second_learn_resets_but_does_not_warm_up_again():
    agent = agents.make("td3", new_env(), seed=1).learn(101)
    seen = []
    agent.learn(3, callback=lambda step: seen.append((step, agent.predict(step.observation)[0])))
    assert [step.timestep for step, _ in seen] == [1, 2, 3]
    np.testing.assert_array_equal(seen[0][0].observation[1:4], 50.0)
    for step, choice in seen:  # TD3 has no noise by default, warm-up would draw at random
        np.testing.assert_array_equal(step.action, choice)


def test_baseline_callback_stops_learning():
    env = new_env()
    agents.make("sac", env).learn(50, callback=lambda step: step.timestep < 4)
    assert len(env.columns()["loss"]) == 4


def test_baseline_progress_bar_shows_the_loss(capsys):
    agents.make("a2c", new_env()).learn(3, progress_bar=True)
    assert "loss=" in capsys.readouterr().err


def test_baseline_set_env_moves_on():
    first, second = new_env(), new_env()
    agent = agents.make("a2c", first).learn(5)
    agent.set_env(second)
    agent.learn(6)
    assert (len(first.columns()["loss"]), len(second.columns()["loss"])) == (5, 6)


def test_baseline_raises_on_resume():
    env = new_env()
    with pytest.raises(ValueError, match="sac: resume must be False, got True; this agent starts with a reset"):
        agents.make("sac", env).learn(3, resume=True)
    assert len(env.columns()["loss"]) == 0


def test_baseline_raises_on_unknown_setting_with_the_nearest():
    with pytest.raises(
        ValueError, match=r"sac: setting must be one of .*, got 'learning_start'; did you mean 'learning_st"
    ):
        agents.make("sac", new_env(), learning_start=3)


def test_baseline_settings_reach_sb3():
    agent = agents.make("sac-tuned", new_env(), gamma=0.5)
    assert agent.model.gamma == 0.5
    assert agent.model.learning_starts == agent.settings["learning_starts"] < 100


def test_baseline_never_imports_old_gym(tmp_path):
    program = (
        "import sys, agents; from agents.runner import make_env; a = agents.make('a2c', make_env(100.0)); a.learn(5)\n"
        "a.save(sys.argv[1]); print('gym' in sys.modules, 'torch' in sys.modules)"
    )
    call = [sys.executable, "-c", program, str(tmp_path / "agent")]
    done = subprocess.run(call, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["False", "True"]
    assert done.stderr == ""
