"""The transition model learning, on plants whose answers are known."""

from math import inf, sqrt

import numpy as np
import pytest

from habnn_control.control.transition_model import TransitionModel, Transitions
from linear_plant import CERTAIN, NOISE, STEP, LinearPlant, learn, make_model, trained

# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize(("hidden", "steps", "limit"), [((), 1000, 0.05), ((40,), 3000, 0.1)])
def test_model_learns_a_linear_plant_with_delay(hidden, steps, limit):
    """Rectifiers need longer than a linear model, and cover too much on the way (97 % after 500 steps)."""
    errors, covered = learn(make_model(network={"hidden": hidden}), LinearPlant(1), steps)
    first, last = (np.sqrt(np.mean(part**2)) for part in (errors[:10], errors[-500:]))
    assert first > 1.0
    assert last < limit  # the noise has a standard deviation of 0.3
    assert abs(covered[-500:].mean() - 0.9) < 4 * sqrt(0.9 * 0.1 / 500)


@pytest.mark.parametrize("target", ["absolute", "delta", "log"])
def test_model_learns_without_known_kinematics(target):
    """Actuator and output are both predicted, and the actions are the inputs."""
    model = make_model(kinematics=None, target=target, memory=3, network={"hidden": ()})
    assert model.outputs.tolist() == [1, 2]
    plant = LinearPlant(2)
    model.begin(plant.observation)
    errors = []
    for _ in range(600):
        action = 0.5 * plant.random_action() + (0.1 if plant.positions[-1] < 5.0 else -0.1)  # keeps off the bounds
        prediction = model.predict(action)
        plant.step(action[0])
        errors.append(prediction.mean - plant.observation[1:])
        model.observe(action, plant.observation)
    late = np.sqrt(np.mean(np.square(errors[300:]), axis=0))
    limit = (0.35, 0.75) if target == "log" else (0.05, 0.45)  # a logarithm is not linear in the actions
    assert late[0] < limit[0]
    assert late[1] < limit[1]


def test_observe_gives_the_network_the_inputs_and_targets_of_the_stream(monkeypatch):
    """Inputs assembled by hand: settings oldest first with the next position last, past outputs, average, load."""
    model = make_model(history=2, memory=2, averages=(4.0,), input_gain=2.0, target_gain=3.0)
    seen = []
    monkeypatch.setattr(model.network, "update", lambda x, y: seen.append((x, y)))
    positions, outputs, load = [5.0, 7.0, 9.0, 10.0, 8.0], [1.0, 4.0, -2.0, 6.0, 3.0], 80.0
    stream = [np.array([load, p, v]) for p, v in zip(positions, outputs, strict=True)]
    model.begin(stream[0])
    for action, observation in zip([1.0, 1.0, 1.0, -1.0], stream[1:], strict=True):
        model.observe([action], observation)
    targets = 3.0 * (np.array(outputs) - outputs[0]) / 20.0
    settings = 2.0 * (np.array([5.0, 5.0, *positions]) - 5.0) / 5.0
    past, slow = [0.0, *targets], 0.0
    for k, (x, y) in enumerate(seen):
        slow += (targets[k] - slow) / 4.0
        expected = [*settings[k + 1 : k + 4], past[k], past[k + 1], slow, 2.0 * (load - 50.0) / 50.0]
        np.testing.assert_allclose(x, expected, atol=1e-14)
        np.testing.assert_allclose(y, targets[k + 1], atol=1e-14)
    assert len(seen) == 4


def test_observe_learns_the_change_with_target_delta(monkeypatch):
    model = make_model(target="delta")
    seen = []
    monkeypatch.setattr(model.network, "update", lambda _, y: seen.append(y[0]))
    model.begin([50.0, 5.0, 1.0])
    for value in (4.0, 2.0, 2.0):
        model.observe([0.0], [50.0, 5.0, value])
    np.testing.assert_allclose(seen, [3.0 / 20.0, -2.0 / 20.0, 0.0], atol=1e-15)


def test_follow_moves_on_without_learning():
    observed, followed = trained(), trained()
    before = followed.network.get_state()
    for model, move in ((observed, observed.observe), (followed, followed.follow)):
        move([0.5], [50.0, 6.0, 3.0])
        assert model.network.n_samples == 40 + (model is observed)
    for name, value in followed.network.get_state().items():
        np.testing.assert_array_equal(value, before[name])
    observed.network.set_state(before)  # then only the memory can differ
    np.testing.assert_array_equal(observed.predict([0.2]).mean, followed.predict([0.2]).mean)


