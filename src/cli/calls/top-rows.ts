import { styleText } from 'node:util';
import type { Live } from '../../app/plane.ts';
import { duration } from '../../model/call-labels.ts';
import type { ServerRate } from '../../model/call-rates.ts';
import type { CallRecord } from '../../model/call-record.ts';
import { displayWidth, padOrTruncate } from '../screen/display-width.ts';
import { callLine } from './call-line.ts';

/** The statistics that a node sends each second. */
export type NodeStats = Pick<
  Extract<Live, { readonly topic: 'stats' }>,
  'topic' | 'node' | 'calls' | 'sessions' | 'servers'
>;

export interface TopFacts {
  readonly nodes: readonly NodeStats[];
  /** States by server. */
  readonly states: ReadonlyMap<string, string>;
  /** Calls of each server since `top` started. */
  readonly totals: ReadonlyMap<string, number>;
  readonly recent: readonly CallRecord[];
}

interface TopColumn {
  readonly title: string;
  readonly width: number;
  /** The column with the lowest rank is dropped first in a narrow window. */
  readonly rank: number;
  readonly text: (server: string) => string;
  readonly isBad?: (server: string) => boolean;
}

/** Least width of server names. Names are cut to a third of the window before a column is dropped. */
const LEAST_NAME = 8;

/** A table of the servers, busiest first, and the last calls below it, for a window of this size. */
export function topRows({ nodes, states, totals, recent }: TopFacts, columns: number, height: number): string[] {
  const sum = (of: (stats: NodeStats) => number): number => nodes.reduce((all, stats) => all + of(stats), 0);
  const rates = nodes.flatMap(({ servers }) => servers);
  const total = (server: string, of: (rate: ServerRate) => number): number =>
    rates.reduce((all, rate) => (rate.server === server ? all + of(rate) : all), 0);
  const worst = (server: string, of: (rate: ServerRate) => number | null): string => {
    const times = rates.filter((rate) => rate.server === server).flatMap((rate) => of(rate) ?? []);
    return times.length === 0 ? '-' : duration(Math.max(...times));
  };
  const calls = (server: string): number => total(server, (rate) => rate.calls);
  const errors = (server: string): number => total(server, (rate) => rate.errors);
  const names = [...states.keys()].sort((a, b) => calls(b) - calls(a) || (a < b ? -1 : 1));
  const all: readonly TopColumn[] = [
    { title: 'STATE', width: -13, rank: 3, text: (server) => states.get(server) ?? '' },
    { title: 'CALLS/S', width: 7, rank: 7, text: (server) => String(calls(server)) },
    { title: 'ERR/S', width: 7, rank: 6, text: (server) => String(errors(server)), isBad: (s) => errors(s) > 0 },
    { title: 'P50', width: 9, rank: 2, text: (server) => worst(server, ({ p50 }) => p50) },
    { title: 'P95', width: 9, rank: 5, text: (server) => worst(server, ({ p95 }) => p95) },
    { title: 'RUNNING', width: 7, rank: 4, text: (server) => String(total(server, ({ inFlight }) => inFlight)) },
    { title: 'SEEN', width: 9, rank: 1, text: (server) => String(totals.get(server) ?? 0) },
  ];
  const longest = Math.max(6, ...names.map(displayWidth));
  const shown = fitting(all, columns - Math.min(longest, Math.max(LEAST_NAME, Math.floor(columns / 3))));
  const width = Math.max(1, Math.min(longest, columns - widthOf(shown)));
  const row = (name: string, cell: (column: TopColumn) => string): string =>
    [padOrTruncate(name, width), ...shown.map(cell)].join(' ');
  const table = names.map((name) =>
    row(name, ({ title, text, isBad, ...column }) => {
      const cell = padOrTruncate(text(name), Math.abs(column.width), column.width > 0);
      return isBad === undefined ? cell : styleText(isBad(name) ? 'red' : 'gray', cell);
    }),
  );
  const head = `${sum((stats) => stats.calls)} calls/s   ${sum(({ sessions }) => sessions)} active sessions   ${nodes.length > 1 ? `${nodes.length} nodes   ` : ''}Ctrl-C ends`;
  const titles = row('SERVER', ({ title, width }) => padOrTruncate(title, Math.abs(width), width > 0));
  const space = Math.max(0, height - table.length - 4);
  const last = space === 0 ? [] : recent.slice(-space).reverse();
  return [
    styleText('bold', head),
    styleText('gray', titles),
    ...table,
    '',
    ...last.map((call) => callLine(call, columns)),
  ];
}

function widthOf(columns: readonly TopColumn[]): number {
  return columns.reduce((all, { width }) => all + 1 + Math.abs(width), 0);
}

/** The columns that fit after dropping those of lowest rank. */
function fitting(all: readonly TopColumn[], space: number): readonly TopColumn[] {
  let shown = all;
  while (shown.length > 0 && widthOf(shown) > space) {
    const lowest = Math.min(...shown.map(({ rank }) => rank));
    shown = shown.filter(({ rank }) => rank !== lowest);
  }
  return shown;
}
