/**
 * A snapshot as a file: one JSON object, one line for each object of the cluster, so that two files can be compared
 * line by line.
 */
import { isObject } from "../../model/objects/json.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { UserError } from "../../model/userError.ts";
import { formatTime, timeToMs } from "../../model/values/time.ts";
import { type ClusterSnapshot, clusterSnapshot, type SnapshotKind } from "./clusterSnapshot.ts";
import { isKindName, type KindName } from "./readKinds.ts";

const apiVersion = "muster.dev/v1";
const kind = "ClusterSnapshot";

/** Yields the file in chunks: a cluster may be larger than the longest possible string. */
export function* snapshotText(snapshot: ClusterSnapshot): Generator<string> {
  const { revision, takenAtMs, incoherent } = snapshot;
  const head = { apiVersion, kind, revision, takenAt: formatTime(takenAtMs), incoherent };
  yield `${JSON.stringify(head).slice(0, -1)},"kinds":[`;
  let isFirst = true;
  for (const [name, { objects, ...about }] of snapshot.kinds) {
    yield `${isFirst ? "" : ","}\n${JSON.stringify({ name, ...about }).slice(0, -1)},"objects":[`;
    isFirst = false;
    let separator = "\n";
    for (const object of objects) {
      yield `${separator}${JSON.stringify(object)}`;
      separator = ",\n";
    }
    yield "]}";
  }
  yield "\n]}\n";
}

/** Parses a snapshot file. An invalid file is refused with the field that is wrong. */
export function parseSnapshot(text: string, source: string): ClusterSnapshot {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (cause) {
    throw unusable(source, `is not JSON: ${cause instanceof Error ? cause.message : String(cause)}`);
  }
  if (!isObject(value) || value["kind"] !== kind || value["apiVersion"] !== apiVersion) {
    throw unusable(source, `is not a ${kind} of ${apiVersion}`);
  }
  const { revision, takenAt, kinds } = value;
  const takenAtMs = typeof takenAt === "string" ? timeToMs(takenAt) : undefined;
  if (typeof revision !== "string" || takenAtMs === undefined || !Array.isArray(kinds)) {
    throw unusable(source, "lacks revision, takenAt or kinds");
  }
  const found = new Map<KindName, SnapshotKind>();
  for (const [at, each] of kinds.entries()) {
    const where = `kinds[${at}]`;
    if (!isObject(each) || typeof each["name"] !== "string" || !Array.isArray(each["objects"])) {
      throw unusable(source, `${where} lacks name or objects`);
    }
    // A newer version of Muster may have saved kinds that this one does not know.
    if (!isKindName(each["name"])) continue;
    found.set(each["name"], {
      group: textAt(each["group"]),
      version: textAt(each["version"]),
      plural: textAt(each["plural"]),
      revision: textAt(each["revision"]),
      served: each["served"] === true,
      ...(typeof each["refused"] === "string" ? { refused: each["refused"] } : {}),
      objects: each["objects"].map((object, index) => objectAt(object, source, `${where}.objects[${index}]`)),
    });
  }
  if (found.get("pods")?.served !== true) throw unusable(source, "has no list of pods");
  const incoherent = Array.isArray(value["incoherent"]) ? value["incoherent"].map(String) : [];
  const snapshot = clusterSnapshot(revision, takenAtMs, found);
  return incoherent.length === 0 ? snapshot : { ...snapshot, coherent: false, incoherent };
}

function objectAt(value: unknown, source: string, where: string): KubeObject {
  const metadata = isObject(value) ? value["metadata"] : undefined;
  if (!isObject(metadata) || typeof metadata["name"] !== "string") throw unusable(source, `${where} has no name`);
  return value as KubeObject;
}

function textAt(value: unknown): string {
  return typeof value === "string" ? value : "";
}

function unusable(source: string, problem: string): UserError {
  const cure = "pass a file that `muster snapshot save` has written";
  return new UserError("snapshot-unusable", `the snapshot ${source} ${problem}`, cure);
}
