(() => {
  const url = document.body.dataset.live, told = document.getElementById("live");
  if (!url || !window.EventSource) return;
  const loaded = told.textContent;
  let source, heard = Date.now();
  const tell = (text, stale) => {
    if (told.textContent !== text) told.textContent = text;
    document.body.classList.toggle("stale", stale);
  };
  const alive = () => {
    heard = Date.now();
    tell("Live", false);
  };
  const swap = (id, html) => {
    const old = document.getElementById(id);
    if (old) old.outerHTML = html;
  };
  const silent = () => tell(`Not live since ${new Date(heard).toLocaleTimeString()}. If it stays so, load the page again`, true);
  const listen = () => {
    source = new EventSource(url);
    source.onopen = alive;
    source.onerror = () => {
      silent();
      if (source && source.readyState === EventSource.CLOSED) {
        source = undefined;
        setTimeout(look, 15000);
      }
    };
    source.onmessage = (message) => {
      alive();
      const focused = document.activeElement && document.activeElement.id;
      for (const [id, html] of JSON.parse(message.data)) swap(id, html);
      if (focused && document.activeElement.id !== focused) {
        const again = document.getElementById(focused);
        if (again) again.focus({ preventScroll: true });
      }
    };
  };
  const look = () => {
    if (document.hidden) {
      if (source) source.close();
      source = undefined;
      tell(loaded, true);
    } else if (!source) {
      listen();
    }
  };
  setInterval(() => { if (!document.hidden && Date.now() - heard > 30000) silent(); }, 1000);
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", () => { if (source) source.close(); source = undefined; });
  window.addEventListener("pageshow", look);
  look();
})();
