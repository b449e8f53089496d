import type { WallPart } from "../../model/window/parts.ts";
import { momentMs } from "../state.ts";
import type { Layout, Tile } from "../wall/layout.ts";
import { bareName, gpus, name, plural, shortSpan } from "../words.ts";
import { Swatch } from "./swatch.tsx";

/** What a tile is, beside the pointer. */
export function Tip({
  wall,
  gpu,
  layout,
  tile,
}: {
  readonly wall: WallPart;
  readonly gpu: number;
  readonly layout: Layout;
  readonly tile: Tile;
}) {
  const node = layout.nodeOfGpu[gpu] ?? 0;
  const [nodeName = "", , , health = "ready"] = wall.nodes[node] ?? [];
  const [state, holds = [], nominated = 0, note = ""] = wall.gpus[gpu] ?? ["?"];
  const occupants = new Map(wall.occupants.map((row) => [row[0], row]));
  const isLow = tile.y > layout.height - 150 && tile.y > 160;
  const at = isLow ? { bottom: `${layout.height - tile.y + 8}px` } : { top: `${tile.y + layout.tileHeight + 8}px` };
  return (
    <div class="tip" style={{ left: `${Math.max(0, Math.min(tile.x, layout.width - 262))}px`, ...at }}>
      <div class="title">
        {name(nodeName)} · GPU {gpu - (layout.firstGpu[node] ?? 0)}
      </div>
      {state === "x" && <div class="bad">broken: {name(note)}</div>}
      {state === "?" && <div>unknown: the node is silent or not ready</div>}
      {holds.length === 0 && state === "f" && <div>free</div>}
      {holds.length === 0 && state === "c" && <div>free, node cordoned</div>}
      {holds.map(([id, pod, milli, isLeaving]) => {
        const [, group = "", queue = "", since = "", pods = 0, each = 0] = occupants.get(id) ?? [];
        return (
          <div key={pod}>
            <div class="row">
              <Swatch queue={queue} />
              <span class="mono">{bareName(group)}</span>
              <span class="fill" />
              <span>{gpus(milli)}</span>
            </div>
            <div class="under">
              {queue === "" ? "no queue" : name(queue)}, {plural(pods, "pod")} × {gpus(each)},{" "}
              {isLeaving === 1 ? "leaving" : `runs ${shortSpan(momentMs.value - Date.parse(since))}`}
            </div>
          </div>
        );
      })}
      {health === "cordoned" && holds.length > 0 && <div class="warn">node cordoned</div>}
      {nominated !== 0 && <div class="warn">nominated: {bareName(occupants.get(nominated)?.[1] ?? "")}</div>}
    </div>
  );
}
