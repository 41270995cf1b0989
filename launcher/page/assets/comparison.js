// SPDX-License-Identifier: Apache-2.0
// Runs that are compared: for each task its figures, tables, charts and bars.
import { ComparisonChart } from "./comparison_chart.js";
import { byId, node, setText } from "./dom.js";
import { LineLegend } from "./line_legend.js";
import { LinkedCharts } from "./linked_charts.js";
import { lineKey } from "./line_look.js";

const kMargin = 0.015;

function table({ titles, rows, runs }) {
  const scroll = node("div", "scroll"), made = node("table", "numbers"), head = node("thead"), body = node("tbody"), headRow = node("tr");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "region");
  scroll.setAttribute("aria-label", `Table: ${titles.join(", ")}`);
  for (const title of titles) {
    const cell = node("th", "", title);
    cell.scope = "col";
    headRow.append(cell);
  }
  head.append(headRow);
  rows.forEach((cells, index) => {
    const row = node("tr");
    cells.forEach((cell, column) => {
      const text = typeof cell === "string" ? cell : cell.text, one = node(column ? "td" : "th", cell.best ? "best" : "");
      if (!column) one.scope = "row";
      if (!column && runs) one.append(lineKey({ kind: "own", index }));
      one.append(text);
      row.append(one);
    });
    body.append(row);
  });
  made.append(head, body);
  scroll.append(made);
  return scroll;
}

function figures(list) {
  const made = node("dl", "figures");
  for (const { name, text, note } of list) {
    const one = node("div");
    one.append(node("dt", "", name), node("dd", "", text), node("dd", "note", note));
    made.append(one);
  }
  return made;
}

function bars({ legend, rows }) {
  const keys = node("ul", "legend"), made = node("div", "step-bars");
  for (const { key, name } of legend) {
    const item = node("li"), mark = node("span", "key");
    mark.dataset.part = key;
    item.append(mark, name);
    keys.append(item);
  }
  for (const { name, parts, words } of rows) {
    const strip = node("div", "step-bar");
    strip.setAttribute("aria-hidden", "true");
    for (const { key, share } of parts) {
      const part = node("span", "key");
      part.dataset.part = key;
      part.style.width = `${100 * share}%`;
      strip.append(part);
    }
    made.append(node("div", "name", name), strip, node("div", "words", words));
  }
  return [keys, made];
}

// Charts of one x side by side, with one legend for all.
function charts(list, head) {
  const grid = node("div", "charts"), legend = new LineLegend(list), reset = node("button", "", "Show everything"), groups = new Map();
  reset.type = "button";
  reset.hidden = true;
  head.append(node("p", "hint", "drag to zoom, double click to reset; names hide and show; keys: arrows, + − 0"), reset);
  for (const data of list) {
    const { title } = data.x;
    if (!groups.has(title)) groups.set(title, new LinkedCharts(reset, kMargin));
    const group = groups.get(title), made = new ComparisonChart(data, group, legend);
    group.all.set(group.all.size, made);  // several may have one title
    grid.append(made.figure);
  }
  legend.follow(() => groups.forEach((group) => group.all.forEach((chart) => chart.recolor())));
  const draw = () => groups.forEach((group) => group.draw()), fit = () => groups.forEach((group) => group.all.forEach((chart) => chart.graph.resize()));
  return { parts: [legend.list, grid], draw, fit };
}

export class Comparison {
  constructor({ title, tasks, published }) {
    this.charts = [];
    this.folded = [];
    const place = byId("comparison");
    place.hidden = false;
    byId("job").hidden = true;
    document.querySelector(".skip").remove();
    document.title = `${title} · Rueda`;
    setText(byId("command"), "comparison of runs");
    setText(byId("connection"), "");
    place.append(node("h1", "", title));
    for (const task of tasks) {
      const made = node("section", "task");
      made.append(node("h2", "", task.title), figures(task.figures));
      for (const section of task.sections) made.append(this.section(section));
      place.append(made);
    }
    place.append(this.section(published));
    for (const { draw } of this.charts) draw();
    for (const made of this.folded) made.open = false;
  }

  section(data) {
    const made = node("section"), head = node("div", "head");
    if (data.title) {
      head.append(node("h3", "", data.title));
      made.append(head);
      made.dataset.title = data.title;
    }
    for (const part of this.parts(data, head)) made.append(part);
    if (data.more) made.append(this.more(data.more));
    return made;
  }

  parts({ charts: chartList = [], tables = [], bars: barData, notes = [] }, head) {
    const found = [];
    if (chartList.length) {
      const made = charts(chartList, head);
      found.push(...made.parts);
      this.charts.push(made);
    }
    found.push(...tables.map(table));
    if (barData) found.push(...bars(barData));
    return [...found, ...notes.map((text) => node("p", "hint", text))];
  }

  // Folded after its charts are drawn; on paper all is there.
  more(data) {
    const made = node("details"), head = node("div", "head");
    made.append(node("summary", "", data.title), head, ...this.parts(data, head));
    const drawn = data.charts ? this.charts.at(-1) : null;
    made.open = true;
    made.addEventListener("toggle", () => {
      if (made.open) drawn?.fit();  // the window may have another width now
    });
    addEventListener("beforeprint", () => { made.open = true; });
    this.folded.push(made);
    return made;
  }
}
