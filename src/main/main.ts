import { Command, CommanderError, Option } from "commander";
import { UsageError, UserError } from "../model/userError.ts";
import {
  collect,
  logLevelOption,
  outputOption,
  withAddress,
  withApiServer,
  withCluster,
  withControlPlane,
  withDatabase,
  withSnapshot,
} from "./options.ts";

/** The program. Commands are loaded when they are called, so that `--help` does not pay for the API server. */
const program = new Command("muster")
  .description("GPU control plane for Kubernetes: decides from one coherent snapshot, proves it in a simulator")
  .version(process.env["npm_package_version"] ?? "0.1.0", "-V, --version")
  .showHelpAfterError("(add --help for the options)")
  .exitOverride();

withApiServer(program.command("apiserver"))
  .description("run the embedded Kubernetes API server alone")
  .action(async (options) => (await import("../cli/cluster/apiserver.ts")).runApiServer(options));

withDatabase(program.command("avail"))
  .description("GPUs by type: free, most in one reservation, whole nodes, total, when more will be free, age")
  .argument("[type]", "only this type")
  .option("--watch", "look again and again")
  .option("--interval <duration>", "how often", "5s")
  .action(async (type, options) => (await import("../cli/inventory/avail.ts")).showAvailability({ ...options, type }));

program
  .command("bench")
  .description("measure, and print the floor or the peer of each figure beside it")
  .argument("[names...]", "which benchmarks; all when left out")
  .addOption(outputOption())
  .action(async (names, options) => (await import("../../bench/bench.ts")).runBench(names, options));

withDatabase(program.command("disks"))
  .description("users' disks: size, state, snapshots, volume, conflicts")
  .option("--user <name>", "only this user's")
  .option("--deleted", "deleted ones as well")
  .action(async (options) => (await import("../cli/inventory/avail.ts")).showDisks(options));

const fault = withCluster(program.command("fault"))
  .description("break a simulated node or its pods, on purpose and on time")
  .argument("<kind>", "what breaks; `muster fault kinds` lists them with their parameters")
  .argument("[parameters...]", "of the kind, such as --device 3")
  .option("--node <names>", "which nodes, with commas between")
  .option("--pod <namespace/name>", "which pod")
  .option("-l, --selector <labels>", "which pods, by labels: app=web,tier=front")
  .option("-n, --namespace <name>", "of the pods")
  .option("--for <duration>", "how long; for ever when left out")
  .option("--in <duration>", "when it begins; now when left out")
  .allowUnknownOption()
  .action(async (kind, words, options) => (await import("../cli/cluster/fault.ts")).injectFault(kind, words, options));
fault
  .command("list")
  .description("the faults of the cluster and of its nodes' annotations")
  .action(async (_, command) => (await import("../cli/cluster/fault.ts")).showFaults(command.optsWithGlobals()));
fault
  .command("clear")
  .description("end faults")
  .argument("[ids...]", "as `muster fault list` shows them")
  .option("--all", "all of them")
  .action(async (ids, _, command) =>
    (await import("../cli/cluster/fault.ts")).clearFault(ids, command.optsWithGlobals()),
  );
fault
  .command("kinds")
  .description("every kind of fault, what can be seen of it, and its parameters")
  .action(async (_, command) => (await import("../cli/cluster/fault.ts")).showKinds(command.optsWithGlobals()));

const inventory = program
  .command("inventory")
  .description("keep cloud, cluster and database telling the same story: GPU availability and users' disks");
const withRun = (command: Command): Command =>
  withDatabase(command)
    .option("--kubeconfig <file>", "which cluster (default: our own pod's, EKS_CLUSTER_NAME, the embedded one)")
    .option("--context <name>", "which context of the kubeconfig")
    .option("--phase <name>", "only gpu or only disks")
    .option("--accept-drop", "believe the cloud however few volumes it lists")
    .option("--full-snapshots", "read all snapshots, not only those of the last days")
    .option("--snapshot-scope <scope>", "count snapshots of the disk, or of its current volume as older services did")
    .option("--name-fallback", "take the tag Name for a missing disk name")
    .option(
      "--deadline <duration>",
      "when the run has to be over; it begins nothing new in the last 30s, or in the last quarter (default: 600s)",
    )
    .addOption(logLevelOption("info"));
