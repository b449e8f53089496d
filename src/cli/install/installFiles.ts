import { stringify } from "yaml";
import { chartFiles, yamlOf } from "./installChart.ts";
import { manifestsOf } from "./installManifests.ts";
import { componentRights, type Right, reservationRights } from "./installRights.ts";
import { readValues } from "./installValues.ts";

/** The files of deploy/ that are written by a tool, by their path there. */
export async function deployFiles(): Promise<ReadonlyMap<string, string>> {
  const files = new Map([...chartFiles()].map(([path, text]) => [`chart/${path}`, text]));
  const manifests = manifestsOf(await readValues(undefined), "muster-system");
  files.set("muster.yaml", `${manifestsNote}${manifests.map(yamlOf).join("---\n")}`);
  files.set("binder-clusterrole.yaml", `${binderNote}${binderRole()}`);
  return files;
}

const manifestsNote = `# The controllers on a cluster, as \`muster install --print\` shows them. Write your image into the Deployment, then:
#   kubectl apply --server-side -f deploy/muster.yaml
# \`muster install --help\` and deploy/chart say what can be set. Written by tools/genDeploy.ts.
`;

const binderNote = `# What the binder does, and no more. Bind it to the account of \`muster run --controllers binder --leader-elect\`:
#   kubectl create clusterrolebinding muster-binder --clusterrole=muster-binder --serviceaccount=muster:binder
# Written by tools/genDeploy.ts.
`;

/** For a binder that is started by hand, with the lease and the reservations wherever its flags say. */
function binderRole(): string {
  const lease: Right = {
    why: "which process leads",
    apiGroups: ["coordination.k8s.io"],
    resources: ["leases"],
    verbs: ["get", "create", "update"],
  };
  const rules = [...componentRights.binder, ...reservationRights, lease].map(({ apiGroups, resources, verbs }) => ({
    apiGroups,
    resources,
    verbs,
  }));
  const metadata = { name: "muster-binder", labels: { "app.kubernetes.io/part-of": "muster" } };
  return stringify(
    { apiVersion: "rbac.authorization.k8s.io/v1", kind: "ClusterRole", metadata, rules },
    { lineWidth: 0, aliasDuplicateObjects: false },
  );
}
