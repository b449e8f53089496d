/**
 * Draws the wall. Only tiles that changed are drawn, in one frame with everything else that changed; a whole repaint
 * (theme, size, colours) is cut into frames. Isolating a gang draws its tiles on
 * a layer of their own and dims the rest.
 */
import type { GpuCell, Hold, OccupantRow, WallPart } from "../../model/window/parts.ts";
import { shortType } from "../words.ts";
import { type Layout, layoutOf, tileAt } from "./layout.ts";

export type ColourBy = "queue" | "gang" | "health";

export interface PainterLayers {
  readonly ground: HTMLCanvasElement;
  readonly tiles: HTMLCanvasElement;
  readonly lit: HTMLCanvasElement;
  readonly over: HTMLCanvasElement;
}

export interface Look {
  readonly by: ColourBy;
  /** The colour of a queue as CSS. */
  readonly colourOf: (queue: string) => string;
  readonly isPhone: boolean;
}

/** Read by tests and by the benchmark: how much was drawn for how much change. */
export const drawn = { tiles: 0, changed: 0, frames: 0, whole: 0, longestMs: 0, waiting: 0 };

const frameMs = 4;
const ringMs = 600;
const fillAlpha = 0.9;
const shades = 10;

interface Palette {
  readonly ink: string;
  readonly ink2: string;
  readonly ink3: string;
  readonly line2: string;
  readonly bg: string;
  readonly hole: string;
  readonly ok: string;
  readonly warn: string;
  readonly bad: string;
  readonly badbg: string;
  readonly sans: string;
  readonly mono: string;
}

export class Painter {
  layout: Layout | undefined;
  private readonly layers: PainterLayers;
  private wall: WallPart | undefined;
  private occupants = new Map<number, OccupantRow>();
  private look: Look = { by: "queue", colourOf: () => "", isPhone: false };
  private palette: Palette;
  private readonly fills = new Map<string, string>();
  /** Tiles to draw, in order. */
  private readonly dirty = new Set<number>();
  private isGroundDirty = true;
  private isOverDirty = true;
  private frame = 0;
  private selected: readonly number[] = [];
  private cursor: number | undefined;
  /** The tiles that keep their colour; undefined: all. */
  private isolated: ((gpu: number) => boolean) | undefined;
  private ringed = new Map<number, number>();

  constructor(layers: PainterLayers) {
    this.layers = layers;
    this.palette = paletteOf(layers.ground);
  }

  /** The size of the view, another theme, another way of colouring: everything is drawn again. */
  resize(width: number, height: number): void {
    if (this.size.width === width && this.size.height === height) return;
    this.size = { width, height };
    this.repaint();
  }
  private size = { width: 0, height: 0 };

  setLook(look: Look): void {
    this.look = look;
    this.palette = paletteOf(this.layers.ground);
    this.fills.clear();
    this.repaint();
  }

  show(wall: WallPart, { rings = true } = {}): void {
    const before = this.wall;
    this.wall = wall;
    if (wall.occupants !== before?.occupants) this.occupants = new Map(wall.occupants.map((row) => [row[0], row]));
    const isSamePlace = before !== undefined && before.gpus.length === wall.gpus.length && hasSamePlaces(before, wall);
    if (!isSamePlace) {
      this.repaint();
      return;
    }
    if (before.nodes !== wall.nodes) this.isGroundDirty = true;
    const nowMs = performance.now();
    for (let at = 0; at < wall.gpus.length; at++) {
      if (wall.gpus[at] === before.gpus[at]) continue;
      drawn.changed++;
      this.dirty.add(at);
      // A bar that grows or shrinks has another edge.
      for (const beside of [at - 1, at + 1]) {
        if (this.layout === undefined) continue;
        const wasJoined = isJoined(before, this.layout, at, beside);
        if (wasJoined !== isJoined(wall, this.layout, at, beside)) this.dirty.add(beside);
      }
      if (rings) this.ringed.set(at, nowMs + ringMs);
    }
    if (this.dirty.size > 0) this.isGroundDirty = true;
    this.later();
  }

