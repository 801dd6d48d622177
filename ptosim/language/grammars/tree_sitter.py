"""A parser of assembly for editors that read tree-sitter's: Neovim, Helix.

The generator of tree-sitter is in no registry of packages, so its output is made here: the tables
of a grammar that is small enough to be written by hand, and a scanner whose words are those of the
rows. A text is a sequence of words and of blocks in braces; what may stand where is the language
server's to say. The tables are laid out as version 14 of tree-sitter's interface wants them."""

from __future__ import annotations

from collections.abc import Sequence

TOKENS = (
    "comment", "string", "number", "type", "value", "function", "label", "attribute", "operation",
    "keyword", "constant", "name", "punctuation",
)  # fmt: skip
"""Kinds of words, named nodes of a tree; `comment` may be anywhere."""
_BRACES = ("{", "}")
_INNER = ("source_file", "block", "_items", "_item")
SYMBOLS = ("end", *TOKENS, *_BRACES, *_INNER)
_AT = {name: at for at, name in enumerate(SYMBOLS)}
_ITEMS = TOKENS[1:]

HIGHLIGHTS = """(comment) @comment
(string) @string
(number) @number @constant.numeric
(type) @type
(value) @variable
(function) @function
(label) @label
(attribute) @attribute
(operation) @function.builtin
(keyword) @keyword
(constant) @constant
["{" "}"] @punctuation.bracket
"""
FOLDS = "(block) @fold\n"

# -- the automaton: its states, and what each does with a symbol ---------------------------------
#
# source_file: nothing, or _items.  _items: _item, or _items _item.  _item: a word, or block.
# block: "{" "}", or "{" _items "}".

_STATES = (
    "error", "start", "word", "first", "next", "items", "source", "open", "inside", "empty", "full",
)  # fmt: skip
_STATE = {name: at for at, name in enumerate(_STATES)}
_REDUCES = {
    "word": ("_item", 1), "first": ("_items", 1), "next": ("_items", 2),
    "empty": ("block", 2), "full": ("block", 3),
}  # fmt: skip


def _row(state: str) -> dict[str, str]:
    """What a state does: an action by terminal, the next state by what was reduced to."""
    if state == "error":
        return dict.fromkeys(("end", *_ITEMS, *_BRACES), "RECOVER") | {"comment": "EXTRA"}
    if state in _REDUCES:
        name, count = _REDUCES[state]
        action = f"REDUCE {_AT[name]} {count}"
        return dict.fromkeys(("end", *_ITEMS, *_BRACES), action) | {"comment": "EXTRA"}
    if state == "source":
        return {"end": "ACCEPT", "comment": "EXTRA"}
    row = dict.fromkeys(_ITEMS, f"SHIFT {_STATE['word']}")
    row |= {"{": f"SHIFT {_STATE['open']}", "comment": "EXTRA", "block": str(_STATE["word"])}
    if state in ("start", "open"):
        inside = "items" if state == "start" else "inside"
        row |= {"_item": str(_STATE["first"]), "_items": str(_STATE[inside])}
    else:
        row |= {"_item": str(_STATE["next"])}
    if state == "start":
        row |= {"end": f"REDUCE {_AT['source_file']} 0", "source_file": str(_STATE["source"])}
    if state == "items":
        row |= {"end": f"REDUCE {_AT['source_file']} 1"}
    if state in ("open", "inside"):
        row |= {"}": f"SHIFT {_STATE['empty' if state == 'open' else 'full']}"}
    return row


_FORMS = {
    "RECOVER": "{.action = {.type = 3}}",
    "ACCEPT": "{.action = {.type = 2}}",
    "EXTRA": "{.action = {.shift = {.type = 0, .extra = true}}}",
    "SHIFT": "{{.action = {{.shift = {{.type = 0, .state = {0}}}}}}}",
    "REDUCE": "{{.action = {{.reduce = {{.type = 1, .symbol = {0}, .child_count = {1}}}}}}}",
}


def _tables() -> tuple[str, str]:
    """The rows of the automaton, and the actions that they name by number."""
    actions: dict[str, int] = {}
    entries = ["{.entry = {.count = 0}}"]
    rows = []
    for state in _STATES:
        cells = []
        for symbol, what in sorted(_row(state).items(), key=lambda cell: _AT[cell[0]]):
            if not what.isdigit() and what not in actions:
                word, *numbers = what.split()
                actions[what] = len(entries)
                reusable = "false" if word == "RECOVER" else "true"
                entries.append(f"{{.entry = {{.count = 1, .reusable = {reusable}}}}}")
                entries.append(_FORMS[word].format(*numbers) if numbers else _FORMS[word])
            cells.append(f"[{_AT[symbol]}] = {actions.get(what, what)}")
        rows.append(f"  [{_STATE[state]}] = {{{', '.join(cells)}}},")
    return "\n".join(rows), "\n".join(f"  {entry}," for entry in entries)


