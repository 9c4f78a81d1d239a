"""The Industrial Benchmark as one pure function: next states = step(states, actions, noise).

The state of a plant is a row of ``N_STATE`` numbers: IBGym's 21 Markov variables and three that carry a wandering
setpoint. Its noise is a row of ``N_NOISE`` independent uniforms in [0, 1) a step (four more for a wandering setpoint);
exponentials and normals are made of them here, so that a trajectory is a function of the start, the actions and the
noise alone.

A plant that has not run yet has an empty operational-cost buffer and an empty setpoint sequence. Its first step fills
the buffer and draws the sequence: resetting a plant is stepping a fresh one with a zero action.
"""

import math

import numpy as np
from numpy.typing import NDArray

from envs._goldstone import MAX_STEP, penalty, turn
from envs._jit import jit

FloatArray = NDArray[np.float64]

MARKOV_NAMES = (
    *("setpoint", "velocity", "gain", "shift", "fatigue", "consumption"),
    *(f"op_cost_t{i}" for i in range(10)),
    *("ml1", "ml2", "ml3"),  # mis-calibration: domain, system response, direction
    *("hv", "hg"),
)
STATE_NAMES = (*MARKOV_NAMES, "setpoint_slope", "sequence_step", "sequence_length")
N_MARKOV, N_STATE = len(MARKOV_NAMES), len(STATE_NAMES)

# Columns of states.
SETPOINT, VELOCITY, GAIN, SHIFT, FATIGUE, CONSUMPTION = range(6)
OLDEST_COST, NEWEST_COST = 6, 15
DOMAIN, RESPONSE, DIRECTION, HIDDEN_VELOCITY, HIDDEN_GAIN = range(16, 21)
SLOPE, SEQUENCE_STEP, SEQUENCE_LENGTH = range(21, 24)

# Columns of noise.
SMALL_GAIN, SMALL_VELOCITY, JUMP_GAIN, JUMP_VELOCITY, SIZE_GAIN, SIZE_VELOCITY = range(6)
NORMAL_RADIUS, NORMAL_ANGLE = 6, 7  # Box and Muller: its sine for consumption, its cosine for latched fatigue
NEW_LENGTH, NEW_SLOPE, NEW_STANDSTILL, TURN_BACK = range(8, 12)  # for a wandering setpoint only
N_NOISE, N_NOISE_WANDERING = 8, 12

FATIGUE_WEIGHT = 3.0  # loss = consumption + 3 fatigue
SHIFT_BOUND = 1.5
SHIFT_SCALE = 2.0 * SHIFT_BOUND + 2.0  # effective shift = 5 shift / 100 - 2 setpoint / 100 - 1.5
SHIFT_STEP = MAX_STEP / 0.9 * 100.0 / SHIFT_SCALE
LATCH_START, LATCH = 1.2, 5.0  # a hidden variable past 1.2 grows to 5 and stays there


def fresh(start: FloatArray) -> FloatArray:
    """Return states (n, N_STATE) of plants that have not run yet, from (n, 4) setpoints, velocities, gains, shifts."""
    states = np.zeros((len(start), N_STATE))
    states[:, :FATIGUE] = start
    states[:, [DOMAIN, RESPONSE]] = 1.0
    return states


def loss(states: FloatArray) -> FloatArray:
    """Return the losses (n,) of n plants: consumption + 3 fatigue."""
    losses: FloatArray = states[:, CONSUMPTION] + FATIGUE_WEIGHT * states[:, FATIGUE]
    return losses


