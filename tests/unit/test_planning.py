"""The planners on problems whose answer is known: linear-quadratic control, quadratics in a box, broken objectives."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from habnn_control.control.planning import ICEM, MPPI, Plan, RandomShooting, coloured_noise, make_planner

PLANNERS = [ICEM(), MPPI(), RandomShooting()]
EACH_PLANNER = pytest.mark.parametrize("planner", PLANNERS, ids=lambda planner: type(planner).__name__)

# A point mass: position and velocity, pushed by a force; cost sum(x' Q x + R u^2) over the states an action leads to.
A, B = np.array([[1.0, 0.2], [0.0, 1.0]]), np.array([0.02, 0.2])
Q, R = np.diag([1.0, 0.1]), 0.05
START, FORCE, HORIZON = np.array([1.0, 0.0]), [4.0], 20


def rng(seed=0):
    return np.random.default_rng(seed)


def point_mass_costs(start):
    def costs(sequences):
        state, total = np.tile(start, (len(sequences), 1)), np.zeros(len(sequences))
        for force in sequences[:, :, 0].T:
            state = state @ A.T + np.outer(force, B)
            total += np.einsum("ni,ij,nj->n", state, Q, state) + R * force**2
        return total

    return costs


def riccati(start):
    """Return the optimal cost and forces without bounds, by the backward recursion."""
    value, gains = np.zeros((2, 2)), []
    for _ in range(HORIZON):
        ahead = Q + value
        gain = B @ ahead @ A / (R + B @ ahead @ B)
        value = A.T @ ahead @ (A - np.outer(B, gain))
        gains.append(gain)
    state, forces = start, []
    for gain in reversed(gains):
        forces.append(-gain @ state)
        state = A @ state + B * forces[-1]
    return start @ value @ start, np.array(forces)


def plan_point_mass(planner, seed=0, previous=None, start=START):
    return planner.plan(point_mass_costs(start), np.negative(FORCE), FORCE, HORIZON, rng(seed), previous)


def distance_to(target):
    return lambda sequences: ((sequences - target) ** 2).sum(axis=(1, 2))


def test_icem_point_mass_vs_riccati():
    optimum, forces = riccati(START)
    assert np.abs(forces).max() < FORCE[0]  # the bounds do not bind, so the recursion is the answer
    for seed in range(5):
        plan = plan_point_mass(ICEM(n_candidates=200, n_iterations=30, colour=0.0), seed)
        assert optimum <= plan.cost < 1.02 * optimum
        assert plan.cost == pytest.approx(point_mass_costs(START)(plan.actions[None])[0])
        assert abs(plan.actions[0, 0] - forces[0]) < 0.1 * FORCE[0]


@pytest.mark.parametrize("better", [ICEM(), MPPI()], ids=["icem", "mppi"])
def test_planner_beats_random_shooting_with_the_same_budget(better):
    optimum, _ = riccati(START)
    ours = np.array([plan_point_mass(better, seed).cost for seed in range(10)]) - optimum
    shooting = np.array([plan_point_mass(RandomShooting(), seed).cost for seed in range(10)]) - optimum
    assert ours.mean() < shooting.mean() / 2


def test_icem_warm_start_beats_cold_start_along_episodes_vs_riccati():
    planner = ICEM(n_candidates=60, n_iterations=2)
    excess = []  # of warm and cold plans over the optimum, from the same states
    for episode in range(5):
        state, warm = START, plan_point_mass(planner, episode)
        for seed in range(100 * episode, 100 * episode + 15):
            state = A @ state + B * warm.actions[0, 0]
            warm, cold = (plan_point_mass(planner, seed, previous, state) for previous in (warm, None))
            excess.append(np.array([warm.cost, cold.cost]) - riccati(state)[0])
    warm_excess, cold_excess = np.mean(excess, axis=0)
    assert 0 < warm_excess < cold_excess / 2


@EACH_PLANNER
def test_planner_warm_start_is_never_worse_than_the_shifted_plan(planner):
    before = plan_point_mass(ICEM(n_iterations=10))
    shifted = np.concatenate([before.actions[1:], np.zeros((1, 1))])
    state = A @ START + B * before.actions[0, 0]
    after = plan_point_mass(planner, 1, before, state)
    assert after.cost <= point_mass_costs(state)(shifted[None])[0]


def test_icem_finds_a_minimum_inside_the_box():
    low, high, target = np.array([-0.3, 5.1]), np.array([0.7, 5.4]), np.array([0.4, 5.15])
    plan = ICEM(n_candidates=200, n_iterations=15, least_spread=0.0).plan(distance_to(target), low, high, 6, rng())
    assert np.abs((plan.actions - target) / (high - low)).max() < 0.05
    assert np.abs((plan.mean - target) / (high - low)).max() < 0.05


def test_icem_finds_a_minimum_outside_the_box_on_its_edge():
    low, high, target = np.array([-0.3, 5.1]), np.array([0.7, 5.4]), np.array([3.0, 2.0])
    plan = ICEM(n_candidates=200, n_iterations=15).plan(distance_to(target), low, high, 6, rng())
    assert (plan.actions == np.array([0.7, 5.1])).mean() > 0.9
    assert np.abs((plan.actions - [0.7, 5.1]) / (high - low)).max() < 0.05


@EACH_PLANNER
@settings(max_examples=20, deadline=None)
@given(
    seed=st.integers(0, 2**32),
    bounds=st.lists(st.tuples(st.floats(-1e3, 1e3), st.floats(1e-3, 1e3)), min_size=1, max_size=4),
    horizon=st.integers(1, 9),
)
def test_planner_never_leaves_the_bounds(planner, seed, bounds, horizon):
    low = np.array([least for least, _ in bounds])
    high = low + [width for _, width in bounds]
    tried = []

    def objective(sequences):
        tried.append(sequences)
        return -sequences.sum(axis=(1, 2))

    first = planner.plan(objective, low, high, horizon, rng(seed))
    second = planner.plan(objective, low, high, horizon, rng(seed), first)
    for sequences in (*tried, first.actions, first.mean, first.elites, second.actions, second.mean, second.elites):
        assert ((sequences >= low) & (sequences <= high)).all()
    assert second.actions.shape == (horizon, len(bounds))


@EACH_PLANNER
@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_planner_never_chooses_costs_that_are_not_finite(planner, bad):
    counts = []

    def objective(sequences):
        costs = distance_to(np.array([0.8]))(sequences)
        broken = sequences[:, 0, 0] > 0.2  # the better half of them
        counts.append(broken.sum())
        return np.where(broken, bad, costs)

    plan = planner.plan(objective, [-1.0], [1.0], 4, rng())
    assert plan.actions[0, 0] <= 0.2
    assert plan.cost == distance_to(np.array([0.8]))(plan.actions[None])[0]
    assert plan.rejected == sum(counts) > 0


@EACH_PLANNER
def test_planner_without_a_finite_cost_stays_in_bounds_and_says_so(planner):
    def broken(sequences):
        return np.full(len(sequences), np.nan)

    previous = planner.plan(distance_to(np.array([0.8])), [-1.0], [1.0], 4, rng())
    for before in (None, previous):
        plan = planner.plan(broken, [-1.0], [1.0], 4, rng(), before)
        assert plan.cost == np.inf
        assert plan.rejected >= planner.n_candidates * planner.n_iterations
        assert np.isfinite(plan.actions).all()
        assert np.abs(plan.actions).max() <= 1.0
        recovered = planner.plan(distance_to(np.array([0.8])), [-1.0], [1.0], 4, rng(), plan)
        assert recovered.cost < np.inf


@pytest.mark.parametrize("n_finite", [100, 4])
def test_icem_mean_moves_towards_the_finite_elites_vs_definition(n_finite):
    tried = []

    def objective(sequences):
        costs = distance_to(np.array([0.8]))(sequences)
        tried.append((sequences, costs))
        return np.where(costs <= np.sort(costs)[:n_finite][-1], costs, np.nan)

    plan = ICEM(n_iterations=1, n_elites=10, momentum=0.25).plan(objective, [-1.0], [2.0], 4, rng())
    sequences, costs = tried[0]
    elites = sequences[np.argsort(costs)[: min(10, n_finite)]]
    np.testing.assert_allclose(plan.mean, 0.25 * 0.5 + 0.75 * elites.mean(axis=0))
    np.testing.assert_array_equal(plan.elites, elites[:3])


@EACH_PLANNER
def test_planner_never_returns_less_than_its_last_mean(planner):
    for seed in range(10):
        plan = plan_point_mass(planner, seed)
        assert plan.cost <= point_mass_costs(START)(plan.mean[None])[0] * (1 + 1e-12)


@pytest.mark.parametrize("huge", [1e6, 1e300])
def test_mppi_is_not_blinded_by_a_few_huge_costs(huge):
    def objective(sequences):
        return np.where(sequences[:, 0, 0] < -0.8, huge, distance_to(np.array([0.5]))(sequences))

    def cost(objective):
        return np.mean([MPPI().plan(objective, [-1.0], [1.0], 8, rng(seed)).cost for seed in range(10)])

    assert cost(objective) < 1.2 * cost(distance_to(np.array([0.5])))


@EACH_PLANNER
def test_planner_is_fine_with_a_flat_objective(planner):
    plan = planner.plan(lambda sequences: np.zeros(len(sequences)), [-1.0, 0.0], [1.0, 2.0], 3, rng())
    assert (plan.cost, plan.rejected) == (0.0, 0)
    np.testing.assert_array_equal(plan.actions, np.tile([0.0, 1.0], (3, 1)))  # the middle, which is tried first


@EACH_PLANNER
def test_planner_is_deterministic_under_its_generator(planner):
    first, again, other = (plan_point_mass(planner, seed) for seed in (3, 3, 4))
    for ours, theirs in zip(first, again, strict=True):
        np.testing.assert_array_equal(ours, theirs)
    assert (first.actions != other.actions).any()


@EACH_PLANNER
def test_planner_spends_its_budget(planner):
    spent = []

    def objective(sequences):
        spent.append(len(sequences))
        return distance_to(np.zeros(1))(sequences)

    planner.plan(objective, [-1.0], [1.0], 4, rng())
    assert 0 <= sum(spent) - planner.n_candidates * planner.n_iterations <= 1  # MPPI looks at its last mean too


@pytest.mark.parametrize("exponent", [0.0, 1.0, 2.0, 3.5])
@pytest.mark.parametrize("horizon", [31, 64])
def test_coloured_noise_spectrum_falls_with_its_exponent_vs_fit(exponent, horizon):
    noise = coloured_noise(rng(), 2000, horizon, 2, exponent)
    waves = np.arange(1, (horizon + 1) // 2)  # without the constant and, of an even horizon, the fastest wave
    power = (np.abs(np.fft.rfft(noise, axis=1)) ** 2).mean(axis=(0, 2))[waves]
    log_wave = np.log(waves) - np.log(waves).mean()
    slope = log_wave @ np.log(power) / (log_wave @ log_wave)
    # |wave|^2 is exponential: its mean over 4000 draws has the relative standard error 1 / sqrt(4000).
    assert abs(slope + exponent) < 5 / np.sqrt(4000 * (log_wave @ log_wave))


@pytest.mark.parametrize("exponent", [0.0, 2.0, 1000.0])
@pytest.mark.parametrize("horizon", [1, 2, 31])
def test_coloured_noise_has_unit_variance_at_every_step_vs_moments(exponent, horizon):
    noise = coloured_noise(rng(1), 5000, horizon, 3, exponent)
    assert noise.shape == (5000, horizon, 3)
    assert np.abs(noise.mean(axis=0)).max() < 5 / np.sqrt(5000)
    assert np.abs(noise.var(axis=0) - 1.0).max() < 5 * np.sqrt(2 / 5000)
    across = (noise[..., 0] * noise[..., 1]).mean(axis=0)  # actions are independent of each other
    assert np.abs(across).max() < 5 / np.sqrt(5000)


def test_coloured_noise_of_exponent_zero_is_white_vs_moments():
    noise = coloured_noise(rng(2), 2000, 30, 1, 0.0)[..., 0]
    for lag in (1, 2, 15):
        assert abs((noise[:, lag:] * noise[:, :-lag]).mean()) < 5 / np.sqrt(2000 * (30 - lag))


@pytest.mark.parametrize(
    ("kind", "wrong", "message"),
    [
        (ICEM, {"n_candidates": 1}, "ICEM: n_candidates must be a whole number of at least 2, got 1"),
        (MPPI, {"n_candidates": 10.5}, "MPPI: n_candidates must be a whole number of at least 2, got 10.5"),
        (
            RandomShooting,
            {"n_iterations": 0},
            "RandomShooting: n_iterations must be a whole number of at least 1, got 0",
        ),
        (ICEM, {"colour": float("nan")}, "ICEM: colour must be at least 0 and spread positive, both finite, got nan"),
        (ICEM, {"colour": -1.0}, "ICEM: colour must be at least 0"),
        (MPPI, {"spread": 0.0}, "MPPI: colour must be at least 0 and spread positive, both finite, got 2.0 and 0.0"),
        (ICEM, {"n_elites": 101}, "ICEM: n_kept <= n_elites <= n_candidates must hold, got 3, 101, 100"),
        (ICEM, {"n_kept": 11}, "ICEM: n_kept <= n_elites <= n_candidates must hold, got 11, 10, 100"),
        (ICEM, {"n_kept": 1.5}, "ICEM: n_kept must be a whole number of at least 1, got 1.5"),
        (ICEM, {"least_spread": -0.1}, "ICEM: least_spread must be finite and at least 0"),
        (ICEM, {"momentum": float("nan")}, r"momentum in \[0, 1\), got 0.05 and nan"),
        (ICEM, {"momentum": 1.0}, r"momentum in \[0, 1\), got 0.05 and 1.0"),
        (MPPI, {"temperature": 0.0}, "MPPI: temperature must be positive, got 0.0"),
        (MPPI, {"temperature": float("nan")}, "MPPI: temperature must be positive, got nan"),
    ],
)
def test_planner_raises_on_bad_setting(kind, wrong, message):
    with pytest.raises(ValueError, match=message):
        kind(**wrong)


@pytest.mark.parametrize(
    ("chosen", "expected"),
    [
        ({}, ICEM()),
        ({"n_candidates": 20, "n_elites": 5}, ICEM(n_candidates=20, n_elites=5)),
        ({"kind": "icem", "momentum": 0.3}, ICEM(momentum=0.3)),
        ({"kind": "mppi", "temperature": 0.5, "colour": 1.0}, MPPI(temperature=0.5, colour=1.0)),
        ({"kind": "random-shooting", "n_iterations": 7}, RandomShooting(n_iterations=7)),
    ],
)
def test_make_planner_builds_the_kind_with_its_settings(chosen, expected):
    before = dict(chosen)
    assert make_planner(chosen) == expected
    assert chosen == before


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        (
            {"kind": "icme"},
            r"planner: kind must be one of icem, mppi, random-shooting, got 'icme'; did you mean 'icem'",
        ),
        ({"kind": None}, r"planner: kind must be one of icem, mppi, random-shooting, got None"),
        ({"n_elite": 5}, r"icem: setting must be one of .*, got 'n_elite'; did you mean 'n_elites'"),
        ({"kind": "mppi", "n_elites": 5}, r"mppi: setting must be one of .*temperature, got 'n_elites'"),
        ({"kind": "mppi", "temperature": -1.0}, r"MPPI: temperature must be positive, got -1\.0"),
    ],
)
def test_make_planner_raises_on_unknown_kind_and_setting_with_the_nearest(wrong, message):
    with pytest.raises(ValueError, match=message):
        make_planner(wrong)


PLAN_OF_FOUR = Plan(np.zeros((4, 1)), 0.0, np.zeros((4, 1)), np.zeros((0, 4, 1)), 0)


@EACH_PLANNER
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"horizon": 2.5}, "horizon must be a whole number of at least 1, got 2.5"),
        ({"low": [2.0]}, r"low and high must be finite vectors with low < high, got \[2.\] and \[1.\]"),
        ({"low": [np.nan]}, "low and high must be finite vectors"),
        ({"high": [np.inf]}, "low and high must be finite vectors"),
        ({"high": [1.0, 1.0]}, "low and high must be finite vectors"),
        ({"low": -1.0, "high": 1.0}, "low and high must be finite vectors"),
        ({"horizon": 5, "previous": PLAN_OF_FOUR}, r"previous must be a plan of shape \(5, 1\), got \(4, 1\)"),
        ({"objective": np.mean}, r"objective must return costs of shape \(\d+,\), got \(\)"),
    ],
)
def test_plan_raises_on_bad_argument(planner, change, message):
    good = {"objective": distance_to(np.zeros(1)), "low": [-1.0], "high": [1.0], "horizon": 4, "rng": rng()}
    with pytest.raises(ValueError, match=message):
        planner.plan(**good | change)
