/** What a client of the server was promised: every write that was acknowledged, and those whose answer never came. */
import type { BoundedUp } from "./boundedUp.ts";

const maps = "/api/v1/namespaces/default/configmaps";

interface Kept {
  readonly value: string;
  readonly revision: number;
}

export class ClientRecord {
  /** Every acknowledged state of a name, oldest first. */
  private readonly states = new Map<string, Kept[]>();
  /** Values that were sent and not answered, by name. */
  private readonly unanswered = new Map<string, Set<string>>();
  private count = 0;
  acknowledged = 0;
  newest = 0;
  /** Codes of the answers that refused a write. */
  readonly refusals: number[] = [];

  /** Writes until as many as asked were acknowledged, or the server refuses or is gone. */
  async write(up: BoundedUp, atLeast: number, padBytes = 0): Promise<void> {
    const enough = this.acknowledged + atLeast;
    let isOver = false;
    const writer = async (lane: number): Promise<void> => {
      while (!isOver && this.acknowledged < enough) isOver = !(await this.writeOne(up, lane, padBytes)) || isOver;
    };
    await Promise.all([0, 1, 2, 3, 4, 5].map(writer));
  }

  private async writeOne(up: BoundedUp, lane: number, padBytes: number): Promise<boolean> {
    const name = `m${lane}-${this.count % 40}`;
    const value = `${this.count++} ${"x".repeat(padBytes)}`;
    const sent = this.sentTo(name);
    sent.add(value);
    const isNew = !this.states.has(name);
    const body = { metadata: { name }, data: { value } };
    try {
      const reply = await (isNew ? up.call("POST", maps, body) : up.call("PATCH", `${maps}/${name}`, body));
      if (reply.code >= 300) {
        this.refusals.push(reply.code);
        // It may have reached the disk that then failed.
        return reply.code === 409;
      }
      this.accept(name, reply.body);
      sent.delete(value);
      return true;
    } catch {
      return false;
    }
  }

  /** Compares what the server shows with the promises; the result has one line for each that is broken. */
  async broken(up: BoundedUp, lostAfter = Number.POSITIVE_INFINITY): Promise<string[]> {
    const { code, body } = await up.call("GET", maps);
    if (code !== 200) return [`the list is refused with ${code}`];
    const problems: string[] = [];
    // biome-ignore lint/suspicious/noExplicitAny: objects of the wire.
    const found = new Map<string, any>(body.items.map((item: any) => [item.metadata.name, item]));
    for (const name of new Set([...this.states.keys(), ...this.unanswered.keys()])) {
      const promised = this.states.get(name)?.findLast(({ revision }) => revision <= lostAfter);
      const shown = found.get(name);
      if (shown === undefined) {
        if (promised !== undefined) problems.push(`${name} at ${promised.revision} is gone`);
      } else if (shown.data.value !== promised?.value) {
        if (this.sentTo(name).has(shown.data.value)) this.accept(name, shown);
        else problems.push(`${name} shows ${shown.metadata.resourceVersion}, promised was ${promised?.revision}`);
      }
    }
    if (Number(body.metadata.resourceVersion) < this.newest) problems.push("the revision went back");
    return problems;
  }

  /** What was acknowledged after a revision does not count any more. */
  forgetAfter(revision: number): void {
    for (const [name, kept] of this.states) {
      const left = kept.filter((state) => state.revision <= revision);
      if (left.length > 0) this.states.set(name, left);
      else this.states.delete(name);
    }
  }

  private accept(name: string, object: { metadata: { resourceVersion: string }; data: { value: string } }): void {
    const revision = Number(object.metadata.resourceVersion);
    const kept = this.states.get(name) ?? [];
    kept.push({ value: object.data.value, revision });
    kept.sort((a, b) => a.revision - b.revision);
    this.states.set(name, kept);
    this.acknowledged++;
    this.newest = Math.max(this.newest, revision);
  }

  private sentTo(name: string): Set<string> {
    let sent = this.unanswered.get(name);
    if (sent === undefined) {
      sent = new Set();
      this.unanswered.set(name, sent);
    }
    return sent;
  }
}
