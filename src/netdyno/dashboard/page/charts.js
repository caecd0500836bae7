// Charts: their points as they arrive, their picture, and the same in words and as a table.
import { ask, count, h, number } from "./dom.js";

const MOST_HELD = 4000; // points of a line that grew by itself; then it is asked for anew, thinned out
const MOST_ASKED = 40; // series in one question, so that its address stays short
const ROWS = 24; // of the table beside a chart
const CONFIG = { displayModeBar: false, responsive: true, doubleClick: "reset" };
export const COLOURS = Array.from({ length: 10 }, (_, at) => `var(--line-${at})`); // dark and light ones: style.css
const DASHES = ["solid", "dash", "dot", "dashdot"];

let library = null;
function plotly() {
  library ??= new Promise((resolve, reject) => {
    const script = h("script", { src: "/static/plotly.min.js", onload: () => resolve(window.Plotly), onerror: () => { library = null; reject(new Error("the chart library did not load")); } });
    document.head.append(script);
  });
  return library;
}
export const warm = () => plotly().catch(() => {});

// The points of one series of one run, as far as they have travelled.
export class Line {
  constructor(run, name) {
    this.run = run; // {id, name, colour}
    this.name = name;
    this.reset();
  }

  reset() {
    this.next = 0;
    this.filled = false;
  }

  // A piece that goes on where we are is put at the end, one from the beginning replaces everything.
  take(piece) {
    const { next } = this;
    if (piece.start !== 0 && piece.start !== next) return this.reset();
    if (piece.start === 0) Object.assign(this, { updates: [], seconds: [], values: [], smooth: [], odd: [], oddCount: 0, low: null, high: null, last: null, lastIs: "" });
    for (const part of ["updates", "seconds", "values", "smooth"]) for (const value of piece[part] ?? []) this[part].push(value);
    this.odd = this.odd.concat(piece.odd).slice(0, 400);
    this.oddCount += piece.count_odd;
    if (piece.low && (!this.low || piece.low[1] < this.low[1])) this.low = piece.low;
    if (piece.high && (!this.high || piece.high[1] > this.high[1])) this.high = piece.high;
    if (piece.next > piece.start) [this.last, this.lastIs] = [piece.last, piece.last_is];
    this.next = piece.next;
    this.filled = true;
    if (this.values.length > MOST_HELD) this.next = 0;
  }

  says() {
    if (!this.filled) return "…";
    if (!this.values.length) return "no points yet";
    const at = ([update, value]) => `${number(value)} at ${count(update)}`;
    const odd = this.oddCount ? `${count(this.oddCount)} not finite (the first ${this.odd[0][2]} at ${count(this.odd[0][0])})` : "";
    return [this.last ? `last ${at(this.last)}` : `last ${this.lastIs}`, this.low ? `lowest ${at(this.low)}` : "", this.high ? `highest ${at(this.high)}` : "", odd].filter(Boolean).join(" · ");
  }
}

export class Chart {
  constructor(title, lines, settings) {
    this.title = title;
    this.lines = lines;
    this.settings = settings; // {axis, log, smooth}, shared by all charts
    this.seen = false;
    this.stale = true;
    this.picture = h("div", { class: "picture", role: "img" });
    this.legend = h("ul", { class: "legend" });
    this.note = h("p", { class: "soft small", hidden: true });
    this.numbers = h("details", { ontoggle: () => this.table() }, h("summary", {}, "Numbers", h("span", { class: "hidden" }, ` of ${title}`)));
    this.element = h("article", { class: "card chart", ariaLabel: title }, h("h3", { title }, title), this.picture, this.legend, this.note, this.numbers);
    this.texts = lines.map((line) => {
      const says = h("span", { class: "says" });
      this.legend.append(h("li", {}, h("i", { class: `dot ${DASHES[line.dash ?? 0]}`, style: `background:${line.colour}` }), h("span", { class: "who" }, line.label), " ", says));
      return says;
    });
  }

  async draw() {
    this.stale = true; // until it is done: what fails on the way is drawn at the next beat
    this.lines.forEach((line, at) => { this.texts[at].textContent = line.says(); });
    this.picture.ariaLabel = `${this.title}: ${this.lines.map((line) => `${line.label} ${line.says()}`).join("; ")}`.slice(0, 1000);
    this.say();
    this.table();
    const library = await plotly();
    await library.react(this.picture, this.lines.filter((line) => line.filled).flatMap((line) => traces(line, this.settings)), layout(this), CONFIG);
    this.stale = false;
  }

