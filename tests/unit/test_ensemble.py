"""The ensemble as a dynamics model: its networks against torch's own layers, its forecasts against single steps."""

import numpy as np
import pytest
import torch

import agents
from agents.ensemble import EnsembleModel, MemberForecaster, ProbabilisticNetworks
from agents.runner import Recorder, make_env
from habnn_control.control.model import Transitions
from linear_plant import BOUNDS, PLANT, PLANT_HIGH, PLANT_LOW, SETTINGS, STEP, UNKNOWN, LinearPlant, learn

TRAINING = {"learning_rate": 3e-3}
N_MEMBERS = 4


def make_ensemble(plant=PLANT, **changes):
    settings = {"hidden": (16, 16), "n_members": N_MEMBERS, "training": TRAINING}
    return EnsembleModel(plant, BOUNDS, **SETTINGS | settings | changes)


def trained(steps=40, **changes):
    model = make_ensemble(**changes)
    learn(model, LinearPlant(0), steps)
    return model


def sequences(n=5, horizon=6):
    return np.random.default_rng(3).uniform(-1, 1, (n, horizon, 1))


def modules(networks, member):
    """Build one member from torch's own layers."""
    parameters = networks.parameters()
    half, layers = len(parameters) // 2, []
    for weight, bias in zip(parameters[:half], parameters[half:], strict=True):
        linear = torch.nn.Linear(*weight.shape[1:])
        linear.weight.data, linear.bias.data = weight[member].detach().T.clone(), bias[member, 0].detach().clone()
        layers += [linear, torch.nn.SiLU()]
    return torch.nn.Sequential(*layers[:-1]).requires_grad_(False)


def assert_same_state(ours, theirs):
    expected = theirs.snapshot()
    assert ours.snapshot().keys() == expected.keys()
    for name, value in ours.snapshot().items():
        np.testing.assert_array_equal(value, expected[name])


# ---------------------------------------------------------------------- networks


