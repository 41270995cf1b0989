// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Text of the feed enters as text, and only if it differs.
export const byId = (id) => document.getElementById(id);

export function node(name, className = "", text = "") {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text) made.textContent = text;
  return made;
}

export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

export function bar(className = "bar") {
  const made = node("div", className);
  made.setAttribute("aria-hidden", "true");
  made.append(node("div"));
  return made;
}

export function setShare(made, share) {
  const width = `${Math.round(1000 * Math.max(0, Math.min(1, share))) / 10}%`;
  if (made.firstElementChild.style.width !== width) made.firstElementChild.style.width = width;
}

// One child of `parent` for each item: made once by `make(item)`, then refreshed by `refresh(child, item)`, in the order of the items.
export function keepChildren(parent, items, keyOf, make, refresh) {
  const known = parent.keptChildren ??= new Map(), wanted = new Set();
  let before = null;
  for (const item of items) {
    const key = keyOf(item);
    wanted.add(key);
    if (!known.has(key)) known.set(key, make(item));
    const child = known.get(key), expected = before ? before.nextSibling : parent.firstChild;
    if (child !== expected) parent.insertBefore(child, expected);
    refresh(child, item);
    before = child;
  }
  for (const [key, child] of known) {
    if (wanted.has(key)) continue;
    child.remove();
    known.delete(key);
  }
}
