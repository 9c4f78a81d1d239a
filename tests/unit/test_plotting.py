"""Figures: what is drawn, that labels do not touch, that files are whole and repeatable."""

from itertools import pairwise

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text
from PIL import Image

from agents.reporting import printed_losses
from habnn_control.experiments.plotting import (
    NARROW,
    WIDE,
    Reference,
    columns_figure,
    columns_panel,
    loss_panel,
    losses_figure,
    prediction_panel,
    save_figure,
    spread,
    stacked_figure,
)

ACTUATORS = ("velocity", "gain", "shift")
REFERENCE = Reference(printed_losses(), "hollow: printed in the paper")
AGENTS = ("habnn", "a2c", "td3", "sac", "sac-tuned", "noop", "random", "hold", "oracle", "stranger")


def tidy(agents=AGENTS, setpoints=(100,), runs=4, steps=60):
    """Losses whose lines end close together: the worst case for labels."""
    rng = np.random.default_rng(0)
    parts = []
    for number, agent in enumerate(agents):
        for setpoint in setpoints:
            for run in range(runs):
                index = {"agent": agent, "setpoint": setpoint, "run": run, "seed": run}
                table = {name: 50 + rng.normal(size=steps) for name in ACTUATORS}
                table["loss"] = 300 + number + rng.normal(size=steps)
                parts.append(pd.DataFrame(index | {"timestep": np.arange(1, steps + 1)} | table))
    return pd.concat(parts, ignore_index=True)


def labels_of(axes):
    return [text for text in axes.texts if text.get_text() in AGENTS]


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_losses_figure_labels_every_agent_once_without_overlap(width):
    figure = losses_figure(tidy(), width)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    (axes,) = figure.axes
    labels = labels_of(axes)
    assert sorted(label.get_text() for label in labels) == sorted(AGENTS)
    for label in labels:
        label.update_positions(canvas.get_renderer())
    # the box of an annotation would include its leader
    boxes = sorted((Text.get_window_extent(label) for label in labels), key=lambda box: box.y0)
    assert all(lower.y1 <= upper.y0 + 0.5 for lower, upper in pairwise(boxes))
    edge = figure.bbox
    assert all(edge.x0 <= box.x0 and box.x1 <= edge.x1 and edge.y0 <= box.y0 and box.y1 <= edge.y1 for box in boxes)


def test_losses_figure_draws_the_means():
    losses = tidy(agents=("noop",))
    figure = losses_figure(losses)
    (line,) = [line for line in figure.axes[0].lines if line.get_label() == "noop"]
    np.testing.assert_allclose(line.get_ydata(), losses.groupby("timestep")["loss"].mean())
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 61))


def test_losses_figure_averages_long_runs_over_short_stretches():
    losses = tidy(agents=("noop",), runs=2, steps=1000)
    (line,) = [line for line in losses_figure(losses).axes[0].lines if line.get_label() == "noop"]
    means = losses.groupby("timestep")["loss"].mean().to_numpy().reshape(100, 10).mean(axis=1)
    np.testing.assert_allclose(line.get_ydata(), means)
    np.testing.assert_allclose(line.get_xdata(), np.arange(5.5, 1000, 10))


def test_losses_figure_shows_reference_points_hollow_and_only_at_setpoint_100():
    at_100, at_50 = losses_figure(tidy(setpoints=(100, 50)), reference=REFERENCE).axes
    paper = [line for line in at_100.lines if line.get_label() == "_reference"]
    printed = {name: rows["loss"].tolist() for name, rows in printed_losses().groupby("agent", sort=False)}
    assert [list(line.get_ydata()) for line in paper] == list(printed.values())
    assert printed["sac"] == [405, 491, 625, 805, 1027, 1075]
    assert at_100.get_legend().get_title().get_text() == "hollow: printed in the paper"
    assert all(line.get_markerfacecolor() == "none" and line.get_linestyle() == "None" for line in paper)
    assert len({line.get_marker() for line in paper}) == 4
    assert not [line for line in at_50.lines if line.get_label() == "_reference"]
    assert not [line for line in losses_figure(tidy()).axes[0].lines if line.get_label() == "_reference"]


