import { Argument, Command, CommanderError, Option } from "commander";
import { UsageError, UserError } from "../model/userError.ts";
import { completionScript, type Shell, shells } from "./completion.ts";
import {
  collect,
  logLevelOption,
  outputOption,
  withAddress,
  withApiServer,
  withCluster,
  withControlPlane,
  withDatabase,
  withDataFolder,
  withSnapshot,
  withWindow,
} from "./options.ts";

const termColumns = 24;

/** The program. Commands are loaded when they are called, so that `--help` does not pay for the API server. */
const program = new Command("muster")
  .description(
    "GPU control plane for Kubernetes: scheduler, binder, devices, gangs, inventory, and a simulator for all of them",
  )
  .version(process.env["npm_package_version"] ?? "0.1.0", "-V, --version")
  .showHelpAfterError("(add --help for the options)")
  .configureHelp({
    sortSubcommands: true,
    // A long term has a line of its own, so that descriptions fit into 80 columns.
    padWidth: () => termColumns,
    formatItem: (term, width, description, helper) => {
      const columns = helper.helpWidth ?? 80;
      const text = helper.boxWrap(description, columns - width - 4).replaceAll("\n", `\n${" ".repeat(width + 4)}`);
      if (description === "") return `  ${term}`;
      return term.length <= width ? `  ${term.padEnd(width)}  ${text}` : `  ${term}\n${" ".repeat(width + 4)}${text}`;
    },
  })
  .exitOverride();

withApiServer(program.command("apiserver"))
  .description("run the embedded Kubernetes API server alone")
  .option("--tls-cert-file <file>", "serving certificate as PEM (default: one of the cluster's own authority)")
  .option("--tls-private-key-file <file>", "its key")
  .option("--client-ca-file <file>", "another authority of client certificates, as PEM")
  .option(
    "--no-controllers",
    "without the controllers of kube-controller-manager: nothing is garbage-collected, namespaces stay Terminating",
  )
  .option(
    "--disable-admission-plugins <names>",
    "ServiceAccount: pods get no token and need no service account; repeatable",
    collect,
    [],
  )
  .action(async (options) => (await import("../cli/cluster/apiserver.ts")).runApiServer(options));

withCluster(program.command("audit"))
  .description("find faults in any cluster that persist: GPUs, gangs, claims, quotas, webhooks; only reads")
  .option("--check <names...>", "checks to run, by name (default: all)")
  .option("--settle <duration>", "time that findings must hold, instead of that of each check; 0 takes one snapshot")
  .option("--interval <duration>", "time between snapshots, at least 1s (default: 15s)")
  .option("--watch", "audit until interrupted: print findings that persist, and those that are gone")
  .option("--metrics-address <host:port>", "with --watch: serve /metrics on this address")
  .option("--report <format=file...>", "write a report: text, json, ctrf, junit or sarif; repeatable")
  .option("--snapshot <files...>", "audit a file of `muster snapshot save`, or an earlier and a later one")
  .option("--print-role", "print the ClusterRole with the rights that the checks need")
  .action(async (options) => (await import("../cli/audit/audit.ts")).runAuditCommand(options));

withDatabase(program.command("avail"))
  .description("GPU availability by type, as the inventory database has it")
  .argument("[type]", "show this GPU type only")
  .option("--watch", "refresh until interrupted")
  .option("--interval <duration>", "time between two refreshes", "5s")
  .action(async (type, options) => (await import("../cli/inventory/avail.ts")).showAvailability({ ...options, type }));

program
  .command("bench")
  .description("run benchmarks; each figure is printed beside its floor or its peer")
  .argument("[names...]", "benchmarks to run (default: all)")
  .addOption(outputOption())
  .action(async (names, options) => (await import("../../bench/bench.ts")).runBench(names, options));

withDatabase(program.command("disks"))
  .description("disks of users, as the inventory database has them")
  .option("--user <name>", "show disks of this user only")
  .option("--deleted", "show deleted disks as well")
  .action(async (options) => (await import("../cli/inventory/avail.ts")).showDisks(options));

