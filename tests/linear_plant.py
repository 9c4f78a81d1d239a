"""A linear plant with a delay whose answers are known, and models that learn it."""

from dataclasses import replace
from math import inf

import numpy as np

from habnn_control.control.plant import Actuators, Bounds, Plant
from habnn_control.control.transition_model import TransitionModel

PLANT_LOW, PLANT_HIGH = np.array([0.0, 0.0, -20.0]), np.array([100.0, 10.0, 20.0])  # load, actuator, output
BOUNDS = Bounds.of(PLANT_LOW, PLANT_HIGH, [-1.0], [1.0])
STEP = 2.0
NOISE = 0.3
# The weights are known, whatever they are: what the network computes is the function of the locations.
CERTAIN = {"scale": 1e-14, "output_scale": 1e-14, "output_prior_std": 1.0, "noise_variance": 1e-14, "noise_weight": inf}


def output_loss(actions, observations):
    return observations[..., -1]


PLANT = Plant(output_loss, actuators=Actuators((1,), (STEP,)), exogenous=(0,))
UNKNOWN = replace(PLANT, actuators=None)  # the same plant to a model that has to learn all motion
SETTINGS = {"history": 3, "past_outputs": 1, "target": "absolute"}


def make_model(plant=PLANT, **changes):
    return TransitionModel(plant, BOUNDS, **SETTINGS | {"network": {"hidden": (10,)}} | changes)


def black_box(low=-1.0, high=1.0, *, n_observed=1, n_actions=1, **settings):
    """Return a model that is told nothing but the bounds of observations; actions lie in [-1, 1]."""
    actions = np.ones(n_actions)
    bounds = Bounds.of(np.full(n_observed, low), np.full(n_observed, high), -actions, actions)
    return TransitionModel(Plant(output_loss), bounds, **{"target": "absolute"} | settings)


def follow(model, action, observation):
    """Let the model remember a step without learning from it."""
    learned = model.snapshot()
    model.observe(action, observation)
    model.restore(learned, keep_memory=True)


class LinearPlant:
    """One actuator with a range; the output answers to where it is now and where it was two steps ago."""

    def __init__(self, seed):
        self.rng = np.random.default_rng(seed)
        self.positions = [5.0, 5.0, 5.0]
        self.step(0.0)

    def step(self, action):
        """Move, put what can be seen into `observation`, and return the output's expected value."""
        position = float(np.clip(self.positions[-1] + STEP * action, 0.0, 10.0))
        expected = 2.0 - 0.5 * position + 1.5 * self.positions[-2]
        self.positions.append(position)
        self.observation = np.array([50.0, position, expected + NOISE * self.rng.standard_normal()])
        return expected

    def random_action(self):
        return self.rng.uniform(-1.0, 1.0, 1)


def learn(model, plant, steps):
    """Let the model learn along random actions; return its errors against the noiseless answers, and the coverage."""
    model.begin(plant.observation)
    errors, covered = [], []
    for _ in range(steps):
        action = plant.random_action()
        prediction = model.predict(action)
        errors.append(float(prediction.mean[0] - plant.step(action[0])))
        covered.append(prediction.low[0] <= plant.observation[2] <= prediction.high[0])
        model.observe(action, plant.observation)
    return np.array(errors), np.array(covered)


def trained(steps=40, **changes):
    model = make_model(**changes)
    learn(model, LinearPlant(0), steps)
    return model


def assert_same_memory(ours, theirs):
    for name, value in ours._asdict().items():
        np.testing.assert_array_equal(value, getattr(theirs, name))


def assert_same_model(ours, theirs):
    expected = theirs.snapshot()
    assert ours.snapshot().keys() == expected.keys()
    for name, value in ours.snapshot().items():
        np.testing.assert_array_equal(value, expected[name])


def logged(plant, steps):
    rows = []
    for _ in range(steps):
        before, action = plant.observation, plant.random_action()
        plant.step(action[0])
        rows.append((before, action, plant.observation))
    return [np.array(part) for part in zip(*rows, strict=True)]
