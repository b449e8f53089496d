import { useEffect, useLayoutEffect, useRef, useState } from "preact/hooks";
import type { JobRow, WallPart } from "../../model/window/parts.ts";
import { Equation } from "../pieces/equation.tsx";
import { GpuPanel } from "../pieces/gpuPanel.tsx";
import { SidePanel } from "../pieces/sidePanel.tsx";
import { queueColour, Swatch } from "../pieces/swatch.tsx";
import { Tip } from "../pieces/tip.tsx";
import { go, goWith, href, route } from "../route.ts";
import { colours, isPast, shown, theme } from "../state.ts";
import { gpuAtPoint, tileAt } from "../wall/layout.ts";
import { type ColourBy, Painter } from "../wall/painter.ts";
import { count, gpus, name, plural } from "../words.ts";
import { WallTable } from "./wallTable.tsx";

const phoneWidth = 820;
const ways: readonly { readonly by: ColourBy; readonly label: string }[] = [
  { by: "queue", label: "Queue" },
  { by: "gang", label: "Gang" },
  { by: "health", label: "Health" },
];

/** What is selected: a node, or one GPU of it. */
export interface Selection {
  readonly node: number;
  readonly gpu: number | undefined;
}

function selectionOf(wall: WallPart | undefined, path: readonly string[]): Selection | undefined {
  const [nodeName, place] = path;
  const node = wall?.nodes.findIndex(([each]) => each === nodeName) ?? -1;
  if (wall === undefined || nodeName === undefined || node < 0) return undefined;
  const at = place === undefined || !/^\d+$/.test(place) ? undefined : Number(place);
  return { node, gpu: at !== undefined && at < (wall.nodes[node]?.[4] ?? 0) ? at : undefined };
}

export function WallView() {
  const wall = shown.value?.wall;
  const { path, query } = route.value;
  const by = ways.find((way) => way.by === query.get("by"))?.by ?? "queue";
  const pinned = query.get("queue") ?? "";
  const selection = selectionOf(wall, path);
  const [hovered, hover] = useState<string | undefined>(undefined);
  const [isTable, setTable] = useState(false);
  const [held, isolateJob] = useState<JobRow | undefined>(undefined);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.key === "W" && event.shiftKey) setTable((is) => !is);
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, []);
  const waiting = shown.value?.jobs.jobs;
  return (
    <div class={selection === undefined ? "wall" : "wall selected"}>
      <div class="wall-main">
        <Equation />
        <div class="controls">
          {/* biome-ignore lint/a11y/useSemanticElements: a fieldset cannot be laid out in a row of its neighbours */}
          <div class="seg" role="group" aria-label="colour by">
            {ways.map((way) => (
              <button
                key={way.by}
                type="button"
                aria-pressed={way.by === by}
                onClick={() => goWith({ by: way.by === "queue" ? "" : way.by, queue: "" })}
              >
                {way.label}
              </button>
            ))}
          </div>
          <Legend by={by} pinned={pinned} hover={hover} />
        </div>
        <a class="wait-button" href={href("why")}>
          <b>{waiting === undefined ? "–" : count(waiting.length)} wait</b>
          <span class="dim">for {gpus(waiting?.reduce((sum, job) => sum + job.gpus, 0))} GPUs</span>
          <span class="fill" />
          <span class="faint">why →</span>
        </a>
        {isTable ? (
          <WallTable />
        ) : (
          <WallCanvas by={by} isolatedQueue={hovered ?? pinned} isolatedJob={held} selection={selection} />
        )}
      </div>
      <aside class="side" aria-label={selection === undefined ? "waiting" : "selection"}>
        {selection === undefined || wall === undefined ? (
          <SidePanel isolate={isolateJob} />
        ) : (
          <GpuPanel wall={wall} selection={selection} />
        )}
      </aside>
    </div>
  );
}

