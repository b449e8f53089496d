/** Flags that several commands have in common, each declared once. */
import { type Command, Option } from "commander";

/** Every command can answer in one JSON object on standard output. */
export const outputOption = (): Option =>
  new Option("-o, --output <format>", "text for people, json for programs").choices(["text", "json"]).default("text");

export const logLevelOption = (usual: "info" | "warn"): Option =>
  new Option("--log-level <level>", "what is written to standard error")
    .choices(["debug", "info", "warn", "error"])
    .default(usual);

/** A flag that may be given several times; the first one replaces the default. */
export function collect(value: string, before: readonly string[] & { isGiven?: boolean }): readonly string[] {
  return Object.assign([...(before.isGiven === true ? before : []), value], { isGiven: true });
}

/** The flags that choose a cluster. */
export function withCluster(command: Command): Command {
  return command
    .option("--kubeconfig <file>", "which cluster (default: the embedded one of the data folder, else kubectl's)")
    .option("--context <name>", "which context of the kubeconfig")
    .option("--data-dir <folder>", "where an embedded cluster keeps its kubeconfig", ".muster")
    .addOption(outputOption());
}

/** Which cluster, or which file of one. */
export function withSnapshot(command: Command): Command {
  return withCluster(command).option("--snapshot <file>", "a file of `muster snapshot save` instead of a cluster");
}

export function withDatabase(command: Command): Command {
  return command
    .option("--database-url <url>", "which PostgreSQL (default: DATABASE_URL, POSTGRES_*, else the embedded one)")
    .option("--data-dir <folder>", "where the embedded database is", ".muster")
    .addOption(outputOption());
}

/** Where a server of the command listens. */
export function withAddress(command: Command, port: string): Command {
  return command
    .option("--port <number>", "port to listen on; 0 picks a free one", port)
    .option("--host <address>", "address to listen on", "127.0.0.1");
}

/** The embedded API server and its data. */
export function withApiServer(command: Command): Command {
  return withAddress(command, "6443")
    .option("--data-dir <folder>", "where objects, keys and the kubeconfig are kept", ".muster")
    .option("--memory", "keep nothing: objects live in memory, and only the kubeconfig is written")
    .option("--kubeconfig <file>", "where the kubeconfig is written (default: kubeconfig in the data folder)")
    .addOption(outputOption());
}

/** What can be set about the components of the control plane. */
export function withControlPlane(command: Command): Command {
  return withBinder(
    command
      .option(
        "--image <image>",
        "Muster's own image, for reservation pods and for the start order of gangs on real nodes",
      )
      .addOption(
        new Option("--image-pull-policy <policy>", "when it is pulled (default: IfNotPresent)").choices([
          "Always",
          "IfNotPresent",
          "Never",
        ]),
      )
      .option("--gang-config <file>", "a Grove OperatorConfiguration for the gang operator")
      .option("--no-gpu-sharing", "refuse pods that ask for a share of a GPU")
      .option("--group-claims", "let PodGroups have device claims of their own")
      .option(
        "--feature-gates <gate=bool,...>",
        "switch features of device allocation, by Kubernetes' names",
        collect,
        [],
      )
      .option("--enable-quota-validation", "warn of queues that have more quota than the queue above them"),
  );
}

/** What can be set about the binder on the command line. */
function withBinder(command: Command): Command {
  return command
    .option("--binder-workers <number>", "binds that are under way at once (default: 64)")
    .option("--volume-binding-timeout <duration>", "how long the volumes of a pod may take (default: 2m)")
    .option("--cdi", "name GPUs to containers as CDI devices")
    .option("--reservation-image <image>", "image of reservation pods: the program that says which GPU they hold")
    .option("--reservation-pull-policy <policy>", "Always, IfNotPresent or Never (default: IfNotPresent)")
    .option("--reservation-timeout <duration>", "how long a node may take to say which GPU it is (default: 40s)")
    .option("--reservation-namespace <name>", "namespace of reservation pods: kai-resource-reservation")
    .option("--reservation-service-account <name>", "their service account (default: kai-resource-reservation)")
    .option("--reservation-runtime-class <name>", "their RuntimeClass (default: none)")
    .option("--reservation-resources <json>", 'their requests and limits, such as {"requests":{"cpu":"10m"}}')
    .option("--reservation-pod-security-context <json>", "their securityContext")
    .option("--reservation-container-security-context <json>", "the securityContext of their container");
}
