import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import type { FaultBench } from '../faults/fault-bench.ts';
import { nodeAtLowestPriority } from './lowest-priority.ts';
import type { Provocation } from './provoker.ts';

const TIMEOUT_MS = 1_000;

/** One kind of bad server: its definition, and the call that provokes the fault. */
export interface Neighbour {
  readonly kind: string;
  readonly definition: Record<string, unknown>;
  /** The tool that provokes the fault; null for a good server, beside which an unrelated process computes. */
  readonly tool: string | null;
  readonly args: Record<string, unknown>;
}

/**
 * Each way in which a server on a pipe, or behind a URL, can be bad; and, to show the effect of the machine alone, a good one
 * beside which a process computes.
 */
export function neighbours(bench: FaultBench, remote: BadRemote): Neighbour[] {
  const pipe = (kind: string, tool: string, args: Record<string, unknown> = {}): Neighbour => ({
    kind,
    definition: lowered(bench.stdio(`bad_${kind}`, 'stateful', { isolation: 'shared', timeoutMs: TIMEOUT_MS })),
    tool,
    args,
  });
  const far = (kind: string): Neighbour => ({
    kind,
    definition: { type: 'http', url: remote.url(kind), timeoutMs: TIMEOUT_MS },
    tool: 'anything',
    args: {},
  });
  const huge = (kind: string, mib: number): Neighbour => ({
    kind,
    definition: lowered({
      command: process.execPath,
      args: [join(import.meta.dirname, 'huge-pipe.ts')],
      isolation: 'shared',
      timeoutMs: TIMEOUT_MS,
    }),
    tool: 'big',
    args: { bytes: mib * 1024 * 1024 },
  });
  const loud = { text: 'x'.repeat(500), times: 5_000 };
  return [
    pipe('crashing', 'crash_after'),
    pipe('hanging', 'hang'),
    pipe('half_answers', 'half_and_die'),
    pipe('flooding', 'flood', { mib: 80 }),
    pipe('garbage', 'say', { text: 'this is no message\n', times: 5_000 }),
    pipe('strange_answers', 'say', { text: '{"jsonrpc":"2.0","id":424242,"result":{}}\n', times: 2_000 }),
    pipe('announcing', 'announce', { times: 5_000 }),
    pipe('complaining', 'complain', loud),
    huge('huge_answers', 10),
    huge('too_large', 20),
    pipe('deaf', 'stop_reading', { text: 'x'.repeat(100_000) }),
    { ...pipe('missing', 'safe'), definition: { command: `${bench.folder}/no-such-program` } },
    ...BAD_ANSWERS.map(far),
    { ...pipe('computing', 'safe'), tool: null },
  ];
}

function lowered(definition: Record<string, unknown>): Record<string, unknown> {
  const { args } = definition as { args: string[] };
  return { ...definition, ...nodeAtLowestPriority(args) };
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

/** The server of `bad-remote.ts`. */
export class BadRemote {
  readonly #child: ChildProcess;
  readonly #port: string;

  static async start(): Promise<BadRemote> {
    const { command, args } = nodeAtLowestPriority([join(import.meta.dirname, 'bad-remote.ts')]);
    const child = spawn(command, args, { stdio: ['pipe', 'pipe', 'inherit'], detached: true });
    const [port] = await once(child.stdout, 'data');
    return new BadRemote(child, String(port).trim());
  }

  private constructor(child: ChildProcess, port: string) {
    this.#child = child;
    this.#port = port;
  }

  url(kind: string): string {
    return `http://127.0.0.1:${this.#port}/${kind}`;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}

/** The caller that provokes the fault, as a process of its own. */
export class Provoker {
  readonly #child: ChildProcess;

  static async start(url: URL, { kind, tool, args }: Neighbour): Promise<Provoker> {
    const name = tool === null ? null : `bad_${kind}__${tool}`;
    const provocation: Provocation = { url: url.href, tool: name, args };
    const program = [join(import.meta.dirname, 'provoker.ts'), JSON.stringify(provocation)];
    const { command, args: all } = nodeAtLowestPriority(program);
    const child = spawn(command, all, { stdio: ['ignore', 'inherit', 'inherit', 'ipc'], detached: true });
    await once(child, 'message');
    return new Provoker(child);
  }

  private constructor(child: ChildProcess) {
    this.#child = child;
  }

  go(): void {
    this.#child.send('go');
  }

  /** How many of its calls got an answer of any kind. */
  async stop(): Promise<number> {
    this.#child.send('stop');
    const [answers] = (await once(this.#child, 'message')) as [number];
    return answers;
  }

  kill(): void {
    this.#child.kill('SIGKILL');
  }
}
