/**
 * The settings of the binder: flags of `muster run` and `muster up`, and `spec.binder` of KAI's Config `kai-config`. An
 * invalid value is refused by the name of its flag or field.
 */
import type { AdmissionHook } from "../../model/objects/admissionHook.ts";
import { type FieldError, invalid } from "../../model/objects/fieldError.ts";
import { isObject, type JsonObject } from "../../model/objects/json.ts";
import { dnsSubdomainErrors } from "../../model/objects/names.ts";
import { reservationAppLabel, reservationNamespace } from "../../model/scheduling/keys.ts";
import { type KaiConfig, type KaiConfigSpec, kaiConfigRef } from "../../model/scheduling/schedulingShard.ts";
import { durationMs } from "../../model/values/duration.ts";
import { quantityError } from "../../model/values/quantity.ts";
import { kaiReservationImage, type PullPolicy, pullPolicies, type ReservationOptions } from "./reservation.ts";

export interface BinderSettings extends Partial<ReservationOptions> {
  /** Binds that run at once. */
  readonly workers?: number;
  readonly volumeTimeoutMs?: number;
  readonly cdi?: boolean;
}

/** As the command line has them. */
export interface BinderFlags {
  readonly binderWorkers?: string;
  readonly volumeBindingTimeout?: string;
  readonly cdi?: boolean;
  readonly reservationImage?: string;
  readonly reservationPullPolicy?: string;
  readonly reservationTimeout?: string;
  readonly reservationNamespace?: string;
  readonly reservationServiceAccount?: string;
  readonly reservationRuntimeClass?: string;
  readonly reservationResources?: string;
  readonly reservationPodSecurityContext?: string;
  readonly reservationContainerSecurityContext?: string;
}

export interface ReadSettings {
  readonly settings: BinderSettings;
  /** Each error names the field or flag, and its valid values. */
  readonly problems: readonly FieldError[];
}

export function settingsOfFlags(flags: BinderFlags): ReadSettings {
  const to = new Reader();
  to.count("workers", "--binder-workers", numberIn(flags.binderWorkers));
  to.duration("volumeTimeoutMs", "--volume-binding-timeout", flags.volumeBindingTimeout);
  to.flag("cdi", "--cdi", flags.cdi);
  to.text("image", "--reservation-image", flags.reservationImage);
  to.pullPolicy("--reservation-pull-policy", flags.reservationPullPolicy);
  to.duration("allocationTimeoutMs", "--reservation-timeout", flags.reservationTimeout);
  to.fixed("--reservation-namespace", flags.reservationNamespace, reservationNamespace);
  to.name("serviceAccountName", "--reservation-service-account", flags.reservationServiceAccount);
  to.name("runtimeClassName", "--reservation-runtime-class", flags.reservationRuntimeClass);
  to.resources("--reservation-resources", objectIn(flags.reservationResources));
  to.object("podSecurityContext", "--reservation-pod-security-context", objectIn(flags.reservationPodSecurityContext));
  to.object(
    "containerSecurityContext",
    "--reservation-container-security-context",
    objectIn(flags.reservationContainerSecurityContext),
  );
  return to;
}

export function settingsOfConfig(binder: KaiConfigSpec["binder"] | undefined): ReadSettings {
  const to = new Reader();
  if (binder === undefined) return to;
  const of = "spec.binder.resourceReservation";
  to.count("workers", "spec.binder.maxConcurrentReconciles", binder.maxConcurrentReconciles);
  to.seconds("volumeTimeoutMs", "spec.binder.volumeBindingTimeoutSeconds", binder.volumeBindingTimeoutSeconds);
  to.flag("cdi", "spec.binder.cdiEnabled", binder.cdiEnabled);
  const { resourceReservation: reservation = {} } = binder;
  to.image(`${of}.image`, reservation.image);
  to.seconds("allocationTimeoutMs", `${of}.allocationTimeout`, reservation.allocationTimeout);
  to.fixed(`${of}.namespace`, reservation.namespace, reservationNamespace);
  to.fixed(`${of}.appLabel`, reservation.appLabel, reservationAppLabel);
  to.name("serviceAccountName", `${of}.serviceAccountName`, reservation.serviceAccountName);
  // In KAI an empty name means none.
  if (reservation.runtimeClassName !== "") {
    to.name("runtimeClassName", `${of}.runtimeClassName`, reservation.runtimeClassName);
  }
  to.resources(`${of}.podResources`, reservation.podResources);
  const pod = "reservationPodSecurityContext";
  const container = "reservationContainerSecurityContext";
  to.object("podSecurityContext", `${of}.${pod}`, reservation[pod]);
  to.object("containerSecurityContext", `${of}.${container}`, reservation[container]);
  return to;
}

