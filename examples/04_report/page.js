// SPDX-License-Identifier: Apache-2.0
// Shows the values of a chart at the pointer, or, with the arrow keys, at the points one after the other. All text goes in as
// text. The page is whole without this.
"use strict";

// The point of a line nearest to x; both are shares of the plot's width. Points are in order of x.
function nearest(points, x) {
  let low = 0, high = points.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < x) low = middle; else high = middle;
  }
  return Math.abs(points[low][0] - x) <= Math.abs(points[high][0] - x) ? points[low] : points[high];
}

function element(parent, name, text) {
  const made = parent.appendChild(document.createElement(name));
  made.className = text;
  made.hidden = true;
  return made;
}

// Of all lines what lies at the x of the nearest point; lines without a point there would only confuse.
function values(lines, x) {
  const all = lines.map((line) => ({ line, point: nearest(line.points, x) }));
  const at = all.reduce((best, one) => Math.abs(one.point[0] - x) < Math.abs(best.point[0] - x) ? one : best).point[0];
  const shown = all.filter(({ point }) => Math.abs(point[0] - at) < 0.02);
  shown.sort((left, right) => right.point[1] - left.point[1]);
  return { at, shown };
}

function enliven(area) {
  const lines = JSON.parse(area.dataset.lines);
  const guide = element(area, "div", "guide"), tip = element(area, "div", "tip");
  const stops = [...new Set(lines.flatMap((line) => line.points.map((point) => point[0])))].sort((a, b) => a - b);
  let at = -1;

  function show(x) {
    const found = values(lines, x);
    at = stops.indexOf(found.at);
    guide.style.left = `${found.at * 100}%`;
    tip.replaceChildren(...found.shown.map(({ line, point }) => {
      const row = document.createElement("div"), name = document.createElement("b");
      row.className = line.look;
      name.textContent = line.name;
      row.append(name, " " + point[2]);
      return row;
    }));
    guide.hidden = tip.hidden = false;
    // Beside the guide, on the side that has room; never out of the plot.
    const width = area.clientWidth, left = found.at * width + (found.at < 0.5 ? 10 : -10 - tip.offsetWidth);
    tip.style.left = `${Math.max(0, Math.min(left, width - tip.offsetWidth))}px`;
  }

  function hide() {
    guide.hidden = tip.hidden = true;
  }

  function follow(event) {
    const box = area.getBoundingClientRect();
    if (box.width > 0) show((event.clientX - box.left) / box.width);
  }

  area.addEventListener("pointermove", follow);
  area.addEventListener("pointerdown", follow);
  area.addEventListener("pointerleave", hide);
  area.addEventListener("blur", hide);
  area.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (event.key === "Escape") hide();
    if (!way) return;
    event.preventDefault();
    show(stops[Math.max(0, Math.min(stops.length - 1, at + way))]);
  });
}

const areas = document.querySelectorAll(".area");
areas.forEach(enliven);
document.documentElement.dataset.charts = areas.length;
