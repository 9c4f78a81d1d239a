"""IndustrialBenchmarkEnv: bad input, saved states, rendering, registration."""

import copy
import json
import logging

import gymnasium as gym
import matplotlib.pyplot as plt
import numpy as np
import pytest

from envs import IndustrialBenchmarkEnv, rendering
from envs._kernels import benchmark
from envs.variant import FRAME_HIGH, FRAME_LOW

BACKENDS = ["numba", "siemens"]


def run(env, actions):
    return [env.step(action)[:2] for action in actions]


def assert_same_run(first, second):
    for (observation, reward), (other_observation, other_reward) in zip(first, second, strict=True):
        np.testing.assert_array_equal(observation, other_observation)
        assert reward == other_reward


def frozen(state):
    """Return a state as comparable text."""
    return json.dumps(state, default=lambda array: array.tolist(), sort_keys=True)


def test_make_truncates_after_1000_steps_by_default():
    env = gym.make("IndustrialBenchmark-v0")
    env.reset(seed=0)
    ends = [env.step(env.action_space.sample())[2:4] for _ in range(1000)]
    assert ends == [(False, False)] * 999 + [(False, True)]
    assert gym.make("IndustrialBenchmark-v0", max_episode_steps=7).spec.max_episode_steps == 7


@pytest.mark.parametrize("backend", BACKENDS)
def test_reset_without_seed_continues_the_random_stream(backend):
    env = IndustrialBenchmarkEnv(setpoint=80.0, backend=backend)
    first, _ = env.reset(seed=4)
    second, _ = env.reset()
    assert not np.array_equal(first, second)
    np.testing.assert_array_equal(env.reset(seed=4)[0], first)
    np.testing.assert_array_equal(env.reset()[0], second)


def test_env_uses_a_generator_assigned_to_np_random():
    env, other = IndustrialBenchmarkEnv(), IndustrialBenchmarkEnv()
    env.reset(seed=1)
    env.np_random = gym.utils.seeding.np_random(9)[0]
    np.testing.assert_array_equal(env.reset()[0], other.reset(seed=9)[0])


@pytest.mark.parametrize(
    ("action_type", "action", "error", "message"),
    [
        ("continuous", [0.0, np.nan, 0.0], ValueError, "action must be finite"),
        ("continuous", [np.inf, 0.0, 0.0], ValueError, "action must be finite"),
        ("continuous", [0.0, 0.0], ValueError, r"action must have shape \(3,\), got \(2,\)"),
        ("continuous", [[0.0, 0.0, 0.0]], ValueError, r"action must have shape \(3,\), got \(1, 3\)"),
        ("continuous", "up", TypeError, "action must be an array of numbers, got 'up'"),
        ("discrete", 27, ValueError, r"action must be from 0 to 26, got \[27\]"),
        ("discrete", -1, ValueError, r"action must be from 0 to 26, got \[-1\]"),
        ("discrete", 1.5, TypeError, "action must be an integer from 0 to 26, got 1.5"),
        ("discrete", [0.0, 0.0, 0.0], TypeError, "action must be an integer from 0 to 26"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_step_raises_on_bad_action(backend, action_type, action, error, message):
    env = IndustrialBenchmarkEnv(action_type=action_type, backend=backend)
    env.reset(seed=0)
    before = frozen(env.get_state())
    with pytest.raises(error, match=f"IndustrialBenchmark: {message}"):
        env.step(action)
    assert frozen(env.get_state()) == before


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"setpoint": 101.0}, ValueError, "option 'setpoint' must be from 0 to 100, got 101.0"),
        ({"velocity": np.nan}, ValueError, "option 'velocity' must be from 0 to 100, got nan"),
        ({"gain": -1}, ValueError, "option 'gain' must be from 0 to 100, got -1"),
        ({"shift": [1.0, 2.0]}, ValueError, r"option 'shift' must be one number or 1, got shape \(2,\)"),
        ({"shift": "high"}, TypeError, "option 'shift' must be a number from 0 to 100, got 'high'"),
        ({"velocty": 3.0}, ValueError, "got 'velocty'; did you mean 'velocity'"),
        (["velocity"], TypeError, r"options must be a dict or None, got \['velocity'\]"),
    ],
)
@pytest.mark.parametrize("backend", BACKENDS)
def test_reset_raises_on_bad_options(backend, options, error, message):
    env = IndustrialBenchmarkEnv(backend=backend)
    env.reset(seed=0)
    before = frozen(env.get_state())
    with pytest.raises(error, match=f"IndustrialBenchmark: .*{message}"):
        env.reset(seed=1, options=options)
    assert frozen(env.get_state()) == before


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"setpoint": 100.5}, ValueError, "setpoint must be from 0 to 100, got 100.5"),
        ({"setpoint": np.nan}, ValueError, "setpoint must be from 0 to 100, got nan"),
        ({"setpoint": "full"}, TypeError, "setpoint must be a number"),
        ({"wandering": "yes"}, TypeError, "wandering must be True or False, got 'yes'"),
        ({"reward_type": "deltas"}, ValueError, "got 'deltas'; did you mean 'delta'"),
        ({"action_type": "discret"}, ValueError, "got 'discret'; did you mean 'discrete'"),
        ({"observation_type": "past"}, ValueError, "observation_type must be one of classic, include_past"),
        ({"n_past_timesteps": 0}, ValueError, "n_past_timesteps must be an integer of at least 1, got 0"),
        ({"backend": "simens"}, ValueError, "got 'simens'; did you mean 'siemens'"),
        ({"render_mode": "rgb"}, ValueError, "got 'rgb'; did you mean 'rgb_array'"),
    ],
)
def test_env_raises_on_bad_argument(arguments, error, message):
    with pytest.raises(error, match=f"IndustrialBenchmark: .*{message}"):
        IndustrialBenchmarkEnv(**arguments)


