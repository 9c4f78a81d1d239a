"""Recovery from faulty samples: a network from the prior learns beside one that has met a sample it cannot explain."""

from typing import Any

import numpy as np

from habnn_control._network.parameters import Parameters
from habnn_control._network.settings import NetworkSettings

FIRST_AGE, LAST_AGE = 100, 3200  # samples after which the two networks are compared: 100, 200, 400, ..., 3200
SETTLED_AGE = 400
# Ratio of the mean squared errors, at which the old network is replaced: at first, and from SETTLED_AGE on.
EARLY_RATIO, LATE_RATIO = 4.0, 1.5
PREFIX = "rival_"


class Trial:
    """A rival that starts from the prior of a network, and the errors of both since.

    A sample of absurd size or far outside the predictive distribution may have led the locations, the scales or the
    noise variance to where thousands of clean samples do not lead back. A network that has met no such sample shows
    whether that is so. Both learn from the same samples. After 100, 200, 400, ... samples their squared errors in the
    latter half of these, made before learning from each sample, are compared.

    Parameters
    ----------
    settings : NetworkSettings
    network : Parameters
        The network whose prior locations the rival starts from.

    Attributes
    ----------
    rival : Parameters
    errors : array, shape (2, n_outputs)
        Sums of squared errors of the network and of the rival since the last age of comparison.
    next_age : int
        Number of samples of the rival at the next comparison.
    """

    def __init__(self, settings: NetworkSettings, network: Parameters) -> None:
        self.rival = Parameters(settings)
        self.rival.loc[:] = self.rival.prior_loc[:] = network.prior_loc
        self.errors = np.zeros((2, settings.n_outputs))
        self.next_age = FIRST_AGE // 2

    @property
    def n_left(self) -> int:
        """Number of samples until the next comparison."""
        return self.next_age - self.rival.n_samples

    def compare(self) -> bool:
        """Return whether the rival has clearly smaller errors, geometric mean over the outputs; begin a new window."""
        ratio = np.exp(np.diff(np.log(self.errors + np.finfo(float).tiny), axis=0).mean())
        judged = self.rival.n_samples >= FIRST_AGE
        limit = EARLY_RATIO if self.rival.n_samples < SETTLED_AGE else LATE_RATIO
        self.errors[:] = 0.0
        self.next_age *= 2
        return judged and bool(ratio * limit < 1)

    @property
    def is_over(self) -> bool:
        """Whether the last comparison has been made."""
        return self.rival.n_samples >= LAST_AGE

    def copy(self) -> dict[str, Any]:
        """Return copies of the state, in the form that `restore` accepts."""
        state = {**self.rival.copy(), "errors": self.errors.copy(), "next_age": self.next_age}
        return {f"{PREFIX}{name}": value for name, value in state.items()}

    def restore(self, state: dict[str, Any]) -> None:
        """Replace the state by one of `copy`."""
        own = {name.removeprefix(PREFIX): value for name, value in state.items() if name.startswith(PREFIX)}
        errors = np.asarray(own["errors"])
        if errors.shape != self.errors.shape or errors.dtype != np.float64 or not (errors >= 0).all():
            raise ValueError(
                "HABNN: state rival_errors must be numbers not below 0, got others; use that of a network."
            )
        self.rival.restore(own)
        self.errors[:], self.next_age = errors, int(own["next_age"])
