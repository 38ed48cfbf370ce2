// Elements of the page. Text is always a text node: nothing from the server is read as HTML.

export const find = (id) => document.getElementById(id);

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === true) made.setAttribute(name, "");
    else if (value !== false && value != null) made.setAttribute(name, value);
  }
  made.append(...children.map((child) => (child instanceof Node ? child : String(child))));
  return made;
}

export function table(className, names, rows, numeric = []) {
  const kind = (k) => (numeric.includes(k) ? { class: "number" } : {});
  return element(
    "table",
    { class: className },
    element("thead", {}, element("tr", {}, ...names.map((name, k) => element("th", kind(k), name)))),
    element(
      "tbody",
      {},
      ...rows.map((row) => element("tr", {}, ...row.map((cell, k) => element("td", kind(k), cell)))),
    ),
  );
}

// A bar between two numbers of 0 to 1.
export function bar(from, to, { signed = false, against = false } = {}) {
  const fill = element("i", { class: against ? "against" : null });
  fill.style.setProperty("--from", Math.min(from, to));
  fill.style.setProperty("--size", Math.abs(to - from));
  return element("div", { class: signed ? "bar signed" : "bar" }, fill);
}

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });
const digits = new Intl.NumberFormat("en", { maximumSignificantDigits: 4 });
const threeDigits = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

export const count = (value) => (value < 1e6 ? whole : short).format(Math.round(value));
export const number = (value, format = digits) => {
  if (value == null) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-4 || size >= 1e9)) return value.toExponential(2);
  return format.format(value);
};
export const shortNumber = (value) => number(value, threeDigits);
// With as many decimals as a number of this size needs for three digits.
export const signed = (value, size) => {
  const decimals = Math.min(Math.max(2 - Math.floor(Math.log10(size)), 0), 9);
  const text = Math.abs(value).toFixed(decimals);
  if (Number(text) === 0) return text;
  return (value < 0 ? "−" : "+") + text;
};
export const percent = (value) => (value == null ? "–" : `${(100 * value).toFixed(1)} %`);
export const bytes = (value) =>
  value < 1e6 ? `${Math.round(value / 1e3)} kB` : `${(value / 1e6).toFixed(value < 1e7 ? 1 : 0)} MB`;
