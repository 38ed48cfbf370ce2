// A plane of the playground: a field or the cells of a tree, with points, on a canvas.

const dark = matchMedia("(prefers-color-scheme: dark)");
const BLUE = [0, 114, 178];
const ORANGE = [213, 94, 0];
const UNITS = 1000; // of a side of the plane, in which cells are sent
export const HALF = 2; // the plane is [-2, 2]²

const paper = () => (dark.matches ? [20, 23, 28] : [255, 255, 255]);
const mix = (from, to, part) => from.map((value, k) => Math.round(value + part * (to[k] - value)));
const css = (rgb) => `rgb(${rgb.join(" ")})`;

// The colour of a probability of blue: pale where it is near a half.
function probabilityColour(p) {
  const sure = Math.abs(2 * p - 1);
  return mix(paper(), p > 0.5 ? BLUE : ORANGE, 0.06 + 0.6 * sure);
}

const depthColour = (part) => mix(paper(), dark.matches ? [240, 196, 90] : [90, 40, 120], 0.05 + 0.85 * part);

export function drawPlane(canvas, plane, points) {
  const context = canvas.getContext("2d");
  const size = canvas.width;
  context.clearRect(0, 0, size, size);
  if (plane?.field) drawField(context, size, plane);
  if (plane?.cells) drawCells(context, size, plane.cells);
  drawPoints(context, size, points);
}

function drawField(context, size, { field, most, isDepth }) {
  const side = Math.round(Math.sqrt(field.length));
  const image = new ImageData(side, side);
  field.forEach((value, k) => {
    const colour = isDepth ? depthColour(value / (most || 1)) : probabilityColour(value);
    image.data.set([...colour, 255], 4 * k);
  });
  const small = new OffscreenCanvas(side, side);
  small.getContext("2d").putImageData(image, 0, 0);
  context.imageSmoothingEnabled = true;
  context.drawImage(small, 0, 0, size, size);
}

function drawCells(context, size, cells) {
  const scale = size / UNITS;
  context.strokeStyle = dark.matches ? "rgb(255 255 255 / 0.35)" : "rgb(0 0 0 / 0.35)";
  context.lineWidth = 1;
  for (const [left, top, width, height, p] of cells) {
    context.fillStyle = css(probabilityColour(p));
    context.fillRect(left * scale, top * scale, width * scale, height * scale);
  }
  for (const [left, top, width, height] of cells) {
    context.strokeRect(left * scale, top * scale, width * scale, height * scale);
  }
}

function drawPoints(context, size, points) {
  points.forEach(([x, y, label], k) => {
    const age = (points.length - 1 - k) / 300; // older points are paler
    context.globalAlpha = Math.max(1 - 0.8 * age, 0.2);
    context.beginPath();
    context.arc(((x + HALF) / (2 * HALF)) * size, ((HALF - y) / (2 * HALF)) * size, size / 130, 0, 7);
    context.fillStyle = css(label ? BLUE : ORANGE);
    context.fill();
    context.strokeStyle = css(paper());
    context.lineWidth = size / 500;
    context.stroke();
  });
  context.globalAlpha = 1;
}

// Where a click is in the plane.
export function placeOf(canvas, event) {
  const box = canvas.getBoundingClientRect();
  const x = ((event.clientX - box.left) / box.width) * 2 * HALF - HALF;
  const y = HALF - ((event.clientY - box.top) / box.height) * 2 * HALF;
  return [x, y].map((value) => Math.max(-HALF, Math.min(HALF, Math.round(1000 * value) / 1000)));
}
