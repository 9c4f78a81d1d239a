"""ReplayHABNN: a HABNN that learns online and can relearn its latest samples in tempered passes."""

from typing import Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from habnn_control._network.settings import whole
from habnn_control.network import HABNN
from habnn_control.student_t import StudentT

Array = NDArray[np.float64]


class ReplayHABNN:
    """Online learning with a bounded buffer of the latest samples, and `refresh` to relearn them.

    Each sample updates the network at once, as in `HABNN.update`. A second network, of the same settings, learns only
    from the samples that have left the buffer. `refresh` starts from the posterior of the second network and learns
    the buffer in tempered passes, so that every sample of the stream counts once in all; the stream then goes on.

    An update costs at most two updates of a `HABNN`; a refresh costs passes * capacity updates.

    Parameters
    ----------
    network : HABNN
        Learns from now on; the samples that it has learned before are not in the buffer.
    capacity : int
        Number of samples in the buffer.
    passes : int
        Number of tempered passes of a refresh.
    seed : int
        Seed of the random orders of the passes.
    """

    def __init__(self, network: HABNN, capacity: int = 500, passes: int = 20, seed: int = 0) -> None:
        self.capacity, self.passes = whole("capacity", capacity, 1), whole("passes", passes, 1)
        self._rng = np.random.default_rng(whole("seed", seed, 0))
        self.network = network
        self._older = HABNN(**network.settings.as_dict())
        self._older.set_state(network.get_state())
        self._x = np.empty((capacity, network.settings.n_inputs))
        self._y = np.empty((capacity, network.settings.n_outputs))
        self._n_seen = 0

    @property
    def n_kept(self) -> int:
        """Number of samples in the buffer."""
        return min(self._n_seen, self.capacity)

    def update(self, x: ArrayLike, y: ArrayLike) -> Self:
        """Learn from one sample, x of shape (n_inputs,) and y of shape (n_outputs,), keep it, and return the model."""
        self.network.update(x, y)
        at = self._n_seen % self.capacity
        if self._n_seen >= self.capacity:
            self._older.update(self._x[at], self._y[at])
        self._x[at], self._y[at] = x, y
        self._n_seen += 1
        return self

    def refresh(self, progress_bar: bool = False) -> Self:
        """Relearn the samples of the buffer in tempered passes and return the model.

        If the passes fail or are interrupted, the network keeps the state it had before the call.
        """
        if self.n_kept == 0:
            raise ValueError("ReplayHABNN: refresh must follow at least one sample, got none; call update.")
        order = np.arange(self._n_seen - self.n_kept, self._n_seen) % self.capacity  # oldest first
        before, seed = self.network.get_state(), int(self._rng.integers(2**31))
        self.network.set_state(self._older.get_state())
        try:
            self.network.fit(self._x[order], self._y[order], self.passes, seed, progress_bar)
        except (ValueError, KeyboardInterrupt):
            self.network.set_state(before)
            raise
        return self

    def predict(self, inputs: ArrayLike, include_noise: bool = True) -> StudentT:
        """Return the predictive distribution of the network, as `HABNN.predict`."""
        return self.network.predict(inputs, include_noise)
