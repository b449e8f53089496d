/** What `nvidia-smi` prints in a container of a simulated node: the GPUs of the container, and no others. */
import type { SimNode } from "../node/simNode.ts";

export interface SmiGpu {
  /** The index inside the container. */
  readonly index: number;
  readonly uuid: string;
  readonly pciBusId: string;
  readonly utilisation: number;
  readonly usedMiB: number;
}

export interface SmiPartition {
  readonly id: string;
  /** `1g.18gb`, where it is known. */
  readonly profile: string;
  /** The UUID of its GPU. */
  readonly gpu: string;
}

export interface SmiInput {
  readonly sim: SimNode;
  readonly gpus: readonly SmiGpu[];
  /** Partitions, where the container has those. */
  readonly partitions: readonly SmiPartition[];
  readonly nowMs: number;
  readonly driver: string;
}

export interface SmiAnswer {
  readonly stdout: string;
  readonly stderr: string;
  readonly exitCode: number;
}

const plain = (stdout: string): SmiAnswer => ({ stdout, stderr: "", exitCode: 0 });

export function nvidiaSmi(args: readonly string[], input: SmiInput): SmiAnswer {
  const { gpus, partitions } = input;
  if (gpus.length === 0 && partitions.length === 0)
    return { stdout: "No devices were found\n", stderr: "", exitCode: 6 };
  if (args.includes("-L") || args.includes("--list-gpus")) return plain(listing(input));
  const query = args.find((arg) => arg.startsWith("--query-gpu="));
  if (query !== undefined) return answerQuery(query.slice("--query-gpu=".length).split(","), args, input);
  const known = args.every((arg) => arg === "-q" || arg === "");
  if (!known) {
    const message = `Invalid combination of input arguments. Please run 'nvidia-smi -h' for help.\n`;
    return { stdout: "", stderr: message, exitCode: 1 };
  }
  return plain(table(input));
}

function nameOf({ sim }: SmiInput): string {
  return (sim.profile.gpu?.product ?? "GPU").replaceAll("-", " ");
}

/** As `nvidia-smi -L` prints it: each GPU, followed by its partitions. */
function listing(input: SmiInput): string {
  const lines: string[] = [];
  const uuids = [...new Set([...input.gpus.map(({ uuid }) => uuid), ...input.partitions.map(({ gpu }) => gpu)])];
  for (const [index, uuid] of uuids.entries()) {
    lines.push(`GPU ${index}: ${nameOf(input)} (UUID: ${uuid})`);
    const own = input.partitions.filter(({ gpu }) => gpu === uuid);
    for (const [at, { id, profile }] of own.entries()) {
      lines.push(`  MIG ${profile.padEnd(11)} Device ${String(at).padStart(2)}: (UUID: ${id})`);
    }
  }
  return `${lines.join("\n")}\n`;
}

function answerQuery(fields: readonly string[], args: readonly string[], input: SmiInput): SmiAnswer {
  const format = args
    .find((arg) => arg.startsWith("--format="))
    ?.slice("--format=".length)
    .split(",") ?? ["csv"];
  const units = !format.includes("nounits");
  const rows: string[] = [];
  for (const gpu of input.gpus) {
    const cells: string[] = [];
    for (const field of fields) {
      const cell = cellOf(field.trim(), gpu, input, units);
      if (cell === undefined) {
        const stdout = `Field "${field.trim()}" is not a valid field to query.\n\n`;
        return { stdout, stderr: "", exitCode: 2 };
      }
      cells.push(cell);
    }
    rows.push(cells.join(", "));
  }
  const header = format.includes("noheader") ? [] : [fields.map((field) => headerOf(field.trim(), units)).join(", ")];
  return plain(`${[...header, ...rows].join("\n")}\n`);
}

const unitOf: Readonly<Record<string, string>> = {
  "memory.total": "MiB",
  "memory.used": "MiB",
  "memory.free": "MiB",
  "utilization.gpu": "%",
  "utilization.memory": "%",
  "power.draw": "W",
};

function headerOf(field: string, units: boolean): string {
  const unit = unitOf[field];
  return unit === undefined || !units ? field : `${field} [${unit}]`;
}

