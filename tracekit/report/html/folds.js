// Folded sections: what an address or a link names is opened, a button opens and closes all, and paper shows them open.
"use strict";
(() => {
  const folds = [...document.querySelectorAll("main > section > details.part")];
  const button = document.getElementById("unfold");
  const isOpen = () => folds.every((fold) => fold.open);
  const name = () => {
    button.textContent = isOpen() ? "Fold all" : "Unfold all";
  };

  const reveal = () => {
    const section = document.getElementById(window.location.hash.slice(1));
    const fold = section?.querySelector(":scope > details.part");
    if (fold) fold.open = true;
  };
  window.addEventListener("hashchange", reveal);
  document.querySelector("nav").addEventListener("click", (event) => {
    // The same place again changes no address.
    if (event.target.closest("a")?.hash === window.location.hash) reveal();
  });
  reveal();

  button.hidden = !folds.length;
  button.addEventListener("click", () => {
    const open = !isOpen();
    for (const fold of folds) fold.open = open;
  });
  for (const fold of folds) fold.addEventListener("toggle", name);
  name();

  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("main details:not(.again, [open])")];
    for (const fold of closed) fold.open = true;
  });
  window.addEventListener("afterprint", () => {
    for (const fold of closed) fold.open = false;
    closed = [];
  });
})();
