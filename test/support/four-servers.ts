import { resolve } from 'node:path';

const ROOT = resolve(import.meta.dirname, '../..');
const program = (name: string): string => resolve(ROOT, `node_modules/.bin/mcp-server-${name}`);

/** The four servers of `npm start`, as a configuration that works from any folder. */
export const FOUR_SERVERS = {
  mcpServers: {
    everything: { command: program('everything') },
    memory: { command: program('memory') },
    filesystem: { command: program('filesystem'), args: [resolve(ROOT, 'examples/files')] },
    'sequential-thinking': { command: program('sequential-thinking') },
  },
};

/** One harmless call on each of them, and what its answer contains. */
export const ONE_CALL_EACH = [
  { server: 'memory', tool: 'read_graph', args: {}, answer: 'entities' },
  {
    server: 'everything',
    tool: 'echo',
    args: { message: 'hello 12345678901234567890' },
    answer: 'hello 12345678901234567890',
  },
  { server: 'filesystem', tool: 'list_allowed_directories', args: {}, answer: 'examples/files' },
  {
    server: 'sequential-thinking',
    tool: 'sequentialthinking',
    args: { thought: 'one', nextThoughtNeeded: false, thoughtNumber: 1, totalThoughts: 1 },
    answer: 'thoughtHistoryLength',
  },
] as const;
