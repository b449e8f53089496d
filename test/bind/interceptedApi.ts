/** An API with hooks: before a call is sent, and before watch events are delivered. */
import type { KubeObject } from "../../src/model/objects/object.ts";
import type { Resource } from "../../src/model/objects/resource.ts";
import type { Refusal } from "../../src/model/outcome.ts";
import type { KubeApi, WatchEvent, WatchSink } from "../../src/ports/kubeApi.ts";

export interface Call {
  readonly verb: string;
  readonly plural: string;
  readonly name: string;
  readonly subresource: string | undefined;
}

type Ref = Resource & { readonly name?: string; readonly subresource?: string };

export class InterceptedApi {
  /** Awaited before a call is sent, so that other clients can act first. */
  before: (call: Call) => Promise<void> | undefined = () => undefined;
  /** Answers a call instead of the server. */
  refuse: (call: Call) => Refusal | undefined = () => undefined;
  /** From the first event for which this holds, the stream of its kind is late until `catchUp`. */
  isLate: (plural: string, event: WatchEvent) => boolean = () => false;
  private readonly sinks = new Map<string, WatchSink[]>();
  private readonly late = new Map<WatchSink, WatchEvent[]>();

  of(kube: KubeApi): KubeApi {
    return new Proxy(kube, {
      get: (target, property: keyof KubeApi) => {
        const method = target[property] as (ref: Ref, ...more: unknown[]) => unknown;
        if (property === "watch") {
          return (kind: Resource, options: never, sink: WatchSink) =>
            target.watch(kind, options, this.through(kind.plural, sink));
        }
        return async (ref: Ref, ...more: unknown[]) => {
          const created = property === "create" ? (more[0] as KubeObject).metadata.name : undefined;
          const { plural, subresource } = ref;
          const call = { verb: property, plural, name: created ?? ref.name ?? "", subresource };
          await this.before(call);
          return this.refuse(call) ?? method.call(target, ref, ...more);
        };
      },
    });
  }

  /** The number of delayed events. */
  get lateEvents(): number {
    return [...this.late.values()].reduce((sum, events) => sum + events.length, 0);
  }

  /** Delivers all delayed events, in order. */
  catchUp(): void {
    this.isLate = () => false;
    for (const [sink, events] of [...this.late]) {
      this.late.delete(sink);
      for (const event of events) sink.event(event);
    }
  }

  /** Sends a false event to every watch of a kind. */
  tell(plural: string, event: WatchEvent): void {
    for (const sink of this.sinks.get(plural) ?? []) sink.event(event);
  }

  private through(plural: string, sink: WatchSink): WatchSink {
    this.sinks.set(plural, [...(this.sinks.get(plural) ?? []), sink]);
    return {
      event: (event) => {
        const waiting = this.late.get(sink);
        if (waiting !== undefined) waiting.push(event);
        else if (this.isLate(plural, event)) this.late.set(sink, [event]);
        else sink.event(event);
      },
      ended: (why) => sink.ended(why),
    };
  }
}
