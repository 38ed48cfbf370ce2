// The page of a server: follows its events, and draws them.

import { drawAreas, drawBars, drawLines } from "./charts.js";
import { bytes, count, element, find, number, percent, shortNumber, table } from "./elements.js";
import { follow, getJson, hasToken, setToken } from "./events.js";
import { buildForm, predictRow } from "./form.js";

const past = { all: [], recent: [], spacing: 1, most: 600, n_recent: 300 };
let range = "all";
let model = null; // as the events describe it
let described = null; // as /model describes it
let features = null;

const handlers = {
  history(value) {
    Object.assign(past, value);
  },
  point(point) {
    addPoint(point);
    showPoint(point);
    drawAll();
  },
  model(value) {
    model = value;
    readModel();
    drawAll();
  },
  refused: showRefused,
  importances(value) {
    features = value;
    drawImportances();
  },
};

// As the server thins its points. The last point is shown whether it will be kept or not.
function addPoint(point) {
  const { recent, all } = past;
  if (recent.length && recent.at(-1).tick >= point.tick) return;
  recent.push(point);
  if (recent.length > past.n_recent) recent.shift();
  if (point.tick % past.spacing) return;
  all.push(point);
  if (all.length < past.most) return;
  past.spacing *= 2;
  past.all = all.filter(({ tick }) => tick % past.spacing === 0);
}

function shownPoints() {
  const points = range === "all" ? [...past.all] : past.recent;
  const last = past.recent.at(-1);
  if (last && points.at(-1) !== last && points.at(-1)?.tick !== last.tick) points.push(last);
  return points;
}

async function readModel() {
  try {
    described = await getJson("model");
  } catch {
    return; // the stream reports what is wrong
  }
  find("version").textContent = described.version;
  if (described.model) buildForm(described);
}

// Rows per second between points.
function rates(points, name) {
  return points.map((point, k) => {
    if (k === 0) return null;
    const before = points[k - 1];
    return Math.max(point[name] - before[name], 0) / Math.max(point.time - before.time, 1e-3);
  });
}

function showPoint(point) {
  const has = point.samples !== undefined;
  find("empty").hidden = has;
  const isClass = model?.task === "classification";
  const last = past.recent.slice(-6);
  const perSecond = (name) => {
    if (last.length < 2) return 0;
    return (point[name] - last[0][name]) / Math.max(point.time - last[0].time, 1e-3);
  };
  const tiles = [
    ["Rows learned", "samples", has ? count(point.samples) : "0"],
    ["Learned per second", "learning", count(perSecond("learned"))],
    ["Predicted per second", "predicting", count(perSecond("predicted"))],
    ["Rows waiting", "waiting", count(point.waiting)],
  ];
  if (has) {
    const { recent } = point;
    if (isClass) {
      tiles.push(["Log-loss", "loss", shortNumber(recent.log_loss)]);
      tiles.push(["Accuracy", "accuracy", percent(recent.accuracy)]);
    } else {
      tiles.push(["RMSE", "loss", shortNumber(recent.rmse)]);
      if ("coverage" in recent) tiles.push(["Coverage", "accuracy", percent(recent.coverage)]);
      else tiles.push(["MAE", "accuracy", shortNumber(recent.mae)]);
    }
    tiles.push(["Drift alarms", "drifts", count(point.drifts)]);
    tiles.push(["Memory", "bytes", bytes(point.bytes)]);
  }
  find("tiles").replaceChildren(
    ...tiles.map(([name, id, value]) =>
      element("div", {}, element("dt", {}, name), element("dd", { id: `tile-${id}` }, value)),
    ),
  );
}

let isDue = false;

function drawAll() {
  if (isDue) return;
  isDue = true; // once for the events that come together, and not while nobody looks
  requestAnimationFrame(() => {
    isDue = false;
    drawCharts();
  });
}

// Ticks of a narrow range would be the same percentage without decimals.
function partFormat(lines) {
  const values = lines.flatMap(([, column]) => column).filter((value) => value != null);
  return Math.max(...values) - Math.min(...values) < 0.06 ? ".1%" : ".0%";
}

