// Charts in the colours of the page, drawn by plotly.

const COLOURS = [
  "#0072b2", "#56b4e9", "#009e73", "#e69f00", "#d55e00", "#cc79a7", "#8a94a0", "#44aa99",
  "#aa4499", "#b8a04c",
];
const MOST_AREAS = 9;
const dark = matchMedia("(prefers-color-scheme: dark)");
const drawn = new Map(); // what was drawn last, by place

dark.addEventListener("change", () => {
  for (const [place, [traces, options]] of drawn) draw(place, traces, options);
});
const sizes = new ResizeObserver((entries) => {
  for (const entry of entries) if (entry.target.data) Plotly.Plots.resize(entry.target);
});

const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export function draw(place, traces, options = {}) {
  if (!drawn.has(place)) sizes.observe(place);
  drawn.set(place, [traces, options]);
  const ink = colour("--soft");
  const line = colour("--line");
  const isNarrow = place.clientWidth < 420;
  const axis = {
    gridcolor: line, linecolor: line, zeroline: false, tickfont: { size: 12 }, automargin: true,
    fixedrange: true,
  };
  const layout = {
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { family: "system-ui, sans-serif", size: 12, color: ink },
    margin: { l: 8, r: 12, t: 8, b: 8 },
    showlegend: traces.length > 1,
    legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom", font: { size: 12 } },
    hovermode: options.hovermode ?? "x unified",
    hoverlabel: { bgcolor: colour("--tint"), bordercolor: line, font: { color: colour("--ink") } },
    barmode: "overlay",
    xaxis: { ...axis, showgrid: false, tickangle: 0, nticks: isNarrow ? 5 : 8, ...options.xaxis },
    yaxis: { ...axis, rangemode: options.fromZero ? "tozero" : "normal", ...options.yaxis },
    ...options.layout,
  };
  const settings = { displayModeBar: false, responsive: false, doubleClick: false };
  Plotly.react(place, traces, layout, settings);
}

// Lines over time: `lines` are [name, values].
export function drawLines(place, times, lines, options = {}) {
  const colours = options.colours ?? [colour("--blue"), colour("--red")];
  const traces = lines.map(([name, values], k) => ({
    type: "scatter", mode: "lines", name, x: times, y: values,
    line: { color: colours[k], width: k ? 1.5 : 2 },
    connectgaps: false,
  }));
  draw(place, traces, options);
}

// The names that are largest somewhere, with their values, and the others together.
function mostOf(names, parts) {
  const columns = names.map((name, k) => [name, parts.map((row) => row[k])]);
  if (columns.length <= MOST_AREAS) return columns;
  const sizes = columns.map(([, values]) => Math.max(0, ...values));
  const least = sizes.toSorted((a, b) => b - a)[MOST_AREAS - 2];
  const isKept = sizes.map((size) => size >= least);
  const kept = columns.filter((_, k) => isKept[k]).slice(0, MOST_AREAS - 1);
  const rest = parts.map((_, i) => 1 - kept.reduce((sum, [, values]) => sum + values[i], 0));
  return [...kept, [`${columns.length - kept.length} others`, rest.map((part) => Math.max(part, 0))]];
}

// Many names stand beside a chart, or above it if there is no room.
const legendPlace = (place) =>
  place.clientWidth < 420
    ? { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" }
    : { orientation: "v", x: 1.01, y: 1 };

// Stacked areas: each moment adds up to 1; weights below 0 count as 0.
export function drawAreas(place, times, names, weights, options = {}) {
  const parts = weights.map((row) => {
    const positive = row.map((weight) => Math.max(weight, 0));
    const sum = positive.reduce((a, b) => a + b, 0) || 1;
    return positive.map((weight) => weight / sum);
  });
  const traces = mostOf(names, parts).map(([name, values], k) => ({
    type: "scatter", mode: "lines", name, x: times, y: values, stackgroup: "memories",
    line: { width: 0.5, color: COLOURS[k] }, fillcolor: COLOURS[k] + "cc", hovertemplate: "%{y:.0%}",
  }));
  draw(place, traces, {
    xaxis: { nticks: 5, ...options.xaxis }, // names take some of the width
    yaxis: { range: [0, 1], tickformat: ".0%" },
    layout: { legend: { traceorder: "normal", font: { size: 11 }, ...legendPlace(place) } },
  });
}

export function drawBars(place, names, values, texts) {
  const short = (name) => (name.length > 24 ? `${name.slice(0, 23)}…` : name);
  const trace = {
    type: "bar", orientation: "h", x: values, y: names.map((_, k) => k),
    marker: { color: colour("--blue") }, text: texts, textposition: "none",
    customdata: names, hovertemplate: "%{text}<extra></extra>",
  };
  draw(place, [trace], {
    hovermode: "closest",
    xaxis: { tickformat: ".0%", rangemode: "tozero", showgrid: true },
    yaxis: {
      autorange: "reversed", showgrid: false, tickmode: "array",
      tickvals: names.map((_, k) => k), ticktext: names.map(short).map(plain),
    },
    layout: { bargap: 0.35 },
  });
}

// Plotly reads some HTML in text: what comes from elsewhere is shown as it is.
export const plain = (text) =>
  String(text).replace(/[&<>]/g, (sign) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;" })[sign]);
