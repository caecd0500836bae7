// The list of runs: filters, rows that keep their place while they change, records beneath.
import { ask, chip, count, h, lasting, moment, number, stateChip } from "./dom.js";

const SEVERITIES = ["trip", "warning", "note"];

export class List {
  constructor(place, state, go) {
    this.place = place;
    this.state = state; // {find, tags: ["key: value"], only} as the address says
    this.go = go;
    this.rows = new Map();
    this.chosen = new Set();
    this.runs = [];
    this.build();
  }

  build() {
    const { state } = this;
    this.find = h("input", { type: "search", id: "find", value: state.find, placeholder: "name, tag or id", autocomplete: "off", spellcheck: false,
      oninput: () => { state.find = this.find.value; this.changed(); } });
    this.tag = h("select", { id: "tag", onchange: () => { if (this.tag.value) this.addTag(this.tag.value); } });
    this.only = h("select", { id: "only", onchange: () => { state.only = this.only.value; this.changed(); } },
      ["", "running", "silent", "ended", "failed", "with alerts"].map((each) => h("option", { value: each, selected: each === state.only }, each || "any")));
    this.tags = h("ul", { class: "chips", "aria-label": "tags that a run must have" });
    this.says = h("p", { class: "soft small", role: "status" });
    this.body = h("tbody");
    this.table = h("table", { class: "runs" },
      h("caption", { class: "hidden" }, "Runs, the newest first"),
      h("thead", {}, h("tr", {}, ["Compare", "Run", "Tags", "State", "Updates", "Last loss", "Alerts", "Began"].map((each) =>
        h("th", { scope: "col", class: ["Updates", "Last loss"].includes(each) ? "n" : "" }, each === "Compare" ? h("span", { class: "hidden" }, each) : each)))),
      this.body);
    this.empty = h("div", { class: "empty", hidden: true });
    this.compare = h("a", { class: "button first", href: "#/" });
    this.bar = h("div", { class: "bar", hidden: true },
      this.compare, h("button", { type: "button", onclick: () => { this.chosen.clear(); this.sync(); } }, "Choose none"));
    this.records = h("section", { class: "records", hidden: true });
    this.form = h("form", { class: "filters", role: "search", "aria-label": "Runs", onsubmit: (event) => event.preventDefault() },
      h("label", { class: "wide" }, "Text ", this.find), h("label", {}, "Tag ", this.tag), h("label", {}, "State ", this.only));
    this.place.replaceChildren(h("h1", {}, "Runs"), this.form, this.tags, this.says, this.bar,
      h("div", { class: "scroll" }, this.table), this.empty, this.records);
  }

  addTag(tag) {
    if (!this.state.tags.includes(tag)) this.state.tags.push(tag);
    this.changed();
  }

  changed() {
    this.go(this.state);
    this.show(this.runs);
  }

  show(runs) {
    this.runs = runs;
    const fresh = new Map();
    for (const run of runs) {
      const row = this.rows.get(run.id) ?? this.row(run);
      row.update(run);
      row.element.hidden = !this.fits(run);
      fresh.set(run.id, row);
    }
    this.place_(fresh);
    this.rows = fresh;
    this.offerTags();
    this.sync();
  }

  // Only what is new is moved, so that the focus stays where it is.
  place_(fresh) {
    for (const [id, row] of this.rows) if (!fresh.has(id)) row.element.remove();
    let at = this.body.firstElementChild;
    for (const row of fresh.values()) {
      if (row.element === at) at = at.nextElementSibling;
      else this.body.insertBefore(row.element, at);
    }
  }

  fits(run) {
    const { find, tags, only } = this.state;
    const pairs = Object.entries(run.tags).map(([name, value]) => `${name}: ${value}`);
    const text = [run.name, run.id, ...pairs].join("\n").toLowerCase();
    const state = only === "" || run.state === only || (only === "with alerts" && Object.keys(run.alerts).length > 0);
    return state && tags.every((tag) => pairs.includes(tag)) && find.toLowerCase().split(/\s+/).every((word) => text.includes(word));
  }

  row(run) {
    const box = h("input", { type: "checkbox", onchange: () => { box.checked ? this.chosen.add(run.id) : this.chosen.delete(run.id); this.sync(); } });
    const cells = Object.fromEntries(["run", "tags", "state", "updates", "loss", "alerts", "began"].map((name) =>
      [name, h("td", { class: ["updates", "loss"].includes(name) ? `n c-${name}` : `c-${name}` })]));
    const element = h("tr", {}, h("td", { class: "c-choose" }, h("label", { class: "target" }, box)), Object.values(cells));
    let shown = "";
    const update = (now) => {
      const text = JSON.stringify(now);
      if (text === shown) return;
      shown = text;
      box.ariaLabel = `compare ${now.name || now.id}`;
      fill(cells, now, (tag) => this.addTag(tag));
    };
    return { element, box, update };
  }

