"""The transition model learning, on plants whose answers are known."""

from math import inf, sqrt

import numpy as np
import pytest

from habnn_control.control.model import Transitions
from linear_plant import (
    CERTAIN,
    NOISE,
    STEP,
    UNKNOWN,
    LinearPlant,
    assert_same_memory,
    assert_same_model,
    black_box,
    follow,
    learn,
    logged,
    make_model,
    trained,
)

# ---------------------------------------------------------------------- learning


@pytest.mark.parametrize(("hidden", "steps", "limit"), [((), 1000, 0.05), ((40,), 3000, 0.12)])
def test_model_learns_a_linear_plant_with_delay(hidden, steps, limit):
    """Rectifiers need longer than a linear model, and cover too much on the way (97 % after 500 steps)."""
    errors, covered = learn(make_model(network={"hidden": hidden}), LinearPlant(1), steps)
    first, last = (np.sqrt(np.mean(part**2)) for part in (errors[:10], errors[-500:]))
    assert first > 1.0
    assert last < limit  # the noise has a standard deviation of 0.3
    assert abs(covered[-500:].mean() - 0.9) < 4 * sqrt(0.9 * 0.1 / 500)


@pytest.mark.parametrize("target", ["absolute", "delta", "log", "softplus"])
def test_model_learns_without_known_actuators(target):
    """Actuator and output are both predicted, and the actions are the inputs."""
    model = make_model(UNKNOWN, target=target, past_outputs=3, network={"hidden": ()})
    assert model.encoder.outputs.tolist() == [1, 2]
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
    limits = {"log": (0.35, 0.75), "softplus": (0.15, 0.5)}  # a curved output is not linear in the actions
    limit = limits.get(target, (0.05, 0.45))
    assert late[0] < limit[0]
    assert late[1] < limit[1]


@pytest.mark.parametrize("target", ["absolute", "delta", "log", "softplus"])
def test_observe_gives_the_network_what_the_encoder_makes_of_the_stream(target, monkeypatch):
    """The inputs and targets themselves are tested by hand in test_encoder.py."""
    model = make_model(target=target, history=2, past_outputs=2)
    seen, expected = [], []
    monkeypatch.setattr(model.network, "update", lambda x, y: seen.append((x, y)))
    plant = LinearPlant(0)
    model.begin(plant.observation)
    for _ in range(4):
        action, memory = plant.random_action(), model.memory
        plant.step(action[0])
        model.observe(action, plant.observation)
        expected.append((model.encoder.next_inputs(memory, action)[0], model.encoder.target(memory, plant.observation)))
    assert len(seen) == 4
    for ours, theirs in zip(seen, expected, strict=True):
        for one, other in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(one, other)


def test_next_memory_is_that_of_observe_without_learning():
    observed, followed, untouched = trained(), trained(), trained()
    observed.observe([0.5], [50.0, 6.0, 3.0])
    memory = followed.next_memory(followed.memory, [0.5], [50.0, 6.0, 3.0])
    assert_same_memory(memory, observed.memory)
    assert_same_model(followed, untouched)
    assert observed.network.n_samples == untouched.network.n_samples + 1 == 41


def test_first_memory_is_that_of_begin_without_starting_an_episode():
    begun, untouched, model = trained(), trained(), trained()
    begun.begin([50.0, 2.0, 1.0])
    assert_same_memory(model.first_memory([50.0, 2.0, 1.0]), begun.memory)
    assert_same_model(model, untouched)


@pytest.mark.parametrize("plant", [{}, {"plant": UNKNOWN, "past_outputs": 2}])
def test_skip_remembers_the_last_observation_again_and_learns_nothing(plant):
    model, untouched = trained(10, **plant), trained(10, **plant)
    model.skip([0.5])
    memory = untouched.memory
    assert_same_memory(model.memory, untouched.next_memory(memory, [0.5], memory.observation))
    untouched.restore(untouched.snapshot() | {f"memory_{k}": v for k, v in model.memory._asdict().items()})
    assert_same_model(model, untouched)


def test_begin_forgets_the_episode_but_not_what_was_learned():
    model, start = trained(offset_time=inf), [50.0, 2.0, 1.0]
    model.begin(start)
    expected = model.predict([0.3])
    for _ in range(5):
        follow(model, [1.0], [50.0, 4.0, -7.0])
    assert model.predict([0.3]).mean != expected.mean
    model.begin(start)
    np.testing.assert_array_equal(model.predict([0.3]), expected)


def test_snapshot_continues_exactly():
    model, copy = trained(past_outputs=2), make_model(past_outputs=2, seed=7)
    state = model.snapshot()
    copy.restore(state)
    sequences = np.random.default_rng(0).uniform(-1, 1, (5, 6, 1))
    for _ in range(2):  # before and after one more step
        np.testing.assert_array_equal(copy.predict([0.1]), model.predict([0.1]))
        ours, theirs = (each.forecast(each.memory, sequences) for each in (copy, model))
        for name in ("observations", "entries", "covariances", "information"):
            np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for each in (model, copy):
            each.observe([0.1], [50.0, 5.2, 4.0])
    other = make_model(past_outputs=2)
    other.restore(state)  # the snapshot was a copy: what the model did since is not in it
    assert other.network.n_samples == 40
    assert_same_memory(other.memory, trained(past_outputs=2).memory)


