"""The page that shows an episode while it runs: what it is told, what it draws, and that it goes away."""

import json
import os
import re
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import agents
from agents.cli.main import main
from agents.episode import EpisodeRecord
from agents.live import LivePage
from agents.outlook import outlook
from agents.runner import Recorder, make_env
from browser import chromium, console, needs_browser, show
from tiny_agents import TINY

IDLE = [300.0 + step for step in range(30)]
ACTUATORS = ["velocity", "gain", "shift"]
HABNN = ["--agent", "habnn", "--agent-settings", json.dumps({"habnn": TINY}), "--references", "noop"]


def ask(page, path="state", **headers):
    request = urllib.request.Request(page.address + path, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode()


def episode(tmp_path, name="habnn"):
    record = EpisodeRecord(Recorder(make_env(70.0), 3), tmp_path)
    agent = agents.make(name, record.env, 1, **(TINY if name == "habnn" else {}))
    return record, agent


def page_of(record):
    return LivePage(record, "habnn", 30, ACTUATORS, idle=IDLE)


def play(record, agent, n_steps):
    def add(step):
        record.add(agent, step.action, agent.prediction)

    agent.learn(n_steps, resume=record.n_steps > 0, callback=add)


def test_outlook_is_the_forecast_of_the_rest_of_the_plan(tmp_path):
    record, agent = episode(tmp_path)
    play(record, agent, 3)
    assert outlook(agent) is None  # the excitation has no plan
    play(record, agent, 9)
    found = outlook(agent)
    np.testing.assert_array_equal(found.actions, agent.plan[1:])
    assert found.observations.shape == (TINY["horizon"] - 1, 6)
    assert set(found.entries) == {4, 5}
    middle = found.observations[:, found.entries]
    np.testing.assert_allclose((found.low + found.high) / 2, middle)
    assert (found.high > found.low).all()
    np.testing.assert_allclose(found.loss, found.observations[:, 5] + 3 * found.observations[:, 4])
    # The first step of the forecast is the one-step prediction of its first action.
    step = agent.model.predict(found.actions[0])
    np.testing.assert_allclose(found.observations[0, step.indices], step.mean, rtol=0.05)


def test_outlook_of_agents_without_a_plan_is_none(tmp_path):
    record, agent = episode(tmp_path, "noop")
    play(record, agent, 2)
    assert outlook(agent) is None


def test_state_tells_the_steps_that_are_new_and_the_plan(tmp_path):
    record, agent = episode(tmp_path)
    with page_of(record) as page:
        record.watcher = page.update
        play(record, agent, 5)
        state = json.loads(ask(page))
        assert state["plan"] is None
        losses = record.columns()["loss"]
        assert [row[0] for row in state["rows"]] == pytest.approx(losses.tolist(), rel=1e-5)
        play(record, agent, 5)  # somebody looks now
        state = json.loads(ask(page, "state?first=8"))
        assert (state["first"], len(state["rows"]), state["finished"]) == (8, 2, False)
        names = list(record.env.labels)
        row = dict(zip(names, np.reshape(state["rows"][-1][1:], (-1, 3)), strict=True))
        band = record.bands()["consumption"].iloc[-1]
        assert row["consumption"] == pytest.approx(band[["measured", "low", "high"]].to_list(), rel=1e-5)
        assert row["velocity"][1:].tolist() == [None, None]
        assert len(state["plan"]["loss"]) == TINY["horizon"] - 1
        assert state["plan"]["consumption"]["low"] < state["plan"]["consumption"]["high"]
        assert "low" not in state["plan"]["velocity"]
    with pytest.raises(urllib.error.URLError):
        ask(page)


def test_page_answers_this_machine_only(tmp_path):
    with page_of(episode(tmp_path)[0]) as page:
        assert page.address.startswith("http://127.0.0.1:")
        assert "connect-src 'self'" in ask(page, "")
        with pytest.raises(urllib.error.HTTPError, match="404"):
            ask(page, "etc/passwd")
        with pytest.raises(urllib.error.HTTPError, match="403"):  # a name of another site that leads here
            ask(page, Host="evil.example")


def test_page_says_nothing_when_a_browser_leaves_early(tmp_path, capfd):
    with page_of(episode(tmp_path)[0]) as page:
        place = urllib.parse.urlsplit(page.address)
        for _ in range(5):
            line = socket.create_connection((place.hostname, place.port))
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close with a reset
            line.sendall(f"GET / HTTP/1.1\r\nHost: {place.netloc}\r\n\r\n".encode())
            line.close()
        assert "connect-src" in ask(page, "")
        time.sleep(0.5)
    assert "Traceback" not in capfd.readouterr().err


def test_page_raises_on_a_port_in_use(tmp_path):
    record, _ = episode(tmp_path)
    with page_of(record) as page, pytest.raises(ValueError, match="live: port must be a free one"):
        LivePage(record, "habnn", 3, ACTUATORS, int(page.address.rstrip("/").rpartition(":")[2]))


def test_live_changes_nothing_in_the_episode(tmp_path, capsys):
    flags = [*HABNN, "--steps", "25", "--setpoint", "70"]
    assert main(["run", *flags, "--out", str(tmp_path / "plain")]) == 0
    stop, seen, pages = threading.Event(), [], []

    def look():
        while not stop.is_set():
            if found := re.search(r"live: (http://\S+)", "".join(errors)):
                try:
                    if not pages:
                        pages.append(urllib.request.urlopen(found.group(1), timeout=5).read().decode())
                    with urllib.request.urlopen(f"{found.group(1)}state", timeout=5) as answer:
                        seen.append(json.load(answer))
                except OSError:
                    pass
            time.sleep(0.01)

    errors = []
    write = sys.stderr.write
    sys.stderr.write = lambda text: errors.append(text) or write(text)
    viewer = threading.Thread(target=look)
    viewer.start()
    try:
        assert main(["run", *flags, "--live", "--out", str(tmp_path / "live")]) == 0
    finally:
        stop.set()
        viewer.join()
        sys.stderr.write = write
    assert any(state["plan"] for state in seen)
    assert seen[-1]["finished"]
    facts = json.loads(re.search(r'id="data">(.*?)</script>', pages[0]).group(1))
    noop = ["run", "--agent", "noop", "--references", "noop", "--steps", "25", "--setpoint", "70"]
    assert main([*noop, "--out", str(tmp_path / "noop")]) == 0
    assert facts["idle"] == pytest.approx(pd.read_csv(tmp_path / "noop/losses.csv")["loss"].tolist(), rel=1e-5)
    for name in ("losses.csv", "predictions.csv", "agent.npz"):
        assert (tmp_path / "live" / name).read_bytes() == (tmp_path / "plain" / name).read_bytes()


def test_live_page_goes_away_with_ctrl_c(tmp_path):
    command = [str(Path(sys.executable).with_name("habnn")), "run", *HABNN, "--steps", "100000", "--live"]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path / "x")],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    address = re.search(r"live: (\S+)", process.stderr.readline()).group(1)
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        with urllib.request.urlopen(f"{address}state", timeout=10) as answer:
            if json.load(answer)["rows"]:
                break
        time.sleep(0.1)
    os.killpg(process.pid, signal.SIGINT)
    errors = process.communicate(timeout=60)[1]
    assert process.returncode == 130
    assert "Traceback" not in errors
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)