  select(gpus: readonly number[], cursor: number | undefined): void {
    this.selected = gpus;
    this.cursor = cursor;
    this.isOverDirty = true;
    this.later();
  }

  isolate(keeps: ((gpu: number) => boolean) | undefined): void {
    this.isolated = keeps;
    this.isOverDirty = true;
    this.paintLit();
    this.later();
  }

  /** The fonts have come: labels are drawn again, tiles are as they were. */
  relabel(): void {
    this.isGroundDirty = true;
    this.later();
  }

  stop(): void {
    cancelAnimationFrame(this.frame);
  }

  private repaint(): void {
    const { wall, size } = this;
    if (wall === undefined || size.width <= 0) return;
    const pixels = devicePixelRatio;
    this.layout = layoutOf(wall, { ...size, isPhone: this.look.isPhone, pixels });
    const { layout } = this;
    for (const canvas of Object.values(this.layers) as HTMLCanvasElement[]) {
      canvas.width = Math.round(layout.width * pixels);
      canvas.height = Math.round(layout.height * pixels);
      canvas.style.width = `${layout.width}px`;
      canvas.style.height = `${layout.height}px`;
    }
    drawn.whole++;
    this.ringed.clear();
    this.dirty.clear();
    for (let at = 0; at < wall.gpus.length; at++) this.dirty.add(at);
    this.isGroundDirty = true;
    this.isOverDirty = true;
    this.paintLit();
    this.paint();
  }