def test_networks_distribution_vs_torch_modules():
    """Means, and log-variances between soft bounds of -10 and 0.5; one output far beyond either bound."""
    networks = ProbabilisticNetworks(N_MEMBERS, (6, 16, 16, 2), 1e-3, 0.0, seed=1)
    for bias in networks.parameters()[3:]:
        bias.data.normal_(generator=torch.Generator().manual_seed(2))
    networks.parameters()[-1].data[..., 2:] = torch.tensor([-15.0, 5.0])
    inputs = torch.randn((N_MEMBERS, 7, 6), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        means, log_variances = networks.distribution(inputs)
    for member in range(N_MEMBERS):
        mean, raw = modules(networks, member)(inputs[member]).chunk(2, dim=-1)
        below_most = 0.5 - torch.log1p(torch.exp(0.5 - raw))
        torch.testing.assert_close(means[member], mean)
        torch.testing.assert_close(log_variances[member], -10 + torch.log1p(torch.exp(below_most + 10)))
    assert -10 < log_variances.min() < -9.9
    assert 0.4 < log_variances.max() < 0.501


def test_networks_train_towards_the_noise_and_the_mean_of_the_samples():
    """Two inputs, a noise of sd 0.5 around 1 and -1: after many steps every member says both."""
    rng = np.random.default_rng(0)
    inputs = np.repeat([[-1.0], [1.0]], 500, axis=0)
    targets = inputs + 0.5 * rng.standard_normal((1000, 1))
    networks = ProbabilisticNetworks(N_MEMBERS, (1, 8, 1), 1e-2, 0.0, seed=0)
    networks.train(inputs, targets, 1500)
    with torch.no_grad():
        rows = torch.tensor([[-1.0], [1.0]]).expand(N_MEMBERS, 2, 1)
        mean, log_variance = (part[..., 0].numpy() for part in networks.distribution(rows))
    np.testing.assert_allclose(mean, np.tile([-1.0, 1.0], (N_MEMBERS, 1)), atol=0.15)
    np.testing.assert_allclose(np.exp(0.5 * log_variance), 0.5, rtol=0.2)
    assert len(np.unique(mean[:, 0])) == N_MEMBERS


# ---------------------------------------------------------------------- learning


def test_ensemble_learns_a_linear_plant_with_delay():
    errors, covered = learn(make_ensemble(hidden=(32, 32)), LinearPlant(1), 400)
    first, last = (np.sqrt(np.mean(part**2)) for part in (errors[:10], errors[-100:]))
    assert first > 1.0
    assert last < 0.2 * first
    assert covered[-100:].mean() > 0.75


def test_ensemble_learns_without_known_actuators():
    model = make_ensemble(UNKNOWN, past_outputs=3)
    assert model.encoder.outputs.tolist() == [1, 2]
    plant, errors = LinearPlant(2), []
    model.begin(plant.observation)
    for _ in range(300):
        action = plant.random_action()
        mean = model.predict(action).mean
        plant.step(action[0])
        errors.append(mean - plant.observation[1:])
        model.observe(action, plant.observation)
    first, last = (np.sqrt(np.mean(np.square(part), axis=0)) for part in (errors[:20], errors[-100:]))
    assert (last < 0.5 * first).all()


def test_ensemble_trains_every_few_samples():
    model, plant, steps = make_ensemble(training={"every": 4, "gradient_steps": 7}), LinearPlant(0), []
    model.networks.train = lambda inputs, targets, n: steps.append((inputs.shape, targets.shape, n))
    model.begin(plant.observation)
    for _ in range(9):
        plant.step(0.5)
        model.observe([0.5], plant.observation)
    n_inputs = model.encoder.n_inputs
    assert steps == [((4, n_inputs), (4, 1), 7), ((8, n_inputs), (8, 1), 7)]


def test_ensemble_pretrain_keeps_the_log_and_trains_as_often_as_online():
    """Two episodes, as observing them one after the other would have kept them."""
    rows, starts = [], []
    observed, pretrained = (make_ensemble(training={"every": 10**9}) for _ in range(2))
    for seed in (0, 5):
        plant = LinearPlant(seed)
        observed.begin(plant.observation)
        for k in range(12):
            before, action = plant.observation, plant.random_action()
            plant.step(action[0])
            observed.observe(action, plant.observation)
            rows.append((before, action, plant.observation))
            starts.append(k == 0)
    log = Transitions(*(np.array(part) for part in zip(*rows, strict=True)), np.array(starts))
    pretrained.pretrain(log)
    assert_same_state(pretrained, observed)
    steps, model = [], make_ensemble(training={"every": 5, "gradient_steps": 20})
    model.networks.train = lambda inputs, targets, n: steps.append((len(inputs), len(targets), n))
    model.pretrain(log)
    assert steps == [(n, n, 20) for n in (5, 10, 15, 20)]


def test_ensemble_raises_on_what_is_not_finite_before_learning():
    model, twin = trained(7), trained(7)
    with pytest.raises(ValueError, match=r"model: observation must be finite, got .*; skip the step"):
        model.observe([0.5], [50.0, np.nan, 3.0])
    log = Transitions(np.zeros((4, 3)), np.zeros((4, 1)), np.full((4, 3), np.inf), np.zeros(4))
    with pytest.raises(ValueError, match=r"model: transitions\.next_observations must be finite and of shape \(4, 3\)"):
        model.pretrain(log)
    assert_same_state(model, twin)


def test_ensemble_skip_remembers_the_last_observation_again_and_learns_nothing():
    model, twin = (trained(9, plant=UNKNOWN) for _ in range(2))
    model.skip([0.5])
    memory = twin.next_memory(twin.memory, [0.5], twin.memory.observation)
    twin.restore(twin.snapshot() | {f"memory_{name}": value for name, value in memory._asdict().items()})
    assert_same_state(model, twin)


# ---------------------------------------------------------------------- forecasts


@pytest.mark.parametrize("target", ["absolute", "delta", "log", "softplus"])
def test_ensemble_predict_is_the_forecast_of_one_step(target):
    model = trained(target=target)
    prediction = model.predict([0.4])
    forecast = model.forecast(model.memory, np.array([[[0.4]]]))
    np.testing.assert_array_equal(prediction.indices, [2])
    np.testing.assert_array_equal(prediction.mean, forecast.observations[0, 0, [2]])
    total = np.sqrt(forecast.deviations[0, 0] ** 2 + forecast.noise[0, 0] ** 2)
    np.testing.assert_allclose(prediction.high - prediction.mean, 1.6448536269514722 * total, rtol=1e-9)
    np.testing.assert_allclose(prediction.mean - prediction.low, 1.6448536269514722 * total, rtol=1e-9)


def member_path(model, member, sequence):
    """Follow one member one step at a time, as an agent follows the plant, with torch's own layers."""
    network, encoder, memory, path = modules(model.networks, member), model.encoder, model.memory, []
    for action in sequence:
        position = np.clip(memory.observation[1] + STEP * action[0], 0.0, 10.0)
        inputs = torch.from_numpy(encoder.next_inputs(memory, action)).float()
        value = encoder.next_values(memory, network(inputs)[0, :1].double().numpy())
        path.append([50.0, position, *np.clip(value, PLANT_LOW[2:], PLANT_HIGH[2:])])
        memory = encoder.next_memory(memory, action, path[-1])
    return np.array(path)


@pytest.mark.parametrize("past_outputs", [2, 0])
@pytest.mark.parametrize("target", ["absolute", "delta"])
def test_ensemble_forecast_is_the_mean_and_spread_of_its_members_vs_single_steps(target, past_outputs):
    model = trained(20, target=target, past_outputs=past_outputs)
    plans = sequences()
    forecast = model.forecast(model.memory, plans)
    paths = np.array([[member_path(model, member, plan) for plan in plans] for member in range(N_MEMBERS)])
    np.testing.assert_allclose(forecast.observations, paths.mean(axis=0), rtol=1e-4, atol=1e-4)  # float32, fed back
    for n in range(len(plans)):
        expected = np.cov(paths[:, n, :, 2].T, bias=True)
        np.testing.assert_allclose(forecast.covariances[n, 0], expected, rtol=1e-3, atol=1e-4)
    assert forecast.deviations.min() > 0.01


@pytest.mark.parametrize("past_outputs", [2, 0])
def test_draw_follows_one_member_vs_single_steps(past_outputs):
    """The same member for the same generator; every member is drawn sooner or later; nothing is uncertain."""
    model, plans = trained(20, past_outputs=past_outputs), sequences(3)
    paths = np.array([[member_path(model, member, plan) for plan in plans] for member in range(N_MEMBERS)])
    drawn = set()
    for seed in range(20):
        ours, again = (model.draw(np.random.default_rng(seed)).forecast(model.memory, plans) for _ in range(2))
        np.testing.assert_array_equal(ours.observations, again.observations)
        (member,) = np.flatnonzero(np.abs(paths - ours.observations).max(axis=(1, 2, 3)) < 1e-4)
        drawn.add(int(member))
        assert not ours.deviations.any()
    assert drawn == set(range(N_MEMBERS))


def test_forecast_is_the_mean_of_the_members_forecasts():
    model, plans = trained(20), sequences()
    each = [MemberForecaster(model, member).forecast(model.memory, plans).observations for member in range(N_MEMBERS)]
    np.testing.assert_allclose(model.forecast(model.memory, plans).observations, np.mean(each, axis=0), rtol=1e-5)


@pytest.mark.parametrize("target", ["absolute", "log"])
def test_ensemble_epistemic_covariance_is_positive_semidefinite(target):
    model = trained(target=target)
    covariances = model.forecast(model.memory, sequences(20, 8)).covariances
    np.testing.assert_allclose(covariances, covariances.swapaxes(2, 3), rtol=1e-12)
    values = np.linalg.eigvalsh(covariances)
    assert values.min() > -1e-9 * values.max()
    assert values.max() > 0


def test_ensemble_knows_less_where_it_has_not_been():
    """Learned at positions 2 and 3; three full moves lead to 9."""
    model = make_ensemble(history=0, past_outputs=0)
    model.begin([50.0, 2.0, 1.0])
    for k in range(100):
        position = 2.0 + k % 2
        model.observe([0.5 if k % 2 else -0.5], [50.0, position, -position])
    plans = np.array([[[1.0], [1.0], [1.0]], [[0.0], [0.0], [0.0]]])
    deviations = model.forecast(model.memory, plans).deviations
    assert deviations[0, 2, 0] > 3 * deviations[1, 2, 0]


def test_forecast_of_an_ensemble_starts_from_the_memory_it_is_given_and_changes_nothing():
    model, twin = trained(10), trained(10)
    memory = model.next_memory(model.first_memory([80.0, 5.0, 3.0]), [0.5], [80.0, 6.0, 2.0])
    other = model.forecast(memory, sequences()).observations
    assert (other[..., 0] == 80.0).all()
    assert (other[..., 2] != model.forecast(model.memory, sequences()).observations[..., 2]).all()
    assert_same_state(model, twin)


# ---------------------------------------------------------------------- state


@pytest.mark.parametrize("steps", [3, 40])
def test_ensemble_snapshot_continues_exactly(steps):
    """Before the first training and after some: the original, and models of another seed, train on alike."""
    model = trained(steps)
    state = model.snapshot()
    copies = [make_ensemble(seed=seed) for seed in (7, 8)]
    for copy in copies:
        copy.restore(state)
    for _ in range(2):  # at once, and after more training
        for copy in copies:
            np.testing.assert_array_equal(copy.predict([0.1]), model.predict([0.1]))
            ours, theirs = (each.forecast(each.memory, sequences()) for each in (copy, model))
            for name in ("observations", "covariances", "information"):
                np.testing.assert_array_equal(getattr(ours, name), getattr(theirs, name))
        for each in (model, *copies):
            plant = LinearPlant(4)
            for action in sequences(1, 15)[0]:
                plant.step(action[0])
                each.observe(action, plant.observation)
    other = make_ensemble()
    other.restore(state)  # the snapshot was a copy: what the model did since is not in it
    assert_same_state(other, trained(steps))


def test_ensemble_restore_forgets_the_training_after_the_snapshot():
    """A model that goes back trains as if nothing had been in between, the optimiser's moments included."""
    model, twin = trained(3), trained(3)  # before the first training
    state = model.snapshot()
    learn(model, LinearPlant(8), 20)
    model.restore(state)
    assert_same_state(model, twin)
    for each in (model, twin):
        learn(each, LinearPlant(9), 20)
    assert_same_state(model, twin)


def test_ensemble_restore_keeps_the_memory_of_the_running_episode_if_asked():
    model, twin = trained(8), trained(8)
    state = model.snapshot()
    model.observe([0.5], [50.0, 6.0, 3.0])
    memory = model.memory
    model.restore(state, keep_memory=True)
    twin.restore(state | {f"memory_{name}": value for name, value in memory._asdict().items()})
    assert_same_state(model, twin)


def test_ensemble_is_sound_until_a_weight_is_not():
    model = trained(3)
    assert model.is_sound()
    model.networks.parameters()[1].data[0, 0, 0] = torch.nan
    assert not model.is_sound()


# ---------------------------------------------------------------------- the agent


def pets(env):
    model = {"history": 2, "hidden": (8,), "n_members": 3, "training": {"gradient_steps": 2}}
    exploration = {"excitation": {"length": 4}}
    planner = {"n_candidates": 10, "n_iterations": 2}
    return agents.make("pets", env, horizon=4, hold=2, model=model, exploration=exploration, planner=planner)


def test_pets_plans_with_the_budget_of_its_planner(monkeypatch):
    """Three members along rest and 10 candidates of 4 + 2 steps, two times, then the mean; all steps at once."""
    env = Recorder(make_env(70.0), 0)
    agent, asked = pets(env).learn(5), []
    distribution = agent.model.networks.distribution
    monkeypatch.setattr(
        agent.model.networks, "distribution", lambda x, *members: asked.append(x.shape) or distribution(x, *members)
    )
    agent.predict(env.observation_space.sample())
    n_inputs = agent.model.encoder.n_inputs
    assert asked == 2 * [(3, 11 * 6, n_inputs)] + [(3, 2 * 6, n_inputs)]


def test_pets_load_resumes_exactly(tmp_path):
    whole, parts = [], []
    pets(Recorder(make_env(100.0), 3)).learn(24, callback=whole.append)
    env = Recorder(make_env(100.0), 3)
    half = pets(env).learn(13, callback=parts.append)
    half.save(tmp_path / "agent")
    agents.load(tmp_path / "agent", env).learn(11, callback=parts.append, resume=True)
    np.testing.assert_array_equal([step.action for step in parts], [step.action for step in whole])


# ---------------------------------------------------------------------- errors


@pytest.mark.parametrize("bad", [1, 2.5, None])
def test_ensemble_raises_on_too_few_members(bad):
    with pytest.raises(ValueError, match="ensemble: n_members must be a whole number of at least 2, got"):
        make_ensemble(n_members=bad)


def test_ensemble_raises_on_unknown_training_setting_with_the_nearest():
    with pytest.raises(ValueError, match=r"ensemble: training must be one of .*, got 'evry'; did you mean 'every'\?"):
        make_ensemble(training={"evry": 3})
