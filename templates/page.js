// Keeps the page current: parts that have changed arrive as server-sent events and take the place of the old ones, element
// by element, so that focus, selection and scrolling stay. Without this script the page is complete, as of when it was loaded.
"use strict";

const live = document.getElementById("live");
const moment = document.getElementById("moment");
// Of the server's clock against ours, in milliseconds.
let offset = Date.parse(moment.dateTime) - Date.now();
// When the page was current, by our clock.
let last = Date.now();

// As the server writes them.
function span(seconds) {
  const two = (number) => String(number).padStart(2, "0");
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${two(seconds % 60)}s`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h${two(Math.floor(seconds / 60) % 60)}m`;
  return `${Math.floor(seconds / 86400)}d${two(Math.floor(seconds / 3600) % 24)}h`;
}

function grow() {
  const now = Math.floor((Date.now() + offset) / 1000);
  for (const time of document.querySelectorAll("time:not([data-plain])")) {
    const at = Date.parse(time.dateTime) / 1000;
    // Clocks differ by moments: what has been does not come again.
    const ago = "ago" in time.dataset ? Math.max(0, now - at) : now - at;
    const text = ago < 0 ? `in ${span(-ago)}` : `${span(ago)} ago`;
    if (time.textContent !== text) time.textContent = text;
  }
}

// Makes an element like another one without replacing what is the same.
function become(old, wanted) {
  if (old.nodeType !== wanted.nodeType || old.nodeName !== wanted.nodeName || (old.id || "") !== (wanted.id || "")) {
    old.replaceWith(wanted.cloneNode(true));
    return;
  }
  if (old.nodeType !== Node.ELEMENT_NODE) {
    if (old.nodeValue !== wanted.nodeValue) old.nodeValue = wanted.nodeValue;
    return;
  }
  // What is folded, and which range of time is shown, is the reader's choice.
  const own = (name) => (name === "open" && old.nodeName === "DETAILS") || name === "data-place";
  for (const { name } of [...old.attributes]) if (!wanted.hasAttribute(name) && !own(name)) old.removeAttribute(name);
  for (const { name, value } of wanted.attributes) {
    if (old.getAttribute(name) !== value && !own(name)) old.setAttribute(name, value);
  }
  // Its text is ours.
  if (old.nodeName === "TIME" || old.nodeName === "OUTPUT") return;
  if (old.nodeName === "path" && old.classList.contains("cursor")) return;
  const nodes = [...wanted.childNodes];
  while (old.childNodes.length > nodes.length) old.lastChild.remove();
  nodes.forEach((node, index) => {
    if (index < old.childNodes.length) become(old.childNodes[index], node);
    else old.append(node.cloneNode(true));
  });
}

function parse(html) {
  const template = document.createElement("template");
  template.innerHTML = html;
  return template.content.firstElementChild;
}

function flash(element) {
  element.classList.remove("fresh");
  void element.offsetWidth;
  element.classList.add("fresh");
}

function take(event) {
  const news = JSON.parse(event.data);
  last = Date.now();
  if (news.page) become(document.getElementById("main"), parse(news.page));
  for (const [id, html] of Object.entries(news.parts || {})) {
    const old = document.getElementById(id);
    const wanted = parse(html);
    if (!old || !wanted) continue;
    const before = old.innerText;
    become(old, wanted);
    if (old.nodeName === "TR" && old.innerText !== before) flash(old);
  }
  show("on", "Live, as of");
  moment.dateTime = new Date(last + offset).toISOString().replace(/\.\d+/, "");
  moment.textContent = moment.dateTime;
  document.body.dataset.generation = news.generation;
  grow();
}

function show(state, text) {
  live.dataset.state = state;
  if (live.textContent !== text) live.textContent = text;
}

setInterval(grow, 1000);

// A list is filtered while its reader writes. Answers that come after that of a later letter count no more.
const found = document.getElementById("found");
let asked = 0;
let settled;

async function filter(form) {
  const turn = ++asked;
  const address = `${form.action}?${new URLSearchParams(new FormData(form))}`;
  const answer = await fetch(address);
  if (!answer.ok || turn !== asked) return;
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  const part = page.getElementById("found");
  if (!part || turn !== asked) return;
  // What is still sent for the list before must not come into this one.
  disconnect();
  become(found, part);
  document.body.dataset.events = page.body.dataset.events;
  history.replaceState(null, "", address);
  grow();
  clearTimeout(settled);
  settled = setTimeout(connect, 500);
}

if (found) {
  for (const form of document.querySelectorAll("form.filter")) {
    form.addEventListener("input", () => filter(form));
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      filter(form);
    });
  }
}

// The value of a chart at a place, which counts from the newest back.
function point(chart, place) {
  const values = chart.dataset.values ? chart.dataset.values.split(" ") : [];
  const places = Number(chart.dataset.places);
  const value = values[values.length - 1 - place];
  const told = chart.querySelector("output");
  const line = chart.querySelector(".cursor");
  if (value === undefined) {
    told.textContent = "";
    line.removeAttribute("d");
    return;
  }
  chart.dataset.place = place;
  const step = Number(chart.dataset.step);
  const at = new Date(Math.floor((last + offset) / 1000 - place * step) * 1000);
  told.textContent = `${at.toISOString().slice(5, 19).replace("T", " ")}Z: ${value}`;
  line.setAttribute("d", `M${600 - (place * 600) / (places - 1)} 0v120`);
}

for (const kind of ["pointermove", "pointerleave", "keydown", "focusout"]) {
  document.addEventListener(kind, (event) => {
    const chart = event.target.closest ? event.target.closest(".plot") : null;
    if (!chart) return;
    const places = Number(chart.dataset.places);
    if (kind === "pointermove") {
      const frame = chart.querySelector("svg").getBoundingClientRect();
      point(chart, Math.round((1 - (event.clientX - frame.left) / frame.width) * (places - 1)));
    } else if (kind === "keydown") {
      const move = { ArrowLeft: 1, ArrowRight: -1, Home: places, End: -places }[event.key];
      if (!move) return;
      event.preventDefault();
      const most = (chart.dataset.values || "").split(" ").length - 1;
      point(chart, Math.min(most, Math.max(0, Number(chart.dataset.place || 0) + move)));
    } else point(chart, -1);
  }, true);
}

let source;

function disconnect() {
  if (source) source.close();
}

function connect() {
  if (!document.body.dataset.events || !("EventSource" in window)) return;
  disconnect();
  source = new EventSource(`/events?of=${encodeURIComponent(document.body.dataset.events)}`);
  source.onmessage = take;
  source.onerror = () => show("lost", "Connection lost; as of");
}

connect();
if (source) {
  // The browser gives up for ever when it is refused once.
  setInterval(() => {
    if (Date.now() - last > 15000) {
      show("lost", "Connection lost; as of");
      if (!document.hidden && source.readyState === EventSource.CLOSED) connect();
    }
  }, 5000);
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) disconnect();
    else connect();
  });
  window.addEventListener("pagehide", disconnect);
  window.addEventListener("pageshow", (event) => event.persisted && connect());
}
