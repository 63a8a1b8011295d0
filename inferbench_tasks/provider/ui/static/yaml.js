"use strict";

// Where in a submission a place of its text is, and what the schema says of it. No parser: what is wrong with the text
// is told by the server's validator; this only has to be right about keys that stand where YAML allows them.

// The keys of a text: [{path, key, row, from, to, value}], and the container that is open where the text ends.
function scanYaml(text) {
  const entries = [], block = [{ indent: -1, path: [] }];
  let flow = [];
  const top = () => block[block.length - 1];
  const add = (path, key, row, from, value) => entries.push({ path: [...path, key], key, row, from, to: from + key.length, value });
  for (const [row, raw] of text.split("\n").entries()) {
    const line = raw.replace(/(^|\s)#.*$/, (all, before) => before + " ".repeat(all.length - before.length));
    if (flow.length) { scanFlow(line, 0, row); continue; }
    if (!line.trim()) continue;
    let at = line.search(/\S/);
    while (/^-(\s|$)/.test(line.slice(at))) {
      while (top().indent >= at && !(top().indent === at && !top().item)) block.pop();
      block.push({ indent: at, path: [...top().path, "[]"], item: true });
      at += 1 + (line.slice(at + 1).match(/^\s*/)[0].length);
    }
    const found = /^(["']?)([^\s"'{}[\],:#][^"'{}[\],:#]*)\1\s*:(?=\s|$)/.exec(line.slice(at));
    if (!found) { if (/[{[]/.test(line[at] || "")) scanFlow(line, at, row, top().path); continue; }
    while (top().indent >= at) block.pop();
    const rest = line.slice(at + found[0].length), start = at + found[0].length + rest.search(/\S|$/);
    add(top().path, found[2], row, at + found[1].length, rest.trim());
    block.push({ indent: at, path: [...top().path, found[2]] });
    if (/[{[]/.test(line[start] || "")) scanFlow(line, start, row, top().path);
  }
  function scanFlow(line, at, row, path = null) {
    for (let i = at; i < line.length; i++) {
      const inner = flow[flow.length - 1], sign = line[i];
      if (sign === "{" || sign === "[") {
        const base = inner ? (inner.list ? [...inner.path] : [...inner.path, ...(inner.key ? [inner.key] : [])]) : path || [];
        flow.push({ list: sign === "[", path: sign === "[" ? [...base, "[]"] : base, key: null });
      } else if (sign === "}" || sign === "]") { flow.pop(); if (!flow.length) return; }
      else if (sign === ",") { if (inner) inner.key = null; }
      else if (sign === '"' || sign === "'") { const end = line.indexOf(sign, i + 1); i = end < 0 ? line.length : end; }
      else if (inner && !inner.list && inner.key === null && /\S/.test(sign)) {
        const found = /^([^\s{}[\],:"'][^{}[\],:"']*?)\s*:(?=\s|$|[{[])/.exec(line.slice(i));
        if (found) {
          const rest = line.slice(i + found[0].length).match(/^\s*([^,}\]]*)/)[1];
          add(inner.path, found[1], row, i, rest.trim());
          inner.key = found[1];
          i += found[0].length - 1;
        } else { const word = /^[^{}[\],]*/.exec(line.slice(i))[0]; i += word.length - 1; }
      }
    }
  }
  return { entries, block, flow };
}

// Where the caret is: {path: of the mapping around it, key: whose value is typed or null, word: what is typed of it}.
function placeIn(text, caret) {
  const before = text.slice(0, caret), line = before.slice(before.lastIndexOf("\n") + 1);
  const word = /[^\s{}[\],:"']*$/.exec(line)[0], head = before.slice(0, caret - word.length);
  const state = scanYaml(head), inner = state.flow[state.flow.length - 1];
  if (inner) {
    if (inner.list) return { path: inner.path.slice(0, -1), key: inner.path[inner.path.length - 2] ?? null, word, list: true };
    const valued = inner.key !== null;
    return { path: inner.path, key: valued ? inner.key : null, word };
  }
  const typed = head.slice(head.lastIndexOf("\n") + 1), last = state.entries[state.entries.length - 1];
  if (/:\s+$/.test(typed) && last) return { path: last.path.slice(0, -1), key: last.key, word };
  const indent = typed.replace(/-(?=\s)/g, " ").length, open = state.block.filter((of) => of.indent < indent);
  return { path: open[open.length - 1].path, key: null, word };
}

// The schemas that a path leads to: of several kinds of a mapping those that its own kind allows.
class Schema {
  constructor(root) { this.root = root; }

  variants(node) {
    if (node === undefined || node === true || node === null) return [];
    if (node.$ref) return this.variants({ ...this.root.$defs[node.$ref.split("/").pop()], ...(node.description ? { description: node.description } : {}) });
    const several = node.anyOf || node.oneOf || node.allOf;
    return several ? several.flatMap((one) => this.variants(one)) : [node];
  }

  at(path, entries) {
    let nodes = [this.root];
    for (const [depth, key] of path.entries()) {
      const next = nodes.flatMap((node) => key === "[]" ? this.variants(node.items) : this.variants(node.properties?.[key] ?? (typeof node.additionalProperties === "object" ? node.additionalProperties : undefined)));
      nodes = this.allowed(next, path.slice(0, depth + 1), entries);
    }
    return nodes;
  }

  // Of variants that name a kind, those of the kind that is written there.
  allowed(nodes, path, entries) {
    const said = {};
    for (const of of entries) if (of.path.length === path.length + 1 && path.every((part, i) => part === of.path[i])) said[of.key] = of.value;
    return nodes.filter((node) => Object.entries(node.properties || {}).every(([key, of]) => of.const === undefined || said[key] === undefined || said[key] === "" || String(of.const) === said[key] || !nodes.some((other) => String(other.properties?.[key]?.const) === said[key])));
  }

  // What a key is: its own words, which stand beside a $ref or anyOf and not within it.
  field(path, entries) {
    const parents = this.at(path.slice(0, -1), entries), key = path[path.length - 1];
    const raw = parents.map((node) => node.properties?.[key]).find((of) => of !== undefined);
    return raw && { ...raw, variants: this.variants(raw), required: parents.some((node) => (node.required || []).includes(key)) };
  }

  keys(path, entries) {
    const parents = this.at(path, entries), here = new Set(entries.filter((of) => of.path.length === path.length + 1 && path.every((part, i) => part === of.path[i])).map((of) => of.key));
    const keys = new Map();
    for (const node of parents) for (const key of Object.keys(node.properties || {})) if (!here.has(key)) keys.set(key, this.field([...path, key], entries));
    if (path[0] === "sweep" && path.length <= 2 && path[1] !== "[]") for (const dotted of this.leaves([], entries, 3)) if (dotted.includes(".") && !here.has(dotted)) keys.set(dotted, this.field(dotted.split("."), entries));
    return keys;
  }

  leaves(path, entries, depth) {
    return this.at(path, entries).flatMap((node) => Object.keys(node.properties || {})).filter((key, i, all) => all.indexOf(key) === i && key !== "sweep").flatMap((key) => {
      const below = depth > 1 ? this.leaves([...path, key], entries, depth - 1) : [];
      return below.length ? below : [[...path, key].join(".")];
    });
  }

  values(path, entries) {
    const field = this.field(path, entries);
    if (!field) return [];
    const all = this.at(path.slice(0, -1), []).flatMap((node) => this.variants(node.properties?.[path[path.length - 1]])); // of every kind: it may be the kind itself
    const parent = path.slice(0, -1);
    const kinds = parent.length ? this.at(parent.slice(0, -1), entries).flatMap((node) => this.variants(node.properties?.[parent[parent.length - 1]])).flatMap((node) => node.properties?.[path[path.length - 1]] ?? []) : [];
    const found = [...field.variants, ...all, ...kinds].flatMap((of) => of.enum || of.examples || (of.const !== undefined ? [of.const] : of.type === "boolean" ? [true, false] : of.type === "null" ? [null] : []));
    return [...new Set(found.map(String))];
  }
}

const UNITS = { s: "seconds", ms: "milliseconds", us: "microseconds", rps: "requests per second", bytes: "bytes", mbps: "Mbit/s", ratio: "ratio, 0 to 1", percent: "percent", w: "watt", hz: "hertz" };

// A key in a sentence: its unit, what is allowed, its default, what it is for.
function describe(path, field) {
  const unit = UNITS[/_([a-z]+)$/.exec(path[path.length - 1])?.[1]];
  const of = field.variants.filter((one) => one.type !== "null"), parts = [];
  for (const one of of.slice(0, 6)) {
    if (one.const !== undefined) parts.push(String(one.const));
    else if (one.enum) parts.push(one.enum.join(" | "));
    else if (one.properties) parts.push(one.properties.kind?.const ? `kind: ${one.properties.kind.const}` : "a mapping");
    else {
      const low = one.minimum ?? one.exclusiveMinimum, high = one.maximum ?? one.exclusiveMaximum;
      const bounds = [low === undefined ? "" : `${one.exclusiveMinimum === undefined ? "from" : "over"} ${low}`, high === undefined ? "" : `to ${high}`].filter(Boolean).join(" ");
      parts.push([{ integer: "whole number", number: "number", string: "text", boolean: "true | false", array: "list", object: "mapping" }[one.type] || one.type, bounds].filter(Boolean).join(" "));
    }
  }
  const usual = field.required ? "needed" : field.default === undefined ? "" : `default ${typeof field.default === "object" ? JSON.stringify(field.default) : field.default}`;
  const facts = [unit, [...new Set(parts)].join(" or "), usual].filter(Boolean).join("; ");
  return `${path.join(".")}: ${facts}. ${field.description || ""}`.trim();
}
