import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import type { Era } from '../../../src/model/message.ts';

/** A server as its users start it, from npm or PyPI. */
export interface Published {
  readonly name: string;
  readonly era: Era;
  readonly runs: 'npx' | 'uvx';
  /** `folder` is empty and its own. */
  readonly args: (folder: string) => readonly string[];
  readonly env?: (folder: string) => Readonly<Record<string, string>>;
  /** One harmless call that needs no other machine, and what its answer contains. */
  readonly call?: { readonly tool: string; readonly args: object; readonly answer: string };
}

const npx = (spec: string, ...args: string[]): readonly string[] => ['-y', spec, ...args];
const OFFICIAL = '@modelcontextprotocol/server';

/** Eight of each era. Six of the stateful ones, and one of the others, need nothing but their package. */
export const PUBLISHED: readonly Published[] = [
  {
    name: 'everything',
    era: 'stateful',
    runs: 'npx',
    args: () => npx(`${OFFICIAL}-everything@2026.8.31`),
    call: { tool: 'echo', args: { message: 'hello 12345678901234567890' }, answer: 'hello 12345678901234567890' },
  },
  {
    name: 'filesystem',
    era: 'stateful',
    runs: 'npx',
    args: (folder) => npx(`${OFFICIAL}-filesystem@2026.8.31`, folder),
    call: { tool: 'list_allowed_directories', args: {}, answer: 'filesystem' },
  },
  {
    name: 'memory',
    era: 'stateful',
    runs: 'npx',
    args: () => npx(`${OFFICIAL}-memory@2026.8.31`),
    env: (folder) => ({ MEMORY_FILE_PATH: join(folder, 'memory.jsonl') }),
    call: { tool: 'read_graph', args: {}, answer: 'entities' },
  },
  {
    // The latest version, as in most configurations: its start asks the registry every time.
    name: 'thinking',
    era: 'stateful',
    runs: 'npx',
    args: () => npx(`${OFFICIAL}-sequential-thinking@latest`),
    call: {
      tool: 'sequentialthinking',
      args: { thought: 'one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
      answer: 'thoughtHistoryLength',
    },
  },
  { name: 'chart', era: 'stateful', runs: 'npx', args: () => npx('@antv/mcp-server-chart@0.9.10') },
  {
    name: 'sqlite',
    era: 'stateful',
    runs: 'uvx',
    args: (folder) => ['--with', 'mcp<2', 'mcp-server-sqlite@2025.4.25', '--db-path', join(folder, 'some.db')],
    call: { tool: 'read_query', args: { query: 'SELECT 6 * 7 AS it' }, answer: '42' },
  },
  {
    name: 'calculator',
    era: 'stateful',
    runs: 'uvx',
    args: () => ['mcp-server-calculator@0.2.1'],
    call: { tool: 'calculate', args: { expression: '6*7' }, answer: '42' },
  },
  {
    name: 'arxiv',
    era: 'stateful',
    runs: 'uvx',
    args: (folder) => ['arxiv-mcp-server@0.8.2', '--storage-path', folder],
  },
  {
    name: 'time',
    era: 'stateless',
    runs: 'uvx',
    args: () => ['mcp-server-time@2026.10.19'],
    call: { tool: 'get_current_time', args: { timezone: 'UTC' }, answer: 'UTC' },
  },
  // The latest version, as above.
  { name: 'git', era: 'stateless', runs: 'uvx', args: () => ['mcp-server-git@latest'] },
  {
    name: 'fetch',
    era: 'stateless',
    runs: 'uvx',
    args: () => ['mcp-server-fetch@2026.10.24', '--ignore-robots-txt'],
  },
  { name: 'duckduckgo', era: 'stateless', runs: 'uvx', args: () => ['duckduckgo-mcp-server@0.7.0'] },
  { name: 'excel', era: 'stateless', runs: 'uvx', args: () => ['excel-mcp-server@2.2.2', 'stdio'] },
  { name: 'context7', era: 'stateless', runs: 'npx', args: () => npx('@upstash/context7-mcp@4.1.1') },
  { name: 'shadcn', era: 'stateless', runs: 'npx', args: () => npx('shadcn@4.23.0', 'mcp') },
  { name: 'mongodb', era: 'stateless', runs: 'npx', args: () => npx('mongodb-mcp-server@3.0.4') },
];

/** A folder of its own in `parent`. */
export function folderOf({ name }: Published, parent: string): string {
  const folder = join(parent, name);
  mkdirSync(folder, { recursive: true });
  return folder;
}