function drawCharts() {
  const points = shownPoints();
  const times = points.map((point) => new Date(1000 * point.time));
  drawLines(
    find("throughput-chart"), times,
    [["learned", rates(points, "learned")], ["predicted", rates(points, "predicted")]],
    { fromZero: true },
  );
  if (!model || !points.some((point) => point.recent)) return;
  for (const id of ["first", "second"]) find(id).hidden = false;
  const isClass = model.task === "classification";
  const hasCoverage = points.some((point) => point.recent?.coverage !== undefined);
  document.title = find("title").textContent = `Predicting ${model.target}`;
  find("subtitle").textContent = `${model.model}: a forest that learns while it predicts.`;
  const names = isClass
    ? ["log_loss", "accuracy", "Log-loss", "Accuracy"]
    : ["rmse", hasCoverage ? "coverage" : "mae", "RMSE", hasCoverage ? "Coverage of 90 % intervals" : "MAE"];
  const lines = (name) => [
    [`last ${count(model.window)} rows`, points.map((point) => point.recent?.[name])],
    ["since the start", points.map((point) => point.total?.[name])],
  ];
  find("first-title").textContent = names[2];
  find("second-title").textContent = names[3];
  find("first-key").textContent = "Of rows that were predicted before they were learned.";
  find("second-key").textContent = "Of the same rows.";
  const options = isClass || hasCoverage ? { yaxis: { tickformat: partFormat(lines(names[1])) } } : {};
  drawLines(find("first-chart"), times, lines(names[0]));
  drawLines(find("second-chart"), times, lines(names[1]), options);
  find("memories").hidden = !model.memories.length;
  if (model.memories.length) {
    const known = points.filter((point) => point.weights?.length === model.memories.length);
    drawAreas(
      find("memories-chart"), known.map((point) => new Date(1000 * point.time)), model.memories,
      known.map((point) => point.weights),
    );
  }
}

function drawImportances() {
  find("importances").hidden = false;
  const unit = features.unit === "nats" ? "nats of log-loss" : "of the squared error";
  const shown = features.features;
  const more = features.n_features > shown.length ? ` The first ${shown.length} of ${count(features.n_features)}.` : "";
  find("importances-key").textContent = `The part of each feature in the loss that splits save.${more}`;
  drawBars(
    find("importances-chart"), shown.map(({ name }) => name), shown.map(({ part }) => part),
    shown.map(({ part, saved }) => `${percent(part)}: ${number(saved)} ${unit} per row`),
  );
}

function showRefused(requests) {
  if (!requests.length) {
    find("refused").replaceChildren(element("p", {}, "None."));
    return;
  }
  const rows = requests.map(({ time, path, status, field, detail }) => [
    new Date(1000 * time).toLocaleTimeString(), path, status, field ?? "–", detail,
  ]);
  const names = ["time", "path", "status", "field", "what was wrong"];
  find("refused").replaceChildren(table("refused", names, rows));
}

function showState(name, text) {
  find("state").className = `state ${name}`;
  find("state").textContent = text;
}

async function open() {
  find("access").hidden = true;
  find("main").hidden = false;
  try {
    await follow("events", (name, value) => handlers[name]?.(value), showState);
  } catch (error) {
    askForToken(error.message);
  }
}

function askForToken(reason) {
  find("main").hidden = true;
  find("access").hidden = false;
  showState("", "a token is needed");
  find("token-error").textContent = reason;
  find("token").focus();
}

// A refused request would be an error in the browser's console.
async function start() {
  const { needs_token: needsToken } = await getJson("page/access");
  if (needsToken && !hasToken()) askForToken("");
  else open();
}

find("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  setToken(find("token").value.trim());
  open();
});
find("row-form").addEventListener("submit", (event) => {
  event.preventDefault();
  predictRow(described);
});
for (const button of document.querySelectorAll("[data-range]")) {
  button.addEventListener("click", () => {
    range = button.dataset.range;
    for (const other of document.querySelectorAll("[data-range]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    drawAll();
  });
}
window.addEventListener("focus", () => described && readModel());
start();
