// Small words for making elements, asking the server, and writing numbers. Text is only ever set as text.

export function h(tag, props = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (name === "class") made.className = value;
    else if (name in made && name !== "list" && name !== "form") made[name] = value;
    else made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return made;
}

export async function ask(path, params = {}) {
  const query = new URLSearchParams(params).toString();
  const answer = await fetch(query ? `${path}?${query}` : path, { headers: { accept: "application/json" } });
  if (!answer.ok) throw new Error(`${answer.status}: ${await answer.text()}`);
  return answer.json();
}

const thin = "\u2009"; // between thousands, as in all our reports

export function count(value) {
  return Math.round(value).toString().replace(/\B(?=(\d{3})+$)/g, thin);
}

export function number(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value !== "number") return String(value);
  if (Number.isInteger(value) && Math.abs(value) < 1e7) return value < 0 ? `-${count(-value)}` : count(value);
  const size = Math.abs(value);
  if (size !== 0 && (size < 1e-3 || size >= 1e6)) return Number(value.toPrecision(4)).toExponential().replace("e+", "e");
  return String(Number(value.toPrecision(4)));
}

export function lasting(seconds) {
  if (seconds < 60) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${Math.round(seconds % 60)} s`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}

export function moment(text) {
  const at = new Date(text);
  if (!text || Number.isNaN(at.getTime())) return text || "–";
  const two = (part) => String(part).padStart(2, "0");
  return `${at.getFullYear()}-${two(at.getMonth() + 1)}-${two(at.getDate())} ${two(at.getHours())}:${two(at.getMinutes())}`;
}

export function chip(text, kind = "") {
  return h("span", { class: `chip ${kind}`, title: text }, text);
}

// A state has a word, never only a colour.
export function stateChip(state) {
  return chip(state, `state ${["running", "failed", "broken", "silent", "stopped"].includes(state) ? state : "ended"}`);
}
