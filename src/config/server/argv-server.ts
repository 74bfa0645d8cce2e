import { basename, resolve } from 'node:path';
import type { Server } from '../../model/server.ts';
import { plainServer } from './plain-server.ts';
import { serverNameOf } from './server-names.ts';

/** Programs that run another program: the name of a server is that of what they run. */
const RUNNERS =
  /^(?:npx|pnpx|bunx|uvx|pipx|npm|pnpm|yarn|bun|node|deno|python3?|uv|docker|podman|sh|bash)(?:\.cmd|\.exe)?$/;
const VERBS = new Set(['run', 'exec', 'dlx', 'tool', 'x', '-m']);

/** The server that `trunkline -- npx -y some-server` means; null without words. */
export function argvServer(words: readonly string[], cwd: string): Server | null {
  const [command, ...args] = words;
  if (command === undefined || command === '') return null;
  const program = /[/\\]/.test(command) ? resolve(cwd, command) : command;
  // Whoever types the command has no file to declare variables in, and expects those of the shell.
  const transport = { type: 'stdio', command: program, args, env: {}, inheritEnv: true, cwd } as const;
  return plainServer(nameOf(words), transport, { file: '<command line>', line: 1, column: 1 });
}

/** `npx -y @scope/server-memory@1.2` → `memory`, `./bin/files.js` → `files`. */
function nameOf(words: readonly string[]): string {
  const [command = '', ...args] = words;
  const runs = RUNNERS.test(basename(command))
    ? args.find((arg) => !arg.startsWith('-') && !VERBS.has(arg))
    : undefined;
  const program = basename((runs ?? command).replace(/(?<=.)@[^@/]*$/, '')).replace(
    /\.(?:[cm]?[jt]s|py|sh|exe|cmd)$/,
    '',
  );
  const short = program.replace(/^(?:mcp-server-|server-|mcp-)(?=.)/, '').replace(/(?:-mcp-server|-mcp|-server)$/, '');
  return serverNameOf(short === '' ? program : short);
}