  say() {
    const hidden = this.settings.log && this.lines.some((line) => line.low && line.low[1] <= 0);
    this.note.hidden = !hidden;
    if (hidden) this.note.textContent = "Values of zero and below have no place on a log scale and are left out.";
  }

  table() {
    if (!this.numbers.open) return;
    const rows = this.lines.flatMap((line) => spread(line).map((at) => h("tr", {}, h("td", {}, line.label), h("td", { class: "n" }, count(line.updates[at])),
      h("td", { class: "n" }, number(line.seconds[at])), h("td", { class: "n" }, line.values[at] === null ? nameOf(line, at) : number(line.values[at])))));
    const held = h("div", { class: "scroll short", tabIndex: 0, role: "region", ariaLabel: `numbers of ${this.title}` }, h("table", {},
      h("thead", {}, h("tr", {}, ["Line", "Update", "Seconds", "Value"].map((each, at) => h("th", { scope: "col", class: at ? "n" : "" }, each)))), h("tbody", {}, rows)));
    const top = this.numbers.querySelector(".scroll")?.scrollTop ?? 0;
    this.numbers.replaceChildren(this.numbers.firstElementChild, held);
    held.scrollTop = top;
  }

  close() {
    window.Plotly?.purge(this.picture);
  }
}

function spread(line) {
  const length = line.filled ? line.values.length : 0;
  const step = Math.max(1, (length - 1) / (ROWS - 1));
  return [...new Set(Array.from({ length: Math.min(ROWS, length) }, (_, at) => Math.min(length - 1, Math.round(at * step))))];
}

const nameOf = (line, at) => line.odd.find(([update]) => update === line.updates[at])?.[2] ?? "not finite";

function traces(line, { axis, smooth }) {
  const x = axis === "time" ? line.seconds : line.updates;
  // A mean of nearly all there is would say nothing.
  const smoothed = smooth > 1 && line.next >= 8 * smooth && line.smooth.length === line.values.length;
  const name = plain(line.label);
  const color = painted(line.colour);
  const common = { x, mode: line.values.length < 3 ? "lines+markers" : "lines", type: "scatter", name, hovertemplate: "%{y:.5g}<extra>%{fullData.name}</extra>" };
  const drawn = [{ ...common, y: line.values, opacity: smoothed ? 0.3 : 1, hoverinfo: smoothed ? "skip" : undefined, hovertemplate: smoothed ? null : common.hovertemplate, line: { color, width: smoothed ? 1 : 1.6, dash: DASHES[line.dash ?? 0] } }];
  if (smoothed) drawn.push({ ...common, y: line.smooth, line: { color, width: 2.2, dash: DASHES[line.dash ?? 0] } });
  if (line.odd.length) {
    drawn.push({ x: line.odd.map((each) => each[axis === "time" ? 1 : 0]), y: line.odd.map(() => 0.04), yaxis: "y2", mode: "markers", type: "scatter", name,
      text: line.odd.map((each) => each[2]), hovertemplate: "%{text}<extra>%{fullData.name}</extra>", marker: { symbol: "x-thin", size: 8, line: { width: 1.6, color: colours().bad } } });
  }
  return drawn;
}

// The chart library knows no variables of the style sheet.
const painted = (colour) => getComputedStyle(document.documentElement).getPropertyValue(colour.slice(4, -1)).trim();

// The library reads a few marks in names; ours are only text.
const plain = (text) => text.slice(0, 60).replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  return { ink: of("--soft"), line: of("--line"), faint: of("--faint"), bad: of("--bad"), panel: of("--panel"), text: of("--ink") };
}

