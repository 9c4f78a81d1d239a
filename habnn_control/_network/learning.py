"""Learning from samples: one pass in the given order, or tempered passes with inferred observation noise."""

import logging
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from habnn_control._network import kernels
from habnn_control._network.parameters import Parameters
from habnn_control._network.settings import NetworkSettings
from habnn_control._network.trial import PREFIX, Trial

logger = logging.getLogger(__name__)
Array = NDArray[np.float64]

SMALLEST_STEP = 0.1  # least precision of a tempered pass, relative to an equal share of the total


class Learner:
    """Update the parameters of a network in place with the compiled kernel.

    Parameters
    ----------
    parameters : Parameters
    settings : NetworkSettings
    """

    def __init__(self, parameters: Parameters, settings: NetworkSettings) -> None:
        self._parameters, self._settings = parameters, settings
        self._slope, self._outlier = settings.negative_slope, np.array(settings.outlier)
        self._exact = settings.output_distance == "observation"
        self._errors = np.zeros(settings.n_outputs)
        self._suspects = False  # whether a trial begins after the next sample of usual size
        self._trial: Trial | None = None

    def one_pass(self, x: Array, y: Array) -> None:
        """Learn from inputs (n, n_inputs) and targets (n, n_outputs) in their order.

        Raises at the first sample that cannot be learned from; the samples before it are then learned.
        """
        self._parameters.keep_prior()
        start = 0
        while start < len(x):
            n_left = self._trial.n_left if self._trial is not None else len(x)
            learned = self._advance(x[start : start + n_left], y[start : start + n_left])
            if learned == 0:
                raise_at(start, x[start], y[start])
            start += learned

    def _advance(self, x: Array, y: Array) -> int:
        """Learn from samples until the conditions of a trial change; return their number, 0 if the first one fails."""
        state, trial = self._parameters, self._trial
        if trial is None:
            stop = kernels.AT_USUAL_SIZE if self._suspects else kernels.AT_SUSPICION
            learned, suspicion = self._run(state, x, y, state.per_output, 1.0, self._errors, stop)
            if learned and self._suspects and suspicion != kernels.LARGE:
                self._trial, self._suspects = Trial(self._settings, state), False
            elif suspicion != kernels.ORDINARY:
                self._suspects = True
            return learned
        rival = trial.rival
        learned, suspicion = self._run(rival, x, y, rival.per_output, 1.0, trial.errors[1], kernels.AT_SUSPICION)
        both = max(learned, 1)  # a sample that the rival alone cannot learn from ends the trial
        done, _ = self._run(state, x[:both], y[:both], state.per_output, 1.0, trial.errors[0], kernels.NEVER)
        if learned < both or suspicion != kernels.ORDINARY:
            self._trial, self._suspects = None, True
        elif trial.n_left == 0:
            self._judge(trial)
        return done

    def _judge(self, trial: Trial) -> None:
        """Compare network and rival; the network takes over the parameters of a rival that is clearly better."""
        if trial.compare():
            logger.warning(
                "HABNN: earlier samples were beyond what the network could explain, and %d samples later it is still "
                "worse than one that started from the prior; it takes over the parameters of that one.",
                trial.rival.n_samples,
            )
            self._parameters.restore(trial.rival.copy())
            self._trial = None
        elif trial.is_over:
            self._trial = None

    def networks(self) -> list[Parameters]:
        """Return the parameters of the network, and of a rival that learns beside it."""
        return [self._parameters] if self._trial is None else [self._parameters, self._trial.rival]

    def copy(self) -> dict[str, Any]:
        """Return copies of all that is learned, in the form that `restore` accepts."""
        trial = {} if self._trial is None else self._trial.copy()
        return {**self._parameters.copy(), "suspects": self._suspects, **trial}

    def restore(self, state: dict[str, Any]) -> None:
        """Replace all that is learned by a state of `copy`, or change nothing and raise."""
        trial = None
        if any(name.startswith(PREFIX) for name in state):
            trial = Trial(self._settings, self._parameters)
            trial.restore(state)
        suspects = bool(state["suspects"])
        self._parameters.restore(state)
        self._trial, self._suspects = trial, suspects

    def tempered_passes(
        self, x: Array, y: Array, n_passes: int, rng: np.random.Generator, progress_bar: bool = False
    ) -> None:
        """Learn from the samples in `n_passes` passes, each in its own random order, each sample once in all.

        An interruption (KeyboardInterrupt) leaves the parameters as they were after the last complete pass.
        """
        state = self._parameters
        state.keep_prior()
        self._trial = None  # it would have to learn in passes too
        schedule = NoiseSchedule(state.per_output, self._settings.temperature, n_passes, len(x))
        n_samples, complete = state.n_samples + len(x), state.copy()
        try:
            for _ in tqdm(range(n_passes), desc="HABNN passes", disable=not progress_bar):
                order = rng.permutation(len(x))
                per_output = schedule.next_pass()
                learned, _ = self._run(state, x[order], y[order], per_output, 1 / n_passes, self._errors, kernels.NEVER)
                if learned < len(x):
                    raise_at(int(order[learned]), x[order[learned]], y[order[learned]])
                state.per_output[:], state.n_samples = schedule.observe(per_output[2]), n_samples
                complete = state.copy()
        except KeyboardInterrupt:
            state.restore(complete)
            raise

    def _run(
        self, state: Parameters, x: Array, y: Array, per_output: Array, weight: float, errors: Array, stop: int
    ) -> tuple[int, int]:
        """Run the kernel over the samples, each of the given weight.

        Returns the number of samples learned from, and whether the last of them was suspicious.
        """
        learned, state.dof, suspicion = kernels.learn(
            state.loc,
            state.scale,
            state.shapes,
            state.per_layer,
            per_output,
            state.dof,
            self._settings.max_dof,
            self._slope,
            weight,
            self._outlier,
            self._exact,
            x,
            y,
            errors,
            stop,
        )
        if weight == 1.0:
            state.n_samples += learned
        return learned, suspicion


