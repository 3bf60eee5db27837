"use strict";
// Draws densities and pairs of columns from the model's parameters inside this page. Fetches nothing.
(() => {
  const data = JSON.parse(document.getElementById("report-data").textContent);
  const SVG = "http://www.w3.org/2000/svg";
  const W = 640, H = 320, LEFT = 76, RIGHT = 14, TOP = 12, BOTTOM = 40;
  const byId = (id) => document.getElementById(id);
  const colour = (k) => `var(--c${k % 8})`;
  const dash = (k) => (k < 8 ? null : k < 16 ? "6 3" : "2 3");

  // -- page ---------------------------------------------------------------------------------------------
  const root = document.documentElement;
  const dark = () => root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  const themeButton = byId("theme");
  const showTheme = () => { themeButton.textContent = dark() ? "Light" : "Dark"; themeButton.setAttribute("aria-pressed", String(dark())); };
  themeButton.addEventListener("click", () => { root.dataset.theme = dark() ? "light" : "dark"; showTheme(); });
  byId("print").addEventListener("click", () => print());
  addEventListener("beforeprint", () => document.querySelectorAll("details").forEach((d) => { d.open = true; }));
  showTheme();

  // -- helpers ------------------------------------------------------------------------------------------
  const node = (name, attributes, text) => {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes || {})) if (value !== null) made.setAttribute(key, value);
    if (text !== undefined) made.textContent = text;
    return made;
  };
  const short = (value) => {
    if (value === 0) return "0";
    const size = Math.abs(value);
    return size >= 1e6 || size < 1e-3 ? value.toExponential(2) : String(Number(value.toPrecision(4)));
  };
  const percent = (value) => `${Number((100 * value).toPrecision(3))}%`;
  const label = (text, n) => text.length > n ? `${text.slice(0, n - 1)}…` : text;
  // The label of an interval is its lower edge; the label of a category is its name.
  const mark = (column, i) => column.edges && i < column.edges.length ? short(column.edges[i]) : column.labels[i];
  const titled = (column) => column.unit ? `${column.name} (${column.unit})` : column.name;
  const ticks = (low, high, wanted) => {
    const rough = (high - low) / wanted, power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= rough) || power;
    const found = [];
    for (let t = Math.ceil(low / step) * step; t <= high + step * 1e-9; t += step) found.push(Math.abs(t) < step * 1e-9 ? 0 : t);
    return found;
  };
  const fill = (select, columns, chosen) => {
    columns.forEach((column, j) => select.append(new Option(column.name, String(j), j === chosen, j === chosen)));
  };
  const scale = (low, high, from, to) => (value) => from + ((value - low) / (high - low)) * (to - from);
  const canvas = (label, height) => node("svg", { viewBox: `0 0 ${W} ${height || H}`, role: "img", tabindex: "0", "aria-label": label });
  const axisX = (svg, x, values, title, height) => {
    const bottom = (height || H) - BOTTOM;
    for (const value of values) {
      svg.append(node("line", { class: "grid", x1: x(value), x2: x(value), y1: TOP, y2: bottom }));
      svg.append(node("text", { class: "tick", x: x(value), y: bottom + 16, "text-anchor": "middle" }, short(value)));
    }
    svg.append(node("text", { class: "axis", x: (LEFT + W - RIGHT) / 2, y: bottom + 34, "text-anchor": "middle" }, title));
  };
  const axisY = (svg, y, values, title, write) => {
    for (const value of values) {
      svg.append(node("line", { class: "grid", x1: LEFT, x2: W - RIGHT, y1: y(value), y2: y(value) }));
      svg.append(node("text", { class: "tick", x: LEFT - 6, y: y(value) + 4, "text-anchor": "end" }, (write || short)(value)));
    }
    if (title) svg.append(node("text", { class: "axis", x: 14, y: H / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${H / 2})` }, title));
  };
  // Values can be read with the mouse, a finger or the arrow keys.
  const readable = (svg, size, move) => {
    let place = Math.floor(size / 2);
    const go = (to) => { place = Math.max(0, Math.min(size - 1, to)); move(place); };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const part = (((event.clientX - box.left) / box.width) * W - LEFT) / (W - LEFT - RIGHT);
      go(Math.round(part * (size - 1)));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -1, ArrowRight: 1, PageDown: -10, PageUp: 10 }[event.key];
      if (step) { event.preventDefault(); go(place + step); }
    });
  };

  // -- densities ----------------------------------------------------------------------------------------
  const normal = (x, mean, variance) => Math.exp(-0.5 * (x - mean) ** 2 / variance) / Math.sqrt(2 * Math.PI * variance);
  const spreadOf = (j) => {
    let low = Infinity, high = -Infinity;
    data.means.forEach((mean, k) => {
      const reach = 4 * Math.sqrt(data.covariances[k][j][j]);
      low = Math.min(low, mean[j] - reach); high = Math.max(high, mean[j] + reach);
    });
    const column = data.columns[j];
    return [Math.max(low, column.low), Math.min(high, column.high)];
  };
  const density = (j) => {
    const column = data.columns[j], [low, high] = spreadOf(j), points = 201;
    const xs = Array.from({ length: points }, (_, i) => low + (high - low) * i / (points - 1));
    const part = (weights, means, covariances, k) => xs.map((x) => weights[k] * normal(x, means[k][j], covariances[k][j][j]));
    const parts = data.weights.map((_, k) => part(data.weights, data.means, data.covariances, k));
    const wide = data.background.weights.map((_, k) => part(data.background.weights, data.background.means, data.background.covariances, k));
    const total = xs.map((_, i) => [...parts, ...wide].reduce((sum, curve) => sum + curve[i], 0));
    const top = Math.max(...total) * 1.05;
    const x = scale(low, high, LEFT, W - RIGHT), y = scale(0, top, H - BOTTOM, TOP);
    const svg = canvas(`Density of ${column.name} in the model, from ${short(low)} to ${short(high)}`);
    axisX(svg, x, ticks(low, high, 7), titled(column));
    axisY(svg, y, ticks(0, top, 4), "density");
    const line = (curve) => "M" + curve.map((value, i) => `${x(xs[i]).toFixed(1)} ${y(value).toFixed(1)}`).join(" L");
    if (parts.length > 1) parts.forEach((curve, k) => svg.append(node("path", { class: "part", d: line(curve), stroke: colour(k), "stroke-dasharray": dash(k), "data-part": k })));
    svg.append(node("path", { class: "total", d: line(total) }));
    const cursor = node("line", { class: "cursor", y1: TOP, y2: H - BOTTOM, x1: -9, x2: -9 });
    svg.append(cursor);
    readable(svg, points, (i) => {
      cursor.setAttribute("x1", x(xs[i])); cursor.setAttribute("x2", x(xs[i]));
      const shares = parts.map((curve, k) => [curve[i] / total[i], k]).sort((a, b) => b[0] - a[0]);
      const most = parts.length > 1 ? `; most probable component ${shares[0][1] + 1} (${percent(shares[0][0])})` : "";
      byId("density-readout").textContent = `${titled(column)} = ${short(xs[i])}: density ${short(total[i])}${most}`;
    });
    byId("density").replaceChildren(svg);
  };
  const bars = (j) => {
    const column = data.columns[j], n = column.labels.length;
    const top = Math.max(...column.shares) * 1.05 || 1;
    const x = scale(0, n, LEFT, W - RIGHT), y = scale(0, top, H - BOTTOM, TOP);
    const svg = canvas(`Shares of the values of ${column.name} in the model`);
    axisY(svg, y, ticks(0, top, 4), "share of rows", percent);
    const width = (W - LEFT - RIGHT) / n;
    const every = Math.ceil(n / Math.max(1, Math.floor((W - LEFT - RIGHT) / 70)));
    const marks = column.shares.map((share, i) => {
      const bar = node("rect", { class: "bar-mark", x: x(i) + width * 0.08, width: width * 0.84, y: y(share), height: Math.max(0, H - BOTTOM - y(share)) });
      svg.append(bar);
      if (i % every === 0) {
        const edge = column.edges ? x(i) : x(i + 0.5);
        svg.append(node("text", { class: "tick", x: edge, y: H - BOTTOM + 16, "text-anchor": "middle" }, label(mark(column, i), 12)));
      }
      return bar;
    });
    svg.append(node("text", { class: "axis", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, titled(column)));
    readable(svg, n, (i) => {
      marks.forEach((mark, k) => mark.classList.toggle("lit", k === i));
      byId("density-readout").textContent = `${column.name} = ${column.labels[i]}: ${percent(column.shares[i])} of rows`;
    });
    byId("density").replaceChildren(svg);
  };
  const centres = (j) => {
    const column = data.columns[j], height = Math.max(120, 40 + 22 * data.centres.length + BOTTOM);
    const x = scale(column.low, column.high, LEFT, W - RIGHT);
    const svg = canvas(`Cluster centres in ${column.name}, with their noise`, height);
    axisX(svg, x, ticks(column.low, column.high, 7), titled(column), height);
    data.centres.forEach((centre, k) => {
      const y = TOP + 20 + 22 * k, error = data.errors[k][j];
      svg.append(node("text", { class: "tick", x: LEFT - 8, y: y + 4, "text-anchor": "end" }, String(k + 1)));
      svg.append(node("line", { x1: x(centre[j] - 2 * error), x2: x(centre[j] + 2 * error), y1: y, y2: y, stroke: colour(k), "stroke-width": 2, "data-part": k }));
      svg.append(node("circle", { cx: x(centre[j]), cy: y, r: 5, fill: colour(k), "data-part": k }));
    });
    readable(svg, data.centres.length, (k) => {
      byId("density-readout").textContent = `Cluster ${k + 1}: ${titled(column)} = ${short(data.centres[k][j])} ± ${short(data.errors[k][j])}`;
    });
    byId("density").replaceChildren(svg);
  };

  // -- pairs --------------------------------------------------------------------------------------------
  const CELLS = 48;
  const heatmap = (svg, values, x, y, width, height, say) => {
    const top = Math.max(...values.flat()) || 1;
    const marks = values.map((row, i) => row.map((value, k) => {
      const mark = node("rect", { class: "heat", x: x(i), y: y(k), width: width + 0.3, height: height + 0.3, fill: `rgba(var(--heat), ${(0.95 * Math.sqrt(value / top)).toFixed(3)})` });
      svg.append(mark);
      return mark;
    }));
    let lit = null, at = [Math.floor(values.length / 2), Math.floor(values[0].length / 2)];
    const show = (i, k) => {
      at = [Math.max(0, Math.min(values.length - 1, i)), Math.max(0, Math.min(values[0].length - 1, k))];
      if (lit) lit.classList.remove("lit");
      lit = marks[at[0]][at[1]]; lit.classList.add("lit");
      say(at[0], at[1]);
    };
    svg.addEventListener("pointermove", (event) => {
      const box = svg.getBoundingClientRect();
      const px = ((event.clientX - box.left) / box.width) * W, py = ((event.clientY - box.top) / box.height) * H;
      show(Math.floor((px - LEFT) / width), Math.floor((H - BOTTOM - py) / height));
    });
    svg.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, 1], ArrowDown: [0, -1] }[event.key];
      if (step) { event.preventDefault(); show(at[0] + step[0], at[1] + step[1]); }
    });
  };
  const pairOfGaussians = (a, b) => {
    const [lowA, highA] = spreadOf(a), [lowB, highB] = spreadOf(b);
    const bivariate = (weights, means, covariances, k) => {
      const s = covariances[k], det = s[a][a] * s[b][b] - s[a][b] ** 2;
      return (u, v) => {
        const du = u - means[k][a], dv = v - means[k][b];
        const q = (s[b][b] * du * du - 2 * s[a][b] * du * dv + s[a][a] * dv * dv) / det;
        return weights[k] * Math.exp(-0.5 * q) / (2 * Math.PI * Math.sqrt(det));
      };
    };
    const parts = data.weights.map((_, k) => bivariate(data.weights, data.means, data.covariances, k));
    const wide = data.background.weights.map((_, k) => bivariate(data.background.weights, data.background.means, data.background.covariances, k));
    const at = (i, low, high) => low + (high - low) * (i + 0.5) / CELLS;
    const values = Array.from({ length: CELLS }, (_, i) => Array.from({ length: CELLS }, (_, k) =>
      [...parts, ...wide].reduce((sum, f) => sum + f(at(i, lowA, highA), at(k, lowB, highB)), 0)));
    const svg = canvas(`Joint density of ${data.columns[a].name} and ${data.columns[b].name} in the model, with an ellipse for each component`);
    const x = scale(lowA, highA, LEFT, W - RIGHT), y = scale(lowB, highB, H - BOTTOM, TOP);
    const width = (W - LEFT - RIGHT) / CELLS, height = (H - TOP - BOTTOM) / CELLS;
    heatmap(svg, values, (i) => LEFT + i * width, (k) => H - BOTTOM - (k + 1) * height, width, height, (i, k) => {
      const u = at(i, lowA, highA), v = at(k, lowB, highB);
      const shares = parts.map((f, c) => [f(u, v) / values[i][k], c]).sort((p, q) => q[0] - p[0]);
      byId("pair-readout").textContent = `${titled(data.columns[a])} = ${short(u)}, ${titled(data.columns[b])} = ${short(v)}: density ${short(values[i][k])}; most probable component ${shares[0][1] + 1} (${percent(shares[0][0])})`;
    });
    axisX(svg, x, ticks(lowA, highA, 7), titled(data.columns[a]));
    axisY(svg, y, ticks(lowB, highB, 5), titled(data.columns[b]));
    data.means.forEach((mean, k) => {
      const s = data.covariances[k], half = (s[a][a] + s[b][b]) / 2, root = Math.sqrt(((s[a][a] - s[b][b]) / 2) ** 2 + s[a][b] ** 2);
      const angle = 0.5 * Math.atan2(2 * s[a][b], s[a][a] - s[b][b]);
      const r1 = Math.sqrt(half + root), r2 = Math.sqrt(Math.max(half - root, 0));
      const points = Array.from({ length: 61 }, (_, i) => {
        const t = (2 * Math.PI * i) / 60, p = r1 * Math.cos(t), q = r2 * Math.sin(t);
        return `${x(mean[a] + p * Math.cos(angle) - q * Math.sin(angle)).toFixed(1)} ${y(mean[b] + p * Math.sin(angle) + q * Math.cos(angle)).toFixed(1)}`;
      });
      svg.append(node("path", { class: "part", d: "M" + points.join(" L") + " Z", stroke: colour(k), "stroke-dasharray": dash(k), "data-part": k }));
      svg.append(node("text", { x: x(mean[a]), y: y(mean[b]) + 4, "text-anchor": "middle", "data-part": k }, String(k + 1)));
    });
    byId("pair").replaceChildren(svg);
  };
  const pairOfCentres = (a, b) => {
    const A = data.columns[a], B = data.columns[b];
    const x = scale(A.low, A.high, LEFT, W - RIGHT), y = scale(B.low, B.high, H - BOTTOM, TOP);
    const svg = canvas(`Cluster centres in ${A.name} and ${B.name}, with their noise`);
    axisX(svg, x, ticks(A.low, A.high, 7), titled(A));
    axisY(svg, y, ticks(B.low, B.high, 5), titled(B));
    data.centres.forEach((centre, k) => {
      const [ex, ey] = [data.errors[k][a], data.errors[k][b]], paint = { stroke: colour(k), "stroke-width": 2, "data-part": k };
      svg.append(node("line", { ...paint, x1: x(centre[a] - 2 * ex), x2: x(centre[a] + 2 * ex), y1: y(centre[b]), y2: y(centre[b]) }));
      svg.append(node("line", { ...paint, x1: x(centre[a]), x2: x(centre[a]), y1: y(centre[b] - 2 * ey), y2: y(centre[b] + 2 * ey) }));
      svg.append(node("circle", { cx: x(centre[a]), cy: y(centre[b]), r: 5, fill: colour(k), "data-part": k }));
      svg.append(node("text", { x: x(centre[a]) + 8, y: y(centre[b]) - 6, "data-part": k }, String(k + 1)));
    });
    readable(svg, data.centres.length, (k) => {
      byId("pair-readout").textContent = `Cluster ${k + 1}: ${titled(A)} = ${short(data.centres[k][a])}, ${titled(B)} = ${short(data.centres[k][b])}`;
    });
    byId("pair").replaceChildren(svg);
  };
  const pairOfTables = (a, b) => {
    const turned = a > b, key = turned ? `${b},${a}` : `${a},${b}`;
    let table = data.pairs[key];
    if (!table) {
      byId("pair").replaceChildren();
      byId("pair-readout").textContent = a === b ? "Choose two different columns." : "The report contains only the first pairs, and not this one. The model itself has it: see its method marginals.";
      return;
    }
    if (turned) table = table[0].map((_, k) => table.map((row) => row[k]));
    const A = data.columns[a], B = data.columns[b];
    const width = (W - LEFT - RIGHT) / A.labels.length, height = (H - TOP - BOTTOM) / B.labels.length;
    const svg = canvas(`Shares of pairs of values of ${A.name} and ${B.name} in the model`);
    heatmap(svg, table, (i) => LEFT + i * width, (k) => H - BOTTOM - (k + 1) * height, width, height, (i, k) => {
      byId("pair-readout").textContent = `${A.name} = ${A.labels[i]}, ${B.name} = ${B.labels[k]}: ${percent(table[i][k])} of rows`;
    });
    const everyA = Math.ceil(A.labels.length / 8), everyB = Math.ceil(B.labels.length / 10);
    A.labels.forEach((_, i) => i % everyA || svg.append(node("text", { class: "tick", x: LEFT + (i + (A.edges ? 0 : 0.5)) * width, y: H - BOTTOM + 16, "text-anchor": "middle" }, label(mark(A, i), 12))));
    B.labels.forEach((_, k) => k % everyB || svg.append(node("text", { class: "tick", x: LEFT - 5, y: H - BOTTOM - (k + (B.edges ? 0 : 0.5)) * height + 4, "text-anchor": "end" }, label(mark(B, k), 8))));
    svg.append(node("text", { class: "axis", x: (LEFT + W - RIGHT) / 2, y: H - 6, "text-anchor": "middle" }, titled(A)));
    svg.append(node("text", { class: "axis", x: 12, y: H / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${H / 2})` }, titled(B)));
    byId("pair").replaceChildren(svg);
  };

  // -- set up the page ----------------------------------------------------------------------------------
  document.querySelectorAll("#profile-table [data-part]").forEach((row) => {
    row.querySelector(".swatch").style.setProperty("--swatch", data.kind === "gaussians" && data.weights.length === 1 ? "transparent" : colour(Number(row.dataset.part)));
    const light = (on) => document.querySelectorAll(".chart [data-part]").forEach((mark) => mark.classList.toggle("dimmed", on && mark.dataset.part !== row.dataset.part));
    row.addEventListener("pointerenter", () => light(true));
    row.addEventListener("pointerleave", () => light(false));
  });
  if (!data.columns.length) return;
  const one = { gaussians: density, tables: bars, centres }[data.kind];
  const two = { gaussians: pairOfGaussians, tables: pairOfTables, centres: pairOfCentres }[data.kind];
  const single = byId("density-column"), across = byId("pair-x"), up = byId("pair-y");
  fill(single, data.columns, 0);
  single.addEventListener("change", () => one(Number(single.value)));
  one(0);
  if (data.columns.length < 2) { byId("pairs").hidden = true; return; }
  fill(across, data.columns, 0);
  fill(up, data.columns, 1);
  const draw = () => {
    if (across.value === up.value) { byId("pair").replaceChildren(); byId("pair-readout").textContent = "Choose two different columns."; return; }
    two(Number(across.value), Number(up.value));
  };
  across.addEventListener("change", draw);
  up.addEventListener("change", draw);
  draw();
})();
