import '../../parts/inks.css';
import { useEffect, useRef } from 'preact/hooks';
import uPlot from 'uplot';
import 'uplot/dist/uPlot.min.css';
import { onTheme } from '../../theme.ts';
import { seconds } from './rates.ts';
import { KEPT_SECONDS } from './seconds.ts';

const HEIGHT_PX = 140;
const SERIES = ['p50', 'p95', 'p99'] as const;

/** Percentiles of the last five minutes. A line ends where there were no calls. */
export function LatencyChart() {
  const holder = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  useEffect(() => {
    const element = holder.current!;
    const draw = (): void => {
      plot.current?.destroy();
      plot.current = new uPlot(options(element), dataOf(), element);
    };
    draw();
    const observer = new ResizeObserver(() => plot.current?.setSize({ width: element.clientWidth, height: HEIGHT_PX }));
    observer.observe(element);
    // Its colours are those of the theme, which it knows from the start only.
    const endTheme = onTheme(draw);
    return () => {
      observer.disconnect();
      endTheme();
      plot.current?.destroy();
    };
  }, []);
  useEffect(() => {
    plot.current?.setData(dataOf());
  }, [seconds.value]);
  return <div ref={holder} class="latency-chart" role="img" aria-label="Latency of calls in the last five minutes" />;
}

function dataOf(): uPlot.AlignedData {
  const all = seconds.value;
  return [all.map(({ time }) => time), ...SERIES.map((name) => all.map((second) => second[name]))];
}

function options(element: HTMLElement): uPlot.Options {
  const style = getComputedStyle(element);
  const ink = (name: string): string => style.getPropertyValue(`--${name}-ink`) || style.color;
  const axis = { stroke: ink('soft'), grid: { stroke: ink('line'), width: 1 }, ticks: { stroke: ink('line') } };
  const colours = { p50: ink('good'), p95: ink('warn'), p99: ink('bad') };
  return {
    width: Math.max(100, element.clientWidth),
    height: HEIGHT_PX,
    legend: { show: false },
    cursor: { show: false },
    scales: {
      x: { range: lastMinutes },
      y: { range: (_plot, _least, most) => [0, Math.max(1, most * 1.1)] },
    },
    axes: [
      { ...axis, space: 80 },
      { ...axis, space: 25, size: 70, values: (_plot, values) => values.map((ms) => `${ms} ms`) },
    ],
    series: [
      {},
      ...SERIES.map((label) => ({ label, stroke: colours[label], width: 1.5, points: { show: false, filter: alone } })),
    ],
  };
}

function lastMinutes(): [number, number] {
  const last = seconds.value.at(-1)?.time ?? Date.now() / 1000;
  return [last - KEPT_SECONDS, last];
}

/** Seconds with calls between seconds without: they are drawn as points. */
function alone({ data }: uPlot, series: number): number[] {
  const values = Array.from<number | null | undefined>(data[series]!);
  const isKnown = (at: number): boolean => typeof values[at] === 'number';
  return [...values.keys()].filter((at) => isKnown(at) && !isKnown(at - 1) && !isKnown(at + 1));
}
