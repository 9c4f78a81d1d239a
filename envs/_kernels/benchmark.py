"""The Industrial Benchmark as one pure function: next states = step(states, actions, noise).

The state of a plant is a row of ``N_STATE`` numbers: the 21 Markov variables of IBGym, and three variables of a
wandering setpoint. The noise is a row of ``N_NOISE`` independent uniforms in [0, 1) per plant and step (four more for a
wandering setpoint). The kernel transforms them into exponentials and normals, so that a trajectory is a function of the
start, the actions and the noise alone.

Before its first step a plant has an empty operational-cost buffer and no setpoint ramp. The first step fills the buffer
and draws the ramp: a reset is one step of a fresh plant with a zero action.

Velocity and gain have one hidden variable each, which is bistable: it is a moving average of the stress of its actuator
until it exceeds ``LATCH_START``, then grows to ``LATCH`` and stays there. A plant with a hidden variable at ``LATCH``
is called latched; its fatigue is near the maximum until the effective action of the actuator falls below 0.05.

Plants are stepped in groups of up to ``WIDTH``, variable by variable: ``lanes`` holds variable k of plant j of the
group at ``k * WIDTH + j``. The loops over a group have neither calls nor branches, so that the compiler vectorises them
over plants (eight plants per instruction with AVX-512).
"""

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from envs._kernels.elementary import clip, exp, jit, log, sine
from envs._kernels.goldstone import MAX_STEP, penalty, turn

FloatArray = NDArray[np.float64]
T = TypeVar("T", float, FloatArray)

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
NORMAL_RADIUS, NORMAL_ANGLE = 6, 7  # Box-Muller: the sine for consumption, the cosine for latched fatigue
NEW_LENGTH, NEW_SLOPE, NEW_STANDSTILL, TURN_BACK = range(8, 12)  # for a wandering setpoint only
N_NOISE, N_NOISE_WANDERING = 8, 12

# Variables in lanes after those of the state.
NOISE = N_STATE
ACTION = NOISE + N_NOISE_WANDERING
POSITION = ACTION + 3  # effective shift
WIDTH = 64
N_LANES = (POSITION + 1) * WIDTH

LARGEST_COST = math.exp(8.5)  # operational cost of a step at setpoint = velocity = gain = 100
FATIGUE_WEIGHT = 3.0  # loss = consumption + 3 fatigue
SHIFT_BOUND = 1.5
SHIFT_SCALE = 2.0 * SHIFT_BOUND + 2.0  # effective shift = 5 shift / 100 - 2 setpoint / 100 - 1.5
SHIFT_STEP = MAX_STEP / 0.9 * 100.0 / SHIFT_SCALE
ACTUATOR_STEPS = (1.0, 10.0, SHIFT_STEP)  # change of velocity, gain and shift per unit of action
LATCH_START, LATCH = 1.2, 5.0  # threshold and upper fixed point of the bistable hidden variables


def fresh(start: FloatArray) -> FloatArray:
    """Return the states of plants before their first step, shape (n, N_STATE).

    Parameters
    ----------
    start : array, shape (n, 4)
        Setpoint and positions of velocity, gain and shift.
    """
    states = np.zeros((len(start), N_STATE))
    states[:, :FATIGUE] = start
    states[:, [DOMAIN, RESPONSE]] = 1.0
    return states


def combined_loss(consumption: T, fatigue: T) -> T:
    """Return the loss consumption + 3 fatigue, of numbers or of arrays."""
    return consumption + FATIGUE_WEIGHT * fatigue


_combined_loss = jit(combined_loss)


def loss(states: FloatArray) -> FloatArray:
    """Return the losses (...,) of states or observations (..., n); the first six entries of both are the same."""
    return combined_loss(states[..., CONSUMPTION], states[..., FATIGUE])


@jit
def _at(variable: int, j: int) -> int:
    """Return the index in lanes of a variable of plant j of the group."""
    return variable * WIDTH + j


