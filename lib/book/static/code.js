/* Code that is no lesson is not on the page until the reader asks for all of it, at the foot: then it stands
   where it was run, until the page is left. Without scripts the links beside the button serve. */
"use strict";

document.addEventListener("DOMContentLoaded", () => {
  const button = document.querySelector(".companion-foot button");
  const [first, ...others] = document.querySelectorAll(".companion-code");
  if (!button || !first) return;
  first.id = "code";
  const parts = [first, ...others, ...document.querySelectorAll(".companion-above")];
  const said = button.parentElement.querySelector("[role=status]");
  button.hidden = false;
  button.addEventListener("click", () => {
    const open = button.getAttribute("aria-expanded") === "false";
    const top = button.getBoundingClientRect().top;
    for (const part of parts) part.hidden = !open;
    button.setAttribute("aria-expanded", open);
    button.textContent = open ? "Hide all code" : "Show all code in place";
    said.innerHTML = open ? `${others.length + 1} cells stand above: <a href="#code">the first</a>` : "";
    scrollBy({ top: button.getBoundingClientRect().top - top, behavior: "instant" });  // it stays where it was
  });
});
