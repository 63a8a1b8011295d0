"use strict";

// How the leaderboard's picture is painted: on the page in the theme's ink, and into a file in dark ink on white.
const INK = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#8c6bb1", "#7f7f7f"]; // told apart by the colour-blind
const SCALE = ["#2458b8", "#7a4fb0", "#c0478f", "#e0653c", "#e8a21d"]; // of numbers, from the least to the greatest; seen on white and on black
const MISSING = "#8a8a8a"; // of a point without the number
const EDGE = { left: 64, right: 14, top: 34, bottom: 44 };
const PAPER = { ink: "#1c1c1c", soft: "#444444", line: "#dddddd", bad: "#b00020" };

const MOST_NAMES = 24, MOST_BARS = 30; // in the legend, below the picture

const short = (value) => Number(value.toPrecision(4)).toLocaleString("en", { maximumSignificantDigits: 4 });
const titled = (of) => `${of.name}${of.unit ? `, ${of.unit}` : ""}`;

function stroke(pen, places) {
  pen.beginPath();
  for (const [x, y] of places) pen.lineTo(x, y);
  pen.stroke();
}

// Of a rate that was not steady: a ring, in dashes, and so is the front from it to its neighbours.
const DASHES = [3, 2], NOT_STEADY = "hollow, in dashes: of a rate that was not steady";
const NOT_READ = "of so many points it is not read whose rate was not steady, nor their intervals";

function dot(pen, x, y, radius, hollow) {
  pen.beginPath(); pen.arc(x, y, radius, 0, 7);
  if (!hollow) { pen.fill(); return; }
  pen.save(); pen.lineWidth = 2; pen.setLineDash(DASHES); pen.stroke(); pen.restore();
}

function strokeFront(pen, points, place) {
  for (let i = 1; i < points.length; i++) {
    pen.setLineDash(points[i - 1].not_steady || points[i].not_steady ? [5, 4] : []);
    stroke(pen, [place(points[i - 1]), place(points[i])]);
  }
  pen.setLineDash([]);
}

const anyMoved = (see) => see.points.some((point) => point.not_steady && !see.hidden.has(point.colour));

// Both axes are logarithmic where every value is positive: latencies and rates are.
function scale(values, low, high) {
  const least = Math.min(...values), most = Math.max(...values), log = least > 0;
  const [a, b] = log ? [Math.log10(least) - 0.06, Math.log10(most) + 0.06] : [least - 0.05 * (most - least || 1), most + 0.05 * (most - least || 1)];
  const to = (value) => low + ((log ? Math.log10(value) : value) - a) / (b - a) * (high - low);
  const back = (pixel) => { const inner = a + (pixel - low) / (high - low) * (b - a); return log ? 10 ** inner : inner; };
  const ticks = [];
  if (log) for (let e = Math.floor(a); e <= b; e++) { for (const m of b - a > 2.5 ? [1] : b - a > 1 ? [1, 2, 5] : [1, 1.5, 2, 3, 4, 5, 7]) if (m * 10 ** e >= 10 ** a && m * 10 ** e <= 10 ** b) ticks.push(m * 10 ** e); }
  else { const step = 10 ** Math.floor(Math.log10(b - a)) / 2; for (let v = Math.ceil(a / step) * step; v <= b; v += step) ticks.push(v); }
  return { to, back, ticks };
}

// A colour between two of the scale's, for a share from 0 to 1.
function between(share) {
  const at = Math.min(1, Math.max(0, share)) * (SCALE.length - 1), i = Math.min(Math.floor(at), SCALE.length - 2);
  const part = (text, channel) => parseInt(text.slice(1 + 2 * channel, 3 + 2 * channel), 16);
  return `rgb(${[0, 1, 2].map((channel) => Math.round(part(SCALE[i], channel) + (at - i) * (part(SCALE[i + 1], channel) - part(SCALE[i], channel)))).join(", ")})`;
}

