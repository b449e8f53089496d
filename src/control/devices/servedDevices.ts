import {
  alpha3Rule,
  beta1Claim,
  beta1ClaimTemplate,
  beta1Class,
  beta1Slice,
  type DeviceConversion,
  sameFields,
} from "../../model/deviceConversion.ts";
import type { KubeObject, MergePatch, Unstored } from "../../model/objects/object.ts";
import type { Resource } from "../../model/objects/resource.ts";
import { type Outcome, type Refusal, refused, succeeded } from "../../model/outcome.ts";
import type {
  CallOptions,
  KubeApi,
  KubeList,
  ListOptions,
  Patch,
  Watch,
  WatchEvent,
  WatchOptions,
  WatchSink,
} from "../../ports/kubeApi.ts";

/**
 * Converts between `resource.k8s.io/v1` and the version that the server has. Kubernetes 1.32 and 1.33 serve devices in
 * beta versions, older releases not at all: through this API the former look like v1, and the latter have no devices.
 * The version is discovered at the first call of a kind, and again when the server stops serving it, as after an
 * upgrade.
 */
export function servedDevices(kube: KubeApi): KubeApi {
  const known = new Map<string, Served>();

  const find = async ({ plural }: Resource, { cancel }: CallOptions = {}): Promise<Outcome<Served | undefined>> => {
    const found = known.get(plural);
    if (found !== undefined) return succeeded(found);
    for (const served of servedAs[plural] ?? []) {
      const ref = { group, version: served.version, plural };
      const outcome = await kube.list(ref, { limit: 1, ...(cancel !== undefined && { cancel }) });
      if (!outcome.ok && outcome.reason === "NotFound") continue;
      if (!outcome.ok) return outcome;
      known.set(plural, served);
      return succeeded(served);
    }
    return succeeded(undefined);
  };

  /** In the served version and back. */
  const through = async <R extends Resource, V>(
    ref: R,
    options: CallOptions | undefined,
    call: (ref: R, served: Served) => Promise<Outcome<V>>,
    back: (value: V, served: Served) => V,
  ): Promise<Outcome<V>> => {
    const found = await find(ref, options);
    if (!found.ok) return found;
    if (found.value === undefined) return notServed(ref);
    const outcome = await call({ ...ref, version: found.value.version }, found.value);
    return outcome.ok ? succeeded(back(outcome.value, found.value)) : outcome;
  };
  const read = <T extends KubeObject>(object: T, { conversion }: Served): T => conversion.toStorage(object);

  const list = async <T extends KubeObject>(
    kind: Resource<T>,
    options: ListOptions = {},
  ): Promise<Outcome<KubeList<T>>> => {
    for (const isAgain of [false, true]) {
      const found = await find(kind, options);
      if (!found.ok) return found;
      if (found.value === undefined) return nothing(kube, options);
      const served = found.value;
      const outcome = await kube.list({ ...kind, version: served.version }, options);
      if (outcome.ok) {
        return succeeded({ ...outcome.value, items: outcome.value.items.map((object) => read(object, served)) });
      }
      if (outcome.reason !== "NotFound" || isAgain) return outcome;
      known.delete(kind.plural);
    }
    return notServed(kind);
  };

  const watch = <T extends KubeObject>(kind: Resource<T>, options: WatchOptions, sink: WatchSink<T>): Watch => {
    let inner: Watch | undefined;
    let isOver = false;
    const end = (why: Outcome<never> | undefined): void => {
      if (isOver) return;
      isOver = true;
      if (why !== undefined && !why.ok && why.reason === "NotFound") known.delete(kind.plural);
      sink.ended(why);
    };
    const open = (served: Served): void => {
      const event = (each: WatchEvent<T>): void => {
        if (isOver) return;
        sink.event(each.type === "BOOKMARK" ? each : { ...each, object: read(each.object, served) });
      };
      inner = kube.watch({ ...kind, version: served.version }, options, { event, ended: end });
    };
    const served = known.get(kind.plural);
    if (served !== undefined) open(served);
    else {
      void find(kind).then((found) => {
        if (isOver) return;
        if (!found.ok) end(found);
        else if (found.value !== undefined) open(found.value);
        // A kind that is not served never changes: a watch with initial events fails, so that the client lists; any
        // other watch has no events.
        else if (options.sendInitialEvents === true) end(refused("Invalid", notServed(kind).message));
      });
    }
    return {
      stop: () => {
        isOver = true;
        inner?.stop();
      },
    };
  };

  const isOurs = (ref: Resource): boolean =>
    ref.group === group && ref.version === version && servedAs[ref.plural] !== undefined;

  return {
    get: (ref, options) =>
      isOurs(ref) ? through(ref, options, (at) => kube.get(at, options), read) : kube.get(ref, options),
    list: (kind, options) => (isOurs(kind) ? list(kind, options) : kube.list(kind, options)),
    watch: (kind, options, sink) => (isOurs(kind) ? watch(kind, options, sink) : kube.watch(kind, options, sink)),
    create: (kind, object, options) =>
      isOurs(kind)
        ? through(kind, options, (at, to) => kube.create(at, to.conversion.fromStorage(object), options), read)
        : kube.create(kind, object, options),
    update: (ref, object, options) =>
      isOurs(ref)
        ? through(ref, options, (at, to) => kube.update(at, to.conversion.fromStorage(object), options), read)
        : kube.update(ref, object, options),
    patch: (ref, patch, options) =>
      isOurs(ref)
        ? through(ref, options, (at, to) => kube.patch(at, patchFor(patch, to), options), read)
        : kube.patch(ref, patch, options),
    delete: (ref, options) =>
      isOurs(ref)
        ? through(
            ref,
            options,
            (at) => kube.delete(at, options),
            (object, served) => (object === undefined ? undefined : read(object, served)),
          )
        : kube.delete(ref, options),
    bind: (pod, target, options) => kube.bind(pod, target, options),
    evict: (pod, options) => kube.evict(pod, options),
  };
}

