// Links of the page into the timeline, and the buttons around it.
"use strict";
((tracekit) => {
  /** Links of the page into the timeline: data-from and data-to in ps, perhaps data-device and data-find. */
  function links(app, act) {
    const go = (element) => {
      const [from, to] = [element.dataset.from, element.dataset.to].map((ps) => tracekit.address.toUnits(app, ps));
      if (from === null || to === null) return;
      app.view = tracekit.viewport.around(from, to, app.whole, 0.2);
      if (element.dataset.find !== undefined) act.find(element.dataset.find);
      const { device } = element.dataset;
      if (device !== undefined) tracekit.actions.scrollTo(app, (row) => row.group.name === device);
      app.flash = { from, to };
      app.update();
      app.root.scrollIntoView({
        block: "start",
        behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth",
      });
      app.dom.plot.focus({ preventScroll: true });
    };
    document.addEventListener("click", (event) => {
      const element = event.target.closest?.("[data-from][data-to]");
      if (!element) return;
      event.preventDefault();
      go(element);
    });
    document.addEventListener("keydown", (event) => {
      const element = event.target.closest?.("[data-from][data-to]");
      if (!element || element.matches("a, button") || (event.key !== "Enter" && event.key !== " ")) return;
      event.preventDefault();
      go(element);
    });
  }

  /** Makes the timeline react; returns the actions. */
  function attach(app) {
    const act = tracekit.actions.actions(app);
    act.settle = () => {
      app.dragging = false;
      tracekit.rangePanel.show(app, false);
      app.update();
    };
    tracekit.pointer.wheel(app, act);
    tracekit.pointer.pointers(app, act);
    tracekit.keys.keys(app, act);
    tracekit.keys.tree(app, act);
    links(app, act);
    app.dom.box.addEventListener("click", (event) => {
      const action = event.target.closest("[data-action]")?.dataset.action;
      if (action) act[action]();
    });
    return act;
  }

  tracekit.links = { attach };
})((globalThis.tracekit ??= {}));
