/** Where each GPU is on the wall: racks in columns, a node is a row, a GPU a tile. Arithmetic only. */
import type { WallPart } from "../../model/window/parts.ts";

export interface Tile {
  readonly x: number;
  readonly y: number;
}

export interface RackBox {
  readonly rack: number;
  readonly x: number;
  readonly y: number;
  readonly width: number;
  /** Indexes of its nodes. */
  readonly nodes: readonly number[];
}

export interface Layout {
  readonly width: number;
  readonly height: number;
  readonly columns: number;
  readonly label: number;
  readonly gap: number;
  readonly tileWidth: number;
  readonly tileHeight: number;
  readonly rowHeight: number;
  readonly racks: readonly RackBox[];
  /** By node: the top left corner of its first tile. */
  readonly rows: readonly Tile[];
  /** By node: the index of its first GPU. */
  readonly firstGpu: readonly number[];
  /** By GPU: the index of its node. */
  readonly nodeOfGpu: Int32Array;
}

const title = 22;

export function layoutOf(
  { nodes, racks: rackNames, gpus }: WallPart,
  { width, height, isPhone, pixels }: { width: number; height: number; isPhone: boolean; pixels: number },
): Layout {
  const byRack = rackNames.map((): number[] => []);
  const firstGpu: number[] = [];
  const nodeOfGpu = new Int32Array(gpus.length);
  let at = 0;
  let most = 1;
  for (const [index, [, rack, , , count]] of nodes.entries()) {
    byRack[rack]?.push(index);
    firstGpu.push(at);
    nodeOfGpu.fill(index, at, at + count);
    at += count;
    most = Math.max(most, count);
  }
  const full = byRack.map((list, rack) => ({ list, rack })).filter(({ list }) => list.length > 0);
  const across = Math.max(8, most);
  const usual = full.length > 16 || width > 1500 ? 8 : 4;
  const columns = isPhone ? 1 : Math.max(1, Math.min(usual, Math.floor(width / 200)));
  const gapX = isPhone ? 0 : usual === 8 ? 20 : 26;
  const gapY = 18;
  const longest = nodes.reduce((length, [name]) => Math.max(length, name.length), 0);
  const columnWidth = (width - gapX * (columns - 1)) / columns;
  const label = Math.min(Math.floor(columnWidth * 0.42), Math.max(56, Math.ceil(longest * 6.7) + 8));
  const gap = columnWidth - label > 120 ? 3 : 2;
  const tileWidth = Math.max(2, Math.floor(((columnWidth - label - (across - 1) * gap) / across) * pixels) / pixels);
  const lines: (typeof full)[] = [];
  for (let from = 0; from < full.length; from += columns) lines.push(full.slice(from, from + columns));
  const rowsDeep = lines.reduce((sum, line) => sum + Math.max(...line.map(({ list }) => list.length)), 0);
  const space = height - 4 - lines.length * title - gapY * Math.max(0, lines.length - 1);
  const fitting = Math.floor(space / Math.max(1, rowsDeep));
  const least = full.length > 32 ? 12 : 18;
  const rowHeight = isPhone ? 28 : Math.max(least, Math.min(36, fitting));
  const rows: Tile[] = nodes.map(() => ({ x: 0, y: 0 }));
  const racks: RackBox[] = [];
  let y = 0;
  for (const line of lines) {
    for (const [column, { list, rack }] of line.entries()) {
      const x = Math.round(column * (columnWidth + gapX));
      racks.push({ rack, x, y, width: label + across * tileWidth + (across - 1) * gap, nodes: list });
      for (const [row, node] of list.entries()) rows[node] = { x: x + label, y: y + title + row * rowHeight };
    }
    y += title + Math.max(...line.map(({ list }) => list.length)) * rowHeight + gapY;
  }
  const tileHeight = rowHeight - (rowHeight > 20 ? 4 : 3);
  return {
    width,
    height: Math.max(0, y - gapY + 6),
    columns,
    label,
    gap,
    tileWidth,
    tileHeight,
    rowHeight,
    racks,
    rows,
    firstGpu,
    nodeOfGpu,
  };
}

export function tileAt(layout: Layout, gpu: number): Tile | undefined {
  const node = layout.nodeOfGpu[gpu];
  if (node === undefined) return undefined;
  const row = layout.rows[node];
  const first = layout.firstGpu[node];
  if (row === undefined || first === undefined) return undefined;
  return { x: row.x + (gpu - first) * (layout.tileWidth + layout.gap), y: row.y };
}

/** The GPU at a point, or undefined. */
export function gpuAtPoint(layout: Layout, x: number, y: number): number | undefined {
  const { tileWidth, gap, tileHeight, racks, rows, firstGpu, nodeOfGpu } = layout;
  for (const rack of racks) {
    if (x < rack.x || x > rack.x + rack.width || y < rack.y) continue;
    for (const node of rack.nodes) {
      const row = rows[node];
      if (row === undefined || y < row.y || y > row.y + tileHeight) continue;
      const place = Math.floor((x - row.x) / (tileWidth + gap));
      const gpu = (firstGpu[node] ?? 0) + place;
      if (place < 0 || nodeOfGpu[gpu] !== node || x - row.x - place * (tileWidth + gap) > tileWidth) return undefined;
      return gpu;
    }
  }
  return undefined;
}