function Legend({
  by,
  pinned,
  hover,
}: {
  readonly by: ColourBy;
  readonly pinned: string;
  readonly hover: (queue: string | undefined) => void;
}) {
  const wall = shown.value?.wall;
  if (wall === undefined) return <div class="legend" />;
  if (by === "gang")
    return <span class="faint held-note">Neighbouring gangs differ in shade. Point at one to see it alone.</span>;
  if (by === "health") {
    const { total, cordoned, unknown, broken } = wall.sums;
    const rows = [
      { label: "well", swatch: "sw", fill: "var(--ok)", milli: total - cordoned - unknown - broken },
      { label: "cordoned", swatch: "sw", fill: "var(--warn)", milli: cordoned },
      { label: "broken", swatch: "sw", fill: "var(--bad)", milli: broken },
      { label: "unknown", swatch: "sw hollow round", fill: "", milli: unknown },
    ];
    return (
      <div class="legend">
        {rows.map(({ label, swatch, fill, milli }) => (
          <button key={label} type="button" tabIndex={-1}>
            <i class={swatch} style={fill === "" ? {} : { background: fill }} aria-hidden="true" />
            {label}
            <span class="n num">{gpus(milli)}</span>
          </button>
        ))}
      </div>
    );
  }
  const { byQueue, held, leaving } = heldByQueue(wall);
  const queues = (shown.value?.queues.queues ?? [])
    .filter((queue) => queue.isLeaf && (byQueue.has(queue.name) || queue.pending > 0))
    .map((queue) => queue.name);
  const names = [...queues, ...[...byQueue.keys()].filter((each) => !queues.includes(each))];
  return (
    <>
      <div class="legend">
        {names.map((queue) => (
          <button
            key={queue}
            type="button"
            aria-pressed={pinned === (queue === "" ? "-" : queue)}
            onPointerEnter={() => hover(queue === "" ? "-" : queue)}
            onPointerLeave={() => hover(undefined)}
            onClick={() => goWith({ queue: pinned === (queue === "" ? "-" : queue) ? "" : queue === "" ? "-" : queue })}
          >
            <Swatch queue={queue} />
            {queue === "" ? "no queue" : name(queue)}
            <span class="n num">{gpus(byQueue.get(queue) ?? 0)}</span>
          </button>
        ))}
      </div>
      <span class="faint held-note">
        {gpus(held)} held{leaving > 0 ? `, ${gpus(leaving)} leaving or silent` : ""}
      </span>
    </>
  );
}

function heldByQueue({ occupants, gpus: cells }: WallPart): {
  byQueue: Map<string, number>;
  held: number;
  leaving: number;
} {
  const queueOf = new Map(occupants.map(([id, , queue]) => [id, queue]));
  const byQueue = new Map<string, number>();
  let [held, leaving] = [0, 0];
  for (const [state, holds = []] of cells) {
    for (const [id, , milli, isLeaving] of holds) {
      if (state === "?" || state === "x" || isLeaving === 1) leaving += milli;
      else {
        held += milli;
        const queue = queueOf.get(id) ?? "";
        byQueue.set(queue, (byQueue.get(queue) ?? 0) + milli);
      }
    }
  }
  return { byQueue, held, leaving };
}

interface CanvasProps {
  readonly by: ColourBy;
  /** `-` for pods without a queue, empty for all. */
  readonly isolatedQueue: string;
  readonly isolatedJob: JobRow | undefined;
  readonly selection: Selection | undefined;
}

