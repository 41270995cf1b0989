// SPDX-License-Identifier: Apache-2.0
// The look of a line of a comparison: own runs are solid, published ones dashed with hollow dots, the ideal is dotted.
import { color } from "./theme.js";

const kColors = 7, kPublished = 4;
const kDashes = [null, [9, 4], [3, 3], [10, 3, 2, 3]];
const kSvg = "http://www.w3.org/2000/svg";

function colorName({ kind, index }) {
  if (kind === "own") return `run-${index % kColors}`;
  return kind === "published" ? `published-${index % kPublished}` : "soft";
}

export function lineColor(line) {
  return color(colorName(line));
}

export function dashes({ kind, index }) {
  if (kind === "own") return kDashes[Math.floor(index / kColors) % kDashes.length];
  return kind === "published" ? [6, 4] : [1, 4];
}

export const lineWidth = ({ kind }) => ({ own: 2.2, published: 1.5 })[kind] ?? 1.2;

// A dot of a published line is hollow.
export function drawHollow(_graph, _name, canvas, x, y, stroke, radius) {
  canvas.beginPath();
  canvas.arc(x, y, radius, 0, 2 * Math.PI);
  canvas.fillStyle = color("paper");
  canvas.fill();
  canvas.strokeStyle = stroke;
  canvas.lineWidth = 1.6;
  canvas.setLineDash([]);
  canvas.stroke();
}

// A piece of the line, for names.
export function lineKey(line) {
  const made = document.createElementNS(kSvg, "svg"), path = document.createElementNS(kSvg, "path");
  made.setAttribute("class", `line-key ${line.kind}`);
  made.setAttribute("viewBox", "0 0 24 10");
  made.setAttribute("aria-hidden", "true");
  path.setAttribute("d", "M1 5H23");
  path.setAttribute("stroke-width", lineWidth(line));
  path.setAttribute("stroke-dasharray", dashes(line)?.join(" ") ?? "none");
  made.append(path);
  if (line.kind === "published") {
    const dot = document.createElementNS(kSvg, "circle");
    for (const [name, number] of [["cx", 12], ["cy", 5], ["r", 3]]) dot.setAttribute(name, number);
    made.append(dot);
  }
  made.style.stroke = `var(--${colorName(line)})`;
  return made;
}
