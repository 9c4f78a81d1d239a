"""The Industrial Benchmark as a Gymnasium environment."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from envs._kernels.benchmark import CONSUMPTION, FATIGUE, MARKOV_NAMES, FloatArray, combined_loss
from envs.batch import PlantBatch
from envs.mirror import Mirror
from envs.variant import Variant, unknown

if TYPE_CHECKING:
    from envs.rendering import StripChart


class IndustrialBenchmarkEnv(gym.Env[FloatArray, Any]):
    """A plant with three actuators, whose consumption and fatigue a controller has to keep low.

    An exact re-implementation of the Siemens Industrial Benchmark (package industrial-benchmark-python 2.0): with equal
    noise, the states are equal up to rounding.

    ## Action space
    ``Box(-1, 1, (3,), float32)``, changes of the actuator positions; finite values outside are clipped.

    | index | actuator | change per unit of action | range of the position |
    |---|---|---|---|
    | 0 | velocity | 1 | 0 to 100 |
    | 1 | gain | 10 | 0 to 100 |
    | 2 | shift | 5.75 | 0 to 100 |

    With ``action_type="discrete"``: ``Discrete(27)``, all combinations of -1, 0 and 1, velocity first; 13 is no change.

    ## Observation space
    ``Box(float64)``: one frame, or the last ``n_past_timesteps`` frames concatenated, newest first.

    | index | quantity | range |
    |---|---|---|
    | 0 | setpoint | 0 to 100 |
    | 1, 2, 3 | positions of velocity, gain and shift | 0 to 100 |
    | 4 | fatigue | 0 to 300 |
    | 5 | consumption | -12.3 to 5289 (negative only by measurement noise) |

    ## Reward
    ``-loss`` with loss = consumption + 3 x fatigue; with ``reward_type="delta"`` the decrease of the loss since the
    previous step.

    ## Plant
    The attribute ``plant`` describes the process to a controller (`habnn_control.control.plant.Plant`): the loss, the
    motion of velocity, gain and shift, and the setpoint as an exogenous entry.

    ## Info
    ``loss``, ``consumption``, ``fatigue``, and ``markov_state``, a dict of the full hidden state with the names of
    IBGym.

    ## Hidden state
    Each of velocity and gain has a bistable hidden variable (``hv``, ``hg``), driven by the random stress of its
    actuator. Above 1.2 it grows to 5 and stays there: it has latched. Fatigue then stays near its maximum for the
    present positions, until the actuator moves high enough to release the variable. Mis-calibration, a hidden direction
    driven by shift and setpoint, adds to consumption.

    ## Start state
    Velocity, gain and shift are 50, unless ``reset(options={"velocity": ..., "gain": ..., "shift": ...,
    "setpoint": ...})`` sets other values for the episode. As in the Siemens code, reset then makes one step with a
    zero action.

    ## Episode end
    The environment never terminates. ``gym.make`` truncates after 1000 steps (``max_episode_steps``).

    ## Version history
    * v0: first version.

    Parameters
    ----------
    setpoint : float, default 50
        Load of the plant, 0 to 100; with ``wandering`` the load at the start.
    wandering : bool, default False
        Whether the setpoint follows random ramps (``stationary_p=False`` of the Siemens code) instead of staying
        constant.
    reward_type : {"classic", "delta"}
        Negative loss, or decrease of the loss.
    action_type : {"continuous", "discrete"}
        See the action space.
    observation_type : {"classic", "include_past"}
        One frame, or the last ``n_past_timesteps`` frames.
    n_past_timesteps : int, default 30
        Number of frames per observation with ``observation_type="include_past"``; after reset all are equal.
    backend : {"numba", "siemens"}
        The compiled re-implementation, or the Siemens code itself. Both have the same probability distribution but draw
        different random numbers; the Siemens code is several times slower.
    mirror : sequence of str, default ()
        Of velocity, gain and shift, the actuators to show as 100 - position and to move against the sign of their
        action: the same plant seen in a mirror. A controller that is told nothing else cannot tell the eight images
        apart. Start options are shown positions too; ``info["markov_state"]`` and the rendered chart keep those of the
        plant itself.
    render_mode : {None, "rgb_array", "human"}
        A strip chart of the episode, as an array (600, 800, 3), or in a window that is updated at every step. Without a
        display, "human" draws nothing and logs one warning.
    """

    metadata = {"render_modes": ["rgb_array", "human"], "render_fps": 10}  # noqa: RUF012 (Gymnasium's declaration)

    def __init__(
        self,
        setpoint: float = Variant.setpoint,
        wandering: bool = Variant.wandering,
        reward_type: str = Variant.reward_type,
        action_type: str = Variant.action_type,
        observation_type: str = Variant.observation_type,
        n_past_timesteps: int = Variant.n_past_timesteps,
        backend: str = Variant.backend,
        mirror: Sequence[str] = Variant.mirror,
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(unknown("render_mode", render_mode, self.metadata["render_modes"]))
        self.variant = Variant(
            setpoint, wandering, reward_type, action_type, observation_type, n_past_timesteps, backend, mirror
        )
        self.mirror = Mirror(mirror)
        self.observation_space = self.variant.observation_space()
        self.action_space = self.variant.action_space()
        self.plant = self.variant.plant()
        self.render_mode = render_mode
        self._batch = PlantBatch(self.variant, 1)
        self._generator: np.random.Generator | None = None  # generator of the plant; None before the first reset
        self._loss = 0.0
        self._chart = None if render_mode is None else _strip_chart(window=render_mode == "human")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start an episode and return its first observation and info; the class docstring lists the options."""
        start = self.variant.read_start(options, 1)
        super().reset(seed=seed)
        if self._generator is not self.np_random:
            self._generator = self.np_random
            self._batch.reseed([self._generator])
        self._batch.reset(start)
        info = self._info()
        if self._chart is not None:
            self._chart.clear()
            self._chart.add(info)
        return self._batch.observations()[0], info

    def step(self, action: Any) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Move the actuators, advance the plant by one step, and return the five values of `gymnasium.Env.step`."""
        changes = self.variant.read_action(action)
        before = self._loss
        self._batch.step(changes)
        info = self._info()
        if self._chart is not None:
            self._chart.add(info)
        return self._batch.observations()[0], self.variant.reward(before, self._loss), False, False, info

    def render(self) -> Any:
        """Return the strip chart of the episode as an array (600, 800, 3), or update its window and return None."""
        return None if self._chart is None else self._chart.draw()

    def close(self) -> None:
        """Close the window of the strip chart, if there is one."""
        if self._chart is not None:
            self._chart.close()

    def get_state(self) -> dict[str, Any]:
        """Return the complete state of the simulation, random generator included, as a dict of arrays and numbers.

        The step count of a TimeLimit wrapper is not part of the state.
        """
        return self._batch.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Restore a state returned by `get_state` of an environment with the same arguments.

        The environment then continues bit for bit as the other would have.
        """
        (self._generator,) = self._batch.set_state(state)
        self.np_random = self._generator
        self._info()
        if self._chart is not None:
            self._chart.clear()

    def _info(self) -> dict[str, Any]:
        """Return the info of the present state and store its loss."""
        values = self._batch.states[0].tolist()
        self._loss = combined_loss(values[CONSUMPTION], values[FATIGUE])
        return {
            "loss": self._loss,
            "consumption": values[CONSUMPTION],
            "fatigue": values[FATIGUE],
            "markov_state": dict(zip(MARKOV_NAMES, values, strict=False)),
        }


def _strip_chart(window: bool) -> "StripChart":
    """Return a new strip chart; matplotlib is imported here because it is slow to import and rarely needed."""
    from envs.rendering import StripChart

    return StripChart(window)