const fault = withCluster(program.command("fault"))
  .description("inject a fault into simulated nodes or their pods")
  .argument("<kind>", "kind of fault; `muster fault kinds` lists all of them with their parameters")
  .argument("[parameters...]", "parameters of the kind, such as --device 3")
  .option("--node <names>", "nodes to strike, separated by commas")
  .option("--pod <namespace/name>", "pod to strike")
  .option("-l, --selector <labels>", "pods to strike, by labels: app=web,tier=front")
  .option("-n, --namespace <name>", "namespace of the pods")
  .option("--everywhere", "strike every pod of the cluster")
  .option("--for <duration>", "duration of the fault (default: until it is cleared)")
  .option("--in <duration>", "delay before the fault begins (default: none)")
  .allowUnknownOption()
  .action(async (kind, words, options) => (await import("../cli/cluster/fault.ts")).injectFault(kind, words, options));
fault
  .command("list")
  .description("list the faults of the cluster, those in annotations of nodes included")
  .action(async (_, command) => (await import("../cli/cluster/fault.ts")).showFaults(command.optsWithGlobals()));
fault
  .command("clear")
  .description("end faults")
  .argument("[ids...]", "ids, as `muster fault list` shows them")
  .option("--all", "end all faults")
  .action(async (ids, _, command) =>
    (await import("../cli/cluster/fault.ts")).clearFault(ids, command.optsWithGlobals()),
  );
fault
  .command("kinds")
  .description("list the kinds of faults with their effects and parameters")
  .action(async (_, command) => (await import("../cli/cluster/fault.ts")).showKinds(command.optsWithGlobals()));

const inventory = program
  .command("inventory")
  .description("reconcile GPU availability and disks in PostgreSQL with the cloud and the cluster");
const withRun = (command: Command): Command =>
  withDatabase(command)
    .option(
      "--kubeconfig <file>",
      "kubeconfig of the cluster (default: the service account of the pod, EKS_CLUSTER_NAME, the embedded cluster)",
    )
    .option("--context <name>", "context of the kubeconfig")
    .option("--phase <name>", "run one phase only: gpu or disks")
    .option("--accept-drop", "accept a list of volumes that is much shorter than the last one")
    .option("--full-snapshots", "read all EBS snapshots, not only those started since yesterday")
    .option("--snapshot-scope <scope>", "count snapshots of the disk, or of its current volume only: disk or volume")
    .option("--name-fallback", "use the tag Name where the tag with the disk name is missing")
    .option(
      "--deadline <duration>",
      "time limit of a run; no work is started in its last 30s, or in its last quarter if that is shorter (default: 600s)",
    )
    .addOption(logLevelOption("info"));
withRun(inventory.command("run"))
  .description("reconcile once or periodically; exit 0 ok, 1 failed, 2 partial, 3 deadline, 5 refused, 64 usage")
  .option("--once", "run once and exit, for a CronJob")
  .option("--every <duration>", "run periodically, at multiples of this duration")
  .option("--on-change", "with --every: also recount availability soon after nodes or pods change")
  .option("--dry-run", "print the plan and write nothing")
  .option("--fail-if-locked", "exit 4 when another run holds the lock (default: skip the run, exit 0)")
  .option("--even-if-paused", "run even while the inventory is paused")
  .option("--metrics-address <host:port>", "serve /metrics on this address")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).runInventoryCommand(options));
withDatabase(inventory.command("runs"))
  .description("list runs with their results")
  .option("--limit <number>", "number of rows at most", "20")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).showRuns(options));
withDatabase(inventory.command("drift"))
  .description("list changes and reports: what, when, why, and by which run")
  .option("--open", "reports that still apply only")
  .option("--disk <user/name>", "of this disk only")
  .option("--type <name>", "of this GPU type only")
  .option("--run <id>", "of this run only")
  .option("--limit <number>", "number of rows at most", "50")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).showDrift(options));
withDatabase(inventory.command("pause"))
  .description("skip runs from now on")
  .option("--reason <text>", "reason, which `inventory runs` and the log show")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).setPaused(true, options));
withDatabase(inventory.command("resume"))
  .description("resume runs")
  .action(async (options) => (await import("../cli/inventory/inventory.ts")).setPaused(false, options));
