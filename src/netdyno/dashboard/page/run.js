// One run, or several beside each other: facts, alerts, charts by group, and what shapes them.
import { ask, count, h, lasting, moment, stateChip } from "./dom.js";
import { Chart, Charts, COLOURS, view } from "./charts.js";
import { Told } from "./events.js";

const MOST_TOGETHER = 20; // lines that an eye still tells apart in one chart
const FIRST = ["loss", "evaluation", "learning_rate", "gradient_norm", "update_ratio", "activation", "phase", "memory"];
const SMOOTH = [1, 10, 50, 200, 1000];

export class Detail {
  constructor(place, state, go) {
    this.place = place;
    this.state = state; // {ids, axis, log, smooth, find, hidden, together} as the address says
    this.go = go;
    this.runs = [];
    this.charts = new Charts(state);
    this.told = new Told();
    this.build();
  }

  build() {
    const { state } = this;
    this.title = h("h1", {});
    this.cards = h("div", { class: "facts-of" });
    this.add = h("select", { id: "add", onchange: () => { if (this.add.value) this.go({ ...state, ids: [...state.ids, this.add.value] }, true); } });
    this.groups = h("fieldset", { class: "groups" }, h("legend", {}, "Series"));
    this.find = h("input", { type: "search", value: state.find, placeholder: "part of a name", spellcheck: false, autocomplete: "off", oninput: () => this.set({ find: this.find.value }, true) });
    const axis = h("select", { onchange: () => this.set({ axis: axis.value }) }, ["update", "time"].map((each) => h("option", { value: each, selected: state.axis === each }, each)));
    const smooth = h("select", { onchange: () => this.set({ smooth: Number(smooth.value) }) }, SMOOTH.map((each) => h("option", { value: each, selected: state.smooth === each }, each === 1 ? "off" : `mean of ${count(each)} points`)));
    const log = h("input", { type: "checkbox", checked: state.log, onchange: () => this.set({ log: log.checked }) });
    this.together = h("input", { type: "checkbox", checked: state.together, onchange: () => this.set({ together: this.together.checked }, true) });
    this.controls = h("form", { class: "filters", ariaLabel: "Charts", onsubmit: (event) => event.preventDefault() },
      h("label", {}, "Over ", axis), h("label", {}, "Smooth ", smooth), h("label", { class: "check" }, log, " Log scale"),
      h("label", { class: "check" }, this.together, " One chart per group"), h("label", { class: "wide" }, "Find series ", this.find), h("label", {}, "Compare with ", this.add));
    this.grid = h("div", { class: "series" });
    this.place.replaceChildren(h("p", { class: "back" }, h("a", { href: "#/" }, "← All runs")), this.title, this.cards, this.told.alerts.element,
      h("section", { ariaLabel: "Charts" }, h("h2", {}, "Charts"), this.controls, this.groups, this.grid),
      this.told.checks.element, this.told.histograms.element, this.told.rest.element);
  }

  async open() {
    const found = await Promise.all(this.state.ids.map((id) => ask("/api/run", { run: id }).catch(() => null)));
    this.runs = this.state.ids.map((id, at) => ({ id, at, name: found[at]?.info.name || id, info: found[at]?.info, series: found[at]?.series ?? [], colour: COLOURS[at % COLOURS.length], events: [], read: 0 }));
    this.missing = this.runs.filter((run) => !run.info);
    this.runs = this.runs.filter((run) => run.info);
    const same = this.runs.some((run, at) => this.runs.some((other, there) => there !== at && other.name === run.name));
    for (const run of this.runs) run.label = same ? `${run.name} (${run.id.slice(-6)})` : run.name;
    this.title.textContent = this.runs.length === 1 ? this.runs[0].name : this.runs.length ? `${this.runs.length} runs beside each other` : "There is no such run";
    document.title = `${this.title.textContent} · netdyno`;
    this.layOut();
    await this.events();
  }

