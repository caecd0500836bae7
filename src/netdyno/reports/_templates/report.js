"use strict";
(() => {
  const root = document.documentElement;
  const button = document.getElementById("theme");
  const order = ["auto", "dark", "light"];
  const show = (theme) => {
    if (theme === "auto") delete root.dataset.theme;
    else root.dataset.theme = theme;
    button.textContent = "Theme: " + theme;
  };
  let now = 0;
  button.hidden = false;
  button.addEventListener("click", () => {
    now = (now + 1) % order.length;
    show(order[now]);
  });

  const save = document.getElementById("save");
  const record = document.getElementById("record-data");
  save.hidden = false;
  save.addEventListener("click", () => {
    const address = URL.createObjectURL(new Blob([record.textContent], { type: "application/json" }));
    const link = document.createElement("a");
    link.href = address;
    link.download = save.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  });

  // On paper nothing can be unfolded any more.
  const folded = () => [...document.querySelectorAll("details:not([open])")];
  let opened = [];
  addEventListener("beforeprint", () => {
    opened = folded();
    opened.forEach((part) => { part.open = true; });
  });
  addEventListener("afterprint", () => opened.forEach((part) => { part.open = false; }));
})();
