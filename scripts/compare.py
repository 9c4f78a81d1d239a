"""Compare agents on the Industrial Benchmark: play, store, summarise, draw and report.

Every agent plays every setpoint RUNS times from a cold start, learning as it goes; run r of every agent meets the
same environment seed. Finished runs are kept: stop it when you like, the same command goes on where it stopped.
"""

import sys
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter

import agents
from agents.event_log import check_tensorboard
from agents.registry import check_name
from agents.runner import check_setpoint, play
from habnn_control.experiments.engine import Study, claim, describe, run_study, write_meta
from habnn_control.experiments.report import write_report
from habnn_control.experiments.summary import headline
from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.extras import check_extra


@dataclass(frozen=True)
class Config:
    """Settings of a comparison."""

    agents: tuple[str, ...] = flag(
        ("noop", "random", "hold", "a2c", "td3", "sac"), f"any of {', '.join(agents.names())}"
    )
    setpoints: tuple[float, ...] = flag((100.0,), "loads of the plant, each in 0..100")
    runs: int = flag(10, "runs of each agent at each setpoint")
    steps: int = flag(60, "steps of each run")
    seed: int = flag(0, "run r has the environment seed SEED + r")
    pretrain_steps: int = flag(
        0,
        "steps before the measured run: of training for SB3 agents, of the log of a wandering policy for HABNN agents",
    )
    wandering: bool = flag(False, "let the setpoint wander, the plant's non-stationary mode; it starts at SETPOINTS")
    jobs: int = flag(-1, "processes; -1 means one a core")
    backend: str = flag("loky", "where runs go: processes of this machine, or a dask cluster", choices=("loky", "dask"))
    scheduler: str = flag("", "address of the dask scheduler, such as tcp://host:8786")
    tensorboard: str = flag("", "folder for TensorBoard logs, one below it for each run")
    out: str = flag("results/compare", "folder for the results")
    smoke: bool = flag(False, "two runs of twenty steps, to see that everything works")


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison and return the exit code: 0 only if every run succeeded."""
    config = parse(Config, __doc__, arguments)
    try:
        study = resolve(config)
        claim(config.out, study)
    except (ValueError, OSError) as error:
        return fail(error)
    kept = f"finished runs are in {config.out}, and the same command goes on from there."
    try:
        return run(config, study)
    except KeyboardInterrupt:
        print(f"\nStopped; {kept}", file=sys.stderr)
        return 130
    except OSError as error:  # a full disk, no way to the cluster
        return fail(f"{error}; {kept}")


def run(config: Config, study: Study) -> int:
    """Play, summarise and report; return the exit code."""
    start = perf_counter()
    ours = partial(play, tensorboard=config.tensorboard or None)
    try:
        failures = run_study(study, ours, config.out, config.jobs, config.scheduler or None)
    finally:
        write_meta(config.out, command(), perf_counter() - start, **asdict(config))
    for failure in failures:
        print(describe(failure), file=sys.stderr)
    if len(failures) < len(study.tasks()):
        summary, page = write_report([config.out])
        print(headline(summary).to_string(index=False))
        print(f"\nreport: {page.resolve()}")
    return 1 if failures else 0


def resolve(config: Config) -> Study:
    """Check the settings and return the study they describe."""
    for name in config.agents:
        check_name(name)
    for setpoint in config.setpoints:
        check_setpoint(setpoint)
    if config.jobs == 0:
        raise ValueError("compare: jobs must be a number of processes or -1, got 0; pass --jobs -1 for one a core.")
    if (config.backend == "dask") != bool(config.scheduler):
        raise ValueError(
            f"compare: scheduler must be given with backend dask and only then, got {config.scheduler!r} with backend "
            f"{config.backend}; pass --backend dask --scheduler ADDRESS, or neither."
        )
    if config.backend == "dask":
        check_extra("compare: backend dask", "distributed", "cluster")
    if config.tensorboard:
        check_tensorboard()
    runs, steps = (min(config.runs, 2), min(config.steps, 20)) if config.smoke else (config.runs, config.steps)
    return Study(config.agents, config.setpoints, runs, steps, config.seed, config.pretrain_steps, config.wandering)


if __name__ == "__main__":
    sys.exit(main())
