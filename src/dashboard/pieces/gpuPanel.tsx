import type { WallPart } from "../../model/window/parts.ts";
import { href, route } from "../route.ts";
import { about, isPast, momentMs, shown } from "../state.ts";
import type { Selection } from "../views/wallView.tsx";
import { bareName, count, gpus, name, plural, shortSpan, span } from "../words.ts";
import { Actions } from "./actions.tsx";
import { queueColour } from "./swatch.tsx";

/** What is selected on the wall: a node, or one of its GPUs. */
export function GpuPanel({
  wall,
  selection: { node, gpu },
}: {
  readonly wall: WallPart;
  readonly selection: Selection;
}) {
  const column = wall.nodes[node];
  if (column === undefined) return null;
  const [nodeName, rack, type, health, many, since] = column;
  const from = wall.nodes.slice(0, node).reduce((sum, [, , , , each]) => sum + each, 0);
  const cells = gpu === undefined ? wall.gpus.slice(from, from + many) : wall.gpus.slice(from + gpu, from + gpu + 1);
  const held = new Map<number, number>();
  for (const [, holds = []] of cells) for (const [id, , milli] of holds) held.set(id, (held.get(id) ?? 0) + milli);
  const occupants = wall.occupants.filter(([id]) => held.has(id));
  const [state, , nominated = 0, note = ""] = cells[0] ?? ["?"];
  const nominee = wall.occupants.find(([id]) => id === nominated);
  const keep = Object.fromEntries([...route.value.query].filter(([key]) => key === "by" || key === "queue"));
  return (
    <>
      <div class="side-head">
        <a class="icon" href={href("wall", [], keep)} aria-label="close">
          ←
        </a>
        <h2 class="mono">
          {name(nodeName)}
          {gpu !== undefined && ` · GPU ${gpu}`}
        </h2>
      </div>
      <dl class="kv">
        <dt>State</dt>
        <dd data-state={gpu === undefined ? health : state}>
          {health === "unknown" ? (
            `unknown${since === "" ? "" : `, silent for ${span(momentMs.value - Date.parse(since))}`}`
          ) : gpu !== undefined && state === "x" ? (
            <span class="bad">broken, {name(note)}</span>
          ) : health === "cordoned" ? (
            <span class="warn">cordoned</span>
          ) : (
            "well"
          )}
        </dd>
        <dt>Type</dt>
        <dd>{name(wall.types[type] ?? "")}</dd>
        <dt>Rack</dt>
        <dd>{name(wall.racks[rack] ?? "")}</dd>
        {gpu === undefined && (
          <>
            <dt>GPUs</dt>
            <dd>{count(many)}</dd>
          </>
        )}
        {nominee !== undefined && gpu !== undefined && (
          <>
            <dt>Nominated</dt>
            <dd class="mono">{bareName(nominee[1])}</dd>
          </>
        )}
        <dt>Seen</dt>
        <dd>
          revision <span class="mono">@{count(shown.value?.rev)}</span>
        </dd>
      </dl>
      <div class="side-head ruled">
        <h2>Held by</h2>
        <span>{occupants.length === 0 ? "no pod" : plural(occupants.length, "workload")}</span>
      </div>
      <ul class="items">
        {occupants.map(([id, group, queue, start, pods, each]) => {
          const [namespace = "", bare = ""] = group.split("/");
          return (
            <li key={id}>
              <a class="item" href={href("gangs", [namespace, bare])}>
                <i style={{ background: queueColour(queue) }} aria-hidden="true" />
                <span>
                  <span class="name">{bareName(group)}</span>
                  <span class="why">
                    {queue === "" ? "no queue" : name(queue)} · {plural(pods, "pod")} × {gpus(each)}
                  </span>
                </span>
                <span>
                  <span class="amount num">{gpus(held.get(id))}</span>
                  <span class="age num">{shortSpan(momentMs.value - Date.parse(start))}</span>
                </span>
              </a>
            </li>
          );
        })}
      </ul>
      {!isPast.value && about.value?.mode === "embedded" && (
        <Actions node={nodeName} gpu={gpu} state={state} health={health} />
      )}
    </>
  );
}
