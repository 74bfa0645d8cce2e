import '../../parts/inks.css';
import { useEffect, useRef } from 'preact/hooks';
import { callName } from '../../../../src/model/call-labels.ts';
import { clock } from '../../parts/reading.ts';
import { onTheme } from '../../theme.ts';
import { toneOfCall } from './call-detail.tsx';
import type { TimedCall } from './calls.ts';

export interface TimeWindow {
  readonly from: number;
  readonly to: number;
}

interface LanesProps {
  readonly calls: readonly TimedCall[];
  readonly laneOf: (call: TimedCall['call']) => string;
  readonly window: TimeWindow;
  readonly selected: string | undefined;
  readonly onWindow: (window: TimeWindow) => void;
  readonly onSelect: (call: TimedCall | null) => void;
}

const LABEL_PX = 140;
const AXIS_PX = 22;
const ROW_PX = 9;
/** Calls of a lane that overlap are drawn below each other; more of them over each other. */
const ROWS = 4;
const LANE_PX = ROWS * ROW_PX + 8;
const SHORTEST_MS = 5;
const LONGEST_MS = 24 * 3_600_000;
const STEPS_MS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 30e3, 60e3, 300e3, 600e3, 1_800e3, 3_600e3, 7_200e3,
];

interface Drawn {
  readonly call: TimedCall;
  readonly x: number;
  readonly y: number;
  readonly width: number;
}

/** Calls as bars over time, a lane for each server, session, client or node. Drag to look closer, turn the wheel to zoom. */
export function Lanes(props: LanesProps) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const drawn = useRef<Drawn[]>([]);
  const latest = useRef(props);
  const drag = useRef<{ readonly x: number; now: number } | null>(null);
  latest.current = props;
  const lanes = lanesOf(props);
  const height = AXIS_PX + Math.max(1, lanes.size) * LANE_PX;

  useEffect(() => {
    const element = canvas.current!;
    let due = 0;
    const redraw = (): void => {
      cancelAnimationFrame(due);
      due = requestAnimationFrame(() => {
        drawn.current = draw(element, latest.current, drag.current);
      });
    };
    redraw();
    const observer = new ResizeObserver(redraw);
    observer.observe(element);
    const endTheme = onTheme(redraw);
    return () => {
      cancelAnimationFrame(due);
      observer.disconnect();
      endTheme();
    };
  });

  const timeAt = (x: number): number => {
    const { from, to } = latest.current.window;
    const width = canvas.current!.clientWidth - LABEL_PX;
    return from + ((x - LABEL_PX) / width) * (to - from);
  };
  const zoom = (factor: number, around: number): void => {
    const { from, to } = latest.current.window;
    const span = Math.min(LONGEST_MS, Math.max(SHORTEST_MS, (to - from) * factor));
    const share = (around - from) / (to - from);
    latest.current.onWindow({ from: around - span * share, to: around + span * (1 - share) });
  };
  const pan = (share: number): void => {
    const { from, to } = latest.current.window;
    const by = (to - from) * share;
    latest.current.onWindow({ from: from + by, to: to + by });
  };
  useEffect(() => {
    const element = canvas.current!;
    // Preact listens passively, which could not keep the page from scrolling.
    const onWheel = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.shiftKey && Math.abs(event.deltaX) <= Math.abs(event.deltaY)) return;
      event.preventDefault();
      if (event.ctrlKey) zoom(Math.exp(event.deltaY / 300), timeAt(event.offsetX));
      else pan((event.deltaX === 0 ? event.deltaY : event.deltaX) / element.clientWidth);
    };
    element.addEventListener('wheel', onWheel, { passive: false });
    return () => element.removeEventListener('wheel', onWheel);
  }, []);

  const onKey = (event: KeyboardEvent): void => {
    const { from, to } = latest.current.window;
    if (event.key === 'ArrowLeft') pan(-0.2);
    else if (event.key === 'ArrowRight') pan(0.2);
    else if (event.key === '+' || event.key === '=') zoom(0.5, (from + to) / 2);
    else if (event.key === '-') zoom(2, (from + to) / 2);
    else return;
    event.preventDefault();
  };
  return (
    <canvas
      ref={canvas}
      class="lanes"
      style={{ height: `${height}px` }}
      tabIndex={0}
      role="img"
      aria-label={`${props.calls.length} calls in ${lanes.size} lanes; arrow keys pan, plus and minus zoom; the table below has the same calls`}
      onKeyDown={onKey}
      onPointerDown={(event) => {
        drag.current = { x: event.offsetX, now: event.offsetX };
        event.currentTarget.setPointerCapture(event.pointerId);
      }}
      onPointerMove={(event) => {
        const element = event.currentTarget;
        const over = found(drawn.current, event.offsetX, event.offsetY);
        element.title = over === null ? '' : callName(over.call.call);
        if (drag.current === null) return;
        drag.current.now = event.offsetX;
        drawn.current = draw(element, latest.current, drag.current);
      }}
      onPointerUp={(event) => {
        const dragged = drag.current;
        drag.current = null;
        if (dragged === null) return;
        if (Math.abs(event.offsetX - dragged.x) < 5) {
          latest.current.onSelect(found(drawn.current, event.offsetX, event.offsetY)?.call ?? null);
          return;
        }
        const [from, to] = [timeAt(dragged.x), timeAt(event.offsetX)].sort((a, b) => a - b) as [number, number];
        latest.current.onWindow({ from, to: Math.max(to, from + SHORTEST_MS) });
      }}
    />
  );
}

