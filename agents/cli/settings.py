"""Flags of all commands. Nothing heavy is imported here, so that --help answers at once.

The names written out below belong to modules that take long to import; a test compares them with these modules.
"""

from dataclasses import dataclass

import agents
from habnn_control.support.command_line import flag, positional

BENCHMARK = "IndustrialBenchmark-v0"
COMPARED = ("noop", "random", "a2c", "td3", "sac")  # agents compared unless others are named
REFERENCES = ("noop", "oracle")  # agents played beside an episode on the Industrial Benchmark
TUNABLE = ("a2c", "ppo", "sac", "td3")
SECTIONS = ("env", "adapter", "habnn", "decision")  # modules of agents.benchmarks
PROTOCOLS = ("one-pass", "to-the-end", "outliers", "gap", "tail")
METHODS = (
    *("constant", "habnn", "habnn-recommended", "tagi", "kbnn", "pytagi", "pbp", "dropout", "laplace", "svi", "nuts"),
    *("habnn-joint", "habnn-committee", "nuts-long", "paper-table", "bayesian-ridge", "gp", "ensemble"),
)
DATASETS = ("concrete", "energy", "wine", "naval", "yacht", "kin8nm")
BUILT_IN = ("diabetes", "friedman1", "friedman2")
_SETTINGS = 'settings of agents as a JSON object by agent, such as \'{"habnn": {"horizon": 20}}\''
_PLUGINS = "modules to import first; they may register agents and environments"
_JOBS = "processes; -1 means one per core"


@dataclass(frozen=True)
class Compare:
    """Compare agents in an environment: play, store, summarise, draw and report.

    Every agent plays every combination of environment arguments RUNS times from a cold start and learns online; run r
    of every agent meets the same environment seed. Finished runs are kept: after an interruption, the same command goes
    on where it stopped, and with more runs, agents or setpoints it plays only what is missing.
    """

    agents: tuple[str, ...] = flag(
        (),
        f"any of {', '.join(agents.names())}; {' '.join(COMPARED)}, and hold on the Industrial Benchmark, by default",
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
        "steps before the measured run: of training for SB3 agents, of a log for HABNN agents",
    )
    log_agents: tuple[str, ...] = flag((), "agents that make the log, in equal parts; wander, or random, by default")
    log_env_arg: tuple[str, ...] = flag(
        (),
        "arguments of the environment in the log, each name=value,value,...; those of the run by default",
        repeatable=True,
    )
    evaluate: bool = flag(
        False,
        "SB3 agents stop learning after PRETRAIN_STEPS and play the measured run with predict; with --pretrain-steps "
        "100 this gives the levels that the HABNN paper prints for them",
    )
    agent_settings: str = flag("", _SETTINGS)
    plugin: tuple[str, ...] = flag((), _PLUGINS)
    jobs: int = flag(-1, _JOBS)
    backend: str = flag("loky", "where runs go: processes of this machine, or a dask cluster", choices=("loky", "dask"))
    scheduler: str = flag("", "address of the dask scheduler, such as tcp://host:8786")
    tensorboard: str = flag("", "folder for TensorBoard logs, one subfolder per run")
    monitor: str = flag("", "folder for monitor.csv files as SB3 writes them, one per run that is played now")
    wandb: str = flag("", "project of Weights & Biases to log all finished runs in; offline unless WANDB_MODE=online")
    out: str = flag("results/compare", "folder for the results")
    smoke: bool = flag(False, "two runs of twenty steps, to see that everything works")


@dataclass(frozen=True)
class Episode:
    """Run one agent in an environment and keep its losses, the agent itself and a picture.

    The same seed gives the episode that is run 0 of a comparison with that seed. After Ctrl-C or a crash, losses and
    predictions so far are kept, and the same command goes on from the last checkpoint; agents of Stable-Baselines3,
    evaluations and episodes with a TensorBoard log start anew.
    """

    agent: str = flag("", f"one of {', '.join(agents.names())}; habnn, or the agent of the file to load, by default")
    env: str = flag(BENCHMARK, "id of a registered Gymnasium environment")
    env_arg: tuple[str, ...] = flag((), "arguments of the environment, each name=value", repeatable=True)
    setpoint: tuple[float, ...] = flag(
        (), "load of the plant, 0..100; short for --env-arg setpoint=...; 100 on the Industrial Benchmark"
    )
    steps: int = flag(1000, "steps of the episode")
    seed: int = flag(0, "seed of the environment; the agent's own seed is derived from it")
    agent_settings: str = flag("", _SETTINGS)
    plugin: tuple[str, ...] = flag((), _PLUGINS)
    load: str = flag("", "file of a saved agent to play instead, without learning unless --learn is given")
    learn: bool = flag(False, "let a loaded agent go on learning")
    references: tuple[str, ...] = flag(
        (), f"agents to play beside it for the picture; {' and '.join(REFERENCES)} on the Industrial Benchmark"
    )
    checkpoint_every: int = flag(100, "steps between checkpoints, from which an interrupted episode goes on; 0: none")
    live: bool = flag(False, "show the episode while it runs, with the plan about to be played, on a local page")
    port: int = flag(0, "port of that page; 0 means any that is free")
    tensorboard: str = flag("", "folder for a TensorBoard log")
    out: str = flag("runs/episode", "folder for losses.csv, predictions.csv, agent.npz and episode.png/svg")
    smoke: bool = flag(False, "twenty steps, to see that everything works")