withAddress(inventory.command("cloud"), "4599")
  .description("serve a simulated AWS (EC2, Auto Scaling, STS, EKS) with the contents of a scenario file")
  .option("--scenario <file>", "contents and faults of the simulated cloud as YAML (default: those of the demo)")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/inventory/inventoryCloud.ts")).serveCloud(options));
inventory
  .command("manifests")
  .description("print the CronJob and its RBAC for a cluster, as YAML")
  .option("--image <name>", "image of the CronJob")
  .option("--namespace <name>", "namespace of the CronJob")
  .option("--role-arn <arn>", "IAM role of its service account")
  .option("--region <name>", "region of the cloud")
  .option("--cluster <name>", "name of the EKS cluster")
  .option("--iam", "print the IAM policy instead")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/inventory/manifests.ts")).showManifests(options));
withAddress(withRun(inventory.command("serve")), "8090")
  .description("serve the inventory over HTTP to clients with a bearer token")
  .option(
    "--token-file <file>",
    "file with the token (default: MUSTER_API_TOKEN, else a token that is generated into the data folder)",
  )
  .action(async (options) => (await import("../cli/inventory/inventoryServe.ts")).serveInventory(options));

withCluster(program.command("install"))
  .description(
    "install the controllers in a cluster: CRDs, RBAC, webhooks, Deployment; a failed install is rolled back",
  )
  .option("--print", "print the objects as YAML for kubectl apply, without a cluster")
  .option("--namespace <name>", "namespace of the controllers", "muster-system")
  .option("--image <name:version>", "image of the controllers; deploy/Dockerfile builds it")
  .option("--values <file>", "settings as YAML, the values of the Helm chart (deploy/chart/values.yaml)")
  .action(async (options) => (await import("../cli/install/install.ts")).runInstall(options));

withCluster(program.command("uninstall"))
  .description("remove the controllers from a cluster; workloads keep running")
  .option("--namespace <name>", "namespace of the controllers", "muster-system")
  .option("--crds", "remove the CRDs as well, and with them every queue, PodGroup and gang")
  .option("--dry-run", "print what would be removed")
  .action(async (options) => (await import("../cli/install/uninstall.ts")).runUninstall(options));

const nodes = withSnapshot(program.command("nodes"))
  .description("nodes with their GPUs; --wide shows the pods that hold them")
  .option("-w, --wide", "show the pods with GPUs on each node")
  .option("--by-type", "show one row for each GPU type: total, free, empty nodes, largest pod that fits")
  .action(async (options) => (await import("../cli/views/scheduleView.ts")).showNodes(options));
withCluster(nodes.command("sim"))
  .description("run simulated nodes against any API server; only nodes with KWOK's annotation are touched")
  .option("--pool <profile=count>", "nodes to create; repeatable", collect, [])
  .option("--profile-file <file>", "YAML file with additional node profiles; repeatable", collect, [])
  .option("--seed <text>", "seed for device UUIDs and delays", "muster")
  .addOption(
    new Option("--delays <speed>", "how fast pods start and stop")
      .choices(["fast", "lively", "general"])
      .default("lively"),
  )
  .option("--taint", "add KWOK's taint to new nodes")
  .option("--install", "create the CRD of KWOK's Stage if it is missing")
  .option("--holder <name>", "unique identity in the leases (default: host name and random suffix)")
  .option("--lease-seconds <number>", "duration of a lease", "40")
  .addOption(logLevelOption("warn"))
  .action(async (_, command) => (await import("../cli/cluster/nodesSim.ts")).runNodesSim(command.optsWithGlobals()));

const node = program.command("node").description("machines of the cluster: join, list, drain and remove them");
withCluster(node.command("join"))
  .description("make a bootstrap token and print the script that joins a machine with containerd and a kubelet")
  .argument("[name]", "name of the node (default: the machine's host name)")
  .option("--ttl <duration>", "lifetime of the token", "24h")
  .option("--server <url>", "address of the API server for the new machine (default: the one that it advertises)")
  .option("--pod-cidr <network>", "network of the node's pods (default: a free one of 10.244.0.0/16)")
  .option("--no-network", "write no pod network: a network plugin in the cluster does")
  .action(async (name, options) => (await import("../cli/node/join.ts")).runJoin({ ...options, name }));
