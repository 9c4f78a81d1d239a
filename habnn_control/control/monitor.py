"""LossMonitor: tells when a plant does worse than its model explains."""

from math import isfinite, sqrt

_RATE = 0.05  # weight of the newest step in the running means: they look back over about twenty steps
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
    """

    def __init__(self, level: float | None = None, excess: float = 0.0) -> None:
        self._level, self._excess = level, excess

    def append(self, loss: float, expected: float, deviation: float) -> None:
        """Append one loss with mean and standard deviation of its prediction; leave it out if one is not finite."""
        if not (isfinite(loss) and isfinite(expected) and isfinite(deviation)):
            return
        error = (loss - expected) / deviation if deviation > 0 else 0.0
        self._excess += _RATE * (min(max(error, -_LARGEST), _LARGEST) - self._excess)
        self._level = abs(loss) if self._level is None else self._level + _RATE * (abs(loss) - self._level)

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

    def get_state(self) -> dict[str, float | None]:
        """Return the parameters of an equal monitor."""
        return {"level": self._level, "excess": self._excess}
