"use strict";
// Asks for the steps that are new, twice a second, and draws the episode and the plan about to be played.
(async () => {
  const find = id => document.getElementById(id);
  const facts = JSON.parse(find("data").textContent), rows = [];
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const SHOWN = 150;  // steps, unless all are asked for
  const dashes = ["solid", "dash", "dashdot"];
  const colours = () => dark.matches ? ["#56B4E9", "#FF9A4D", "#3FC99B", "#F0C050", "#E7A3C8", "#bbbbbb"]
    : ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#777777"];
  let plan = null, finished = false;

  const bytes = Uint8Array.from(atob(find("plotly").textContent), letter => letter.charCodeAt(0));
  const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  document.head.append(Object.assign(document.createElement("script"), {textContent: await new Response(unzipped).text()}));

  const place = name => 1 + 3 * facts.names.indexOf(name);  // of its value in a row; low and high follow
  const predicted = () => facts.names.filter(name => !facts.actuators.includes(name) && rows.some(row => row[place(name) + 1] !== null));

  function panel(k, name, shown, from) {
    const axis = {xaxis: "x", yaxis: `y${k + 1}`}, x = shown.map((_, i) => from + i + 1), at = place(name), traces = [];
    const quiet = {mode: "lines", showlegend: false, hoverinfo: "skip", line: {width: 0}, ...axis};
    const band = (xs, low, high, fill, meta) => [{...quiet, x: xs, y: low}, {...quiet, x: xs, y: high, fill: "tonexty", fillcolor: fill, meta}];
    traces.push(...band(x, shown.map(row => row[at + 1]), shown.map(row => row[at + 2]), "#56B4E966", `${name} band`));
    traces.push({x, y: shown.map(row => row[at]), mode: "lines", name, meta: `${name} measured`, showlegend: false, line: {color: ink(), width: 1.5}, ...axis});
    if (plan) {
      const ahead = plan[name].mean.map((_, i) => rows.length + i + 1);
      if (plan[name].low) traces.push(...band(ahead, plan[name].low, plan[name].high, "#E69F0055", `${name} plan band`));
      traces.push({x: ahead, y: plan[name].mean, mode: "lines", name: `${name}, planned`, meta: `${name} plan`, showlegend: false, line: {color: "#D55E00", dash: "dot", width: 2}, ...axis});
    }
    return traces;
  }

  function lines(k, names, shown, from) {
    const axis = {xaxis: "x", yaxis: k ? `y${k + 1}` : "y"}, x = shown.map((_, i) => from + i + 1), traces = [];
    names.forEach((name, i) => {
      const color = name === "loss" ? ink() : colours()[i % colours().length], dash = dashes[i % dashes.length];
      const value = row => name === "loss" ? row[0] : row[place(name)];
      traces.push({x, y: shown.map(value), mode: "lines", name, meta: name, showlegend: name !== "loss", line: {color, dash, width: 1.6}, ...axis});
      if (!plan) return;
      const ahead = name === "loss" ? plan.loss : plan[name].mean;
      traces.push({x: ahead.map((_, j) => rows.length + j + 1), y: ahead, mode: "lines", name: `${name}, planned`, meta: `${name} plan`,
        showlegend: false, line: {color, width: 2, dash: "dot"}, ...axis});
    });
    return traces;
  }

  function idle(from) {
    const y = (facts.idle || []).slice(from, rows.length), line = {color: dark.matches ? "#999999" : "#888888", width: 1.2};
    return y.length ? [{x: y.map((_, i) => from + i + 1), y, mode: "lines", name: "doing nothing", meta: "idle", line, xaxis: "x", yaxis: "y"}] : [];
  }

  const ink = () => dark.matches ? "#dddddd" : "#222222";

  function draw() {
    if (!rows.length) return;
    const from = find("whole").checked ? 0 : Math.max(0, rows.length - SHOWN), shown = rows.slice(from);
    const bands = predicted(), others = facts.actuators.length ? facts.actuators : facts.names.filter(name => !bands.includes(name));
    const panels = [["loss", [...idle(from), ...lines(0, ["loss"], shown, from)]]];
    if (others.length) panels.push([facts.actuators.length ? "actuators" : "observations", lines(1, others, shown, from)]);
    for (const name of bands) panels.push([name, panel(panels.length, name, shown, from)]);
    const grid = dark.matches ? "#444444" : "#dddddd", n = panels.length;
    const axis = {gridcolor: grid, linecolor: ink(), zeroline: false, automargin: true};
    const layout = {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: {color: ink(), size: 13}, height: 60 + 170 * n,
      margin: {l: 50, r: 12, t: 40, b: 40}, hovermode: "closest", showlegend: true, uirevision: "kept",
      legend: {orientation: "h", x: 0, y: 1, yanchor: "bottom", traceorder: "normal"},
      modebar: {bgcolor: "rgba(0,0,0,0)", color: "#888888", activecolor: ink(), orientation: "h"},
      xaxis: {...axis, title: {text: "timestep", standoff: 6}, anchor: n > 1 ? `y${n}` : "y"},
      shapes: [{type: "line", xref: "x", yref: "paper", x0: rows.length + 0.5, x1: rows.length + 0.5, y0: 0, y1: 1, line: {color: grid, width: 2}}],
    };
    panels.forEach(([title], k) => {
      layout[k ? `yaxis${k + 1}` : "yaxis"] = {...axis, title: {text: title}, domain: [1 - (k + 0.9) / n, 1 - k / n]};
    });
    Plotly.react(find("live"), panels.flatMap(([, traces]) => traces), layout, {responsive: true, displaylogo: false,
      modeBarButtons: [["toImage", "zoom2d", "pan2d", "autoScale2d"]]});
    document.body.dataset.drawn = String(rows.length);
  }

  async function ask() {
    let lost = false;
    try {
      const state = await (await fetch(`/state?first=${rows.length}`)).json();
      rows.push(...state.rows);
      ({plan, finished} = state);
    } catch {
      lost = true;
    }
    const last = rows.length ? `step ${rows.length} of ${facts.steps}, loss ${rows[rows.length - 1][0].toFixed(1)}` : "no step yet";
    const over = finished || lost;
    if (over) plan = null;
    find("status").textContent = last;
    if (over) find("over").textContent = "The episode is over or was stopped; this page can be closed.";
    draw();
    if (!over) setTimeout(ask, 500);
  }

  find("whole").addEventListener("change", draw);
  dark.addEventListener("change", draw);
  ask();
})();
