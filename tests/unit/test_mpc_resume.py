"""The MPC agent goes on: after a pause, from a file, and from a log."""

import numpy as np
import pytest

import agents
from habnn_control.control.model import Transitions
from habnn_control.control.plant import Plant
from tiny_agents import PointMass, assert_same_steps, benchmark, distance, habnn, plant, point_mass_agent, steps_of

# ---------------------------------------------------------------------- files and resuming


def test_learn_resumes_step_for_step():
    halves, whole = habnn(plant()), habnn(plant())
    ours = steps_of(halves, 15) + steps_of(halves, 15, resume=True)
    assert_same_steps(ours, steps_of(whole, 30))
    np.testing.assert_array_equal(halves.model.network.weight_loc[0], whole.model.network.weight_loc[0])


def test_learn_resumes_step_for_step_over_the_end_of_an_episode():
    halves, whole = (point_mass_agent(PointMass(limit=5)) for _ in range(2))
    for agent in (halves, whole):
        agent.env.reset(seed=2)
    ours = steps_of(halves, 10) + steps_of(halves, 7, resume=True)
    assert_same_steps(ours, steps_of(whole, 17))


@pytest.mark.parametrize("target", ["log", None])  # None: chosen among several, here in the middle of a block
def test_load_resumes_step_for_step_in_mid_episode(tmp_path, target):
    settings = {"model": {"target": target}, "exploration": {"excitation": {"budget": 10.0}}}
    agent, whole = habnn(plant(), **settings), habnn(plant(), **settings)
    first = steps_of(agent, 22)
    agent.save(tmp_path / "agent")
    state = agent.env.unwrapped.get_state()
    env = benchmark()
    env.reset()
    env.unwrapped.set_state(state)
    loaded = agents.load(tmp_path / "agent", env)
    assert_same_steps(first + steps_of(loaded, 33, resume=True), steps_of(whole, 55))
    assert whole._probes.spent > 0


def test_load_resumes_from_a_checkpoint_written_by_a_callback(tmp_path):
    agent, states = habnn(plant()), []

    def checkpoint(step):
        if step.timestep == 7:
            agent.save(tmp_path / "agent")
            states.append(agent.env.unwrapped.get_state())

    seen = []
    agent.learn(12, callback=lambda step: (seen.append(step), checkpoint(step))[1])
    env = benchmark()
    env.reset()
    env.unwrapped.set_state(states[0])
    assert_same_steps(steps_of(agents.load(tmp_path / "agent", env), 5, resume=True), seen[7:])


def test_load_raises_on_what_another_release_saved(tmp_path, monkeypatch):
    agent = habnn(plant())
    monkeypatch.setattr(
        agent, "_state", lambda: ({"n_steps": 0, "n_gentle": 0, "actuators": None, "motion": {"length": 4}}, {})
    )
    agent.save(tmp_path / "agent")
    with pytest.raises(
        ValueError, match=r"must hold 'n_recoveries' of a habnn agent, got the file of another release; load"
    ):
        agents.load(tmp_path / "agent", plant())


def test_load_brings_back_settings_and_wants_the_plant(tmp_path):
    agent = point_mass_agent(PointMass(), exploration={"risk": (2.0, 1.0, 0.9)})
    agent.env.reset(seed=0)
    agent.learn(8)
    agent.save(tmp_path / "agent")
    with pytest.raises(ValueError, match=r"load: plant must be given again, got nothing; .* holds no functions"):
        agents.load(tmp_path / "agent", PointMass())
    loaded = agents.load(tmp_path / "agent", PointMass(), plant=Plant(distance))
    assert loaded.exploration == agent.exploration
    observation = np.array([1.0, 0.2], dtype=np.float32)
    np.testing.assert_array_equal(loaded.predict(observation)[0], agent.predict(observation)[0])


def test_resume_without_an_episode_resets():
    agent, env = habnn(plant()), plant()
    assert_same_steps(steps_of(agent, 5, resume=True), steps_of(habnn(env), 5))


def test_resume_raises_for_agents_that_cannot():
    with pytest.raises(ValueError, match="a2c: resume must be False, got True; this agent starts with a reset"):
        agents.make("a2c", plant()).learn(5, resume=True)


# ---------------------------------------------------------------------- pretraining


def logged_transitions(n):
    seen = steps_of(agents.make("random", PointMass(limit=20), seed=4), n)
    starts = [step.timestep % 20 == 1 for step in seen]
    return Transitions(
        [step.observation for step in seen],
        [step.action for step in seen],
        [step.next_observation for step in seen],
        starts,
    )


def test_pretrain_helps_from_the_first_step():
    """Mean loss of the first 20 steps of four runs, cold and warm."""
    losses = np.empty((2, 4))
    for warm, seed in np.ndindex(losses.shape):
        env = PointMass()
        env.reset(seed=seed)
        agent = point_mass_agent(env, planner={"n_candidates": 40})
        if warm:
            assert agent.pretrain(logged_transitions(400)) is agent
        losses[warm, seed] = np.mean([-step.reward for step in steps_of(agent, 20)])
    assert losses[1].mean() < 0.7 * losses[0].mean()


def test_pretrain_ends_the_excitation_and_is_learned_by_the_model():
    agent = point_mass_agent(PointMass(), exploration={"excitation": {"length": 50}})
    agent.pretrain(logged_transitions(60))
    assert agent.model.network.n_samples == 60
    actions = [float(step.action[0]) for step in steps_of(agent, 6)]
    assert set(actions) - {-1.0, 1.0}


def test_predict_leaves_the_network_alone_when_an_episode_begins():
    agent = point_mass_agent(PointMass())
    agent.pretrain(logged_transitions(60))
    before = agent.model.network.weight_scale_sq[-1].copy()
    agent.predict(np.array([1.0, 0.0]))
    np.testing.assert_array_equal(agent.model.network.weight_scale_sq[-1], before)


def test_pretrain_raises_on_bad_rows():
    transitions = logged_transitions(10)
    with pytest.raises(ValueError, match=r"transitions.actions must be finite and of shape \(10, 1\), got \(9, 1\)"):
        point_mass_agent(PointMass()).pretrain(transitions._replace(actions=transitions.actions[:-1]))
