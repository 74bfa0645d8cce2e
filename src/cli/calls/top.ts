import { styleText } from 'node:util';
import type { CallRecord } from '../../model/call-record.ts';
import { duration } from '../../model/call-words.ts';
import { ControlClient } from '../access/control-client.ts';
import { needRunning } from '../access/find-running.ts';
import { follow } from '../access/follow.ts';
import type { CommandInput } from '../command-input.ts';
import type { ExitCode } from '../exit-code.ts';
import { LiveRows } from '../screen/live-rows.ts';
import { callLine } from './call-line.ts';

interface Rate {
  readonly server: string;
  readonly calls: number;
  readonly errors: number;
  readonly p50: number | null;
  readonly p95: number | null;
  readonly inFlight: number;
}

interface Stats {
  readonly topic: 'stats';
  readonly node: string | null;
  readonly calls: number;
  readonly sessions: number;
  readonly servers: readonly Rate[];
}

/** A node that has said nothing for so long has gone: its last rates are not those of the moment. */
const SILENT_MS = 5_000;

type Live = Stats | { readonly topic: 'calls'; readonly calls: readonly CallRecord[] } | { readonly topic: 'events' };

/** The last calls that are kept for the rows below the servers. */
const RECENT = 100;

/**
 * `trunkline top`: what servers do at the moment, and the last calls, on a terminal rows that are drawn anew each second;
 * elsewhere, and with `--json`, one JSON line per second and node.
 */
export async function top(input: CommandInput & { readonly signal?: AbortSignal }): Promise<ExitCode> {
  const { terminal, flags } = input;
  const running = await needRunning(input);
  const screen = flags.json === true || !process.stdout.isTTY ? null : new LiveRows(process.stdout, () => '');
  const states = new Map<string, string>();
  const recent: CallRecord[] = [];
  const nodes = new Map<string, Stats & { readonly at: number }>();
  const totals = new Map<string, number>();
  const look = async (): Promise<void> => {
    const { servers } = JSON.parse(await new ControlClient(running).get('/api/v1/servers')) as {
      servers: { name: string; state: string }[];
    };
    states.clear();
    for (const { name, state } of servers) states.set(name, state);
  };
  await look();
  const ended = await follow(running, '/api/v1/live', input.signal, (json) => {
    const event = JSON.parse(json) as Live;
    if (event.topic === 'calls') recent.push(...event.calls.slice(-RECENT));
    else if (event.topic === 'events') void look().catch(() => {});
    else if (event.topic === 'stats') {
      const at = performance.now();
      nodes.set(event.node ?? '', { ...event, at });
      for (const [node, stats] of nodes) if (at - stats.at > SILENT_MS) nodes.delete(node);
      for (const { server, calls } of event.servers) totals.set(server, (totals.get(server) ?? 0) + calls);
      if (screen === null) terminal.out(`${json}\n`);
      else screen.draw(rows([...nodes.values()], states, totals, recent, screen.height));
    }
    recent.splice(0, recent.length - RECENT);
  });
  screen?.rest(true);
  return ended;
}

function rows(
  nodes: readonly Stats[],
  states: ReadonlyMap<string, string>,
  totals: ReadonlyMap<string, number>,
  recent: readonly CallRecord[],
  height: number,
): string[] {
  const sum = (of: (stats: Stats) => number): number => nodes.reduce((all, stats) => all + of(stats), 0);
  const rates = nodes.flatMap(({ servers }) => servers);
  const total = (server: string, of: (rate: Rate) => number): number =>
    rates.reduce((all, rate) => (rate.server === server ? all + of(rate) : all), 0);
  const worst = (server: string, of: (rate: Rate) => number | null): string => {
    const times = rates.filter((rate) => rate.server === server).flatMap((rate) => of(rate) ?? []);
    return times.length === 0 ? '-' : duration(Math.max(...times));
  };
  const head = `${sum(({ calls }) => calls)} calls/s   ${sum(({ sessions }) => sessions)} active sessions   ${nodes.length > 1 ? `${nodes.length} nodes   ` : ''}Ctrl-C ends`;
  const names = [...states.keys()].sort(
    (a, b) => total(b, ({ calls }) => calls) - total(a, ({ calls }) => calls) || (a < b ? -1 : 1),
  );
  const width = Math.max(6, ...names.map((name) => name.length));
  const table = names.map((name) => {
    const errors = total(name, (rate) => rate.errors);
    return [
      name.padEnd(width),
      (states.get(name) ?? '').padEnd(13),
      String(total(name, ({ calls }) => calls)).padStart(7),
      styleText(errors > 0 ? 'red' : 'gray', String(errors).padStart(7)),
      worst(name, ({ p50 }) => p50).padStart(9),
      worst(name, ({ p95 }) => p95).padStart(9),
      String(total(name, ({ inFlight }) => inFlight)).padStart(7),
      String(totals.get(name) ?? 0).padStart(9),
    ].join(' ');
  });
  const columns = `${'SERVER'.padEnd(width)} ${'STATE'.padEnd(13)} ${'CALLS/S'.padStart(7)} ${'ERR/S'.padStart(7)} ${'P50'.padStart(9)} ${'P95'.padStart(9)} ${'RUNNING'.padStart(7)} ${'SEEN'.padStart(9)}`;
  const space = Math.max(0, height - table.length - 4);
  const last = space === 0 ? [] : recent.slice(-space).reverse().map(callLine);
  return [styleText('bold', head), styleText('gray', columns), ...table, '', ...last];
}
