import { ControlClient } from './access/control-client.ts';
import { needRunning } from './access/find-running.ts';
import type { CommandInput } from './command-input.ts';
import { CommandError, EXIT, type ExitCode, noSuch } from './exit-code.ts';
import { logLine, type ParsedLogLine } from './log-line.ts';

export interface LogsInput extends CommandInput {
  readonly server: string | undefined;
  readonly follow: boolean;
  readonly lines: number;
  /** Calls off following; Ctrl-C where there is none. */
  readonly signal?: AbortSignal;
}

/**
 * `trunkline logs [server] [-f]`: what servers wrote to their standard error and what became of them. Following ends with
 * Ctrl-C, which is how it is meant to end (exit code 0), or with the gateway (4).
 */
export async function logs(input: LogsInput): Promise<ExitCode> {
  const { terminal, flags, server, follow, lines } = input;
  const running = await needRunning(input);
  const client = new ControlClient(running);
  if (server !== undefined) await isThere(client, server);
  const tell = (json: string): void =>
    terminal.out(flags.json === true ? `${json}\n` : `${logLine(JSON.parse(json) as ParsedLogLine)}\n`);
  const query = new URLSearchParams({ lines: String(lines), ...(server === undefined ? {} : { server }) });
  if (!follow) {
    const { entries } = JSON.parse(await client.get(`/api/v1/logs?${query}`)) as { entries: ParsedLogLine[] };
    for (const entry of entries) tell(JSON.stringify(entry));
    return EXIT.ok;
  }
  const stop = new AbortController();
  const interrupted = (): void => stop.abort();
  input.signal?.addEventListener('abort', interrupted, { once: true });
  process.once('SIGINT', interrupted);
  process.once('SIGTERM', interrupted);
  // The reader of our output has gone, as `head` does.
  process.stdout.once('error', interrupted);
  try {
    await client.stream(`/api/v1/logs/stream?${query}`, stop.signal, tell);
  } finally {
    process.removeListener('SIGINT', interrupted);
    process.removeListener('SIGTERM', interrupted);
    process.stdout.removeListener('error', interrupted);
  }
  if (stop.signal.aborted) return EXIT.ok;
  throw new CommandError(EXIT.unreachable, `the gateway (pid ${running.instance.pid}) has ended`);
}

async function isThere(client: ControlClient, server: string): Promise<void> {
  const { servers } = JSON.parse(await client.get('/api/v1/servers')) as { servers: { name: string }[] };
  const names = servers.map(({ name }) => name);
  if (!names.includes(server)) throw noSuch(`server "${server}"`, server, names);
}
