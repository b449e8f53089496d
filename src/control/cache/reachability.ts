import type { Outcome, Refusal } from "../../model/outcome.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

/** While the server does not answer, one watch retries this often; the others keep their own back-off. */
const probeEveryMs = 1_000;

/**
 * Whether the API server answers. Every watched kind has its own back-off after a failure, up to a minute, and so has
 * every key of a work queue. The first answer after an outage ends all of them.
 */
export class Reachability {
  private readonly clock: Clock;
  /** Ends the back-off of all kinds, or of the first one. The outage has lasted this long. */
  private readonly retrySoon: (how: "all" | "one", outageMs: number) => void;
  /** Since when no request was answered; undefined while the server answers. */
  private unreachableSinceMs: number | undefined;
  private stopProbe = (): void => {};

  constructor(clock: Clock, retrySoon: (how: "all" | "one", outageMs: number) => void) {
    this.clock = clock;
    this.retrySoon = retrySoon;
  }

  /** The same API; the outcome of every call updates this state. */
  overhear(kube: KubeApi): KubeApi {
    const heard = async <T>(call: Promise<Outcome<T>>): Promise<Outcome<T>> => {
      const outcome = await call;
      this.answered(outcome);
      return outcome;
    };
    return {
      get: (...args) => heard(kube.get(...args)),
      list: (...args) => heard(kube.list(...args)),
      create: (...args) => heard(kube.create(...args)),
      update: (...args) => heard(kube.update(...args)),
      patch: (...args) => heard(kube.patch(...args)),
      delete: (...args) => heard(kube.delete(...args)),
      bind: (...args) => heard(kube.bind(...args)),
      evict: (...args) => heard(kube.evict(...args)),
      watch: (kind, options, sink) =>
        kube.watch(kind, options, {
          event: (event) => {
            this.isBack();
            sink.event(event);
          },
          ended: (why) => {
            if (why !== undefined) this.answered(why);
            sink.ended(why);
          },
        }),
    };
  }

  stop(): void {
    this.stopProbe();
  }

  private answered(outcome: Outcome<unknown>): void {
    if (outcome.ok) this.isBack();
    else if (isNoAnswer(outcome)) this.isSilent();
    // A refusal is an answer: the server is reachable.
    else if (outcome.reason !== "Fenced") this.isBack();
  }

  private isSilent(): void {
    if (this.unreachableSinceMs !== undefined) return;
    this.unreachableSinceMs = this.clock.monotonicMs();
    this.probe();
  }

  private probe(): void {
    this.stopProbe = this.clock.after(probeEveryMs, () => {
      if (this.unreachableSinceMs === undefined) return;
      this.retrySoon("one", this.clock.monotonicMs() - this.unreachableSinceMs);
      this.probe();
    });
  }

  private isBack(): void {
    if (this.unreachableSinceMs === undefined) return;
    const outageMs = this.clock.monotonicMs() - this.unreachableSinceMs;
    this.unreachableSinceMs = undefined;
    this.stopProbe();
    this.retrySoon("all", outageMs);
  }
}

/** A server that has just started answers 429 for custom resources while it creates their storage. */
function isNoAnswer({ reason }: Refusal): boolean {
  return reason === "Unavailable" || reason === "Unknown" || reason === "TooManyRequests";
}
