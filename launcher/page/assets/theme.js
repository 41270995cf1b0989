// SPDX-License-Identifier: Apache-2.0
// Colours of page.css for canvases, and the wishes of the reader.
const schemes = [matchMedia("(prefers-color-scheme: dark)"), matchMedia("print")];  // paper is light
export const reducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

export function color(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}

export function onColorsChanged(act) {
  for (const scheme of schemes) scheme.addEventListener("change", act);
}

const littleEndian = new Uint8Array(new Uint32Array([1]).buffer)[0] === 1;

// A colour #rrggbb as one pixel of ImageData.
export function pixelOf(hex) {
  const [red, green, blue] = [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  return (littleEndian ? (0xff << 24) | (blue << 16) | (green << 8) | red : (red << 24) | (green << 16) | (blue << 8) | 0xff) >>> 0;
}
