// Search without a server: PAGES are [address, title, group, text]; all words must be there, and
// pages that have them in their title come first.
const box = document.getElementById("search");
const list = document.getElementById("found");
const root = document.body.dataset.root;

function found(words) {
  const scored = [];
  for (const [address, title, group, text] of PAGES) {
    const head = title.toLowerCase(), body = text.toLowerCase();
    if (!words.every((word) => head.includes(word) || body.includes(word))) continue;
    const inHead = words.filter((word) => head.includes(word)).length;
    const same = head === words.join(" ") || head === "pto." + words.join(" ");
    scored.push([same ? -1000 : -inHead * 100 + head.length / 100, address, title, group]);
  }
  return scored.sort((a, b) => a[0] - b[0]).slice(0, 30);
}

box.addEventListener("input", () => {
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
  list.replaceChildren();
  if (!words.length) return;
  for (const [, address, title, group] of found(words)) {
    const item = document.createElement("li"), link = document.createElement("a");
    const where = document.createElement("small");
    link.href = root + address;
    link.textContent = title;
    where.textContent = " " + group;
    item.append(link, where);
    list.append(item);
  }
  if (!list.children.length) list.textContent = "nothing has these words";
});
