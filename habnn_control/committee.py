"""HABNNCommittee: networks of several noise variances, weighted and calibrated by held-out samples."""

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from math import inf
from typing import Any, Self, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from tqdm import tqdm

from habnn_control._network import annealing
from habnn_control._network.settings import whole
from habnn_control._storage import Storable, Tree, array_of, check_memory, includes
from habnn_control.autoscaled import AutoscaledHABNN
from habnn_control.joint import JointHABNN
from habnn_control.stacking import DOFS, Calibration, behind, calibrate, hopeless, mixture, stacking_weights
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]

# From a Bayesian linear model to networks that explain all but a ten-thousandth of the variance of the targets. Which
# ones serve a data set is decided by held-out samples.
LINEAR: dict[str, Any] = {"hidden": (), "temperature": 1.0}
ANNEALED: tuple[dict[str, Any], ...] = (
    LINEAR,
    *(
        {"covariance": "joint", "annealed": True, "noise_variance": noise}
        for noise in (1.0, 0.25, 0.06, 0.015, 0.004, 0.001, 2.5e-4, 6e-5)
    ),
)
# The default of files of before, and that of noise that depends on the input: all settings are tried one by one, each
# also with its inputs scaled by their relevance.
JOINT: tuple[dict[str, Any], ...] = tuple(
    {"covariance": "joint", "noise_variance": noise} for noise in (1.0, 0.2, 0.04, 0.008, 0.0016, 3e-4, 6e-5)
)
CANDIDATES: tuple[dict[str, Any], ...] = (LINEAR, *JOINT, *({**settings, "relevance": 1} for settings in JOINT))
# For networks with more than `MOST_WEIGHTS` weights, or another number of hidden layers than one: one scale matrix per
# neuron and cold posteriors.
WIDE_CANDIDATES: tuple[dict[str, Any], ...] = (
    LINEAR,
    {"temperature": 0.3, "scale": 0.3},
    {"temperature": 0.1, "scale": 1.0, "relevance": 1},
    {"temperature": 0.03, "scale": 3.0},
    {"temperature": 0.03, "scale": 3.0, "relevance": 1},
)
MOST_WEIGHTS = 2000
SEARCH_ROWS = 2000  # from where on the search makes one pass per noise variance, not two
LOWER = 2  # steps from the first chosen noise variance to the second one
# Of the weights per network, and bounds on the number of passes, if that number is not given.
UPDATES, FEWEST_PASSES, MOST_PASSES = 400_000, 20, 100
JOINT_UPDATES, FEWEST_JOINT_PASSES, MOST_JOINT_PASSES = 12_000, 3, 20


@dataclass
class _Candidate:
    """One setting: its networks, one per fold, and their predictions of the samples held out from them."""

    settings: dict[str, Any]
    extra: dict[str, Any] = field(default_factory=dict)  # settings that were found before the folds
    members: list[AutoscaledHABNN] = field(default_factory=list)
    loc: list[Array] = field(default_factory=list)
    variance: list[Array] = field(default_factory=list)
    evidence: Array = field(default_factory=lambda: np.empty(0))  # log likelihood of each held-out sample

    @property
    def plain(self) -> dict[str, Any]:
        """The settings without a refit by relevance."""
        return {name: value for name, value in self.settings.items() if name != "relevance"}

    def add(self, member: AutoscaledHABNN, held_out: Array, targets: Array) -> None:
        """Add a fitted network and its predictions of held-out inputs; `targets` are all held out so far."""
        prediction = member.predict(held_out)
        self.members.append(member)
        self.loc.append(prediction.mean)
        self.variance.append(prediction.variance)
        _, self.evidence = calibrate(targets - np.concatenate(self.loc), np.concatenate(self.variance))

    def predict(self, x: Array, include_noise: bool) -> tuple[Array, Array]:
        """Return means and variances of each network at each row of x, each (n_networks, n, n_outputs)."""
        predictions = [member.predict(x, include_noise) for member in self.members]
        return np.stack([p.mean for p in predictions]), np.stack([p.variance for p in predictions])


