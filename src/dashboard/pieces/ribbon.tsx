import { signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { get } from "../api.ts";
import { askedRev, goWith } from "../route.ts";
import { about, freshness, isPast, live, momentMs, past, serverNowMs, theme } from "../state.ts";
import { clock } from "../words.ts";

/** Start of the bin, first revision in it, pods placed, pods that began to leave, GPUs or nodes that broke. */
type Bin = readonly [number, number, number, number, number];

const spanMs = 15 * 60_000;
const binMs = 5_000;
const bins = signal<readonly Bin[]>([]);

/** Read anew now and then: the strip is about minutes, not about tenths. */
export async function readRibbon(): Promise<void> {
  const answer = await get<{ bins: readonly Bin[] }>("ribbon").catch(() => undefined);
  if (answer !== undefined) bins.value = answer.bins;
}

/** The last fifteen minutes; dragging goes back in time. */
export function Ribbon() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const isHeld = useRef(false);
  const frozenMs = useRef<number | undefined>(undefined);
  const endMs = frozenMs.current ?? serverNowMs.value;
  const atMs = momentMs.value;
  useEffect(() => {
    void readRibbon();
    const timer = setInterval(() => {
      if (!isHeld.current) void readRibbon();
    }, 5_000);
    return () => clearInterval(timer);
  }, []);
  useLayoutEffect(
    () => draw(canvas.current, bins.value, endMs, isPast.value ? atMs : endMs),
    [bins.value, endMs, atMs, theme.value],
  );
  if (about.value?.mode === "file") return <footer class="ribbon" />;
  const move = (event: PointerEvent): void => {
    const bounds = canvas.current?.getBoundingClientRect();
    if (bounds === undefined) return;
    const part = Math.max(0, Math.min(1, (event.clientX - bounds.left) / bounds.width));
    if (part > 0.992) goWith({ rev: "" }, { replace: true });
    else goTo(endMs - spanMs * (1 - part));
  };
  return (
    <footer class="ribbon">
      <div class="steps">
        <button type="button" class="icon" aria-label="a change back" onClick={() => stepBy(-1)}>
          <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
            <path d="M9 1L3 6l6 5z" fill="currentColor" />
          </svg>
        </button>
        <button type="button" class="icon" aria-label="a change on" onClick={() => stepBy(1)}>
          <svg width="12" height="12" viewBox="0 0 12 12" aria-hidden="true">
            <path d="M3 1l6 5-6 5z" fill="currentColor" />
          </svg>
        </button>
      </div>
      <canvas
        ref={canvas}
        role="slider"
        tabIndex={0}
        aria-label="moment"
        aria-valuemin={0}
        aria-valuemax={spanMs / 1000}
        aria-valuenow={Math.round((spanMs - (endMs - atMs)) / 1000)}
        aria-valuetext={isPast.value ? clock(atMs) : "live"}
        onPointerDown={(event) => {
          isHeld.current = true;
          frozenMs.current = serverNowMs.value;
          event.currentTarget.setPointerCapture(event.pointerId);
          move(event);
        }}
        onPointerMove={(event) => {
          if (isHeld.current) move(event);
        }}
        onPointerUp={() => {
          isHeld.current = false;
          frozenMs.current = undefined;
        }}
        onKeyDown={(event) => {
          if (event.key === "ArrowLeft") stepBy(-1);
          else if (event.key === "ArrowRight") stepBy(1);
          else if (event.key === "End") goWith({ rev: "" });
          else return;
          event.preventDefault();
          event.stopPropagation();
        }}
      />
      <div class="at">
        <div>{live.value === undefined ? "–" : clock(atMs)}</div>
        {isPast.value ? (
          <button type="button" class="faint" onClick={() => goWith({ rev: "" })}>
            back to live
          </button>
        ) : (
          <span class="faint">{freshness.value === "live" ? "live, last 15 min" : freshness.value}</span>
        )}
      </div>
    </footer>
  );
}

/** To the first revision of the bin at that time. */
function goTo(timeMs: number): void {
  const bin = bins.value.findLast(([startMs]) => startMs <= timeMs) ?? bins.value[0];
  if (bin !== undefined && askedRev.value !== bin[1])
    goWith({ rev: String(bin[1]) }, { replace: askedRev.value !== undefined });
}

/** One bin with a change back or on. */
export function stepBy(way: -1 | 1): void {
  const rev = past.value?.rev ?? live.value?.rev;
  if (rev === undefined) return;
  const changes = bins.value.filter(([, , binds, evictions, faults]) => binds + evictions + faults > 0);
  const next = way < 0 ? changes.findLast(([, first]) => first < rev) : changes.find(([, first]) => first > rev);
  if (next !== undefined) goWith({ rev: String(next[1]) }, { replace: askedRev.value !== undefined });
  else if (way > 0) goWith({ rev: "" });
}

function draw(canvas: HTMLCanvasElement | null, list: readonly Bin[], endMs: number, atMs: number): void {
  if (canvas === null || canvas.clientWidth === 0) return;
  const [w, h] = [canvas.clientWidth, 46];
  canvas.width = w * devicePixelRatio;
  canvas.height = h * devicePixelRatio;
  const pen = canvas.getContext("2d");
  if (pen === null) return;
  pen.scale(devicePixelRatio, devicePixelRatio);
  const style = getComputedStyle(canvas);
  const token = (key: string): string => style.getPropertyValue(`--${key}`).trim();
  const x = (ms: number): number => w * (1 - (endMs - ms) / spanMs);
  const width = (w * binMs) / spanMs;
  for (const [startMs, , binds, evictions, faults] of list) {
    const left = x(startMs);
    if (left < -width) continue;
    pen.globalAlpha = startMs > atMs ? 0.3 : 1;
    const bar = Math.min(22, binds * 0.8 + 1.5);
    pen.fillStyle = token("ink3");
    pen.fillRect(left, 30 - bar, Math.max(1, width - 1.5), bar);
    if (evictions > 0) {
      const top = Math.min(8, evictions);
      pen.fillStyle = token("warn");
      pen.fillRect(left, 30 - bar - top - 1, Math.max(2, width - 1), top);
    }
    if (faults > 0) {
      pen.fillStyle = token("bad");
      pen.beginPath();
      pen.moveTo(left + width / 2, 3);
      pen.lineTo(left + width / 2 + 4, 9);
      pen.lineTo(left + width / 2 - 4, 9);
      pen.fill();
    }
  }
  pen.globalAlpha = 1;
  pen.strokeStyle = token("line2");
  pen.beginPath();
  pen.moveTo(0, 30.5);
  pen.lineTo(w, 30.5);
  pen.stroke();
  pen.fillStyle = token("ink3");
  pen.font = `500 11px ${token("mono")}`;
  const everyMs = 3 * 60_000;
  for (let ms = Math.ceil((endMs - spanMs) / everyMs) * everyMs; ms < endMs - 20_000; ms += everyMs) {
    pen.fillText(clock(ms).slice(0, 5), x(ms) + 3, 42);
    pen.fillRect(x(ms), 31, 1, 4);
  }
  const at = Math.max(4.5, Math.min(w - 4.5, x(atMs)));
  pen.fillStyle = token("ink");
  pen.fillRect(at - 0.75, 2, 1.5, 30);
  pen.beginPath();
  pen.arc(at, 31, 3.5, 0, 7);
  pen.fill();
}
