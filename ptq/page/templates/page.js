
"use strict";
(function () {
  const all = (selector, within) => Array.from((within || document).querySelectorAll(selector));
  all(".tools").forEach((tools) => { tools.hidden = false; });

  // theme: that of the system until the button is pressed
  const theme = document.getElementById("theme");
  const prefersDark = window.matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => (document.documentElement.dataset.theme || (prefersDark.matches ? "dark" : "light")) === "dark";
  const nameTheme = () => { theme.textContent = isDark() ? "Light" : "Dark"; };
  theme.hidden = false;
  theme.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    nameTheme();
  });
  prefersDark.addEventListener("change", nameTheme);
  nameTheme();

  // tables: sorted by a click on a heading, searched, filtered
  const orderOf = (row, column) => {
    const cell = row.cells[column];
    return cell.dataset.order === undefined ? cell.textContent.trim() : Number(cell.dataset.order);
  };
  const compare = (a, b) => {
    if (typeof a === "number" && typeof b === "number") return a - b;
    return String(a).localeCompare(String(b), undefined, { numeric: true });
  };
  const sortTable = (table, column) => {
    const heading = table.tHead.rows[0].cells[column];
    const descending = heading.getAttribute("aria-sort") === "ascending";
    all("th", table).forEach((other) => other.removeAttribute("aria-sort"));
    heading.setAttribute("aria-sort", descending ? "descending" : "ascending");
    const rows = Array.from(table.tBodies[0].rows);
    rows.sort((a, b) => compare(orderOf(a, column), orderOf(b, column)));
    if (descending) rows.reverse();
    table.tBodies[0].append(...rows);
  };
  all(".table table").forEach((table) => {
    all("thead th", table).forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = heading.textContent;
      heading.replaceChildren(button);
      button.addEventListener("click", () => sortTable(table, column));
    });
  });
  all(".table").forEach((block) => {
    const search = block.querySelector("input[type=search]");
    if (!search) return;
    const table = block.querySelector("table");
    const choice = block.querySelector("select");
    const output = block.querySelector("output");
    const filter = () => {
      const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
      let shown = 0;
      Array.from(table.tBodies[0].rows).forEach((row) => {
        const text = row.textContent.toLowerCase();
        const chosen = !choice || !choice.value || row.cells[choice.dataset.column].textContent.trim() === choice.value;
        row.hidden = !(chosen && words.every((word) => text.includes(word)));
        shown += row.hidden ? 0 : 1;
      });
      output.textContent = shown + " of " + table.tBodies[0].rows.length;
    };
    search.addEventListener("input", filter);
    if (choice) choice.addEventListener("change", filter);
    filter();
  });

  // the graph: one node is open, its address is a permalink
  const network = document.querySelector(".network");
  if (network) {
    const articles = all(".opened article", network);
    network.querySelector(".opened").classList.add("scripted");
    const hint = network.querySelector(".hint");
    const canvas = network.querySelector(".canvas");
    const links = new Map(all("[data-node]", network).map((link) => [link.dataset.node, link]));
    let opened = network.querySelector(".opened .first");
    const show = (article, move) => {
      opened = article;
      articles.forEach((other) => other.classList.toggle("shown", other === article));
      hint.hidden = Boolean(article);
      links.forEach((link, id) => link.classList.toggle("selected", Boolean(article) && id === article.id));
      const link = article && links.get(article.id);
      if (link && canvas && move) {
        const box = link.getBoundingClientRect();
        const frame = canvas.getBoundingClientRect();
        canvas.scrollTop += box.top - frame.top - frame.height / 2;
        canvas.scrollLeft += box.left - frame.left - frame.width / 2 + box.width / 2;
      }
    };
    const follow = () => {
      let id = location.hash.slice(1);
      try { id = decodeURIComponent(id); } catch (error) { /* a lone percent sign stands for itself */ }
      const article = articles.find((one) => one.id === id);
      if (article) {
        show(article, true);
        article.focus({ preventScroll: true });
      }
    };
    window.addEventListener("hashchange", follow);
    // The browser reports a new address later: a second key must already find the first one's node.
    const open = (article) => {
      location.hash = encodeURIComponent(article.id);
      follow();
    };
    const step = (by) => {
      const next = articles[articles.indexOf(opened) + by];
      if (next) open(next);
    };
    network.addEventListener("keydown", (event) => {
      if (event.target.matches("input")) return;
      if (event.key === "n" || event.key === "p") step(event.key === "n" ? 1 : -1);
      if (event.key === "Escape") show(null, false);
    });
    network.querySelector(".find").addEventListener("change", (event) => {
      const wanted = event.target.value.toLowerCase();
      const named = (test) => articles.find((one) => test(one.querySelector("h3").textContent.toLowerCase()));
      const found = wanted && (named((name) => name === wanted) || named((name) => name.includes(wanted)));
      if (found) open(found);
    });
    all("input[name=colouring]", network).forEach((radio) => radio.addEventListener("change", () => {
      network.classList.remove("by-precision", "by-error");
      network.classList.add(radio.value);
    }));
    if (canvas) {
      const picture = canvas.querySelector("svg");
      const width = picture.viewBox.baseVal.width;
      const height = picture.viewBox.baseVal.height;
      let zoom = 1;
      const resize = (wanted) => {
        const across = (canvas.scrollLeft + canvas.clientWidth / 2) / (width * zoom);
        const down = (canvas.scrollTop + canvas.clientHeight / 2) / (height * zoom);
        zoom = Math.min(3, Math.max(0.02, wanted));
        picture.setAttribute("width", width * zoom);
        picture.setAttribute("height", height * zoom);
        canvas.scrollLeft = across * width * zoom - canvas.clientWidth / 2;
        canvas.scrollTop = down * height * zoom - canvas.clientHeight / 2;
      };
      const fit = () => Math.min((canvas.clientWidth - 4) / width, (canvas.clientHeight - 4) / height);
      const wanted = { in: () => zoom * 1.25, out: () => zoom / 1.25, fit };
      all("[data-zoom]", network).forEach((button) => button.addEventListener("click", () => resize(wanted[button.dataset.zoom]())));
      canvas.addEventListener("wheel", (event) => {
        if (!event.ctrlKey) return;
        event.preventDefault();
        resize(zoom * Math.exp(-event.deltaY / 300));
      }, { passive: false });
      resize(Math.max(0.55, Math.min(1, (canvas.clientWidth - 4) / width)));
    }
    show(opened, true);
    follow();
  }
  window.addEventListener("beforeprint", () => all("details").forEach((fold) => { fold.open = true; }));
})();
