"""What the sections of the benchmark share: a result, and a fair way to time things on a shared machine."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from time import perf_counter


@dataclass(frozen=True)
class Result:
    """One measured thing: its time, and how many times faster than its reference it is and has to be."""

    name: str
    microseconds: float
    ratio: float | None = None
    bar: float | None = None

    @property
    def passed(self) -> bool | None:
        """Whether the ratio reaches the bar; None without a bar."""
        return None if self.ratio is None or self.bar is None else self.ratio >= self.bar


def best_times(tasks: Mapping[str, Callable[[], int]], repeats: int) -> dict[str, float]:
    """Return the best time of each task in microseconds a unit of work.

    Tasks take turns in every round, so that a busy moment of the machine meets all of them, and the best round counts.

    Parameters
    ----------
    tasks : mapping of str to callable
        Each does some milliseconds of work and returns how many units it did.
    repeats : int
        Number of rounds, after one that only warms up.
    """
    for task in tasks.values():
        task()
    best = dict.fromkeys(tasks, float("inf"))
    for _ in range(repeats):
        for name, task in tasks.items():
            start = perf_counter()
            units = task()
            best[name] = min(best[name], 1e6 * (perf_counter() - start) / units)
    return best