@jit
def _move_setpoints(lanes: FloatArray, size: int) -> None:
    """Move each setpoint along its ramp, and draw a new ramp where the present one ends."""
    for j in range(size):
        ended = lanes[_at(SEQUENCE_STEP, j)] == lanes[_at(SEQUENCE_LENGTH, j)]
        new_length = 1.0 + math.floor(99.0 * lanes[_at(NOISE + NEW_LENGTH, j)])
        new_slope = 0.0 if lanes[_at(NOISE + NEW_STANDSTILL, j)] < 0.1 else 2.0 * lanes[_at(NOISE + NEW_SLOPE, j)] - 1.0
        slope = new_slope if ended else lanes[_at(SLOPE, j)]
        setpoint = lanes[_at(SETPOINT, j)] + slope
        turns_back = ((setpoint > 100.0) | (setpoint < 0.0)) & (lanes[_at(NOISE + TURN_BACK, j)] > 0.5)
        lanes[_at(SLOPE, j)] = -slope if turns_back else slope
        lanes[_at(SETPOINT, j)] = clip(setpoint, 0.0, 100.0)
        lanes[_at(SEQUENCE_LENGTH, j)] = new_length if ended else lanes[_at(SEQUENCE_LENGTH, j)]
        lanes[_at(SEQUENCE_STEP, j)] = 1.0 if ended else lanes[_at(SEQUENCE_STEP, j)] + 1.0


@jit
def _move_actuators(lanes: FloatArray, size: int) -> None:
    """Apply the clipped actions to the actuator positions, and compute the effective shift from shift and setpoint."""
    for j in range(size):
        velocity = lanes[_at(VELOCITY, j)] + clip(lanes[_at(ACTION, j)], -1.0, 1.0)
        gain = lanes[_at(GAIN, j)] + 10.0 * clip(lanes[_at(ACTION + 1, j)], -1.0, 1.0)
        shift = clip(lanes[_at(SHIFT, j)] + SHIFT_STEP * clip(lanes[_at(ACTION + 2, j)], -1.0, 1.0), 0.0, 100.0)
        position = SHIFT_SCALE * shift / 100.0 - 0.02 * lanes[_at(SETPOINT, j)] - SHIFT_BOUND
        lanes[_at(VELOCITY, j)] = clip(velocity, 0.0, 100.0)
        lanes[_at(GAIN, j)] = clip(gain, 0.0, 100.0)
        lanes[_at(SHIFT, j)] = shift
        lanes[_at(POSITION, j)] = clip(position, -SHIFT_BOUND, SHIFT_BOUND)


@jit
def _effective_actions(velocity: float, gain: float, setpoint: float) -> tuple[float, float]:
    """Return effective velocity and effective gain, each in [0, 1]: their influence on fatigue at the setpoint.

    Siemens scales (gain + setpoint + 2) / a, with a = velocity + 101 - setpoint, and 1 / (gain + setpoint + 1) so that
    their ranges over all actuator positions become [0, 1]. The code below has the fractions reduced.
    """
    a = velocity + 101.0 - setpoint
    excess = (gain + setpoint + 2.0) * (201.0 - setpoint) - (setpoint + 2.0) * a
    effective_velocity = excess * (101.0 - setpoint) / (20300.0 * a)
    effective_gain = (100.0 - gain) * (setpoint + 1.0) / (100.0 * (gain + setpoint + 1.0))
    return effective_velocity, effective_gain


@jit
def _stress(effective: float, u_small: float, u_jump: float, u_size: float) -> float:
    """Return the stress of one actuator in [0, 1]: a small part, and a jump of probability `effective`."""
    decay = exp(0.1 * log(1.0 - u_small))  # exp(-e) of an exponential e with mean 0.1
    small = (1.0 - decay) / (1.0 + decay)  # 2 (sigmoid(e) - 1/2)
    jump = u_size * effective if u_jump < clip(effective, 0.001, 0.999) else 0.0
    return small + (1.0 - small) * jump


