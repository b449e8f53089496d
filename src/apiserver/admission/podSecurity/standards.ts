import type { Container, EphemeralContainer, Pod, PodSpec } from "../../../model/kubernetes.generated.ts";

/**
 * The Pod Security Standards: what a pod may not do at a level. Each check returns one violation; the rules of older
 * minor versions of Kubernetes are kept.
 */
export type Level = "privileged" | "baseline" | "restricted";

/** A pod, or the template of one. */
export interface PodLike {
  readonly annotations: Readonly<Record<string, string>>;
  readonly spec: PodSpec;
}

export interface Violation {
  readonly reason: string;
  readonly detail: string;
}

/** The violations of the level in this minor version (infinity: the newest), in the order of upstream. */
export function violationsOf(pod: PodLike, level: Level, minor: number): Violation[] {
  if (level === "privileged") return [];
  const replaced = new Set(
    level === "restricted" ? restricted.flatMap((check) => (minor >= check.since ? check.replaces : [])) : [],
  );
  const asked = baseline.filter(({ id }) => !replaced.has(id));
  const checks: readonly Check[] = level === "restricted" ? [...asked, ...restricted] : asked;
  const found: Violation[] = [];
  for (const { since, violation } of checks) {
    const one = minor >= since ? violation(pod, minor) : undefined;
    if (one !== undefined) found.push(one);
  }
  return found;
}

export function podLike(pod: Pick<Pod, "metadata" | "spec">): PodLike {
  return { annotations: pod.metadata?.annotations ?? {}, spec: pod.spec ?? { containers: [] } };
}

interface Check {
  readonly id: string;
  /** The first minor version that has the check. */
  readonly since: number;
  violation(pod: PodLike, minor: number): Violation | undefined;
}

interface RestrictedCheck extends Check {
  /** Baseline checks that this check contains. */
  readonly replaces: readonly string[];
}

const defaultCapabilities = new Set([
  "AUDIT_WRITE",
  "CHOWN",
  "DAC_OVERRIDE",
  "FOWNER",
  "FSETID",
  "KILL",
  "MKNOD",
  "NET_BIND_SERVICE",
  "SETFCAP",
  "SETGID",
  "SETPCAP",
  "SETUID",
  "SYS_CHROOT",
]);

/** Safe sysctls, and the minor version that added each to the standard. */
const safeSysctls: Readonly<Record<string, number>> = {
  "kernel.shm_rmid_forced": 0,
  "net.ipv4.ip_local_port_range": 0,
  "net.ipv4.tcp_syncookies": 0,
  "net.ipv4.ping_group_range": 0,
  "net.ipv4.ip_unprivileged_port_start": 0,
  "net.ipv4.ip_local_reserved_ports": 27,
  "net.ipv4.tcp_keepalive_time": 29,
  "net.ipv4.tcp_fin_timeout": 29,
  "net.ipv4.tcp_keepalive_intvl": 29,
  "net.ipv4.tcp_keepalive_probes": 29,
  "net.ipv4.tcp_rmem": 32,
  "net.ipv4.tcp_wmem": 32,
};

const seLinuxTypes: Readonly<Record<string, number>> = {
  "": 0,
  container_t: 0,
  container_init_t: 0,
  container_kvm_t: 0,
  container_engine_t: 31,
};

const appArmorPrefix = "container.apparmor.security.beta.kubernetes.io/";

