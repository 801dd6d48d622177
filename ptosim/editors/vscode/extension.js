// Starts the language server and the debug adapter of ptosim, and shows tiles while debugging.
"use strict";
const fs = require("fs");
const path = require("path");
const vscode = require("vscode");
const { LanguageClient, TransportKind } = require("vscode-languageclient/node");
const { TileView } = require("./tiles");

let client;

// The command of the setting; else that of the environment that is chosen for Python, or of a folder's
// own `.venv`; else that of the path.
function command() {
  const set = vscode.workspace.getConfiguration("ptosim").get("path", "ptosim");
  if (set !== "ptosim") return set;
  const python = vscode.extensions.getExtension("ms-python.python");
  const chosen = python && python.isActive ? python.exports.environments.getActiveEnvironmentPath().path : "";
  const other = vscode.workspace.getConfiguration("python").get("defaultInterpreterPath", "");
  const folders = (vscode.workspace.workspaceFolders || []).map((folder) => path.join(folder.uri.fsPath, ".venv"));
  const bin = process.platform === "win32" ? "Scripts" : "bin";
  const beside = [chosen, other].filter(path.isAbsolute).map((file) => (isFolder(file) ? path.join(file, bin) : path.dirname(file)));
  const places = [...beside, ...folders.map((folder) => path.join(folder, bin))];
  const name = process.platform === "win32" ? "ptosim.exe" : "ptosim";
  return places.map((place) => path.join(place, name)).find((file) => fs.existsSync(file)) || set;
}

function isFolder(file) {
  return fs.existsSync(file) && fs.statSync(file).isDirectory();
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

// What is in the memories at the cursor, as the server says it.
class Memory {
  constructor() {
    this.changed = new vscode.EventEmitter();
    this.onDidChangeTreeData = this.changed.event;
    this.spaces = [];
  }

  async show(editor) {
    this.spaces = (await asked("ptosim/memory", editor)) || [];
    this.changed.fire();
  }

  getChildren(space) {
    return space ? space.tiles : this.spaces;
  }

  getTreeItem(one) {
    const isSpace = Boolean(one.tiles);
    const state = isSpace ? vscode.TreeItemCollapsibleState.Expanded : vscode.TreeItemCollapsibleState.None;
    const item = new vscode.TreeItem(isSpace ? one.space : one.name, state);
    item.description = isSpace
      ? `${one.used} of ${one.bytes} bytes`
      : `0x${one.start.toString(16)}, ${one.bytes} bytes, line ${one.line + 1}${one.alive ? "" : ", not in use here"}`;
    item.iconPath = isSpace ? undefined : new vscode.ThemeIcon(one.alive ? "circle-filled" : "circle-outline");
    return item;
  }
}

async function asked(method, editor) {
  if (!client || !editor || editor.document.languageId !== "pto") return undefined;
  const { line, character } = editor.selection.active;
  const textDocument = { uri: editor.document.uri.toString() };
  try {
    return await client.sendRequest(method, { textDocument, position: { line, character } });
  } catch {
    return undefined; // the server ended, or is too old to know
  }
}

// Target of the entry at the cursor, and its cycles.
async function showStatus(item, editor) {
  const found = await asked("ptosim/entry", editor);
  if (!found || !found.name) return item.hide();
  const cycles = Object.entries(found.cycles).map(([target, count]) => `${target} ${Math.round(count)} cycles`);
  item.text = [`@${found.name}`, `for ${found.target}`, ...cycles].join(" · ");
  item.tooltip = found.launch ? `Cycles ${found.launch}` : undefined;
  item.show();
}

async function activate(context) {
  const add = (thing) => context.subscriptions.push(thing);
  const adapter = () => new vscode.DebugAdapterExecutable(command(), ["dap"]);
  add(vscode.debug.registerDebugAdapterDescriptorFactory("ptosim", { createDebugAdapterDescriptor: adapter }));
  for (const [name, action] of Object.entries(actions)) {
    add(vscode.commands.registerCommand(`ptosim.${name}`, onEntry(action)));
  }
  const tiles = new TileView();
  add(vscode.window.registerWebviewViewProvider("ptosim.tiles", tiles));
  add(vscode.debug.registerDebugAdapterTrackerFactory("ptosim", tiles));
  const server = { command: command(), args: ["lsp"], transport: TransportKind.stdio };
  const told = (uri, findings, next) => {
    next(uri, findings); // also when a text was priced
    follow(vscode.window.activeTextEditor);
  };
  client = new LanguageClient("ptosim", "ptosim", { run: server, debug: server }, {
    documentSelector: [{ language: "pto" }, { language: "pto-template" }, { language: "python" }],
    synchronize: { configurationSection: "ptosim" },
    middleware: { handleDiagnostics: told },
  });
  const memory = new Memory();
  const status = vscode.window.createStatusBarItem(vscode.StatusBarAlignment.Right);
  add(status);
  add(vscode.window.registerTreeDataProvider("ptosim.memory", memory));
  let waiting;
  const follow = (editor) => {
    clearTimeout(waiting);
    waiting = setTimeout(() => {
      memory.show(editor);
      showStatus(status, editor);
    }, 300);
  };
  add(vscode.window.onDidChangeTextEditorSelection((event) => follow(event.textEditor)));
  add(vscode.window.onDidChangeActiveTextEditor(follow));
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
