import { describe, expect, test } from "vitest";
import type { KubeObject } from "../model/objects/object.ts";
import { type KindEvent, KindTable } from "./kindTable.ts";

/** `p1@7` is pod p1 in its state of revision 7; `p1#2@7` is the second pod of that name. */
function pod(text: string): KubeObject {
  const [, name, life, resourceVersion] = /^(\w+)(?:#(\d+))?@(\d+)$/.exec(text) ?? [];
  if (name === undefined || resourceVersion === undefined) throw new Error(`no pod: ${text}`);
  const uid = `${name}#${life ?? 1}`;
  const creationTimestamp = "2026-01-01T00:00:00Z";
  return { apiVersion: "v1", kind: "Pod", metadata: { name, namespace: "a", uid, resourceVersion, creationTimestamp } };
}

function event(text: string): KindEvent {
  const [verb, what = ""] = text.split(" ");
  if (verb === "put" || verb === "removed") return { type: verb, object: pod(what) };
  if (verb === "bookmark") return { type: "bookmark", revision: what };
  return verb === "begins" ? { type: "relistBegins" } : { type: "relistDone", revision: what };
}

function played(texts: readonly string[], table = new KindTable({ freeze: true })) {
  const said: string[] = [];
  for (const text of texts) {
    const { changes, refused } = table.apply(event(text));
    for (const change of changes) {
      const { uid, resourceVersion } = change.object.metadata;
      const unknown = change.type === "deleted" && change.isFinalStateUnknown ? " unknown" : "";
      said.push(`${change.type}${unknown} ${uid}@${resourceVersion}`);
    }
    if (refused !== undefined) said.push("refused");
  }
  const { revision, objects, isComplete } = table.view();
  const holds = [...objects.values()].map(({ metadata }) => `${metadata.uid}@${metadata.resourceVersion}`).join(" ");
  return { said, revision, holds, isComplete };
}

const listed = ["begins", "put p1@3", "put p2@5", "done 6"];

describe("what is known of a kind", () => {
  test.each([
    { name: "a list shows when it is whole", events: listed.slice(0, 3), said: [], holds: "", revision: "0" },
    {
      name: "a whole list adds everything, in order of name",
      events: ["begins", "put p2@5", "put p1@3", "done 6"],
      said: ["added p1#1@3", "added p2#1@5"],
      holds: "p1#1@3 p2#1@5",
      revision: "6",
    },
    {
      name: "events after the list change it",
      events: [...listed, "put p1@7", "removed p2@8", "put p3@9"],
      said: ["added p1#1@3", "added p2#1@5", "updated p1#1@7", "deleted p2#1@8", "added p3#1@9"],
      holds: "p1#1@7 p3#1@9",
      revision: "9",
    },
    {
      name: "an event that was told already changes nothing",
      events: [...listed, "put p1@7", "put p1@7", "put p1@3", "removed p2@5"],
      said: ["added p1#1@3", "added p2#1@5", "updated p1#1@7", "deleted p2#1@5"],
      holds: "p1#1@7",
      revision: "7",
    },
    {
      name: "a deleted pod does not return through an old event",
      events: [...listed, "removed p2@8", "put p2@5"],
      said: ["added p1#1@3", "added p2#1@5", "deleted p2#1@8"],
      holds: "p1#1@3",
      revision: "8",
    },
    {
      name: "a bookmark moves the revision and nothing else",
      events: [...listed, "bookmark 20", "bookmark 10"],
      said: ["added p1#1@3", "added p2#1@5"],
      holds: "p1#1@3 p2#1@5",
      revision: "20",
    },
    {
      name: "a second list replaces the first in one piece, and what vanished is deleted in its last known state",
      events: [...listed, "begins", "put p3@9", "put p1@3", "done 12"],
      said: ["added p1#1@3", "added p2#1@5", "deleted unknown p2#1@5", "added p3#1@9"],
      holds: "p1#1@3 p3#1@9",
      revision: "12",
    },
    {
      name: "a list that was begun again forgets what it had",
      events: ["begins", "put p9@3", ...listed],
      said: ["added p1#1@3", "added p2#1@5"],
      holds: "p1#1@3 p2#1@5",
      revision: "6",
    },
    {
      name: "a list of an older revision is refused",
      events: [...listed, "removed p2@8", "begins", "put p1@3", "put p2@5", "done 7"],
      said: ["added p1#1@3", "added p2#1@5", "deleted p2#1@8", "refused"],
      holds: "p1#1@3",
      revision: "8",
    },
    {
      name: "a list with an older state of an object is refused",
      events: [...listed, "put p1@7", "begins", "put p1@3", "put p2@5", "done 9"],
      said: ["added p1#1@3", "added p2#1@5", "updated p1#1@7", "refused"],
      holds: "p1#1@7 p2#1@5",
      revision: "7",
    },
    {
      name: "another pod of the same name is a deletion and an addition, in a list as in an event",
      events: [...listed, "put p1#2@7", "begins", "put p1#3@9", "put p2@5", "done 10"],
      said: [
        "added p1#1@3",
        "added p2#1@5",
        "deleted unknown p1#1@3",
        "added p1#2@7",
        "deleted unknown p1#2@7",
        "added p1#3@9",
      ],
      holds: "p1#3@9 p2#1@5",
      revision: "10",
    },
    {
      name: "changes while a list is streamed belong to the list",
      events: ["begins", "put p1@3", "put p2@5", "put p1@7", "removed p2@8", "done 8"],
      said: ["added p1#1@7"],
      holds: "p1#1@7",
      revision: "8",
    },
  ])("$name", ({ events, said, holds, revision }) => {
    const result = played(events);
    expect(result.said).toEqual(said);
    expect(result.holds).toBe(holds);
    expect(result.revision).toBe(revision);
  });

  test("an object that a new list has unchanged is the same object", () => {
    const table = new KindTable();
    played(listed, table);
    const before = table.get("a/p1");
    played(["begins", "put p1@3", "done 9"], table);
    expect(table.get("a/p1")).toBe(before);
  });

  test("a transform drops fields before the object is stored", () => {
    const table = new KindTable({ transform: ({ apiVersion, kind, metadata }) => ({ apiVersion, kind, metadata }) });
    table.apply({ type: "relistBegins" });
    table.apply({ type: "put", object: { ...pod("p1@3"), spec: { large: true } } });
    const { changes } = table.apply({ type: "relistDone", revision: "3" });
    expect(changes[0]?.object["spec"]).toBeUndefined();
  });
});
