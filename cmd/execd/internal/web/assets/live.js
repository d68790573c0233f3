// Keeps a page current: the server sends its content whenever it changes. Without this script a page
// shows what was so when it was loaded.
"use strict";
(() => {
  const path = document.body.dataset.live;
  const live = document.getElementById("live");
  const state = document.getElementById("state");
  if (!path || !live || !window.EventSource) return;

  // key returns what makes an element the same as an earlier one.
  const key = (node) => node.nodeType === 1 && node.dataset && node.dataset.key;

  // update changes a node into another one and keeps all that is equal: the focus, the selection, the
  // place in a list, and what the reader has opened.
  const update = (old, now) => {
    if (old.nodeType !== now.nodeType || old.nodeName !== now.nodeName || key(old) !== key(now)) {
      old.replaceWith(now.cloneNode(true));
      return;
    }
    if (old.nodeType !== 1) {
      if (old.nodeValue !== now.nodeValue) old.nodeValue = now.nodeValue;
      return;
    }
    for (const a of now.attributes) {
      if (old.getAttribute(a.name) !== a.value) old.setAttribute(a.name, a.value);
    }
    for (const a of [...old.attributes]) {
      if (!now.hasAttribute(a.name) && !(old.nodeName === "DETAILS" && a.name === "open")) old.removeAttribute(a.name);
    }
    children(old, now);
  };

  const children = (old, now) => {
    const known = new Map();
    for (const c of old.children) if (key(c)) known.set(key(c), c);
    const wanted = [...now.childNodes];
    for (let i = 0; i < wanted.length; i++) {
      const at = old.childNodes[i];
      const same = key(wanted[i]) && known.get(key(wanted[i]));
      if (same && same !== at) old.insertBefore(same, at || null);
      if (!old.childNodes[i]) old.appendChild(wanted[i].cloneNode(true));
      else update(old.childNodes[i], wanted[i]);
    }
    while (old.childNodes.length > wanted.length) old.lastChild.remove();
  };

  let stream = null;
  const say = (text) => { if (state && state.textContent !== text) state.textContent = text; };
  const open = () => {
    if (stream) return;
    stream = new EventSource("/events?of=" + encodeURIComponent(path));
    stream.addEventListener("content", (e) => {
      say("");
      const now = new DOMParser().parseFromString("<div>" + e.data + "</div>", "text/html").body.firstChild;
      const pre = live.querySelector("pre[aria-label=Output]");
      const atEnd = pre && pre.scrollTop + pre.clientHeight >= pre.scrollHeight - 4;
      children(live, now);
      if (atEnd) pre.scrollTop = pre.scrollHeight;
    });
    stream.onerror = () => {
      say("(not connected)");
      if (stream.readyState === EventSource.CLOSED) { // an answer that is no stream: try again later
        stream = null;
        setTimeout(() => { if (!document.hidden) open(); }, 5000);
      }
    };
  };
  const close = () => { if (stream) { stream.close(); stream = null; } };
  // A browser opens only few connections to a server: pages that nobody sees give theirs back.
  document.addEventListener("visibilitychange", () => { if (document.hidden) close(); else open(); });
  window.addEventListener("pagehide", close);
  const pre = live.querySelector("pre[aria-label=Output]");
  if (pre) pre.scrollTop = pre.scrollHeight;
  if (!document.hidden) open();
})();
