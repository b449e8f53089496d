import type { Command } from "commander";

/** What can be set about the binder on the command line. */
export function withBinderOptions(command: Command): Command {
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