function WallCanvas({ by, isolatedQueue, isolatedJob, selection }: CanvasProps) {
  const scroll = useRef<HTMLDivElement>(null);
  const boxRef = useRef<HTMLDivElement>(null);
  const canvases = {
    ground: useRef<HTMLCanvasElement>(null),
    tiles: useRef<HTMLCanvasElement>(null),
    lit: useRef<HTMLCanvasElement>(null),
    over: useRef<HTMLCanvasElement>(null),
  };
  const painter = useRef<Painter | undefined>(undefined);
  const [pointed, point] = useState<number | undefined>(undefined);
  const [cursor, setCursor] = useState<number | undefined>(undefined);
  const [height, setHeight] = useState(0);
  const wall = shown.value?.wall;
  const past = isPast.value;

  useLayoutEffect(() => {
    const { ground, tiles, lit, over } = canvases;
    if (ground.current === null || tiles.current === null || lit.current === null || over.current === null) return;
    const made = new Painter({ ground: ground.current, tiles: tiles.current, lit: lit.current, over: over.current });
    painter.current = made;
    const measure = (): void => {
      const { clientWidth, clientHeight } = scroll.current as HTMLDivElement;
      made.resize(clientWidth, clientHeight);
      setHeight(made.layout?.height ?? 0);
    };
    const observer = new ResizeObserver(measure);
    observer.observe(scroll.current as HTMLDivElement);
    void document.fonts.ready.then(() => made.relabel());
    return () => {
      observer.disconnect();
      made.stop();
    };
  }, []);
  const colouring = `${theme.value} ${by} ${[...colours.value].map(([queue, { index, shade }]) => `${queue}${index}${shade}`).join()} ${innerWidth <= phoneWidth}`;
  useLayoutEffect(() => {
    painter.current?.setLook({ by, colourOf: queueColour, isPhone: innerWidth <= phoneWidth });
  }, [colouring]);
  useLayoutEffect(() => {
    if (wall === undefined || painter.current === undefined) return;
    const still = matchMedia("(prefers-reduced-motion: reduce)").matches;
    painter.current.show(wall, { rings: !still && !past });
    setHeight(painter.current.layout?.height ?? 0);
    // For tests: which revision the tiles are of.
    (boxRef.current as HTMLDivElement).dataset["rev"] = String(shown.peek()?.rev);
  }, [wall]);

  const pointedHolder = wall?.gpus[pointed ?? -1]?.[1]?.[0]?.[0];
  const keeps = keepsOf(wall, pointedHolder, isolatedQueue, isolatedJob);
  useLayoutEffect(() => {
    painter.current?.isolate(keeps);
  }, [wall, pointedHolder, isolatedQueue, isolatedJob]);
  const first = painter.current?.layout?.firstGpu[selection?.node ?? -1];
  const chosen =
    selection === undefined || first === undefined || wall === undefined
      ? []
      : selection.gpu === undefined
        ? [first, first + (wall.nodes[selection.node]?.[4] ?? 1) - 1]
        : [first + selection.gpu];
  useLayoutEffect(() => {
    painter.current?.select(chosen, cursor);
  }, [chosen.join(), cursor, wall]);

  const open = (gpu: number): void => {
    const layout = painter.current?.layout;
    const node = layout?.nodeOfGpu[gpu];
    if (wall === undefined || layout === undefined || node === undefined) return;
    const at = gpu - (layout.firstGpu[node] ?? 0);
    go(
      href(
        "wall",
        [wall.nodes[node]?.[0] ?? "", String(at)],
        Object.fromEntries([...route.value.query].filter(([key]) => key === "by" || key === "queue")),
      ),
    );
  };
  const place = (event: PointerEvent | MouseEvent): number | undefined => {
    const layout = painter.current?.layout;
    const bounds = boxRef.current?.getBoundingClientRect();
    return layout === undefined || bounds === undefined
      ? undefined
      : gpuAtPoint(layout, event.clientX - bounds.left, event.clientY - bounds.top);
  };
  const press = (event: KeyboardEvent): void => {
    const layout = painter.current?.layout;
    if (layout === undefined || wall === undefined) return;
    const at = cursor ?? chosen[0] ?? 0;
    const next = step(layout, wall, at, event.key);
    if (event.key === "Enter" || event.key === " ") open(at);
    else if (next === undefined) return;
    else {
      setCursor(next);
      const tile = tileAt(layout, next);
      if (tile !== undefined) scrollTo(scroll.current, tile.y, layout.rowHeight);
    }
    event.preventDefault();
  };
  const tile =
    pointed === undefined || painter.current?.layout === undefined
      ? undefined
      : tileAt(painter.current.layout, pointed);
  return (
    <div class="canvas-scroll" ref={scroll}>
      <div
        class={keeps === undefined ? "canvas-box" : "canvas-box isolating"}
        ref={boxRef}
        style={{ height: `${height}px` }}
      >
        <canvas class="ground" ref={canvases.ground} />
        <canvas class="tiles" ref={canvases.tiles} />
        <canvas class="lit" ref={canvases.lit} />
        {/* biome-ignore lint/a11y/noInteractiveElementToNoninteractiveRole: it handles its own keys */}
        <canvas
          class="over"
          ref={canvases.over}
          role="application"
          tabIndex={0}
          aria-label={
            wall === undefined
              ? "GPUs"
              : `${plural(wall.nodes.length, "node")}, ${plural(wall.gpus.length, "GPU")}. Arrow keys move, Enter opens, Shift-W is a table.`
          }
          onPointerMove={(event) => {
            const at = place(event);
            point(at);
            (event.currentTarget as HTMLElement).style.cursor = at === undefined ? "default" : "pointer";
          }}
          onPointerLeave={() => point(undefined)}
          onClick={(event) => {
            const at = place(event);
            if (at === undefined)
              go(href("wall", [], Object.fromEntries([...route.value.query].filter(([key]) => key !== "rev"))));
            else open(at);
          }}
          onKeyDown={press}
          onBlur={() => setCursor(undefined)}
        />
        {wall !== undefined && pointed !== undefined && tile !== undefined && painter.current?.layout !== undefined && (
          <Tip wall={wall} gpu={pointed} layout={painter.current.layout} tile={tile} />
        )}
        <span class="hidden-text" role="status">
          {wall !== undefined && cursor !== undefined && painter.current?.layout !== undefined
            ? spoken(wall, painter.current.layout.nodeOfGpu[cursor] ?? 0, cursor, painter.current.layout.firstGpu)
            : ""}
        </span>
      </div>
    </div>
  );
}