function layout({ settings, picture }) {
  const { ink, line, bad, panel, text } = colours();
  const axis = { gridcolor: line, linecolor: line, zerolinecolor: line, tickcolor: line, automargin: true, fixedrange: false };
  const narrow = picture.clientWidth < 420;
  return {
    autosize: true, margin: { l: 44, r: 10, t: 8, b: 36 }, showlegend: false, separators: ".\u2009", paper_bgcolor: "transparent", plot_bgcolor: "transparent",
    font: { color: ink, size: 11, family: getComputedStyle(document.body).fontFamily }, hovermode: "x unified", uirevision: `${settings.axis} ${settings.log}`,
    hoverlabel: { bgcolor: panel, bordercolor: line, font: { color: text, size: 12 } },
    xaxis: { ...axis, title: { text: settings.axis === "time" ? "seconds" : "update", standoff: 4 }, nticks: narrow ? 5 : 8, separatethousands: true },
    yaxis: { ...axis, type: settings.log ? "log" : "linear", nticks: 6, exponentformat: "power", dtick: undefined },
    yaxis2: { overlaying: "y", range: [0, 1], visible: false, fixedrange: true, linecolor: bad },
    dragmode: window.matchMedia("(pointer: coarse)").matches ? false : "zoom",
  };
}

export async function drawBars(place, edges, counts, colour) {
  const middle = counts.map((_, at) => (edges[at] + edges[at + 1]) / 2);
  const bar = { type: "bar", x: middle, y: counts, width: counts.map((_, at) => edges[at + 1] - edges[at]), marker: { color: painted(colour), line: { width: 0 } }, hovertemplate: "%{x:.4g}: %{y}<extra></extra>" };
  const shape = layout({ settings: { axis: "value", log: false }, picture: place });
  shape.xaxis = { ...shape.xaxis, title: undefined };
  shape.hovermode = "closest";
  const library = await plotly();
  await library.react(place, [bar], { ...shape, margin: { l: 40, r: 8, t: 6, b: 26 } }, CONFIG);
}

// All charts of a page: which are in sight, and what they still need.
export class Charts {
  constructor(settings) {
    this.settings = settings;
    this.charts = [];
    this.lines = new Map();
    this.sight = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: "300px" });
    this.busy = null;
  }

  // Lines are kept when the charts around them change: no point travels twice.
  line(run, name) {
    const key = `${run.id}\n${name}`;
    if (!this.lines.has(key)) this.lines.set(key, new Line(run, name));
    return this.lines.get(key);
  }

  show(charts) {
    for (const chart of this.charts) { this.sight.unobserve(chart.element); chart.close(); }
    this.charts = charts;
    for (const chart of charts) this.sight.observe(chart.element);
  }

  seen(entries) {
    for (const entry of entries) {
      const chart = this.charts.find((each) => each.element === entry.target);
      if (chart) chart.seen = entry.isIntersecting;
    }
    this.refresh();
  }

  redraw() {
    for (const chart of this.charts) if (chart.seen) chart.draw();
  }

  anew() {
    for (const line of this.lines.values()) line.reset();
    return this.refresh();
  }

  // One round at a time; who asks meanwhile gets another one after it.
  async refresh() {
    if (this.busy) { this.again = true; return this.busy; }
    this.busy = this.round().finally(() => { this.busy = null; });
    await this.busy;
    if (this.again) { this.again = false; await this.refresh(); }
  }

  async round() {
    const visible = this.charts.filter((chart) => chart.seen);
    const wanted = [...new Set(visible.flatMap((chart) => chart.lines))].filter((line) => line.alive() || !line.filled).map((line) => line.source);
    const unique = [...new Set(wanted)];
    const smooth = this.settings.smooth;
    for (let at = 0; at < unique.length; at += MOST_ASKED) {
      const part = unique.slice(at, at + MOST_ASKED);
      const { pieces } = await ask("/api/points", { ask: JSON.stringify(part.map((line) => [line.run.id, line.name, line.next])), smooth });
      if (smooth !== this.settings.smooth) return; // these means are no longer wanted
      for (const piece of pieces) {
        const line = this.lines.get(`${piece.run}\n${piece.name}`);
        if (!line) continue;
        const news = !line.filled || piece.next > piece.start;
        line.take(piece);
        if (news) for (const chart of this.charts) if (chart.lines.some((each) => each.source === line)) chart.stale = true;
      }
      await this.drawStale();
    }
    await this.drawStale();
  }

  async drawStale() {
    for (const chart of this.charts.filter((each) => each.seen && each.stale && each.lines.some((line) => line.filled))) {
      await chart.draw();
      await new Promise((resolve) => setTimeout(resolve)); // each is seen as soon as it is drawn
    }
  }
}

// A line as one chart shows it: the same points under another colour and name.
export function view(line, { label, colour, dash, alive }) {
  return Object.assign(Object.create(line), { source: line, label, colour, dash, alive });
}