  private later(): void {
    drawn.waiting = this.dirty.size;
    if (this.frame !== 0) return;
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      this.paint();
    });
  }

  private paint(): void {
    const { layout, wall } = this;
    if (layout === undefined || wall === undefined) return;
    const startedMs = performance.now();
    if (this.isGroundDirty) this.paintGround(layout, wall);
    const pen = penOf(this.layers.tiles);
    drawn.frames++;
    for (const gpu of this.dirty) {
      this.dirty.delete(gpu);
      this.paintTile(pen, layout, wall, gpu);
      drawn.tiles++;
      if (performance.now() - startedMs > frameMs) break;
    }
    if (this.isolated !== undefined && this.dirty.size === 0) this.paintLit();
    if (this.isOverDirty || this.ringed.size > 0) this.paintOver(layout);
    drawn.longestMs = Math.max(drawn.longestMs, performance.now() - startedMs);
    drawn.waiting = this.dirty.size;
    if (this.dirty.size > 0 || this.ringed.size > 0) this.later();
  }

  private paintGround(layout: Layout, wall: WallPart): void {
    this.isGroundDirty = false;
    const { ink, ink2, ink3, warn, sans, mono } = this.palette;
    const pen = penOf(this.layers.ground);
    pen.clearRect(0, 0, layout.width, layout.height);
    for (const { rack, x, y, width, nodes } of layout.racks) {
      const name = wall.racks[rack] ?? "";
      const types = [...new Set(nodes.map((node) => shortType(wall.types[wall.nodes[node]?.[2] ?? 0] ?? "")))].join(
        ", ",
      );
      const free = nodes.reduce((sum, node) => sum + freeOn(wall, layout, node), 0);
      const right = free > 0 ? `${free} free` : "full";
      pen.font = `500 12px ${sans}`;
      const rightWidth = pen.measureText(right).width;
      pen.textAlign = "right";
      pen.fillStyle = ink3;
      pen.fillText(right, x + width, y + 13);
      pen.textAlign = "left";
      const typeWidth = pen.measureText(types).width;
      pen.font = `600 12px ${sans}`;
      pen.fillStyle = ink;
      const shown = cut(pen, name, width - rightWidth - typeWidth - 28);
      pen.fillText(shown, x, y + 13);
      const nameWidth = pen.measureText(shown).width;
      pen.font = `500 12px ${sans}`;
      pen.fillStyle = ink3;
      if (nameWidth + typeWidth + rightWidth + 16 < width) pen.fillText(types, x + nameWidth + 8, y + 13);
      if (layout.rowHeight < 12) continue;
      pen.font = `500 11px ${mono}`;
      for (const node of nodes) {
        const row = layout.rows[node];
        const column = wall.nodes[node];
        if (row === undefined || column === undefined) continue;
        pen.fillStyle = column[3] === "ready" ? ink3 : column[3] === "cordoned" ? warn : ink2;
        pen.fillText(cut(pen, column[0], layout.label - 8), x, row.y + layout.tileHeight / 2 + 4);
      }
    }
  }

  private colourOf([, , queue]: OccupantRow, id: number, isCordoned: boolean): string {
    const { by } = this.look;
    if (by === "health") return isCordoned ? this.palette.warn : this.palette.ok;
    if (by === "gang") return `hsl(${(id * 47) % 360} 22% ${44 + ((id * 7) % shades) * 2.4}%)`;
    let fill = this.fills.get(queue);
    if (fill === undefined) {
      fill = resolved(this.layers.ground, this.look.colourOf(queue));
      this.fills.set(queue, fill);
    }
    return fill;
  }

  private paintTile(pen: CanvasRenderingContext2D, layout: Layout, wall: WallPart, gpu: number): void {
    const tile = tileAt(layout, gpu);
    const cell = wall.gpus[gpu];
    if (tile === undefined || cell === undefined) return;
    const { tileWidth: w, tileHeight: h, gap } = layout;
    const { x, y } = tile;
    pen.clearRect(x - gap / 2, y - 1, w + gap, h + 2);
    const [state, holds = [], nominated = 0] = cell;
    if (w < 5 || h < 5) {
      pen.fillStyle = this.plainColour(cell);
      pen.fillRect(x, y, w, h);
      return;
    }
    const radius = Math.min(3, w / 4);
    const { ink3, line2, hole, bad, badbg, bg } = this.palette;
    if (state === "?") {
      pen.setLineDash([2, 2.5]);
      pen.strokeStyle = ink3;
      pen.lineWidth = 1;
      box(pen, x + 0.5, y + 0.5, w - 1, h - 1, radius);
      pen.stroke();
      pen.setLineDash([]);
      if (w < 10) return;
      pen.fillStyle = ink3;
      pen.font = `500 11px ${this.palette.sans}`;
      pen.textAlign = "center";
      pen.fillText("?", x + w / 2, y + h / 2 + 4);
      pen.textAlign = "left";
      return;
    }
    if (state === "x") {
      box(pen, x, y, w, h, radius);
      pen.fillStyle = badbg;
      pen.fill();
      pen.strokeStyle = bad;
      pen.lineWidth = 1.5;
      box(pen, x + 0.75, y + 0.75, w - 1.5, h - 1.5, radius);
      pen.stroke();
      const m = Math.min(w, h) * 0.22;
      const [cx, cy] = [x + w / 2, y + h / 2];
      pen.lineWidth = 1.8;
      pen.beginPath();
      pen.moveTo(cx - m, cy - m);
      pen.lineTo(cx + m, cy + m);
      pen.moveTo(cx + m, cy - m);
      pen.lineTo(cx - m, cy + m);
      pen.stroke();
      return;
    }
    const left = isJoined(wall, layout, gpu, gpu - 1);
    const right = isJoined(wall, layout, gpu, gpu + 1);
    const from = left ? x - (gap - 1) / 2 : x;
    const to = right ? x + w + (gap - 1) / 2 : x + w;
    const isCordoned = wall.nodes[layout.nodeOfGpu[gpu] ?? 0]?.[3] === "cordoned";
    let filled = 0;
    const total = holds.reduce((sum, [, , milli]) => sum + milli, 0);
    if (total < 1000) {
      box(pen, x, y, w, h, radius);
      pen.fillStyle = hole;
      pen.fill();
    }
    if (holds.length > 0) {
      pen.save();
      pen.beginPath();
      pen.roundRect(from, y, to - from, h, [
        left ? 0 : radius,
        right ? 0 : radius,
        right ? 0 : radius,
        left ? 0 : radius,
      ]);
      pen.clip();
      for (const [id, , milli, isLeaving] of holds) {
        const occupant = this.occupants.get(id);
        if (occupant === undefined) continue;
        const height = (h * Math.min(1000, milli)) / 1000;
        const seam = milli < 1000 ? 1.5 : 0;
        pen.globalAlpha = isLeaving === 1 ? 0.34 : fillAlpha;
        pen.fillStyle = this.colourOf(occupant, id, isCordoned);
        pen.fillRect(from, y + h - filled - height + seam, to - from, height - seam);
        filled += height;
      }
      pen.globalAlpha = 1;
      pen.restore();
    }
    if (state === "l") hatch(pen, x, y, w, h, bg, 4.5, 1.6);
    if (state === "c" && holds.length === 0) hatch(pen, x + 1, y + 1, w - 2, h - 2, line2, 5, 1.2);
    if (filled < h - 0.5) {
      pen.strokeStyle = line2;
      pen.lineWidth = 1;
      box(pen, x + 0.5, y + 0.5, w - 1, h - 1, radius);
      pen.stroke();
    }
    const nominee = this.occupants.get(nominated);
    if (nominee === undefined) return;
    pen.setLineDash([3, 2]);
    pen.strokeStyle = this.colourOf(nominee, nominated, false);
    pen.lineWidth = 1.8;
    box(pen, x + 0.9, y + 0.9, w - 1.8, h - 1.8, radius);
    pen.stroke();
    pen.setLineDash([]);
  }

  private plainColour([state, holds = []]: GpuCell): string {
    const { bad, line2, hole, ink3 } = this.palette;
    if (state === "x") return bad;
    if (state === "?") return ink3;
    const [first] = holds;
    const occupant = first === undefined ? undefined : this.occupants.get(first[0]);
    if (occupant !== undefined && first !== undefined) return this.colourOf(occupant, first[0], false);
    return state === "c" ? line2 : hole;
  }

  /** The tiles that keep their colour while the others are dimmed. */
  private paintLit(): void {
    const { layout, wall, isolated } = this;
    const pen = penOf(this.layers.lit);
    pen.clearRect(0, 0, this.layers.lit.width, this.layers.lit.height);
    if (layout === undefined || wall === undefined || isolated === undefined) return;
    for (let gpu = 0; gpu < wall.gpus.length; gpu++) if (isolated(gpu)) this.paintTile(pen, layout, wall, gpu);
  }

  private paintOver(layout: Layout): void {
    this.isOverDirty = false;
    const { ink } = this.palette;
    const pen = penOf(this.layers.over);
    pen.clearRect(0, 0, layout.width, layout.height);
    const nowMs = performance.now();
    pen.strokeStyle = ink;
    for (const [gpu, untilMs] of this.ringed) {
      if (untilMs <= nowMs) {
        this.ringed.delete(gpu);
        this.isOverDirty = true;
        continue;
      }
      pen.globalAlpha = Math.min(1, (untilMs - nowMs) / ringMs) * 0.8;
      this.ring(pen, layout, [gpu], 1.2, 1);
    }
    pen.globalAlpha = 1;
    if (this.isolated !== undefined) {
      const { isolated } = this;
      const gpus = layout.nodeOfGpu.length;
      for (let from = 0; from < gpus; from++) {
        if (!isolated(from)) continue;
        let to = from;
        while (to + 1 < gpus && isolated(to + 1) && layout.nodeOfGpu[to + 1] === layout.nodeOfGpu[from]) to++;
        this.ring(pen, layout, [from, to], 2, 2.5);
        from = to;
      }
    }
    if (this.selected.length > 0) this.ring(pen, layout, this.selected, 2, 2.5);
    if (this.cursor !== undefined) this.ring(pen, layout, [this.cursor], 1.5, 4);
  }

  private ring(
    pen: CanvasRenderingContext2D,
    layout: Layout,
    gpus: readonly number[],
    width: number,
    out: number,
  ): void {
    const first = tileAt(layout, Math.min(...gpus));
    const last = tileAt(layout, Math.max(...gpus));
    if (first === undefined || last === undefined) return;
    pen.lineWidth = width;
    box(
      pen,
      first.x - out,
      first.y - out,
      last.x - first.x + layout.tileWidth + 2 * out,
      layout.tileHeight + 2 * out,
      5,
    );
    pen.stroke();
  }
}