@jit
def _hidden(hidden: float, effective: float, stress: float) -> float:
    """Return the next hidden variable of an actuator.

    It is released at a low effective action, grows towards the latch above its threshold, and otherwise is a moving
    average of the stress.
    """
    latching = clip(1.1 * hidden, 0.0, LATCH)
    held = latching if hidden >= LATCH_START else 0.9 * hidden + stress / 3.0
    return effective if effective <= 0.05 else held


@jit
def _normal(u_radius: float, turns: float) -> float:
    """Return a standard normal from two uniforms (Box-Muller); `turns` plus a quarter gives an independent normal."""
    return math.sqrt(-2.0 * log(1.0 - u_radius)) * sine(turns)


@jit
def _update_fatigue(lanes: FloatArray, size: int) -> None:
    """Compute stress, hidden variables and fatigue of the plants in lanes."""
    for j in range(size):
        velocity, gain = lanes[_at(VELOCITY, j)], lanes[_at(GAIN, j)]
        effective_velocity, effective_gain = _effective_actions(velocity, gain, lanes[_at(SETPOINT, j)])
        stress_gain = _stress(
            effective_gain,
            lanes[_at(NOISE + SMALL_GAIN, j)],
            lanes[_at(NOISE + JUMP_GAIN, j)],
            lanes[_at(NOISE + SIZE_GAIN, j)],
        )
        stress_velocity = _stress(
            effective_velocity,
            lanes[_at(NOISE + SMALL_VELOCITY, j)],
            lanes[_at(NOISE + JUMP_VELOCITY, j)],
            lanes[_at(NOISE + SIZE_VELOCITY, j)],
        )
        hidden_gain = _hidden(lanes[_at(HIDDEN_GAIN, j)], effective_gain, stress_gain)
        hidden_velocity = _hidden(lanes[_at(HIDDEN_VELOCITY, j)], effective_velocity, stress_velocity)
        normal = _normal(lanes[_at(NOISE + NORMAL_RADIUS, j)], lanes[_at(NOISE + NORMAL_ANGLE, j)] + 0.25)
        latched = 1.0 / (1.0 + exp(-2.4 - 0.4 * normal))
        unlatched = stress_gain if stress_gain > stress_velocity else stress_velocity
        amplification = latched if (hidden_gain == LATCH) | (hidden_velocity == LATCH) else unlatched
        base = clip(30000.0 / (5.0 * velocity + 100.0) - 0.01 * gain * gain, 0.0, 300.0)
        lanes[_at(HIDDEN_GAIN, j)], lanes[_at(HIDDEN_VELOCITY, j)] = hidden_gain, hidden_velocity
        lanes[_at(FATIGUE, j)] = base * (1.0 + 2.0 * amplification) / 3.0


@jit
def _push_operational_cost(lanes: FloatArray, size: int) -> None:
    """Append the operational cost to the buffer of past costs; in the first step, fill the buffer with it."""
    for j in range(size):
        setpoint, velocity, gain = lanes[_at(SETPOINT, j)], lanes[_at(VELOCITY, j)], lanes[_at(GAIN, j)]
        cost = exp((2.0 * setpoint + 2.5 * gain + 4.0 * velocity) / 100.0)
        is_fresh = lanes[_at(NEWEST_COST, j)] == 0.0  # costs are positive after the first step
        for age in range(OLDEST_COST, NEWEST_COST):
            lanes[_at(age, j)] = cost if is_fresh else lanes[_at(age + 1, j)]
        lanes[_at(NEWEST_COST, j)] = cost