withCluster(node.command("ls"))
  .description("list the nodes, real ones first")
  .action(async (options) => (await import("../cli/node/list.ts")).listNodes(options));
withCluster(node.command("drain"))
  .description("cordon a node and evict its pods within their disruption budgets")
  .argument("<name>", "name of the node")
  .option("--timeout <duration>", "time limit", "10m")
  .action(async (name, options) => (await import("../cli/node/drain.ts")).drainNode({ ...options, name }));
withCluster(node.command("remove"))
  .description("drain a node and delete it")
  .argument("<name>", "name of the node")
  .option("--timeout <duration>", "time limit for draining", "10m")
  .option("--force", "do not drain, for a machine that no longer exists")
  .action(async (name, options) => (await import("../cli/node/drain.ts")).removeNode({ ...options, name }));

withCluster(program.command("reservation-agent"))
  .description("entrypoint of reservation pods: reports its GPU in an annotation of the pod and waits for a signal")
  .option("--namespace <name>", "namespace of the pod (default: POD_NAMESPACE)")
  .option("--pod <name>", "name of the pod (default: POD_NAME)")
  .option("--find <duration>", "time limit for finding the GPU", "30s")
  .option("--check <duration>", "interval of later checks", "60s")
  .option("--dry-run", "print the GPU of this container, without a cluster")
  .addOption(logLevelOption("info"))
  .action(async (options) => (await import("../cli/agent/reservationAgent.ts")).runReservationAgent(options));

const sim = program
  .command("sim")
  .description("run seeds of the simulator: schedules of events, faults and crashes that controllers must survive");
sim
  .command("run")
  .description("run many seeds of a scenario; exit 1 if an invariant is violated")
  .option("--scenario <name>", "scenario to run; the default is the whole control plane", "everything")
  .option("--seeds <number>", "number of seeds", "100")
  .option("--from <seed>", "first seed", "1")
  .option("--cores <number>", "number of threads (default: one per core)")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/simulator/sim.ts")).runSim(options));
sim
  .command("replay")
  .description("replay one seed and print its history")
  .option("--scenario <name>", "scenario to run", "everything")
  .requiredOption("--seed <number>", "seed to replay")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/simulator/sim.ts")).replaySim(options));

withWindow(withControlPlane(withCluster(program.command("run"))), "0 picks a free one (default: not served)")
  .description("run the controllers against a cluster, with health and metrics over HTTP")
  .option(
    "--controllers <names>",
    "controllers to run, separated by commas (default: all that Kubernetes does not bring itself)",
  )
  .option("--install", "create the CRDs and objects that the controllers need, if they are missing")
  .option("--installed", "use the CRDs, RBAC and webhook configurations that the chart or `muster install` created")
  .option("--default-scheduler", "also schedule pods of default-scheduler; only for clusters without kube-scheduler")
  .option("--leader-elect", "elect a leader by a Lease, so that several replicas can run")
  .option("--lease-namespace <name>", "namespace of the Lease", "kube-system")
  .option("--lease-name <name>", "name of the Lease", "muster")
  .option("--lease-duration <duration>", "time without a renewal after which another process leads", "15s")
  .option("--lease-renew-deadline <duration>", "time without a renewal after which a leader stops writing", "10s")
  .option("--lease-retry-period <duration>", "time between two attempts to acquire or renew the Lease", "2s")
  .option("--identity <name>", "unique identity of this process (default: host name and random suffix)")
  .option("--status-address <host:port>", "address of /healthz, /readyz, /metrics and /debug/devices", "127.0.0.1:8081")
  .option(
    "--webhook-service <namespace/name>",
    "serve admission webhooks, which the API server reaches through this Service",
  )
  .option("--webhook-host <name>", "serve admission webhooks from outside the cluster, under this host name or address")
  .option("--webhook-address <host:port>", "address of the webhook server", "0.0.0.0:9443")
  .option(
    "--webhook-cert-dir <folder>",
    "folder with tls.crt, tls.key and ca.crt that another program renews, such as cert-manager",
  )
  .addOption(logLevelOption("info"))
  .action(async (options) => (await import("../cli/cluster/run.ts")).runControllers(options));

