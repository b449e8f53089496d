// The child of the crash test: appends groups as fast as it can, takes a snapshot now and then, and prints every
// revision that the store has acknowledged.
import { FileStore } from "../../src/adapters/disk/fileStore.ts";
import type { StoredChange } from "../../src/ports/store.ts";

const directory = process.argv[2] ?? "";
const objects = new Map<string, StoredChange>();
const apply = (change: StoredChange): void => {
  if (change.body === null) objects.delete(change.key.name);
  else objects.set(change.key.name, change);
};
const store = new FileStore({ directory, snapshotLogBytesMin: 200_000 });
const report = await store.open({ object: apply, change: apply });
process.stdout.write(`opened ${report.revision} ${report.cutBytes}\n`);

let revision = report.revision;
for (;;) {
  for (let groups = 1 + (revision % 5); groups > 0; groups--) {
    // A group is three changes that carry its number: after a crash all of them are there or none.
    const group = revision / 3;
    const changes = [0, 1, 2].map((i) => {
      revision++;
      const key = { resource: "/things", namespace: "", name: `${i}-${group % 100}` };
      const body = Buffer.from(JSON.stringify({ group, pad: "x".repeat((group * 37) % 900) }));
      return { revision, key, side: { uid: String(revision), labels: null, fields: [], owners: null }, body };
    });
    store.append(changes);
    changes.forEach(apply);
  }
  const promised = revision;
  void store.synced().then(() => process.stdout.write(`acknowledged ${promised}\n`));
  if (store.wantsSnapshot()) void store.snapshot({ revision, objects: [...objects.values()] });
  if (promised % 2 === 0) await store.synced();
  else await new Promise(setImmediate);
}