class HABNNCommittee(Storable):
    """The recommended regression model for a data set that is all there; raw units, nothing to choose.

    The samples are split into folds. One joint network is annealed on all folds but the first, from a large noise
    variance to small ones, and predicts the first fold after each of them. Taken are the largest noise variance whose
    likelihood is within a standard error of the highest, and a sixteenth of it. The square roots of the effects of the
    inputs on that network scale the inputs of all others. For each fold, a linear model and annealed networks of both
    noise variances learn from the other folds and predict the fold. The likelihood of all held-out samples weights
    these candidates (stacking), and their errors calibrate the predicted variance and the tails. A candidate that is
    clearly behind is dropped early. The prediction averages the networks of all folds.

    Candidates that are given, and those of wide networks or of noise that depends on the input, are all tried on the
    first fold, in tempered passes: noise variances below one that is clearly too small are left out, and only
    candidates that are not clearly behind are refitted with inputs scaled by their relevance.

    The variances of the folds are averaged without the spread of their means: held-out errors are those of single
    folds, and the average over the folds errs less by just this spread.

    Parameters
    ----------
    n_inputs, n_outputs : int
        Number of entries of x and of y.
    hidden : sequence of int
        Widths of the hidden layers of all candidates that do not set their own.
    candidates : sequence of dict, optional
        Settings of `AutoscaledHABNN`. None: a linear model and annealed joint networks with falling noise variances
        (`ANNEALED`); with `heteroscedastic`, `CANDIDATES`; for several hidden layers, or more than 2000 weights,
        `WIDE_CANDIDATES`.
    folds : int
        Number of folds, at least 2, which is the number of networks per candidate.
    passes : int, optional
        Number of passes, at least 2. None: 2 to 16 for annealed networks, more for less noise; as many tempered passes
        as make 12,000 updates, within 3 to 20, for other joint networks; 400,000 updates, within 20 to 100, for others.
    outlier_threshold : float
        Standardised residual at which a training target has half its weight, as in `HABNN`; infinity trusts all targets
        equally, 5 is recommended for targets with gross errors.
    heteroscedastic : bool
        Whether the noise of the joint networks depends on the input, as in `JointHABNN`; `fit` then tries all
        `CANDIDATES` in tempered passes, which takes about twenty times as long.
    seed : int
        Seed of the folds, the prior locations and the orders of the passes.

    Attributes
    ----------
    weights : list of (dict, float)
        The candidates that were kept and their weights in the prediction; empty before `fit`.
    calibration : Calibration
        Factor of the predicted variances and dof of the prediction; there after `fit`.
    """

    _kind = "HABNNCommittee"

    def __init__(
        self,
        n_inputs: int,
        n_outputs: int = 1,
        *,
        hidden: Sequence[int] = (50,),
        candidates: Sequence[Mapping[str, Any]] | None = None,
        folds: int = 5,
        passes: int | None = None,
        outlier_threshold: float = inf,
        heteroscedastic: bool = False,
        seed: int = 0,
    ) -> None:
        self._given = {name: value for name, value in locals().items() if name != "self"}
        self.folds, self.seed = whole("folds", folds, 2), whole("seed", seed, 0)
        self.passes = None if passes is None else whole("passes", passes, 2)
        self._annealed, self._settings = True, _settings(self._given)
        for settings in self._settings:
            AutoscaledHABNN(**settings)  # raises on a bad setting
        self._n_inputs, self._n_outputs = n_inputs, n_outputs
        self._kept: list[_Candidate] = []
        self.weights: list[tuple[Mapping[str, Any], float]] = []

    def fit(self, inputs: ArrayLike, targets: ArrayLike, progress_bar: bool = False) -> Self:
        """Forget all earlier samples, learn from the given ones, and return the model.

        If the samples cannot be learned from, or on Ctrl-C, the model keeps the state it had before the call.

        Parameters
        ----------
        inputs : array_like, shape (n, n_inputs)
            At least two samples.
        targets : array_like, shape (n, n_outputs), or (n,) for one output
        progress_bar : bool
            Whether to show a bar that counts the folds.
        """
        x, y = np.asarray(inputs, dtype=np.float64), np.asarray(targets, dtype=np.float64)
        y = y[:, None] if y.ndim == 1 else y
        if len(x) < 2 or len(x) != len(y):
            raise ValueError(
                f"HABNNCommittee: fit needs at least two samples and as many targets, got {len(x)} inputs and {len(y)} "
                "targets; for fewer use AutoscaledHABNN."
            )
        order = np.random.default_rng(self.seed).permutation(len(x))
        folds, seen = np.array_split(order, min(self.folds, len(x))), order[:0]
        kept = self._search(x, y, folds[0])
        for k, fold in enumerate(tqdm(folds, desc="HABNN folds", disable=not progress_bar)):
            rest, seen = np.setdiff1d(order, fold), np.concatenate([seen, fold])
            tried: list[_Candidate] = []
            for candidate in kept:
                if k == 0 and (_past_the_best(tried, candidate) or self._not_worth_a_refit(tried, candidate)):
                    continue
                passes = self.passes or recommended_passes(len(x), candidate.settings)
                given = {"passes": passes, "seed": self.seed + k, **candidate.settings, **candidate.extra}
                member = _member(given, tried, x[rest], y[rest])
                candidate.add(member, x[fold], y[seen])
                tried.append(candidate)
            best = max((candidate.evidence for candidate in tried), key=np.sum)
            kept = [candidate for candidate in tried if not hopeless(best - candidate.evidence)]
        self._finish(kept, y[order])
        return self

    def _search(self, x: Array, y: Array, fold: NDArray[np.int64]) -> list[_Candidate]:
        """Return the candidates, but of annealed ones at most two, with the gains of the inputs."""
        annealed = [settings for settings in self._settings if settings.get("annealed")]
        rest = np.setdiff1d(np.arange(len(x)), fold)
        if not annealed or len(rest) < annealed[0]["warmup"]:
            return [_Candidate(settings) for settings in self._settings]
        model = AutoscaledHABNN(**{"seed": self.seed, "passes": 2, **annealed[0]})
        levels = [settings["noise_variance"] for settings in annealed]
        evidences, best = _evidences(model, (x[rest], y[rest]), (x[fold], y[fold]), levels)
        model.network = best
        extra = {"gains": tuple(np.sqrt(model.effects(x[rest])))}
        highest = max(evidences, key=np.sum)
        first = next(n for n, one in enumerate(evidences) if not behind(highest - one, 1.0))
        chosen = annealed[first : first + LOWER + 1 : LOWER]
        others = [settings for settings in self._settings if not settings.get("annealed")]
        return [*map(_Candidate, others), *(_Candidate(settings, extra) for settings in chosen)]

    def _not_worth_a_refit(self, tried: Sequence[_Candidate], candidate: _Candidate) -> bool:
        """Return whether a candidate is another one with a refit by relevance, which was not tried or is behind."""
        if not candidate.settings.get("relevance") or candidate.plain not in self._settings:
            return False
        best = max((one.evidence for one in tried), key=np.sum)
        return all(hopeless(best - one.evidence) for one in tried if dict(one.settings) == candidate.plain)

    def partial_fit(self, inputs: ArrayLike, targets: ArrayLike) -> Self:
        """Continue with more samples, which all networks learn, and return the model; the first call is `fit`.

        The weights of the candidates and the calibration stay those of `fit`.
        """
        if not self._kept:
            return self.fit(inputs, targets)
        members = [member for candidate in self._kept for member in candidate.members]
        for member in members:
            member.partial_fit(inputs, targets)
        return self

    def predict(self, inputs: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution at each row of `inputs`, a StudentT over (n, n_outputs).

        With `include_noise=False` its variance is the epistemic variance.
        """
        if not self._kept:
            raise ValueError("HABNNCommittee: predict must follow fit, got no samples yet; call fit.")
        x = np.asarray(inputs, dtype=np.float64)
        pairs = [candidate.predict(x, include_noise) for candidate in self._kept]
        means, variances = mixture(np.array([weight for _, weight in self.weights]), pairs)
        return self.calibration.apply(means.mean(axis=0), variances.mean(axis=0))

    def _finish(self, kept: list[_Candidate], y: Array) -> None:
        """Weight the candidates by their evidence and calibrate their mixture on the held-out targets y."""
        weights = stacking_weights(np.stack([candidate.evidence for candidate in kept]))
        pairs = [(np.concatenate(candidate.loc), np.concatenate(candidate.variance)) for candidate in kept]
        mean, variance = mixture(weights, pairs)
        self.calibration, _ = calibrate(y - mean, variance)
        self._keep(kept, weights)

    def _keep(self, kept: list[_Candidate], weights: Array) -> None:
        self._kept = kept
        names = [{k: v for k, v in c.settings.items() if k not in ("n_inputs", "n_outputs", "warmup")} for c in kept]
        self.weights = list(zip(names, map(float, weights), strict=True))

    def _tree(self) -> Tree:
        if not self._kept:
            return {"given": self._given, "annealed": self._annealed, "kept": []}
        kept = [
            {"number": self._settings.index(c.settings), "members": [member._tree() for member in c.members]}
            for c in self._kept
        ]
        weights = np.array([weight for _, weight in self.weights])
        factor, dof = self.calibration
        state = {"kept": kept, "weights": weights, "factor": factor, "dof": dof}
        return {"given": self._given, "annealed": self._annealed, **state}

    @classmethod
    def _from_tree(cls, tree: Tree) -> Self:
        given, annealed = tree["given"], bool(tree.get("annealed", False))
        for settings in _settings(given, annealed):
            check_memory(settings)
        model, kept = cls(**given), []
        model._annealed, model._settings = annealed, _settings(given, annealed)
        for part in tree["kept"]:
            settings = model._settings[whole("number", part["number"], 0)]
            members = [AutoscaledHABNN._from_tree(member) for member in part["members"]]
            if not members or not all(includes(member._given, settings) for member in members):
                raise ValueError("state members must have the settings of their candidate, got others")
            kept.append(_Candidate(settings, members=members))
        if kept:
            weights = array_of(tree, "weights", (len(kept),), least=0.0)
            factor = array_of(tree, "factor", (model._n_outputs,), least=1e-300)
            if tree["dof"] not in DOFS or not abs(weights.sum() - 1) < 1e-6:
                raise ValueError("state weights must add up to 1 and dof be known, got others")
            model.calibration = Calibration(factor, float(tree["dof"]))
            model._keep(kept, weights)
        return model


def _settings(given: Mapping[str, Any], annealed: bool = True) -> list[dict[str, Any]]:
    """Return the settings of all candidates of a committee with these arguments, or raise.

    `annealed` is False for files of before, whose default candidates were `CANDIDATES`.
    """
    n_inputs, n_outputs, hidden = given["n_inputs"], given["n_outputs"], tuple(given["hidden"])
    shape: dict[str, Any] = {"n_inputs": n_inputs, "n_outputs": n_outputs, "hidden": hidden, "warmup": 2}
    if given["outlier_threshold"] < inf:
        shape["outlier_threshold"] = given["outlier_threshold"]
    candidates = given["candidates"]
    if candidates is None:
        candidates = WIDE_CANDIDATES
        if can_be_joint(n_inputs, n_outputs, hidden):
            candidates = ANNEALED if annealed and not given["heteroscedastic"] else CANDIDATES
        if n_inputs == 1:  # the relevance of a single input is 1
            candidates = [one for one in candidates if "relevance" not in one]
    joint = {"heteroscedastic": given["heteroscedastic"]} if given["heteroscedastic"] else {}
    settings = [{**shape, **(joint if one.get("covariance") == "joint" else {}), **one} for one in candidates]
    if not settings:
        raise ValueError("HABNNCommittee: candidates must name at least one setting, got none; pass a dict each.")
    if joint and not any("heteroscedastic" in one for one in settings):
        raise ValueError(
            "HABNNCommittee: heteroscedastic must be False without joint networks, got True; take one hidden layer and "
            f"at most {MOST_WEIGHTS} weights."
        )
    return settings


def can_be_joint(n_inputs: int, n_outputs: int, hidden: tuple[int, ...]) -> bool:
    """Return whether a network of this shape has one hidden layer and at most `MOST_WEIGHTS` weights."""
    if len(hidden) != 1:
        return False
    return hidden[0] * (n_inputs + 1) + n_outputs * (hidden[0] + 1) <= MOST_WEIGHTS


def recommended_passes(n: int, settings: Mapping[str, Any]) -> int:
    """Return the number of tempered passes over n samples for a candidate."""
    if settings.get("annealed"):
        return annealing.recommended_passes(n, settings["noise_variance"])
    if settings.get("covariance") == "joint":
        return int(np.clip(JOINT_UPDATES // n, FEWEST_JOINT_PASSES, MOST_JOINT_PASSES))
    return int(np.clip(UPDATES // n, FEWEST_PASSES, MOST_PASSES))


def _member(given: Mapping[str, Any], tried: Sequence[_Candidate], x: Array, y: Array) -> AutoscaledHABNN:
    """Return a network that learned a fold; a refit by relevance starts from that of the plain candidate, if tried."""
    if given.get("relevance") == 1 and len(x) >= given["warmup"]:
        plain = {name: value for name, value in given.items() if name not in ("relevance", "passes", "seed")}
        for other in tried:
            if other.settings == plain:
                return other.members[-1].with_relevance(x, y)
    return AutoscaledHABNN(**given).fit(x, y)


def _evidences(
    model: AutoscaledHABNN, given: tuple[Array, Array], held_out: tuple[Array, Array], levels: Sequence[float]
) -> tuple[list[Array], JointHABNN]:
    """Anneal a new model; return log likelihoods of held-out samples, one array per level, and the best network.

    Ends early after two levels that are clearly behind.
    """
    evidences: list[Array] = []
    best, passes = model.network, 1 if len(given[0]) > SEARCH_ROWS else 2
    for number, _ in enumerate(model.anneal(*given, np.repeat(levels, passes))):
        if number % passes < passes - 1:
            continue
        prediction = model.predict(held_out[0])
        evidences.append(calibrate(held_out[1] - prediction.mean, prediction.variance)[1])
        highest = max(evidences, key=np.sum)
        if highest is evidences[-1]:
            best = deepcopy(model.network)
        if all(hopeless(highest - one) for one in evidences[-2:]):
            break
    return evidences, cast(JointHABNN, best)


def _past_the_best(tried: Sequence[_Candidate], candidate: _Candidate) -> bool:
    """Return whether the noise variance falls further although the last step down made held-out samples less likely.

    `tried` are the candidates before this one. The likelihood has one peak over the noise variance.
    """
    last = [c for c in (*tried[-2:], candidate) if "noise_variance" in c.settings]
    levels = [c.settings["noise_variance"] for c in last]
    if len(last) < 3 or not levels[0] > levels[1] > levels[2]:
        return False
    return hopeless(last[0].evidence - last[1].evidence)
