import { fractionHooks, fractionRules } from "../../decide/bind/admitFraction.ts";
import { groupHook } from "../../decide/bind/admitGroups.ts";
import { type BinderSettings, configHook } from "../../decide/bind/binderSettings.ts";
import { reservationDefaults } from "../../decide/bind/reservation.ts";
import { keyOf, type NewObject } from "../../model/intent.ts";
import type { KubeObject } from "../../model/objects/object.ts";
import { bindRequestDefinition } from "../../model/scheduling/definitions.ts";
import { gpuGroupsOfLabels, reservationNamespace } from "../../model/scheduling/keys.ts";
import type { Component } from "../runtime/component.ts";
import type { Controllers } from "../runtime/controllers.ts";
import { EventRecorder } from "../runtime/eventRecorder.ts";
import { schedulerSource } from "../runtime/eventSources.ts";
import { forMapped, forObject, kindSource, timerSource } from "../runtime/sources.ts";
import { BinderCaches, groupsOf } from "./binderCaches.ts";
import { type BinderOptions, BindReconciler } from "./bindReconciler.ts";
import { ReservationReconciler } from "./reservationReconciler.ts";

export const binderDefaults: BinderOptions = {
  reservation: reservationDefaults,
  cdi: false,
  volumeTimeoutMs: 120_000,
  // Each bind is a sequence of writes that wait for the disk of the API server; parallel binds share that wait. KAI's
  // default is ten.
  workers: 64,
};

/** A short maximum: after an outage of the API a bind must not wait for minutes. */
const backoff = { baseMs: 5, maxMs: 5_000 };
/** Events drive the binder; the sweep is a safety net. */
const sweepMs = 60_000;

export interface BinderPartOptions extends Partial<BinderOptions> {
  /** Settings of the installation, over the defaults. */
  readonly settings?: BinderSettings;
  /** Whether pods may request GPU shares. */
  readonly gpuSharing?: boolean;
}

/** Carries BindRequests out: fractions of GPUs, claims, volumes, gangs. */
export function binderComponent({ gpuSharing = true, settings = {}, ...given }: BinderPartOptions = {}): Component {
  const options = binderOptions({ ...binderDefaults, ...given }, settings);
  return {
    name: "binder",
    about: "carries out BindRequests: GPU shares, claims, volumes",
    definitions: [bindRequestDefinition],
    startObjects: [
      { apiVersion: "v1", kind: "Namespace", metadata: { name: reservationNamespace } },
      {
        apiVersion: "v1",
        kind: "ServiceAccount",
        metadata: { name: options.reservation.serviceAccountName, namespace: reservationNamespace },
      },
      ...agentRole(options.reservation.serviceAccountName),
    ],
    hooks: [...fractionHooks({ ...fractionRules, gpuSharing }), groupHook, configHook],
    add: (controllers) => addBinder(controllers, options),
  };
}

/** The permissions of the program in a reservation pod: pods of its own namespace. */
function agentRole(account: string): NewObject[] {
  const group = "rbac.authorization.k8s.io";
  const metadata = { name: reservationNamespace, namespace: reservationNamespace };
  return [
    {
      apiVersion: `${group}/v1`,
      kind: "Role",
      metadata,
      rules: [{ apiGroups: [""], resources: ["pods"], verbs: ["get", "patch"] }],
    },
    {
      apiVersion: `${group}/v1`,
      kind: "RoleBinding",
      metadata,
      roleRef: { apiGroup: group, kind: "Role", name: reservationNamespace },
      subjects: [{ kind: "ServiceAccount", name: account, namespace: reservationNamespace }],
    },
  ];
}

function binderOptions(base: BinderOptions, settings: BinderSettings): BinderOptions {
  const { workers = base.workers, cdi = base.cdi, volumeTimeoutMs = base.volumeTimeoutMs, ...reservation } = settings;
  return { ...base, workers, cdi, volumeTimeoutMs, reservation: { ...base.reservation, ...reservation } };
}

function addBinder(controllers: Controllers, options: BinderOptions): void {
  const { ports } = controllers;
  const caches = new BinderCaches(controllers);
  const recorder = new EventRecorder({
    ...ports,
    controller: "muster.dev/binder",
    instance: "binder",
    sourceOf: schedulerSource,
  });
  const binds = new BindReconciler(controllers, caches, recorder, options);
  const reservations = new ReservationReconciler(controllers, caches, recorder, options.reservation);
  const { cache: pods } = caches.pods;
  const { cache: requests } = caches.requests;
  const keyOfObject = ({ metadata }: KubeObject): string => keyOf(metadata.namespace, metadata.name);
  const groupsOfPod = ({ metadata }: KubeObject): string[] => gpuGroupsOfLabels(metadata.labels);
  controllers.add({
    name: "bind",
    concurrency: options.workers,
    backoff,
    sources: [
      kindSource(requests, forObject()),
      kindSource(requests, (event) => caches.released(event).map(keyOfObject)),
      kindSource(
        pods,
        forMapped((pod) => caches.requestsByPod.get(keyOfObject(pod)).map(keyOfObject)),
      ),
      kindSource(
        pods,
        forMapped((pod) => groupsOfPod(pod).flatMap((group) => caches.requestsByGroup.get(group).map(keyOfObject))),
      ),
    ],
    reconcile: (key, context) => binds.reconcile(key, context),
  });
  controllers.add({
    name: "gpu-groups",
    concurrency: options.workers,
    backoff,
    sources: [
      kindSource(pods, forMapped(groupsOfPod)),
      kindSource(
        requests,
        forMapped((object) => groupsOf(object)),
      ),
      // A holder of a reservation may be deleted before it was labelled.
      kindSource(
        pods,
        forMapped((pod) => caches.requestsByPod.get(keyOfObject(pod)).flatMap((object) => groupsOf(object))),
      ),
      timerSource(ports, sweepMs, () => caches.groups()),
      { start: () => () => recorder.stop() },
    ],
    reconcile: (group, context) => reservations.reconcile(group, context),
  });
}
