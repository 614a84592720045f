// SPDX-License-Identifier: Apache-2.0

// Optional functions: filtering, copying, opening sections. The page is complete without the script.
"use strict";
(() => {
  const anchors = [...document.querySelectorAll("details.anchor")];
  const form = document.getElementById("filter");

  const textOf = new Map();
  const text = (anchor) => {
    if (!textOf.has(anchor)) {
      const parts = [anchor.querySelector("summary"), anchor.querySelector(".place")];
      textOf.set(anchor, parts.map((part) => part.textContent).join(" ").toLowerCase());
    }
    return textOf.get(anchor);
  };

  const filter = () => {
    const { status, form: pattern, code, text: search } = Object.fromEntries(new FormData(form));
    const wanted = search.trim().toLowerCase();
    let count = 0;
    for (const anchor of anchors) {
      const { status: has, form: of, code: by } = anchor.dataset;
      const matches = (!status || status === has) && (!pattern || pattern === of) && (!code || code === by);
      anchor.hidden = !(matches && (!wanted || text(anchor).includes(wanted)));
      count += !anchor.hidden;
    }
    form.elements.count.value = `${count} of ${anchors.length}`;
  };

  const select = (element) => {
    const range = document.createRange();
    range.selectNodeContents(element);
    getSelection().removeAllRanges();
    getSelection().addRange(range);
  };

  const copy = async (button, code) => {
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      select(code); // without a clipboard, the user can copy the selection
      button.textContent = "selected";
    }
    setTimeout(() => (button.textContent = "copy"), 1500);
  };

  const addButtons = (anchor) => {
    for (const code of anchor.querySelectorAll("code.copied:not(:has(+ button))")) {
      const button = document.createElement("button");
      button.type = "button";
      button.className = "copy";
      button.textContent = "copy";
      button.setAttribute("aria-label", `Copy ${code.textContent}`);
      button.addEventListener("click", () => copy(button, code));
      code.after(button);
    }
  };

  const openLinked = () => {
    const linked = document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (linked instanceof HTMLDetailsElement) {
      linked.hidden = false;
      linked.open = true;
      linked.scrollIntoView();
    }
  };

  if (form) {
    form.hidden = false;
    form.addEventListener("input", filter);
    form.addEventListener("submit", (event) => event.preventDefault());
    for (const button of form.querySelectorAll("button")) {
      const open = Boolean(button.dataset.open);
      button.addEventListener("click", () => anchors.forEach((anchor) => (anchor.open = open && !anchor.hidden)));
    }
    filter();
  }
  for (const anchor of anchors) anchor.addEventListener("toggle", () => anchor.open && addButtons(anchor));
  addEventListener("hashchange", openLinked);
  openLinked();
})();
