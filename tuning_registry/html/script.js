"use strict";
(() => {
  const all = (selector, from = document) => [...from.querySelectorAll(selector)];
  const one = (selector, from = document) => from.querySelector(selector);

  // Dark or light, whatever the system prefers.
  const root = document.documentElement;
  one("#theme").onclick = () => {
    const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
    root.dataset.theme = dark ? "light" : "dark";
  };

  // The filter: rows of every view carry the number of their entry and its verdict.
  const box = one(".filters");
  const field = one("#filter");
  const boxes = all(".filters input[type=checkbox]");
  const rows = all(".f").map((row) => ({ row, entry: +row.dataset.e }));
  const texts = [];
  const verdicts = [];
  for (const row of all("details.f")) {
    texts[row.dataset.e] = one(".full", row).textContent.toLowerCase();
    verdicts[row.dataset.e] = row.dataset.v;
  }
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    const wanted = new Set(boxes.filter((b) => b.checked).map((b) => b.value));
    const shown = texts.map((text, entry) => wanted.has(verdicts[entry]) && words.every((word) => text.includes(word)));
    for (const { row, entry } of rows) row.hidden = !shown[entry];
    const count = shown.filter(Boolean).length;
    one("#count").textContent = count === texts.length ? "" : `${count} of ${texts.length} entries`;
  };
  if (texts.length) {
    box.hidden = false;
    box.oninput = filter;
  }

  // Sorting: a heading becomes a button. Numbers are compared as numbers, and a second press reverses the order.
  const value = (row, column) => {
    const cell = row.children[column];
    const text = cell.dataset.o ?? cell.textContent.trim();
    return text !== "" && !isNaN(text) ? +text : text;
  };
  const compare = (a, b) => (typeof a === typeof b ? (a < b ? -1 : +(a > b)) : typeof a === "number" ? -1 : 1);
  const sort = (table, head) => {
    const heads = [...head.parentNode.children];
    const column = heads.indexOf(head);
    const down = head.ariaSort ? head.ariaSort === "ascending" : typeof value(table.tBodies[0].rows[0], column) === "number";
    for (const other of heads) other.removeAttribute("aria-sort");
    head.ariaSort = down ? "descending" : "ascending";
    const sorted = [...table.tBodies[0].rows].map((row) => [value(row, column), row]);
    sorted.sort((a, b) => (down ? compare(b[0], a[0]) : compare(a[0], b[0])));
    table.tBodies[0].append(...sorted.map(([, row]) => row));
  };
  for (const table of all("table.sortable")) {
    for (const head of all("thead th[data-sort]", table)) {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...head.childNodes);
      button.onclick = () => sort(table, head);
      head.append(button);
    }
  }

  // Links lead into closed details, and paper has no closed ones.
  const open = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (target && target.tagName === "DETAILS") {
      target.hidden = false;
      target.open = true;
      target.scrollIntoView();
    }
  };
  addEventListener("hashchange", open);
  open();
  const opened = new Set();
  addEventListener("beforeprint", () => {
    for (const details of all("details:not([open])")) {
      opened.add(details);
      details.open = true;
    }
  });
  addEventListener("afterprint", () => {
    opened.forEach((details) => (details.open = false));
    opened.clear();
  });

  // The heat map under the pointer: whose cell it is, and which config.
  const heat = one("table.heat");
  if (heat && heat.dataset.names) {
    const names = JSON.parse(heat.dataset.names);
    const tip = document.createElement("div");
    tip.id = "tip";
    tip.hidden = true;
    document.body.append(tip);
    heat.onpointermove = (event) => {
      const picture = event.target.closest("td.map svg");
      tip.hidden = !picture;
      if (!picture) return;
      const box = picture.getBoundingClientRect();
      const column = Math.floor(((event.clientX - box.left) / box.width) * names.length);
      const entry = document.getElementById(one("a", picture.closest("tr")).hash.slice(1));
      const shade = event.target.tagName === "path" ? event.target.getAttribute("class") : "";
      const config = shade && shade !== "f" && entry ? one(`.l.${shade}`, entry) : null;
      tip.textContent = names[column] + (config ? `: ${config.textContent} ${config.closest("tr").cells[1].textContent}` : "");
      tip.style.left = `${Math.min(event.pageX + 12, root.clientWidth + scrollX - tip.offsetWidth - 8)}px`;
      tip.style.top = `${event.pageY + 16}px`;
    };
    heat.onpointerleave = () => (tip.hidden = true);
  }
})();
