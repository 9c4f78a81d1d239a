"""Compare agents, then compute statistics of your own from losses.csv.

The study is the command `habnn compare`; its results are tidy tables that pandas reads.
"""

import argparse
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd

from habnn_control.experiments.statistics import mean_estimate


def main() -> None:
    """Play a small study and print worst cases and paired differences."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4, help="runs per agent (default: 4)")
    parser.add_argument("--steps", type=int, default=150, help="steps per run (default: 150)")
    parser.add_argument("--out", default="results/example", help="results folder (default: results/example)")
    flags = parser.parse_args()
    command = Path(sys.executable).with_name("habnn")
    study = ["compare", "--agents", "habnn", "hold", "noop", "--runs", flags.runs, "--steps", flags.steps]
    subprocess.run([str(command), *map(str, study), "--out", flags.out], check=True)

    losses = pd.read_csv(Path(flags.out) / "losses.csv")
    second_half = losses[losses["timestep"] > flags.steps // 2]
    means = second_half.pivot_table(values="loss", index="seed", columns="agent")  # one row per run
    print("\nworst run of each agent, second half:")
    print(means.max().round(1).to_string())

    differences = (means["habnn"] - means["noop"]).to_numpy()  # of runs that met the same plant
    mean, low, high = mean_estimate([differences], np.random.default_rng(0))
    print(f"\nhabnn minus noop: {mean:.1f} [{low:.1f}, {high:.1f}] (95 % bootstrap interval)")


if __name__ == "__main__":
    main()