@pytest.mark.parametrize("method", [lambda env: env.step(np.zeros(3)), lambda env: env.get_state()])
def test_env_raises_on_use_before_reset(method):
    with pytest.raises(gym.error.ResetNeeded, match="reset must be called before"):
        method(IndustrialBenchmarkEnv())


@pytest.mark.parametrize("backend", BACKENDS)
def test_step_clips_finite_actions(backend):
    near, far = (IndustrialBenchmarkEnv(backend=backend) for _ in range(2))
    near.reset(seed=2)
    far.reset(seed=2)
    assert_same_run(run(near, [np.array([1.0, -1.0, 1.0])] * 5), run(far, [np.array([7.0, -1e300, 1.5])] * 5))


@pytest.mark.parametrize("wandering", [False, True])
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("warm_up", [0, 63, 64, 100])
def test_set_state_continues_exactly(backend, wandering, warm_up):
    arguments = {"setpoint": 97.0, "wandering": wandering, "backend": backend, "reward_type": "delta"}
    arguments |= {"observation_type": "include_past", "n_past_timesteps": 3}
    env = IndustrialBenchmarkEnv(**arguments)
    rng = np.random.default_rng(0)
    env.reset(seed=3)
    run(env, rng.uniform(-1.0, 1.0, (warm_up, 3)))
    saved = json.loads(frozen(env.get_state()))  # through JSON and back
    actions = rng.uniform(-1.0, 1.0, (150, 3))
    expected = run(env, actions)
    after = env.reset()[0]
    other = IndustrialBenchmarkEnv(**arguments)
    for restored in (env, other):
        restored.set_state(saved)
        assert_same_run(run(restored, actions), expected)
        np.testing.assert_array_equal(restored.reset()[0], after)


