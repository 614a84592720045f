// SPDX-License-Identifier: Apache-2.0

// The list in pages, filters, copying, opening of sections. The page is complete without the script: a browser that
// runs scripts takes the content of <noscript> for text, any other browser takes it for elements.
"use strict";
(() => {
  const anchors = [...document.querySelectorAll("details.anchor")];
  const form = document.getElementById("filter");
  const pagers = [...document.querySelectorAll("nav.pager")];
  const size = Number(form?.dataset.size);
  let matching = anchors;
  let page = 0;

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

  const addButton = (code) => {
    const button = document.createElement("button");
    button.type = "button";
    button.className = "copy";
    button.textContent = "copy";
    button.setAttribute("aria-label", `Copy ${code.textContent}`);
    button.addEventListener("click", () => copy(button, code));
    code.after(button);
  };

  // Makes elements of the text that holds the details of an anchor, once.
  const build = (anchor) => {
    const text = anchor.querySelector("noscript");
    if (!text) return;
    text.outerHTML = text.textContent;
    anchor.querySelectorAll("code.copied").forEach(addButton);
  };

  const open = (anchor) => {
    build(anchor);
    anchor.open = true;
  };

  const onPage = () => matching.slice(page * size, (page + 1) * size);

  const show = (shown) => {
    const set = new Set(shown);
    for (const anchor of anchors) anchor.hidden = !set.has(anchor);
  };

  const showPage = (number) => {
    const count = Math.max(1, Math.ceil(matching.length / size));
    page = Math.min(Math.max(number, 0), count - 1);
    const rangeOf = (of) => `${of * size + 1}–${Math.min((of + 1) * size, matching.length)}`;
    show(onPage());
    const shown = count > 1 ? `, ${rangeOf(page)} shown` : "";
    form.elements.count.value = `${matching.length} of ${anchors.length}${shown}`;
    for (const pager of pagers) {
      const [previous, ranges, next] = pager.querySelectorAll("button, select");
      pager.hidden = count === 1;
      ranges.replaceChildren(...Array.from({ length: count }, (_, of) => new Option(rangeOf(of), of)));
      ranges.value = page;
      // A disabled button would lose the focus.
      previous.setAttribute("aria-disabled", page === 0);
      next.setAttribute("aria-disabled", page === count - 1);
    }
  };

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
    matching = anchors.filter((anchor) => {
      const { status: has, form: of, code: by } = anchor.dataset;
      const matches = (!status || status === has) && (!pattern || pattern === of) && (!code || code === by);
      return matches && (!wanted || text(anchor).includes(wanted));
    });
    showPage(0);
  };

  const openLinked = () => {
    const linked = document.getElementById(location.hash.slice(1));
    if (!anchors.includes(linked)) return;
    if (!matching.includes(linked)) {
      form.reset();
      filter();
    }
    showPage(Math.floor(matching.indexOf(linked) / size));
    open(linked);
    linked.scrollIntoView();
  };

  const addPager = (pager) => {
    const [previous, ranges, next] = pager.querySelectorAll("button, select");
    // The focus moves to the same control above the list, where the new page begins.
    const turn = (control, number) => {
      showPage(number);
      const position = [previous, ranges, next].indexOf(control);
      pagers[0].querySelectorAll("button, select")[position].focus();
    };
    previous.addEventListener("click", () => turn(previous, page - 1));
    ranges.addEventListener("input", () => turn(ranges, Number(ranges.value)));
    next.addEventListener("click", () => turn(next, page + 1));
  };

  if (!form) return;
  form.hidden = false;
  form.addEventListener("input", filter);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.querySelector("button.open").addEventListener("click", () => onPage().forEach(open));
  form.querySelector("button.close").addEventListener("click", () => anchors.forEach((anchor) => (anchor.open = false)));
  pagers.forEach(addPager);
  for (const anchor of anchors) anchor.addEventListener("toggle", () => anchor.open && build(anchor));
  anchors.filter((anchor) => anchor.open).forEach(build);
  filter();
  addEventListener("hashchange", openLinked);
  openLinked();
  // Everything that matches is printed, of all pages.
  addEventListener("beforeprint", () => {
    show(matching);
    matching.forEach(build);
  });
  addEventListener("afterprint", () => show(onPage()));
})();