def parser(words: Sequence[tuple[str, Sequence[str]]]) -> str:
    """Return the text of `parser.c`; `words` are words with the kind of each list of them."""
    rows, actions = _tables()
    kinds: dict[str, int] = {}
    for kind, listed in reversed(words):  # the first list that has a word says what it is
        kinds |= dict.fromkeys(listed, _AT[kind])
    known = "\n".join(f'  {{"{word}", {kind}}},' for word, kind in sorted(kinds.items()))
    names = ", ".join(f'"{name}"' for name in SYMBOLS)
    marks = ", ".join(_mark(name) for name in SYMBOLS)
    counts = {
        "SYMBOLS": len(SYMBOLS), "WORDS": len(SYMBOLS) - len(_INNER), "STATES": len(_STATES),
        "KNOWN": len(kinds), **{f"T_{name.upper()}": _AT[name] for name in TOKENS},
        "T_OPEN": _AT["{"], "T_CLOSE": _AT["}"],
    }  # fmt: skip
    defined = "\n".join(f"#define {name} {number}" for name, number in counts.items())
    same = ", ".join(map(str, range(len(SYMBOLS))))
    states = ", ".join(map(str, range(len(_STATES))))
    text = _C.replace("@DEFINED@", defined).replace("@KNOWN@", known).replace("@ROWS@", rows)
    text = text.replace("@ACTIONS@", actions).replace("@NAMES@", names).replace("@MARKS@", marks)
    return text.replace("@SAME@", same).replace("@NUMBERS@", states)


def _mark(name: str) -> str:
    is_visible = not name.startswith("_") and name != "end"
    is_named = (name not in _BRACES and is_visible) or name == "end"
    return f"{{{str(is_visible).lower()}, {str(is_named).lower()}, false}}"


