// What pages do beyond plain HTML: colours are switched, live parts are renewed.

const button = document.getElementById("theme");
if (button) {
  const isDark = () => {
    const chosen = document.documentElement.dataset.theme;
    return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  };
  const name = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.hidden = false;
  button.addEventListener("click", () => {
    const theme = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = theme;
    localStorage.setItem("theme", theme);
    name();
  });
  name();
}

// Where the navigation is wider than the window, the page that is shown is among what is seen of it. Not scrollIntoView:
// in newer browsers the first Tab would go on from there, and not to the link that skips to the content.
const here = document.querySelector("header nav [aria-current]");
if (here) {
  const list = here.closest("ul");
  const [link, seen] = [here.getBoundingClientRect(), list.getBoundingClientRect()];
  list.scrollLeft += (link.left + link.right - seen.left - seen.right) / 2;
}

// The server draws the live part again and again, and sends it as an event. What is open, or has the focus, stays.
const live = document.querySelector("[data-live]");
if (live) listen();

async function listen() {
  for (;;) {
    try {
      if (!document.hidden) await follow();
    } catch { /* the connection has ended: try again */ }
    await new Promise((done) => setTimeout(done, 2000));
  }
}

async function follow() {
  const leave = new AbortController();
  document.addEventListener("visibilitychange", () => leave.abort(), { once: true });
  const answer = await fetch(location.href, { headers: { Accept: "text/event-stream" }, signal: leave.signal });
  if (!answer.ok || !answer.headers.get("content-type").startsWith("text/event-stream")) return;
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) {
      const lines = text.slice(0, end).split("\n").filter((line) => line.startsWith("data: "));
      if (lines.length) renew(lines.map((line) => line.slice(6)).join("\n"));
    }
  }
}

function renew(html) {
  if (live.contains(document.activeElement) || String(getSelection())) return;
  const open = [...live.querySelectorAll("details")].map((one) => one.open);
  live.replaceChildren(...new DOMParser().parseFromString(html, "text/html").body.childNodes);
  live.querySelectorAll("details").forEach((one, at) => { one.open = open[at] ?? false; });
}
