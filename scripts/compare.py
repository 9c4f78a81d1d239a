"""Compare agents in an environment: play, store, summarise, draw and report.

Every agent plays every combination of environment arguments RUNS times from a cold start and learns online; run r of
every agent meets the same environment seed. Finished runs are kept: after an interruption, the same command goes on
where it stopped.
"""

import sys
from dataclasses import asdict, dataclass
from functools import partial
from time import perf_counter

import agents
from agents.event_log import check_tensorboard
from agents.reporting import write_report
from agents.runner import BENCHMARK, import_plugins, play
from agents.study import ControlStudy, read_agent_settings, read_arguments
from habnn_control.experiments.engine import claim, describe, run_study
from habnn_control.experiments.provenance import write_meta
from habnn_control.experiments.summary import headline
from habnn_control.support.command_line import command, fail, flag, parse
from habnn_control.support.extras import check_extra

_AGENTS = ("noop", "random", "a2c", "td3", "sac")  # compared unless others are named


@dataclass(frozen=True)
class Config:
    """Settings of a comparison."""

    agents: tuple[str, ...] = flag(
        (),
        f"any of {', '.join(agents.names())}; {' '.join(_AGENTS)}, and hold on the Industrial Benchmark, by default",
    )
    env: str = flag(BENCHMARK, "id of a registered Gymnasium environment")
    env_arg: tuple[str, ...] = flag(
        (), "arguments of the environment, each name=value; name=value,value,... makes a grid", repeatable=True
    )
    setpoints: tuple[float, ...] = flag(
        (), "loads of the plant, each in 0..100; short for --env-arg setpoint=...; 100 on the Industrial Benchmark"
    )
    wandering: bool = flag(False, "let the setpoint wander, starting at SETPOINTS; short for --env-arg wandering=True")
    mirrored: bool = flag(False, "on the Industrial Benchmark: run r meets the mirror image r mod 8")
    runs: int = flag(10, "runs of each agent under each combination of arguments")
    steps: int = flag(60, "steps of each run")
    seed: int = flag(0, "run r has the environment seed SEED + r")
    pretrain_steps: int = flag(
        0,
        "steps before the measured run: of training for SB3 agents, of the log of a wandering policy for HABNN agents",
    )
    evaluate: bool = flag(
        False,
        "SB3 agents stop learning after PRETRAIN_STEPS and play the measured run with predict; with --pretrain-steps "
        "100 this gives the levels that the HABNN paper prints for them",
    )
    agent_settings: str = flag(
        "", 'settings of agents as a JSON object by agent, such as \'{"habnn": {"horizon": 20}}\''
    )
    plugin: tuple[str, ...] = flag((), "modules to import first; they may register agents and environments")
    jobs: int = flag(-1, "processes; -1 means one per core")
    backend: str = flag("loky", "where runs go: processes of this machine, or a dask cluster", choices=("loky", "dask"))
    scheduler: str = flag("", "address of the dask scheduler, such as tcp://host:8786")
    tensorboard: str = flag("", "folder for TensorBoard logs, one subfolder per run")
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


def run(config: Config, study: ControlStudy) -> int:
    """Play, summarise and report; return the exit code."""
    start = perf_counter()
    ours = partial(play, tensorboard=config.tensorboard or None)
    try:
        failures = run_study(study, ours, config.out, config.jobs, config.scheduler or None)
    finally:
        write_meta(config.out, command(), perf_counter() - start, **asdict(config))
    for failure in failures:
        print(describe(study, failure), file=sys.stderr)
    if len(failures) < len(study.tasks()):
        summary, page = write_report([config.out])
        print(headline(summary).to_string(index=False))
        print(f"\nreport: {page.resolve()}")
    return 1 if failures else 0


def resolve(config: Config) -> ControlStudy:
    """Check the settings and return the study they describe."""
    if config.jobs == 0:
        raise ValueError("compare: jobs must be a number of processes or -1, got 0; pass --jobs -1 for one per core.")
    if (config.backend == "dask") != bool(config.scheduler):
        raise ValueError(
            f"compare: scheduler must be given with backend dask and only then, got {config.scheduler!r} with backend "
            f"{config.backend}; pass --backend dask --scheduler ADDRESS, or neither."
        )
    if config.backend == "dask":
        check_extra("compare: backend dask", "distributed", "cluster")
    if config.tensorboard:
        check_tensorboard()
    import_plugins(config.plugin)
    study = ControlStudy(
        config.agents or (_AGENTS + ("hold",) * (config.env == BENCHMARK)),
        read_arguments(config.env_arg, env=config.env, setpoint=config.setpoints, wandering=(True,) * config.wandering),
        runs=min(config.runs, 2) if config.smoke else config.runs,
        steps=min(config.steps, 20) if config.smoke else config.steps,
        seed=config.seed,
        pretrain_steps=config.pretrain_steps,
        env=config.env,
        agent_settings=read_agent_settings(config.agent_settings),
        plugins=config.plugin,
        mirrored=config.mirrored,
        evaluate=config.evaluate,
    )
    study.check()
    return study


if __name__ == "__main__":
    sys.exit(main())
