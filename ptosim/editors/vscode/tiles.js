// The tiles of the program at a stop, as a table; a click shows the rows of one.
"use strict";

const ROWS = 64;

function escaped(text) {
  const marks = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" };
  return String(text).replace(/[&<>"]/g, (c) => marks[c]);
}

// `tiles` are variables of the Debug Adapter Protocol; `rows` the children of the one that is open.
function page(tiles, open, rows) {
  const row = (cells, attributes = "") => `<tr${attributes}>${cells.map((c) => `<td>${escaped(c)}</td>`).join("")}</tr>`;
  const head = tiles.map((t) => row([t.name, t.type || "", t.value], t.variablesReference ? ` data-open="${escaped(t.name)}" tabindex="0"` : ""));
  const body = open ? `<h3>${escaped(open)}</h3><table>${rows.map((r) => row([r.name, r.value])).join("")}</table>` : "";
  return `<!DOCTYPE html><html><head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'">
<style>table{border-collapse:collapse;font-family:var(--vscode-editor-font-family)}td{padding:1px 8px;white-space:nowrap}
tr[data-open]{cursor:pointer}tr[data-open]:hover{background:var(--vscode-list-hoverBackground)}</style></head>
<body><table>${head.join("") || "<tr><td>no tile yet</td></tr>"}</table>${body}
<script>const api=acquireVsCodeApi();for(const r of document.querySelectorAll("[data-open]"))r.onclick=()=>api.postMessage(r.dataset.open);</script>
</body></html>`;
}

class TileView {
  resolveWebviewView(view) {
    this.view = view;
    view.webview.options = { enableScripts: true };
    view.webview.onDidReceiveMessage((name) => {
      this.open = name;
      return this.refresh();
    });
    view.webview.html = page([]);
    return this.refresh(); // it may be shown after a stop
  }

  createDebugAdapterTracker(session) {
    return {
      onDidSendMessage: (message) => {
        if (message.type !== "event" || message.event !== "stopped") return;
        this.session = session;
        this.thread = message.body.threadId;
        this.refresh();
      },
    };
  }

  async refresh() {
    if (!this.view || !this.session) return;
    const ask = (request, fields) => this.session.customRequest(request, fields);
    try {
      const { stackFrames } = await ask("stackTrace", { threadId: this.thread, levels: 1 });
      const { scopes } = await ask("scopes", { frameId: stackFrames[0].id });
      const scope = scopes.find((s) => s.name === "Tiles");
      const tiles = scope ? (await ask("variables", { variablesReference: scope.variablesReference })).variables : [];
      const chosen = tiles.find((t) => t.name === this.open && t.variablesReference);
      const rows = chosen
        ? (await ask("variables", { variablesReference: chosen.variablesReference, start: 0, count: ROWS })).variables
        : [];
      this.view.webview.html = page(tiles, chosen && chosen.name, rows);
    } catch (problem) {
      this.view.webview.html = page([{ name: "error", value: String(problem) }]);
    }
  }
}

module.exports = { TileView, page };