@pytest.mark.parametrize(("steps", "shown"), [(9, 0), (25, 2), (300, 6), (1000, 0)])
def test_losses_figure_shows_reference_points_where_runs_are_long_enough_and_not_too_long(steps, shown):
    losses = tidy(agents=("noop", "sac", "td3"), runs=1, steps=steps)  # of four that the paper prints, these two
    (axes,) = losses_figure(losses, reference=REFERENCE).axes
    paper = [line.get_xdata() for line in axes.lines if line.get_label() == "_reference"]
    assert [len(timesteps) for timesteps in paper] == ([shown] * 2 if shown else [])
    assert all(max(timesteps) <= steps for timesteps in paper)


@pytest.mark.parametrize("width", [WIDE, NARROW])
def test_columns_figure_labels_stay_in_their_panel_however_many(width):
    losses = tidy(agents=[f"agent-{number}" for number in range(20)], runs=1)
    figure = columns_figure(losses, (100,), ACTUATORS, width)
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    for axes in figure.axes:
        for label in axes.texts:
            label.update_positions(canvas.get_renderer())
            box = Text.get_window_extent(label)
            assert axes.bbox.y0 - box.height / 2 <= box.y0
            assert box.y1 <= axes.bbox.y1 + box.height / 2


def test_losses_figure_lines_differ_in_grey():
    lines = [line for line in losses_figure(tidy()).axes[0].lines if line.get_label() in AGENTS]
    looks = {
        (line._unscaled_dash_pattern[1] and tuple(line._unscaled_dash_pattern[1]), line.get_color()) for line in lines
    }
    assert len(looks) == len(AGENTS)
    dashes = [line._unscaled_dash_pattern[1] for line in lines if line.get_label() not in ("habnn", "oracle")]
    assert len({tuple(pattern) for pattern in dashes}) == len(dashes)


@pytest.mark.parametrize(("width", "columns"), [(WIDE, 2), (NARROW, 1)])
def test_losses_figure_has_a_panel_per_condition(width, columns):
    figure = losses_figure(tidy(agents=("noop", "sac"), setpoints=(10, 50, 100), runs=2), width)
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["setpoint 10", "setpoint 50", "setpoint 100"]
    assert len({round(axes.get_position().x0, 2) for axes in figure.axes}) == columns


def test_losses_figure_has_several_ticks_however_narrow_the_range():
    low, high = losses_figure(tidy(setpoints=(50,))).axes[0].get_ylim()
    ticks = losses_figure(tidy(setpoints=(50,))).axes[0].get_yticks()
    assert 3 <= sum(low <= tick <= high for tick in ticks) <= 8


def test_losses_figure_of_single_runs_has_no_band_and_no_warning():
    losses_figure(tidy(runs=1)).canvas.draw()


def test_columns_figure_has_a_panel_per_column_with_every_agent():
    figure = columns_figure(tidy(setpoints=(100, 50)), (50,), ("gain", "loss"))
    assert [axes.get_ylabel() for axes in figure.axes] == ["gain", "loss"]
    for axes in figure.axes:
        assert len(labels_of(axes)) == len(AGENTS)


def test_stacked_figure_takes_panels_of_others():
    episode = {name: np.linspace(0, 100, 30) for name in ("velocity", "gain", "shift")}
    panels = [
        loss_panel("sac", np.arange(30.0), {"noop": np.full(30, 9.0)}),
        columns_panel(episode, "position", (0.0, 100.0)),
        lambda axes: axes.plot([1, 30], [0, 1], label="extra"),
    ]
    figure = stacked_figure(panels)
    assert [sorted(text.get_text() for text in axes.texts) for axes in figure.axes] == [
        ["noop", "sac"],
        ["gain", "shift", "velocity"],
        ["extra"],
    ]
    assert figure.axes[1].get_ylabel() == "position"
    assert figure.axes[1].get_ylim() == pytest.approx((-2.0, 102.0))


