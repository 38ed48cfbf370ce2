// The playground: two forests that learn the same points.

import { drawAreas, drawLines } from "./charts.js";
import { count, element, find, percent, shortNumber } from "./elements.js";
import { getJson } from "./events.js";
import { drawPlane, placeOf } from "./plane.js";

const PAUSE = 150; // milliseconds between two steps
const STEP = 10; // points of a step
const LINES = ["#009e73", "#8f7fd8"]; // not those of the classes
const AXIS = { title: { text: "points learned", standoff: 8, font: { size: 12 } } };
const WORDS = {
  prediction: "The probability of blue: strong colours are sure, pale ones are near a half.",
  partition:
    "The cells of one tree, in the colours of what it predicts there. A tree of the paper splits at " +
    "random; one of the adaptive forest is regrown from the points that its memory holds.",
  depth:
    "How deep predictions come from: the mean depth over all prunings of the trees, by their " +
    "weights. Strong colours are deep; the numbers below the planes are the deepest.",
};
let session = null;
let view = "prediction";
let label = 1;
let isPlaying = false;
let shown = null;
let work = Promise.resolve(); // requests are sent one after the other

const showOptions = () => ({
  view, memory: Number(find("memory").value || 0), tree: Number(find("tree").value),
});

function ask(path, body) {
  work = work.then(async () => {
    try {
      const known = session && path !== "start" ? { session } : {};
      const answer = await getJson(path, { ...known, ...body, ...showOptions() });
      session = answer.session ?? session;
      shown = answer;
      draw();
    } catch (error) {
      stop();
      showState("lost", error.message);
    }
  });
  return work;
}

const start = () =>
  ask("start", { toy: find("toy").value, seed: Math.floor(Math.random() * 1e6) });
const learn = (rows) =>
  ask("learn", {
    rows, rotation: Number(find("rotation").value), swapped: find("swap").ariaPressed === "true",
  });

async function play() {
  isPlaying = true;
  find("play").textContent = "Pause";
  while (isPlaying) {
    const begin = performance.now();
    await learn(STEP);
    if (shown?.is_full) stop();
    await new Promise((resolve) => setTimeout(resolve, Math.max(PAUSE - performance.now() + begin, 20)));
  }
}

function stop() {
  isPlaying = false;
  find("play").textContent = "Play";
}

function showState(name, text) {
  find("state").className = `state ${name}`;
  find("state").textContent = text;
}

function draw() {
  const full = shown.is_full ? "; that is all: start again" : "";
  showState("live", `${count(shown.rows)} points learned${full}`);
  find("state").dataset.rows = shown.rows;
  const isClicks = shown.toy === "empty";
  for (const id of ["play", "step", "leap"]) find(id).disabled = shown.is_full || isClicks;
  for (const id of ["rotation", "swap"]) find(id).disabled = isClicks;
  find("tree-controls").hidden = shown.view === "prediction";
  find("explanation").textContent = WORDS[shown.view];
  for (const name of ["paper", "adaptive"]) drawForest(name);
  if (shown.memories) {
    drawCharts();
    fillMemories();
  } else {
    for (const id of ["losses", "memories"]) Plotly.purge(find(id));
  }
}

function drawForest(name) {
  const plane = shown.planes[name];
  if (plane) plane.isDepth = shown.view === "depth";
  drawPlane(find(name), plane, shown.points);
  const texts = [];
  if (shown.losses) texts.push(`${percent(shown.losses[name].accuracy)} of the last 200 points right`);
  if (plane?.isDepth) texts.push(`deepest ${shortNumber(plane.most)}`);
  if (plane?.cells) texts.push(`${count(plane.cells.length)} cells`);
  find(`${name}-score`).textContent = texts.join(" · ");
}

function drawCharts() {
  const { paper, adaptive } = shown.losses;
  drawLines(
    find("losses"), paper.rows, [["adaptive", adaptive.log_loss], ["paper", paper.log_loss]],
    { fromZero: true, xaxis: AXIS, colours: LINES },
  );
  const { rows, names, weights } = shown.memories;
  drawAreas(find("memories"), rows, names, weights, { xaxis: AXIS });
  find("memories").dataset.weights = JSON.stringify(shown.memories.weights.at(-1));
}

function fillMemories() {
  const { names } = shown.memories;
  const list = find("memory");
  if (list.options.length === names.length) return;
  list.replaceChildren(...names.map((name, k) => element("option", { value: k }, name)));
  list.value = Math.min(2, names.length - 1);
}

function press(selector, pressed) {
  for (const button of document.querySelectorAll(selector)) {
    button.setAttribute("aria-pressed", String(button === pressed));
  }
}

find("toy").addEventListener("change", start);
find("again").addEventListener("click", start);
find("play").addEventListener("click", () => (isPlaying ? stop() : play()));
find("step").addEventListener("click", () => learn(10));
find("leap").addEventListener("click", () => learn(200));
find("rotation").addEventListener("input", () => {
  find("degrees").textContent = `${find("rotation").value}°`;
});
find("swap").addEventListener("click", ({ currentTarget }) => {
  currentTarget.setAttribute("aria-pressed", String(currentTarget.ariaPressed !== "true"));
});
for (const button of document.querySelectorAll("[data-label]")) {
  button.addEventListener("click", () => {
    label = Number(button.dataset.label);
    press("[data-label]", button);
  });
}
for (const button of document.querySelectorAll("[data-view]")) {
  button.addEventListener("click", () => {
    view = button.dataset.view;
    press("[data-view]", button);
    ask("show", {});
  });
}
for (const id of ["memory", "tree"]) find(id).addEventListener("change", () => ask("show", {}));
for (const name of ["paper", "adaptive"]) {
  find(name).addEventListener("click", (event) => {
    const [x, y] = placeOf(event.currentTarget, event);
    ask("click", { x, y, label, count: Number(find("count").value) });
  });
}
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown && draw());
await start();
learn(200);
