import type { Session } from "./session.ts";

interface Largest {
  /** By resource. */
  readonly ofAll: Map<number, number>;
  readonly ofHealthy: Map<number, number>;
}

const known = new WeakMap<Session, Largest>();

/** The most that one node has of a resource. All pods that wait ask for it, so it is worked out once in a cycle. */
export function mostOnOneNode(session: Session, place: number, { isHealthy }: { isHealthy: boolean }): number {
  let largest = known.get(session);
  if (largest === undefined) {
    largest = { ofAll: new Map(), ofHealthy: new Map() };
    known.set(session, largest);
  }
  const byPlace = isHealthy ? largest.ofHealthy : largest.ofAll;
  let most = byPlace.get(place);
  if (most !== undefined) return most;
  most = 0;
  for (const node of session.cluster.table.nodes) {
    if (!isHealthy || node.isHealthy) most = Math.max(most, node.capacity[place] ?? 0);
  }
  byPlace.set(place, most);
  return most;
}
