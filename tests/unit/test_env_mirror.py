"""Mirror images of the plant: the same law, seen from the other end of some actuators."""

import gymnasium as gym
import numpy as np
import pytest

import agents
import envs
from agents.study import ControlStudy
from tiny_agents import Seeded, steps_of

ACTUATORS = ("velocity", "gain", "shift")


def make(mirror=(), **settings):
    return gym.make("IndustrialBenchmark-v0", setpoint=80, mirror=mirror, max_episode_steps=-1, **settings)


def signs(mirror):
    return np.array([-1.0 if name in mirror else 1.0 for name in ACTUATORS])


def turned(observation, mirror):
    shown = np.array(observation)
    for entry, name in enumerate(ACTUATORS, 1):
        if name in mirror:
            shown[entry::6] = 100.0 - shown[entry::6]
    return shown


@pytest.mark.parametrize(
    "settings", [{}, {"observation_type": "include_past", "n_past_timesteps": 3}, {"wandering": True}]
)
@pytest.mark.parametrize("mirror", envs.IMAGES)
def test_mirror_shows_the_same_plant(mirror, settings):
    """The image under turned actions goes through the turned observations of the plant, with the same losses."""
    plain, image = make(**settings), make(mirror, **settings)
    options = {"velocity": 30.0, "gain": 45.0, "shift": 80.0}
    shown = {name: 100.0 - value if name in mirror else value for name, value in options.items()}
    first, seen = plain.reset(seed=1, options=options)[0], image.reset(seed=1, options=shown)[0]
    np.testing.assert_allclose(seen, turned(first, mirror))
    for action in np.random.default_rng(0).uniform(-1.0, 1.0, (40, 3)):
        theirs, reward, _, _, info = plain.step(action)
        ours, our_reward, _, _, our_info = image.step(signs(mirror) * action)
        np.testing.assert_allclose(ours, turned(theirs, mirror))
        assert our_reward == reward
        assert our_info["markov_state"] == info["markov_state"]
        assert image.observation_space.contains(ours)


def test_mirror_images_are_all_eight():
    assert len(envs.IMAGES) == len(set(envs.IMAGES)) == 8


@pytest.mark.parametrize("mirror", envs.IMAGES)
def test_mirror_of_the_vector_environment_vs_single(mirror):
    many = gym.make_vec(
        "IndustrialBenchmark-v0", num_envs=3, vectorization_mode="vector_entry_point", setpoint=80, mirror=mirror
    )
    rows = many.reset(seed=5)[0]
    singles = [make(mirror) for _ in range(3)]
    for k, env in enumerate(singles):
        np.testing.assert_array_equal(env.reset(seed=5 + k)[0], rows[k])
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (3, 3)).astype(np.float32)
    rows = many.step(actions)[0]
    for k, env in enumerate(singles):
        np.testing.assert_array_equal(env.step(actions[k])[0], rows[k])


@pytest.mark.parametrize("name", ["hold", "oracle", "ib-opt", "noop"])
def test_mirror_changes_nothing_for_policies_that_know_the_plant(name):
    budget = {"horizon": 8, "n_candidates": 12, "n_iterations": 1} if name == "oracle" else {}
    losses = [
        [step.info["loss"] for step in steps_of(agents.make(name, Seeded(make(mirror), 3), **budget), 25)]
        for mirror in ((), ("gain",), ("velocity", "shift"), ACTUATORS)
    ]
    np.testing.assert_allclose(losses[1:], [losses[0]] * 3, rtol=1e-5)


def test_mirror_keeps_the_description_true():
    env = make(("velocity", "gain"))
    observation, _ = env.reset(seed=0)
    actions = np.random.default_rng(0).uniform(-1.0, 1.0, (20, 3))
    plant = env.unwrapped.plant
    forecast = plant.actuators.positions(observation[1:4], actions[None], np.zeros(3), np.full(3, 100.0))[0]
    np.testing.assert_allclose([env.step(action)[0][1:4] for action in actions], forecast)


def test_study_mirrored_meets_image_r_mod_8():
    study = ControlStudy(("noop",), {"setpoint": [100.0]}, runs=10, steps=5, mirrored=True)
    images = [tuple(task["env_arguments"]["mirror"]) for task in study.tasks()]
    assert images == [*envs.IMAGES, *envs.IMAGES[:2]]


@pytest.mark.parametrize(
    ("bad", "error", "message"),
    [
        (
            ("velocty",),
            ValueError,
            "mirror must be one of velocity, gain, shift, got 'velocty'; did you mean 'velo",
        ),
        (("gain", "gain"), ValueError, "mirror must name each actuator once"),
        ("gain", TypeError, "mirror must be a sequence of names, got 'gain'"),
    ],
)
def test_mirror_raises_on_bad_names(bad, error, message):
    with pytest.raises(error, match=message):
        make(bad)
