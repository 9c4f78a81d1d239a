"""The command `habnn compare`."""

import sys
from dataclasses import asdict
from functools import partial
from pathlib import Path
from time import perf_counter

from agents.cli.settings import COMPARED
from agents.cli.settings import Compare as Config
from agents.event_log import check_tensorboard
from agents.monitor import SUFFIX
from agents.reporting import write_report
from agents.runner import BENCHMARK, import_plugins, play
from agents.study import ControlStudy, read_agent_settings, read_arguments
from agents.tracking import check_wandb, log_to_wandb
from habnn_control.experiments.engine import claim, describe, run_study
from habnn_control.experiments.provenance import write_meta
from habnn_control.experiments.summary import headline
from habnn_control.support.command_line import command, fail
from habnn_control.support.command_line import describe as describe_error
from habnn_control.support.extras import check_extra
from habnn_control.support.files import check_writable


def main(config: Config) -> int:
    """Run the comparison and return the exit code: 0 only if every run succeeded."""
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
        return fail(f"{describe_error(error).rstrip('.')}; {kept}")


def run(config: Config, study: ControlStudy) -> int:
    """Play, summarise and report; return the exit code."""
    start = perf_counter()
    ours = partial(play, tensorboard=config.tensorboard or None, monitor=config.monitor or None)
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
    if config.wandb:
        log_to_wandb(config.wandb, config.out, study)
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
    if config.wandb:
        check_wandb()
    if config.monitor:
        check_writable(Path(config.monitor, SUFFIX))
    import_plugins(config.plugin)
    study = ControlStudy(
        config.agents or (COMPARED + ("hold",) * (config.env == BENCHMARK)),
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
        log_agents=config.log_agents,
        log_arguments=read_arguments(config.log_env_arg),
    )
    study.check()
    return study