withCluster(program.command("start-order"))
  .description("entrypoint of init containers of gang pods: waits until the cliques that start earlier are ready")
  .option("--podcliques <name:minimum>", "clique to wait for, with the number of ready pods; repeatable", collect, [])
  .option("--namespace <name>", "namespace of the gang (default: from the downward API)")
  .option("--gang <name>", "name of the PodGang (default: from the downward API)")
  .addOption(logLevelOption("info"))
  .action(async (options) => (await import("../cli/agent/startOrder.ts")).runStartOrder(options));

withWindow(withControlPlane(withApiServer(program.command("up"))), "0 picks a free one (default: 6480, or a free one)")
  .description("start a GPU cluster in one process: API server, simulated nodes, all controllers")
  .option("--pool <profile=count>", "simulated nodes; repeatable; `none` for no simulated node", collect, ["h100=4"])
  .option("--profile-file <file>", "YAML file with additional node profiles; repeatable", collect, [])
  .option("-d, --detach", "run in the background; `muster status` shows it, `muster down` stops it")
  .option("--demo", "also create the queues and workloads of the demo")
  .option("--no-dashboard", "do not serve the window")
  .option(
    "--status-address <host:port>",
    "address of /healthz, /readyz, /metrics and /debug/devices (default: not served)",
  )
  .addOption(logLevelOption("warn"))
  .action(async (options) => (await import("../cli/cluster/up.ts")).runUp(options));

withDataFolder(program.command("status"))
  .description("show whether the embedded cluster of the data folder is running; exit 3 if it is not")
  .action(async (options) => (await import("../cli/cluster/lifecycle.ts")).showStatus(options));

withDataFolder(program.command("down"))
  .description("stop the embedded cluster of the data folder; its data is kept")
  .action(async (options) => (await import("../cli/cluster/lifecycle.ts")).stopCluster(options));

withDataFolder(program.command("reset"))
  .description("delete the data of the embedded cluster: objects, keys, databases")
  .option("-y, --yes", "do not ask")
  .action(async (options) => (await import("../cli/cluster/lifecycle.ts")).resetCluster(options));

withCluster(program.command("verify"))
  .description("verify that a cluster is scheduled correctly: one snapshot, a bounded wait, a verdict as exit code")
  .option("--settle <duration>", "time that pods have to settle; 0 takes one snapshot (default: 60s)")
  .option("--interval <duration>", "time between snapshots, at least 1s (default: 5s)")
  .option("--until <time>", "absolute end of the wait, as RFC 3339 time or Unix seconds")
  .option("--allow-empty", "pass with a warning when no pod is in scope")
  .option("--expect-min <number>", "require at least this many pods in scope")
  .option("--expect-workload <names...>", "require pods of each of these workloads")
  .option("--ignore-jobs", "ignore pods of all Jobs, not only those of hooks")
  .option("--fail-on-evicted", "fail on an evicted pod even if it was replaced")
  .option("--strict", "fail on pods that are still settling")
  .option("--require-running", "also wait until bound pods are running")
  .option("--check <ids...>", "checks to run: S1 to S16, gitops, gang-barrier, default, all")
  .option("--exclude-namespace <names...>", "namespaces to exclude, instead of the default ones")
  .option("--profile <name>", "profile that GPU nodes must match (check S11)")
  .option("--gitops-root <name>", "root Application or Kustomization (check gitops)")
  .option("--report <format=file...>", "write a report: text, json, ctrf, junit or github; repeatable")
  .option("--snapshot <file>", "verify a file of `muster snapshot save` instead of a cluster")
  .option("--allow-context <names...>", "contexts, besides the embedded cluster, that active checks may write to")
  .addOption(new Option("--compat <harness>", "apply the rules of the shell harness").choices(["aicr"]))
  .action(async (options) => (await import("../cli/verify/verify.ts")).runVerifyCommand(options));

withSnapshot(program.command("gangs"))
  .description("gangs as a tree: minimum, scheduled, ready, breach, time until termination")
  .option("-n, --namespace <name>", "show this namespace only")
  .action(async (options) => (await import("../cli/views/gangs.ts")).showGangs(options));