def test_restore_keeps_the_memory_of_the_running_episode_if_asked():
    model, untouched = trained(), trained()
    state = model.snapshot()
    model.observe([0.5], [50.0, 6.0, 3.0])
    memory = model.memory
    model.restore(state, keep_memory=True)
    assert_same_memory(model.memory, memory)
    untouched.restore(state | {f"memory_{name}": value for name, value in memory._asdict().items()})
    assert_same_model(model, untouched)


def test_pretrain_is_observing_the_logged_steps():
    """Two episodes; the second start matters, because the past and the output biases are forgotten there."""
    first, second = (logged(LinearPlant(seed), 30) for seed in (0, 5))
    observations, actions, after = (np.concatenate(pair) for pair in zip(first, second, strict=True))
    starts = np.arange(60) == 30
    pretrained, observed = make_model(), make_model()
    pretrained.pretrain(Transitions(observations, actions, after, starts))
    for episode in (first, second):
        observed.begin(episode[0][0])
        for _, action, observation in zip(*episode, strict=True):
            observed.observe(action, observation)
    assert_same_model(pretrained, observed)
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
        with pytest.raises(ValueError, match=rf"model: transitions.{name} must be finite and of shape \(4"):
            model.pretrain(good._replace(**{name: bad}))
    assert model.network.n_samples == 0


def test_is_sound_until_a_number_is_not():
    model = trained()
    assert model.is_sound()
    model.network.weight_scale_sq[0][2, 1] = np.nan
    assert not model.is_sound()


def test_log_target_predicts_the_lognormal_mean_vs_monte_carlo():
    """With known weights a prediction is exp of a Gaussian: its mean is not the exponential of the mean.

    The 90 % interval of the Gaussian gives its centre, and has the half width of 1.645 deviations.
    """
    network = {**CERTAIN, "hidden": (), "dof": inf, "noise_variance": 0.2}
    model = make_model(target="log", network=network)
    model.begin([50.0, 5.0, 3.0])
    prediction = model.predict([0.4])
    shift = 0.1 * (3.0 + 20.0) + 20.0
    low, high = (np.log(end[0] + shift) for end in (prediction.low, prediction.high))
    assert (high - low) / 2 == pytest.approx(1.6448536269514722 * sqrt(0.2), rel=1e-6)
    draws = (low + high) / 2 + sqrt(0.2) * np.random.default_rng(0).standard_normal(400_000)
    values = np.exp(draws) - shift
    assert abs(values.mean() - prediction.mean[0]) < 5 * values.std() / sqrt(len(values))
    median = np.exp((low + high) / 2) - shift
    assert prediction.mean[0] - median > 50 * values.std() / sqrt(len(values))


@pytest.mark.parametrize("target", ["absolute", "delta", "log", "softplus"])
def test_prediction_of_a_silent_network_is_the_first_observation(target):
    """Into targets and back: an output layer of zeros predicts the origin, which is the first observation."""
    model = make_model(target=target, network={**CERTAIN, "hidden": (), "output_prior_std": 0.0})
    model.begin([50.0, 5.0, 7.25])
    assert model.predict([0.0]).mean[0] == pytest.approx(7.25, abs=1e-9)
    follow(model, [0.0], [50.0, 5.0, -3.0])
    assert model.predict([0.0]).mean[0] == pytest.approx(-3.0 if target == "delta" else 7.25, abs=1e-9)
    model.begin([50.0, 5.0, 2.0])  # another episode has the same origin
    assert model.predict([0.0]).mean[0] == pytest.approx(2.0 if target == "delta" else 7.25, abs=1e-9)


def test_focused_prior_shows_each_unit_one_or_two_signals():
    model = make_model(history=6, past_outputs=1)
    signals, exogenous = model.encoder.histories()
    loc = model.network.weight_loc[0][:, :-1]
    seen = np.stack([(loc[:, signal] != 0).any(axis=1) for signal in signals])
    assert set(seen.sum(axis=0)) <= {1, 2}
    assert seen.any(axis=1).all()
    assert (loc[:, np.concatenate(exogenous)] != 0).all()


def test_focused_prior_learns_a_delayed_plant_sooner_than_a_dense_one():
    """Three actuators of limited speed, one acts after four steps through a kink: error of the last 60 of 120 steps."""
    errors = {}
    for prior in ("focused", "dense"):
        squares = []
        for seed in range(5):
            settings = {"history": 8, "past_outputs": 0, "network": {"activation": "relu"}}
            model = black_box(n_actions=3, prior=prior, seed=seed, **settings)
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


