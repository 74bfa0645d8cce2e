import { connect, type Socket } from 'node:net';
import type { HttpSocket } from '../../bench/load/http-socket.ts';
import type { Job } from '../../bench/load/job.ts';
import { Messages } from '../../bench/load/messages.ts';

/** A client with one session that keeps so little that thousands fit in one process. */
export class LeanClient {
  readonly #url: URL;
  readonly #messages: Messages;
  #stream: Socket | null = null;

  constructor(url: URL, era: 'stateful' | 'stateless' = 'stateful') {
    this.#url = url;
    this.#messages = new Messages({ url: url.href, era, tool: 'echo', toolPrefix: 'one__' } as Job);
  }

  /** Opens a session over a connection that others use too. Resolves with the HTTP status. */
  async open(socket: HttpSocket): Promise<number> {
    const reply = await socket.request(this.#messages.initialize());
    const { status } = reply;
    if (status !== 200) return status;
    this.#messages.session(reply.header('mcp-session-id') ?? '');
    await socket.request(this.#messages.initialized());
    return status;
  }

  /** Holds the session's own stream open on a connection of its own; resolves when its head is there. */
  listen(onClosed: () => void): Promise<void> {
    return new Promise((resolve, reject) => {
      const stream = connect(Number(this.#url.port), this.#url.hostname);
      this.#stream = stream;
      stream.on('error', reject);
      stream.on('close', onClosed);
      stream.once('data', () => {
        // Its few bytes are read, and thrown away.
        stream.resume();
        resolve();
      });
      stream.write(this.#messages.stream());
    });
  }

  /** A tool call as the bytes of a request; `args` without braces. */
  toolCall(id: number, tool: string, args: string, token: string | null = null): string {
    const meta = token === null ? '' : `,"_meta":{"progressToken":"${token}"}`;
    const params = `{"name":"one__${tool}","arguments":{"call":"c${id}"${args === '' ? '' : `,${args}`}}${meta}}`;
    const body = `{"jsonrpc":"2.0","id":${id},"method":"tools/call","params":${params}}`;
    // The head is that of a notification, which has everything but the length.
    const [head] = this.#messages.initialized().split('\r\n\r\n');
    return `${head!.replace(/content-length: \d+/, `content-length: ${body.length}`)}\r\n\r\n${body}`;
  }

  hangUp(): void {
    this.#stream?.destroy();
    this.#stream = null;
  }
}

/** Runs tasks 0…count-1, `lanes` at a time. */
export async function inLanes(
  count: number,
  lanes: number,
  task: (i: number, lane: number) => Promise<void>,
): Promise<void> {
  let next = 0;
  const run = async (lane: number): Promise<void> => {
    for (let i = next++; i < count; i = next++) await task(i, lane);
  };
  await Promise.all(Array.from({ length: Math.min(lanes, count) }, (_, lane) => run(lane)));
}

/** Durations of `calls` calls, one after the other. */
export async function timedCalls(client: LeanClient, socket: HttpSocket, calls: number): Promise<number[]> {
  const durations: number[] = [];
  for (let i = 0; i < calls; i++) {
    const before = performance.now();
    const { status } = await socket.request(client.toolCall(i + 1, 'safe', ''));
    if (status !== 200) throw new Error(`a call was answered ${status}`);
    durations.push(performance.now() - before);
  }
  return durations;
}