withCluster(program.command("log"))
  .description("what the scheduler decided, from events: placements, evictions and their reasons")
  .option("-n, --namespace <name>", "show this namespace only")
  .option("--evictions", "show evictions only")
  .option("-w, --wide", "show full messages")
  .action(async (options) => (await import("../cli/views/log.ts")).showLog(options));
withSnapshot(program.command("q"))
  .description("pending workloads with queue, priority and reason")
  .option("-n, --namespace <name>", "show this namespace only")
  .option("--queue <name>", "show this queue only")
  .option("-w, --wide", "show group names and full messages")
  .option("--all", "show running workloads as well")
  .action(async (options) => (await import("../cli/views/scheduleView.ts")).showJobs(options));
withSnapshot(program.command("queues"))
  .description("queues as a tree: quota, limit, fair share, allocated, requested, borrowed")
  .action(async (options) => (await import("../cli/views/scheduleView.ts")).showQueues(options));
withSnapshot(program.command("why"))
  .description("why a workload is pending, and what would let it run")
  .argument("<name>", "pod, PodGroup or workload: NAME, NAMESPACE/NAME, or KIND/NAME such as job/train")
  .option("-n, --namespace <name>", "namespace of the workload")
  .action(async (name, options) => (await import("../cli/views/scheduleView.ts")).showWhy(name, options));

withSnapshot(program.command("what-if"))
  .description("what a change would start, evict and delay; nothing is written to the cluster")
  .option("--add-pool <pool>", "nodes to add, such as h100=2; repeatable", collect, [])
  .option("--profile-file <file>", "YAML file with additional node profiles; repeatable", collect, [])
  .option("--queue <name>", "queue whose GPU bounds change")
  .option("--quota <gpus>", "GPU quota of the queue; -1 is without bound")
  .option("--limit <gpus>", "GPU limit of the queue; -1 is without bound")
  .option("--drain <node>", "node to drain; repeatable", collect, [])
  .option("--job <file>", "submit the workloads of a YAML file")
  .action(async (options) => (await import("../cli/views/whatIf.ts")).showWhatIf(options));

withWindow(program.command("window"), "0 picks a free one (default: 6480, or a free one)")
  .description("serve the window of a saved cluster until a signal")
  .requiredOption("--snapshot <file>", "file of `muster snapshot save`")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/window/showSaved.ts")).showSaved(options));

const snapshot = program.command("snapshot").description("save a cluster at one revision to a file");
withCluster(snapshot.command("save"))
  .description("write the file; `audit`, `verify`, `why`, `q`, `queues` and `nodes` read it with --snapshot")
  .argument("<file>", "file to write; the ending .gz compresses it")
  .action(async (file, options) => (await import("../cli/cluster/snapshot.ts")).saveSnapshot(file, options));

const races = program
  .command("races")
  .description("list the race museum: reported control-plane races, each with its bug and with its fix")
  .addOption(outputOption())
  .action(async (options) => (await import("../cli/simulator/races.ts")).listRaces(options));
races
  .command("run")
  .description("run a race; exit 1 if an invariant is violated")
  .argument("<name>", "number or name of the race")
  .option("--buggy", "run the first of the buggy variants")
  .option("--variant <name>", "run this variant")
  .option("--seeds <number>", "number of seeds", "100")
  .option("--from <seed>", "first seed", "1")
  .addOption(outputOption())
  .action(async (name, _, command) =>
    (await import("../cli/simulator/races.ts")).runRace(name, command.optsWithGlobals()),
  );

program
  .command("completion")
  .description("print a completion script for a shell: source <(muster completion bash)")
  .addArgument(new Argument("<shell>", "the shell").choices(shells))
  .action((shell: Shell) => void process.stdout.write(completionScript(program, shell)));

program
  .command("version")
  .description("print the version")
  .action(() => void process.stdout.write(`${program.version()}\n`));

/** The exit code of a program that SIGPIPE ended, as a shell reports it. */
const exitOfBrokenPipe = 141;

/** Commands whose exit code 2 means that a part of the run failed, so that a usage error is 64. */
const inventoryCommands = new Set(["inventory", "avail", "disks"]);

// `muster fault kinds | head` closes the pipe early. A server that waits for a signal keeps running then, and a command
// with its own handler (verify) still exits with its verdict.
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

/** Prints the error and its cure. Returns the exit code. */
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
