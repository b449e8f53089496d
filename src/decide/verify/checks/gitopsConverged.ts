/**
 * A precondition for the verdict: GitOps has applied everything that is to be deployed. Every object must have
 * converged and there must be at least one, so that no empty cluster is verified.
 */
import type { KubeObject } from "../../../model/objects/object.ts";
import { type Check, type CheckFinding, type Evidence, passOrFail } from "../check.ts";
import { type ClusterSnapshot, objectsOf } from "../clusterSnapshot.ts";
import { list, record, text } from "../gangs.ts";
import type { KindName } from "../readKinds.ts";
import type { VerifyConfig } from "../verifyConfig.ts";

const fluxKinds = [
  "gitrepositories",
  "ocirepositories",
  "kustomizations",
  "helmreleases",
  "artifactgenerators",
] as const;

export const gitopsConverged: Check = {
  id: "gitops",
  title: "Argo CD and Flux have converged",
  byDefault: false,
  settles: true,
  needs: ["applications", ...fluxKinds],
  run: ({ snapshot, config }): CheckFinding => {
    const applications = objectsOf(snapshot, "applications");
    const flux = fluxKinds.reduce((sum, kind) => sum + objectsOf(snapshot, kind).length, 0);
    if (applications.length === 0 && flux === 0) {
      return passOrFail([{ object: "gitops", problem: "there is no Application and no Flux object" }], "");
    }
    const evidence = [
      ...(applications.length === 0 ? [] : argoProblems(applications, config)),
      ...(flux === 0 ? [] : fluxProblems(snapshot, config, applications.length > 0)),
    ];
    return passOrFail(evidence, `${applications.length} Applications, ${flux} Flux objects`);
  },
};

/**
 * Sync and health states that count as converged. On simulated nodes not every workload becomes healthy, and operators
 * change their own objects.
 */
const converged = new Set(["Synced/Healthy", "Synced/Progressing", "OutOfSync/Healthy", "Synced/Degraded"]);

function argoProblems(applications: readonly KubeObject[], { gitopsRoot }: VerifyConfig): Evidence[] {
  const roots = applications.filter((each) =>
    gitopsRoot === undefined ? isRoot(each, applications) : each.metadata.name === gitopsRoot,
  );
  const evidence: Evidence[] = [];
  if (roots.length === 0) {
    const problem = gitopsRoot === undefined ? "no Application is a root" : "the root does not exist";
    evidence.push({ object: `applications/${gitopsRoot ?? ""}`, problem });
  }
  for (const root of roots) {
    // Until the operation of the root has succeeded its children may not exist.
    const phase = text(record(record(root["status"])["operationState"])["phase"]);
    if (phase !== "Succeeded") {
      evidence.push({ object: nameOf("applications", root), problem: `the root's operation is ${phase || "unknown"}` });
    }
  }
  for (const application of applications) {
    const status = record(application["status"]);
    const sync = text(record(status["sync"])["status"]) || "Unknown";
    const health = text(record(status["health"])["status"]) || "Unknown";
    if (!converged.has(`${sync}/${health}`)) {
      evidence.push({ object: nameOf("applications", application), problem: `${sync} and ${health}` });
    }
  }
  return evidence;
}

/** An Application that no other Application manages. */
function isRoot({ metadata }: KubeObject, applications: readonly KubeObject[]): boolean {
  const tracking = metadata.annotations?.["argocd.argoproj.io/tracking-id"]?.split(":")[0];
  const manager =
    tracking ?? metadata.labels?.["argocd.argoproj.io/instance"] ?? metadata.labels?.["app.kubernetes.io/instance"];
  if (manager === undefined || manager === metadata.name) return true;
  return !applications.some((other) => other.metadata.name === manager);
}

function fluxProblems(snapshot: ClusterSnapshot, { gitopsRoot }: VerifyConfig, hasArgo: boolean): Evidence[] {
  const ready = (kind: KindName): Evidence[] =>
    objectsOf(snapshot, kind)
      .filter((object) => conditionOf(object, "Ready") !== "True")
      .map((object) => ({ object: nameOf(kind, object), problem: `is not Ready: ${messageOf(object)}` }));
  const evidence = [...ready("gitrepositories"), ...ready("ocirepositories")];
  const kustomizations = objectsOf(snapshot, "kustomizations");
  if (gitopsRoot !== undefined && !hasArgo && !kustomizations.some(({ metadata }) => metadata.name === gitopsRoot)) {
    evidence.push({ object: `kustomizations/${gitopsRoot}`, problem: "the root does not exist" });
  }
  evidence.push(...ready("kustomizations"));
  const releases = objectsOf(snapshot, "helmreleases");
  if (releases.length === 0) evidence.push({ object: "helmreleases", problem: "no HelmRelease exists" });
  for (const release of releases) {
    if (isReleased(release)) continue;
    evidence.push({ object: nameOf("helmreleases", release), problem: `is not released: ${messageOf(release)}` });
  }
  return [...evidence, ...ready("artifactgenerators")];
}

/** Ready, or deployed even if its pods never become ready. */
function isReleased(release: KubeObject): boolean {
  if (conditionOf(release, "Ready") === "True") return true;
  const [newest] = list(record(release["status"])["history"]);
  return (
    conditionOf(release, "Released") === "True" &&
    conditionOf(release, "Stalled") !== "True" &&
    text(record(newest)["status"]) === "deployed"
  );
}

function conditionOf(object: KubeObject, type: string): string {
  const conditions = list(record(object["status"])["conditions"]).map(record);
  return text(conditions.find((each) => each["type"] === type)?.["status"]) || "Unknown";
}

function messageOf(object: KubeObject): string {
  const conditions = list(record(object["status"])["conditions"]).map(record);
  const ready = conditions.find((each) => each["type"] === "Ready");
  return text(ready?.["message"]) || text(ready?.["reason"]) || "no condition message";
}

function nameOf(kind: string, { metadata }: KubeObject): string {
  return `${kind}/${metadata.namespace ?? ""}/${metadata.name}`;
}
