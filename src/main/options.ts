/** Flags that several commands share, each declared once. */
import { type Command, Option } from "commander";

/** Every command can print one JSON object on standard output. */
export const outputOption = (): Option =>
  new Option("-o, --output <format>", "output format").choices(["text", "json"]).default("text");

export const logLevelOption = (usual: "info" | "warn"): Option =>
  new Option("--log-level <level>", "lowest level that is logged to standard error")
    .choices(["debug", "info", "warn", "error"])
    .default(usual);

/** A repeatable flag; its first occurrence replaces the default. */
export function collect(value: string, before: readonly string[] & { isGiven?: boolean }): readonly string[] {
  return Object.assign([...(before.isGiven === true ? before : []), value], { isGiven: true });
}

/** The flags that choose a cluster. */
export function withCluster(command: Command): Command {
  return command
    .option(
      "--kubeconfig <file>",
      "kubeconfig of the cluster (default: KUBECONFIG, else the embedded cluster of the data folder, else as kubectl)",
    )
    .option("--context <name>", "context of the kubeconfig")
    .option("--data-dir <folder>", "data folder of the embedded cluster", ".muster")
    .addOption(outputOption());
}

/** The flags that choose a cluster or a saved snapshot of one. */
export function withSnapshot(command: Command): Command {
  return withCluster(command).option("--snapshot <file>", "a file of `muster snapshot save` instead of a cluster");
}

export function withDatabase(command: Command): Command {
  return command
    .option("--database-url <url>", "PostgreSQL to use (default: DATABASE_URL, POSTGRES_*, else the embedded one)")
    .option("--data-dir <folder>", "data folder of the embedded database", ".muster")
    .addOption(outputOption());
}

/** The address that the command listens on. */
export function withAddress(command: Command, port?: string): Command {
  const usual = port === undefined ? " (default: 6443, or a free one if that is in use)" : "";
  return command
    .option("--port <number>", `port to listen on; 0 picks a free one${usual}`, port)
    .option("--host <address>", "address to listen on", "127.0.0.1");
}

/** The embedded API server and its data. */
export function withApiServer(command: Command): Command {
  return withAddress(command)
    .option(
      "--advertise-address <address>",
      "address under which nodes and pods reach the API server (default: that of --host)",
    )
    .option("--tls-san <name>", "another name or address for the certificate; repeatable", collect, [])
    .option("--data-dir <folder>", "folder for objects, keys and the kubeconfig", ".muster")
    .option("--memory", "keep objects in memory; only the kubeconfig is written")
    .option("--accept-loss", "start although acknowledged changes are missing from the data folder, and report which")
    .option("--kubeconfig <file>", "kubeconfig to merge the context into (default: kubeconfig in the data folder)")
    .addOption(outputOption());
}

/** Where the page that shows the cluster is served. */
export function withWindow(command: Command, port: string): Command {
  return command
    .option("--dashboard-port <number>", `port of the window, the page that shows the cluster; ${port}`)
    .option("--dashboard-host <address>", "address that it listens on (default: 127.0.0.1)")
    .option("--dashboard-tls-cert <file>", "certificate as PEM, for an address that others reach")
    .option("--dashboard-tls-key <file>", "its key")
    .option("--behind-proxy <name>", "a proxy of this name ends TLS in front of the window");
}

/** Settings of the components of the control plane. */
export function withControlPlane(command: Command): Command {
  return withBinder(
    command
      .option(
        "--image <image>",
        "image of Muster, for reservation pods and for the init containers of gangs on real nodes",
      )
      .addOption(
        new Option("--image-pull-policy <policy>", "pull policy of that image (default: IfNotPresent)").choices([
          "Always",
          "IfNotPresent",
          "Never",
        ]),
      )
      .option("--gang-config <file>", "Grove OperatorConfiguration for the gang operator")
      .option("--no-gpu-sharing", "reject pods that request a fraction of a GPU")
      .option("--group-claims", "allow ResourceClaims of PodGroups")
      .option(
        "--feature-gates <gate=bool,...>",
        "feature gates of device allocation, with Kubernetes' names",
        collect,
        [],
      )
      .option("--enable-quota-validation", "warn about queues with more quota than their parent"),
  );
}

/** Settings of the binder. */
function withBinder(command: Command): Command {
  return command
    .option("--binder-workers <number>", "BindRequests that are processed concurrently (default: 64)")
    .option("--volume-binding-timeout <duration>", "time limit for binding the volumes of a pod (default: 2m)")
    .option("--cdi", "pass GPUs to containers as CDI devices")
    .option("--reservation-image <image>", "image of reservation pods")
    .option(
      "--reservation-pull-policy <policy>",
      "pull policy of reservation pods: Always, IfNotPresent or Never (default: IfNotPresent)",
    )
    .option("--reservation-timeout <duration>", "time limit for a reservation pod to report its GPU (default: 40s)")
    .option("--reservation-namespace <name>", "namespace of reservation pods (default: kai-resource-reservation)")
    .option(
      "--reservation-service-account <name>",
      "service account of reservation pods (default: kai-resource-reservation)",
    )
    .option("--reservation-runtime-class <name>", "RuntimeClass of reservation pods (default: none)")
    .option("--reservation-resources <json>", 'resources of reservation pods, such as {"requests":{"cpu":"10m"}}')
    .option("--reservation-pod-security-context <json>", "securityContext of reservation pods")
    .option("--reservation-container-security-context <json>", "securityContext of the container in reservation pods");
}

/** The embedded cluster of a data folder. */
export function withDataFolder(command: Command): Command {
  return command
    .option("--data-dir <folder>", "data folder of the embedded cluster", ".muster")
    .addOption(outputOption());
}
