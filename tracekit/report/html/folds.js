// Folded sections: what an address or a link names is opened, a button opens and closes all, and paper shows them open.
"use strict";
(() => {
  const folds = [...document.querySelectorAll("main > section > details.part")];
  const button = document.getElementById("unfold");
  const isOpen = () => folds.every((fold) => fold.open);
  const name = () => {
    button.textContent = isOpen() ? "Fold all" : "Unfold all";
  };

  const reveal = (hash) => {
    const section = document.getElementById(hash.slice(1));
    const fold = section?.querySelector(":scope > details.part");
    if (fold) fold.open = true;
  };
  // The event's own address: by now the timeline may have written the part in view over the page's.
  window.addEventListener("hashchange", (event) => reveal(new URL(event.newURL).hash));
  // The same place again changes no address.
  document.addEventListener("click", (event) => reveal(event.target.closest("a")?.hash ?? ""));
  reveal(window.location.hash);

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
