/** The load of the crash test: writers that create, replace, patch, bind and delete until the server is gone. */
import type { Answer, HttpCaller, KubeJson } from "../httpCaller.ts";
import type { Ledger, Pending } from "./ledger.ts";

export interface Load {
  readonly ledger: Ledger;
  readonly caller: HttpCaller;
  readonly below: (bound: number) => number;
  readonly problems: string[];
  /** Distinguishes every write from every other. */
  nextMark(): string;
  /** Called once at the next answer. */
  onAnswer: (() => void) | undefined;
}

const mark = "muster.test/mark";
const namespace = "/api/v1/namespaces/default";
const leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases";

export const resources = ["/api/v1/configmaps", "/api/v1/pods", "/apis/coordination.k8s.io/v1/leases"] as const;

/** Runs until a call fails because the server is gone. */
export async function write(load: Load, writer: number): Promise<void> {
  for (;;) {
    const draw = load.below(10);
    try {
      if (draw < 5) await writeOne(load, `${namespace}/configmaps`, `own-${writer}-${load.below(5)}`, configMap);
      else if (draw < 8) await writeOne(load, `${namespace}/pods`, `pod-${writer}-${load.below(3)}`, pod);
      else await shareLease(load, `shared-${load.below(2)}`);
    } catch {
      return;
    }
  }
}

/** One step in the life of an object that only this writer touches. */
async function writeOne(
  load: Load,
  collection: string,
  name: string,
  make: (name: string, marked: string) => object,
): Promise<void> {
  const { ledger, below } = load;
  const path = `${collection}/${name}`;
  const current = ledger.state(path);
  const marked = load.nextMark();
  const pending: Pending = { effect: "write", shows: (object) => markOf(object) === marked && isWhole(object) };
  if (current === undefined) {
    await send(load, path, pending, (caller) => caller.post(collection, make(name, marked)));
    return;
  }
  const annotations = { [mark]: marked, pad: padFor(marked) };
  switch (below(6)) {
    case 0:
    case 1: {
      const next = { ...current, metadata: { ...current.metadata, annotations } };
      if (below(2) === 0) next.metadata.resourceVersion = "";
      await send(load, path, pending, (caller) => caller.put(path, next));
      return;
    }
    case 2:
      await send(load, path, pending, (caller) => caller.patch(path, "merge", { metadata: { annotations } }));
      return;
    case 3:
      await send(load, path, pending, (caller) => caller.patch(path, "strategic", { metadata: { annotations } }));
      return;
    case 4:
      await send(load, path, pending, (caller) =>
        caller.patch(path, "json", [{ op: "replace", path: "/metadata/annotations", value: annotations }]),
      );
      return;
    default:
      await send(load, path, { effect: "delete", shows: () => false }, (caller) =>
        caller.delete(path, { gracePeriodSeconds: 0 }),
      );
  }
}

/** A lease that all writers fight for: many writes in flight, some refused. */
async function shareLease(load: Load, name: string): Promise<void> {
  const path = `${leases}/${name}`;
  const current = load.ledger.state(path);
  const marked = load.nextMark();
  const pending: Pending = { effect: "write", shows: (object) => markOf(object) === marked && isWhole(object) };
  const annotations = { [mark]: marked, pad: padFor(marked) };
  if (current === undefined) {
    const lease = { metadata: { name, annotations }, spec: { holderIdentity: marked } };
    await send(load, path, pending, (caller) => caller.post(leases, lease));
    return;
  }
  if (load.below(2) === 0) {
    await send(load, path, pending, (caller) => caller.patch(path, "merge", { metadata: { annotations } }));
    return;
  }
  await send(load, path, pending, (caller) =>
    caller.put(path, { ...current, metadata: { ...current.metadata, annotations } }),
  );
}

async function send(
  load: Load,
  path: string,
  pending: Pending,
  call: (caller: HttpCaller) => Promise<Answer>,
): Promise<void> {
  load.ledger.send(path, pending);
  const answer = await call(load.caller);
  const problem = load.ledger.acknowledge(path, pending, answer);
  if (problem !== undefined) load.problems.push(problem);
  const { onAnswer } = load;
  load.onAnswer = undefined;
  onAnswer?.();
}

function configMap(name: string, marked: string): object {
  return { metadata: { name, annotations: { [mark]: marked, pad: padFor(marked) } }, data: { key: "value" } };
}

function pod(name: string, marked: string): object {
  return {
    metadata: { name, annotations: { [mark]: marked, pad: padFor(marked) } },
    spec: { containers: [{ name: "c", image: "none" }] },
  };
}

function markOf(object: KubeJson): string | undefined {
  return (object.metadata["annotations"] as Record<string, string> | undefined)?.[mark];
}

/** A second part of the write that follows from the first: both are there or neither is. */
function isWhole(object: KubeJson): boolean {
  const annotations = object.metadata["annotations"] as Record<string, string>;
  return annotations["pad"] === padFor(annotations[mark] ?? "");
}

function padFor(marked: string): string {
  return marked.repeat(1 + ((marked.length * 7 + Number(marked.split("-")[1])) % 60));
}
