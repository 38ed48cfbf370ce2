// A form made from the columns of the model: predicts a row, and shows what the columns contribute.

import { bar, element, find, number, percent, shortNumber, signed, table } from "./elements.js";
import { getJson } from "./events.js";

const MOST_FIELDS = 200;
const MOST_CLASSES = 8;
const MOST_CONTRIBUTIONS = 12;
let columns = [];
let made = "";

export function buildForm(model) {
  const wanted = JSON.stringify(model.columns);
  if (wanted === made) return;
  made = wanted;
  const kept = readFields();
  columns = model.columns.slice(0, MOST_FIELDS);
  find("fields").replaceChildren(...columns.map(buildField));
  for (const [name, value] of Object.entries(kept)) {
    const k = columns.findIndex((column) => column.name === name);
    if (k >= 0) fieldOf(k).value = value;
  }
  find("predict").hidden = false;
}

const fieldOf = (k) => find(`field-${k}`);

function buildField({ name, kind, categories }, k) {
  const id = `field-${k}`;
  if (kind === "bool") {
    const choices = ["", "true", "false"].map((value) => element("option", { value }, value));
    return element("label", {}, name, element("select", { id }, ...choices));
  }
  const types = { number: "number", date: "date", datetime: "datetime-local" };
  const input = element("input", {
    id, type: types[kind] ?? "text", step: types[kind] ? "any" : null, autocomplete: "off",
  });
  if (!categories?.length) return element("label", {}, name, input);
  input.setAttribute("list", `${id}-list`);
  const list = element(
    "datalist", { id: `${id}-list` }, ...categories.map((value) => element("option", { value })),
  );
  return element("label", {}, name, input, list);
}

// The values of the fields by column, as text.
function readFields() {
  return Object.fromEntries(
    columns.map(({ name }, k) => [name, fieldOf(k).value]).filter(([, value]) => value !== ""),
  );
}

function readRow() {
  const row = readFields();
  for (const { name, kind } of columns) {
    if (!(name in row)) continue;
    if (kind === "number") row[name] = Number(row[name]);
    if (kind === "bool") row[name] = row[name] === "true";
  }
  return row;
}

export async function predictRow(model) {
  const body = { row: readRow() };
  const answer = find("answer");
  try {
    const [predicted, explained] = await Promise.all([
      getJson("predict", body), getJson("explain", body),
    ]);
    answer.replaceChildren(
      ...showPrediction(model, predicted), ...showContributions(predicted, explained),
    );
  } catch (error) {
    answer.replaceChildren(element("p", { class: "notice" }, error.message));
  }
}

function showPrediction(model, { predictions: [value], probabilities, intervals }) {
  const shown = typeof value === "number" ? number(value) : String(value);
  const head = element("p", { class: "answer" }, `${model.target}: `, element("strong", {}, shown));
  if (intervals) {
    const [lower, upper] = intervals[0].map((end) => number(end));
    return [head, element("p", { class: "key" }, `90 % interval: ${lower} to ${upper}`)];
  }
  if (!probabilities) return [head];
  const classes = Object.entries(probabilities[0]).sort((a, b) => b[1] - a[1]);
  const rows = classes
    .slice(0, MOST_CLASSES)
    .map(([name, part]) => [name, bar(0, part), percent(part)]);
  return [head, element("div", { class: "bars" }, table("", ["class", "probability", ""], rows, [2]))];
}

function showContributions({ predictions: [value] }, { unit, bases: [base], contributions: [found] }) {
  const isNumber = unit === "number";
  const label = isNumber ? null : String(value) in found ? String(value) : Object.keys(found)[0];
  const values = Object.entries(isNumber ? found : found[label]);
  values.sort((a, b) => Math.abs(b[1]) - Math.abs(a[1]));
  const first = values.slice(0, MOST_CONTRIBUTIONS);
  const most = Math.max(...first.map(([, part]) => Math.abs(part)), 1e-12);
  const start = isNumber ? base : base[label];
  const size = Math.max(most, Math.abs(start));
  const rows = first.map(([name, part]) => [
    name, bar(0.5, 0.5 + part / most / 2, { signed: true, against: part < 0 }), signed(part, size),
  ]);
  const rest = values.slice(MOST_CONTRIBUTIONS).reduce((sum, [, part]) => sum + part, 0);
  if (values.length > first.length) {
    rows.push([`${values.length - first.length} others`, "", signed(rest, size)]);
  }
  const what = isNumber ? "the number" : `the ${unit} of ${label}`;
  return [
    element("h2", {}, "Contributions"),
    element("p", { class: "key" }, `To ${what}, which would be ${shortNumber(start)} without any.`),
    element("div", { class: "bars" }, table("", ["column", "", ""], rows, [2])),
  ];
}
