// SPDX-License-Identifier: Apache-2.0
// The data of a page that is a file: a job that has ended, or runs that are compared. Null on a live page.
import { byId } from "./dom.js";

export function stored() {
  const data = byId("stored");
  return data ? JSON.parse(data.textContent) : null;
}