def test_prediction_as_marked_is_that_of_the_biases_at_the_mark():
    """After a jump of the plant the biases follow; as marked, the prediction is still that of before."""
    network = {"hidden": (), "dof": inf, "output_scale": 1.0, "noise_variance": 0.01, "noise_weight": inf}
    model = black_box(offset_time=20.0, past_outputs=0, network=network)
    model.begin([0.0])
    for _ in range(30):
        model.observe([0.0], [0.1])
    model.mark()
    before = model.predict([0.0]).mean
    np.testing.assert_array_equal(model.predict_as_marked([0.0]).mean, before)
    model.disturb()
    for _ in range(30):
        model.observe([0.0], [0.6])
    assert abs(model.predict([0.0]).mean[0] - 0.6) < 0.05
    np.testing.assert_allclose(model.predict_as_marked([0.0]).mean, before, atol=0.02)


def test_disturbed_model_follows_a_jump_sooner():
    errors = []
    for disturbed in (False, True):
        network = {"hidden": (), "dof": inf, "noise_variance": 0.01, "noise_weight": inf}
        model = black_box(offset_time=150.0, past_outputs=0, network=network)
        model.begin([0.0])
        for _ in range(100):
            model.observe([0.0], [0.1])
        if disturbed:
            model.disturb()
        for _ in range(5):
            model.observe([0.0], [0.6])
        errors.append(abs(model.predict([0.0]).mean[0] - 0.6))
    assert errors[1] < 0.2 * errors[0]


def test_output_biases_are_random_walks_vs_kalman_filter():
    """A model that sees nothing but its bias is the local level model, filtered by its own two lines."""
    noise, time = 0.04, 5.0
    network = {"hidden": (), "dof": inf, "output_scale": 1.0, "noise_variance": noise, "noise_weight": inf}
    model = black_box(offset_time=time, past_outputs=0, network=network)
    model.begin([0.0])
    level, variance = 0.0, 1.0 / model.network.weight_loc[0].shape[1]  # the fan rule divides by it
    for y in np.random.default_rng(2).uniform(-0.5, 0.5, 40):
        found = model.network.predict(np.zeros((1, model.encoder.n_inputs)), include_noise=False)
        assert (found.mean[0, 0], found.variance[0, 0]) == pytest.approx((level, variance), rel=1e-9)
        gain = variance / (variance + noise)
        level, variance = level + gain * (y - level), (1 - gain) * variance + noise / time**2
        model.observe([0.0], [y])


def test_output_bias_follows_a_jump_that_no_input_shows():
    """The same steps before and after the plant's level jumps: only a bias with process noise forgets the old level."""

    def error_after_jump(offset_time):
        model, rng = make_model(offset_time=offset_time, past_outputs=0), np.random.default_rng(5)
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
    _, covered = learn(make_model(past_outputs=0, network=network), LinearPlant(3), 2000)
    assert abs(np.mean(covered[1000:]) - 0.9) < 0.03  # its sd is 0.01 for independent misses


def test_interval_widths_have_a_way_back():
    model = make_model()
    model.begin([50.0, 5.0, 0.0])
    model.restore(model.snapshot() | {"widths": np.array([0.01])})
    for _ in range(3):
        model.observe([0.0], [50.0, 5.0, 0.0])
    assert 0.01 <= model.snapshot()["widths"][0] < 0.012


def test_begin_makes_the_output_biases_as_uncertain_as_25_noises_if_they_have_process_noise():
    """A new level is learned at once in a new episode: a variance of 25 noises has a Kalman gain of 25 / 26."""
    network = {"hidden": (), "noise_weight": inf, "noise_variance": 0.01, "dof": inf}
    errors = {}
    for offset_time in (60.0, inf):
        model = black_box(offset_time=offset_time, past_outputs=0, network=network)
        before = model.network.get_state()
        model.begin([0.0])
        for name, value in model.network.get_state().items():
            np.testing.assert_array_equal(value, before[name])  # nothing learned yet, nothing to make uncertain
        for _ in range(200):
            model.observe([0.0], [0.0])
        model.begin([0.0])
        model.observe([0.0], [0.5])
        errors[offset_time] = 0.5 - model.predict([0.0]).mean[0]
    assert errors[60.0] < 0.5 / 26
    assert errors[inf] > 0.4


def test_offset_time_raises_on_a_time_below_one_step():
    with pytest.raises(ValueError, match="model: offset_time must be at least 1, got"):
        make_model(offset_time=0.5)


@pytest.mark.parametrize("prior", ["focussed", None])
def test_model_raises_on_unknown_prior_with_the_nearest(prior):
    with pytest.raises(ValueError, match=r"model: prior must be one of focused, dense, got .*; did you mean '"):
        make_model(prior=prior)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_observe_raises_on_an_observation_that_is_not_finite_before_learning(bad):
    model, untouched = trained(), trained()
    with pytest.raises(ValueError, match=r"model: observation must be finite, got .*; skip the step"):
        model.observe([0.5], [50.0, 6.0, bad])
    assert_same_model(model, untouched)