// Numbers have colours by equal factors where all are above 0 and far apart, else by equal steps.
function numberInk(values) {
  const least = Math.min(...values), most = Math.max(...values), log = least > 0 && most / least >= 20;
  const share = (value) => most === least ? 0.5 : log ? Math.log(value / least) / Math.log(most / least) : (value - least) / (most - least);
  return { least, most, middle: log ? Math.sqrt(least * most) : (least + most) / 2, ink: (value) => between(share(value)) };
}

const spread = (values, bound) => bound === null || (bound <= 0 && Math.min(...values) > 0) ? values : [...values, bound];

function withEnds(points, axis) {
  const negative = points.some((point) => point[axis] <= 0);
  return points.flatMap((point) => [point[axis], ...(point[`${axis}_interval`] || [])]).filter((value) => value > 0 || negative);
}

// The plot itself; gives the scales of both axes. ``over``: the point that is pointed at.
function paint(pen, see, width, height, inks, { over = null, kept }) {
  const sx = scale(spread(withEnds(see.points, "x"), see.bound), EDGE.left, width - EDGE.right), sy = scale(withEnds(see.points, "y"), height - EDGE.bottom, EDGE.top);
  pen.font = "12px system-ui, sans-serif"; pen.strokeStyle = inks.line; pen.fillStyle = inks.soft; pen.lineWidth = 1;
  pen.textAlign = "center"; pen.textBaseline = "top";
  let last = -99;
  for (const tick of sx.ticks) { const px = sx.to(tick); stroke(pen, [[px, EDGE.top], [px, height - EDGE.bottom]]); if (px - last > 44) { pen.fillText(short(tick), px, height - EDGE.bottom + 5); last = px; } }
  pen.fillText(titled(see.x), (EDGE.left + width - EDGE.right) / 2, height - 17);
  pen.textAlign = "right"; pen.textBaseline = "middle";
  last = height + 99;
  for (const tick of sy.ticks) { const py = sy.to(tick); stroke(pen, [[EDGE.left, py], [width - EDGE.right, py]]); if (last - py > 18) { pen.fillText(short(tick), EDGE.left - 6, py); last = py; } }
  pen.save(); pen.translate(10, (EDGE.top + height - EDGE.bottom) / 2); pen.rotate(-Math.PI / 2); pen.textAlign = "center"; pen.fillText(titled(see.y), 0, 0); pen.restore();
  pen.lineWidth = 1.5; pen.strokeStyle = inks.ink;
  for (const group of see.groups) strokeFront(pen, see.points.filter((point) => point.front && point.group === group && !see.hidden.has(point.colour)).sort((a, b) => a.x - b.x), (point) => [sx.to(point.x), sy.to(point.y)]);
  for (const point of see.points) {
    if (see.hidden.has(point.colour)) continue;
    const px = sx.to(point.x), py = sy.to(point.y);
    pen.globalAlpha = kept(point) ? 1 : 0.2; pen.fillStyle = pen.strokeStyle = point.ink; pen.lineWidth = 1;
    if (point.x_interval) stroke(pen, point.x_interval.map((end) => [sx.to(end), py]));
    if (point.y_interval) stroke(pen, point.y_interval.map((end) => [px, sy.to(end)]));
    dot(pen, px, py, point === over ? 7 : point.front ? 5 : 3.5, point.not_steady);
    if (point === over) { pen.strokeStyle = inks.ink; pen.lineWidth = 2; pen.stroke(); }
  }
  pen.globalAlpha = 1;
  if (see.bound !== null) {
    const px = sx.to(see.bound);
    pen.strokeStyle = pen.fillStyle = inks.bad; pen.lineWidth = 2;
    stroke(pen, [[px, EDGE.top], [px, height - EDGE.bottom]]);
    pen.textBaseline = "top"; pen.textAlign = px > width - 150 ? "right" : "left";
    pen.fillText(` ${boundWords(see)} `, px, EDGE.top);
  }
  return { sx, sy };
}