withRun(inventory.command("run"))
  .description("reconcile once, or every so often; exit 0 ok, 1 failed, 2 partial, 3 deadline, 5 refused, 64 usage")
  .option("--once", "one run, for a CronJob")
  .option("--every <duration>", "a run at every multiple of this, until a signal")
  .option("--on-change", "with --every: count availability again soon after nodes or pods change")
  .option("--dry-run", "print the plan and write nothing")
  .option("--fail-if-locked", "exit 4 when another run holds the lock (default: skipped, exit 0)")
  .option("--even-if-paused", "run although the inventory is paused")
  .option("--metrics-address <host:port>", "serve /metrics here")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).runInventoryCommand(options));
withDatabase(inventory.command("runs"))
  .description("what runs did")
  .option("--limit <number>", "how many", "20")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).showRuns(options));
withDatabase(inventory.command("drift"))
  .description("what changed, when, why and by which run; and what was found and not changed")
  .option("--open", "only reports that still hold")
  .option("--disk <user/name>", "only this disk's")
  .option("--type <name>", "only this type's")
  .option("--run <id>", "only this run's")
  .option("--limit <number>", "how many", "50")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).showDrift(options));
withDatabase(inventory.command("pause"))
  .description("skip runs from now on")
  .option("--reason <text>", "why, as `inventory runs` and the log show it")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).setPaused(true, options));
withDatabase(inventory.command("resume"))
  .description("run again")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).setPaused(false, options));
withAddress(inventory.command("cloud"), "4599")
  .description("the stand-in cloud: EC2, Auto Scaling, STS and EKS as AWS speaks them, from a scenario file")
  .option("--scenario <file>", "what the cloud has, and what is wrong with it (default: the demo's cloud)")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/inventory/inventoryCloud.ts")).serveCloud(options));
inventory
  .command("manifests")
  .description("the CronJob and its rights for a real cluster, as YAML")
  .option("--image <name>", "the image that runs it")
  .option("--namespace <name>", "where it runs")
  .option("--role-arn <arn>", "the IAM role of its service account")
  .option("--region <name>", "the cloud's region")
  .option("--cluster <name>", "the EKS cluster's name")
  .option("--iam", "print the IAM policy instead")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/inventory/manifests.ts")).showManifests(options));
withAddress(withRun(inventory.command("serve")), "8090")
  .description("the inventory over HTTP, for readers that hold a token")
  .option("--token-file <file>", "holds the token (default: MUSTER_API_TOKEN, else one is made in the data folder)")
  .action(async (options) => (await import("../cli/inventory/inventoryServe.ts")).serveInventory(options));

withCluster(program.command("install"))
  .description(
    "the controllers in a cluster, all of it or nothing: definitions, roles, webhooks, processes; see docs/own-cluster.md",
  )
  .option("--print", "print the objects as YAML for kubectl apply, and ask no cluster")
  .option("--namespace <name>", "where the processes run", "muster-system")
  .option("--image <name:version>", "the image that runs; build it with deploy/Dockerfile")
  .option("--values <file>", "settings as YAML, the same as the chart's (deploy/chart/values.yaml)")
  .action(async (options) => (await import("../cli/install/install.ts")).runInstall(options));

withCluster(program.command("uninstall"))
  .description(
    "remove the controllers from a cluster: webhooks first, then processes, finalizers, roles; workloads run on",
  )
  .option("--namespace <name>", "where the processes run", "muster-system")
  .option("--crds", "remove the definitions as well, and with them every queue, group and gang")
  .option("--dry-run", "only say what would be removed")
  .action(async (options) => (await import("../cli/install/uninstall.ts")).runUninstall(options));

const nodes = withSnapshot(program.command("nodes"))
  .description("GPUs by type of node: total, free, whole nodes, most in one pod")
  .action(async (options) => (await import("../cli/views/scheduleView.ts")).showNodes(options));
withCluster(nodes.command("sim"))
  .description("play simulated nodes on any API server until a signal; only nodes with KWOK's annotation are touched")
  .option("--pool <profile=count>", "nodes to make; may be given several times", collect, [])
  .option("--profile-file <file>", "node profiles of your own as YAML; may be given several times", collect, [])
  .option("--seed <text>", "from which names of devices and delays follow", "muster")
  .addOption(
    new Option("--delays <speed>", "how long pods take").choices(["fast", "lively", "general"]).default("lively"),
  )
  .option("--taint", "give new nodes KWOK's taint")
  .option("--install", "define KWOK's Stage, where the cluster lacks it")
  .option("--holder <name>", "identity in the leases; must be unique (default: the host's name and a random word)")
  .option("--lease-seconds <number>", "how long a lease lasts", "40")
  .addOption(logLevelOption("warn"))
  .action(async (_, command) => (await import("../cli/cluster/nodesSim.ts")).runNodesSim(command.optsWithGlobals()));