/** Refuses a Config with which the binder would not start. */
export const configHook: AdmissionHook<KaiConfig> = {
  name: "configs.validate.bind.muster.dev",
  type: "validating",
  resource: kaiConfigRef,
  operations: ["CREATE", "UPDATE"],
  review({ object }) {
    const { problems } = settingsOfConfig(object?.spec?.binder);
    return problems.length === 0
      ? { allowed: true }
      : { allowed: false, message: "spec.binder is invalid", errors: problems };
  },
};

class Reader implements ReadSettings {
  readonly settings: { -readonly [K in keyof BinderSettings]: BinderSettings[K] } = {};
  readonly problems: FieldError[] = [];

  count(key: "workers", field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= 10_000) {
      this.settings[key] = value as number;
    } else this.refuse(field, value, "must be a whole number from 1 to 10000");
  }

  seconds(key: "volumeTimeoutMs" | "allocationTimeoutMs", field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (Number.isInteger(value) && (value as number) >= 1) this.settings[key] = (value as number) * 1000;
    else this.refuse(field, value, "must be a whole number of seconds, at least 1");
  }

  duration(key: "volumeTimeoutMs" | "allocationTimeoutMs", field: string, value: string | undefined): void {
    if (value === undefined) return;
    const ms = durationMs(value);
    if (ms !== undefined && ms >= 1000) this.settings[key] = ms;
    else this.refuse(field, value, "must be a duration of at least a second, such as 40s or 2m");
  }

  flag(key: "cdi", field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (typeof value === "boolean") this.settings[key] = value;
    else this.refuse(field, value, "must be true or false");
  }

  text(key: "image", field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (typeof value === "string" && /^\S+$/.test(value)) this.settings[key] = value;
    else this.refuse(field, value, "must be the name of an image");
  }

  /** The name of an object, as the API server takes it. */
  name(key: "serviceAccountName" | "runtimeClassName", field: string, value: unknown): void {
    if (isAbsent(value)) return;
    const problems = typeof value === "string" ? dnsSubdomainErrors(value) : ["must be a name"];
    if (problems.length === 0) this.settings[key] = value as string;
    else this.refuse(field, value, problems.join("; "));
  }

  /** KAI's Config has an image as repository, name and tag. */
  image(field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (!isObject(value)) {
      this.refuse(field, value, "must be an object with repository, name, tag and pullPolicy");
      return;
    }
    const parts = { repository: "", name: "", tag: "" };
    for (const part of ["repository", "name", "tag"] as const) {
      const given = value[part];
      if (isAbsent(given)) continue;
      if (typeof given === "string") parts[part] = given;
      else this.refuse(`${field}.${part}`, given, "must be text");
    }
    this.pullPolicy(`${field}.pullPolicy`, value["pullPolicy"]);
    const { repository, name, tag } = parts;
    if (repository === "" && name === "" && tag === "") return;
    const base = name === "" ? kaiReservationImage : name;
    this.settings.image = `${repository === "" ? "" : `${repository}/`}${base}${tag === "" ? "" : `:${tag}`}`;
  }

  pullPolicy(field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (pullPolicies.includes(value as PullPolicy)) this.settings.pullPolicy = value as PullPolicy;
    else this.refuse(field, value, `must be one of ${pullPolicies.join(", ")}`);
  }

  resources(field: string, value: unknown): void {
    if (isAbsent(value)) return;
    const isMap = (map: unknown): boolean => isObject(map) && Object.values(map).every(isAmount);
    const isMeant =
      isObject(value) &&
      Object.entries(value).every(([key, map]) => (key === "requests" || key === "limits") && isMap(map));
    if (!isMeant) {
      this.refuse(field, value, "must be an object with requests and limits, each from resource to quantity");
      return;
    }
    const texts = (map: unknown): Record<string, string> =>
      Object.fromEntries(Object.entries(map as JsonObject).map(([key, amount]) => [key, String(amount)]));
    this.settings.podResources = Object.fromEntries(Object.entries(value).map(([key, map]) => [key, texts(map)]));
  }

  object(key: "podSecurityContext" | "containerSecurityContext", field: string, value: unknown): void {
    if (isAbsent(value)) return;
    if (isObject(value)) this.settings[key] = value;
    else this.refuse(field, value, "must be an object");
  }

  /** Names that are fixed in the code cannot be changed. */
  fixed(field: string, value: unknown, only: string): void {
    if (!isAbsent(value) && value !== only) this.refuse(field, value, `can only be ${only} here`);
  }

  private refuse(field: string, value: unknown, must: string): void {
    this.problems.push(invalid(field, value, must));
  }
}

function isAbsent(value: unknown): boolean {
  return value === undefined || value === null;
}

function isAmount(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value) && value >= 0;
  return typeof value === "string" && quantityError(value) === undefined && !value.startsWith("-");
}

/** Converts an integer; any other text is returned as it is and refused later. */
function numberIn(text: string | undefined): unknown {
  return text !== undefined && /^[0-9]{1,9}$/.test(text) ? Number(text) : text;
}

/** Parses JSON; any other text is returned as it is and refused later. */
function objectIn(text: string | undefined): unknown {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
