// An application in Node that reads a vault through the extension. `node node.mjs EXTENSION URI`
//
// It prints the number of commits that it sees, and then answers each line of its input:
//   N        waits until it sees N commits, and prints how many it sees
//   at WHEN  shows another point, by the pragma, and prints its commits and its transaction
//   latest   shows the newest point, by the function, and prints its commits

import { createInterface } from "node:readline";
import { DatabaseSync } from "node:sqlite";

const [extension, uri] = process.argv.slice(2);
const loader = new DatabaseSync(":memory:", { allowExtension: true });
loader.loadExtension(extension);
const view = new DatabaseSync(uri, { readOnly: true });
const commits = () => view.prepare("SELECT commits FROM progress").get().commits;
console.log(commits());
for await (const line of createInterface({ input: process.stdin })) {
  const [word, when] = line.split(" ");
  if (word === "at") {
    view.exec(`PRAGMA seawall_time = '${when}'`);
    const seen = commits();
    console.log(`${seen} ${view.prepare("SELECT seawall_txid() AS txid").get().txid}`);
  } else if (word === "latest") {
    view.prepare("SELECT seawall_set_time('latest')").get();
    console.log(commits());
  } else {
    const end = Date.now() + 30_000;
    while (commits() < Number(word) && Date.now() < end) await new Promise((done) => setTimeout(done, 20));
    console.log(commits());
  }
}