interface Served {
  readonly version: string;
  readonly conversion: DeviceConversion;
}

const group = "resource.k8s.io";
const version = "v1";

const asIs: Served = { version, conversion: { toStorage: (object) => object, fromStorage: (object) => object } };
const beta2: Served = { version: "v1beta2", conversion: sameFields };
const beta1 = (conversion: DeviceConversion): Served => ({ version: "v1beta1", conversion });

/** Versions by plural, the preferred one first. */
const servedAs: Readonly<Record<string, readonly Served[]>> = {
  deviceclasses: [asIs, beta2, beta1(beta1Class)],
  devicetaintrules: [asIs, beta2, { version: "v1alpha3", conversion: alpha3Rule }],
  resourceclaims: [asIs, beta2, beta1(beta1Claim)],
  resourceclaimtemplates: [asIs, beta2, beta1(beta1ClaimTemplate)],
  resourceslices: [asIs, beta2, beta1(beta1Slice)],
};

/** A merge patch is converted like an object; the paths of a JSON patch are the same in all versions. */
function patchFor<T extends KubeObject>(patch: Patch<T>, { conversion }: Served): Patch<T> {
  if (patch.type === "json") return patch;
  const { body } = patch;
  const { apiVersion, ...rest } = conversion.fromStorage(body as Unstored);
  return { ...patch, body: (body.apiVersion === undefined ? rest : { apiVersion, ...rest }) as MergePatch<T> };
}

/** An empty list, at the current revision of the server. */
async function nothing(kube: KubeApi, { cancel }: ListOptions): Promise<Outcome<KubeList<never>>> {
  const namespaces = { group: "", version: "v1", plural: "namespaces" };
  const outcome = await kube.list(namespaces, { limit: 1, ...(cancel !== undefined && { cancel }) });
  return outcome.ok ? succeeded({ revision: outcome.value.revision, items: [] }) : outcome;
}

function notServed({ plural }: Resource): Refusal {
  return refused("NotFound", `the server does not serve ${plural}.${group}`);
}
