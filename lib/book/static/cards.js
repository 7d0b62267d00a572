// Escape takes away the card of a word or a source, until its link is left: the card is in the way
// of who reads with a magnifier. The style sheet shows it.
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const link of document.querySelectorAll(".companion-card:is(:hover, :focus-visible)")) {
    link.classList.add("companion-dismissed");
    const back = () => link.classList.remove("companion-dismissed");
    for (const left of ["mouseleave", "blur"]) link.addEventListener(left, back, { once: true });
  }
});
