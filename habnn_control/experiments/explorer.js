"use strict";
// Draws the figures of a report from the data in the page, and keeps them, the tables and the controls in step.
(async () => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = id => document.getElementById(id);
  const number = (value, digits = 1) => value === null || Number.isNaN(value) ? "" : value.toFixed(digits).replace("-", "−");
  const dark = matchMedia("(prefers-color-scheme: dark)");
  let printing = false;

  async function loadPlotly() {
    const bytes = Uint8Array.from(atob(find("plotly").textContent), letter => letter.charCodeAt(0));
    const unzipped = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    document.head.append(Object.assign(document.createElement("script"), {textContent: await new Response(unzipped).text()}));
  }

  // ---------------------------------------------------------------- data
  const starts = [];
  data.runs.reduce((start, run, k) => { starts[k] = start; return start + run[3]; }, 0);
  const unpacked = {};

  function values(column, run) {
    if (!(column in unpacked)) {
      const bytes = Uint8Array.from(atob(data.values[column].data), letter => letter.charCodeAt(0));
      unpacked[column] = new Uint16Array(bytes.buffer);
    }
    const {low, high} = data.values[column];
    const codes = unpacked[column].subarray(starts[run], starts[run] + data.runs[run][3]);
    const step = (high - low) / 65534, unit = step ? 10 ** (Math.floor(Math.log10(step)) + 1) : 0;  // finer digits are not known
    const decoded = code => unit ? Math.round((low + step * code) / unit) * unit : low;
    return Array.from(codes, code => code === 65535 ? null : decoded(code));
  }

  const runsOf = (agent, condition) =>
    data.runs.map((run, k) => k).filter(k => data.runs[k][0] === agent && data.runs[k][1] === condition);

  function windowMean(run, first, last) {
    const inside = values("loss", run).slice(first - 1, last);
    return inside.reduce((sum, value) => sum + value, 0) / inside.length;
  }

  // ---------------------------------------------------------------- what is chosen
  function chosen() {
    const boxes = [...document.querySelectorAll('input[name="agent"]')];
    const column = data.columns[Number(find("column").value)];
    return {
      agents: boxes.filter(box => box.checked).map(box => Number(box.value)),
      condition: Number(find("condition").value),
      column: column.name, label: column.label, window: find("window").value,
      from: Number(find("from").value) || 1, to: Number(find("to").value) || Infinity,
      bands: find("bands").checked, singles: find("singles").checked, log: find("log").checked,
    };
  }

  // ---------------------------------------------------------------- look
  function luminance(colour) {
    const [r, g, b] = [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16) / 255);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  }

  function colourOf(agent) {
    const colour = typeof agent === "string" ? agent : data.agents[agent].colour;
    if (!dark.matches || printing || luminance(colour) > 0.4) return colour;
    const part = 0.55;  // on a dark page, dark colours are mixed with white
    return "#" + [1, 3, 5].map(k => Math.round(parseInt(colour.slice(k, k + 2), 16) * (1 - part) + 255 * part)
      .toString(16).padStart(2, "0")).join("");
  }

  const faint = (colour, alpha) => colour + Math.round(255 * alpha).toString(16).padStart(2, "0");

  const inkOf = () => !dark.matches || printing ? "#222222" : "#dddddd";
  const isNarrow = element => element.clientWidth < 640 && !printing;

  function layout(element, more = {}) {
    const light = !dark.matches || printing;
    const ink = inkOf(), grid = light ? "#dddddd" : "#444444", narrow = isNarrow(element);
    const axis = {gridcolor: grid, linecolor: ink, zeroline: false, zerolinecolor: ink, automargin: true};
    const width = printing ? {width: 660, height: 420, autosize: false} : {autosize: true, width: undefined, height: undefined};
    return {
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", font: {color: ink, size: printing ? 10 : 13, family: "system-ui, sans-serif"},
      modebar: {bgcolor: "rgba(0,0,0,0)", color: light ? "#777777" : "#aaaaaa", activecolor: ink},
      margin: {l: 50, r: 12, t: 34, b: 45}, showlegend: !narrow, hovermode: narrow ? "closest" : "x unified", dragmode: "zoom", ...width,
      hoverlabel: {bgcolor: light ? "#ffffff" : "#222222", font: {color: ink}},
      legend: {traceorder: "normal", ...(narrow ? {orientation: "h", y: -0.2, x: 0} : {y: 1})}, ...more,
      xaxis: {...axis, ...more.xaxis}, yaxis: {...axis, ...more.yaxis},
    };
  }

  const config = {
    responsive: true, displaylogo: false,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "autoScale2d", "resetScale2d"]],
  };

  function logTicks(traces) {
    const all = traces.flatMap(trace => trace.y).filter(value => value > 0);
    const [low, high] = [Math.min(...all), Math.max(...all)];
    const ticks = [];
    for (let ten = Math.floor(Math.log10(low)); ten <= Math.ceil(Math.log10(high)); ten++)
      for (const digit of [1, 1.5, 2, 3, 5, 7]) ticks.push(digit * 10 ** ten);
    const inside = ticks.filter(tick => tick >= 0.95 * low && tick <= 1.05 * high);
    return inside.length > 2 ? {tickvals: inside, ticktext: inside.map(tick => String(+tick.toPrecision(3)))} : {};
  }

  // ---------------------------------------------------------------- curves
  function curveTraces(pick) {
    const traces = [];
    const inside = x => x >= pick.from && x <= pick.to;
    const bands = data.bands[pick.column].filter(band => band.condition === pick.condition && pick.agents.includes(band.agent));
    for (const band of bands) {
      const colour = colourOf(band.agent), at = band.x.map((x, k) => k).filter(k => inside(band.x[k]));
      const part = name => at.map(k => band[name][k]);
      const quiet = {x: part("x"), mode: "lines", hoverinfo: "skip", showlegend: false};
      if (pick.singles) traces.push({...quiet, ...singles(band.agent, pick, inside), line: {color: faint(colour, 0.35), width: 0.7}, meta: "single runs"});
      if (pick.bands) {
        traces.push({...quiet, y: part("low"), line: {width: 0}});
        traces.push({...quiet, y: part("high"), line: {width: 0}, fill: "tonexty", fillcolor: faint(colour, 0.18), meta: "interval"});
      }
    }
    for (const band of bands) {
      const at = band.x.map((x, k) => k).filter(k => inside(band.x[k])), name = data.agents[band.agent].name;
      const interval = at.map(k => band.low[k] === null ? "" : ` [${number(band.low[k])}, ${number(band.high[k])}]`);
      traces.push({
        x: at.map(k => band.x[k]), y: at.map(k => band.mean[k]), customdata: interval, name, mode: "lines", meta: "mean",
        line: {color: colourOf(band.agent), width: 2, dash: data.agents[band.agent].dash},
        hovertemplate: `${name}: %{y:.1f}%{customdata}<extra></extra>`,
      });
    }
    return traces.concat(pick.column === "loss" ? referenceTraces(pick, inside) : []);
  }

  function singles(agent, pick, inside) {
    const x = [], y = [];
    for (const run of runsOf(agent, pick.condition)) {
      values(pick.column, run).forEach((value, k) => { if (inside(k + 1)) { x.push(k + 1); y.push(value); } });
      x.push(null);
      y.push(null);
    }
    return {x, y};
  }

  function referenceTraces(pick, inside) {
    const points = (data.reference ? data.reference.points : []).filter(([agent, condition, x]) =>
      condition === pick.condition && pick.agents.includes(agent) && inside(x));
    return [...new Set(points.map(point => point[0]))].map(agent => ({
      x: points.filter(point => point[0] === agent).map(point => point[2]),
      y: points.filter(point => point[0] === agent).map(point => point[3]),
      name: `${data.agents[agent].name}, ${data.reference.title.replace("hollow: ", "")}`, mode: "markers", meta: "reference",
      marker: {symbol: data.agents[agent].marker, size: 8, color: colourOf(agent)}, hovertemplate: "%{y:.1f} (printed)<extra></extra>",
    }));
  }

  function drawCurves(pick) {
    const element = find("curves"), traces = curveTraces(pick);
    const type = pick.log ? {type: "log", ...logTicks(traces)} : {type: "linear"};
    const title = text => ({title: {text, standoff: 8}});
    const label = isNarrow(element) ? pick.column : pick.label;
    Plotly.react(element, traces, layout(element, {xaxis: title("timestep"), yaxis: {...title(label), ...type}}), config);
    if (!element.dataset.heard) {
      element.dataset.heard = "yes";
      element.on("plotly_relayout", zoomed);
    }
    element.setAttribute("aria-label", `Mean ${pick.label} over timesteps ${pick.from} to ${Math.min(pick.to, lastStep)}` +
      `${placeOf(pick)}, one line per agent: ${pick.agents.map(k => data.agents[k].name).join(", ")}.`);
  }

  const placeOf = pick => data.conditions[pick.condition] ? ` at ${data.conditions[pick.condition]}` : "";
  const lastStep = Math.max(...data.runs.map(run => run[3]));

  function zoomed(event) {
    const [low, high] = [event["xaxis.range[0]"], event["xaxis.range[1]"]];
    if (event["xaxis.autorange"]) setRange(1, lastStep);
    else if (low !== undefined) setRange(Math.max(1, Math.ceil(low)), Math.min(lastStep, Math.floor(high)));
    else return;
    draw();
  }

  function setRange(from, to) {
    find("from").value = from;
    find("to").value = Math.max(to, from + 1);
  }

  // ---------------------------------------------------------------- pairs
  function drawPairs(pick) {
    const element = find("pairs"), other = Number(find("other").value);
    const [first, last] = pick.window.split("-").map(Number), traces = [];
    const shown = pick.agents.filter(agent => agent !== other);
    for (const agent of shown) {
      const theirs = new Map(runsOf(other, pick.condition).map(run => [data.runs[run][2], run]));
      const both = runsOf(agent, pick.condition).filter(run => theirs.has(data.runs[run][2]));
      const x = both.map(run => windowMean(run, first, last) - windowMean(theirs.get(data.runs[run][2]), first, last));
      const {name} = data.agents[agent], colour = colourOf(agent);
      traces.push({x, y: both.map(() => name), mode: "markers", name, showlegend: false, meta: "pairs",
        marker: {color: faint(colour, 0.5), size: 7}, customdata: both.map(run => data.runs[run][2]),
        hovertemplate: `${name}, seed %{customdata}: %{x:.1f}<extra></extra>`});
      const pair = data.pairs.find(row => row[0] === agent && row[1] === other && row[2] === pick.condition && row[3] === pick.window);
      if (pair && pair[5] !== null) traces.push({x: [pair[5]], y: [name], mode: "markers", showlegend: false, meta: "mean",
        error_x: pair[6] === null ? undefined : {type: "data", symmetric: false, array: [pair[7] - pair[5]], arrayminus: [pair[5] - pair[6]], color: colour, thickness: 2.5, width: 8},
        marker: {symbol: "line-ns-open", size: 18, color: colour, line: {width: 3}},
        hovertemplate: `${name}: ${number(pair[5])} [${number(pair[6])}, ${number(pair[7])}], lower in ${pair[8]} of ${pair[9]} runs<extra></extra>`});
    }
    const names = shown.map(agent => data.agents[agent].name).reverse();
    const [text, steps] = [`loss minus that of ${data.agents[other].name}`, `mean over steps ${first} to ${last}`];
    const title = {text: isNarrow(element) ? `${text},<br>${steps}` : `${text}, ${steps}`, standoff: 8};
    const height = {height: 110 + 34 * Math.max(names.length, 2), hovermode: "closest"};
    const yaxis = {type: "category", categoryorder: "array", categoryarray: names};
    Plotly.react(element, traces, layout(element, {...height, xaxis: {title, zeroline: true}, yaxis}), config);
    element.setAttribute("aria-label", `Paired differences: ${text}, ${steps}${placeOf(pick)}.`);
  }

  // ---------------------------------------------------------------- probability matrix
  function drawMatrix(pick) {
    const rows = data.pairs.filter(row => row[2] === pick.condition && row[3] === pick.window);
    if (!rows.length) { find("matrix").replaceChildren(); return; }
    const probability = new Map(rows.map(row => [`${row[0]},${row[1]}`, row[4]]));
    const cell = (tag, text) => Object.assign(document.createElement(tag), {textContent: text});
    const table = document.createElement("table"), head = table.createTHead().insertRow(), body = table.createTBody();
    const caption = cell("p", `Probability that a run of the row has a lower loss than one of the column, steps ${pick.window}` +
      `${data.conditions[pick.condition] ? ", " + data.conditions[pick.condition] : ""}. Blue: above one half; orange: below.`);
    caption.className = "caption";
    head.append(cell("th", "agent"), ...pick.agents.map(agent => Object.assign(cell("th", data.agents[agent].name), {scope: "col"})));
    for (const agent of pick.agents) {
      const line = body.insertRow();
      line.append(Object.assign(cell("th", data.agents[agent].name), {scope: "row"}));
      for (const other of pick.agents) {
        const p = probability.get(`${agent},${other}`), entry = line.insertCell();
        if (p === undefined || p === null) continue;
        entry.textContent = p.toFixed(2);
        entry.style.background = faint(p > 0.5 ? "#0072B2" : "#E69F00", Math.abs(p - 0.5) * 1.2);
      }
    }
    const scroll = Object.assign(document.createElement("div"), {className: "scroll matrix", tabIndex: 0});
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Probability of a lower loss");
    scroll.append(table);
    find("matrix").replaceChildren(caption, scroll);
  }

  // ---------------------------------------------------------------- one run
  function fillRuns(pick) {
    const select = find("run-seed"), before = select.value, runs = runsOf(Number(find("run-agent").value), pick.condition);
    select.replaceChildren(...runs.map(run => new Option(String(data.runs[run][2]), String(run))));
    const same = runs.find(run => String(data.runs[run][2]) === select.dataset.seed);
    select.value = runs.map(String).includes(before) ? before : String(same ?? runs[0] ?? "");
  }

  function drawRun(pick) {
    fillRuns(pick);
    const element = find("run"), run = Number(find("run-seed").value);
    if (find("run-seed").value === "") { Plotly.purge(element); return; }
    find("run-seed").dataset.seed = String(data.runs[run][2]);
    const shades = ["#0072B2", "#D55E00", "#009E73", "#E69F00", "#CC79A7", "#555555"], dashes = ["solid", "dash", "dot", "dashdot"];
    const below = data.columns.filter(column => column.panel).map(column => column.name), traces = [];
    data.columns.forEach(({name}, k) => {
      const y = values(name, run).map((value, t) => t + 1 >= pick.from && t + 1 <= pick.to ? value : null);
      if (y.every(value => value === null)) return;
      const place = below.includes(name) ? below.indexOf(name) : k;
      const line = name === "loss" ? {color: inkOf(), width: 2} : {color: colourOf(shades[place % 6]), dash: dashes[place % 4]};
      traces.push({x: y.map((_, t) => t + 1), y, name, mode: "lines", line: {width: 1.6, ...line}, yaxis: below.includes(name) ? "y2" : "y",
        hovertemplate: `${name}: %{y:.2f}<extra></extra>`});
    });
    const base = layout(element, {showlegend: true}), step = {text: "timestep", standoff: 8};
    const axes = {xaxis: {...base.xaxis, title: step, range: [pick.from, Math.min(pick.to, lastStep)], anchor: below.length ? "y2" : "y"},
      yaxis: {...base.yaxis, title: {text: "loss"}, domain: below.length ? [0.55, 1] : [0, 1]}};
    if (below.length) axes.yaxis2 = {...base.yaxis, title: {text: data.panels}, domain: [0, 0.47]};
    Plotly.react(element, traces, {...base, ...axes}, config);
    element.setAttribute("aria-label", `Loss and other quantities of ${data.agents[data.runs[run][0]].name}, seed ${data.runs[run][2]}${placeOf(pick)}, over timesteps.`);
  }

  // ---------------------------------------------------------------- tables
  function filterTables(pick) {
    const names = pick.agents.map(agent => data.agents[agent].name);
    for (const row of document.querySelectorAll("tr[data-agent]")) row.hidden = !names.includes(row.dataset.agent);
  }

  function sortKey(text) {
    const value = parseFloat(text.replace("−", "-"));
    return Number.isNaN(value) ? text : value;
  }

  function makeSortable(table) {
    [...table.tHead.rows[0].cells].forEach((head, place) => {
      const button = Object.assign(document.createElement("button"), {type: "button", className: "sort"});
      button.append(...head.childNodes);
      head.append(button);
      button.addEventListener("click", () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const rows = [...table.tBodies[0].rows].map(row => [sortKey(row.cells[place].textContent), row]);
        rows.sort(([a], [b]) => (a === "") - (b === "") ||
          (down ? -1 : 1) * (typeof a === typeof b ? (a < b ? -1 : a > b ? 1 : 0) : typeof a === "number" ? -1 : 1));
        table.tBodies[0].append(...rows.map(([, row]) => row));
      });
    });
  }

  function makeDownload(button) {
    button.addEventListener("click", () => {
      const quoted = text => /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
      const rows = [...find(button.dataset.table).rows].filter(row => !row.hidden);
      const lines = rows.map(row => [...row.cells].map(cell => quoted(cell.textContent.replace(/[\u00a0]/g, " ").replace(/[\u2060]/g, ""))).join(","));
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], {type: "text/csv"}));
      link.download = button.dataset.file;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    });
  }

  // ---------------------------------------------------------------- all together
  function drawKey(key) {
    const agent = Number(key.dataset.agent), {dash} = data.agents[agent];
    const make = (tag, parts) => {
      const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
      Object.entries(parts).forEach(([name, value]) => element.setAttribute(name, value));
      return element;
    };
    const svg = make("svg", {width: 30, height: 8, "aria-hidden": "true"});
    const dashes = dash === "solid" ? "none" : dash.replaceAll("px", "");
    svg.append(make("line", {x1: 0, x2: 30, y1: 4, y2: 4, "stroke-width": 2.5, stroke: colourOf(agent), "stroke-dasharray": dashes}));
    key.replaceChildren(svg);
  }

  function draw() {
    const pick = chosen();
    document.querySelectorAll(".key").forEach(drawKey);
    drawCurves(pick);
    drawMatrix(pick);
    drawPairs(pick);
    drawRun(pick);
    filterTables(pick);
    document.body.dataset.drawn = String(Number(document.body.dataset.drawn || 0) + 1);
  }

  function say() {
    const pick = chosen(), bands = data.bands[pick.column].filter(band => band.condition === pick.condition && pick.agents.includes(band.agent));
    const last = mean => mean.slice(-Math.max(1, Math.round(mean.length / 10)));
    const average = values => values.reduce((sum, value) => sum + value, 0) / values.length;
    const ends = bands.map(band => `${data.agents[band.agent].name} ${number(average(last(band.mean)))}`);
    find("said").textContent = bands.length ? `Mean ${pick.column} over the last tenth of the steps: ${ends.join(", ")}.` : "No agent is chosen.";
  }

  await loadPlotly();
  const options = () => data.agents.map((agent, k) => new Option(agent.name, String(k)));
  find("other").replaceChildren(...options());
  find("run-agent").replaceChildren(...options());
  const noop = data.agents.findIndex(agent => agent.name === "noop");
  find("other").value = String(Math.max(noop, 0));
  find("window").selectedIndex = data.windows.length - 1;
  find("bands").checked = data.agents.length <= 4;
  find("log").checked = Object.values(data.bands.loss).every(band => band.mean.every(value => value > 0));
  const update = () => { draw(); say(); };
  for (const element of document.querySelectorAll(".controls input, .controls select")) element.addEventListener("change", update);
  find("controls").addEventListener("submit", event => event.preventDefault());
  find("window").addEventListener("change", () => { setRange(...find("window").value.split("-").map(Number)); update(); });
  for (const [id, checked] of [["all", true], ["none", false]]) find(id).addEventListener("click", () => {
    for (const box of document.querySelectorAll('input[name="agent"]')) box.checked = checked;
    update();
  });
  document.querySelectorAll("table.sortable").forEach(makeSortable);
  document.querySelectorAll("button[data-table]").forEach(makeDownload);
  dark.addEventListener("change", draw);
  addEventListener("beforeprint", () => { printing = true; draw(); });
  addEventListener("afterprint", () => { printing = false; draw(); });
  update();
})();
