(() => {
  const url = document.body.dataset.live, told = document.getElementById("live");
  if (!url || !window.EventSource) return;
  let source;
  const swap = (id, html) => {
    const old = document.getElementById(id);
    if (old) old.outerHTML = html;
  };
  const listen = () => {
    source = new EventSource(url);
    source.onopen = () => { told.textContent = "Live"; };
    source.onerror = () => {
      told.textContent = "Not live. If it stays so, load the page again";
      if (source && source.readyState === EventSource.CLOSED) {
        source = undefined;
        setTimeout(look, 15000);
      }
    };
    source.onmessage = (message) => {
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
    } else if (!source) {
      listen();
    }
  };
  document.addEventListener("visibilitychange", look);
  window.addEventListener("pagehide", () => { if (source) source.close(); source = undefined; });
  window.addEventListener("pageshow", look);
  look();
})();
