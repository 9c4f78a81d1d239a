"""Hazard: the rate of changes for the worse, where they were seen."""

import numpy as np
import pytest
from scipy.optimize import minimize

import agents
from habnn_control.control import hazard as hazard_module
from habnn_control.control.hazard import Hazard
from habnn_control.control.plant import Actuators, Bounds, Plant
from tiny_agents import assert_same_steps, benchmark, habnn, plant, steps_of

BOUNDS = Bounds.of([0.0, 0.0, -np.inf], [100.0, 100.0, np.inf], -np.ones(2), np.ones(2))
PLANT = Plant(lambda _, observations: observations[..., 2], Actuators([0, 1], [1.0, 10.0]))


def at(*position):
    return np.array([*position, 0.0])


def hazard_of(places, blamed_after=()):
    """Return a hazard that has seen these places, with changes noticed after some of them."""
    hazard = Hazard(PLANT, BOUNDS)
    for k, place in enumerate(places):
        hazard.observe(place, exposed=True)
        if k in blamed_after:
            hazard.blame()
    return hazard


def wandering(seed=0, n=400):
    """Return places all over the range, with a change after each 30 steps at low positions of actuator 1."""
    rng = np.random.default_rng(seed)
    places = [at(rng.uniform(0, 100), rng.uniform(30, 100)) for _ in range(n)]
    places += [at(rng.uniform(0, 100), rng.uniform(0, 15)) for _ in range(60)]
    return places, (n + 29, n + 59)


def test_no_hazard_before_the_first_change():
    hazard = hazard_of([at(50, 50)] * 10)
    np.testing.assert_array_equal(hazard.rate(np.tile(at(50, 50), (4, 7, 1))), np.zeros((4, 7)))


def test_hazard_lies_where_changes_began():
    places, blamed = wandering()
    hazard = hazard_of(places, blamed)
    here, there = hazard.rate(np.array([at(50, 5), at(50, 80)]))
    assert here > 20 * there
    assert 0.5 * 2 / 60 < here < 2 * 2 / 60  # two changes in sixty steps
    left, right = hazard.rate(np.array([at(0, 5), at(100, 5)]))  # the other actuator has nothing to do with it
    assert 1 / 5 < left / right < 5


def test_hazard_is_the_same_in_the_mirror():
    places, blamed = wandering()
    images = [np.array([100.0, 100.0, 0.0]) - place for place in places]
    plain, mirrored = hazard_of(places, blamed), hazard_of(images, blamed)
    assert mirrored.rate(at(70, 95)) == pytest.approx(plain.rate(at(30, 5)), rel=1e-6)


def test_hazard_fades_with_steps_without_change():
    hazard = hazard_of([at(50, 10)] * 40, [39])
    first = hazard.rate(at(50, 10))
    for _ in range(500):
        hazard.observe(at(50, 10), exposed=True)
    assert hazard.rate(at(50, 10)) < first / 5


def test_only_the_newest_steps_are_kept(monkeypatch):
    monkeypatch.setattr(hazard_module, "_KEPT", 40)
    hazard = hazard_of([at(50, 10)] * 100, [30])
    assert len(hazard.get_state()["places"]) == 40
    fits = []
    monkeypatch.setattr(hazard, "_fit", lambda: fits.append(1))
    for _ in range(20):
        hazard.observe(at(50, 10), exposed=True)
    assert len(fits) == 4  # every fifth step, also when it is full


def test_steps_of_a_plant_that_has_changed_already_do_not_count():
    exposed, changed = hazard_of([at(50, 10)] * 40, [39]), hazard_of([at(50, 10)] * 40, [39])
    for _ in range(100):
        exposed.observe(at(50, 10), exposed=True)
        changed.observe(at(50, 10), exposed=False)
    assert changed.rate(at(50, 10)) > 2 * exposed.rate(at(50, 10))


def test_rate_is_the_mode_of_the_posterior_vs_scipy():
    places, blamed = wandering(seed=1, n=100)
    hazard = hazard_of(places, blamed)
    x = np.array([[1.0, place[0] / 50 - 1, place[1] / 50 - 1] for place in places])
    counts = np.zeros(len(x))
    counts[100:] = 1 / 30
    prior = np.array([np.log(0.001), 0.0, 0.0])

    def negative_log_posterior(slopes):
        return np.exp(x @ slopes).sum() - counts @ x @ slopes + np.sum((slopes - prior) ** 2) / 8

    best = minimize(negative_log_posterior, prior, tol=1e-12).x
    np.testing.assert_allclose(hazard.rate(np.array(places)), np.exp(x @ best), rtol=1e-3)


def test_hazard_continues_from_its_state():
    places, blamed = wandering()
    whole = hazard_of(places, blamed)
    copy = Hazard(PLANT, BOUNDS)
    copy.set_state(whole.get_state())
    for hazard in (whole, copy):
        for _ in range(7):
            hazard.observe(at(20, 20), exposed=True)
    assert copy.rate(at(20, 20)) == whole.rate(at(20, 20))


def believing(weight=1.0):
    """Return an agent that has seen a change at gains near 0, five steps after the start."""
    agent = habnn(plant(), exploration={"hazard": weight, "risk": 0.0, "excitation": {"length": 2, "budget": 0.0}})
    agent.learn(5)
    for gain in np.linspace(100.0, 0.0, 50):
        agent._hazard.observe(np.array([100.0, 50.0, gain, 50.0, 0.0, 0.0]), exposed=True)
    agent._hazard.blame()
    return agent


def test_agent_plans_around_the_hazard():
    gains = [
        np.mean([step.next_observation[2] for step in steps_of(believing(weight), 20, resume=True)])
        for weight in (0.0, 1.0)
    ]
    assert gains[1] > gains[0]


def test_agent_with_a_hazard_resumes_step_for_step(tmp_path):
    agent = believing()
    agent.save(tmp_path / "agent")
    env = benchmark()
    env.reset()
    env.unwrapped.set_state(agent.env.unwrapped.get_state())
    loaded = agents.load(tmp_path / "agent", env)
    assert loaded._hazard.n_changes == 1
    assert_same_steps(steps_of(loaded, 10, resume=True), steps_of(believing(), 10, resume=True))


@pytest.mark.parametrize("weight", [-1.0, float("inf"), float("nan")])
def test_exploration_raises_on_a_hazard_weight_out_of_range(weight):
    with pytest.raises(ValueError, match="exploration: hazard must be finite and not negative, got"):
        habnn(plant(), exploration={"hazard": weight})


@pytest.mark.parametrize("weight", [-0.1, 1.1, float("nan")])
def test_exploration_raises_on_a_relative_risk_out_of_range(weight):
    with pytest.raises(ValueError, match=r"exploration: relative must be in \[0, 1\], got"):
        habnn(plant(), exploration={"relative": weight})
