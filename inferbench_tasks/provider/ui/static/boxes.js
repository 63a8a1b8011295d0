"use strict";

// Boxes in rows over a length, on a canvas: timelines and flame graphs of many thousand. Zoomed by buttons, keys, pinching
// and Ctrl with the wheel, moved by dragging; one box is chosen, by a click or by the arrows.
const BOX = { height: 20, head: 17, axis: 22, most: 1400 };
const FILLS = [["#0072b2", "#fff"], ["#e69f00", "#000"], ["#009e73", "#000"], ["#cc79a7", "#000"], ["#56b4e9", "#000"], ["#d55e00", "#000"], ["#8c6bb1", "#fff"], ["#c9b400", "#000"], ["#8f8f8f", "#000"]]; // told apart by the colour-blind; the last for all others

class Boxes {
  // told: where the box below the pointer is said; choose(index), moved(view): what follows from it; unit(value, step): an axis' text.
  constructor(canvas, { told, choose, moved = () => {}, unit }) {
    Object.assign(this, { canvas, told, choose, moved, unit, data: null, view: [0, 1], chosen: -1, over: -1, marked: null, touches: new Map() });
    canvas.addEventListener("keydown", (event) => this.pressed(event));
    canvas.addEventListener("wheel", (event) => { if (event.ctrlKey && this.data) { event.preventDefault(); this.zoom(Math.exp(event.deltaY / 300), this.value(event.offsetX)); } }, { passive: false });
    canvas.addEventListener("dblclick", (event) => { const index = this.hit(event.offsetX, event.offsetY); if (index >= 0) this.fit(index); });
    canvas.addEventListener("pointerdown", (event) => { this.touches.set(event.pointerId, event.offsetX); this.dragged = 0; canvas.setPointerCapture(event.pointerId); });
    canvas.addEventListener("pointermove", (event) => this.pointed(event));
    canvas.addEventListener("pointerup", (event) => { this.touches.delete(event.pointerId); if (this.dragged < 5) this.pick(this.hit(event.offsetX, event.offsetY)); });
    canvas.addEventListener("pointercancel", (event) => this.touches.delete(event.pointerId));
    canvas.addEventListener("pointerleave", () => { this.over = -1; this.told.textContent = "\u00a0"; this.draw(); });
    new ResizeObserver(() => this.draw()).observe(canvas.parentElement);
  }

  // from, to, row (-1: not shown), parent, fill: of each box; heads: of each row its title, where one begins a group, else ""; origin: what the axis counts from.
  set(data) {
    const lines = data.heads.map(() => []);
    for (let index = 0; index < data.row.length; index++) if (data.row[index] >= 0) lines[data.row[index]].push(index);
    for (const line of lines) line.sort((a, b) => data.from[a] - data.from[b] || data.to[b] - data.to[a]);
    let top = data.flat ? 0 : BOX.axis;
    const tops = data.heads.map((head) => { if (head) top += BOX.head; const own = top; top += BOX.height; return own; });
    Object.assign(this, { data, lines, tops, tall: top + 2 });
    this.canvas.style.height = `${this.tall}px`;
    this.draw();
  }

  get whole() { return this.data.whole; }
  value(pixel) { return this.view[0] + pixel / this.canvas.clientWidth * (this.view[1] - this.view[0]); }
  pixel(value) { return (value - this.view[0]) / (this.view[1] - this.view[0]) * this.canvas.clientWidth; }

  look(from, to, quiet = false) {
    const [least, most] = this.whole, width = Math.min(Math.max(to - from, (most - least) / 1e9, 1e-9), most - least || 1);
    const start = Math.min(Math.max((from + to - width) / 2, least), Math.max(least, most - width));
    this.view = [start, start + width];
    this.draw();
    if (!quiet) this.moved(this.view);
  }

  zoom(factor, around = (this.view[0] + this.view[1]) / 2) { this.look(around - (around - this.view[0]) * factor, around + (this.view[1] - around) * factor); }
  pan(share) { const by = share * (this.view[1] - this.view[0]); this.look(this.view[0] + by, this.view[1] + by); }
  fit(index) { const { from, to } = this.data, edge = (to[index] - from[index] || 1) * 0.02; this.look(from[index] - edge, to[index] + edge); }