_C = """// Made by `python -m ptosim.language.grammars.grammars` from the rows of the ISA.
#include <stdbool.h>
#include <stdint.h>
#include <string.h>
@DEFINED@

typedef struct Lexer Lexer;
struct Lexer {
  int32_t lookahead;
  uint16_t symbol;
  void (*advance)(Lexer *, bool skip);
  void (*mark_end)(Lexer *);
  uint32_t (*column)(Lexer *);
  bool (*at_start)(const Lexer *);
  bool (*at_end)(const Lexer *);
};
typedef union {
  struct { uint8_t type; uint16_t state; bool extra, repetition; } shift;
  struct { uint8_t type, child_count; uint16_t symbol; int16_t order; uint16_t kind; } reduce;
  uint8_t type;
} Action;
typedef union {
  Action action;
  struct { uint8_t count; bool reusable; } entry;
} Entry;
typedef struct { bool visible, named, supertype; } Mark;
typedef struct { uint16_t lexer, external; } Mode;
typedef struct {
  uint32_t version, symbols, aliases, words, external_words, states, large_states, productions;
  uint32_t fields;
  uint16_t longest_alias;
  const uint16_t *table, *small_table;
  const uint32_t *small_map;
  const Entry *actions;
  const char *const *names, *const *field_names;
  const void *field_slices, *field_entries;
  const Mark *marks;
  const uint16_t *public_symbols, *alias_map, *alias_sequences;
  const Mode *modes;
  bool (*scan)(Lexer *, uint16_t state), (*scan_keyword)(Lexer *, uint16_t state);
  uint16_t keyword;
  struct {
    const bool *states;
    const uint16_t *symbols;
    void *(*create)(void);
    void (*destroy)(void *);
    bool (*scan)(void *, Lexer *, const bool *);
    unsigned (*write)(void *, char *);
    void (*read)(void *, const char *, unsigned);
  } external;
  const uint16_t *primary_states;
} Language;

static const struct { const char *word; uint16_t kind; } known[KNOWN] = {
@KNOWN@
};

static bool is_digit(int32_t c) { return c >= '0' && c <= '9'; }
static bool is_letter(int32_t c) { return c == '_' || ((c | 32) >= 'a' && (c | 32) <= 'z'); }
static bool is_word(int32_t c) { return is_letter(c) || is_digit(c); }

static bool found(Lexer *lexer, uint16_t symbol) {
  lexer->mark_end(lexer);
  lexer->symbol = symbol;
  return true;
}

static void names(Lexer *lexer, const char *also) {
  while (is_word(lexer->lookahead) ||
         (lexer->lookahead > 0 && lexer->lookahead < 128 && strchr(also, lexer->lookahead)))
    lexer->advance(lexer, false);
}

static bool word(Lexer *lexer) {
  char text[64];
  unsigned length = 0;
  while (is_word(lexer->lookahead) || lexer->lookahead == '.') {
    if (length < sizeof text - 1) text[length++] = (char)lexer->lookahead;
    lexer->advance(lexer, false);
  }
  text[length] = 0;
  for (unsigned low = 0, high = KNOWN; low < high;) {
    unsigned middle = (low + high) / 2;
    int order = strcmp(text, known[middle].word);
    if (!order) return found(lexer, known[middle].kind);
    if (order < 0) high = middle; else low = middle + 1;
  }
  unsigned at = text[0] == 's' || text[0] == 'u' ? 1 : 0;
  bool is_number = text[at] == 'i' && text[at + 1];
  for (const char *c = text + at + 1; *c; c++) is_number &= is_digit(*c);
  bool is_small = !strncmp(text, "f8E", 3) || !strncmp(text, "f4E", 3);
  return found(lexer, is_number || is_small ? T_TYPE : T_NAME);
}

static bool number(Lexer *lexer) {
  bool is_shape = lexer->lookahead == '?', is_hex = false;
  for (int32_t before = 0, c; (c = lexer->lookahead), is_word(c) || c == '.' || c == '?' ||
       ((c == '+' || c == '-') && (before | 32) == 'e' && !is_shape && !is_hex); before = c) {
    if (c == 'x' && before == '0' && !is_shape) is_hex = true;
    else if (c == 'x') is_shape = true;
    lexer->advance(lexer, false);
  }
  return found(lexer, is_shape ? T_TYPE : T_NUMBER);
}

static bool scan(Lexer *lexer, uint16_t state) {
  (void)state;
  while (lexer->lookahead == ' ' || lexer->lookahead == '\\t' || lexer->lookahead == '\\n' ||
         lexer->lookahead == '\\r')
    lexer->advance(lexer, true);
  if (lexer->at_end(lexer)) return found(lexer, 0);
  int32_t first = lexer->lookahead;
  if (is_letter(first)) return word(lexer);
  if (is_digit(first) || first == '?') return number(lexer);
  lexer->advance(lexer, false);
  switch (first) {
    case '{': return found(lexer, T_OPEN);
    case '}': return found(lexer, T_CLOSE);
    case '%': names(lexer, "$.-#"); return found(lexer, T_VALUE);
    case '@': names(lexer, "$.-"); return found(lexer, T_FUNCTION);
    case '^': names(lexer, ""); return found(lexer, T_LABEL);
    case '!': names(lexer, "."); return found(lexer, T_TYPE);
    case '#': names(lexer, "."); return found(lexer, T_ATTRIBUTE);
    case '-':
      if (is_digit(lexer->lookahead)) return number(lexer);
      break;
    case '/':
      if (lexer->lookahead != '/') break;
      while (lexer->lookahead != '\\n' && !lexer->at_end(lexer)) lexer->advance(lexer, false);
      return found(lexer, T_COMMENT);
    case '"':
      while (lexer->lookahead != '"' && lexer->lookahead != '\\n' && !lexer->at_end(lexer)) {
        if (lexer->lookahead == '\\\\') lexer->advance(lexer, false);
        if (!lexer->at_end(lexer)) lexer->advance(lexer, false);
      }
      if (lexer->lookahead == '"') lexer->advance(lexer, false);
      return found(lexer, T_STRING);
  }
  return found(lexer, T_PUNCTUATION);
}

static const uint16_t table[STATES][SYMBOLS] = {
@ROWS@
};
static const Entry actions[] = {
@ACTIONS@
};
static const char *const symbol_names[SYMBOLS] = {@NAMES@};
static const Mark marks[SYMBOLS] = {@MARKS@};
static const uint16_t same[] = {@SAME@}, numbers[] = {@NUMBERS@}, no_alias[1] = {0};
static const Mode modes[STATES] = {{0, 0}};

#ifdef _WIN32
__declspec(dllexport)
#endif
const Language *tree_sitter_pto(void) {
  static const Language language = {
    .version = 14, .symbols = SYMBOLS, .words = WORDS, .states = STATES, .large_states = STATES,
    .productions = 1, .table = table[0], .actions = actions, .names = symbol_names, .marks = marks,
    .public_symbols = same, .alias_map = no_alias, .alias_sequences = no_alias, .modes = modes,
    .scan = scan, .primary_states = numbers,
  };
  return &language;
}
"""
