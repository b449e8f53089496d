import { readdirSync, readFileSync, statSync } from "node:fs";
import { join, relative } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));
const read = (path: string) => readFileSync(join(root, path), "utf8");
const folders = (path: string) =>
  readdirSync(join(root, path)).filter((name) => statSync(join(root, path, name)).isDirectory());

test("docs/architecture.md lists every room with the rooms that its tsconfig.json lets it import", () => {
  const rows = [...read("docs/architecture.md").matchAll(/^\| `((?:src\/)?[a-z]+)` \| .+ \| (.+) \|$/gm)];
  const listed = Object.fromEntries(rows.map(([, room = "", imports = ""]) => [room, imports.split(", ").sort()]));
  const rooms = [...folders("src").map((room) => `src/${room}`), "races", "bench", "testing"];
  const built = Object.fromEntries(rooms.map((room) => [room, importsOf(room)]));
  expect(listed).toEqual(built);
});

test("docs/hacking.md lists every npm script", () => {
  const { scripts } = JSON.parse(read("package.json")) as { scripts: Record<string, string> };
  const page = read("docs/hacking.md");
  const commands = Object.keys(scripts).map((name) =>
    /^(start|test)$/.test(name) ? `npm ${name}` : `npm run ${name}`,
  );
  const inPage = (command: string) => new RegExp(`^\\| \`${command}(?: [^\`]*)?\` \\|`, "m").test(page);
  expect(commands.filter((command) => !inPage(command))).toEqual([]);
  expect(page).toContain(`| \`npm start\` | \`${scripts["start"]}\``);
});

test("docs/hacking.md lists every folder of tests", () => {
  const listed = [...read("docs/hacking.md").matchAll(/^\| `test\/([a-zA-Z]+)(?:\/[a-z]+)?` \|/gm)].map(
    (row) => row[1],
  );
  expect([...new Set(listed)].sort()).toEqual(folders("test").sort());
});

test("no folder of src has more files than fit on a screen", () => {
  const files = readdirSync(join(root, "src"), { recursive: true, withFileTypes: true }).filter((each) =>
    each.isFile(),
  );
  const sizes = new Map<string, number>();
  for (const { parentPath } of files) sizes.set(parentPath, (sizes.get(parentPath) ?? 0) + 1);
  const large = [...sizes]
    .filter(([, size]) => size > 30)
    .map(([folder, size]) => `${relative(root, folder)}: ${size}`);
  expect(large).toEqual([]);
});

function importsOf(room: string): string[] {
  const { references } = JSON.parse(read(`${room}/tsconfig.json`)) as { references: { path: string }[] };
  return references.length === 0 ? ["nothing"] : references.map(({ path }) => path.replace(/^.*\//, "")).sort();
}