  pick(index) {
    this.chosen = index;
    if (index >= 0) {
      const { from, to } = this.data, [a, b] = this.view;
      if (from[index] >= b || to[index] <= a) { const half = (b - a) / 2, middle = (from[index] + to[index]) / 2; this.look(middle - half, middle + half); }
      const box = this.canvas.parentElement, top = this.tops[this.data.row[index]];
      if (box.scrollHeight > box.clientHeight) box.scrollTop = Math.min(Math.max(box.scrollTop, top + 2 * BOX.height - box.clientHeight), top - BOX.axis);
    }
    this.draw();
    this.choose(index);
  }

  hit(x, y) {
    if (!this.data) return -1;
    const row = this.tops.findIndex((top) => y >= top && y < top + BOX.height);
    if (row < 0) return -1;
    const { from, to } = this.data, line = this.lines[row], value = this.value(x), near = this.value(x + 2) - value;
    let least = Infinity, found = -1;
    for (let at = Math.max(0, after(line, from, value) - 3); at < line.length && from[line[at]] <= value + near; at++) {
      const gap = Math.max(from[line[at]] - value, value - to[line[at]], 0);
      if (gap <= Math.min(near, least)) { least = gap; found = line[at]; }
    }
    return found;
  }

  pointed(event) {
    if (!this.data) return;
    const before = this.touches.get(event.pointerId), [other] = [...this.touches].filter(([id]) => id !== event.pointerId);
    if (before !== undefined) {
      this.touches.set(event.pointerId, event.offsetX);
      this.dragged += Math.abs(event.offsetX - before);
      if (other) this.zoom(Math.max(0.2, Math.abs(before - other[1]) / Math.max(1, Math.abs(event.offsetX - other[1]))), this.value(other[1]));
      else if (this.dragged >= 5) { const by = this.value(before) - this.value(event.offsetX); this.look(this.view[0] + by, this.view[1] + by); }
      return;
    }
    const index = this.hit(event.offsetX, event.offsetY);
    this.canvas.style.cursor = index >= 0 ? "pointer" : "grab";
    if (index === this.over) return;
    this.over = index;
    this.told.textContent = index >= 0 ? this.data.told(index) : "\u00a0";
    this.draw();
  }

  pressed(event) {
    if (!this.data || event.ctrlKey || event.metaKey || event.altKey) return;
    const { from, row, parent } = this.data, index = this.chosen, line = index >= 0 ? this.lines[row[index]] : [];
    const beside = (step) => { const next = line[line.indexOf(index) + step]; if (next !== undefined) this.pick(next); };
    const first = () => { const [box] = this.lines.filter((of) => of.length).map((of) => of[Math.min(after(of, from, this.view[0]), of.length - 1)]); if (box !== undefined) this.pick(box); };
    const within = () => { let best = -1; for (let at = 0; at < row.length; at++) if (parent[at] === index && row[at] >= 0 && (best < 0 || from[at] < from[best])) best = at; if (best >= 0) this.pick(best); };
    const keys = {
      "+": () => this.zoom(0.5), "=": () => this.zoom(0.5), "-": () => this.zoom(2), "0": () => this.look(...this.whole),
      Enter: () => index >= 0 && this.fit(index), Escape: () => this.pick(-1),
      ArrowLeft: () => event.shiftKey ? this.pan(-0.2) : index < 0 ? first() : beside(-1), ArrowRight: () => event.shiftKey ? this.pan(0.2) : index < 0 ? first() : beside(1),
      ArrowUp: () => { let up = parent[index] ?? -1; while (up >= 0 && row[up] < 0) up = parent[up]; if (up >= 0) this.pick(up); }, ArrowDown: () => index < 0 ? first() : within(),
    };
    if (!(event.key in keys)) return;
    event.preventDefault();
    keys[event.key]();
  }

  draw() { if (!this.waits) { this.waits = true; requestAnimationFrame(() => { this.waits = false; this.paint(); }); } }

