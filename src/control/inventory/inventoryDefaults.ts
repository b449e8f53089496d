/** The defaults of a run. */
import { diskRulesDefault } from "../../decide/inventory/planDisks.ts";
import { snapshotRulesDefault } from "../../decide/inventory/snapshotSets.ts";
import { trustRulesDefault } from "../../decide/inventory/trustVolumes.ts";
import type { InventoryOptions } from "./runInventory.ts";

export const inventoryDefaults: InventoryOptions = {
  kind: "all",
  dryRun: false,
  updatedBy: "muster",
  // The Terraform name of this pool differs from its Kubernetes name.
  names: { prefix: "pytorch-gpu-dev", aliases: { "t4-az2": "t4" } },
  disks: {
    disks: diskRulesDefault,
    snapshots: snapshotRulesDefault,
    trust: trustRulesDefault,
    acceptDrop: false,
    nameFallback: false,
    snapshotsFullEveryMs: 3_600_000,
    batchRows: 1_000,
  },
  deadlineMs: 600_000,
};