function keepsOf(
  wall: WallPart | undefined,
  occupant: number | undefined,
  queue: string,
  job: JobRow | undefined,
): ((gpu: number) => boolean) | undefined {
  if (wall === undefined) return undefined;
  const has =
    (is: (id: number) => boolean) =>
    (gpu: number): boolean => {
      const [, holds = [], nominated = 0] = wall.gpus[gpu] ?? ["f"];
      return holds.some(([id]) => is(id)) || (nominated !== 0 && is(nominated));
    };
  if (occupant !== undefined) return has((id) => id === occupant);
  if (job !== undefined) {
    const found = wall.occupants.find(([, group]) => group === job.id)?.[0];
    if (found !== undefined) return has((id) => id === found);
  }
  if (queue === "") return undefined;
  const ids = new Set(wall.occupants.filter(([, , of]) => of === (queue === "-" ? "" : queue)).map(([id]) => id));
  return has((id) => ids.has(id));
}

/** Where an arrow leads: along the row, to the row above or below, or to the next rack. */
function step(
  { racks, nodeOfGpu, firstGpu }: NonNullable<Painter["layout"]>,
  { nodes }: WallPart,
  at: number,
  key: string,
): number | undefined {
  const node = nodeOfGpu[at] ?? 0;
  const place = at - (firstGpu[node] ?? 0);
  const rackAt = racks.findIndex((rack) => rack.nodes.includes(node));
  const rack = racks[rackAt];
  if (rack === undefined) return undefined;
  const within = (next: number | undefined): number | undefined =>
    next === undefined ? undefined : (firstGpu[next] ?? 0) + Math.min(place, (nodes[next]?.[4] ?? 1) - 1);
  const row = rack.nodes.indexOf(node);
  switch (key) {
    case "ArrowRight":
      return Math.min(nodeOfGpu.length - 1, at + 1);
    case "ArrowLeft":
      return Math.max(0, at - 1);
    case "ArrowDown":
      return within(rack.nodes[row + 1] ?? racks[rackAt + 1]?.nodes[0]);
    case "ArrowUp":
      return within(rack.nodes[row - 1] ?? racks[rackAt - 1]?.nodes.at(-1));
    case "PageDown":
      return within(racks[rackAt + 1]?.nodes[0]);
    case "PageUp":
      return within(racks[rackAt - 1]?.nodes[0]);
    case "Home":
      return 0;
    case "End":
      return nodeOfGpu.length - 1;
    default:
      return undefined;
  }
}

function scrollTo(box: HTMLDivElement | null, y: number, height: number): void {
  if (box === null) return;
  if (y < box.scrollTop + 24) box.scrollTop = y - 24;
  else if (y + height > box.scrollTop + box.clientHeight) box.scrollTop = y + height - box.clientHeight;
}

const stateWords = {
  f: "free",
  u: "in use",
  l: "leaving",
  c: "free, node cordoned",
  "?": "unknown",
  x: "broken",
} as const;

/** `h100-05, GPU 1, rlhf-actor, 1 GPU, posttrain`. */
function spoken(wall: WallPart, node: number, gpu: number, firstGpu: readonly number[]): string {
  const [state, holds = []] = wall.gpus[gpu] ?? ["?"];
  const who = holds.map(([id, , milli]) => {
    const [, group = "", queue = ""] = wall.occupants.find(([each]) => each === id) ?? [];
    return `${name(group)}, ${gpus(milli)} GPU, ${queue === "" ? "no queue" : name(queue)}`;
  });
  const head = `${name(wall.nodes[node]?.[0] ?? "")}, GPU ${gpu - (firstGpu[node] ?? 0)}`;
  return [head, stateWords[state], ...who].join(", ");
}
