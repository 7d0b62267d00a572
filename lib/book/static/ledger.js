/* A filter for the ledger: by verdict, and by words in the claim. Without scripts all rows show. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const first = document.querySelector(".companion-ledger");
  if (!first) return;
  const article = first.closest("article") || document.body;
  const groups = [...article.querySelectorAll("details.companion-cells")];
  const rows = [
    ...article.querySelectorAll(".companion-ledger tbody tr, details.companion-cells tbody tr"),
  ].map((row) => ({
    row,
    verdict: (row.querySelector(".verdict") || {}).className || "",
    group: row.closest("details.companion-cells"),
    words: row.textContent.toLowerCase(),
  }));
  for (const one of rows) {
    // A cell's row is short; the summary of its group says which paper and table it is of.
    if (one.group) one.words += " " + one.group.querySelector("summary").textContent.toLowerCase();
  }
  const bar = document.createElement("form");
  bar.className = "companion-filter";
  bar.setAttribute("role", "search");
  bar.setAttribute("aria-label", "Filter of the ledger");
  bar.innerHTML =
    '<label>Verdict<select name="verdict"><option value="">all</option>' +
    '<option value="yes">reproduced</option><option value="reduced">reproduced at reduced scale</option>' +
    '<option value="no">not reproduced</option>' +
    '<option value="no-reduced">not reproduced at reduced scale</option>' +
    '<option value="undecided">undecided</option><option value="not-run">not run in this profile</option>' +
    '</select></label><label>Words in the claim<input name="words" type="search" ' +
    'autocomplete="off" placeholder="for example: Table 5"></label>' +
    '<output role="status"></output>';
  const [verdict, words, said] = [bar.elements.verdict, bar.elements.words, bar.querySelector("output")];
  const opened = new Set(groups.filter((group) => group.open));

  function filter() {
    const wanted = words.value.toLowerCase().split(/\s+/).filter(Boolean);
    const active = Boolean(verdict.value || wanted.length);
    let shown = 0;
    for (const one of rows) {
      const fits =
        (!verdict.value || one.verdict.split(" ").includes("verdict-" + verdict.value)) &&
        wanted.every((word) => one.words.includes(word));
      one.row.hidden = !fits;
      shown += fits;
    }
    for (const group of groups) {
      const left = group.querySelectorAll("tbody tr:not([hidden])").length;
      group.hidden = active && !left;
      group.open = active ? left > 0 : opened.has(group);
    }
    for (const table of article.querySelectorAll(".companion-ledger")) {
      const left = table.querySelectorAll("tbody tr:not([hidden])").length;
      table.closest(".companion-scroll").hidden = !left;
    }
    said.textContent = active ? `${shown} of ${rows.length} claims` : `${rows.length} claims`;
  }
  bar.addEventListener("input", filter);
  bar.addEventListener("submit", (event) => event.preventDefault());
  const heading = article.querySelector("h2");
  heading.parentNode.insertBefore(bar, heading);
  filter();
});