def test_begin_forgets_the_episode_but_not_what_was_learned():
    model, start = trained(), [50.0, 2.0, 1.0]
    model.begin(start)
    expected = model.predict([0.3])
    for _ in range(5):
        model.follow([1.0], [50.0, 4.0, -7.0])
    assert model.predict([0.3]).mean != expected.mean
    model.begin(start)
    np.testing.assert_array_equal(model.predict([0.3]), expected)


def test_state_continues_exactly():
    model, copy = trained(averages=(4.0,)), make_model(averages=(4.0,), seed=7)
    state = model.get_state()
    copy.set_state(state)
    sequences = np.random.default_rng(0).uniform(-1, 1, (5, 6, 1))
    for _ in range(2):  # before and after one more step
        np.testing.assert_array_equal(copy.predict([0.1]), model.predict([0.1]))
        ours, theirs = copy.forecast(sequences), model.forecast(sequences)
        for name in ("observations", "entries", "covariances", "information"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for each in (model, copy):
            each.observe([0.1], [50.0, 5.2, 4.0])
    other = make_model(averages=(4.0,))
    other.set_state(state)  # the state was a copy: what the model did since is not in it
    assert other.network.n_samples == 40


def logged(plant, steps):
    rows = []
    for _ in range(steps):
        before, action = plant.observation, plant.random_action()
        plant.step(action[0])
        rows.append((before, action, plant.observation))
    return [np.array(part) for part in zip(*rows, strict=True)]


def test_pretrain_is_observing_the_logged_steps():
    """Two episodes; the second start matters, because the past and the offsets are forgotten there."""
    first, second = (logged(LinearPlant(seed), 30) for seed in (0, 5))
    observations, actions, after = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    starts = np.arange(60) == 30
    pretrained, observed = make_model(), make_model()
    pretrained.pretrain(Transitions(observations, actions, after, starts))
    for episode in (first, second):
        observed.renew_offsets()
        observed.begin(episode[0][0])
        for _, action, observation in zip(*episode, strict=True):
            observed.observe(action, observation)
    for name, value in observed.get_state().items():
        np.testing.assert_array_equal(pretrained.get_state()[name], value)
    other = make_model()
    other.pretrain(Transitions(observations, actions, after, np.zeros(60)))
    assert (other.predict([0.0]).mean != pretrained.predict([0.0]).mean).all()


def test_pretrain_counts_a_long_log_as_333_steps():
    rows = logged(LinearPlant(0), 400)
    pretrained, observed = make_model(), make_model()
    pretrained.pretrain(Transitions(*rows, np.zeros(400)))
    observed.begin(rows[0][0])
    for _, action, observation in zip(*rows, strict=True):
        observed.observe(action, observation)
    scales = [model.network.weight_scale_sq[-1] for model in (pretrained, observed)]
    np.testing.assert_allclose(scales[0], scales[1] * 400 / 333, rtol=1e-12)
    np.testing.assert_array_equal(pretrained.network.weight_loc[-1], observed.network.weight_loc[-1])


@pytest.mark.parametrize("name", Transitions._fields)
def test_pretrain_raises_on_bad_transitions_before_learning(name):
    model = make_model()
    good = Transitions(*logged(LinearPlant(0), 4), np.zeros(4))
    for bad in (np.asarray(getattr(good, name))[:-1], np.full_like(getattr(good, name), np.nan)):
        if name == "observations" and len(bad) == 3:
            continue  # then the others are too long, and named
        with pytest.raises(ValueError, match=rf"TransitionModel: transitions.{name} must be finite and of shape \(4"):
            model.pretrain(good._replace(**{name: bad}))
    assert model.network.n_samples == 0


def test_is_sound_until_a_number_is_not():
    model = trained()
    assert model.is_sound()
    model.network.weight_scale_sq[0][2, 1] = np.nan
    assert not model.is_sound()


# ---------------------------------------------------------------------- units


def test_log_target_predicts_the_lognormal_mean_vs_monte_carlo():
    """With known weights a prediction is exp of a Gaussian: its mean is not the exponential of the mean."""
    network = {**CERTAIN, "hidden": (), "dof": inf, "noise_variance": 0.2}
    model = make_model(target="log", target_gain=1.5, network=network)
    model.begin([50.0, 5.0, 3.0])
    prediction = model.predict([0.4], coverage=0.5)
    shift = 0.03 * 40.0 + 20.0
    low, high = (1.5 * np.log(end[0] + shift) for end in (prediction.low, prediction.high))
    assert (high - low) / 2 == pytest.approx(0.6744897501960817 * sqrt(0.2), rel=1e-6)
    draws = (low + high) / 2 + sqrt(0.2) * np.random.default_rng(0).standard_normal(400_000)
    values = np.exp(draws / 1.5) - shift
    assert abs(values.mean() - prediction.mean[0]) < 5 * values.std() / sqrt(len(values))
    median = np.exp((low + high) / 3) - shift
    assert prediction.mean[0] - median > 50 * values.std() / sqrt(len(values))


@pytest.mark.parametrize("target", ["absolute", "delta", "log"])
def test_prediction_of_a_silent_network_is_the_first_observation(target):
    """Into targets and back: an output layer of zeros predicts the origin, which is the first observation."""
    model = make_model(target=target, network={**CERTAIN, "hidden": (), "output_prior_std": 0.0})
    model.begin([50.0, 5.0, 7.25])
    assert model.predict([0.0]).mean[0] == pytest.approx(7.25, abs=1e-9)
    model.follow([0.0], [50.0, 5.0, -3.0])
    assert model.predict([0.0]).mean[0] == pytest.approx(-3.0 if target == "delta" else 7.25, abs=1e-9)
    model.begin([50.0, 5.0, 2.0])  # another episode has the same origin
    assert model.predict([0.0]).mean[0] == pytest.approx(2.0 if target == "delta" else 7.25, abs=1e-9)


def test_unbounded_entries_have_unit_one():
    model = TransitionModel([-inf], [inf], [-1.0], [1.0], target="absolute", network={**CERTAIN, "hidden": ()})
    model.begin([3.0])
    step = model.predict([0.5]).mean - 3.0
    model = TransitionModel([-5.0], [5.0], [-1.0], [1.0], target="absolute", network={**CERTAIN, "hidden": ()})
    model.begin([3.0])
    np.testing.assert_allclose(model.predict([0.5]).mean - 3.0, 5.0 * step, rtol=1e-9)


def test_focused_prior_shows_each_unit_one_or_two_signals():
    model = make_model(history=6, memory=1)
    signals, exogenous = model._layout(1, 7, model.network.settings.n_inputs)
    loc = model.network.weight_loc[0][:, :-1]
    seen = np.stack([(loc[:, signal] != 0).any(axis=1) for signal in signals])
    assert set(seen.sum(axis=0)) <= {1, 2}
    assert seen.any(axis=1).all()
    assert (loc[:, exogenous] != 0).all()


def test_focused_prior_learns_a_delayed_plant_sooner_than_a_dense_one():
    """Three actuators of limited speed, one acts after four steps through a kink: error of the last 60 of 120 steps."""
    errors = {}
    for prior in ("focused", "dense"):
        squares = []
        for seed in range(5):
            model = TransitionModel(
                [-1.0], [1.0], [-1.0] * 3, [1.0] * 3, history=8, memory=0, averages=(), target="absolute",
                prior=prior, network={"activation": "relu"}, seed=seed,
            )  # fmt: skip
            rng, past, goal = np.random.default_rng(seed), [np.zeros(3)] * 9, np.zeros(3)
            model.begin([0.0])
            for k in range(120):
                goal = np.where(rng.random(3) < 0.25, rng.uniform(-1, 1, 3), goal)
                past = [*past[1:], past[-1] + np.clip(goal - past[-1], -0.4, 0.4)]
                value = 0.5 * abs(past[-5][0]) + 0.02 * rng.standard_normal()
                if k >= 60:
                    squares.append((model.predict(past[-1]).mean[0] - value) ** 2)
                model.observe(past[-1], [value])
        errors[prior] = np.sqrt(np.mean(squares))
    assert errors["focused"] < errors["dense"]


# ---------------------------------------------------------------------- errors


def test_model_raises_on_unknown_target_with_the_nearest():
    with pytest.raises(ValueError, match=r"TransitionModel: target must be one of .*, got 'lgo'; did you mean 'log'\?"):
        make_model(target="lgo")


def test_offsets_are_a_random_walk_vs_kalman_filter():
    """A model that sees nothing but its offset is the local level model, filtered by its own two lines."""
    noise, time = 0.04, 5.0
    network = {"hidden": (), "dof": inf, "output_scale": 1.0, "noise_variance": noise, "noise_weight": inf}
    model = TransitionModel(
        [-1.0], [1.0], [-1.0], [1.0], offset_time=time, memory=0, target="absolute", network=network
    )
    model.begin([0.0])
    level, variance = 0.0, 1.0 / model.network.weight_loc[0].shape[1]  # the fan rule divides by it
    for y in np.random.default_rng(2).uniform(-0.5, 0.5, 40):
        found = model.network.predict(np.zeros((1, 11)), include_noise=False)
        assert (found.mean[0, 0], found.variance[0, 0]) == pytest.approx((level, variance), rel=1e-9)
        gain = variance / (variance + noise)
        level, variance = level + gain * (y - level), (1 - gain) * variance + noise / time**2
        model.observe([0.0], [y])


def test_offset_follows_a_jump_that_no_input_shows():
    """The same steps before and after the plant's level jumps: only a wandering offset forgets the old level."""

    def error_after_jump(offset_time):
        model, rng = make_model(offset_time=offset_time, network={"hidden": (10,)}, memory=0), np.random.default_rng(5)
        model.begin([50.0, 5.0, 0.0])
        for k in range(400):
            action = rng.uniform(-1, 1, 1)
            mean = model.predict(action).mean[0]
            position = float(np.clip(model.memory.observation[1] + STEP * action[0], 0.0, 10.0))
            value = 0.5 * position + (8.0 if k >= 300 else 0.0) + 0.1 * rng.standard_normal()
            model.observe(action, [50.0, position, value])
        return abs(value - mean)

    assert error_after_jump(20.0) < 0.5 * error_after_jump(inf)


@pytest.mark.parametrize("factor", [0.1, 10.0])
def test_intervals_cover_their_share_when_the_noise_is_misjudged(factor):
    """The network believes in a noise of a tenth or ten times the true deviation, and may not learn it."""
    network = {"hidden": (), "noise_variance": (factor * NOISE / 10.0) ** 2, "noise_weight": inf}
    _, covered = learn(make_model(memory=0, network=network), LinearPlant(3), 2000)
    assert abs(np.mean(covered[1000:]) - 0.9) < 0.03  # its sd is 0.01 for independent misses


def test_widths_have_a_way_back():
    model = make_model()
    model.begin([50.0, 5.0, 0.0])
    model.memory = model.memory._replace(widths=np.array([0.01]))
    for _ in range(3):
        model.observe([0.0], [50.0, 5.0, 0.0])
    assert 0.01 <= model.memory.widths[0] < 0.012


def test_renewed_offsets_are_as_uncertain_as_25_noises_and_only_where_they_wander():
    """A new level is learned at once after renewal: the Kalman gain of a variance of 25 noises is 25 / 26 or more."""
    network = {"hidden": (), "noise_weight": inf, "noise_variance": 0.01, "dof": inf}
    errors = {}
    for offset_time in (60.0, inf):
        model = TransitionModel(
            [-1.0], [1.0], [-1.0], [1.0], offset_time=offset_time, memory=0, target="absolute", network=network
        )
        model.renew_offsets()  # nothing learned yet: nothing to renew
        model.begin([0.0])
        for _ in range(200):
            model.observe([0.0], [0.0])
        model.renew_offsets()
        model.observe([0.0], [0.5])
        errors[offset_time] = 0.5 - model.predict([0.0]).mean[0]
    assert errors[60.0] < 0.5 / 26
    assert errors[inf] > 0.4


def test_offset_time_raises_on_a_time_below_one_step():
    with pytest.raises(ValueError, match="TransitionModel: offset_time must be at least 1, got"):
        make_model(offset_time=0.5)


@pytest.mark.parametrize("bad", [{"history": -1}, {"memory": -1}, {"averages": (0.5,)}, {"averages": (float("nan"),)}])
def test_model_raises_on_bad_memory(bad):
    with pytest.raises(ValueError, match="TransitionModel: history and memory must not be negative and averages at"):
        make_model(**bad)


def test_model_raises_on_log_without_a_lower_bound():
    with pytest.raises(ValueError, match="TransitionModel: target 'log' must have a lower bound, got low ="):
        TransitionModel([-inf], [inf], [-1.0], [1.0], target="log")
