import { createHash } from 'node:crypto';
import { basename } from 'node:path';
import type { Origin, Server } from '../../model/server.ts';
import type { ConfigProblem } from '../problem/problem.ts';
import { plainServer } from './plain-server.ts';

/** Stands for a definition with mistakes: has its name, its place and what is wrong with it, and is never started. */
export function misconfiguredServer(
  name: string,
  origin: Origin,
  problems: readonly ConfigProblem[],
  remote: boolean,
): Server {
  const misconfigured = problems.map(inOneLine).join('; ');
  const transport = remote
    ? ({ type: 'http', url: '', headers: {}, tls: {} } as const)
    : ({ type: 'stdio', command: '', args: [], env: {}, inheritEnv: false, cwd: '' } as const);
  return {
    ...plainServer(name, transport, origin),
    misconfigured,
    // Whatever is corrected needs a new start.
    connectionDigest: createHash('sha256').update(`misconfigured ${misconfigured}`).digest('hex'),
  };
}

function inOneLine({ code, file, line, column, message, fix }: ConfigProblem): string {
  const place = line === 0 ? basename(file) : `${basename(file)}:${line}:${column}`;
  return `${message} (${code}, ${place}); fix: ${fix}`;
}
