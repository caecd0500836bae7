// The page: what the address says, which view it means, and the beat that keeps it fresh.
import { ask } from "./dom.js";
import { List } from "./list.js";
import { Detail } from "./run.js";
import { warm } from "./charts.js";

const BEAT_MS = 1000;
const LIST_MS = 2000;
const RECORDS_MS = 10000;
const main = document.getElementById("main");
const status = document.getElementById("status");
let shown = null; // the view that stands
let lines = [];
let asked = { list: 0, records: 0 };

function read() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  const given = new URLSearchParams(query);
  const [kind, ids = ""] = path.split("/");
  if (kind === "runs" && ids) {
    return { view: "detail", ids: ids.split(",").filter(Boolean).map(decode), axis: given.get("axis") === "time" ? "time" : "update", log: given.has("log"), smooth: Number(given.get("smooth")) || 1,
      find: given.get("find") ?? "", hidden: given.getAll("hide"), together: given.has("together") };
  }
  return { view: "list", find: given.get("find") ?? "", tags: given.getAll("tag"), only: given.get("only") ?? "" };
}

function decode(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

function address(state) {
  const query = new URLSearchParams();
  if (state.view === "list") {
    if (state.find) query.set("find", state.find);
    for (const tag of state.tags) query.append("tag", tag);
    if (state.only) query.set("only", state.only);
  } else {
    if (state.axis === "time") query.set("axis", "time");
    if (state.log) query.set("log", "1");
    if (state.smooth > 1) query.set("smooth", state.smooth);
    if (state.find) query.set("find", state.find);
    for (const group of state.hidden) query.append("hide", group);
    if (state.together) query.set("together", "1");
  }
  const path = state.view === "list" ? "#/" : `#/runs/${state.ids.map(encodeURIComponent).join(",")}`;
  return query.size ? `${path}?${query}` : path;
}

// The address follows what is set; a new view is a new place to go back from.
function go(state, opens = false) {
  if (!opens) return history.replaceState(null, "", address(state));
  location.hash = state.ids?.length === 0 ? "#/" : address(state);
}

async function open() {
  shown?.close?.();
  const state = read();
  main.replaceChildren();
  document.title = "netdyno";
  const view = state.view === "list" ? new List(main, state, go) : new Detail(main, state, go);
  shown = view;
  if (state.view === "detail") warm();
  asked = { list: 0, records: 0 };
  await beat();
  document.documentElement.dataset.ready = "yes";
  setTimeout(warm, 100); // the chart library, while somebody reads the list
}

async function beat() {
  const view = shown;
  try {
    const opening = view instanceof Detail && !view.opened ? (view.opened = view.open()) : null;
    if (Date.now() - asked.list >= LIST_MS) {
      asked.list = Date.now();
      const answer = await ask("/api/runs");
      lines = answer.runs;
      document.getElementById("store").textContent = answer.store;
      document.getElementById("store").title = answer.store;
    }
    await opening;
    if (view !== shown) return;
    view.show(lines);
    if (view instanceof Detail) await (view.alive() ? view.tick() : view.charts.refresh());
    if (view instanceof List && Date.now() - asked.records >= RECORDS_MS) {
      asked.records = Date.now();
      await view.showRecords();
    }
    say(lines.some((line) => line.state === "running") ? "live" : "");
  } catch (error) {
    console.warn(error);
    say("not reachable; trying again");
  }
}

function say(text) {
  if (status.textContent !== text) status.textContent = text;
  status.dataset.says = text;
}

async function keep() {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, BEAT_MS));
    if (!document.hidden) await beat();
  }
}

addEventListener("hashchange", async () => {
  await open();
  main.focus({ preventScroll: true });
  scrollTo(0, 0);
});
document.getElementById("skip").addEventListener("click", (event) => { event.preventDefault(); main.focus(); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => shown?.charts?.redraw());
open().then(keep);