withCluster(program.command("reservation-agent"))
  .description("runs in a reservation pod: finds its GPU, writes it on its own pod, and holds it until a signal")
  .option("--namespace <name>", "namespace of the pod (default: POD_NAMESPACE)")
  .option("--pod <name>", "name of the pod (default: POD_NAME)")
  .option("--find <duration>", "how long the GPU may take to appear", "30s")
  .option("--check <duration>", "how often it is looked for again", "60s")
  .option("--dry-run", "print the GPU that this container has, and ask no cluster")
  .addOption(logLevelOption("info"))
  .action(async (options) => (await import("../cli/agent/reservationAgent.ts")).runReservationAgent(options));

const sim = program
  .command("sim")
  .description("play seeds: orders of events, faults and crashes that controllers must survive");
sim
  .command("run")
  .description("play many seeds of a scenario; exit 1 when an invariant broke")
  .option("--scenario <name>", "what is played", "pod-sets")
  .option("--seeds <number>", "how many", "100")
  .option("--from <seed>", "the first one", "1")
  .option("--cores <number>", "how many threads play; all cores unless given")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/simulator/sim.ts")).runSim(options));
sim
  .command("replay")
  .description("replay one seed and print its history")
  .option("--scenario <name>", "what is played", "pod-sets")
  .requiredOption("--seed <number>", "which seed")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/simulator/sim.ts")).replaySim(options));

withControlPlane(withCluster(program.command("run")))
  .description("run controllers against a cluster until a signal, with health and metrics over HTTP")
  .option(
    "--controllers <names>",
    "which ones, with commas between (default: all but those that a real cluster has itself)",
  )
  .option("--install", "define the kinds and create the objects that they need, where the cluster lacks them")
  .option(
    "--installed",
    "the chart or `muster install` made definitions, rights and webhook configurations: only use them",
  )
  .option("--default-scheduler", "also place pods of default-scheduler: only where no kube-scheduler runs")
  .option("--leader-elect", "act only while holding a Lease, so that many may run")
  .option("--lease-namespace <name>", "where the Lease is", "kube-system")
  .option("--lease-name <name>", "what it is called", "muster")
  .option("--identity <name>", "identity of this process; must be unique (default: the host's name and a random word)")
  .option(
    "--status-address <host:port>",
    "where /healthz, /readyz, /metrics and /debug/devices are served",
    "127.0.0.1:8081",
  )
  .option(
    "--webhook-service <namespace/name>",
    "serve the rules about writes as webhooks, which the API server reaches through this Service",
  )
  .option("--webhook-host <name>", "the same for a process outside the cluster: the name or address it is reached by")
  .option("--webhook-address <host:port>", "where webhooks are served", "0.0.0.0:9443")
  .option("--webhook-cert-dir <folder>", "tls.crt, tls.key and ca.crt that another program keeps, such as cert-manager")
  .addOption(logLevelOption("info"))
  .action(async (options) => (await import("../cli/cluster/run.ts")).runControllers(options));

withCluster(program.command("start-order"))
  .description("runs in an init container of a gang's pod: waits until the cliques before it are ready")
  .option("--podcliques <name:minimum>", "a clique, and how many of its pods; may be given several times", collect, [])
  .option("--namespace <name>", "of the gang (default: as the downward API writes it into the container)")
  .option("--gang <name>", "name of the PodGang (default: as the downward API writes it into the container)")
  .addOption(logLevelOption("info"))
  .action(async (options) => (await import("../cli/agent/startOrder.ts")).runStartOrder(options));

withControlPlane(withApiServer(program.command("up")))
  .description(
    "a GPU cluster in one process: API server, simulated nodes, all controllers; Ctrl-C stops it, the data folder survives",
  )
  .option("--pool <profile=count>", "simulated nodes; may be given several times", collect, ["h100=4"])
  .option("--profile-file <file>", "node profiles of your own as YAML; may be given several times", collect, [])
  .option("--demo", "load a small story: a cluster with something going on")
  .option(
    "--status-address <host:port>",
    "where /healthz, /readyz, /metrics and /debug/devices are served (default: nowhere)",
  )
  .addOption(logLevelOption("warn"))
  .action(async (options) => (await import("../cli/cluster/up.ts")).runUp(options));

