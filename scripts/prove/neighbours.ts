import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import type { FaultBench, Servers } from '../../test/faults/fault-bench.ts';
import type { Provocation } from './provoker.ts';

const TIMEOUT_MS = 1_000;

/** One kind of a bad server: its definition, and what its callers do to bring it about. */
export interface Neighbour {
  readonly kind: string;
  readonly definition: Record<string, unknown>;
  /** The tool that brings it about. */
  readonly tool: string;
  readonly args: Record<string, unknown>;
}

/** Each way in which a server on a pipe, or behind a URL, can be bad. */
export function neighbours(bench: FaultBench, remote: BadRemote): Neighbour[] {
  const pipe = (
    kind: string,
    tool: string,
    args: Record<string, unknown> = {},
    more: Record<string, unknown> = {},
  ): Neighbour => ({
    kind,
    definition: bench.stdio(`bad_${kind}`, 'stateful', { isolation: 'shared', timeoutMs: TIMEOUT_MS, ...more }),
    tool,
    args,
  });
  const far = (kind: string): Neighbour => ({
    kind,
    definition: { type: 'http', url: remote.url(kind), timeoutMs: TIMEOUT_MS },
    tool: 'anything',
    args: {},
  });
  const loud = { text: 'x'.repeat(500), times: 5_000 };
  return [
    pipe('crashing', 'crash_after'),
    pipe('hanging', 'hang'),
    pipe('half_answers', 'half_and_die'),
    pipe('flooding', 'flood', { mib: 80 }),
    pipe('garbage', 'say', { text: 'this is no message\n'.repeat(5_000) }),
    pipe('strange_answers', 'say', { text: '{"jsonrpc":"2.0","id":424242,"result":{}}\n'.repeat(2_000) }),
    pipe('announcing', 'announce', { times: 5_000 }),
    pipe('complaining', 'complain', loud),
    pipe('huge_answers', 'big', { bytes: 10 * 1024 * 1024 }),
    pipe('too_large', 'big', { bytes: 20 * 1024 * 1024 }),
    pipe('deaf', 'stop_reading', { text: 'x'.repeat(100_000) }),
    { ...pipe('missing', 'safe'), definition: { command: `${bench.folder}/no-such-program` } },
    ...BAD_ANSWERS.map(far),
  ];
}

const BAD_ANSWERS = [
  'silent',
  'dripping',
  'failing',
  'redirecting',
  'forbidding',
  'other_type',
  'endless',
  'resetting',
];

/** One HTTP server that is bad in every way, by its path. */
export class BadRemote {
  readonly #server: Server;

  static async start(): Promise<BadRemote> {
    const server = createServer((request, response) => {
      request.resume();
      answer(request, response);
    });
    await new Promise<void>((done) => server.listen(0, '127.0.0.1', done));
    return new BadRemote(server);
  }

  private constructor(server: Server) {
    this.#server = server;
  }

  url(kind: string): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}/${kind}`;
  }

  close(): void {
    this.#server.closeAllConnections();
    this.#server.close();
  }
}

function answer(request: IncomingMessage, response: ServerResponse): void {
  const json = { 'content-type': 'application/json' };
  const event = { 'content-type': 'text/event-stream' };
  switch (request.url?.slice(1)) {
    case 'silent':
      return;
    case 'dripping': {
      response.writeHead(200, json);
      const drip = setInterval(() => response.write(' '), 50);
      response.on('close', () => clearInterval(drip));
      return;
    }
    case 'failing':
      response.writeHead(500, json).end('{}');
      return;
    case 'redirecting':
      response.writeHead(307, { location: '/redirecting' }).end();
      return;
    case 'forbidding':
      response.writeHead(401, { 'www-authenticate': 'Bearer' }).end();
      return;
    case 'other_type':
      response.writeHead(200, { 'content-type': 'text/html' }).end('<html>'.repeat(1_000));
      return;
    case 'endless': {
      response.writeHead(200, event);
      const comments = ': nothing\n\n'.repeat(1_000);
      const write = (): void => {
        while (!response.destroyed && response.write(comments));
      };
      response.on('drain', write);
      write();
      return;
    }
    default:
      response.destroy();
  }
}

/** Who provokes it, as a process of its own. */
export class Provoker {
  readonly #child: ChildProcess;

  static async start(url: URL, { kind, tool, args }: Neighbour): Promise<Provoker> {
    const provocation: Provocation = { url: url.href, tool: `bad_${kind}__${tool}`, args };
    const child = fork(join(import.meta.dirname, 'provoker.ts'), [JSON.stringify(provocation)]);
    await once(child, 'message');
    return new Provoker(child);
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  go(): void {
    this.#child.send('go');
  }

  stop(): void {
    this.#child.send('stop');
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

export function definitions(all: readonly Neighbour[]): Servers {
  return Object.fromEntries(all.map(({ kind, definition }) => [`bad_${kind}`, definition]));
}