  paint() {
    const { canvas, data } = this, width = canvas.clientWidth, ratio = devicePixelRatio || 1;
    if (!data || !width) return;
    canvas.width = width * ratio; canvas.height = this.tall * ratio;
    const pen = canvas.getContext("2d"), style = getComputedStyle(document.documentElement), colour = (name) => style.getPropertyValue(name);
    pen.setTransform(ratio, 0, 0, ratio, 0, 0);
    pen.font = "12px system-ui, sans-serif"; pen.textBaseline = "middle";
    if (!data.flat) this.scale(pen, width, colour("--line"), colour("--soft"));
    const { from, to, fill } = data, [a, b] = this.view, per = width / (b - a);
    this.lines.forEach((line, row) => {
      const top = this.tops[row];
      if (data.heads[row]) { pen.fillStyle = colour("--soft"); pen.fillText(data.heads[row], 2, top - BOX.head / 2 + 1); }
      let painted = -1;
      for (let at = Math.max(0, after(line, from, a) - 1); at < line.length && from[line[at]] < b; at++) {
        const index = line[at], left = Math.max(0, (from[index] - a) * per), right = Math.min(width, (to[index] - a) * per), special = index === this.chosen || index === this.over;
        if (right < 0 || (right <= painted && !special)) continue; // a pixel that others have
        const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 1);
        pen.globalAlpha = this.marked && !this.marked[index] ? 0.25 : 1;
        pen.fillStyle = FILLS[fill[index]][0];
        pen.fillRect(left, top, wide, BOX.height - 2);
        painted = Math.max(painted, Math.floor(left) + 1, right - 1);
        if (wide > 26) { pen.fillStyle = FILLS[fill[index]][1]; pen.fillText(cut(pen, data.label(index), wide - 8), left + 4, top + BOX.height / 2 - 0.5); }
        if (special) { pen.globalAlpha = 1; pen.strokeStyle = colour("--ink"); pen.lineWidth = index === this.chosen ? 3 : 1.5; pen.strokeRect(left + 0.5, top, Math.max(wide - 1, 2), BOX.height - 2); }
      }
    });
    pen.globalAlpha = 1;
    canvas.dataset.painted = "yes";
  }

  // Light, whatever the page is: it goes into a document.
  png() {
    const { canvas } = this, root = document.documentElement, { theme } = root.dataset, made = document.createElement("canvas"), pen = made.getContext("2d");
    root.dataset.theme = "light";
    this.paint();
    Object.assign(made, { width: canvas.width, height: canvas.height });
    pen.fillStyle = "#fff";
    pen.fillRect(0, 0, made.width, made.height);
    pen.drawImage(canvas, 0, 0);
    root.dataset.theme = theme;
    this.paint();
    return made.toDataURL("image/png");
  }

  // Those that are shown, by their own place.
  csv() {
    const { from, to, row, label } = this.data, shown = [...row.keys()].filter((at) => row[at] >= 0);
    return csvOf({ data: [{ name: this.canvas.id, x: shown.map((at) => from[at]), y: shown.map((at) => to[at]), text: shown.map((at) => label(at)) }] });
  }

  scale(pen, width, line, soft) {
    const [a, b] = this.view, origin = this.data.origin, rough = (b - a) / Math.max(2, width / 110), power = 10 ** Math.floor(Math.log10(rough)), step = [1, 2, 5, 10].find((of) => of * power >= rough) * power;
    pen.strokeStyle = line; pen.fillStyle = soft; pen.lineWidth = 1;
    for (let tick = Math.ceil((a - origin) / step); tick * step + origin <= b; tick++) {
      const x = Math.round(this.pixel(tick * step + origin)) + 0.5, text = this.unit(tick * step, step);
      pen.beginPath(); pen.moveTo(x, BOX.axis - 6); pen.lineTo(x, this.tall); pen.stroke();
      if (x + 4 + pen.measureText(text).width < width) pen.fillText(text, x + 3, BOX.axis / 2 - 2);
    }
  }
}

// The first place in a row whose box begins at a value or behind it.
function after(line, from, value) {
  let low = 0, high = line.length;
  while (low < high) { const middle = (low + high) >> 1; if (from[line[middle]] < value) low = middle + 1; else high = middle; }
  return low;
}

function cut(pen, text, room) {
  if (pen.measureText(text).width <= room) return text;
  let low = 0, high = text.length;
  while (low < high) { const middle = (low + high + 1) >> 1; if (pen.measureText(`${text.slice(0, middle)}…`).width <= room) low = middle; else high = middle - 1; }
  return low > 1 ? `${text.slice(0, low)}…` : "";
}