withCluster(program.command("verify"))
  .description("is everything placed that should be: one snapshot, a bounded wait, a verdict; see docs/verify.md")
  .option("--settle <duration>", "how long pods may settle; 0 is one look (default: 60s)")
  .option("--interval <duration>", "pause between looks, at least 1s (default: 5s)")
  .option("--until <time>", "absolute end of the window, as a time or seconds since 1970")
  .option("--allow-empty", "an empty scope passes with a warning")
  .option("--expect-min <number>", "at least this many pods are in scope")
  .option("--expect-workload <names...>", "each of these has pods")
  .option("--ignore-jobs", "leave out pods of every Job, not only of hooks")
  .option("--fail-on-evicted", "an evicted pod fails even when it was replaced")
  .option("--strict", "pods that are still settling fail")
  .option("--require-running", "also wait until bound pods run")
  .option("--check <ids...>", "run these checks only: S1 to S16, gitops, gang-barrier, default, all")
  .option("--exclude-namespace <names...>", "namespaces out of scope, instead of the usual ones")
  .option("--profile <name>", "the shape that GPU nodes must have (check S11)")
  .option("--gitops-root <name>", "the root Application or Kustomization (check gitops)")
  .option("--report <format=file...>", "write a report: text, json, ctrf, junit or github; may be repeated")
  .option("--snapshot <file>", "verify a saved snapshot, without a cluster")
  .option("--allow-context <names...>", "contexts besides the embedded cluster that active proofs may write to")
  .addOption(new Option("--compat <harness>", "decide as the shell harness did").choices(["aicr"]))
  .action(async (options) => (await import("../cli/verify/verify.ts")).runVerifyCommand(options));

withCluster(program.command("gangs"))
  .description("the tree of gangs: minimum, scheduled, ready, breach, and the time left until a gang is ended")
  .option("-n, --namespace <name>", "only of this namespace")
  .action(async (options) => (await import("../cli/views/gangs.ts")).showGangs(options));
withSnapshot(program.command("q"))
  .description("what waits, in which queue, with what priority, and why")
  .option("--all", "what runs as well")
  .action(async (options) => (await import("../cli/views/scheduleView.ts")).showJobs(options));
withSnapshot(program.command("queues"))
  .description("the tree of queues: quota, limit, fair share, what they have, ask for and have borrowed")
  .action(async (options) => (await import("../cli/views/scheduleView.ts")).showQueues(options));
withSnapshot(program.command("why"))
  .description("why a pod or a group waits, and what would make it run")
  .argument("<name>", "of a pod or a PodGroup: NAME or NAMESPACE/NAME")
  .action(async (name, options) => (await import("../cli/views/scheduleView.ts")).showWhy(name, options));

const snapshot = program.command("snapshot").description("a cluster at one revision, as a file");
withCluster(snapshot.command("save"))
  .description("write it; `muster verify --snapshot` reads it")
  .argument("<file>", "where to; a name in .gz is packed")
  .action(async (file, options) => (await import("../cli/cluster/snapshot.ts")).saveSnapshot(file, options));

const races = program
  .command("races")
  .description("the race museum: control-plane races that were reported, with the mistake and without it")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/simulator/races.ts")).listRaces(options));
races
  .command("run")
  .description("play a race; exit 1 when an invariant broke")
  .argument("<name>", "its number or its name")
  .option("--buggy", "play the first variant that has the mistake")
  .option("--variant <name>", "play this variant")
  .option("--seeds <number>", "how many", "100")
  .option("--from <seed>", "the first one", "1")
  .addOption(outputOption())
  .action(async (name, _, command) =>
    (await import("../cli/simulator/races.ts")).runRace(name, command.optsWithGlobals()),
  );

/** The exit code of a program that SIGPIPE ended, as a shell reports it. */
const exitOfBrokenPipe = 141;

/** Their 2 means that a part of the run failed. */
const inventoryCommands = new Set(["inventory", "avail", "disks"]);

// `muster fault kinds | head`: the reader has closed the pipe. A server that waits for a signal outlives its reader. A
// command with a handler of its own decides itself: verify still exits with its verdict.
process.stdout.on("error", (error: NodeJS.ErrnoException) => {
  if (process.stdout.listenerCount("error") > 1) return;
  if (error.code !== "EPIPE") throw error;
  if (process.listenerCount("SIGTERM") === 0) process.exit(exitOfBrokenPipe);
});

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = report(error);
}

/** Says what happened and what to do about it. Returns the exit code. */
function report(error: unknown): number {
  const usageCode = inventoryCommands.has(process.argv[2] ?? "") ? 64 : 2;
  if (error instanceof CommanderError) return error.exitCode === 0 ? 0 : usageCode;
  if (error instanceof UserError) {
    process.stderr.write(`muster: ${error.message} (${error.code})\n  try: ${error.cure}\n`);
    return error instanceof UsageError ? usageCode : 1;
  }
  process.stderr.write(`muster: ${error instanceof Error ? (error.stack ?? error.message) : String(error)}\n`);
  return 1;
}
