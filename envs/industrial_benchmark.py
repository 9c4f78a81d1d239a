"""The Industrial Benchmark as a Gymnasium environment."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import gymnasium as gym
import numpy as np

from envs._kernels.benchmark import CONSUMPTION, FATIGUE, MARKOV_NAMES, FloatArray, combined_loss
from envs.batch import PlantBatch
from envs.variant import Variant, unknown

if TYPE_CHECKING:
    from envs.rendering import StripChart


class IndustrialBenchmarkEnv(gym.Env[FloatArray, Any]):
    """A plant with three steerings whose consumption and fatigue are to be kept low.

    The equations are those of the Siemens Industrial Benchmark (package industrial-benchmark-python 2.0), of which
    this is an exact re-implementation: given the same noise, the same state to rounding.

    ## Action space
    ``Box(-1, 1, (3,), float32)``, changes of the steerings; finite values outside are clipped.

    | index | steering | change at 1 | range |
    |---|---|---|---|
    | 0 | velocity | 1 | 0 to 100 |
    | 1 | gain | 10 | 0 to 100 |
    | 2 | shift | 5.75 | 0 to 100 |

    With ``action_type="discrete"``: ``Discrete(27)``, all combinations of -1, 0 and 1, velocity first; 13 is no change.

    ## Observation space
    ``Box(float64)``, one frame, or the last ``n_past_timesteps`` frames, newest first, after each other.

    | index | quantity | range |
    |---|---|---|
    | 0 | setpoint | 0 to 100 |
    | 1, 2, 3 | velocity, gain, shift | 0 to 100 |
    | 4 | fatigue | 0 to 300 |
    | 5 | consumption | -12.3 to 5289 (its noise may take it below 0) |

    ## Reward
    ``-loss`` with loss = consumption + 3 x fatigue; with ``reward_type="delta"`` the fall of the loss since the last
    step.

    ## Plant
    The attribute ``plant`` describes the process to a controller (`habnn_control.control.plant.Plant`): the loss, the
    motion of velocity, gain and shift, and the setpoint as an exogenous entry.

    ## Info
    ``loss``, ``consumption``, ``fatigue``, and ``markov_state``, the full hidden state under the names of IBGym.

    ## Start
    Velocity, gain and shift are 50, or what ``reset(options={"velocity": ..., "gain": ..., "shift": ...,
    "setpoint": ...})`` says for this episode. From there, as in the Siemens code, the plant has made one step with no
    change.

    ## End
    Never terminates. ``gym.make`` truncates after 1000 steps (``max_episode_steps``).

    Parameters
    ----------
    setpoint : float
        Load of the plant, 0 to 100.
    wandering : bool
        Let the setpoint walk up and down at random from there (``stationary_p=False`` of the Siemens code).
    reward_type : {"classic", "delta"}
    action_type : {"continuous", "discrete"}
    observation_type : {"classic", "include_past"}
    n_past_timesteps : int
        Frames in an observation with ``observation_type="include_past"``; before the first step all are the same.
    backend : {"numba", "siemens"}
        Our compiled code, or the Siemens code itself: the same law, several times slower, with other random draws.
    render_mode : {"rgb_array", "human"} or None
        A strip chart of the episode as an array (600, 800, 3), or in a window at every step. Without a display "human"
        draws nothing and logs so once.

    ## Version history
    * v0: first version.
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
        render_mode: str | None = None,
    ) -> None:
        if render_mode is not None and render_mode not in self.metadata["render_modes"]:
            raise ValueError(unknown("render_mode", render_mode, self.metadata["render_modes"]))
        self.variant = Variant(
            setpoint, wandering, reward_type, action_type, observation_type, n_past_timesteps, backend
        )
        self.observation_space = self.variant.observation_space()
        self.action_space = self.variant.action_space()
        self.plant = self.variant.plant()
        self.render_mode = render_mode
        self._batch = PlantBatch(self.variant, 1)
        self._generator: np.random.Generator | None = None  # the one the plant draws from; None before the first reset
        self._loss = 0.0
        self._chart = None if render_mode is None else _strip_chart(window=render_mode == "human")

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start an episode; see the class for the options."""
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
        """Change the steerings and let the plant run one step."""
        changes = self.variant.read_action(action)
        before = self._loss
        self._batch.step(changes)
        info = self._info()
        if self._chart is not None:
            self._chart.add(info)
        return self._batch.observations()[0], self.variant.reward(before, self._loss), False, False, info

    def render(self) -> Any:
        """Return the strip chart of the episode as an array (600, 800, 3), or show it in its window."""
        return None if self._chart is None else self._chart.draw()

    def close(self) -> None:
        """Close the window, if there is one."""
        if self._chart is not None:
            self._chart.close()

    def get_state(self) -> dict[str, Any]:
        """Return all that the future depends on, the random generator included, as a dict of arrays and numbers.

        The step count of a TimeLimit wrapper is the wrapper's, and not part of it.
        """
        return self._batch.get_state()

    def set_state(self, state: Mapping[str, Any]) -> None:
        """Continue exactly where `get_state` was called, in this or another environment with the same arguments."""
        (self._generator,) = self._batch.set_state(state)
        self.np_random = self._generator
        self._info()
        if self._chart is not None:
            self._chart.clear()

    def _info(self) -> dict[str, Any]:
        values = self._batch.states[0].tolist()
        self._loss = combined_loss(values[CONSUMPTION], values[FATIGUE])
        return {
            "loss": self._loss,
            "consumption": values[CONSUMPTION],
            "fatigue": values[FATIGUE],
            "markov_state": dict(zip(MARKOV_NAMES, values, strict=False)),
        }


def _strip_chart(window: bool) -> "StripChart":
    from envs.rendering import StripChart  # matplotlib takes a while to import, and most environments do not draw

    return StripChart(window)
