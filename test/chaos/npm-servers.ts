import { mkdirSync, writeFileSync } from 'node:fs';
import { join, resolve } from 'node:path';

const MODULES = resolve(import.meta.dirname, '../../node_modules/@modelcontextprotocol');
/** Number of files and of entities in the file and memory servers. */
const THINGS = 50;

export interface NpmCall {
  readonly tool: string;
  readonly args: Record<string, unknown>;
  /** Whether this text is the answer to this call. */
  readonly answers: (text: string) => boolean;
}

/** A published server that keeps no ledger, but whose answers show what was asked. */
export interface NpmServer {
  readonly name: string;
  readonly definition: Record<string, unknown>;
  call(call: string, n: number): NpmCall;
}

/** Four servers as users install them from npm, on files of the folder. Whole numbers `n` choose what is asked. */
export function npmServers(folder: string, env: Record<string, string>): NpmServer[] {
  const files = join(folder, 'files');
  mkdirSync(files, { recursive: true });
  const memory = join(folder, 'memory.jsonl');
  const contentOf = (n: number): string => `what is written in file ${n}`;
  const nodes: string[] = [];
  for (let n = 0; n < THINGS; n++) {
    writeFileSync(join(files, `${n}.txt`), contentOf(n));
    nodes.push(JSON.stringify({ type: 'entity', name: `thing${n}`, entityType: 'thing', observations: [`seen ${n}`] }));
  }
  writeFileSync(memory, nodes.join('\n'));
  const server = (name: string, args: readonly string[], more: Record<string, string> = {}): object => ({
    command: process.execPath,
    args: [join(MODULES, `server-${name}/dist/index.js`), ...args],
    env: { ...env, ...more },
    isolation: 'shared',
  });
  return [
    {
      name: 'everything',
      definition: { ...server('everything', ['stdio']) },
      call: (call) => ({ tool: 'echo', args: { message: call }, answers: (text) => text === `Echo: ${call}` }),
    },
    {
      name: 'filesystem',
      definition: { ...server('filesystem', [files]) },
      call: (_call, n) => ({
        tool: 'read_text_file',
        args: { path: join(files, `${n % THINGS}.txt`) },
        answers: (text) => text === contentOf(n % THINGS),
      }),
    },
    {
      name: 'memory',
      definition: { ...server('memory', [], { MEMORY_FILE_PATH: memory }) },
      call: (_call, n) => ({
        tool: 'open_nodes',
        args: { names: [`thing${n % THINGS}`] },
        answers: (text) => text.includes(`"seen ${n % THINGS}"`) && text.split('"seen ').length === 2,
      }),
    },
    {
      name: 'thinking',
      definition: { ...server('sequential-thinking', [], { DISABLE_THOUGHT_LOGGING: 'true' }) },
      call: (call, n) => ({
        tool: 'sequentialthinking',
        args: { thought: call, nextThoughtNeeded: false, thoughtNumber: n + 1, totalThoughts: n + 1 },
        answers: (text) => text.includes(`"thoughtNumber": ${n + 1},`),
      }),
    },
  ];
}
