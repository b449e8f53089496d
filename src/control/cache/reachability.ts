import type { Outcome, Refusal } from "../../model/outcome.ts";
import type { Clock } from "../../ports/clock.ts";
import type { KubeApi } from "../../ports/kubeApi.ts";

/** While the server does not answer, one watch tries again this often; the others keep to their own patience. */
const scoutMs = 1_000;

/**
 * Whether the API server answers. Every kind that is followed waits on its own after a failure, up to a minute; what
 * one call learns about the server holds for all of them, so the first answer after a silence ends every wait.
 */
export class Reachability {
  private readonly clock: Clock;
  /** Ends waits: of all, or of the first that waits. */
  private readonly hurry: (how: "all" | "one") => void;
  private isAway = false;
  private stopScout = (): void => {};

  constructor(clock: Clock, hurry: (how: "all" | "one") => void) {
    this.clock = clock;
    this.hurry = hurry;
  }

  /** The same API, overheard. */
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
    this.stopScout();
  }

  private answered(outcome: Outcome<unknown>): void {
    if (outcome.ok) this.isBack();
    else if (isNoAnswer(outcome)) this.isSilent();
    // The server has answered, though not as it was hoped.
    else if (outcome.reason !== "Fenced") this.isBack();
  }

  private isSilent(): void {
    if (this.isAway) return;
    this.isAway = true;
    this.scout();
  }

  private scout(): void {
    this.stopScout = this.clock.after(scoutMs, () => {
      if (!this.isAway) return;
      this.hurry("one");
      this.scout();
    });
  }

  private isBack(): void {
    if (!this.isAway) return;
    this.isAway = false;
    this.stopScout();
    this.hurry("all");
  }
}

/** A server that has just started is too busy for custom kinds: their storage is being made. */
function isNoAnswer({ reason }: Refusal): boolean {
  return reason === "Unavailable" || reason === "Unknown" || reason === "TooManyRequests";
}
