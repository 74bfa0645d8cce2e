import type { CallRecord } from '../model/call-record.ts';
import type { Journal } from '../telemetry/journal.ts';
import type { Recording } from '../telemetry/recorder/recording.ts';
import type { ControlPlane } from './control-plane.ts';
import type { EventWriter } from './operation.ts';
import { viewAt } from './recording-operations.ts';
import type { ServerRate } from './schemas.ts';

const BATCH_MS = 200;
const STATS_MS = 1_000;
/** Of one batch; a batch with more says that calls are missing (`lost`). */
const CALLS_AT_ONCE = 500;
const ENTRIES_AT_ONCE = 256;

/** What a reader of the live stream has asked for. */
interface Asked {
  readonly wanted: (call: CallRecord) => boolean;
  /** A server, or `*`; null for no logs. */
  readonly logs: string | null;
}

/**
 * One reader of everything that happens: the page that shows it. It has no queue: while the reader takes nothing, nothing is
 * read, and what is overwritten meanwhile is said to be missing.
 */
export class LiveStream {
  readonly #writer: EventWriter;
  readonly #plane: ControlPlane;
  readonly #watched: Asked;
  readonly #stops: (() => void)[] = [];
  #events: number;
  #logs: number;
  #calls: number;
  #counted: number;
  /** Those that were active a second ago. */
  #active: readonly Recording[] = [];
  #blocked = false;

  constructor(writer: EventWriter, plane: ControlPlane, watched: Asked, ended: () => void) {
    this.#writer = writer;
    this.#plane = plane;
    this.#watched = watched;
    const { events, logs, calls } = plane;
    this.#events = events.end;
    this.#logs = logs.end;
    this.#calls = this.#counted = calls.end;
    writer.onDrain = () => {
      this.#blocked = false;
    };
    writer.onClose = () => {
      this.#stop();
      ended();
    };
    this.#say({
      topic: 'hello',
      node: calls.node,
      events: events.cursor(events.end),
      calls: calls.cursor(calls.end),
    });
    this.#every(BATCH_MS, () => this.#batch());
    this.#every(STATS_MS, () => this.#stats());
  }

  close(): void {
    this.#stop();
    this.#writer.end();
  }

  #stop(): void {
    for (const stop of this.#stops.splice(0)) stop();
  }

  #every(ms: number, task: () => void): void {
    const timer = setInterval(task, ms);
    timer.unref();
    this.#stops.push(() => clearInterval(timer));
  }

  #batch(): void {
    const { events, logs, calls } = this.#plane;
    const { wanted, logs: server } = this.#watched;
    const node = JSON.stringify(calls.node);
    const event = (json: string): string => `{"topic":"events","node":${node},"event":${json}}`;
    this.#events = this.#entries(events, null, this.#events, event);
    if (server !== null) {
      const topic = server === '*' ? null : server;
      this.#logs = this.#entries(logs, topic, this.#logs, (json) => `{"topic":"logs","node":${node},"entry":${json}}`);
    }
    if (this.#blocked || this.#calls === calls.end) return;
    const { calls: found, end, lost } = calls.after(this.#calls, CALLS_AT_ONCE, wanted);
    const skipped = end < calls.end;
    this.#calls = calls.end;
    if (found.length > 0 || lost) this.#say({ topic: 'calls', calls: found, lost: lost || skipped });
  }

  /** The new position. */
  #entries(journal: Journal, topic: string | null, from: number, line: (json: string) => string): number {
    if (this.#blocked || from === journal.end) return from;
    const { end } = journal;
    const { entries, lost } = journal.after(from, topic, ENTRIES_AT_ONCE);
    if (lost) this.#write(line(JSON.stringify({ type: 'gap', reason: 'older entries were dropped' })));
    for (const { json } of entries) this.#write(line(json));
    return entries.length === ENTRIES_AT_ONCE ? entries.at(-1)!.seq : end;
  }

  #stats(): void {
    const { calls, upstreams, clock } = this.#plane;
    const from = this.#counted;
    this.#counted = calls.end;
    if (this.#blocked) return;
    const byServer = Map.groupBy(calls.after(from, Number.POSITIVE_INFINITY).calls, ({ server }) => server ?? '');
    byServer.delete('');
    const inFlight = new Map(
      upstreams
        .statuses()
        .map(({ name, connections }) => [name, connections.reduce((sum, one) => sum + one.inFlight, 0)]),
    );
    const { recorder } = this.#plane;
    const recordings = [...new Set([...this.#active, ...recorder.active])].map((one) => viewAt(one, this.#plane));
    this.#active = recorder.active;
    const names = new Set([
      ...byServer.keys(),
      ...[...inFlight].filter(([, calling]) => calling > 0).map(([name]) => name),
    ]);
    const servers = [...names].sort().map((name) => rate(name, byServer.get(name) ?? [], inFlight.get(name) ?? 0));
    this.#say({
      topic: 'stats',
      node: calls.node,
      time: new Date(clock.wall()).toISOString(),
      calls: calls.end - from,
      sessions: this.#plane.openSessions(),
      servers,
      ...(recordings.length === 0 ? {} : { recordings }),
    });
  }

  #say(event: object): void {
    this.#write(JSON.stringify(event));
  }

  #write(json: string): void {
    if (!this.#writer.event(null, [Buffer.from(json)])) this.#blocked = true;
  }
}

function rate(server: string, calls: readonly CallRecord[], inFlight: number): ServerRate {
  const times = calls.map(({ ms }) => ms).sort((a, b) => a - b);
  const at = (share: number): number | null =>
    times[Math.min(times.length - 1, Math.floor(share * times.length))] ?? null;
  const errors = calls.filter(({ error }) => error !== null).length;
  return { server, calls: calls.length, errors, p50: at(0.5), p95: at(0.95), inFlight };
}
