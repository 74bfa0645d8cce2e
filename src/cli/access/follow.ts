import type { RunningGateway } from '../../app/running.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { ControlClient } from './control-client.ts';

/**
 * Reads an event stream of the gateway until Ctrl-C (exit code 0), until the reader of standard output closes it, as `head`
 * does (0), or until the gateway ends (4).
 */
export async function follow(
  running: RunningGateway,
  path: string,
  signal: AbortSignal | undefined,
  tell: (json: string) => void | Promise<void>,
): Promise<ExitCode> {
  const stop = new AbortController();
  const interrupted = (): void => stop.abort();
  signal?.addEventListener('abort', interrupted, { once: true });
  process.once('SIGINT', interrupted);
  process.once('SIGTERM', interrupted);
  process.stdout.once('error', interrupted);
  try {
    await new ControlClient(running).stream(path, stop.signal, tell);
  } finally {
    process.removeListener('SIGINT', interrupted);
    process.removeListener('SIGTERM', interrupted);
    process.stdout.removeListener('error', interrupted);
  }
  if (stop.signal.aborted) return EXIT.ok;
  throw new CommandError(EXIT.unreachable, `the gateway (pid ${running.instance.pid}) has ended`);
}
