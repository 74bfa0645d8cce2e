import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { connect, type NatsConnection } from '@nats-io/transport-node';
import { Child, freePort } from '../targets/child.ts';

/** Traffic of nats-server since its start: received from clients and sent to them, JetStream included. */
export interface Traffic {
  readonly inBytes: number;
  readonly outBytes: number;
  readonly inMessages: number;
  readonly outMessages: number;
}

/** Published messages by kind of subject; each counts once, however many clients receive it. */
export type BySubject = ReadonlyMap<string, { readonly messages: number; readonly bytes: number }>;

const WINDOW_MS = 1_000;

/** A nats-server of the bench, with the meter of its traffic. */
export class BusMeter {
  readonly url: string;
  readonly #monitor: string;
  readonly #server: Child;
  readonly #folder: string;

  private constructor(server: Child, folder: string, port: number, monitor: number) {
    this.#server = server;
    this.#folder = folder;
    this.url = `nats://127.0.0.1:${port}`;
    this.#monitor = `http://127.0.0.1:${monitor}/varz`;
  }

  static async start(): Promise<BusMeter> {
    const folder = await mkdtemp(join(tmpdir(), 'trunkline-bench-scale-'));
    const [port, monitor] = [await freePort(), await freePort()];
    const config = join(folder, 'nats.conf');
    const store = `jetstream { store_dir: "${join(folder, 'nats')}" }`;
    await writeFile(config, `listen: "127.0.0.1:${port}"\nhttp: "127.0.0.1:${monitor}"\n${store}\n`);
    const server = new Child(['nats-server', '-c', config]);
    await server.listening(port);
    return new BusMeter(server, folder, port, monitor);
  }

  get pid(): number {
    return this.#server.pid;
  }

  async traffic(): Promise<Traffic> {
    const varz = (await (await fetch(this.#monitor)).json()) as Record<string, number>;
    const { in_bytes: inBytes = 0, out_bytes: outBytes = 0, in_msgs: inMessages = 0, out_msgs: outMessages = 0 } = varz;
    return { inBytes, outBytes, inMessages, outMessages };
  }

  /** The traffic while the work runs and until the bus is quiet, without the traffic of an idle bus. */
  async during(
    work: () => Promise<void>,
    idleBytesPerSecond: number,
    patienceMs: number,
    quietBytesPerSecond = idleBytesPerSecond * 1.5 + 20_000,
  ): Promise<{ readonly bytes: number; readonly messages: number; readonly ms: number; readonly quiet: boolean }> {
    const before = await this.traffic();
    const begun = performance.now();
    await work();
    let last = await this.traffic();
    let quietSince: number | null = null;
    for (;;) {
      const at = performance.now();
      await delay(WINDOW_MS);
      const now = await this.traffic();
      const rate = (bytesOf(now) - bytesOf(last)) / ((performance.now() - at) / 1000);
      last = now;
      if (rate > quietBytesPerSecond) quietSince = null;
      else quietSince ??= at;
      const quiet = quietSince !== null && performance.now() - quietSince >= 2 * WINDOW_MS;
      const ms = performance.now() - begun;
      if (!quiet && ms < patienceMs) continue;
      const bytes = bytesOf(now) - bytesOf(before) - (idleBytesPerSecond * ms) / 1000;
      const messages = now.inMessages + now.outMessages - before.inMessages - before.outMessages;
      return { bytes: Math.max(0, bytes), messages, ms, quiet };
    }
  }

  /** Counts by subject while the work runs. Meanwhile the copies that this connection receives add to the traffic. */
  async bySubject(work: () => Promise<void>): Promise<BySubject> {
    const connection: NatsConnection = await connect({ servers: this.url });
    const found = new Map<string, { messages: number; bytes: number }>();
    connection.subscribe('>', {
      callback: (_error, message) => {
        const kind = kindOf(message.subject);
        const one = found.get(kind) ?? { messages: 0, bytes: 0 };
        one.messages++;
        one.bytes += message.data.length;
        found.set(kind, one);
      },
    });
    await connection.flush();
    await work();
    await connection.close();
    return new Map([...found].sort(([, one], [, other]) => other.bytes - one.bytes));
  }

  async stop(): Promise<void> {
    await this.#server.stop();
    await rm(this.#folder, { recursive: true, force: true });
  }
}

export function bytesOf({ inBytes, outBytes }: Traffic): number {
  return inBytes + outBytes;
}

/** The subject, with a star in place of the words that name one node, key or request. */
function kindOf(subject: string): string {
  const words = subject.split('.');
  const known = words.findIndex((word, at) => at > 1 && (at === 3 || /\d|.{12}/.test(word)));
  const kept = known < 0 ? (words[1] === 'inbox' ? 2 : words.length) : known;
  return kept === words.length ? subject : [...words.slice(0, kept), '*'].join('.');
}