def raise_at(n: int, x: Array, y: Array) -> None:
    """Raise because of sample n, with input x and target y."""
    raise ValueError(
        f"HABNN: sample {n} must be finite and small enough to square, got x = {x}, y = {y}; remove NaN and "
        "infinity, scale the data to order one."
    )


class NoiseSchedule:
    """Noise variances of tempered passes, inferred per output in closed form while the passes go on.

    After each pass, the noise variance is the posterior mode of an EM step: with the prior variance worth `count`
    samples, the residuals r of the n samples after their own update, and the posterior variances V of the function,

        noise = (count * prior + sum of (r^2 + V)) / (count + n).

    V corrects the bias of residuals that the network has been fitted to. Early estimates are too large. So that the
    total precision is that of the last estimate, each pass takes an equal share of the precision still missing:

        1 / (noise of the pass) = (1 / (temperature * noise) - precision so far) / (number of passes left).

    A noise variance of infinite `count` is not inferred; the passes then have equal precision.

    Parameters
    ----------
    per_output : array, shape (2, n_outputs)
        Prior noise variance, and the number of samples it is worth.
    temperature : float
        Ratio of the noise variance in learning to the noise variance of the data.
    n_passes, n_samples : int
    """

    def __init__(self, per_output: Array, temperature: float, n_passes: int, n_samples: int) -> None:
        self._prior, self._count = per_output.copy()
        self._noise, self._precision = self._prior, np.zeros_like(self._prior)
        self._temperature, self._n_left = temperature, n_passes
        self._n_passes, self._n_samples = n_passes, n_samples

    def next_pass(self) -> Array:
        """Return `per_output` of the kernel for one pass, shape (4, n_outputs).

        Rows: noise variance of the pass; infinity, so that it stays; sums that the kernel adds to; noise variance.
        """
        total = 1 / (self._temperature * self._noise)
        missing = np.maximum((total - self._precision) / self._n_left, SMALLEST_STEP * total / self._n_passes)
        step = np.where(np.isinf(self._count), total / self._n_passes, missing)
        self._precision, self._n_left = self._precision + step, self._n_left - 1
        return np.stack([1 / step, np.full_like(step, inf), np.zeros_like(step), self._noise])

    def observe(self, squares: Array) -> Array:
        """Infer the noise variances from the sums of r^2 + V of a pass; return `per_output`, shape (2, n_outputs)."""
        inferred = np.isfinite(self._count)
        count = np.where(inferred, self._count, 0.0)
        estimate = (count * self._prior + squares) / (count + self._n_samples)
        self._noise = np.where(inferred, estimate, self._prior)
        return np.stack([self._noise, self._count + self._n_samples])