def test_prediction_panel_tells_its_coverage_and_shows_what_came():
    values = np.arange(40.0)
    low, high = values - 1.0, values + np.where(np.arange(40) < 10, -0.5, 1.0)  # the first ten miss
    low[0], high[0] = -1e6, 1e6  # a prior knows nothing, and covers
    (axes,) = stacked_figure([prediction_panel("fatigue", values, low, high)]).axes
    assert axes.get_title(loc="left") == "predicted 90 % bands cover 78 % of the steps"  # 31 of 40
    assert axes.get_ylabel() == "fatigue"
    assert -20.0 < axes.get_ylim()[0] < 0.0
    assert 39.0 < axes.get_ylim()[1] < 60.0


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_save_figure_is_deterministic(tmp_path, suffix):
    for name in "ab":
        save_figure(losses_figure(tidy(agents=("noop", "sac"))), tmp_path / f"{name}.{suffix}")
    assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_save_figure_png_has_ink(tmp_path):
    save_figure(losses_figure(tidy()), tmp_path / "x.png")
    pixels = np.asarray(Image.open(tmp_path / "x.png").convert("L"))
    assert pixels.shape[1] == 1600
    assert 0.02 < (pixels < 200).mean() < 0.5


def test_save_figure_raises_on_unknown_suffix(tmp_path):
    with pytest.raises(ValueError, match="kind must be png or svg, got 'jpg'"):
        save_figure(losses_figure(tidy(agents=("noop",))), tmp_path / "x.jpg")
    assert not list(tmp_path.iterdir())


@given(st.lists(st.floats(0.0, 1.0), min_size=1, max_size=12))
def test_spread_keeps_order_gap_and_bounds(positions):
    gap = 0.08
    moved = np.array(spread(positions, gap))
    assert moved.min() >= -1e-9
    assert moved.max() <= 1.0 + 1e-9
    assert (np.diff(np.sort(moved)) >= gap - 1e-9).all()
    order = np.argsort(positions, kind="stable")
    assert (np.diff(moved[order]) > 0).all()


def test_spread_leaves_distant_positions_alone():
    assert spread([0.9, 0.1, 0.5], 0.1) == pytest.approx([0.9, 0.1, 0.5])


def test_spread_moves_a_close_pair_by_half_each():
    assert spread([0.5, 0.5, 0.52], 0.1) == pytest.approx([0.5067 - 0.1, 0.5067, 0.5067 + 0.1], abs=1e-4)


def test_loss_panel_averages_long_episodes_vs_numpy():
    loss = np.random.default_rng(0).normal(200.0, 30.0, 1000)
    (axes,) = stacked_figure([loss_panel("sac", loss, {"noop": loss + 50.0})]).axes
    thin, noop, sac = axes.lines
    np.testing.assert_array_equal(thin.get_ydata(), loss)
    for line, offset in ((noop, 50.0), (sac, 0.0)):
        np.testing.assert_allclose(line.get_ydata(), [loss[k : k + 10].mean() + offset for k in range(0, 1000, 10)])
        np.testing.assert_allclose(line.get_xdata(), np.arange(5.5, 1000.0, 10.0))
    assert axes.get_title(loc="left") == "lines: means over 10 steps; thin: single steps"


def test_losses_figure_takes_any_column_label_and_no_arguments():
    losses = tidy(agents=("noop",)).drop(columns="setpoint").rename(columns={"loss": "error"})
    (axes,) = losses_figure(losses, column="error", label="error in kg").axes
    assert axes.get_ylabel() == "error in kg"
    assert axes.get_title(loc="left") == ""
    assert axes.get_yscale() == "log"


def test_losses_figure_of_negative_values_has_a_linear_axis():
    losses = tidy(agents=("noop", "sac"))
    figure = losses_figure(losses.assign(loss=losses["loss"] - 300))
    assert figure.axes[0].get_yscale() == "linear"
    figure.canvas.draw()
