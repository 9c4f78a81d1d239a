"""Named presets: settings of the agents that scripts and tables know by a name.

A preset is merged with the user's settings, nested ones too; see `agents.registry.make`.
"""

from math import inf
from typing import Any

Settings = dict[str, Any]

# The paper's description of its agent; the paper leaves open the planner, the noise (fixed here) and the risk weight.
# One-step uncertainty sampling, of ten random actions the one of greatest uncertainty, is the reading whose losses come
# nearest to the printed ones (docs/paper.md).
PAPER: Settings = {
    "actuators": "learned",
    "horizon": 1,
    "hold": 0,
    "tail": 1.0,
    "planner": {"n_iterations": 1, "n_candidates": 10},
    "model": {
        "offset_time": inf,
        "history": 0,
        "past_outputs": 1,
        "target": "absolute",
        "network": {
            "hidden": (80,),
            "activation": "relu",
            "dof": 12.0,
            "scale": 0.01,
            "covariance": "diagonal",
            "output_prior_std": 1.0,
            "output_scale": 0.01,
            "fan": "out",
            "noise_weight": inf,
        },
    },
    "exploration": {
        "risk": -100.0,
        "relative": 0.0,
        "excitation": {"length": 0, "budget": 0.0, "surprise": inf, "recovers": False},
    },
}

# The default before probing: sweeps whose widths, first direction and roles of the actuators were chosen by hand for
# the Industrial Benchmark. It stays for comparison.
SCRIPTED: Settings = {
    "horizon": 15,
    "exploration": {"risk": (3.0, 1.0, 0.99), "relative": 0.0, "excitation": {"kind": "sweeps"}},
}

# The default agent with one thing changed each.
ABLATIONS: dict[str, Settings] = {
    "greedy": {"exploration": {"risk": 0.0}},
    "optimistic": {"exploration": {"risk": -1.0}},
    "pessimistic": {"exploration": {"risk": 3.0}},
    "absolute-risk": {"exploration": {"relative": 0.0}},
    "relative-risk": {"exploration": {"relative": 1.0}},
    "no-hazard": {"exploration": {"hazard": 0.0}},
    "curious": {"exploration": {"information": 0.067}},
    "information": {"exploration": {"risk": 0.0, "information": 0.067}},
    "thompson": {"exploration": {"risk": 0.0, "thompson": True}},
    "diagonal": {"model": {"network": {"covariance": "diagonal"}}},
    "gaussian": {"model": {"network": {"dof": inf}}},
    "drift": {"model": {"network": {"drift": 1e-4}}},
    "constant-offset": {"model": {"offset_time": inf}},
    "no-history": {"model": {"history": 0}},
    "dense-prior": {"model": {"prior": "dense"}},
    "narrow-prior": {"model": {"network": {"output_scale": 0.2}}},
    "no-excitation": {"exploration": {"excitation": {"length": 0, "budget": 0.0, "recovers": False}}},
    "no-probes": {"exploration": {"excitation": {"budget": 0.0}}},
    "greedy-no-probes": {"exploration": {"risk": 0.0, "excitation": {"budget": 0.0}}},
    "no-recovery": {"exploration": {"excitation": {"recovers": False}}},
    "learned-kinematics": {"actuators": "learned"},
    "found-kinematics": {"actuators": "found"},
    "mppi": {"planner": {"kind": "mppi"}},
    "random-shooting": {"planner": {"kind": "random-shooting"}},
}

# Model-based peers in the same loop: other models, the same planner and probing.
PEERS: dict[str, Settings] = {
    "pets": {"model": {"kind": "ensemble"}, "exploration": {"risk": 0.0}},
    "gp-mpc": {"model": {"kind": "gp"}},
    "linear-mpc": {"model": {"kind": "linear", "target": "log", "prior_std": 0.3}},
}

# Stable-Baselines3's algorithms, tuned: the best of 20 settings (the first one SB3's defaults) by the mean loss of 4
# runs of 300 steps (SAC: 200) on seeds 0 to 3, as `scripts/tune.py --agent ... --trials 20 --runs 4` finds them.
TUNED: dict[str, Settings] = {
    "a2c": {"normalise": False, "learning_rate": 3e-4, "n_steps": 4, "gamma": 0.9, "ent_coef": 0.0},
    "td3": {
        "normalise": True,
        "learning_rate": 1e-3,
        "learning_starts": 50,
        "gradient_steps": 2,
        "gamma": 0.8,
        "action_noise": 0.4,
    },
    "sac": {
        "normalise": True,
        "learning_rate": 3e-4,
        "learning_starts": 25,
        "gradient_steps": 2,
        "gamma": 0.9,
        "ent_coef": 0.05,
    },
    "ppo": {"normalise": True, "learning_rate": 3e-4, "n_steps": 16, "batch_size": 16, "n_epochs": 5, "gamma": 0.8},
}
