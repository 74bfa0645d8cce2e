import type { CallRecord } from '../model/call-record.ts';
import type { DetailedSecond } from '../telemetry/call-rates.ts';
import type { Journal } from '../telemetry/journal.ts';
import type { Recording } from '../telemetry/recorder/recording.ts';
import type { ControlPlane } from './control-plane.ts';
import type { EventWriter } from './operation.ts';
import { viewAt } from './recording-operations.ts';

const BATCH_MS = 200;
/** Maximum of one batch; a batch that omits calls sets `lost`. */
const CALLS_AT_ONCE = 500;
const ENTRIES_AT_ONCE = 256;
const NO_CALLS = { calls: 0, errors: 0, p50: null, p95: null, p99: null };

/** What the reader of a live stream selected. */
interface LiveSelection {
  readonly wanted: (call: CallRecord) => boolean;
  /** Server whose log is sent, or `*` for all servers; null for no log. */
  readonly logs: string | null;
}

/**
 * One reader of the live stream. It has no queue: while the reader takes nothing, the stream reads nothing, and it reports
 * entries that were overwritten meanwhile as missing.
 */
export class LiveStream {
  readonly #writer: EventWriter;
  readonly #plane: ControlPlane;
  readonly #watched: LiveSelection;
  readonly #stops: (() => void)[] = [];
  #events: number;
  #logs: number;
  #calls: number;
  /** Recordings that were active a second ago. */
  #active: readonly Recording[] = [];
  #blocked = false;

  constructor(writer: EventWriter, plane: ControlPlane, watched: LiveSelection, ended: () => void) {
    this.#writer = writer;
    this.#plane = plane;
    this.#watched = watched;
    const { events, logs, calls } = plane;
    this.#events = events.end;
    this.#logs = logs.end;
    this.#calls = calls.end;
    writer.onDrain = () => {
      this.#blocked = false;
    };
    writer.onClose = () => {
      this.#stop();
      ended();
    };
    this.#say({ topic: 'hello', node: calls.node, events: events.cursor(events.end) });
    const timer = setInterval(() => this.#batch(), BATCH_MS);
    timer.unref();
    this.#stops.push(
      () => clearInterval(timer),
      plane.rates.follow((second) => this.#stats(second)),
    );
  }

  close(): void {
    this.#stop();
    this.#writer.end();
  }

  #stop(): void {
    for (const stop of this.#stops.splice(0)) stop();
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
    const { calls: found, lost } = calls.after(this.#calls, CALLS_AT_ONCE + 1, wanted);
    this.#calls = calls.end;
    if (found.length === 0 && !lost) return;
    const skipped = found.length > CALLS_AT_ONCE;
    this.#say({ topic: 'calls', calls: found.slice(0, CALLS_AT_ONCE), lost: lost || skipped });
  }

  /** Sends the entries after `from` and returns the new position. */
  #entries(journal: Journal, topic: string | null, from: number, line: (json: string) => string): number {
    if (this.#blocked || from === journal.end) return from;
    const { end } = journal;
    const { entries, lost } = journal.after(from, topic, ENTRIES_AT_ONCE);
    if (lost) this.#write(line(JSON.stringify({ type: 'gap', reason: 'older entries were dropped' })));
    for (const { json } of entries) this.#write(line(json));
    return entries.length === ENTRIES_AT_ONCE ? entries.at(-1)!.seq : end;
  }

  #stats({ servers: rates, ...second }: DetailedSecond): void {
    if (this.#blocked) return;
    const { calls, upstreams, recorder } = this.#plane;
    const inFlight = new Map(
      upstreams
        .statuses()
        .map(({ name, connections }) => [name, connections.reduce((sum, one) => sum + one.inFlight, 0)]),
    );
    const recordings = [...new Set([...this.#active, ...recorder.active])].map((one) => viewAt(one, this.#plane));
    this.#active = recorder.active;
    const called = new Set(rates.map(({ server }) => server));
    const waiting = [...inFlight].filter(([name, calling]) => calling > 0 && !called.has(name));
    const servers = [...rates, ...waiting.map(([server]) => ({ server, ...NO_CALLS }))]
      .sort((a, b) => (a.server < b.server ? -1 : 1))
      .map((one) => ({ ...one, inFlight: inFlight.get(one.server) ?? 0 }));
    this.#say({
      topic: 'stats',
      node: calls.node,
      ...second,
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