  offerTags() {
    const found = new Set(this.runs.flatMap((run) => Object.entries(run.tags).map(([name, value]) => `${name}: ${value}`)));
    const left = [...found].filter((tag) => !this.state.tags.includes(tag)).sort();
    if (this.offered !== left.join("\n")) {
      this.offered = left.join("\n");
      this.tag.replaceChildren(h("option", { value: "" }, left.length ? "any" : "none"), ...left.map((tag) => h("option", { value: tag }, tag)));
    }
    this.tags.replaceChildren(...this.state.tags.map((tag) => h("li", {}, h("button", { type: "button", class: "chip tag", ariaLabel: `no longer only ${tag}`,
      onclick: () => { this.state.tags = this.state.tags.filter((each) => each !== tag); this.changed(); this.tag.focus(); } }, tag, " ×"))));
    this.tags.hidden = !this.state.tags.length;
  }

  sync() {
    const shown = this.runs.filter((run) => this.fits(run)).length;
    const ids = this.runs.map((run) => run.id);
    this.chosen = new Set(ids.filter((id) => this.chosen.has(id)));
    for (const [id, row] of this.rows) row.box.checked = this.chosen.has(id);
    const text = shown === this.runs.length ? `${count(shown)} run${shown === 1 ? "" : "s"}` : `${count(shown)} of ${count(this.runs.length)} runs`;
    if (this.says.textContent !== text) this.says.textContent = text;
    this.bar.hidden = this.chosen.size === 0;
    this.compare.textContent = this.chosen.size === 1 ? "Open 1 run" : `Compare ${this.chosen.size} runs`;
    this.compare.href = `#/runs/${[...this.chosen].map(encodeURIComponent).join(",")}`;
    this.table.parentElement.hidden = shown === 0;
    this.form.hidden = this.says.hidden = this.runs.length === 0;
    this.empty.hidden = shown !== 0;
    if (shown === 0) this.empty.replaceChildren(...(this.runs.length ? nothingFits() : noRuns()));
  }

  async showRecords() {
    const records = await ask("/api/records");
    const text = JSON.stringify(records);
    if (text === this.recordsShown) return;
    this.recordsShown = text;
    this.records.hidden = records.length === 0;
    this.records.replaceChildren(h("h2", {}, "Records ", h("small", {}, "of netdyno tune and netdyno doctor")),
      h("div", { class: "scroll" }, h("table", {},
        h("thead", {}, h("tr", {}, ["Record", "Target", "Made", "Outcome"].map((each) => h("th", { scope: "col" }, each)))),
        h("tbody", {}, records.map(recordRow)))));
  }
}

function fill(cells, run, addTag) {
  cells.run.replaceChildren(h("a", { href: `#/runs/${encodeURIComponent(run.id)}`, class: "name" }, run.name || run.id), h("span", { class: "sub" }, run.id));
  cells.tags.replaceChildren(...Object.entries(run.tags).map(([name, value]) => h("button", { type: "button", class: "chip tag", title: `only runs with ${name}: ${value}`,
    onclick: () => addTag(`${name}: ${value}`) }, `${name}: ${value}`)));
  cells.state.replaceChildren(stateChip(run.state), run.says || run.broken ? h("span", { class: "sub clip", title: run.says || run.broken }, run.says || run.broken) : "");
  cells.updates.replaceChildren(label("updates"), count(run.updates), h("span", { class: "sub" }, run.seconds ? lasting(run.seconds) : ""));
  cells.loss.replaceChildren(label("loss"), run.loss_is ? h("strong", { class: "wrong" }, run.loss_is) : number(run.loss));
  const alerts = SEVERITIES.filter((each) => run.alerts[each]).map((each) => chip(`${run.alerts[each]} ${each}${run.alerts[each] > 1 ? "s" : ""}`, `severity ${each}`));
  cells.alerts.replaceChildren(...(alerts.length ? alerts : [h("span", { class: "soft" }, "none")]));
  cells.began.replaceChildren(moment(run.began_at));
}

// On a narrow page the head of the table is gone, and the number needs its name.
const label = (text) => h("span", { class: "label", "aria-hidden": "true" }, text);

function recordRow(record) {
  const gain = record.speedup ? `${number(record.speedup.middle)}× (${number(record.speedup.low)}–${number(record.speedup.high)})` : "";
  const says = record.broken ?? [record.finished ? "" : "not finished", record.tried ? `${record.kept} kept of ${record.tried} trials` : "", gain].filter(Boolean).join(", ");
  const name = record.broken ? record.id : h("a", { href: `/record?id=${encodeURIComponent(record.id)}` }, record.id);
  return h("tr", {}, h("th", { scope: "row" }, name), h("td", {}, record.target), h("td", { class: "nowrap" }, moment(record.made_at)), h("td", {}, says || "–"));
}

function nothingFits() {
  return [h("p", {}, "No run fits these filters.")];
}

function noRuns() {
  return [h("p", {}, "No run has been watched in this store yet. Two lines in a training loop make one:"),
    h("pre", { tabIndex: 0 }, 'with netdyno.watch(model, optimizer, run="first"):\n    for batch in loader: ...'),
    h("p", { class: "soft" }, "It appears here by itself.")];
}
