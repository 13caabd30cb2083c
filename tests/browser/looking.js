// What can be asked of a page in a browser: its width, its contrast, what has the focus.
"use strict";
window.looking = (() => {
  // Contrast as WCAG 2 defines it.
  const parse = (colour) => {
    const parts = colour.match(/[\d.]+/g).map(Number);
    return parts.length < 4 ? [...parts, 1] : parts;
  };
  const over = (a, b) => [0, 1, 2].map((k) => a[k] * a[3] + b[k] * (1 - a[3])).concat(1);
  const channel = (v) => (v / 255 <= 0.03928 ? v / 3294.6 : ((v / 255 + 0.055) / 1.055) ** 2.4);
  const light = ([r, g, b]) => 0.2126 * channel(r) + 0.7152 * channel(g) + 0.0722 * channel(b);
  const ratio = (ink, paper) => {
    const [more, less] = [light(over(ink, paper)), light(paper)].sort((p, q) => q - p);
    return (more + 0.05) / (less + 0.05);
  };

  // What lies behind an element; at last the window, which is light or dark.
  function behind(element) {
    const dark = matchMedia("(prefers-color-scheme: dark)").matches;
    const layers = [];
    for (let x = element; x; x = x.parentElement) {
      layers.push(parse(getComputedStyle(x).backgroundColor));
    }
    const below = dark ? [18, 18, 18, 1] : [255, 255, 255, 1];
    return layers.reverse().reduce((under, layer) => over(layer, under), below);
  }

  // The elements with text that can be seen.
  function texts() {
    const found = new Set();
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const seen = element.checkVisibility({ checkOpacity: true, checkVisibilityCSS: true });
      const data = element.closest("script, style, noscript, template");
      if (walker.currentNode.data.trim() && seen && !data) found.add(element);
    }
    return found;
  }

  // Colours that a script draws with: --bar-ink on --bar-0, --bar-1, ...
  function bars() {
    const root = getComputedStyle(document.documentElement);
    const colour = (name) => {
      const text = root.getPropertyValue(name).trim();
      return text && [1, 3, 5].map((k) => parseInt(text.slice(k, k + 2), 16)).concat(1);
    };
    const low = [];
    for (let k = 0; colour(`--bar-${k}`); k++) {
      if (ratio(colour("--bar-ink"), colour(`--bar-${k}`)) < 4.5) low.push(`bars of kind ${k}`);
    }
    return low;
  }

  // Texts with a contrast below 4.5, or 3 for large ones (level AA). Text in a plan can lie on any of
  // its boxes.
  function lowContrast() {
    const low = new Set(bars());
    const note = (element, ink, paper, least) => {
      const got = ratio(ink, paper);
      if (got >= least) return;
      const kind = `${element.tagName}.${element.getAttribute("class") ?? ""}`;
      low.add(`${got.toFixed(2)} ${kind} ${element.textContent.trim().slice(0, 40)}`);
    };
    for (const element of texts()) {
      const style = getComputedStyle(element), size = parseFloat(style.fontSize);
      const plan = element.closest("svg");
      if (!plan) {
        const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
        note(element, parse(style.color), behind(element), large ? 3 : 4.5);
      } else if (element.tagName === "text") {
        for (const box of plan.querySelectorAll(".paper, .kernel, .call, .value")) {
          note(element, parse(style.fill), parse(getComputedStyle(box).fill), 4.5);
        }
      }
    }
    return [...low];
  }

  // How much wider than the window the page is, and some elements that reach beyond it.
  function tooWide() {
    const wide = document.documentElement.scrollWidth - innerWidth;
    if (wide <= 0) return [];
    const beyond = [...document.querySelectorAll("body *")]
      .filter((x) => x.getBoundingClientRect().right > innerWidth + 1)
      .map((x) => `${x.tagName}.${x.className} ${x.textContent.trim().slice(0, 30)}`);
    return [`${wide} px`, ...beyond.slice(0, 5)];
  }

  // What has the focus; whether it can be seen, and is marked.
  function focused() {
    const element = document.activeElement;
    if (!element || element === document.body) return null;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    return {
      tag: element.tagName.toLowerCase(),
      name: element.getAttribute("href") ?? element.id,
      shown: box.width > 0 && box.height > 0 && style.opacity > 0,
      marked: style.outlineStyle !== "none" || style.boxShadow !== "none",
    };
  }

  return { lowContrast, tooWide, focused };
})();
