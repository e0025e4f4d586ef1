// The page is complete without this script. The script updates the page when its content changes, and shows relative times.
(() => {
  "use strict";
  const main = document.querySelector("main[data-live]");
  const notice = document.getElementById("notice");
  const connection = document.getElementById("connection");
  const announcer = document.getElementById("status");

  // Times are relative; their titles have the absolute time.
  const ago = (then) => {
    const s = Math.round((Date.now() - then) / 1000);
    if (s < 2) return "now";
    if (s < 120) return s + " s ago";
    if (s < 7200) return Math.round(s / 60) + " min ago";
    if (s < 172800) return Math.round(s / 3600) + " h ago";
    return Math.round(s / 86400) + " d ago";
  };
  const updateTimes = () => {
    for (const t of document.querySelectorAll("time[datetime]")) {
      const text = ago(Date.parse(t.dateTime));
      if (t.textContent !== text) t.textContent = text;
      if (t.title !== t.dateTime) t.title = t.dateTime;
    }
  };
  updateTimes();
  setInterval(updateTimes, 1000);
  if (!main) return;

  // Changes are applied in place: focus, selection, scroll position and typed text stay.
  const keyOf = (n) => (n.nodeType === 1 ? n.id || n.dataset.key || "" : "");
  const same = (a, b) => a.nodeType === b.nodeType && a.nodeName === b.nodeName && keyOf(a) === keyOf(b);
  const morph = (from, to) => {
    if (from.nodeType !== 1) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.nodeName === "TIME" && from.dateTime === to.dateTime) return;
    if (from.nodeName === "INPUT") return;
    for (const { name } of [...from.attributes]) {
      if (!to.hasAttribute(name) && !(from.nodeName === "DETAILS" && name === "open")) from.removeAttribute(name);
    }
    for (const { name, value } of [...to.attributes]) if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    morphChildren(from, to);
  };
  const morphChildren = (from, to) => {
    const keyed = new Map([...from.childNodes].filter(keyOf).map((n) => [n.nodeName + keyOf(n), n]));
    let at = from.firstChild;
    for (const wanted of [...to.childNodes]) {
      let have = keyOf(wanted) ? keyed.get(wanted.nodeName + keyOf(wanted)) : at && same(at, wanted) ? at : null;
      if (have) {
        keyed.delete(wanted.nodeName + keyOf(wanted));
        if (have !== at) from.insertBefore(have, at);
        morph(have, wanted);
      } else {
        have = from.insertBefore(document.importNode(wanted, true), at);
      }
      at = have.nextSibling;
    }
    while (at) {
      const next = at.nextSibling;
      at.remove();
      at = next;
    }
  };

  // Announce a new state to screen readers only after it has lasted, and at most every ten seconds.
  let announced = main.querySelector("#live")?.dataset.status || "";
  setInterval(() => {
    const now = main.querySelector("#live")?.dataset.status || "";
    if (now !== announced) announcer.textContent = announced = now;
  }, 10000);

  const show = (html) => {
    const page = new DOMParser().parseFromString("<main>" + html + "</main>", "text/html");
    morphChildren(main, page.querySelector("main"));
    updateTimes();
  };
  const say = (text, bad) => {
    notice.hidden = !text;
    notice.classList.toggle("bad", Boolean(bad));
    if (notice.textContent !== text) notice.textContent = text;
  };
  // The page is live only if its data are: a core that is unreachable makes them old.
  const connected = (on) => {
    const isOld = "old" in (main.querySelector("#live")?.dataset || {});
    connection.className = "connection " + (on && !isOld ? "on" : "off");
    connection.textContent = !on ? "not live" : isOld ? "old data" : "live";
  };

  // Without a stream the page is fetched again every ten seconds.
  let polling = 0;
  const poll = async () => {
    try {
      const answer = await fetch(location.href, { headers: { Accept: "text/html", "Breakwater-Live": "1" }, redirect: "manual" });
      if (answer.type === "opaqueredirect" || answer.status === 401) return end("You are no longer signed in.");
      if (!answer.ok) return say("The console cannot update this page: " + answer.status + ".");
      const page = new DOMParser().parseFromString(await answer.text(), "text/html");
      morphChildren(main, page.querySelector("main"));
      updateTimes();
      say("");
      return true;
    } catch {
      say("The console does not answer. What you see may be old.");
    }
  };
  const end = (text) => {
    clearInterval(polling);
    connected(false);
    say(text + " What you see is old. Reload the page to sign in.", true);
  };
  let heard = Date.now();
  const open = () => {
    const source = new EventSource(location.href);
    const on = (kind, act) => source.addEventListener(kind, (e) => { heard = Date.now(); act(e); connected(true); });
    on("hello", () => say(""));
    on("same", () => say(""));
    on("page", (e) => { show(e.data); say(""); });
    on("away", (e) => say(e.data + ". What you see may be old."));
    source.addEventListener("end", async (e) => {
      source.close();
      if (await poll()) open(); // a proxy has renewed the token
      else end(e.data + ".");
    });
    source.onerror = () => {
      connected(false);
      if (source.readyState !== EventSource.CLOSED) {
        if (Date.now() - heard > 15000) say("The console does not answer. What you see may be old.");
        return;
      }
      poll();
      polling = setInterval(poll, 10000);
    };
    window.addEventListener("pagehide", () => source.close());
    window.addEventListener("pageshow", (e) => { if (e.persisted) location.reload(); });
  };
  open();
})();
