/** Names that simulated nodes read or write on objects. KWOK's are kept, so that manifests written for it work. */
export const marks = {
  /** Node annotation, value `fake`: this node is simulated. */
  kwokNode: "kwok.x-k8s.io/node",
  kwokNodeValue: "fake",
  /** Node annotations that say what the node was made from. */
  profile: "sim.muster.dev/profile",
  pool: "sim.muster.dev/pool",
  index: "sim.muster.dev/index",
  /**
   * Pod annotation: which devices each container got, as JSON `{container: {resource: [device id, ...]}}`. Keys are in
   * the order of the spec. The node writes it once, with the status that admits the pod.
   */
  devices: "sim.muster.dev/devices",
  /**
   * Pod annotation: the revision at which another process took over the node while the pod was pending; see
   * touchPending.
   */
  fence: "sim.muster.dev/fence",
  /** Node annotation: JSON list of faults, for `kubectl annotate`. */
  faults: "sim.muster.dev/faults",
  /**
   * Pod annotations that control the simulation; see podPlan. Each may be followed by `.<container>` to apply to one
   * container.
   */
  startDelay: "sim.muster.dev/start-delay",
  readyDelay: "sim.muster.dev/ready-delay",
  runDuration: "sim.muster.dev/run-duration",
  stopDelay: "sim.muster.dev/stop-delay",
  outcome: "sim.muster.dev/outcome",
  exitCode: "sim.muster.dev/exit-code",
  message: "sim.muster.dev/message",
  failures: "sim.muster.dev/failures",
  /** The log of a container: its first lines, and how often it writes a line. */
  log: "sim.muster.dev/log",
  logEvery: "sim.muster.dev/log-every",
  /** Answers to `exec`, as JSON: command line to text, or to `{stdout, stderr, exitCode}`. */
  exec: "sim.muster.dev/exec",
  /** How busy the GPUs of a pod are, in percent: `80`, or a range `60-90`. */
  gpuUtilisation: "sim.muster.dev/gpu-utilization",
} as const;

/** KWOK's annotation of a stage: `stageKnob("pod-ready", "delay")`. */
export function stageKnob(stage: string, knob?: string): string {
  return knob === undefined ? `${stage}.stage.kwok.x-k8s.io` : `${stage}.stage.kwok.x-k8s.io/${knob}`;
}

/** Converts a text to a valid label value: allowed characters, at most 63, letters or digits at both ends. */
export function labelValue(text: string): string {
  const plain = text
    .trim()
    .replace(/[^A-Za-z0-9_.-]+/g, "-")
    .slice(0, 63);
  return plain.replace(/^[^A-Za-z0-9]+/, "").replace(/[^A-Za-z0-9]+$/, "");
}
