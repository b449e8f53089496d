import type { KubeObject } from "../../src/model/objects/object.ts";
import { type Outcome, type Refusal, refused } from "../../src/model/outcome.ts";
import type { KubeApi, KubeList, ListOptions, Watch, WatchOptions, WriteOptions } from "../../src/ports/kubeApi.ts";

/** The faults of a test; undefined leaves a call unchanged. */
export interface Faults {
  /** A refusal instead of sending the call. */
  before?: (verb: string, what: string) => Refusal | undefined;
  /** The call waits in its client until this resolves; undefined: it does not wait. */
  hold?: (verb: string, what: string) => Promise<void> | undefined;
  /** The server has executed the call, and its response is delayed until this resolves. */
  late?: (verb: string, what: string) => Promise<void> | undefined;
  /** The server has executed the call, and the caller receives this refusal. */
  after?: (verb: string, what: string) => Refusal | undefined;
  list?: <T extends KubeObject>(list: KubeList<T>) => KubeList<T>;
  watch?: (options: WatchOptions, plural: string) => Refusal | undefined;
  /** Watches deliver nothing any more, not even their end: a dead connection without a reset. */
  isMute?: boolean;
}

interface OpenWatch {
  readonly plural: string;
  readonly end: (why: Refusal | undefined) => void;
}

/** An API behind a faulty network. */
export class FaultyKube implements KubeApi {
  private readonly kube: KubeApi;
  private open: OpenWatch[] = [];
  faults: Faults = {};
  /** Every call, as `verb plural name`. */
  readonly calls: string[] = [];
  /** Called for every write that is sent, with the name of its field manager. */
  onWrite: (fieldManager: string) => void = () => {};

  constructor(kube: KubeApi) {
    this.kube = kube;
  }

  get openWatches(): number {
    return this.open.length;
  }

  /** Ends the open watches of a kind, or all. */
  cut(why: Refusal | undefined = refused("Unknown", "connection reset"), plural?: string): void {
    for (const watch of this.open.filter((each) => plural === undefined || each.plural === plural)) watch.end(why);
  }

  get: KubeApi["get"] = (ref, options) => this.call("get", ref, () => this.kube.get(ref, options));

  list: KubeApi["list"] = async (kind, options?: ListOptions) => {
    const outcome = await this.call("list", kind, () => this.kube.list(kind, options));
    return outcome.ok && this.faults.list !== undefined
      ? { ok: true, value: this.faults.list(outcome.value) }
      : outcome;
  };

  watch: KubeApi["watch"] = (kind, options, sink) => {
    const from = options.sendInitialEvents === true ? "from the start" : `from ${options.resourceVersion}`;
    this.calls.push(`watch ${kind.plural} ${from}`);
    let inner: Watch | undefined;
    let isOver = false;
    let isDead = false;
    const close = (): void => {
      isOver = true;
      inner?.stop();
      this.open = this.open.filter((each) => each !== self);
    };
    const self: OpenWatch = {
      plural: kind.plural,
      end: (why) => {
        if (isOver) return;
        close();
        sink.ended(why);
      },
    };
    const fault = this.faults.watch?.(options, kind.plural);
    this.open.push(self);
    if (fault !== undefined) void Promise.resolve().then(() => self.end(fault));
    else {
      inner = this.kube.watch(kind, options, {
        event: (event) => {
          // A dead connection stays dead: lost events are not delivered later.
          isDead ||= this.faults.isMute === true;
          if (!isOver && !isDead) sink.event(event);
        },
        ended: (why) => {
          isDead ||= this.faults.isMute === true;
          if (isOver || isDead) return;
          close();
          sink.ended(why);
        },
      });
    }
    return { stop: close };
  };

  create: KubeApi["create"] = (kind, object, options) =>
    this.call(
      "create",
      { ...kind, name: object.metadata.name ?? "" },
      () => this.kube.create(kind, object, options),
      options,
    );

  update: KubeApi["update"] = (ref, object, options) =>
    this.call("update", ref, () => this.kube.update(ref, object, options), options);

  patch: KubeApi["patch"] = (ref, patch, options) =>
    this.call("patch", ref, () => this.kube.patch(ref, patch, options), options);

  delete: KubeApi["delete"] = (ref, options) => this.call("delete", ref, () => this.kube.delete(ref, options));

  bind: KubeApi["bind"] = (pod, binding, options) =>
    this.call("bind", pod, () => this.kube.bind(pod, binding, options));

  evict: KubeApi["evict"] = (pod, options) => this.call("evict", pod, () => this.kube.evict(pod, options));

  private async call<T>(
    verb: string,
    { plural, name = "", subresource }: { plural: string; name?: string; subresource?: string },
    send: () => Promise<Outcome<T>>,
    options?: WriteOptions,
  ): Promise<Outcome<T>> {
    const what = `${plural} ${name}`.trim();
    this.calls.push(`${verb} ${what}`);
    const early = this.faults.before?.(verb, what);
    if (early !== undefined) return early;
    const held = this.faults.hold?.(verb, subresource === undefined ? what : `${what}/${subresource}`);
    if (held !== undefined) await held;
    if (options?.fieldManager !== undefined) this.onWrite(options.fieldManager);
    const outcome = await send();
    const late = this.faults.late?.(verb, what);
    if (late !== undefined) await late;
    return this.faults.after?.(verb, what) ?? outcome;
  }
}