function hasSamePlaces(before: WallPart, after: WallPart): boolean {
  if (before.nodes === after.nodes) return true;
  return before.nodes.every((node, at) => {
    const other = after.nodes[at];
    return other !== undefined && node[0] === other[0] && node[1] === other[1] && node[4] === other[4];
  });
}

/** Whole GPUs of one pod, side by side on one node. */
function isJoined({ gpus }: WallPart, { nodeOfGpu }: Layout, gpu: number, other: number): boolean {
  if (nodeOfGpu[gpu] !== nodeOfGpu[other]) return false;
  const [a, b] = [onlyHold(gpus[gpu]), onlyHold(gpus[other])];
  return a !== undefined && b !== undefined && a[1] === b[1];
}

function onlyHold(cell: GpuCell | undefined): Hold | undefined {
  if (cell === undefined || cell[0] === "x" || cell[0] === "?") return undefined;
  const [first, second] = cell[1] ?? [];
  return second === undefined && first?.[2] === 1000 ? first : undefined;
}

function freeOn({ nodes, gpus }: WallPart, { firstGpu }: Layout, node: number): number {
  const from = firstGpu[node] ?? 0;
  let free = 0;
  for (let at = from; at < from + (nodes[node]?.[4] ?? 0); at++) if (gpus[at]?.[0] === "f") free++;
  return free;
}