const boundWords = (see) => `${see.x.name} ${see.x.higher ? "≥" : "≤"} ${short(see.bound)}`;

// Names with dots, or the scale of a number, from the place on; gives the height that it took.
function paintLegend(pen, see, left, top, width) {
  pen.font = "12px system-ui, sans-serif"; pen.textAlign = "left"; pen.textBaseline = "middle"; pen.fillStyle = PAPER.ink;
  pen.fillText(`Colour: ${titled(see.colour)}`, left, top + 8);
  if (see.numbers) {
    const ramp = pen.createLinearGradient(left, 0, left + 240, 0);
    SCALE.forEach((ink, i) => ramp.addColorStop(i / (SCALE.length - 1), ink));
    pen.fillStyle = ramp; pen.fillRect(left, top + 22, 240, 12);
    pen.fillStyle = PAPER.ink;
    [[see.numbers.least, 0, "left"], [see.numbers.middle, 120, "center"], [see.numbers.most, 240, "right"]].forEach(([value, at, align]) => { pen.textAlign = align; pen.fillText(short(value), left + at, top + 45); });
    return 58 + paintMoved(pen, see, left, top + 63);
  }
  let x = left, y = top + 28;
  const drawn = [...new Map(see.points.filter((point) => !see.hidden.has(point.colour)).map((point) => [point.colour, point.ink]))].sort(([a], [b]) => a < b ? -1 : 1);
  const named = drawn.slice(0, MOST_NAMES);
  if (drawn.length > MOST_NAMES) named.push([`and ${drawn.length - MOST_NAMES} more`, "#ffffff"]); // no dot on white
  for (const [name, ink] of named) {
    const wide = 24 + pen.measureText(name).width;
    if (x > left && x + wide > left + width) { x = left; y += 18; }
    pen.fillStyle = ink; pen.beginPath(); pen.arc(x + 5, y, 5, 0, 7); pen.fill();
    pen.fillStyle = PAPER.ink; pen.fillText(name, x + 14, y);
    x += wide;
  }
  return y - top + 14 + paintMoved(pen, see, left, y + 18);
}

function paintMoved(pen, see, left, y) {
  if (see.looked_into && !anyMoved(see)) return 0;
  pen.textAlign = "left"; pen.fillStyle = pen.strokeStyle = PAPER.ink;
  if (!see.looked_into) { pen.fillText(NOT_READ, left, y); return 18; }
  dot(pen, left + 5, y, 5, true); pen.fillText(NOT_STEADY, left + 14, y);
  return 18;
}

// The picture for a document: white, with a title and the legend, twice as fine as the screen's pixels.
function boardFile(see, question, kept) {
  const width = 1100, plot = 560, top = 46, made = document.createElement("canvas"), pen = made.getContext("2d");
  const legend = paintLegend(pen, see, EDGE.left, 0, width - EDGE.left - EDGE.right); // how high it will be
  made.width = 2 * width; made.height = 2 * (top + plot + legend + 12);
  pen.setTransform(2, 0, 0, 2, 0, 0);
  pen.fillStyle = "#ffffff"; pen.fillRect(0, 0, width, made.height / 2);
  pen.fillStyle = PAPER.ink; pen.textBaseline = "top"; pen.textAlign = "left"; pen.font = "600 17px system-ui, sans-serif";
  pen.fillText(`${see.y.name} against ${see.x.name}`, EDGE.left, 10);
  pen.font = "12px system-ui, sans-serif"; pen.fillStyle = PAPER.soft;
  pen.fillText([`${see.points.filter(kept).length} of ${see.points.length} configurations`, see.bound === null ? "" : boundWords(see), question].filter(Boolean).join("; ").slice(0, 160), EDGE.left, 33);
  pen.save(); pen.translate(0, top); paint(pen, see, width, plot, PAPER, { kept }); pen.restore();
  paintLegend(pen, see, EDGE.left, top + plot, width - EDGE.left - EDGE.right);
  return made;
}
