import { fileURLToPath } from 'node:url';
import { systemClock } from '../../src/model/clock.ts';
import type { ProcessGuard, Startable } from '../../src/model/process-guard.ts';
import type { StdioSpec } from '../../src/model/server.ts';
import type { ProcessLog } from '../../src/upstream/process/log-limit.ts';
import { LADDER_TIMES, type LadderTimes } from '../../src/upstream/process/stop-ladder.ts';
import { StdioTransport, type StdioTransportOptions } from '../../src/upstream/transport/stdio-transport.ts';
import { RecordingReceiver } from '../contracts/recording-receiver.ts';
import { asSecrets } from './as-secrets.ts';

/** The ladder of the product, faster; the order of its steps is the same. */
export const FAST_LADDER: LadderTimes = {
  ...LADDER_TIMES,
  reasons: {
    remove: { closeMs: 200, terminateMs: 300 },
    shutdown: { closeMs: 200, terminateMs: 300 },
    interrupt: { closeMs: 0, terminateMs: 300 },
  },
  orphanMs: 300,
};

export function fixture(name: string): string {
  return fileURLToPath(new URL(`../fixtures/stdio/${name}`, import.meta.url));
}

/** Changes to the usual spec; the environment as plain texts. */
export interface SpecChange extends Partial<Omit<StdioSpec, 'env'>> {
  readonly env?: Readonly<Record<string, string>>;
}

export function stdioSpec(command: string, args: readonly string[] = [], more: SpecChange = {}): StdioSpec {
  const env = asSecrets(more.env ?? {});
  return { type: 'stdio', command, args, inheritEnv: false, cwd: process.cwd(), ...more, env };
}

export function nodeSpec(name: string, args: readonly string[] = [], more: SpecChange = {}): StdioSpec {
  return stdioSpec(process.execPath, [fixture(name), ...args], more);
}

export function shellSpec(script: string, more: SpecChange = {}): StdioSpec {
  return stdioSpec('sh', ['-c', script], more);
}

/** Keeps what was logged, and masks one secret. */
export class RecordingLog implements ProcessLog {
  readonly entries: { readonly event: string; readonly fields: Record<string, unknown> }[] = [];
  readonly #secret: string | null;

  constructor(secret: string | null = null) {
    this.#secret = secret;
  }

  redact(text: string): string {
    return this.#secret === null ? text : text.replaceAll(this.#secret, '[redacted]');
  }

  info(event: string, fields: Record<string, unknown> = {}): void {
    this.entries.push({ event, fields });
  }

  warn(event: string, fields: Record<string, unknown> = {}): void {
    this.entries.push({ event, fields });
  }

  publish(): void {}

  of(event: string): Record<string, unknown>[] {
    return this.entries.filter((entry) => entry.event === event).map((entry) => entry.fields);
  }
}

/** Notes which groups are registered, and guards nothing. */
export class RecordingGuard implements ProcessGuard {
  readonly registered = new Set<number>();

  start<T extends Startable>(spawn: (mark: Readonly<Record<string, string>>) => T): T {
    const child = spawn({});
    if (child.pid !== undefined) this.registered.add(child.pid);
    return child;
  }

  unregister(group: number): void {
    this.registered.delete(group);
  }
}

export interface StdioBench {
  readonly transport: StdioTransport;
  readonly receiver: RecordingReceiver;
  readonly log: RecordingLog;
  readonly guard: RecordingGuard;
  /** Sends `server.mjs` a request. */
  ask(id: number, params: Record<string, unknown>): void;
  /** Sends it and waits for its answer's `result.text`. */
  text(id: number, params: Record<string, unknown>): Promise<string>;
}

export function stdioBench(
  spec: StdioSpec,
  { secret, ...more }: Partial<StdioTransportOptions> & { readonly secret?: string } = {},
): StdioBench {
  const receiver = new RecordingReceiver();
  const log = new RecordingLog(secret);
  const guard = new RecordingGuard();
  const transport = new StdioTransport({
    server: 'fake',
    spec,
    maxMessageBytes: 16 * 1024 * 1024,
    guard,
    environment: process.env,
    clock: systemClock,
    logger: log,
    times: { ladder: FAST_LADDER },
    ...more,
  });
  const ask = (id: number, params: Record<string, unknown>): void => {
    const message = Buffer.from(JSON.stringify({ jsonrpc: '2.0', id, method: 'tools/call', params }));
    transport.send([message], { request: id, method: 'tools/call', headers: null });
  };
  return {
    transport,
    receiver,
    log,
    guard,
    ask,
    async text(id, params) {
      ask(id, params);
      const { bytes } = await receiver.answer(id);
      return JSON.parse(bytes.toString()).result.text;
    },
  };
}
