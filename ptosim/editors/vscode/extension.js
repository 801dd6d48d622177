// Starts the language server and the debug adapter of ptosim, and shows tiles while debugging.
"use strict";
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { TileView } = require("./tiles");

let client;

function command() {
  return vscode.workspace.getConfiguration("ptosim").get("path", "ptosim");
}

function inTerminal(words) {
  const name = "ptosim";
  const terminal = vscode.window.terminals.find((t) => t.name === name) || vscode.window.createTerminal(name);
  terminal.show(true);
  terminal.sendText([command(), ...words].map(quoted).join(" "));
}

// A shell takes what is in single quotes as it is; file names may have anything else.
function quoted(word) {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replace(/'/g, `'\\''`)}'`;
}

function fileOf(uri) {
  if (uri) return vscode.Uri.parse(uri).fsPath;
  const editor = vscode.window.activeTextEditor;
  return editor && editor.document.languageId === "pto" ? editor.document.uri.fsPath : undefined;
}

function onEntry(action) {
  return (uri, entry) => {
    const file = fileOf(uri);
    if (!file) return vscode.window.showErrorMessage("Open a .pto file first.");
    return action(file, entry);
  };
}

const actions = {
  run: (file, entry) => inTerminal(["run", file, ...(entry ? ["--entry", entry] : [])]),
  cost: (file, entry) => inTerminal(["cost", file, ...(entry ? ["--entry", entry] : [])]),
  report: (file, entry) => inTerminal(["report", file, "-o", `${file}.html`, ...(entry ? ["--entry", entry] : [])]),
  debug: (file, entry) =>
    vscode.debug.startDebugging(undefined, {
      type: "ptosim", request: "launch", name: "Debug", program: file, stopOnEntry: true,
      ...(entry ? { entry } : {}),
    }),
};

function reverse(request) {
  return async () => {
    const session = vscode.debug.activeDebugSession;
    if (!session) return;
    const { threads } = await session.customRequest("threads");
    await session.customRequest(request, { threadId: threads[0].id });
  };
}

async function activate(context) {
  const add = (thing) => context.subscriptions.push(thing);
  const adapter = () => new vscode.DebugAdapterExecutable(command(), ["dap"]);
  add(vscode.debug.registerDebugAdapterDescriptorFactory("ptosim", { createDebugAdapterDescriptor: adapter }));
  for (const [name, action] of Object.entries(actions)) {
    add(vscode.commands.registerCommand(`ptosim.${name}`, onEntry(action)));
  }
  add(vscode.commands.registerCommand("ptosim.stepBack", reverse("stepBack")));
  add(vscode.commands.registerCommand("ptosim.reverse", reverse("reverseContinue")));
  const tiles = new TileView();
  add(vscode.window.registerWebviewViewProvider("ptosim.tiles", tiles));
  add(vscode.debug.registerDebugAdapterTrackerFactory("ptosim", tiles));
  const server = { command: command(), args: ["lsp"], transport: TransportKind.stdio };
  client = new LanguageClient("ptosim", "ptosim", { run: server, debug: server }, {
    documentSelector: [{ language: "pto" }, { language: "pto-template" }, { language: "python" }],
    synchronize: { configurationSection: "ptosim" },
  });
  try {
    await client.start();
  } catch (problem) {
    vscode.window.showErrorMessage(`ptosim does not start (${problem}): pip install 'ptosim[lsp]', or set ptosim.path.`);
  }
}

function deactivate() {
  return client ? client.stop() : undefined;
}

module.exports = { activate, deactivate, quoted };
