"""LossMonitor: tells when a plant does worse than its model explains."""

from math import isfinite, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control.control.model import StepPrediction
from habnn_control.control.plant import Plant

HALF_WIDTH = 1.645  # of a normal distribution's central 90 % interval, in standard deviations
_RATE = 0.05  # weight of the newest step in the running means: they look back over about twenty steps
_TOLL_RATE = 0.1  # weight of the newest step in the toll
_SLACK = 0.5  # standard deviations that a loss may exceed what is expected of the plant as it was, for free
_USUAL = 1.0  # surprise up to which losses are as predicted
_LARGEST = 4.0  # standard deviations that one step counts for at most: a single bad reading is no change of the plant


class LossMonitor:
    """Running means of the losses, and of how far losses exceed what the model had predicted.

    A model that is right has prediction errors of mean 0. A plant that falls into a bad state which the model does not
    know has losses above their predictions until the model has learned them.

    Parameters
    ----------
    level : float, optional
        Running mean of the losses' magnitudes; None before the first loss.
    excess : float
        Running mean of the losses minus their predictions, in standard deviations of the predictions.
    regret : float
        Sum of what the losses exceed those of the plant as it was when the regret was last 0, never below 0.
    changed : bool
        Whether hidden states of the plant seem to have changed for the worse, and the regret has not been 0 since.
    toll : float
        Running mean of what the losses exceed those of the plant as it was when the regret was last 0.
    """

    def __init__(
        self,
        level: float | None = None,
        excess: float = 0.0,
        regret: float = 0.0,
        changed: bool = False,
        toll: float = 0.0,
    ) -> None:
        self._level, self._excess, self.regret, self.changed, self.toll = level, excess, regret, changed, toll

    def append(self, loss: float, expected: float, deviation: float, before: float) -> None:
        """Append one loss with mean and standard deviation of its prediction; leave it out if one is not finite.

        `before` is the loss expected of the plant as it was when the regret was last 0.
        """
        if not (isfinite(loss) and isfinite(expected) and isfinite(deviation) and isfinite(before)):
            return
        extra = min(max(loss - before, -_LARGEST * deviation), _LARGEST * deviation)
        self.regret = max(self.regret + extra - _SLACK * deviation, 0.0)
        self.toll += _TOLL_RATE * (extra - self.toll)
        error = (loss - expected) / deviation if deviation > 0 else 0.0
        self._excess += _RATE * (min(max(error, -_LARGEST), _LARGEST) - self._excess)
        self._level = abs(loss) if self._level is None else self._level + _RATE * (abs(loss) - self._level)

    def notices_change(self, surprise: float) -> bool:
        """Tell whether hidden states of the plant seem to have changed, because losses surprise by at least so much.

        A change for the worse is regretted until its losses are made up for; a change for the better ends the regret.
        Without a change there is no regret while losses are as predicted.
        """
        found = abs(self.surprise) > surprise
        if found:
            self.changed = self.surprise > 0
            self.forget()
        else:
            self.changed = self.changed and self.regret > 0
        if not self.changed and self.surprise <= _USUAL:
            self.regret = 0.0
        return found

    def settle(self) -> None:
        """Take the plant as it is now as what it was."""
        self.regret, self.changed = 0.0, False
        self.forget()

    @property
    def level(self) -> float:
        """Mean magnitude of the recent losses: the unit of the information weight; 1 before the first loss."""
        return 1.0 if self._level is None else self._level

    @property
    def surprise(self) -> float:
        """How far recent losses exceed their predictions: standard normal in the long run for a model that is right."""
        return self._excess * sqrt(2.0 / _RATE - 1.0)

    def forget(self) -> None:
        """Begin anew with prediction errors of mean 0."""
        self._excess = 0.0

    def get_state(self) -> dict[str, float | bool | None]:
        """Return the parameters of an equal monitor."""
        return {
            "level": self._level,
            "excess": self._excess,
            "regret": self.regret,
            "changed": self.changed,
            "toll": self.toll,
        }


def predicted_loss(
    plant: Plant, prediction: StepPrediction, action: ArrayLike, observation: NDArray[np.float64]
) -> tuple[float, float]:
    """Return mean and standard deviation of the loss that a prediction stands for, with independent entries.

    Parameters
    ----------
    plant : Plant
    prediction : StepPrediction
    action : array_like, shape (n_actions,)
    observation : array, shape (n_observed,)
        Entries that are not predicted.
    """
    indices, mean, low, high = prediction
    n = len(indices)
    cases = np.tile(np.asarray(observation, dtype=np.float64), (2 * n + 1, 1))
    cases[:, indices] = mean
    cases[np.arange(n), indices], cases[np.arange(n, 2 * n), indices] = low, high  # each entry at its ends
    losses = plant.loss(np.tile(np.asarray(action), (len(cases), 1)), cases)
    width = np.sqrt(np.sum((losses[n : 2 * n] - losses[:n]) ** 2))
    return float(losses[-1]), float(width / (2 * HALF_WIDTH))
