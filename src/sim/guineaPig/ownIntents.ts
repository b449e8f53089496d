import { applyIntent, type Written } from "../../intents/applyIntent.ts";
import { lookAgain } from "../../intents/lookAgain.ts";
import { type Intent, intentId } from "../../model/intent.ts";
import { type Outcome, refused } from "../../model/outcome.ts";
import type { Cancel } from "../../ports/cancel.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";
import type { Effect, Ended } from "../../snapshot/ledger.ts";
import { Picture, type PictureKind } from "../../snapshot/picture.ts";
import type { ActorPorts } from "../actor.ts";

/** Whether a pod counts for a set: shown by the watch, or decided and not yet shown. */
export type Presence = "live" | "gone";

/**
 * The picture that the guinea pig decides from, with the intents that it has not seen the end of. The simulator is told
 * when an intent begins and ends.
 */
export class OwnIntents {
  private readonly ports: ActorPorts;
  private readonly picture: Picture<Presence>;
  /** Those that may still happen, by id. */
  private readonly open = new Map<string, { readonly intent: Intent; readonly setKey: string }>();

  /** Told of the set whose intent has ended: a list may end one whose object was never shown, and nothing else says so. */
  private readonly changed: (setKey: string) => void;

  constructor(
    ports: ActorPorts,
    kinds: Readonly<Record<string, PictureKind<Presence>>>,
    changed: (setKey: string) => void,
  ) {
    this.ports = ports;
    this.changed = changed;
    this.picture = new Picture<Presence>(kinds);
  }

  observed(...args: Parameters<Picture<Presence>["observed"]>): void {
    this.ended(this.picture.observed(...args));
  }

  /** Keys of effects that begin with this and may be live. */
  live(prefix: string): string[] {
    const keys: string[] = [];
    for (const [key, values] of this.picture.snapshot().counted()) {
      if (key.startsWith(prefix) && values.includes("live")) keys.push(key);
    }
    return keys;
  }

  /** True for what was certainly removed, though the watch still shows it. */
  isGone(key: string): boolean {
    const values = this.picture.values(key);
    return values.length > 0 && !values.includes("live");
  }

  /** An intent for the set whose outcome nobody knows. */
  inDoubt(setKey: string): Intent | undefined {
    for (const id of this.picture.unknownIntents()) {
      const found = this.open.get(id);
      if (found?.setKey === setKey) return found.intent;
    }
    return undefined;
  }

  /** Decides, sends, and learns what came of it. */
  async carryOut(
    kube: KubeApi,
    { setKey, intent, effects }: { setKey: string; intent: Intent; effects: readonly Effect<Presence>[] },
    cancel: Cancel,
  ): Promise<Outcome<Written>> {
    const verdict = this.picture.decide(intent, effects);
    if (verdict === "stale") return refused("Conflict", "the object has moved on since it was looked at");
    if (verdict === "decided") {
      this.open.set(intentId(intent), { intent, setKey });
      this.ports.observe("intent", { id: intentId(intent), state: "decided" });
    }
    return this.send(kube, intent, cancel);
  }

  /**
   * Settles what is in doubt: a look first, and if that proves nothing the same write again, unless it is no longer wanted.
   * Then it is dropped: if it happens after all, the watch will show it.
   */
  async settle(kube: KubeApi, intent: Intent, isWanted: () => boolean, cancel: Cancel): Promise<Outcome<unknown>> {
    const fresh = await lookAgain(kube, intent.target, { atLeast: this.picture.snapshot().revision, cancel });
    if (!fresh.ok) return fresh;
    this.ended(this.picture.read(intent, fresh.value));
    if (this.picture.stateOf(intent) !== "unknown") return fresh;
    if (isWanted()) return this.send(kube, intent, cancel);
    this.ended(this.picture.abandon(intent));
    return fresh;
  }

  /** Somebody else leads: what is in doubt is his to find. */
  abandonAll(): void {
    for (const id of this.picture.unknownIntents()) {
      const found = this.open.get(id);
      if (found !== undefined) this.ended(this.picture.abandon(found.intent));
    }
  }

  private async send(kube: KubeApi, intent: Intent, cancel: Cancel): Promise<Outcome<Written>> {
    if (!this.picture.send(intent)) return refused("Conflict", "it was overtaken before it was sent");
    const outcome = await applyIntent(kube, intent, { cancel });
    this.ended(this.picture.answer(intent, outcome));
    return outcome;
  }

  private ended(ended: readonly Ended[]): void {
    for (const { id, end } of ended) {
      const setKey = this.open.get(id)?.setKey;
      this.open.delete(id);
      this.ports.observe("intent", { id, state: end });
      // What was refused is for the turn that sent it: waking it here would try again at once, for ever.
      if (setKey !== undefined && end === "observed") this.changed(setKey);
    }
  }
}