const baseline: readonly Check[] = [
  { id: "appArmorProfile", since: 0, violation: appArmor },
  {
    id: "capabilities_baseline",
    since: 0,
    violation({ spec }) {
      const added = new Set<string>();
      const bad = namesOf(spec, ({ securityContext }) =>
        gather(
          added,
          (securityContext?.capabilities?.add ?? []).filter((one) => !defaultCapabilities.has(one)),
        ),
      );
      if (bad.length === 0) return undefined;
      const detail = `${containers(bad)} must not include ${quoted(sorted(added))} in securityContext.capabilities.add`;
      return { reason: "non-default capabilities", detail };
    },
  },
  {
    id: "hostNamespaces",
    since: 0,
    violation({ spec }) {
      const shared = (["hostNetwork", "hostPID", "hostIPC"] as const).filter((field) => spec[field] === true);
      if (shared.length === 0) return undefined;
      return { reason: "host namespaces", detail: shared.map((field) => `${field}=true`).join(", ") };
    },
  },
  {
    id: "hostPathVolumes",
    since: 0,
    violation({ spec }) {
      const bad = (spec.volumes ?? []).filter(({ hostPath }) => hostPath !== undefined).map(({ name }) => name);
      return bad.length === 0 ? undefined : { reason: "hostPath volumes", detail: counted("volume", bad) };
    },
  },
  {
    id: "hostPorts",
    since: 0,
    violation({ spec }) {
      const ports = new Set<string>();
      const bad = namesOf(spec, (container) =>
        gather(
          ports,
          (container.ports ?? []).filter(({ hostPort }) => !!hostPort).map(({ hostPort }) => String(hostPort)),
        ),
      );
      if (bad.length === 0) return undefined;
      const detail = `${containers(bad)} ${use(bad)} ${plural("hostPort", ports.size)} ${sorted(ports).join(", ")}`;
      return { reason: "hostPort", detail };
    },
  },
  {
    id: "hostProbesAndHostLifecycle",
    since: 34,
    violation({ spec }) {
      const hosts = new Set<string>();
      const bad = namesOf(spec, (container) => gather(hosts, hostsOf(container)));
      if (bad.length === 0) return undefined;
      const what = plural("probe or lifecycle host", hosts.size);
      const detail = `${containers(bad.sort())} ${use(bad)} ${what} ${quoted(sorted(hosts))}`;
      return { reason: "probe or lifecycle host", detail };
    },
  },
  {
    id: "privileged",
    since: 0,
    violation({ spec }) {
      const bad = namesOf(spec, ({ securityContext }) => securityContext?.privileged === true);
      if (bad.length === 0) return undefined;
      return { reason: "privileged", detail: `${containers(bad)} must not set securityContext.privileged=true` };
    },
  },
  {
    id: "procMount",
    since: 0,
    violation: (pod, minor) => (minor >= 35 && hasOwnUsers(pod) ? undefined : procMount(pod)),
  },
  { id: "seLinuxOptions", since: 0, violation: seLinux },
  {
    id: "seccompProfile_baseline",
    since: 0,
    violation: (pod, minor) => (minor < 19 ? seccompAnnotations(pod) : seccomp(pod, false)),
  },
  {
    id: "sysctls",
    since: 0,
    violation({ spec }, minor) {
      const bad = (spec.securityContext?.sysctls ?? [])
        .map(({ name }) => name)
        .filter((name) => minor < (safeSysctls[name] ?? Number.POSITIVE_INFINITY) || safeSysctls[name] === undefined);
      return bad.length === 0 ? undefined : { reason: "forbidden sysctls", detail: bad.join(", ") };
    },
  },
  {
    id: "windowsHostProcess",
    since: 0,
    violation({ spec }) {
      const bad = namesOf(spec, ({ securityContext }) => securityContext?.windowsOptions?.hostProcess === true);
      const who = setters(spec.securityContext?.windowsOptions?.hostProcess === true, bad);
      if (who === "") return undefined;
      return { reason: "hostProcess", detail: `${who} must not set securityContext.windowsOptions.hostProcess=true` };
    },
  },
];

const restricted: readonly RestrictedCheck[] = [
  {
    id: "allowPrivilegeEscalation",
    since: 8,
    replaces: [],
    violation(pod, minor) {
      if (minor >= 25 && isWindows(pod)) return undefined;
      const bad = namesOf(pod.spec, ({ securityContext }) => securityContext?.allowPrivilegeEscalation !== false);
      if (bad.length === 0) return undefined;
      const detail = `${containers(bad)} must set securityContext.allowPrivilegeEscalation=false`;
      return { reason: "allowPrivilegeEscalation != false", detail };
    },
  },
  {
    id: "capabilities_restricted",
    since: 22,
    replaces: ["capabilities_baseline"],
    violation: (pod, minor) => (minor >= 25 && isWindows(pod) ? undefined : capabilities(pod)),
  },
  { id: "procMount_restricted", since: 35, replaces: ["procMount"], violation: (pod) => procMount(pod) },
  { id: "restrictedVolumes", since: 0, replaces: ["hostPathVolumes"], violation: restrictedVolumes },
  {
    id: "runAsNonRoot",
    since: 0,
    replaces: [],
    violation: (pod, minor) => (minor >= 35 && hasOwnUsers(pod) ? undefined : runAsNonRoot(pod)),
  },
  {
    id: "runAsUser",
    since: 23,
    replaces: [],
    violation(pod, minor) {
      if (minor >= 35 && hasOwnUsers(pod)) return undefined;
      const bad = namesOf(pod.spec, ({ securityContext }) => securityContext?.runAsUser === 0);
      const who = setters(pod.spec.securityContext?.runAsUser === 0, bad);
      return who === "" ? undefined : { reason: "runAsUser=0", detail: `${who} must not set runAsUser=0` };
    },
  },
  {
    id: "seccompProfile_restricted",
    since: 19,
    replaces: ["seccompProfile_baseline"],
    violation: (pod, minor) => (minor >= 25 && isWindows(pod) ? undefined : seccomp(pod, true)),
  },
];