def test_get_state_is_a_copy_and_changes_nothing():
    env, undisturbed = IndustrialBenchmarkEnv(), IndustrialBenchmarkEnv()
    env.reset(seed=0)
    undisturbed.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (100, 3))
    for action in actions:
        state = env.get_state()
        state["plants"][:] = 0.0
        state["frames"][:] = 0.0
        assert_same_run(run(env, [action]), run(undisturbed, [action]))


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (lambda state: state.pop("plants"), r"state must be a dict of get_state, got one without \['plants'\]"),
        (
            lambda state: state.update(plants=np.zeros((2, 24))),
            r"state\['plants'\] must be finite and of shape \(1, 24\)",
        ),
        (lambda state: state["plants"].__setitem__((0, 0), np.nan), r"state\['plants'\] must be finite"),
        (lambda state: state["plants"].__setitem__((0, 1), 101.0), r"state\['plants'\] must be states of plants"),
        (lambda state: state["plants"].__setitem__((0, 18), 7.0), r"state\['plants'\] must be states of plants"),
        (lambda state: state["plants"].__setitem__((0, 16), 0.5), r"state\['plants'\] must be states of plants"),
        (lambda state: state.update(frames="none"), r"state\['frames'\] must be numbers, got 'none'"),
        (lambda state: state.update(generators=[]), r"state\['generators'\] must have 1 entries, got 0"),
        (lambda state: state.update(generators=[{"bit_generator": "MT19937"}]), ".* must hold states of NumPy's PCG64"),
        (lambda state: state.update(generators=None), r"state\['generators'\] must be a list, got None"),
    ],
)
def test_set_state_raises_on_damaged_state(damage, message):
    env = IndustrialBenchmarkEnv()
    env.reset(seed=0)
    before = frozen(env.get_state())
    damaged = copy.deepcopy(env.get_state())
    damage(damaged)
    with pytest.raises((ValueError, TypeError), match=f"IndustrialBenchmark: {message}"):
        env.set_state(damaged)
    assert frozen(env.get_state()) == before


def test_set_state_raises_on_anything_but_a_dict():
    with pytest.raises(TypeError, match="state must be a dict of get_state, got None"):
        IndustrialBenchmarkEnv().set_state(None)


def test_observation_bounds_hold_at_the_worst_noise():
    """The extreme operating points with the largest possible noise stay inside the bounds, and nearly reach them."""
    largest = 1.0 - 2.0**-53
    worst_low, worst_high = np.full(6, np.inf), np.full(6, -np.inf)
    for setpoint in (0.0, 100.0):
        for velocity, gain, shift in np.array(np.meshgrid([0.0, 100.0], [0.0, 100.0], [0.0, 100.0])).T.reshape(-1, 3):
            states = benchmark.fresh(np.array([[setpoint, velocity, gain, shift]]))
            for angle in (0.25, 0.75):
                noise = np.array([[largest, largest, 0.0, 0.0, largest, largest, largest, angle]])
                run = states
                for _ in range(30):
                    run = benchmark.step(run, np.zeros((1, 3)), noise, False)
                    worst_low = np.minimum(worst_low, run[0, :6])
                    worst_high = np.maximum(worst_high, run[0, :6])
    assert (worst_low >= FRAME_LOW).all()
    assert (worst_high <= FRAME_HIGH).all()
    assert worst_low[5] < 0.0
    assert (worst_high > 0.95 * FRAME_HIGH).all()


def test_render_shows_the_episode():
    env = gym.make("IndustrialBenchmark-v0", setpoint=100, render_mode="rgb_array")
    env.reset(seed=0)
    blank = env.render()
    for _ in range(30):
        env.step(env.action_space.sample())
    picture = env.render()
    assert picture.shape == (600, 800, 3)
    assert picture.dtype == np.uint8
    plot = picture[:, 80:680]  # between the labels
    assert np.mean(np.any(plot != blank[:, 80:680], axis=2)) > 0.005  # lines have been drawn
    env.unwrapped.set_state(env.unwrapped.get_state())
    assert env.render().shape == (600, 800, 3)
    env.close()


def test_render_human_without_display_logs_and_draws_nothing(caplog, monkeypatch):
    monkeypatch.setattr(rendering, "display_exists", lambda: False)
    with caplog.at_level(logging.WARNING):
        env = gym.make("IndustrialBenchmark-v0", render_mode="human")
    assert 'render_mode="human" draws nothing' in caplog.text
    env.reset(seed=0)
    env.step(np.zeros(3, dtype=np.float32))
    assert env.render() is None
    assert not plt.get_fignums()
    env.close()


def test_render_human_keeps_its_window_up_to_date(monkeypatch):
    """With a display, simulated by a backend that draws without showing."""
    monkeypatch.setattr(rendering, "display_exists", lambda: True)
    env = gym.make("IndustrialBenchmark-v0", render_mode="human")
    env.reset(seed=0)
    for _ in range(3):
        env.step(np.ones(3, dtype=np.float32))
    assert env.render() is None
    (number,) = plt.get_fignums()
    velocity = plt.figure(number).axes[0].lines[1]
    np.testing.assert_array_equal(velocity.get_ydata(), [50.0, 51.0, 52.0, 53.0])
    env.close()
    assert not plt.get_fignums()