function penOf(canvas: HTMLCanvasElement): CanvasRenderingContext2D {
  const pen = canvas.getContext("2d");
  if (pen === null) throw new Error("this browser has no canvas");
  pen.setTransform(devicePixelRatio, 0, 0, devicePixelRatio, 0, 0);
  return pen;
}

function box(pen: CanvasRenderingContext2D, x: number, y: number, w: number, h: number, radius: number): void {
  pen.beginPath();
  pen.roundRect(x, y, w, h, radius);
}

function hatch(
  pen: CanvasRenderingContext2D,
  x: number,
  y: number,
  w: number,
  h: number,
  colour: string,
  step: number,
  line: number,
): void {
  pen.save();
  pen.beginPath();
  pen.rect(x, y, w, h);
  pen.clip();
  pen.strokeStyle = colour;
  pen.lineWidth = line;
  pen.beginPath();
  for (let at = -h; at < w; at += step) {
    pen.moveTo(x + at, y + h);
    pen.lineTo(x + at + h, y);
  }
  pen.stroke();
  pen.restore();
}

function cut(pen: CanvasRenderingContext2D, text: string, width: number): string {
  if (pen.measureText(text).width <= width) return text;
  let end = text.length;
  while (end > 1 && pen.measureText(`${text.slice(0, end)}…`).width > width) end--;
  return `${text.slice(0, end)}…`;
}

function paletteOf(element: Element): Palette {
  const style = getComputedStyle(element);
  const token = (name: string): string => style.getPropertyValue(`--${name}`).trim();
  return {
    ink: token("ink"),
    ink2: token("ink2"),
    ink3: token("ink3"),
    line2: token("line2"),
    bg: token("bg"),
    hole: token("hole"),
    ok: token("ok"),
    warn: token("warn"),
    bad: token("bad"),
    badbg: token("badbg"),
    sans: token("sans"),
    mono: token("mono"),
  };
}

/** A colour as the canvas takes it: variables and mixes are worked out by the browser. */
function resolved(element: HTMLElement, colour: string): string {
  element.style.color = colour;
  const found = getComputedStyle(element).color;
  element.style.color = "";
  return found;
}