@needs_browser
def test_browser_shows_the_episode_while_it_runs(tmp_path):
    def wait(driver, condition):
        deadline = time.monotonic() + 30
        while not driver.execute_script(condition):
            assert time.monotonic() < deadline, console(driver)
            time.sleep(0.05)

    def traces(driver):
        script = "return document.getElementById('live').data.map(({meta, x, y}) => [meta, x, y])"
        return {meta: [x, y] for meta, x, y in driver.execute_script(script) if meta}

    record, agent = episode(tmp_path)
    with chromium() as driver, page_of(record) as page:
        record.watcher = page.update
        show(driver, page.address, width=400)
        play(record, agent, 10)
        wait(driver, "return document.body.dataset.drawn === '10'")
        play(record, agent, 5)
        wait(driver, "return document.body.dataset.drawn === '15'")
        found = traces(driver)
        assert found["loss"][1] == pytest.approx(record.columns()["loss"].tolist(), rel=1e-5)
        assert found["idle"] == [list(range(1, 16)), IDLE[:15]]
        assert found["velocity"][1] == pytest.approx(record.columns()["velocity"].tolist(), rel=1e-5)
        assert found["consumption plan"][0] == [16, 17, 18, 19]
        assert {"consumption band", "consumption plan band", "fatigue plan band", "gain plan"} <= set(found)
        assert "step 15 of 30" in driver.find_element("id", "status").text
        size = "const b = document.querySelector('#live .main-svg').getBoundingClientRect(); return [b.right, b.height]"
        right, height = driver.execute_script(size)
        assert right <= 400
        assert height > 600
        page.__exit__()
        wait(driver, "return document.getElementById('over').textContent.includes('can be closed')")
        assert not any(" plan" in name for name in traces(driver))
        assert console(driver) == []
