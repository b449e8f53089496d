/** Small read models, and a source of them, for tests of the window. */
import type { GpuCell, JobRow, ReadModel } from "../../src/model/window/parts.ts";
import { sumsOf } from "../../src/model/window/sums.ts";
import type { ModelSource } from "../../src/window/feed.ts";

export function job(id: string, words: Partial<JobRow> = {}): JobRow {
  return {
    id,
    queue: "q",
    priority: 50,
    gpus: 1000,
    placed: 0,
    minimum: 1,
    pods: 1,
    state: "Pending",
    reason: "PodSchedulingErrors",
    message: "fits 0 of 1 nodes",
    cure: "",
    head: "No node has a place for it.",
    short: "fits none of 1 nodes",
    since: "2026-01-01T00:00:00Z",
    line: 1,
    ...words,
  };
}

export function model(
  rev: number,
  { gpus = [["f"], ["f"]] as readonly GpuCell[], jobs = [] as readonly JobRow[] } = {},
): ReadModel {
  return {
    rev,
    at: new Date(Date.UTC(2026, 0, 1) + rev).toISOString(),
    wall: {
      racks: ["r1"],
      types: ["NVIDIA-H100-80GB-HBM3"],
      nodes: [["n1", 0, 0, "ready", gpus.length, ""]],
      occupants: [[1, "team/run", "q", "2026-01-01T00:00:00Z", 1, 1000]],
      gpus,
      sums: sumsOf(gpus),
    },
    jobs: { jobs },
    queues: { queues: [], total: gpus.length * 1000 },
    gangs: { gangs: [] },
  };
}

/** A source whose model a test sets. */
export class ModelScript implements ModelSource {
  next: ReadModel | undefined;
  isBehind = false;

  constructor(first?: ReadModel) {
    this.next = first;
  }

  read(): ReadModel | undefined {
    return this.next;
  }
}