@dataclass(frozen=True)
class Plot:
    """Make summary, figures and report again from results folders; several folders are overlaid.

    A folder of monitor.csv files, as Stable-Baselines3 writes them, is read too: every folder with such files is an
    agent, every file a run, and the loss of an episode is minus its return.
    """

    folders: tuple[str, ...] = positional(
        "results folders written by habnn compare, or one folder of monitor.csv files"
    )
    out: str = flag("", "folder for tables, figures and report; the results folder itself if there is only one")


@dataclass(frozen=True)
class Regression:
    """Regression studies on six UCI sets: the HABNN paper's (the default), to the end, with outliers, gaps and tails.

    In the paper's study every method learns from 90 % of a set in one epoch (SVI 250, NUTS 100 draws) and predicts the
    rest: as it is, and with its inputs times 0.1, times 2 and plus three standard deviations. Run r of all methods has
    the same split. Finished runs are kept: after an interruption, the same command goes on where it stopped.
    """

    protocol: str = flag("one-pass", f"one of {', '.join(PROTOCOLS)}; see habnn_control/regression/protocol.py")
    methods: tuple[str, ...] = flag(
        (),
        f"any of {', '.join(METHODS)}, some with other settings, as in habnn:scale=0.1,layers=2 or pbp:epochs=40; "
        "without it, those of the protocol",
    )
    datasets: tuple[str, ...] = flag(
        (), f"names of data sets; of scikit-learn also {', '.join(BUILT_IN)}; without it, {', '.join(DATASETS)}"
    )
    dataset_file: tuple[str, ...] = flag((), "CSV files of your own, target last; alone unless --datasets is given")
    data_dir: str = flag("", "folder with DATASET.csv; without it, sets are downloaded once from OpenML")
    blocks: tuple[str, ...] = flag(
        (), "raw (nothing normalised, as in the paper) and z-scored; without it both, in new protocols z-scored only"
    )
    runs: int = flag(20, "splits of each set")
    seed: int = flag(0, "run r has the split seed SEED + r")
    max_rows: int = flag(0, "rows used of each set; 0 means all")
    sensitivity: bool = flag(False, "the paper's tables over scale, dof and number of layers instead of the methods")
    jobs: int = flag(1, f"{_JOBS}; training times are only comparable with 1")
    out: str = flag("results/uci", "folder for the results")
    smoke: bool = flag(False, "two runs of three quick methods on 100 rows, to see that everything works")


@dataclass(frozen=True)
class Tune:
    """Tune an SB3 agent by random search.

    Each trial draws settings from a space and plays RUNS runs of STEPS steps; the lowest mean loss wins. The seeds must
    lie in 0..49, which no reported comparison uses. The best settings are copied by hand into agents/presets.py.
    """

    agent: str = flag("sac", "the agent to tune", choices=TUNABLE)
    trials: int = flag(20, "settings to try; the first trial is SB3's defaults")
    runs: int = flag(4, "runs of each trial at each setpoint")
    steps: int = flag(300, "steps of each run")
    setpoints: tuple[float, ...] = flag((100.0,), "loads of the plant")
    seed: int = flag(0, "seed of the search and of the first run")
    jobs: int = flag(-1, _JOBS)
    out: str = flag("results/tune.csv", "table of all trials, best first")


@dataclass(frozen=True)
class Benchmark:
    """Measure speed, as ratios within one run, and compare with the bars we hold ourselves to.

    What a section compares is timed in turns, and the best of several rounds counts (of decisions, the median), for the
    machine may be busy. A bar that is missed is printed, not punished: the exit code tells only whether the measurement
    itself worked.
    """

    sections: tuple[str, ...] = flag(SECTIONS, f"what to measure, any of {', '.join(SECTIONS)}")
    repeats: int = flag(30, "rounds, of which the best counts (decision: their median)")
    json: str = flag("", "file for the results")
    smoke: bool = flag(False, "two rounds, to see that everything works")