function appArmor({ spec, annotations }: PodLike): Violation | undefined {
  const isAllowed = (type: string): boolean => type === "RuntimeDefault" || type === "Localhost";
  const values = new Set<string>();
  const own = spec.securityContext?.appArmorProfile?.type;
  const isOwnBad = own !== undefined && gather(values, isAllowed(own) ? [] : [own]);
  const bad = namesOf(spec, ({ securityContext }) => {
    const type = securityContext?.appArmorProfile?.type;
    return type !== undefined && gather(values, isAllowed(type) ? [] : [type]);
  });
  const old = Object.entries(annotations)
    .filter(([key, value]) => key.startsWith(appArmorPrefix) && !/^$|^runtime\/default$|^localhost\//.test(value))
    .map(([key, value]) => `${key}=${JSON.stringify(value)}`)
    .sort();
  const who = [setters(isOwnBad, bad), old.length === 0 ? "" : plural("annotation", old.length)];
  const named = who.filter((one) => one !== "").join(" and ");
  if (named === "") return undefined;
  const all = [...sorted(values), ...old];
  return {
    reason: plural("forbidden AppArmor profile", all.length),
    detail: `${named} must not set AppArmor profile type to ${quoted(all)}`,
  };
}

function capabilities({ spec }: PodLike): Violation | undefined {
  const added = new Set<string>();
  const keeps = namesOf(spec, ({ securityContext }) => !(securityContext?.capabilities?.drop ?? []).includes("ALL"));
  const adds = namesOf(spec, ({ securityContext }) =>
    gather(
      added,
      (securityContext?.capabilities?.add ?? []).filter((one) => one !== "NET_BIND_SERVICE"),
    ),
  );
  const details: string[] = [];
  if (keeps.length > 0) details.push(`${containers(keeps)} must set securityContext.capabilities.drop=["ALL"]`);
  if (adds.length > 0) {
    details.push(`${containers(adds)} must not include ${quoted(sorted(added))} in securityContext.capabilities.add`);
  }
  return details.length === 0 ? undefined : { reason: "unrestricted capabilities", detail: details.join("; ") };
}

function procMount({ spec }: PodLike): Violation | undefined {
  const types = new Set<string>();
  const bad = namesOf(spec, ({ securityContext }) => {
    const type = securityContext?.procMount;
    return type !== undefined && gather(types, type === "Default" ? [] : [type]);
  });
  if (bad.length === 0) return undefined;
  const detail = `${containers(bad)} must not set securityContext.procMount to ${quoted(sorted(types))}`;
  return { reason: "procMount", detail };
}

const plainVolumes = [
  "configMap",
  "csi",
  "downwardAPI",
  "emptyDir",
  "ephemeral",
  "image",
  "persistentVolumeClaim",
  "projected",
  "secret",
];

function restrictedVolumes({ spec }: PodLike): Violation | undefined {
  const types = new Set<string>();
  const bad: string[] = [];
  for (const { name, ...source } of spec.volumes ?? []) {
    const [type = "unknown"] = Object.keys(source);
    if (plainVolumes.includes(type)) continue;
    bad.push(name);
    types.add(type);
  }
  if (bad.length === 0) return undefined;
  const what = plural("restricted volume type", types.size);
  return {
    reason: "restricted volume types",
    detail: `${counted("volume", bad)} ${use(bad)} ${what} ${quoted(sorted(types))}`,
  };
}

function runAsNonRoot({ spec }: PodLike): Violation | undefined {
  const reason = "runAsNonRoot != true";
  const own = spec.securityContext?.runAsNonRoot;
  const refuses = namesOf(spec, ({ securityContext }) => securityContext?.runAsNonRoot === false);
  const who = setters(own === false, refuses);
  if (who !== "") return { reason, detail: `${who} must not set securityContext.runAsNonRoot=false` };
  const silent = namesOf(spec, ({ securityContext }) => own !== true && securityContext?.runAsNonRoot === undefined);
  if (silent.length === 0) return undefined;
  return { reason, detail: `pod or ${containers(silent)} must set securityContext.runAsNonRoot=true` };
}

function seLinux({ spec }: PodLike, minor: number): Violation | undefined {
  const types = new Set<string>();
  let setsUser = false;
  let setsRole = false;
  const isBad = (options: { type?: string; user?: string; role?: string } | undefined): boolean => {
    if (options === undefined) return false;
    const { type = "", user = "", role = "" } = options;
    const isUnknown = gather(
      types,
      minor >= (seLinuxTypes[type] ?? Number.POSITIVE_INFINITY) && type in seLinuxTypes ? [] : [type],
    );
    setsUser ||= user !== "";
    setsRole ||= role !== "";
    return isUnknown || user !== "" || role !== "";
  };
  const isOwnBad = isBad(spec.securityContext?.seLinuxOptions);
  const who = setters(
    isOwnBad,
    namesOf(spec, ({ securityContext }) => isBad(securityContext?.seLinuxOptions)),
  );
  if (who === "") return undefined;
  const what: string[] = [];
  if (types.size > 0) what.push(`${plural("type", types.size)} ${quoted(sorted(types))}`);
  if (setsUser) what.push("user may not be set");
  if (setsRole) what.push("role may not be set");
  return {
    reason: "seLinuxOptions",
    detail: `${who} set forbidden securityContext.seLinuxOptions: ${what.join("; ")}`,
  };
}

function seccomp({ spec }: PodLike, isRequired: boolean): Violation | undefined {
  const reason = "seccompProfile";
  const isAllowed = (type: string): boolean => type === "RuntimeDefault" || type === "Localhost";
  const types = new Set<string>();
  const own = spec.securityContext?.seccompProfile?.type;
  const isOwnBad = own !== undefined && gather(types, isAllowed(own) ? [] : [own]);
  const bad = namesOf(spec, ({ securityContext }) => {
    const type = securityContext?.seccompProfile?.type;
    return type !== undefined && gather(types, isAllowed(type) ? [] : [type]);
  });
  const who = setters(isOwnBad, bad);
  if (who !== "") {
    return { reason, detail: `${who} must not set securityContext.seccompProfile.type to ${quoted(sorted(types))}` };
  }
  if (!isRequired || own !== undefined) return undefined;
  const silent = namesOf(spec, ({ securityContext }) => securityContext?.seccompProfile === undefined);
  if (silent.length === 0) return undefined;
  const detail = `pod or ${containers(silent)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`;
  return { reason, detail };
}

/** Annotations that came before the field. */
function seccompAnnotations({ spec, annotations }: PodLike): Violation | undefined {
  const keys = ["seccomp.security.alpha.kubernetes.io/pod"];
  for (const { name } of allContainers(spec)) keys.push(`container.seccomp.security.alpha.kubernetes.io/${name}`);
  const bad = keys
    .filter((key) => {
      const value = annotations[key];
      return value !== undefined && !/^runtime\/default$|^docker\/default$|^localhost\//.test(value);
    })
    .map((key) => `${key}=${JSON.stringify(annotations[key])}`);
  if (bad.length === 0) return undefined;
  const unique = sorted(new Set(bad));
  return { reason: "seccompProfile", detail: `forbidden ${plural("annotation", unique.length)} ${unique.join(", ")}` };
}

type AnyContainer = Container | EphemeralContainer;

function hostsOf({ livenessProbe, readinessProbe, startupProbe, lifecycle }: AnyContainer): string[] {
  const handlers = [livenessProbe, readinessProbe, startupProbe, lifecycle?.postStart, lifecycle?.preStop];
  return handlers
    .flatMap((handler) => [handler?.httpGet?.host ?? "", handler?.tcpSocket?.host ?? ""])
    .filter((host) => host !== "");
}

function allContainers(spec: PodSpec): AnyContainer[] {
  return [...(spec.initContainers ?? []), ...(spec.containers ?? []), ...(spec.ephemeralContainers ?? [])];
}

function namesOf(spec: PodSpec, isBad: (container: AnyContainer) => boolean): string[] {
  return allContainers(spec)
    .filter(isBad)
    .map(({ name }) => name);
}

/** Adds the values; returns whether there were any. */
function gather(into: Set<string>, values: readonly string[]): boolean {
  for (const value of values) into.add(value);
  return values.length > 0;
}

function hasOwnUsers({ spec }: PodLike): boolean {
  return spec.hostUsers === false;
}

function isWindows({ spec }: PodLike): boolean {
  return spec.os?.name === "windows";
}

/** Names the pod, the containers, or both. */
function setters(isPodBad: boolean, bad: readonly string[]): string {
  return [...(isPodBad ? ["pod"] : []), ...(bad.length === 0 ? [] : [containers(bad)])].join(" and ");
}

function containers(names: readonly string[]): string {
  return counted("container", names);
}

function counted(noun: string, names: readonly string[]): string {
  return `${plural(noun, names.length)} ${quoted(names)}`;
}

function use(names: readonly string[]): string {
  return names.length === 1 ? "uses" : "use";
}

function plural(noun: string, count: number): string {
  return count === 1 ? noun : `${noun}s`;
}

function quoted(words: readonly string[]): string {
  return words.map((word) => `"${word}"`).join(", ");
}

function sorted(words: ReadonlySet<string>): string[] {
  return [...words].sort();
}
