/* Closed code stays out of the way: a button in the header, and one at the foot of the page, shows all
   of it, and the choice is kept for the other pages. Without scripts each cell is opened by itself. */
"use strict";

(() => {
  const [root, shown, kept] = [document.documentElement, "companion-code", "companion-code"];
  let stored = null;
  try { stored = localStorage.getItem(kept); } catch { /* not allowed here */ }
  root.classList.add("companion-scripts");
  root.classList.toggle(shown, stored === "shown");

  function button(name, content) {
    const made = document.createElement("button");
    made.type = "button";
    made.className = name;
    made.innerHTML = content;
    return made;
  }

  document.addEventListener("DOMContentLoaded", () => {
    const folds = document.querySelectorAll(".bd-article details.above-input");
    if (!folds.length) return;
    for (const { parentElement: cell } of folds)
      if (!cell.querySelector(".output:not(:has(> .companion-above))")) cell.classList.add("companion-empty");
    const icon = button("btn btn-sm pst-navbar-icon companion-code-icon", '<i class="fa-solid fa-code fa-lg"></i>');
    const attributes = { "aria-label": "Show code", "data-bs-title": "Show code", "data-bs-placement": "bottom", "data-bs-toggle": "tooltip" };
    for (const [name, value] of Object.entries(attributes)) icon.setAttribute(name, value);
    document.querySelector(".article-header-buttons .theme-switch-button")?.before(icon);
    const line = button("companion-code-line", "");
    const foot = document.querySelector(".bd-article .companion-parameters");
    if (foot) foot.before(line); else document.querySelector(".bd-article").append(line);

    function draw() {
      const open = root.classList.contains(shown);
      for (const fold of folds) fold.open = open;
      icon.setAttribute("aria-pressed", open);
      line.textContent = open ? "Hide the code of this page" : "Show the code of this page";
    }
    for (const pressed of [icon, line]) pressed.addEventListener("click", () => {
      const open = root.classList.toggle(shown);
      try { localStorage.setItem(kept, open ? "shown" : "closed"); } catch { /* not kept */ }
      draw();
    });
    draw();
  });
})();
