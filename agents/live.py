"""A page on this machine that shows an episode while it runs."""

import json
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Self
from urllib.parse import parse_qs, urlsplit

import numpy as np

from agents.base import Agent
from agents.episode import EpisodeRecord
from agents.outlook import outlook
from habnn_control.experiments import explorer, page

_HOST = "127.0.0.1"  # nobody outside of this machine can look
_ATTENTION = 5.0  # seconds since its last question after which nobody is taken to look
_FAREWELL = 3.0  # seconds that the last state is kept for a browser that looks


class LivePage:
    """Serve an episode on the loopback interface until the block ends.

    Forecasts of plans are only made while a browser asks for them, and change nothing in the episode.

    Parameters
    ----------
    record : EpisodeRecord
        The steps so far.
    agent : str
        Its name.
    steps : int
        Length of the episode.
    actuators : sequence of str
        Recorded columns that are positions of actuators.
    port : int
        Port; 0 means any that is free.
    idle : sequence of float
        Losses of doing nothing, one per step, drawn beside those of the agent; none unless given.
    """

    def __init__(
        self,
        record: EpisodeRecord,
        agent: str,
        steps: int,
        actuators: Sequence[str],
        port: int = 0,
        idle: Sequence[float] = (),
    ) -> None:
        self._record, self._steps = record, steps
        self._names = list(record.env.labels)
        self._facts = {"agent": agent, "steps": steps, "actuators": list(actuators), "names": self._names}
        self._facts["idle"] = _plain(idle)
        self._lock, self._told = threading.Lock(), threading.Event()
        self._rows: list[list[float | None]] = []  # loss, then value, low and high of each name
        self._plan: dict[str, Any] | None = None
        self._finished, self._asked = False, -np.inf
        try:
            self._server = ThreadingHTTPServer((_HOST, port), _handler(self))
        except (OSError, OverflowError) as error:
            raise ValueError(
                f"live: port must be a free one of this machine, got {port} ({error}); 0 means any that is free."
            ) from None
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.1,), daemon=True)

    @property
    def address(self) -> str:
        """Address of the page."""
        return f"http://{_HOST}:{self._server.server_port}/"

    def __enter__(self) -> Self:
        self._append()  # what an interrupted episode has shown before
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        with self._lock:
            self._finished = True
            watched = self._watched()
        if watched:
            self._told.wait(_FAREWELL)
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def update(self, agent: Agent) -> None:
        """Take over the steps that are new, and the plan that the agent is about to play."""
        plan = self._planned(agent) if self._watched() else None
        with self._lock:
            self._append()
            self._plan = plan

    def page(self) -> str:
        """Return the page."""
        body = (
            '<p id="status">waiting for the first step</p><p id="over" role="status"></p>'
            '<div class="controls row"><label><input type="checkbox" id="whole"> all steps</label></div>'
            '<div class="chart" id="live" role="img" aria-label="Loss, actuators, predicted bands and the plan about '
            'to be played, over timesteps"></div>'
            "<p>Left of the vertical line: measured values, and shaded the 90 % interval predicted one step before. "
            "Right of it, dotted: the plan about to be played, with its 90 % interval.</p>"
        )
        source = Path(__file__).with_name("live.js").read_text()
        facts = json.dumps(self._facts).replace("</", "<\\/")
        data = f'<script type="application/json" id="data">{facts}</script>'
        title = f"{self._facts['agent']}, {self._steps} steps"
        return page.shell(title, body, data + explorer.with_plotly(source), connect="'self'")

    def state(self, first: int) -> dict[str, Any]:
        """Return the steps from `first` (from 0) on, and the plan."""
        with self._lock:
            self._asked = time.monotonic()
            if self._finished:
                self._told.set()
            return {"first": first, "rows": self._rows[first:], "plan": self._plan, "finished": self._finished}

    def _watched(self) -> bool:
        return time.monotonic() - self._asked < _ATTENTION

    def _append(self) -> None:
        first, last = len(self._rows), self._record.n_steps
        if last == first:
            return
        rows = np.array(list(self._record.columns(first).values()))
        ends = self._record.ends(first)
        for loss, values, bands in zip(rows[0], rows[1:].T, ends, strict=True):
            parts = [(value, *band) for value, band in zip(values, bands, strict=True)]
            self._rows.append(_plain([loss, *(number for part in parts for number in part)]))

    def _planned(self, agent: Agent) -> dict[str, Any] | None:
        found = outlook(agent)
        if found is None:
            return None
        plan: dict[str, Any] = {"loss": _plain(found.loss)}
        places = {int(entry): place for place, entry in enumerate(found.entries)}
        for name, entry in self._record.env.labels.items():
            plan[name] = {"mean": _plain(found.observations[:, entry])}
            if entry in places:
                at = places[entry]
                plan[name] |= {"low": _plain(found.low[:, at]), "high": _plain(found.high[:, at])}
        return plan


def _plain(values: Any) -> list[float | None]:
    """Return numbers as JSON has them; None for those that are not finite."""
    return [float(f"{value:.6g}") if np.isfinite(value) else None for value in values]


def _handler(live: LivePage) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        """Answer the page and its questions, to this machine only."""

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            if self.headers.get("Host", "") != urlsplit(live.address).netloc:
                self.send_error(403)  # a foreign name that leads here: another site's script
            elif address.path == "/":
                self._answer(live.page(), "text/html; charset=utf-8")
            elif address.path == "/state":
                first = parse_qs(address.query).get("first", ["0"])[0]
                self._answer(json.dumps(live.state(int(first) if first.isdigit() else 0)), "application/json")
            else:
                self.send_error(404)

        def _answer(self, text: str, kind: str) -> None:
            content = text.encode()
            with suppress(ConnectionError):  # the browser was closed meanwhile
                self.send_response(200)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(content)))
                self.send_header("Cache-Control", "no-store")
                self.end_headers()
                self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            """Write nothing: the terminal belongs to the episode."""

    return Handler
