import { basename } from 'node:path';
import type { TransportSpec } from '../../model/server.ts';

/** These fetch what they run, unless it is in their cache. */
const FETCHING = new Set(['npx', 'uvx', 'bunx', 'pnpx', 'pipx']);
/** These do so with one of these words before the name of the program. */
const FETCHING_WITH: Readonly<Record<string, readonly string[]>> = {
  npm: ['exec', 'x'],
  pnpm: ['dlx'],
  yarn: ['dlx'],
  bun: ['x'],
  uv: ['run', 'tool'],
  docker: ['run'],
  podman: ['run'],
};

/** Whether the command of a local server fetches its program from a registry before it runs it. */
export function fetchesProgram(transport: TransportSpec): boolean {
  if (transport.type !== 'stdio') return false;
  const program = basename(transport.command);
  const word = transport.args.find((argument) => !argument.startsWith('-'));
  return FETCHING.has(program) || (FETCHING_WITH[program] ?? []).includes(word ?? '');
}
