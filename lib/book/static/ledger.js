/* Opens what a link leads to, searches folded tables, names columns, and filters the ledger by verdict and words.
   Without scripts all rows show. */
"use strict";

/* A file may read no other in a browser: without a server the results of a search have no excerpts. */
if (location.protocol === "file:") DOCUMENTATION_OPTIONS.SHOW_SEARCH_SUMMARY = false;

function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  if (!target) return;
  const folds = [...target.querySelectorAll(":scope > td > details")];
  for (let fold = target; fold; fold = fold.parentElement) if (fold.tagName === "DETAILS") folds.push(fold);
  for (const fold of folds) fold.open = true;
  if (folds.length) target.scrollIntoView();
}
addEventListener("hashchange", openTarget);

/* On a phone a table of the prose is stacked: what is a number there says of which column. */
function nameColumns(table) {
  const heads = [...table.querySelectorAll("thead th")].map((head) => head.textContent.trim());
  for (const cell of table.querySelectorAll("td:not(:first-child)"))
    if (/^[^a-z]*\d/i.test(cell.textContent)) cell.dataset.name = heads[cell.cellIndex];
}

/* A field above the rows of a folded table: those without its words are hidden. */
function addSearch(fold) {
  const rows = [...fold.querySelectorAll("tbody tr")];
  const label = document.createElement("label");
  label.className = "companion-search";
  label.innerHTML = 'Search these rows <input type="search" autocomplete="off"><output></output>';
  label.firstElementChild.addEventListener("input", (event) => {
    const wanted = event.target.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !wanted.every((word) => text.includes(word));
    }
    label.lastElementChild.textContent = `${rows.filter((row) => !row.hidden).length} of ${rows.length}`;
  });
  fold.querySelector("summary").after(label);
}

document.addEventListener("DOMContentLoaded", () => {
  document.querySelectorAll("details.companion-rows").forEach(addSearch);
  document.querySelectorAll(".pst-scrollable-table-container > table").forEach(nameColumns);
  openTarget();
  const first = document.querySelector(".companion-grid");
  if (!first) return;
  const article = first.closest("article") || document.body;
  const groups = [...article.querySelectorAll(".companion-statements")];
  const rows = groups.flatMap((group) =>
    [...group.querySelectorAll("tr.statement")].map((row) => ({
      row,
      verdict: row.querySelector(".verdict").className,
      words: row.textContent.toLowerCase(),
    })),
  );
  const bar = document.createElement("form");
  bar.className = "companion-filter";
  bar.setAttribute("role", "search");
  bar.setAttribute("aria-label", "Filter of the ledger");
  bar.innerHTML =
    '<label>Verdict<select name="verdict"><option value="">all</option>' +
    '<option value="yes">reproduced</option><option value="reduced">reproduced at reduced scale</option>' +
    '<option value="no">not reproduced</option>' +
    '<option value="undecided">undecided</option>' +
    '<option value="not-comparable">not comparable</option>' +
    '<option value="cannot">cannot be checked</option>' +
    '</select></label><label>Words in the statement<input name="words" type="search" ' +
    'autocomplete="off" placeholder="for example: Table 5"></label>' +
    '<output role="status"></output>';
  const [verdict, words, said] = [bar.elements.verdict, bar.elements.words, bar.querySelector("output")];

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
    for (const group of groups) group.hidden = !group.querySelector("tr.statement:not([hidden])");
    said.textContent = active ? `${shown} of ${rows.length} statements` : `${rows.length} statements`;
  }
  bar.addEventListener("input", filter);
  bar.addEventListener("submit", (event) => event.preventDefault());
  const heading = article.querySelector("h2");
  heading.closest("section").before(bar);
  filter();
});
