/**
 * Controllers write by intents alone, so that no precondition and no fence can be forgotten. The compiler holds most of it (a
 * controller's API has no verb that writes); this holds the rest: no call of a verb that writes outside the files below.
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
  "cli/cluster/applyManifests.ts": "a tool: applies the demo's manifests as kubectl does",
  "cli/install/installApply.ts": "a tool: applies the installation as kubectl does",
  "cli/install/uninstallObjects.ts": "a tool: removes the installation as kubectl does",
};

const mutating = /\b(?:kube|\w*Kube|outside|api|client)\.(?:create|update|patch|delete|bind|evict)\(/;

function sources(): string[] {
  return readdirSync(join(root, "src"), { recursive: true, encoding: "utf8" }).filter(
    (path) => path.endsWith(".ts") && !path.endsWith(".test.ts") && !otherRooms.includes(path.split("/")[0] ?? ""),
  );
}

const writes = (path: string): boolean => mutating.test(readFileSync(join(root, "src", path), "utf8"));

test("no file of the control plane calls a verb that writes", () => {
  expect(
    sources()
      .filter((path) => writes(path))
      .sort(),
  ).toEqual(Object.keys(exceptions).sort());
});

test("only what is played has the API with all its verbs from the controller runtime", () => {
  const users = sources().filter((path) => /\.outside\b/.test(readFileSync(join(root, "src", path), "utf8")));
  expect(users).toEqual(["control/runtime/controllers.ts"]);
});
