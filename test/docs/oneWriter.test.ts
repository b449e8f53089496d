/**
 * Controllers write by intents alone, so that no precondition and no fence can be forgotten. The compiler holds most of
 * it (a controller's API has no verb that writes); this holds the rest: no call of a verb that writes outside the files
 * below, one sender of intents, and one place that counts, answers and resolves what is in flight.
 */
import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { expect, test } from "vitest";

const root = fileURLToPath(new URL("../../", import.meta.url));

/** Rooms that are the API, implement its port, or play what is outside of the control plane. */
const otherRooms = ["adapters", "apiserver", "ports", "intents", "kubelet", "sim", "standin"];

const exceptions: Readonly<Record<string, string>> = {
  "control/runtime/fencedKube.ts": "implements the port: adds the fence",
  "control/cache/reachability.ts": "implements the port: notes whether the API answers",
  "control/devices/servedDevices.ts": "implements the port: speaks the version of DRA that the cluster serves",
  "cli/inventory/demo.ts": "the demo's own cloud, which labels its nodes",
  "cli/cluster/resizePools.ts": "a tool: deletes simulated nodes that `--pool` does not include",
  "cli/cluster/applyManifests.ts": "a tool: applies the demo's manifests as kubectl does",
  "cli/node/drain.ts": "a tool: cordons, evicts and deletes as kubectl does",
  "cli/node/join.ts": "a tool: makes a bootstrap token as kubeadm does",
  "cli/install/installApply.ts": "a tool: applies the installation as kubectl does",
  "cli/install/uninstallObjects.ts": "a tool: removes the installation as kubectl does",
};

const mutating = /\b(?:kube|\w*Kube|outside|api|client)\.(?:create|update|patch|delete|bind|evict)\(/;

function sources(): string[] {
  return readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && !path.endsWith(".test.ts") && !otherRooms.includes(path.split("/")[0] ?? ""),
  );
}

/** The files with a match. */
function filesWith(pattern: RegExp): string[] {
  return sources()
    .filter((path) => pattern.test(readFileSync(join(root, "src", path), "utf8")))
    .sort();
}

test("no file of the control plane calls a verb that writes", () => {
  expect(filesWith(mutating)).toEqual(Object.keys(exceptions).sort());
});

test("intents are sent by the writer alone", () => {
  // The lease is what the fence of the writer rests on.
  const senders = ["control/runtime/lease.ts", "control/runtime/writer.ts"];
  expect(filesWith(/\b(?:applyIntent|destroyAfterLooking)\(/)).toEqual(senders);
});

test("what is in flight is counted, answered and resolved in one place", () => {
  expect(filesWith(/\b[aA]ssumeCache\.(?:decide|restore|send|answer|read|abandon|onEnd)\(/)).toEqual([
    "control/runtime/inFlightWrites.ts",
  ]);
  expect(filesWith(/\bnew Ledger\b/)).toEqual(["snapshot/assumeCache.ts"]);
});

test("only what is played has the API with all its verbs from the controller runtime", () => {
  expect(filesWith(/\.outside\b/)).toEqual(["control/runtime/controllers.ts"]);
});
