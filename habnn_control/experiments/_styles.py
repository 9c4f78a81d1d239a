"""Colours, dashes and markers of lines: fixed for agents that are often shown, distinct for all others."""

from collections.abc import Sequence
from typing import Any, NamedTuple

_Dashes = tuple[float, ...] | None


class Style(NamedTuple):
    """Colour, dashes and marker of one line."""

    colour: str
    dashes: _Dashes = None  # lengths on, off, ... in units of the line width; None is solid
    marker: str = "o"


STYLES = {
    "habnn": Style("#0072B2", None, "o"),
    "habnn-paper": Style("#56B4E9", (6, 2), "p"),
    "a2c": Style("#E69F00", (4, 1.5), "s"),
    "td3": Style("#009E73", (1, 1.2), "^"),
    "sac": Style("#D55E00", (5, 1.5, 1, 1.5), "D"),
    "ppo": Style("#CC79A7", (3, 1, 1, 1, 1, 1), "v"),
    "noop": Style("#555555", (8, 3)),
    "random": Style("#888888", (1, 2.5)),
    "hold": Style("#8C510A", (3, 3)),
    "oracle": Style("#000000", None),
}
COLUMN_STYLES = [STYLES[name] for name in ("habnn", "sac", "td3", "a2c", "ppo", "noop")]  # columns of one episode
_SPARE = [
    Style(colour, dashes) for dashes in ((2, 1), (7, 1, 1, 1), (1, 3)) for colour in ("#4B0082", "#AA4466", "#117733")
]


def style_of(agent: str, agents: Sequence[str]) -> Style:
    """Return an agent's fixed style; a variant ("sac-tuned", "sac (other folder)") has its colour and other dashes."""
    if agent in STYLES:
        return STYLES[agent]
    base = agent.split(" ")[0].removesuffix("-tuned")
    strangers = [name for name in agents if name not in STYLES]
    index = strangers.index(agent) if agent in strangers else 0
    spare = _SPARE[index % len(_SPARE)]
    return STYLES[base]._replace(dashes=(2.0, 1.0, *[0.5, 1.0] * (1 + index % 3))) if base in STYLES else spare


def line_look(style: Style) -> dict[str, Any]:
    """Return the keyword arguments of `Axes.plot` for a style."""
    dashes = {} if style.dashes is None else {"dashes": style.dashes}
    return {"color": style.colour, "linewidth": 1.4, **dashes}