/** The lanes and their places, by name. */
function lanesOf({ calls, laneOf }: Pick<LanesProps, 'calls' | 'laneOf'>): ReadonlyMap<string, number> {
  const names = [...new Set(calls.map(({ call }) => laneOf(call)))].sort();
  return new Map(names.map((name, at) => [name, at]));
}

function draw(
  canvas: HTMLCanvasElement,
  props: LanesProps,
  drag: { readonly x: number; readonly now: number } | null,
): Drawn[] {
  const { calls, laneOf, window, selected } = props;
  const scale = devicePixelRatio;
  const [width, height] = [canvas.clientWidth, canvas.clientHeight];
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = canvas.getContext('2d')!;
  context.scale(scale, scale);
  const style = getComputedStyle(canvas);
  const colour = (name: string): string => style.getPropertyValue(`--${name}-ink`) || style.color;
  context.font = `12px ${style.fontFamily}`;
  context.textBaseline = 'middle';
  const lanes = lanesOf(props);
  const perMs = (width - LABEL_PX) / (window.to - window.from);
  const xOf = (time: number): number => LABEL_PX + (time - window.from) * perMs;

  drawAxis(context, props, width, height, colour);
  for (const [name, at] of lanes) {
    const y = AXIS_PX + at * LANE_PX;
    context.fillStyle = colour('line');
    context.fillRect(0, y, width, 1);
    context.fillStyle = colour('text');
    context.fillText(shortened(context, name), 6, y + LANE_PX / 2);
  }
  const bars: Drawn[] = [];
  /** Where each row of each lane is free again. */
  const free = new Map<number, number[]>();
  context.save();
  context.beginPath();
  context.rect(LABEL_PX, 0, width - LABEL_PX, height);
  context.clip();
  for (const one of calls) {
    if (one.to < window.from || one.from > window.to) continue;
    const lane = lanes.get(laneOf(one.call))!;
    const x = Math.max(LABEL_PX - 2, xOf(one.from));
    const barWidth = Math.max(2, Math.min(width + 2, xOf(one.to)) - x);
    const rows = free.get(lane) ?? new Array<number>(ROWS).fill(Number.NEGATIVE_INFINITY);
    free.set(lane, rows);
    let row = rows.findIndex((until) => until <= x);
    if (row < 0) row = ROWS - 1;
    rows[row] = x + barWidth + 1;
    const y = AXIS_PX + lane * LANE_PX + 4 + row * ROW_PX;
    context.fillStyle = colour(toneOfCall(one.call));
    context.fillRect(x, y, barWidth, ROW_PX - 2);
    const { waitedMs } = one.call;
    if (waitedMs !== null && waitedMs * perMs > 2) {
      context.fillStyle = colour('wait');
      context.fillRect(x, y, Math.min(barWidth, waitedMs * perMs), ROW_PX - 2);
    }
    if (one.call.id === selected) {
      context.strokeStyle = colour('text');
      context.lineWidth = 2;
      context.strokeRect(x - 2, y - 2, barWidth + 4, ROW_PX + 2);
    }
    bars.push({ call: one, x, y, width: barWidth });
  }
  context.restore();
  if (drag !== null) {
    context.globalAlpha = 0.2;
    context.fillStyle = colour('text');
    context.fillRect(Math.min(drag.x, drag.now), AXIS_PX, Math.abs(drag.now - drag.x), height - AXIS_PX);
    context.globalAlpha = 1;
  }
  return bars;
}

function drawAxis(
  context: CanvasRenderingContext2D,
  { window }: LanesProps,
  width: number,
  height: number,
  colour: (name: string) => string,
): void {
  const perMs = (width - LABEL_PX) / (window.to - window.from);
  const step = STEPS_MS.find((ms) => ms * perMs >= 90) ?? STEPS_MS.at(-1)!;
  for (let time = Math.ceil(window.from / step) * step; time < window.to; time += step) {
    const x = LABEL_PX + (time - window.from) * perMs;
    context.fillStyle = colour('line');
    context.fillRect(x, 0, 1, height);
    context.fillStyle = colour('soft');
    context.fillText(clock(time, step < 1000), x + 4, AXIS_PX / 2);
  }
}

function shortened(context: CanvasRenderingContext2D, text: string): string {
  let short = text;
  while (short.length > 1 && context.measureText(short).width > LABEL_PX - 12) short = `${short.slice(0, -2)}…`;
  return short;
}

function found(bars: readonly Drawn[], x: number, y: number): Drawn | null {
  return (
    bars.findLast((bar) => x >= bar.x - 2 && x <= bar.x + bar.width + 2 && y >= bar.y - 1 && y <= bar.y + ROW_PX) ??
    null
  );
}