  // What the list says of each run: its state lives there.
  show(lines) {
    this.lines = new Map(lines.map((line) => [line.id, line]));
    const text = JSON.stringify(this.runs.map((run) => this.lines.get(run.id)));
    if (text === this.shown || !this.title.textContent) return;
    this.shown = text;
    this.cards.replaceChildren(...this.runs.map((run) => this.factsOf(run)));
    const left = lines.filter((line) => !this.state.ids.includes(line.id));
    this.add.replaceChildren(h("option", { value: "" }, left.length ? "another run …" : "no other run"), ...left.map((line) => h("option", { value: line.id }, `${line.name || line.id} (${moment(line.began_at)})`)));
  }

  factsOf(run) {
    const line = this.lines.get(run.id) ?? { state: "silent", updates: 0, seconds: 0 };
    const { info } = run;
    const many = this.runs.length > 1;
    const settings = Object.entries(info.settings ?? {}).map(([name, value]) => `${name} = ${value}`);
    const facts = [["began", moment(info.began_at)], ["script", info.script], ["device", info.device], ["machine", info.machine], ["torch", info.torch], ["settings", settings.join(", ")],
      ["budget", `${100 * (info.budget ?? 0)} %`]].filter(([, value]) => value);
    return h("article", { class: "card run", ariaLabel: run.label },
      h("p", { class: "head" }, many ? h("i", { class: "dot", style: `background:${run.colour}` }) : null, many ? h("a", { class: "name", href: `#/runs/${encodeURIComponent(run.id)}` }, run.name) : null,
        stateChip(line.state), h("span", {}, `${count(line.updates)} updates in ${lasting(line.seconds)}`),
        many ? h("button", { type: "button", class: "close", ariaLabel: `leave ${run.label} out`, onclick: () => this.go({ ...this.state, ids: this.state.ids.filter((id) => id !== run.id) }, true) }, "×") : null),
      line.says ? h("p", { class: line.state === "failed" ? "wrong" : "" }, line.says) : null,
      h("ul", { class: "chips" }, Object.entries(info.tags ?? {}).map(([name, value]) => h("li", { class: "chip" }, `${name}: ${value}`))),
      h("details", { open: false }, h("summary", {}, "About", h("span", { class: "hidden" }, ` ${run.label}`)), h("dl", { class: "facts" }, h("dt", {}, "id"), h("dd", {}, h("code", {}, run.id)), facts.map(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]))));
  }

  set(change, layOut = false) {
    Object.assign(this.state, change);
    this.go(this.state);
    if (layOut) this.layOut();
    else if ("smooth" in change) this.charts.anew();
    else this.charts.redraw();
  }

  // Charts by group, those that people look at first in front.
  layOut() {
    const names = [...new Set(this.runs.flatMap((run) => run.series))];
    const groups = new Map();
    for (const name of names.sort((one, other) => one.localeCompare(other, "en", { numeric: true }))) {
      const group = name.split("/")[0];
      groups.set(group, [...(groups.get(group) ?? []), name]);
    }
    const order = (group) => { const at = FIRST.findIndex((first) => group.startsWith(first)); return at < 0 ? FIRST.length : at; };
    // Series that stand alone share the first rows; a row for each would be mostly air.
    const sorted = [...groups].sort(([one, first], [other, second]) => (first.length > 1) - (second.length > 1) || order(one) - order(other) || one.localeCompare(other));
    this.offer(sorted);
    const made = [];
    const parts = sorted.filter(([group]) => !this.state.hidden.includes(group)).map(([group, all]) => {
      const fit = all.filter((name) => name.toLowerCase().includes(this.state.find.toLowerCase()));
      if (!fit.length) return null;
      const charts = this.state.together && fit.length > 1 ? [this.joined(group, fit)] : fit.map((name) => this.single(name));
      made.push(...charts);
      const cut = this.state.together && fit.length > MOST_TOGETHER ? h("p", { class: "soft small" }, `The first ${MOST_TOGETHER} of ${fit.length} series; “Find series” narrows them.`) : null;
      return h("section", { class: "group", ariaLabel: group }, all.length > 1 ? h("h3", { class: "grouped" }, group, h("small", {}, `${fit.length} series`)) : null, cut, h("div", { class: "cards" }, charts.map((chart) => chart.element)));
    }).filter(Boolean);
    this.grid.replaceChildren(...(parts.length ? runOn(parts) : [h("p", { class: "soft" }, names.length ? "No series fits." : "No points yet.")]));
    this.charts.show(made);
  }

  offer(sorted) {
    const focused = document.activeElement?.value;
    const boxes = sorted.map(([group, names]) => {
      const box = h("input", { type: "checkbox", value: group, checked: !this.state.hidden.includes(group),
        onchange: () => this.set({ hidden: box.checked ? this.state.hidden.filter((each) => each !== group) : [...this.state.hidden, group] }, true) });
      return h("label", { class: "check" }, box, ` ${group}`, names.length > 1 ? h("span", { class: "soft" }, ` ${names.length}`) : "");
    });
    const within = this.groups.contains(document.activeElement);
    this.groups.replaceChildren(this.groups.firstElementChild, ...boxes);
    if (within) [...this.groups.querySelectorAll("input")].find((box) => box.value === focused)?.focus();
    this.groups.hidden = sorted.length === 0;
  }

  single(name) {
    const having = this.runs.filter((run) => run.series.includes(name));
    return new Chart(name, having.map((run) => this.view(run, name, this.runs.length > 1 ? run.label : "", run.colour, Math.floor(run.at / COLOURS.length))), this.state);
  }

  joined(group, names) {
    const lines = names.slice(0, MOST_TOGETHER).flatMap((name, at) => this.runs.filter((run) => run.series.includes(name)).map((run) => {
      const short = name.slice(group.length + 1) || name;
      return this.view(run, name, this.runs.length > 1 ? `${short} · ${run.label}` : short, COLOURS[at % COLOURS.length], this.runs.length > 1 ? run.at % 4 : Math.floor(at / COLOURS.length));
    }));
    return new Chart(group, lines, this.state);
  }

  view(run, name, label, colour, dash) {
    return view(this.charts.line(run, name), { label, colour, dash, alive: () => ["running", "silent"].includes(this.lines?.get(run.id)?.state ?? "running") || !run.settled });
  }

  // Once a second: what has been written since.
  async tick() {
    await Promise.all([this.charts.refresh(), this.events()]);
    for (const run of this.runs) {
      const alive = ["running", "silent"].includes(this.lines?.get(run.id)?.state ?? "running");
      if (alive) await this.look(run);
      run.settled = !alive; // once more after the end, for what its last second held
    }
  }

  async look(run) {
    if (Date.now() - (run.looked ?? 0) < 5000) return; // new series are rare
    run.looked = Date.now();
    const { series } = await ask("/api/run", { run: run.id });
    if (series.join("\n") === run.series.join("\n")) return;
    run.series = series;
    this.layOut();
  }

  async events() {
    await Promise.all(this.runs.filter((run) => !run.settled).map(async (run) => {
      const { events, next } = await ask("/api/events", { run: run.id, start: run.read });
      run.read = next;
      run.events.push(...events);
    }));
    this.told.show(this.runs);
  }

  alive() {
    return this.runs.some((run) => !run.settled);
  }

  close() {
    this.charts.show([]);
    this.charts.sight.disconnect();
  }
}

// Groups of one chart share a row; a line of their own for each would be mostly air.
function runOn(parts) {
  const rows = [];
  for (const part of parts) {
    const alone = !part.querySelector("h3.grouped");
    const last = rows.at(-1);
    if (alone && last?.dataset.alone) last.querySelector(".cards").append(...part.querySelector(".cards").children);
    else { if (alone) part.dataset.alone = "yes"; rows.push(part); }
  }
  return rows;
}
