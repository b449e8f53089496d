/**
 * What `nvidia-smi` prints in a container of a simulated node: the GPUs that the container was given, and nothing else.
 */
import type { SimNode } from "../node/simNode.ts";

export interface SmiGpu {
  /** As the container counts them. */
  readonly index: number;
  readonly uuid: string;
  readonly pciBusId: string;
  readonly utilisation: number;
  readonly usedMiB: number;
}

export interface SmiInput {
  readonly sim: SimNode;
  readonly gpus: readonly SmiGpu[];
  /** Partitions, where a container was given those. */
  readonly partitions: readonly string[];
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

function listing(input: SmiInput): string {
  const lines = input.gpus.map(({ index, uuid }) => `GPU ${index}: ${nameOf(input)} (UUID: ${uuid})`);
  for (const [at, id] of input.partitions.entries()) lines.push(`  MIG device ${at}: (UUID: ${id})`);
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

const width = 89;

function table(input: SmiInput): string {
  const rule = (left: string, mark: string) => `${left}${mark.repeat(width)}${left}`;
  const cuda = input.sim.profile.gpu?.cuda ?? "12.8";
  const title = ` NVIDIA-SMI ${input.driver.padEnd(18)}  Driver Version: ${input.driver.padEnd(14)} CUDA Version: ${cuda}`;
  const lines = [
    new Date(input.nowMs).toUTCString().replace(" GMT", ""),
    rule("+", "-"),
    `|${title.padEnd(width)}|`,
    rule("|", "="),
    `|${" GPU  Name                          Bus-Id            Memory-Usage             GPU-Util".padEnd(width)}|`,
    rule("|", "="),
  ];
  const total = input.sim.profile.gpu?.memoryMiB ?? 0;
  for (const gpu of input.gpus) {
    const memory = `${gpu.usedMiB}MiB / ${total}MiB`;
    const name = nameOf(input).slice(0, 28).padEnd(28);
    const bus = `0000${gpu.pciBusId.toUpperCase()}`.padEnd(17);
    lines.push(
      `|${` ${String(gpu.index).padStart(3)}  ${name}  ${bus} ${memory.padEnd(24)} ${gpu.utilisation}%`.padEnd(width)}|`,
    );
  }
  for (const id of input.partitions) lines.push(`|${`      MIG  ${id}`.padEnd(width)}|`);
  lines.push(rule("+", "-"));
  return `${lines.join("\n")}\n`;
}
