// What a run was told beside its numbers: alerts with their evidence, checklists, histograms, and all the rest.
import { chip, count, h, lasting, number } from "./dom.js";
import { drawBars } from "./charts.js";

const QUIET = new Set(["alert", "checklist", "histogram"]);
const MOST_LINES = 200;

export class Told {
  constructor() {
    this.alerts = section("Alerts", "alerts");
    this.checks = section("Checklist", "checks");
    this.histograms = section("Histograms", "histograms");
    this.rest = section("Events", "events");
  }

  show(runs) {
    const all = runs.flatMap((run) => run.events.map((event) => ({ ...event, run })));
    const many = runs.length > 1;
    const kinds = (kind) => all.filter((event) => event.kind === kind);
    const alerts = kinds("alert").filter((event) => event.alert && typeof event.alert === "object");
    keep(this.alerts, alerts, () => h("div", { class: "cards" }, alerts.map((event) => alertCard(event, many))), "No alert so far.");
    keep(this.checks, kinds("checklist"), () => checkTables(kinds("checklist"), many));
    keep(this.histograms, kinds("histogram"), () => h("div", { class: "cards" }, newest(kinds("histogram")).map((event) => histogram(event, many))));
    const rest = all.filter((event) => !QUIET.has(event.kind)).slice(-MOST_LINES).reverse();
    keep(this.rest, rest, () => eventTable(rest, many));
  }
}

function section(title, name) {
  return { element: h("section", { class: name, hidden: true, ariaLabel: title }), title, shown: -1 };
}

function keep(part, events, draw, nothing) {
  const key = events.map((event) => `${event.run.id} ${event.seconds} ${event.update}`).join();
  if (key === part.shown) return;
  part.shown = key;
  part.element.hidden = !events.length && !nothing;
  part.element.replaceChildren(h("h2", {}, part.title, events.length > 1 ? h("small", {}, count(events.length)) : ""),
    events.length ? draw() : h("p", { class: "soft" }, nothing ?? ""));
}

const runName = (event, many) => (many ? h("span", { class: "soft small" }, h("i", { class: "dot", style: `background:${event.run.colour}` }), event.run.name) : null);

function alertCard(event, many) {
  const alert = event.alert;
  const because = Object.entries(alert.because ?? {});
  const facts = [
    because.length ? ["because", h("ul", { class: "plain" }, because.map(([name, value]) => h("li", {}, `${name.replaceAll("_", " ")}: `, h("b", {}, number(value)))))] : null,
    place(alert.where) ? ["where", h("code", {}, place(alert.where))] : null,
    alert.fix ? ["try", alert.fix] : null,
    alert.snapshot ? ["continue from", h("code", {}, alert.snapshot)] : null,
    alert.folds?.length ? ["explains", alert.folds.join(", ")] : null,
  ].filter(Boolean);
  return h("article", { class: `card alert ${alert.severity}` },
    h("p", { class: "head" }, chip(alert.severity, `severity ${alert.severity}`), h("code", {}, alert.cause), runName(event, many)),
    h("h3", {}, alert.says), h("p", { class: "soft small" }, `update ${count(alert.update ?? event.update)}, after ${lasting(alert.seconds ?? event.seconds)}`),
    facts.length ? h("dl", { class: "facts" }, facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)])) : null);
}

function place(where) {
  if (!where) return "";
  return [where.file ? `${where.file}${where.line ? `:${where.line}` : ""}` : "", where.module, where.sample !== undefined && where.sample !== null ? `sample ${where.sample}` : ""].filter(Boolean).join(", ");
}

// A checklist is `items`: a list of {item, state: pass, fail or unknown, value, limit}.
const items = (event) => (Array.isArray(event.items) ? event.items.filter((each) => each && typeof each === "object") : []);

function checkTables(events, many) {
  const names = [...new Set(events.flatMap((event) => items(event).map((each) => String(each.item))))];
  return h("div", { class: "scroll", tabIndex: 0, role: "region", ariaLabel: "Checklist by epoch" }, h("table", {},
    h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Epoch"), names.map((name) => h("th", { scope: "col" }, name.replaceAll("-", " "))))),
    h("tbody", {}, [...events].reverse().map((event) => {
      const found = new Map(items(event).map((each) => [String(each.item), each]));
      return h("tr", {}, h("th", { scope: "row" }, event.epoch !== undefined ? count(event.epoch) : `update ${count(event.update)}`, " ", runName(event, many)),
        names.map((name) => h("td", {}, verdict(found.get(name)))));
    }))));
}

function verdict(item) {
  if (!item) return "–";
  const word = { pass: h("span", { class: "ok" }, "✓ pass"), fail: h("span", { class: "wrong" }, "✗ fail") }[item.state] ?? h("span", { class: "soft" }, String(item.state));
  const known = (value) => value !== undefined && value !== null;
  const says = [known(item.value) ? number(item.value) : "", known(item.limit) ? `limit ${number(item.limit)}` : ""].filter(Boolean).join(", ");
  return [word, item.state !== "unknown" && says ? h("span", { class: "sub" }, says) : ""];
}

function newest(events) {
  const last = new Map(events.map((event) => [`${event.run.id}\n${event.of}`, event]));
  return [...last.values()].slice(0, 60);
}

// A histogram is `of`, `edges` (one more than counts), `counts` and how many values were `not_finite`.
function histogram(event, many) {
  const { edges, counts } = event;
  const name = String(event.of ?? "histogram");
  const head = [h("h3", {}, name), h("p", { class: "soft small" }, `update ${count(event.at ?? event.update)} `, runName(event, many))];
  if (!Array.isArray(edges) || !Array.isArray(counts) || edges.length !== counts.length + 1) return h("article", { class: "card" }, head, h("p", {}, told(event)));
  const whole = counts.reduce((sum, each) => sum + each, 0);
  const top = counts.indexOf(Math.max(...counts));
  const says = `${count(whole)} values from ${number(edges[0])} to ${number(edges.at(-1))}; most (${number((100 * counts[top]) / (whole || 1))} %) lie between ${number(edges[top])} and ${number(edges[top + 1])}${event.not_finite ? `; ${count(event.not_finite)} more are not finite` : ""}`;
  const picture = h("div", { class: "picture low", role: "img", ariaLabel: `${name}: ${says}` });
  drawBars(picture, edges, counts, event.run.colour);
  return h("article", { class: "card" }, head, picture, h("p", { class: "small" }, says));
}

function eventTable(events, many) {
  return h("details", {}, h("summary", {}, `${count(events.length)} events`), h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, ["Update", "After", "Kind", "Says"].map((each) => h("th", { scope: "col" }, each)))),
    h("tbody", {}, events.map((event) => h("tr", {}, h("td", { class: "n" }, count(event.update ?? 0)), h("td", { class: "nowrap" }, lasting(event.seconds ?? 0)),
      h("td", {}, event.kind, " ", runName(event, many)), h("td", { class: "told" }, told(event))))))));
}

function told(event) {
  const { kind, update, seconds, run, ...rest } = event;
  return Object.entries(rest).filter(([, value]) => value !== "").map(([name, value]) => `${name}: ${typeof value === "object" ? JSON.stringify(value) : number(value)}`).join(", ").slice(0, 600);
}
