import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import { createInterface } from 'node:readline';
import { setTimeout as delay } from 'node:timers/promises';
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { FOUR_SERVERS, ONE_CALL_EACH } from './four-servers.ts';
import { childrenOf, MARK } from './processes.ts';
import type { RunningGateway } from './running-gateway.ts';

const RUN = resolve(import.meta.dirname, '../fixtures/clients/short-run.ts');
const SAMPLE_MS = 3_000;

/** What one short run of an agent saw. */
export interface ShortRun {
  /** From `connect` to its result. */
  readonly connectMs: number;
  /** Each call, in the order of the servers. The first one on each starts a process. */
  readonly callMs: readonly number[];
  /** The failures, in words; empty if there are none. */
  readonly problems: readonly string[];
}

/** Connects, lists the tools and calls one on each of the four servers, as an agent in CI does. Leaves the client connected. */
export async function shortRun(url: string): Promise<{ readonly client: Client; readonly run: ShortRun }> {
  const client = new Client({ name: 'short-run', version: '1' });
  const problems: string[] = [];
  const callMs: number[] = [];
  const begun = performance.now();
  await client.connect(new StreamableHTTPClientTransport(new URL(url)) as never);
  const connectMs = performance.now() - begun;
  const { tools } = await client.listTools();
  for (const { server, tool, args, answer } of ONE_CALL_EACH) {
    const name = `${server}__${tool}`;
    if (!tools.some((listed) => listed.name === name)) problems.push(`${name} is not listed`);
    const before = performance.now();
    const text = await client.callTool({ name, arguments: args }).then(JSON.stringify, String);
    callMs.push(performance.now() - before);
    if (!text.includes(answer)) problems.push(`${name}: ${text.slice(0, 300)}`);
  }
  return { client, run: { connectMs, callMs, problems } };
}

/** One run that ends without `DELETE`: the client closes its connections. */
export async function closedRun(url: string): Promise<ShortRun> {
  try {
    const { client, run } = await shortRun(url);
    await client.close();
    return run;
  } catch (error) {
    return { connectMs: 0, callMs: [], problems: [String(error)] };
  }
}

/** The same in a process of its own, which is killed when it has its answers. */
export async function killedRun(url: string): Promise<ShortRun> {
  const child = spawn(process.execPath, [RUN, url], { stdio: ['ignore', 'pipe', 'inherit'] });
  const ended = new Promise<void>((done) => child.once('exit', () => done()));
  try {
    for await (const line of createInterface({ input: child.stdout })) return JSON.parse(line) as ShortRun;
    return { connectMs: 0, callMs: [], problems: ['the client ended without a word'] };
  } finally {
    child.kill('SIGKILL');
    await ended;
  }
}

/** The four servers from npm, each process with the mark in its environment. */
export function markedServers(mark: string, keys: object = {}): Record<string, object> {
  const marked = Object.entries(FOUR_SERVERS.mcpServers).map(([name, server]) => [
    name,
    { ...server, env: { [MARK]: mark }, ...keys },
  ]);
  return Object.fromEntries(marked);
}

/** The peak number and memory of a gateway's server processes, sampled every few seconds. */
export interface ProcessPeak {
  processes: number;
  /** Resident, shared pages divided among those that share them. */
  proportionalMiB: number;
}

export function watchProcesses(gateway: RunningGateway): { readonly peak: ProcessPeak; stop(): Promise<void> } {
  const peak: ProcessPeak = { processes: 0, proportionalMiB: 0 };
  const stopped = new AbortController();
  const watching = (async () => {
    while (!stopped.signal.aborted) {
      const children = childrenOf(gateway.process.pid!).filter(([pid]) => isServer(pid));
      peak.processes = Math.max(peak.processes, children.length);
      let sum = 0;
      for (const [pid] of children) {
        sum += pssMiB(pid);
        // The clients are in this process.
        await delay(1);
      }
      peak.proportionalMiB = Math.max(peak.proportionalMiB, sum);
      await delay(SAMPLE_MS, undefined, { signal: stopped.signal }).catch(() => {});
    }
  })();
  return {
    peak,
    stop() {
      stopped.abort();
      return watching;
    },
  };
}

function isServer(pid: number): boolean {
  return textOf(`/proc/${pid}/cmdline`).includes('mcp-server-');
}

function pssMiB(pid: number): number {
  return Number(/^Pss:\s+(\d+)/m.exec(textOf(`/proc/${pid}/smaps_rollup`))?.[1] ?? 0) / 1024;
}

/** Empty for a process that has ended meanwhile. */
function textOf(file: string): string {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return '';
  }
}
