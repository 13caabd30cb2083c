"use strict";
(() => {
  const byId = (name) => document.getElementById(name);

  // ---- data: compressed JSON, unpacked once when it is asked for --------------------------------
  const unpacked = {};
  function data(name) {
    unpacked[name] ??= (async () => {
      const bytes = Uint8Array.from(atob(byId(name).textContent), (c) => c.charCodeAt(0));
      const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
      return JSON.parse(await new Response(stream).text());
    })();
    return unpacked[name];
  }

  // ---- long texts, when they are opened ---------------------------------------------------------
  document.addEventListener("toggle", async (event) => {
    const details = event.target;
    if (!details.open || !("text" in details.dataset)) return;
    const place = details.querySelector("pre");
    if (place.textContent) return;
    try {
      place.textContent = (await data("texts"))[Number(details.dataset.text)];
    } catch (error) {
      place.textContent = `This browser cannot unpack the text: ${error}`;
    }
  }, true);

  // ---- links open what they lead to --------------------------------------------------------------
  function reveal() {
    const target = location.hash && byId(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    if (target.closest(".hidden")) { search.value = ""; filter(); }
    for (let x = target; x; x = x.parentElement) if (x.tagName === "DETAILS") x.open = true;
    target.scrollIntoView({ block: "nearest" });
    const focused = target.tagName === "DETAILS" ? target.firstElementChild : target.querySelector("a");
    focused?.focus({ preventScroll: true });
  }
  addEventListener("hashchange", reveal);
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (link && link.getAttribute("href") === location.hash) reveal();
  });

  // ---- search --------------------------------------------------------------------------------------
  const search = byId("search");
  const searched = [...document.querySelectorAll("table.searched tbody tr, details.searched, .line.searched")];
  const text = new Map();
  function matches(element, words) {
    if (!text.has(element)) text.set(element, element.textContent.toLowerCase());
    return words.every((word) => text.get(element).includes(word));
  }
  function filter() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    let kernels = 0, total = 0;
    for (const element of searched) {
      const found = matches(element, words);
      element.classList.toggle("hidden", !found);
      if (element.matches("details.kernel")) { total += 1; kernels += found; }
    }
    byId("found").textContent = words.length ? `${kernels} of ${total} kernels` : "";
    timeline?.search(words);
  }
  search.addEventListener("input", filter);
  document.addEventListener("keydown", (event) => {
    if (event.key === "/" && !event.target.closest("input")) { event.preventDefault(); search.focus(); }
  });

  // ---- tables are sorted by a click on a heading ---------------------------------------------------
  const units = { k: 1e3, M: 1e6, G: 1e9, T: 1e12, us: 1e-6, ms: 1e-3, s: 1 };
  function value(cell) {
    const found = /^#?(-?[\d.]+)\s*(us|ms|k|M|G|T|s)?/.exec(cell.textContent);
    return found ? Number(found[1]) * (units[found[2]] ?? 1) : -Infinity;
  }
  function sort(heading) {
    const table = heading.closest("table"), column = heading.cellIndex, body = table.tBodies[0];
    const down = heading.getAttribute("aria-sort") !== "descending";
    for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
    heading.setAttribute("aria-sort", down ? "descending" : "ascending");
    const numbers = heading.classList.contains("number"), sign = down ? -1 : 1;
    const key = (row) => (numbers ? value(row.cells[column]) : row.cells[column].textContent);
    const order = (a, b) => (a < b ? -sign : a > b ? sign : 0);
    body.append(...[...body.rows].sort((a, b) => order(key(a), key(b))));
  }
  for (const heading of document.querySelectorAll("table.searched th")) {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    button.addEventListener("click", () => sort(heading));
    heading.append(button);
  }

  // ---- the time line -------------------------------------------------------------------------------
  class Timeline {
    static row = 22;
    static scale = 24;  // the height of the axis
    static title = 20;  // that of the name of a thread

    constructor(canvas, { threads, rows, names, kinds, events }) {
      Object.assign(this, { canvas, threads, rows, names, kinds, events, words: [], chosen: -1 });
      this.end = Math.max(1e-3, ...threads.map(([, , , end]) => end));
      this.all();
      for (const [name, , begin, end] of threads.length > 1 ? threads : []) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = name;
        button.addEventListener("click", () => this.show(begin, Math.max(end - begin, 1e-3)));
        byId("threads").append(button);
      }
      new ResizeObserver(() => this.draw()).observe(canvas);
      matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
      canvas.addEventListener("keydown", (event) => this.key(event));
      canvas.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
      canvas.addEventListener("pointerdown", (event) => this.drag(event));
      byId("zoom-in").addEventListener("click", () => this.zoom(0.5));
      byId("zoom-out").addEventListener("click", () => this.zoom(2));
      byId("zoom-all").addEventListener("click", () => this.all());
    }
    all() { this.from = 0; this.span = this.end; this.draw(); }
    search(words) { this.words = words; this.draw(); }
    get width() { return this.canvas.clientWidth; }
    top(row) {  // a line above each thread has its name
      const above = this.threads.filter(([, first]) => first <= row).length;
      return Timeline.scale + row * Timeline.row + above * Timeline.title;
    }
    x(time) { return ((time - this.from) / this.span) * this.width; }

    draw() {
      const { canvas } = this, ratio = devicePixelRatio || 1;
      const height = this.top(this.rows);
      canvas.style.height = `${height}px`;
      canvas.width = Math.round(this.width * ratio);
      canvas.height = Math.round(height * ratio);
      const style = getComputedStyle(document.documentElement);
      const colour = (name) => style.getPropertyValue(name).trim();
      const pen = canvas.getContext("2d");
      pen.scale(ratio, ratio);
      pen.font = "12px ui-monospace, Menlo, Consolas, monospace";
      pen.textBaseline = "middle";
      this.axis(pen, colour, height);
      pen.fillStyle = colour("--ink");
      for (const [name, first] of this.threads) pen.fillText(name, 4, this.top(first) - Timeline.title / 2);
      const names = this.names.map((n) => !this.words.length || this.words.every((w) => n.toLowerCase().includes(w)));
      for (let k = 0; k < this.events.length; k++) this.bar(pen, colour, k, names);
    }
    axis(pen, colour, height) {
      const step = [1, 2, 5, 10].map((f) => f * 10 ** Math.floor(Math.log10((this.span * 90) / this.width)))
        .find((s) => (s / this.span) * this.width >= 90);
      pen.fillStyle = colour("--quiet");
      pen.strokeStyle = colour("--line");
      for (let n = Math.ceil(this.from / step); n * step <= this.from + this.span; n++) {
        const x = this.x(n * step);
        pen.beginPath(); pen.moveTo(x, 0); pen.lineTo(x, height); pen.stroke();
        pen.fillText(duration(n * step), x + 4, Timeline.scale / 2);
      }
    }
    bar(pen, colour, k, names) {
      const [row, begin, took, name, kind] = this.events[k];
      const left = Math.max(-2, this.x(begin)), right = Math.min(this.width + 2, this.x(begin + took));
      if (right < 0 || left > this.width) return;
      const top = this.top(row), width = Math.max(1, right - left - 0.5);
      pen.globalAlpha = names[name] ? 1 : 0.15;
      pen.fillStyle = colour(`--bar-${kind % 8}`);
      pen.fillRect(left, top + 1, width, Timeline.row - 2);
      if (width > 24) {
        pen.save();
        pen.beginPath(); pen.rect(left, top, width, Timeline.row); pen.clip();
        pen.fillStyle = colour("--bar-ink");
        pen.fillText(this.names[name], Math.max(left, 0) + 4, top + Timeline.row / 2);
        pen.restore();
      }
      pen.globalAlpha = 1;
      if (k !== this.chosen) return;
      pen.strokeStyle = colour("--ink");
      pen.lineWidth = 2;
      pen.strokeRect(left, top + 1, Math.max(2, width), Timeline.row - 2);
      pen.lineWidth = 1;
    }

    zoom(factor, at = null) {
      const chosen = this.events[this.chosen];
      const middle = at ?? (chosen ? chosen[1] + chosen[2] / 2 : this.from + this.span / 2);
      const span = Math.min(this.end, Math.max(this.end * 1e-6, this.span * factor));
      this.show(middle - ((middle - this.from) * span) / this.span, span);
    }
    show(from, span = this.span) {
      this.span = span;
      this.from = Math.min(Math.max(0, from), this.end - span);
      this.draw();
    }
    wheel(event) {
      const across = Math.abs(event.deltaX) > Math.abs(event.deltaY);
      if (!across && !event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      if (across) this.show(this.from + (event.deltaX / this.width) * this.span);
      else this.zoom(2 ** (event.deltaY / 100), this.from + (event.offsetX / this.width) * this.span);
    }
    drag(event) {
      const start = event.clientX, from = this.from;
      const move = (e) => this.show(from - ((e.clientX - start) / this.width) * this.span);
      this.canvas.setPointerCapture(event.pointerId);
      this.canvas.addEventListener("pointermove", move);
      this.canvas.addEventListener("pointerup", (e) => {
        this.canvas.removeEventListener("pointermove", move);
        if (Math.abs(e.clientX - start) < 4) this.choose(this.at(e.offsetX, e.offsetY));
      }, { once: true });
    }
    at(x, y) {
      const inside = (row) => y >= this.top(row) && y < this.top(row) + Timeline.row;
      const near = (e) => Math.max(this.x(e[1]) - x, x - Math.max(this.x(e[1]) + 2, this.x(e[1] + e[2])));
      return this.events.findIndex((e) => inside(e[0]) && near(e) <= 1);
    }
    choose(k) {
      this.chosen = k;
      const place = byId("event"), e = this.events[k];
      if (!e) { place.textContent = "No event is chosen."; this.draw(); return; }
      const [, begin, took, name, kind, facts, about] = e;
      place.textContent = `${this.names[name]} (${this.kinds[kind]}): ${duration(took)} from ${duration(begin)}`
        + (facts ? `; ${facts}` : "") + (about ? " " : "");
      if (about) {
        const link = document.createElement("a");
        link.href = `#${about}`;
        link.textContent = "to the kernel";
        place.append(link);
      }
      const left = this.x(begin), right = this.x(begin + took);
      if (right < 0 || left > this.width) this.show(begin + took / 2 - this.span / 2);
      else this.draw();
    }
    key(event) {
      const now = this.events[this.chosen];
      const beside = (step) => {
        let k = this.chosen + step;
        while (now && this.events[k] && this.events[k][0] !== now[0]) k += step;
        return now ? k : 0;
      };
      const vertical = (step) => {
        const wanted = (now?.[0] ?? 0) + step, middle = now ? now[1] + now[2] / 2 : 0;
        let best = -1, least = Infinity;
        this.events.forEach((e, k) => {
          const away = Math.max(e[1] - middle, middle - e[1] - e[2], 0);
          if (e[0] === wanted && away < least) { best = k; least = away; }
        });
        return best;
      };
      const to = {
        ArrowRight: () => beside(1), ArrowLeft: () => beside(-1),
        ArrowDown: () => vertical(1), ArrowUp: () => vertical(-1),
      }[event.key];
      if (to) { const k = to(); if (this.events[k]) this.choose(k); }
      else if (event.key === "+" || event.key === "=") this.zoom(0.5);
      else if (event.key === "-") this.zoom(2);
      else if (event.key === "0") this.all();
      else if (event.key === "Enter" && now?.[6]) location.hash = now[6];
      else return;
      event.preventDefault();
    }
  }
  function duration(us) {
    const [factor, unit] = us >= 1e6 ? [1e-6, "s"] : us >= 1e3 ? [1e-3, "ms"] : us >= 1 || !us ? [1, "µs"] : [1e3, "ns"];
    return `${Number((us * factor).toPrecision(4))} ${unit}`;
  }

  let timeline = null;
  const canvas = byId("canvas");
  if (canvas) {
    new IntersectionObserver(async (seen, observer) => {
      if (!seen.some((x) => x.isIntersecting)) return;
      observer.disconnect();
      timeline = new Timeline(canvas, await data("events"));
      if (search.value) filter();
    }).observe(canvas);
  }
  reveal();
})();
