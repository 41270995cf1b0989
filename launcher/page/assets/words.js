// SPDX-License-Identifier: Apache-2.0
// Numbers, times and sizes as people read them.
const whole = new Intl.NumberFormat("en-US", { maximumFractionDigits: 0 });
const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short" });
const dayOfYear = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const kDay = 86400;

export const count = (value) => whole.format(value);
export const percent = (share) => share > 0 && share < 5e-4 ? "< 0.1 %" : `${(100 * share).toFixed(share > 0 && share < 0.0995 ? 1 : 0)} %`;
export const clockTime = (unixSeconds) => isDate(unixSeconds) ? clock.format(new Date(unixSeconds * 1000)) : "";
export const plural = (number, one, many = `${one}s`) => `${count(number)} ${number === 1 ? one : many}`;

// A Date has a range of 275,000 years.
export function isDate(unixSeconds) {
  return typeof unixSeconds === "number" && !Number.isNaN(new Date(unixSeconds * 1000).getTime());
}

// The day is named where it is more than a day away, and the year where it is another one.
export function dateInWords(unixSeconds, now) {
  const date = new Date(unixSeconds * 1000), time = clockTime(unixSeconds).slice(0, 5);
  if (date.getFullYear() !== new Date(now * 1000).getFullYear()) return `on ${dayOfYear.format(date)} at ${time}`;
  return unixSeconds - now < kDay ? `at ${time}` : `on ${day.format(date)} at ${time}`;
}

// Four digits that count.
export function value(number) {
  if (number === null || !Number.isFinite(number)) return "not a number";
  const size = Math.abs(number);
  if (size !== 0 && (size < 1e-3 || size >= 1e7)) return number.toExponential(2).replace(/\.?0*e/, "e");
  if (size >= 1e4) return whole.format(number);
  return String(Number(number.toPrecision(4)));
}

function three(number) {
  return number.toFixed(number < 10 ? 2 : number < 100 ? 1 : 0);
}

export function duration(seconds) {
  if (seconds === 0) return "0 ms";
  if (seconds < 0.9995e-3) return `${three(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${three(seconds * 1e3)} ms`;
  if (seconds < 60) return `${three(seconds)} s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 60) return `${minutes} min ${Math.floor(seconds % 60)} s`;
  const hours = Math.floor(minutes / 60);
  return hours < 48 ? `${hours} h ${minutes % 60} min` : `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

// Without parts of a second.
export function about(seconds) {
  return seconds < 60 ? `${Math.floor(seconds)} s` : duration(seconds);
}

export function bytes(number) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let unit = 0;
  while (number >= 999.5 && unit + 1 < units.length) {
    number /= 1000;
    ++unit;
  }
  return `${unit ? three(number) : Math.round(number)} ${units[unit]}`;
}
