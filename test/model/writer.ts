/** A client that writes at random, and remembers what it asked for and what it was told. */
import type { Answer, KubeJson } from "../httpCaller.ts";
import { collection, colors, kinds, type ModelKind, namespaces, nodes } from "./kinds.ts";
import { pick, type Run } from "./run.ts";

export type Verb = "create" | "update" | "patch" | "status" | "bind" | "delete";

export interface Attempt {
  verb: Verb;
  kind: ModelKind;
  key: string;
  /** The revision that the write insisted on. */
  wantedRevision: number | undefined;
  wantedUid: string | undefined;
  answer: Answer;
  /** The store's revision when the answer was there. */
  revisionAtAnswer: number;
}

/** Objects as this client last saw them: often stale, which is the point. */
type Memory = Map<string, KubeJson>;

export async function writeRandomly(run: Run, writes: number, attempts: Attempt[], writer: number): Promise<void> {
  const memory: Memory = new Map();
  for (let at = 0; at < writes; at++) {
    const kind = pick(run, kinds);
    const namespace = pick(run, namespaces);
    const name = `obj-${run.below(4)}`;
    attempts.push(await writeOnce(run, { kind, namespace, name, mark: `${writer}-${at}`, memory }));
    run.answered++;
    for (const wake of [...run.onAnswer]) wake();
  }
}

async function writeOnce(
  run: Run,
  at: { kind: ModelKind; namespace: string; name: string; mark: string; memory: Memory },
): Promise<Attempt> {
  const { kind, namespace, name, mark, memory } = at;
  const { caller, below, server } = run;
  const base = collection(kind, namespace);
  const path = `${base}/${name}`;
  const color = pick(run, ["", ...colors]);
  const seen = memory.get(path);
  const choices: Verb[] = ["create", "update", "update", "update", "patch", "patch", "delete"];
  if (kind.resource === "/pods") choices.push("status", "bind");
  const verb = seen === undefined ? (below(3) > 0 ? "create" : "patch") : pick(run, choices);
  let wantedRevision: number | undefined;
  let wantedUid: string | undefined;
  const send = async (): Promise<Answer> => {
    switch (verb) {
      case "create":
        return caller.post(base, kind.make(name, color, mark));
      case "update": {
        const next = structuredClone(seen as KubeJson);
        next.metadata["annotations"] = { mark };
        if (color === "") delete next.metadata.labels;
        else next.metadata.labels = { color };
        // The uid would be a precondition too; this is about revisions.
        next.metadata.uid = "";
        // Some kinds refuse an update without a revision, and a changed field of a pod needs the newest object.
        if (below(4) > 0 || kind.resource !== "/configmaps") wantedRevision = Number(next.metadata.resourceVersion);
        else next.metadata.resourceVersion = "";
        return caller.put(path, next);
      }
      case "patch": {
        const patch = { metadata: { annotations: { mark }, labels: { color: color === "" ? null : color } } };
        if (seen !== undefined && below(3) === 0) {
          wantedRevision = Number(seen.metadata.resourceVersion);
          return caller.patch(path, "merge", {
            metadata: { ...patch.metadata, resourceVersion: seen.metadata.resourceVersion },
          });
        }
        return caller.patch(path, below(2) === 0 ? "merge" : "strategic", patch);
      }
      case "status": {
        const next = structuredClone(seen as KubeJson);
        next["status"] = { phase: pick(run, ["Pending", "Running"]), message: mark };
        next.metadata.uid = "";
        wantedRevision = Number(next.metadata.resourceVersion);
        return caller.put(`${path}/status`, next);
      }
      case "bind":
        return caller.post(`${path}/binding`, { metadata: { name }, target: { kind: "Node", name: pick(run, nodes) } });
      case "delete": {
        const preconditions: Record<string, string> = {};
        const { resourceVersion, uid } = (seen as KubeJson).metadata;
        if (below(2) === 0) {
          preconditions["resourceVersion"] = resourceVersion;
          wantedRevision = Number(resourceVersion);
        }
        if (below(2) === 0) {
          preconditions["uid"] = uid;
          wantedUid = uid;
        }
        return caller.delete(path, { gracePeriodSeconds: 0, preconditions });
      }
    }
  };
  const answer = await send();
  const revisionAtAnswer = server.core.store.revision;
  if (answer.code < 300 && verb !== "delete" && answer.json.kind !== "Status") memory.set(path, answer.json);
  else if (answer.code === 404 || (verb === "delete" && answer.code < 300)) memory.delete(path);
  else if (below(2) === 0) {
    // Look again, sometimes, so that the next attempt has a chance.
    const read = await caller.get(path);
    if (read.code === 200) memory.set(path, read.json);
    else memory.delete(path);
  }
  return { verb, kind, key: `${namespace}/${name}`, wantedRevision, wantedUid, answer, revisionAtAnswer };
}
