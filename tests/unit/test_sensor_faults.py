"""A model behind a SensorCheck: faults inside the bounds teach it next to nothing, and real changes are learned."""

import numpy as np
import pytest

from agents.base import Step
from agents.sensors import SensorCheck
from linear_plant import BOUNDS, PLANT, LinearPlant, make_model

OUTPUT, POSITION = 2, 1


class Loop:
    """A model that learns a linear plant through a SensorCheck, along random actions."""

    def __init__(self, seed=0):
        self.plant, self.model = LinearPlant(seed), make_model()
        self.sensors = SensorCheck("test", BOUNDS, PLANT)
        self.observation = self.plant.observation
        self.model.begin(self.observation)
        self.sensors.begin(self.observation)
        self.learned = 0

    def step(self, change=None):
        """Make one step, of which `change` makes what is read; return the model's error against the truth."""
        action = self.plant.random_action()
        prediction = self.model.predict(action)
        expected = self.plant.step(action[0])
        read = self.plant.observation.copy()
        if change is not None:
            change(read)
        step = Step(0, self.observation, action, 0.0, read, False, False, {})
        step, complete = self.sensors.repaired(step, self.model, prediction)
        (self.model.observe if complete else self.model.skip)(action, step.next_observation)
        self.learned += complete
        self.observation = read
        return float(prediction.mean[0] - expected)

    def run(self, n, change=None):
        return np.array([self.step(change) for _ in range(n)])


def reads(entry, value):
    def change(read):
        read[entry] = value

    return change


@pytest.fixture
def loop():
    loop = Loop()
    loop.run(150)
    return loop


@pytest.mark.parametrize("n", [1, 25])
@pytest.mark.parametrize("value", [-19.0, 0.0, 19.9, 20.0, -1e9, np.nan])
def test_bad_readings_of_an_output_teach_nothing(loop, n, value):
    """The learned noise rose up to 58 times, and stayed high for hundreds of steps."""
    before, usual = loop.model.network.noise_variance[0], np.abs(loop.run(50)).mean()
    loop.run(n, reads(OUTPUT, value))
    assert loop.model.network.noise_variance[0] < 1.2 * before
    assert np.abs(loop.run(50)).mean() < 1.3 * usual


def test_stuck_output_teaches_nothing(loop):
    stuck = loop.observation[OUTPUT]
    usual, before = np.abs(loop.run(50)).mean(), loop.learned
    loop.run(25, reads(OUTPUT, stuck))
    assert loop.learned - before <= 50 + 4
    assert np.abs(loop.run(50)).mean() < 1.3 * usual


@pytest.mark.parametrize("value", [0.0, 10.0, None])
def test_bad_readings_of_a_position_are_replaced_by_dead_reckoning(loop, value):
    """The model learned that the output changes without its actuator, and the plan began at a wrong place."""
    usual = np.abs(loop.run(50)).mean()
    value = loop.observation[POSITION] if value is None else value
    for _ in range(25):
        loop.step(reads(POSITION, value))
        assert abs(loop.model.memory.observation[POSITION] - loop.plant.positions[-1]) < 1.01
    assert np.abs(loop.run(50)).mean() < 1.3 * usual


def test_change_of_the_plant_is_learned(loop):
    """The output moves by 6, many predictive deviations, and scatters as before: two readings are held back."""

    def change(read):
        read[OUTPUT] += 6.0

    before = loop.learned
    errors = loop.run(100, change) - 6.0
    assert loop.learned == before + 100
    assert np.abs(errors[:5]).mean() > 4.0
    assert np.abs(errors[50:]).mean() < 1.5


def test_clean_steps_pass_unchanged():
    loop = Loop(seed=1)
    loop.run(300)
    assert loop.learned == 300
    assert loop.sensors.complete(loop.observation) is loop.observation
