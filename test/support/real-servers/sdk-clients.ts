import { join, resolve } from 'node:path';
import type { AgentCall } from '../agents/agent.ts';
import { goPrograms } from '../made-once.ts';
import { runProgram } from '../run-program.ts';
import { uvFolder } from './uv.ts';

const PROGRAMS = resolve(import.meta.dirname, '../../fixtures/clients');
const PYTHON_SDK = 'mcp==2.3.0';
const AT_MOST_MS = 150_000;

/** What a client of an official SDK saw, each in its own process. */
export interface SdkRun {
  readonly version: string;
  readonly tools: readonly string[];
  readonly results: readonly string[];
}

export interface SdkClient {
  readonly name: string;
  /** Installs the client, for its use without a network. Resolves with false if that fails. */
  prepare(): Promise<boolean>;
  run(url: string, calls: readonly AgentCall[]): Promise<SdkRun>;
}

type Command = readonly [string, ...string[]];

async function outcome(command: Command, url: string, calls: readonly AgentCall[]): Promise<SdkRun> {
  const { code, out, err } = await runProgram([...command, url, JSON.stringify(calls)], { atMostMs: AT_MOST_MS });
  if (code !== 0) throw new Error(`${command[0]} ended with ${code}: ${err.slice(-2000)}`);
  return JSON.parse(out) as SdkRun;
}

async function succeeds(command: Command, cwd: string): Promise<boolean> {
  const { code } = await runProgram(command, { cwd, atMostMs: AT_MOST_MS }).catch(() => ({ code: null }));
  return code === 0;
}

const goClient = () => goPrograms('go-client', join(PROGRAMS, 'go'));
const GO: SdkClient = {
  name: 'Go SDK',
  prepare: () =>
    goClient().then(
      () => true,
      () => false,
    ),
  run: async (url, calls) => outcome([join(await goClient(), 'client')], url, calls),
};

const python = async (...args: string[]): Promise<Command> => [
  join((await uvFolder()) ?? '', 'uv'),
  'run',
  '--quiet',
  '--no-project',
  '--with',
  PYTHON_SDK,
  ...args,
];
const PYTHON: SdkClient = {
  name: 'Python SDK',
  prepare: async () => succeeds(await python('python', '-c', 'import mcp'), PROGRAMS),
  run: async (url, calls) => outcome(await python('--offline', join(PROGRAMS, 'python/client.py')), url, calls),
};

export const SDK_CLIENTS: readonly SdkClient[] = [GO, PYTHON];
