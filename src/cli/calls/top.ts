import type { CallRecord } from '../../model/call-record.ts';
import { ControlClient } from '../access/control-client.ts';
import { needRunning } from '../access/find-running.ts';
import { follow } from '../access/follow.ts';
import type { CommandInput } from '../command-input.ts';
import type { ExitCode } from '../exit-code.ts';
import { LiveRows } from '../screen/live-rows.ts';
import { type NodeStats, topRows } from './top-rows.ts';

/** A node without statistics for this long is dropped, so that the sums omit its last rates. */
const SILENT_MS = 5_000;

type Live =
  | NodeStats
  | { readonly topic: 'calls'; readonly calls: readonly CallRecord[] }
  | { readonly topic: 'events'; readonly event: { readonly type: string } };

/** Events within this time cause one read of the states. */
const LOOK_AFTER_MS = 300;
const CHANGES_STATES: ReadonlySet<string> = new Set(['state', 'added', 'replaced', 'removed', 'gap']);

/** Number of calls kept for the rows below the servers. */
const RECENT = 100;

/**
 * `trunkline top`: the current rates of servers, and the last calls. On a terminal, rows that are redrawn each second and when
 * the window is resized; elsewhere, and with `--json`, one JSON line per second and node.
 */
export async function top(input: CommandInput): Promise<ExitCode> {
  const { terminal, flags } = input;
  const running = await needRunning(input);
  const screen = flags.json === true || !process.stdout.isTTY ? null : new LiveRows(process.stdout, () => '');
  const states = new Map<string, string>();
  const recent: CallRecord[] = [];
  const nodes = new Map<string, NodeStats & { readonly at: number }>();
  const totals = new Map<string, number>();
  const look = async (): Promise<void> => {
    const { servers } = JSON.parse(await new ControlClient(running).get('/api/v1/servers')) as {
      servers: { name: string; state: string }[];
    };
    states.clear();
    for (const { name, state } of servers) states.set(name, state);
  };
  await look();
  let due: NodeJS.Timeout | undefined;
  const lookSoon = (): void => {
    due ??= setTimeout(() => {
      due = undefined;
      void look().catch(() => {});
    }, LOOK_AFTER_MS);
  };
  const draw = (): void =>
    screen?.draw(topRows({ nodes: [...nodes.values()], states, totals, recent }, screen.columns, screen.height));
  const show = (json: string): void => {
    const event = JSON.parse(json) as Live;
    if (event.topic === 'calls') recent.push(...event.calls.slice(-RECENT));
    else if (event.topic === 'events') {
      if (CHANGES_STATES.has(event.event.type)) lookSoon();
    } else if (event.topic === 'stats') {
      const at = performance.now();
      nodes.set(event.node ?? '', { ...event, at });
      for (const [node, stats] of nodes) if (at - stats.at > SILENT_MS) nodes.delete(node);
      for (const { server, calls } of event.servers) totals.set(server, (totals.get(server) ?? 0) + calls);
      if (screen === null) terminal.out(`${json}\n`);
      else draw();
    }
    recent.splice(0, recent.length - RECENT);
  };
  process.stdout.on('resize', draw);
  try {
    return await follow(running, '/api/v1/live', show);
  } finally {
    clearTimeout(due);
    process.stdout.off('resize', draw);
    screen?.pause(true);
  }
}
