"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const number = (value) => (value === null ? "-" : value.toLocaleString("en-US"));
  const charts = new Map(); // the host element -> the function that draws it anew in the colours of now
  const STEP = 200;

  // -- small tools: text only ever goes in as text ---------------------------------------------------------

  function element(tag, text = "", attributes = {}) {
    const made = document.createElement(tag);
    made.textContent = text;
    for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
    return made;
  }

  function colour(name) {
    return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  }

  // -- time: days into as many bars as can be seen -----------------------------------------------------------

  const UNIT_DAY = 86400000;

  function unitFor(days) {
    const dated = days.filter((day) => day !== "undated");
    if (!dated.length) return "day";
    const span = (Date.parse(dated[dated.length - 1]) - Date.parse(dated[0])) / UNIT_DAY + 1;
    return span <= 92 ? "day" : span <= 730 ? "week" : span <= 366 * 40 ? "month" : "year";
  }

  function bucketOf(day, unit) {
    if (day === "undated" || unit === "day") return day;
    if (unit === "month") return day.slice(0, 7);
    if (unit === "year") return day.slice(0, 4);
    const at = new Date(Date.parse(day));
    at.setUTCDate(at.getUTCDate() - ((at.getUTCDay() + 6) % 7)); // the week's Monday
    return at.toISOString().slice(0, 10);
  }

  function following(bucket, unit) {
    if (unit === "year") return String(Number(bucket) + 1).padStart(4, "0");
    const at = new Date(Date.parse(unit === "month" ? `${bucket}-01` : bucket));
    if (unit === "month") at.setUTCMonth(at.getUTCMonth() + 1);
    else at.setUTCDate(at.getUTCDate() + (unit === "week" ? 7 : 1));
    return at.toISOString().slice(0, unit === "month" ? 7 : 10);
  }

  /** Every bucket from the first to the last, the silent ones too, and what has no date behind them. */
  function buckets(days, unit) {
    const dated = days.filter((day) => day !== "undated");
    const all = [];
    if (dated.length) {
      const last = bucketOf(dated[dated.length - 1], unit);
      for (let at = bucketOf(dated[0], unit); all.length < 20000; at = following(at, unit)) {
        all.push(at);
        if (at === last) break;
      }
    }
    return days.includes("undated") ? [...all, "undated"] : all;
  }

  /** Events of some records by bucket and source. `wanted`: which routes. */
  function series(records, wanted, named) {
    const used = new Set();
    for (const record of records)
      for (let i = 0; i < record.h.length; i += 3) if (wanted(data.routes[record.h[i + 1]])) used.add(record.h[i]);
    const days = data.days.filter((_, at) => used.has(at));
    const unit = unitFor(days);
    const labels = buckets(days, unit);
    const place = new Map(labels.map((label, at) => [label, at]));
    const rows = new Map();
    for (const record of records)
      for (let i = 0; i < record.h.length; i += 3) {
        const route = data.routes[record.h[i + 1]];
        if (!wanted(route)) continue;
        const name = named(route);
        if (!rows.has(name)) rows.set(name, new Array(labels.length).fill(0));
        rows.get(name)[place.get(bucketOf(data.days[record.h[i]], unit))] += record.h[i + 2];
      }
    return { unit, labels, rows: new Map([...rows].sort(([a], [b]) => (a < b ? -1 : 1))) };
  }

  // -- charts ------------------------------------------------------------------------------------------------

  const sourceNames = [...new Set(data.routes.map((route) => route.source))].sort();

  function sourceColour(name) {
    if (name.endsWith(" (maintenance)")) return colour("--faint"); // apart from what counts
    const at = sourceNames.findIndex((source) => name === source || name.startsWith(`${source} (`));
    return colour(`--c${Math.max(at, 0) % 8}`);
  }

  function draw(host, make, label) {
    charts.get(host)?.chart?.destroy();
    const canvas = host.querySelector("canvas");
    canvas.setAttribute("aria-label", label);
    Chart.defaults.color = colour("--quiet");
    Chart.defaults.borderColor = colour("--line");
    Chart.defaults.font.family = getComputedStyle(document.body).fontFamily;
    const chart = new Chart(canvas, make());
    charts.set(host, { chart, again: () => draw(host, make, label) });
  }

  function forget(host) {
    for (const [at, { chart }] of charts)
      if (host.contains(at)) {
        chart.destroy();
        charts.delete(at);
      }
    host.replaceChildren();
  }

  /** Bars by source over time, and the same figures as a table. */
  function timeline(host, found, what) {
    forget(host);
    if (!found.rows.size) {
      host.append(element("p", `No ${what} in what the log covers.`));
      return;
    }
    const box = element("div", "", { class: "chart" });
    box.append(element("canvas", "", { role: "img" }));
    host.append(box);
    const totals = [...found.rows].map(([name, counts]) => `${name} ${number(counts.reduce((a, b) => a + b, 0))}`);
    const per = `each bar a ${found.unit}`;
    draw(
      box,
      () => ({
        type: "bar",
        data: {
          labels: found.labels,
          datasets: [...found.rows].map(([name, counts]) => ({
            label: name, data: counts, backgroundColor: sourceColour(name), borderColor: colour("--back"),
            borderWidth: found.labels.length > 120 ? 0 : { top: 1 }, categoryPercentage: 0.9, barPercentage: 1, maxBarThickness: 48,
          })),
        },
        options: {
          animation: false, maintainAspectRatio: false, interaction: { mode: "index", intersect: false },
          scales: {
            x: { stacked: true, grid: { display: false }, ticks: { maxRotation: 0, autoSkipPadding: 16 } },
            y: { stacked: true, beginAtZero: true, ticks: { precision: 0 }, title: { display: true, text: `${what}, ${per}` } },
          },
          plugins: {
            legend: { position: "bottom", labels: { boxWidth: 14 } },
            tooltip: { filter: (item) => item.raw > 0, callbacks: { label: (item) => `${item.dataset.label}: ${number(item.raw)}` } },
          },
        },
      }),
      `${what} over time, ${per}, ${found.labels[0]} to ${found.labels[found.labels.length - 1]}: ${totals.join(", ")}. The same figures stand in the table below.`
    );
    const details = element("details");
    details.append(element("summary", "The same as a table"));
    details.addEventListener("toggle", () => details.open && details.childElementCount < 2 && details.append(figures(found, what)));
    host.append(details);
  }

  function figures(found, what) {
    const box = element("div", "", { class: "scroll", tabindex: "0", role: "region", "aria-label": `${what} as a table` });
    const table = element("table");
    const head = element("tr");
    const names = [...found.rows.keys()];
    for (const name of [found.unit, ...names]) head.append(element("th", name, { scope: "col", ...(name === found.unit ? {} : { class: "number" }) }));
    table.createTHead().append(head);
    const body = table.createTBody();
    found.labels.forEach((label, at) => {
      const counts = names.map((name) => found.rows.get(name)[at]);
      if (!counts.some((count) => count)) return;
      const row = element("tr");
      row.append(element("th", label, { scope: "row", class: "date" }));
      for (const count of counts) row.append(element("td", number(count), { class: "number" }));
      body.append(row);
    });
    box.append(table);
    return box;
  }

  function costs() {
    const host = byId("cost-chart");
    const groups = [
      ["always on or placed, no use here", (r) => r.uses === 0, "--mark", "triangle", 7],
      ["always on or placed, used", (r) => r.uses > 0, "--c0", "circle", 5],
    ];
    const placed = data.records.filter((r) => r.exposures > 0 || r.resident);
    if (!placed.length) {
      host.replaceWith(element("p", "No record was placed into a context, and none is known to be always on."));
      return;
    }
    const x = (uses) => Math.log10(1 + uses);
    const most = Math.max(...placed.map((r) => r.uses), 1);
    const ticks = [0, 1, 2, 5, 10, 30, 100, 300, 1000, 3000, 10000, 30000, 100000, 300000, 1000000].filter((n) => n <= most);
    draw(
      host,
      () => ({
        type: "scatter",
        data: {
          datasets: groups.map(([label, holds, tint, pointStyle, radius]) => ({
            label, pointStyle, radius, hoverRadius: radius + 2, backgroundColor: colour(tint), borderColor: colour("--back"),
            data: placed.filter(holds).map((r) => ({ x: x(r.uses), y: r.tokens, record: r })),
          })),
        },
        options: {
          animation: false, maintainAspectRatio: false, clip: false,
          onClick: (_, hits) => hits.length && show(groups.map(([, holds]) => placed.filter(holds))[hits[0].datasetIndex][hits[0].index]),
          scales: {
            x: {
              min: -0.05, max: x(most) + 0.05, title: { display: true, text: "uses" },
              afterBuildTicks: (axis) => { axis.ticks = ticks.map((n) => ({ value: x(n) })); },
              ticks: { callback: (value) => number(Math.round(10 ** value - 1)), autoSkip: false, maxRotation: 0 },
            },
            y: { beginAtZero: true, title: { display: true, text: "estimated exposure tokens" }, ticks: { callback: number } },
          },
          plugins: {
            legend: { position: "bottom", labels: { usePointStyle: true } },
            tooltip: { callbacks: { label: ({ raw }) => `${raw.record.name}: ${number(raw.record.uses)} uses, ${raw.record.tokensText} tokens` } },
          },
        },
      }),
      `${placed.length} always-on or placed records by uses and estimated exposure tokens; ${placed.filter((r) => r.uses === 0).length} of them without a use. The resident review below lists them in order.`
    );
  }

  // -- one record --------------------------------------------------------------------------------------------

  const recordSeries = (record) =>
    series([record], () => true, (route) => route.source + (route.sort === "maintenance" ? " (maintenance)" : route.sort === "exposures" ? " (exposure)" : ""));

  function show(record) {
    byId("record-name").textContent = record.name;
    byId("record-evidence").textContent = record.evidence;
    byId("record-facts-list").replaceChildren(
      ...data.factNames.map((name, at) => {
        const box = element("div");
        box.append(element("dt", name), element("dd", record.facts[at]));
        return box;
      })
    );
    byId("record").showModal();
    byId("record").scrollTop = 0;
    timeline(byId("record-time-chart"), recordSeries(record), "events"); // drawn once there is room for it
  }

  // -- the table ---------------------------------------------------------------------------------------------

  const columns = [
    { key: "name", label: "Record", first: 1 },
    { key: "uses", label: "Uses", number: true, first: -1 },
    { key: "usedAt", label: "Last used", shown: (r) => r.used, class: "date", first: -1 },
    { key: "by", label: "By source", shown: (r) => r.by.replace(/ (?=[\d,]+(, |$))/g, "\u00a0"), class: "sources", first: 1 },
    { key: "exposures", label: "Exposures", number: true, first: -1 },
    { key: "each", label: "Tokens latest", number: true, first: -1 },
    { key: "tokens", label: "Tokens total", shown: (r) => r.tokensText, number: true, first: -1 },
    { key: "resident", label: "Always on", shown: (r) => ({ true: "yes", false: "no", null: "unknown" })[r.resident], first: -1 },
    { key: "status", label: "File", first: 1 },
    { key: "age", label: "Age, days", number: true, first: -1 },
  ].filter(({ key }) => !["resident", "age"].includes(key) || data.records.some((r) => r[key] !== null)); // nothing known
  const state = { column: null, direction: 1, shown: STEP, rows: data.records };

  function compare(a, b) {
    const one = a[state.column.key], two = b[state.column.key];
    if (one === two) return a.at - b.at;
    if (one === null || one === "") return 1; // what is not known comes last, either way
    if (two === null || two === "") return -1;
    return (one < two ? -1 : 1) * state.direction;
  }

  function row(record) {
    const made = document.createElement("tr");
    for (const column of columns) {
      const shown = column.shown ? column.shown(record) : record[column.key];
      if (column.key === "name") {
        const head = element("th", "", { scope: "row" });
        head.append(element("button", record.name, { type: "button", class: "name", "data-record": record.at }));
        made.append(head);
      } else {
        const kind = column.number ? "number" : column.class;
        made.append(element("td", typeof shown === "number" || shown === null ? number(shown) : shown || "-", kind ? { class: kind } : {}));
      }
    }
    return made;
  }

  const which = {
    read: (r) => r.uses > 0, unread: (r) => r.unread, resident: (r) => r.resident === true,
    placed: (r) => r.exposures > 0, missing: (r) => r.status === "missing",
  };

  function filter() {
    const words = byId("search").value.normalize("NFC").toLowerCase().split(/\s+/).filter(Boolean);
    const kind = byId("kind").value, chosen = which[byId("which").value];
    state.rows = data.records.filter(
      (r) => (!kind || r.kind === kind) && (!chosen || chosen(r)) && words.every((word) => r.search.includes(word))
    );
    if (state.column) state.rows.sort(compare);
    state.shown = STEP;
    fill();
  }

  function fill(from = 0) {
    const body = byId("table").tBodies[0];
    const rows = state.rows.slice(from, state.shown).map(row);
    if (from) body.append(...rows);
    else body.replaceChildren(...rows);
    const all = state.rows.length, seen = Math.min(state.shown, all);
    byId("count").textContent = `${number(all)} of ${number(data.records.length)} records${seen < all ? `, ${number(seen)} shown` : ""}`;
    for (const button of [byId("more"), byId("every")]) button.hidden = seen >= all;
    byId("every").textContent = `Show all ${number(all)}`;
  }

  function sortBy(column) {
    state.direction = state.column === column ? -state.direction : column.first;
    state.column = column;
    [...byId("table").tHead.rows[0].cells].forEach((cell, at) =>
      columns[at] === column ? cell.setAttribute("aria-sort", state.direction > 0 ? "ascending" : "descending") : cell.removeAttribute("aria-sort")
    );
    filter();
  }

  function table() {
    data.records.forEach((record, at) => {
      record.at = at;
      record.search = record.name.toLowerCase();
    });
    for (const column of columns) {
      const head = element("th", "", { scope: "col", ...(column.number ? { class: "number" } : {}) });
      const button = element("button", column.label, { type: "button" });
      button.addEventListener("click", () => sortBy(column));
      head.append(button);
      byId("table").tHead.rows[0].append(head);
    }
    for (const kind of [...new Set(data.records.map((r) => r.kind))].sort()) byId("kind").append(element("option", kind, { value: kind }));
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    byId("filters").addEventListener("input", filter);
    byId("more").addEventListener("click", () => { const from = state.shown; state.shown += STEP; fill(from); });
    byId("every").addEventListener("click", () => { const from = state.shown; state.shown = Infinity; fill(from); });
    byId("all-unread")?.addEventListener("click", () => {
      byId("filters").reset();
      byId("which").value = "unread";
      filter();
      byId("records").scrollIntoView();
      byId("table-box").focus({ preventScroll: true });
    });
    filter();
  }

  // -- the page ----------------------------------------------------------------------------------------------

  const redraw = () => { for (const { again } of [...charts.values()]) again(); };

  byId("theme").addEventListener("change", (event) => {
    if (event.target.value) document.documentElement.dataset.theme = event.target.value;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  let before;
  addEventListener("beforeprint", () => { // paper is light
    before = document.documentElement.dataset.theme;
    document.documentElement.dataset.theme = "light";
    redraw();
  });
  addEventListener("afterprint", () => {
    if (before) document.documentElement.dataset.theme = before;
    else delete document.documentElement.dataset.theme;
    redraw();
  });
  document.addEventListener("click", (event) => {
    const button = event.target.closest("[data-record]");
    if (button) show(data.records[Number(button.dataset.record)]);
  });
  byId("close").addEventListener("click", () => byId("record").close());
  byId("record").addEventListener("close", () => forget(byId("record-time-chart")));

  if (byId("single")) timeline(byId("single"), recordSeries(data.records[0]), "events");
  if (byId("table")) {
    const over = () => {
      const chosen = byId("time-sort");
      const named = { uses: "uses", exposures: "resident exposures", maintenance: "maintenance reads" }[chosen.value];
      timeline(byId("time-chart"), series(data.records, (route) => route.sort === chosen.value, (route) => route.source), named);
    };
    byId("time-sort").addEventListener("change", over);
    table();
    over();
    costs();
  }
})();