@jit
def _clip(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


@jit
def _move_setpoint(plant: FloatArray, noise: FloatArray) -> None:
    """Walk the setpoint along its current ramp, and start a new ramp where the last one ends."""
    if plant[SEQUENCE_STEP] == plant[SEQUENCE_LENGTH]:
        plant[SEQUENCE_STEP] = 0.0
        plant[SEQUENCE_LENGTH] = 1.0 + math.floor(99.0 * noise[NEW_LENGTH])
        plant[SLOPE] = 0.0 if noise[NEW_STANDSTILL] < 0.1 else 2.0 * noise[NEW_SLOPE] - 1.0
    setpoint = plant[SETPOINT] + plant[SLOPE]
    if (setpoint > 100.0 or setpoint < 0.0) and noise[TURN_BACK] > 0.5:
        plant[SLOPE] = -plant[SLOPE]
    plant[SETPOINT] = _clip(setpoint, 0.0, 100.0)
    plant[SEQUENCE_STEP] += 1.0


@jit
def _move_steerings(plant: FloatArray, action: FloatArray) -> float:
    """Apply the clipped action; return the effective shift."""
    plant[VELOCITY] = _clip(plant[VELOCITY] + _clip(action[0], -1.0, 1.0), 0.0, 100.0)
    plant[GAIN] = _clip(plant[GAIN] + 10.0 * _clip(action[1], -1.0, 1.0), 0.0, 100.0)
    plant[SHIFT] = _clip(plant[SHIFT] + SHIFT_STEP * _clip(action[2], -1.0, 1.0), 0.0, 100.0)
    effective = SHIFT_SCALE * plant[SHIFT] / 100.0 - 0.02 * plant[SETPOINT] - SHIFT_BOUND
    return _clip(effective, -SHIFT_BOUND, SHIFT_BOUND)


@jit
def _effective_actions(velocity: float, gain: float, setpoint: float) -> tuple[float, float]:
    """Return effective velocity and gain: how strongly each drives fatigue at this setpoint, 0 to 1.

    Siemens scales (gain + setpoint + 2) / a with a = velocity + 101 - setpoint, and 1 / (gain + setpoint + 1), from
    their least and greatest values over the steerings to 0 and 1; these are the fractions reduced.
    """
    a = velocity + 101.0 - setpoint
    excess = (gain + setpoint + 2.0) * (201.0 - setpoint) - (setpoint + 2.0) * a
    effective_velocity = excess * (101.0 - setpoint) / (20300.0 * a)
    effective_gain = (100.0 - gain) * (setpoint + 1.0) / (100.0 * (gain + setpoint + 1.0))
    return effective_velocity, effective_gain


@jit
def _stress(effective: float, u_small: float, u_jump: float, u_size: float) -> float:
    """Return one actuator's stress in [0, 1]: a small part, and a jump with the effective action as its probability."""
    small = math.tanh(-0.05 * math.log1p(-u_small))  # 2 (sigmoid(e) - 1/2) of an exponential e with mean 0.1
    jump = u_size * effective if u_jump < _clip(effective, 0.001, 0.999) else 0.0
    return small + (1.0 - small) * jump


@jit
def _hidden(hidden: float, effective: float, stress: float) -> float:
    """Return an actuator's next hidden variable: released, latching, or a moving average of its stress."""
    if effective <= 0.05:
        return effective
    if hidden >= LATCH_START:
        return min(LATCH, 1.1 * hidden)
    return 0.9 * hidden + stress / 3.0


@jit
def _normal(noise: FloatArray, shifted: float) -> float:
    """Return one of the two independent standard normals in a row of noise: shifted by 0 or by a quarter turn."""
    radius = math.sqrt(-2.0 * math.log1p(-noise[NORMAL_RADIUS]))
    return radius * math.sin(2.0 * math.pi * (noise[NORMAL_ANGLE] + shifted))


@jit
def _update_fatigue(plant: FloatArray, noise: FloatArray) -> None:
    velocity, gain = plant[VELOCITY], plant[GAIN]
    effective_velocity, effective_gain = _effective_actions(velocity, gain, plant[SETPOINT])
    stress_gain = _stress(effective_gain, noise[SMALL_GAIN], noise[JUMP_GAIN], noise[SIZE_GAIN])
    stress_velocity = _stress(effective_velocity, noise[SMALL_VELOCITY], noise[JUMP_VELOCITY], noise[SIZE_VELOCITY])
    plant[HIDDEN_GAIN] = _hidden(plant[HIDDEN_GAIN], effective_gain, stress_gain)
    plant[HIDDEN_VELOCITY] = _hidden(plant[HIDDEN_VELOCITY], effective_velocity, stress_velocity)
    if max(plant[HIDDEN_VELOCITY], plant[HIDDEN_GAIN]) == LATCH:
        amplification = 1.0 / (1.0 + math.exp(-2.4 - 0.4 * _normal(noise, 0.25)))
    else:
        amplification = max(stress_velocity, stress_gain)
    base = max(0.0, 30000.0 / (5.0 * velocity + 100.0) - 0.01 * gain * gain)
    plant[FATIGUE] = base * (1.0 + 2.0 * amplification) / 3.0


@jit
def _update_operational_cost(plant: FloatArray) -> float:
    """Push the current operational cost into the buffer; return its mean of 5 to 9 steps ago."""
    cost = math.exp((2.0 * plant[SETPOINT] + 2.5 * plant[GAIN] + 4.0 * plant[VELOCITY]) / 100.0)
    if plant[NEWEST_COST] == 0.0:  # a fresh plant: a running one has a positive cost here
        plant[OLDEST_COST : NEWEST_COST + 1] = cost
    else:
        for column in range(OLDEST_COST, NEWEST_COST):
            plant[column] = plant[column + 1]
        plant[NEWEST_COST] = cost
    o = plant[OLDEST_COST : OLDEST_COST + 5]
    mean: float = 0.11111 * (o[0] + o[4]) + 0.22222 * (o[1] + o[3]) + 0.33333 * o[2]
    return mean


@jit
def _advance(plant: FloatArray, action: FloatArray, noise: FloatArray, wandering: bool) -> None:
    """Step one plant in place."""
    if wandering:
        _move_setpoint(plant, noise)
    position = _move_steerings(plant, action)
    _update_fatigue(plant, noise)
    operational = _update_operational_cost(plant)
    domain, response, direction = turn(int(plant[DOMAIN]), int(plant[RESPONSE]), int(plant[DIRECTION]), position)
    plant[DOMAIN], plant[RESPONSE], plant[DIRECTION] = domain, response, direction
    expected = operational + 25.0 * (1.0 + penalty(direction, position))
    plant[CONSUMPTION] = expected - _normal(noise, 0.0) * (1.0 + 0.005 * expected)


@jit
def step(states: FloatArray, actions: FloatArray, noise: FloatArray, wandering: bool) -> FloatArray:
    """Return the next states (n, N_STATE) of n plants, from actions (n, 3) and a row of noise for each."""
    following = states.copy()
    for i in range(len(states)):
        _advance(following[i], actions[i], noise[i], wandering)
    return following


@jit
def rollout(state: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the losses (n, horizon) of n action sequences from one state (N_STATE,) with a fixed setpoint.

    Noise is (n, horizon, N_NOISE), or (1, horizon, N_NOISE) to put the same draws to all sequences.
    """
    n, horizon, _ = actions.shape
    losses = np.empty((n, horizon))
    for i in range(n):
        plant = state.copy()
        for t in range(horizon):
            _advance(plant, actions[i, t], noise[i % len(noise), t], False)
            losses[i, t] = plant[CONSUMPTION] + FATIGUE_WEIGHT * plant[FATIGUE]
    return losses