@jit
def _update_consumption(lanes: FloatArray, size: int) -> None:
    """Compute mis-calibration and consumption of the plants in lanes."""
    for j in range(size):
        position = lanes[_at(POSITION, j)]
        domain, response, direction = turn(
            lanes[_at(DOMAIN, j)], lanes[_at(RESPONSE, j)], lanes[_at(DIRECTION, j)], position
        )
        lanes[_at(DOMAIN, j)], lanes[_at(RESPONSE, j)], lanes[_at(DIRECTION, j)] = domain, response, direction
        operational = (
            0.11111 * (lanes[_at(OLDEST_COST, j)] + lanes[_at(OLDEST_COST + 4, j)])
            + 0.22222 * (lanes[_at(OLDEST_COST + 1, j)] + lanes[_at(OLDEST_COST + 3, j)])
            + 0.33333 * lanes[_at(OLDEST_COST + 2, j)]
        )
        expected = operational + 25.0 * (1.0 + penalty(direction, position))
        normal = _normal(lanes[_at(NOISE + NORMAL_RADIUS, j)], lanes[_at(NOISE + NORMAL_ANGLE, j)])
        lanes[_at(CONSUMPTION, j)] = expected - normal * (1.0 + 0.005 * expected)


@jit
def _advance(lanes: FloatArray, size: int, wandering: bool) -> None:
    """Step the first `size` plants in lanes, in place."""
    if wandering:
        _move_setpoints(lanes, size)
    _move_actuators(lanes, size)
    _update_fatigue(lanes, size)
    _push_operational_cost(lanes, size)
    _update_consumption(lanes, size)


@jit
def step(states: FloatArray, actions: FloatArray, noise: FloatArray, wandering: bool) -> FloatArray:
    """Return the next states (n, N_STATE) of n plants.

    Parameters
    ----------
    states : array, shape (n, N_STATE)
    actions : array, shape (n, 3)
        Clipped to [-1, 1].
    noise : array, shape (n, N_NOISE), or (n, N_NOISE_WANDERING) if `wandering`
        Uniforms in [0, 1).
    wandering : bool
        Whether the setpoint follows random ramps.
    """
    following = np.empty_like(states)
    lanes = np.empty(N_LANES)
    for first in range(0, len(states), WIDTH):
        size = min(WIDTH, len(states) - first)
        for j in range(size):
            for k in range(N_STATE):
                lanes[_at(k, j)] = states[first + j, k]
            for k in range(3):
                lanes[_at(ACTION + k, j)] = actions[first + j, k]
            for k in range(noise.shape[1]):
                lanes[_at(NOISE + k, j)] = noise[first + j, k]
        _advance(lanes, size, wandering)
        for j in range(size):
            for k in range(N_STATE):
                following[first + j, k] = lanes[_at(k, j)]
    return following


@jit
def rollout(state: FloatArray, actions: FloatArray, noise: FloatArray) -> FloatArray:
    """Return the losses (n, horizon) of n action sequences from one state, with a constant setpoint.

    Parameters
    ----------
    state : array, shape (N_STATE,)
    actions : array, shape (n, horizon, 3)
    noise : array, shape (n, horizon, N_NOISE), or (1, horizon, N_NOISE)
        Uniforms in [0, 1); with a leading 1 all sequences share the same noise.
    """
    n, horizon, _ = actions.shape
    losses = np.empty((n, horizon))
    lanes = np.empty(N_LANES)
    for first in range(0, n, WIDTH):
        size = min(WIDTH, n - first)
        for j in range(size):
            for k in range(N_STATE):
                lanes[_at(k, j)] = state[k]
        for t in range(horizon):
            for j in range(size):
                for k in range(3):
                    lanes[_at(ACTION + k, j)] = actions[first + j, t, k]
                for k in range(N_NOISE):
                    lanes[_at(NOISE + k, j)] = noise[(first + j) % len(noise), t, k]
            _advance(lanes, size, False)
            for j in range(size):
                losses[first + j, t] = _combined_loss(lanes[_at(CONSUMPTION, j)], lanes[_at(FATIGUE, j)])
    return losses
