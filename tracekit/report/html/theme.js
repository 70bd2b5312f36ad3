// Light or dark as the reader chooses, else as the system does; which section is in view; which tables scroll.
"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const key = "tracekit-theme";

  // Storage may be forbidden where the page is opened from a file.
  const stored = () => {
    try {
      return window.localStorage.getItem(key);
    } catch {
      return null;
    }
  };
  const store = (theme) => {
    try {
      window.localStorage.setItem(key, theme);
    } catch {
      // The choice then lasts as long as the page.
    }
  };

  const isDark = () => (root.dataset.theme ? root.dataset.theme === "dark" : system.matches);
  const name = () => {
    button.textContent = isDark() ? "Light" : "Dark";
    button.setAttribute("aria-label", isDark() ? "Light theme" : "Dark theme");
  };

  const before = stored();
  if (before === "light" || before === "dark") {
    root.dataset.theme = before;
  }
  button.hidden = false;
  button.addEventListener("click", () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    store(root.dataset.theme);
    name();
  });
  system.addEventListener("change", name);
  name();

  const links = new Map();
  for (const link of document.querySelectorAll("nav a")) {
    links.set(link.hash.slice(1), link);
  }
  // The line shows the section in view, but never moves under a pointer or the keyboard that is about to follow a link.
  const bar = document.querySelector("nav ul");
  const follow = () => {
    const link = bar.querySelector("[aria-current]");
    if (!link || bar.matches(":hover") || bar.querySelector(":focus-visible")) return;
    bar.scrollTo({ left: link.offsetLeft - (bar.clientWidth - link.offsetWidth) / 2 });
  };
  bar.addEventListener("pointerleave", follow);
  const inView = new Set();
  const watch = new IntersectionObserver(
    (entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) {
          inView.add(entry.target.id);
        } else {
          inView.delete(entry.target.id);
        }
      }
      const first = [...links.keys()].find((id) => inView.has(id));
      for (const [id, link] of links) {
        if (id === first) {
          link.setAttribute("aria-current", "true");
        } else {
          link.removeAttribute("aria-current");
        }
      }
      follow();
    },
    { rootMargin: "-20% 0px -60% 0px" },
  );
  for (const section of document.querySelectorAll("main > section")) {
    watch.observe(section);
  }

  // A box that does not scroll needs no stop of the keyboard.
  const boxes = new ResizeObserver((entries) => {
    for (const { target } of entries) {
      if (target.scrollWidth > target.clientWidth) {
        target.tabIndex = 0;
      } else {
        target.removeAttribute("tabindex");
      }
    }
  });
  for (const box of document.querySelectorAll(".wide")) {
    boxes.observe(box);
  }
})();
