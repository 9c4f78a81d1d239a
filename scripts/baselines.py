"""Learning curves over seven decades: model-free agents with all the steps they want, beside agents that learn online.

PPO and A2C train on many plants at once up to ten million plant-steps, SAC and TD3 up to a hundred thousand; names that
end in -past observe the last 30 frames. Policies are evaluated at log-spaced counts of steps; their files stay in
OUT/checkpoints. After an interruption, the same command goes on from the last checkpoints.
"""

import sys
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from time import perf_counter

from _baselines_figure import curves_figure  # type: ignore[import-not-found]

from agents.baselines import BaselineStudy, play
from agents.study import check_setpoint
from agents.training import TRAINED
from habnn_control.experiments.engine import claim, describe, read_tables, run_study
from habnn_control.experiments.plotting import save_figure
from habnn_control.experiments.provenance import write_meta
from habnn_control.support.command_line import command, fail, flag, parse

REFERENCES = ("noop", "hold", "ib-opt", "oracle")
_SMOKE = {"runs": 1, "on_policy_steps": 60, "off_policy_steps": 12, "evaluation_plants": 2, "evaluation_steps": 12}


@dataclass(frozen=True)
class Config:
    """Settings of the training."""

    agents: tuple[str, ...] = flag(
        (*TRAINED, "habnn", *REFERENCES), f"any of {', '.join(TRAINED)}, and agents that learn online or not at all"
    )
    runs: int = flag(3, "seeds of each agent")
    setpoint: float = flag(100.0, "load of the plant, in 0..100")
    on_policy_steps: int = flag(10_000_000, "plant-steps of PPO and A2C")
    off_policy_steps: int = flag(100_000, "plant-steps of SAC and TD3")
    evaluation_plants: int = flag(16, "plants of an evaluation")
    evaluation_steps: int = flag(1000, "steps of an evaluation, and of agents that learn online")
    seed: int = flag(0, "run r trains with seeds that follow from SEED + r")
    jobs: int = flag(-1, "processes; -1 means one per core")
    out: str = flag("results/baselines", "folder for the results")
    smoke: bool = flag(False, "one run of a few steps, to see that everything works")


def main(arguments: list[str] | None = None) -> int:
    """Train, evaluate and draw; return the exit code: 0 only if every run succeeded."""
    config = parse(Config, __doc__, arguments)
    try:
        study = resolve(config)
        claim(config.out, study)
    except (ValueError, OSError) as error:
        return fail(error)
    start = perf_counter()
    try:
        failures = run_study(study, partial(play, folder=config.out), config.out, config.jobs)
    except KeyboardInterrupt:
        print(f"\nStopped; checkpoints are in {config.out}, and the same command goes on from there.", file=sys.stderr)
        return 130
    finally:
        write_meta(config.out, command(), perf_counter() - start, **asdict(config))
    for failure in failures:
        print(describe(study, failure), file=sys.stderr)
    if len(failures) < len(study.tasks()):
        show(config.out)
    return 1 if failures else 0


def resolve(config: Config) -> BaselineStudy:
    """Check the settings and return the study they describe."""
    if config.jobs == 0:
        raise ValueError("baselines: jobs must be a number of processes or -1, got 0; pass --jobs -1 for one per core.")
    check_setpoint(config.setpoint)
    fields = {name: value for name, value in asdict(config).items() if name not in ("jobs", "out", "smoke")}
    return BaselineStudy(**fields | (_SMOKE | {"n_envs": 2} if config.smoke else {}))


def show(folder: str) -> None:
    """Draw the curves and print the steps that each agent needed."""
    curves, reached = read_tables(folder, "curves", "reached")
    for kind in ("svg", "png"):
        save_figure(curves_figure(curves, REFERENCES), Path(folder) / f"curves.{kind}")
    table = reached.pivot_table("steps", "agent", "level", aggfunc="median", sort=False)
    print("Median steps until the loss falls to a level (inf: never):\n")
    print(table.to_string(float_format="{:.0f}".format))
    print(f"\nfigure: {(Path(folder) / 'curves.svg').resolve()}")


if __name__ == "__main__":
    sys.exit(main())
