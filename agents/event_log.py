"""TensorBoard logs of what an agent does to its plant and learns from it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from habnn_control.support.extras import check_extra


class EventLog:
    """Scalars over timesteps, in a folder that TensorBoard shows.

    Parameters
    ----------
    folder : str or Path, optional
        A log of the same timesteps that is there already, as an interrupted run leaves it, is replaced in what
        TensorBoard shows. None: nothing is written.
    """

    def __init__(self, folder: str | Path | None) -> None:
        self._writer: Any = None
        if folder is not None:
            check_tensorboard()
            from torch.utils.tensorboard import SummaryWriter  # the one that SB3 uses

            self._writer = SummaryWriter(str(folder), purge_step=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._writer is not None:
            self._writer.close()

    def write(self, timestep: int, reward: float, info: Mapping[str, Any], training: Mapping[str, float]) -> None:
        """Write the loss and all numbers of `info` as plant/..., and the figures of training under their own names."""
        if self._writer is None:
            return
        plant = {"loss": -reward, **{name: value for name, value in info.items() if isinstance(value, int | float)}}
        for name, value in {**{f"plant/{name}": value for name, value in plant.items()}, **training}.items():
            self._writer.add_scalar(name, value, timestep)


def check_tensorboard() -> None:
    """Raise unless the package is installed."""
    check_extra("tensorboard: logs", "tensorboard", "tensorboard")
