// Stands in for the Kubeflow training operator and for KubeRay: makes the pods of PyTorchJobs and RayClusters, with the owner
// references and labels that the real operators give them. It needs kubectl and nothing else:
//
//   KUBECONFIG=.muster/kubeconfig node examples/kai/operators.mjs [--once]
import { spawnSync } from "node:child_process";

if (process.argv.includes("--help") || process.argv.includes("-h")) {
  console.log(`usage: node examples/kai/operators.mjs [--once]

Creates the pods of PyTorchJobs and RayClusters, every two seconds until interrupted.

  --once  create them once, and end`);
  process.exit(0);
}

function kubectl(args, input) {
  const { status, stdout, stderr } = spawnSync("kubectl", args, { input, encoding: "utf8" });
  return status === 0 ? stdout : { refused: stderr };
}

function podsOfTraining({ metadata, spec }) {
  return Object.entries(spec.pytorchReplicaSpecs ?? {}).flatMap(([role, { replicas = 1, template }]) =>
    Array.from({ length: replicas }, (_, index) => ({
      name: `${metadata.name}-${role.toLowerCase()}-${index}`,
      template,
      labels: {
        "training.kubeflow.org/job-name": metadata.name,
        "training.kubeflow.org/replica-type": role.toLowerCase(),
        "training.kubeflow.org/replica-index": String(index),
      },
    })),
  );
}

function podsOfRay({ metadata, spec }) {
  const head = {
    name: `${metadata.name}-head`,
    template: spec.headGroupSpec.template,
    labels: { "ray.io/cluster": metadata.name, "ray.io/node-type": "head", "ray.io/group": "headgroup" },
  };
  const workers = (spec.workerGroupSpecs ?? []).flatMap(({ groupName, replicas = 0, template }) =>
    Array.from({ length: replicas }, (_, index) => ({
      name: `${metadata.name}-${groupName}-worker-${index}`,
      template,
      labels: { "ray.io/cluster": metadata.name, "ray.io/node-type": "worker", "ray.io/group": groupName },
    })),
  );
  return [head, ...workers];
}

/** Returns the names of the pods that it created. */
function reconcile() {
  const created = [];
  const kinds = [
    ["pytorchjobs.kubeflow.org", podsOfTraining],
    ["rayclusters.ray.io", podsOfRay],
  ];
  for (const [kind, podsOf] of kinds) {
    const listed = kubectl(["get", kind, "--all-namespaces", "--output", "json"]);
    if (typeof listed !== "string") continue;
    for (const owner of JSON.parse(listed).items) {
      for (const { name, template, labels } of podsOf(owner)) {
        const { apiVersion, metadata } = owner;
        const reference = { apiVersion, kind: owner.kind, name: metadata.name, uid: metadata.uid, controller: true };
        const pod = {
          apiVersion: "v1",
          kind: "Pod",
          metadata: { name, namespace: metadata.namespace, labels, ownerReferences: [reference] },
          spec: template.spec,
        };
        // A pod that exists is refused, and that is well.
        const answer = kubectl(["create", "--filename", "-"], JSON.stringify(pod));
        if (typeof answer === "string") created.push(`${metadata.namespace}/${name}`);
      }
    }
  }
  for (const name of created) console.log(`created pod ${name}`);
  return created;
}

const first = reconcile();
if (process.argv.includes("--once")) console.log(`${first.length} pods created`);
if (!process.argv.includes("--once")) setInterval(reconcile, 2_000);