function cellOf(field: string, gpu: SmiGpu, input: SmiInput, units: boolean): string | undefined {
  const total = input.sim.profile.gpu?.memoryMiB ?? 0;
  const values: Readonly<Record<string, string | number>> = {
    index: gpu.index,
    name: nameOf(input),
    gpu_name: nameOf(input),
    uuid: gpu.uuid,
    gpu_uuid: gpu.uuid,
    driver_version: input.driver,
    "pci.bus_id": `0000${gpu.pciBusId.toUpperCase()}`,
    "memory.total": total,
    "memory.used": gpu.usedMiB,
    "memory.free": total - gpu.usedMiB,
    "utilization.gpu": gpu.utilisation,
    "utilization.memory": Math.round(gpu.utilisation / 2),
    "temperature.gpu": 30 + Math.round(gpu.utilisation / 3),
    "power.draw": (70 + gpu.utilisation * 5.5).toFixed(2),
    count: input.gpus.length,
  };
  if (!Object.hasOwn(values, field)) return undefined;
  const unit = unitOf[field];
  return unit === undefined || !units ? String(values[field]) : `${values[field]} ${unit}`;
}

/** Power limits in watts by product; others get 300. */
const powerLimits: readonly (readonly [RegExp, number])[] = [
  [/GB200|GB300/, 1200],
  [/B200/, 1000],
  [/H100|H200/, 700],
  [/A100/, 400],
  [/L40S/, 350],
  [/T4/, 70],
];

const days = ["Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"];
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

function stamp(nowMs: number): string {
  const now = new Date(nowMs);
  const time = now.toISOString().slice(11, 19);
  const day = String(now.getUTCDate()).padStart(2);
  return `${days[now.getUTCDay()]} ${months[now.getUTCMonth()]} ${day} ${time} ${now.getUTCFullYear()}`;
}

/** The table that `nvidia-smi` prints without arguments, in the layout of driver 580. */
function table(input: SmiInput): string {
  const { driver, sim, gpus, partitions } = input;
  const cuda = sim.profile.gpu?.cuda ?? "12.8";
  const total = sim.profile.gpu?.memoryMiB ?? 0;
  const full = "-".repeat(89);
  const columns = `+${"-".repeat(41)}+${"-".repeat(24)}+${"-".repeat(22)}+`;
  const row = (left: string, middle: string, right: string): string =>
    `|${left.padEnd(41)}|${middle.padStart(23)} |${right.padStart(21)} |`;
  const wide = (text: string): string => `|${text.padEnd(89)}|`;
  const limit = powerLimits.find(([product]) => product.test(nameOf(input)))?.[1] ?? 300;
  const lines = [
    `${stamp(input.nowMs)}       `,
    `+${full}+`,
    wide(` NVIDIA-SMI ${driver.padEnd(22)} Driver Version: ${driver.padEnd(14)} CUDA Version: ${cuda}`),
    columns,
    row(" GPU  Name                 Persistence-M", "Bus-Id          Disp.A", "Volatile Uncorr. ECC"),
    row(" Fan  Temp   Perf          Pwr:Usage/Cap", "Memory-Usage", "GPU-Util  Compute M."),
    row("", "", "MIG M."),
    columns.replaceAll("-", "=").replace(/^\+|\+$/g, "|"),
  ];
  const mig = partitions.length > 0 ? "Enabled" : "Disabled";
  for (const gpu of gpus) {
    const watts = Math.round(limit * (0.17 + (0.75 * gpu.utilisation) / 100));
    const power = `${`${watts}W`.padStart(4)} / ${`${limit}W`.padStart(5)}`;
    const temperature = `${30 + Math.round(gpu.utilisation / 3)}C`;
    const memory = `${gpu.usedMiB}MiB / ${total}MiB`;
    lines.push(
      row(
        ` ${String(gpu.index).padStart(3)}  ${nameOf(input).slice(0, 28).padEnd(30)} On`,
        `0000${gpu.pciBusId.toUpperCase()} Off`,
        "0",
      ),
      row(` N/A   ${temperature}    P0${power.padStart(24)}`, memory, `${gpu.utilisation}%      Default`),
      row("", "", mig),
      columns,
    );
  }
  for (const { id, profile } of partitions) lines.push(wide(` MIG ${profile}  ${id}`));
  if (gpus.length === 0) lines.push(columns);
  lines.push("", `+${full}+`, wide(" Processes:"));
  lines.push(wide("  GPU   GI   CI              PID   Type   Process name                        GPU Memory"));
  lines.push(wide("        ID   ID                                                               Usage"));
  lines.push(`|${"=".repeat(89)}|`, wide("  No running processes found"), `+${full}+`);
  return `${lines.join("\n")}\n`;
}
