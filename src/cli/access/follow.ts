import type { RunningGateway } from '../../app/running.ts';
import { CommandError, EXIT, type ExitCode } from '../exit-code.ts';
import { abortedBySignals } from '../interrupted.ts';
import { ControlClient } from './control-client.ts';

/**
 * Reads an event stream of the gateway until Ctrl-C (exit code 0), until the reader of standard output closes it, as `head`
 * does (0), or until the gateway ends (4).
 */
export async function follow(
  running: RunningGateway,
  path: string,
  onEvent: (json: string) => void | Promise<void>,
): Promise<ExitCode> {
  const wasStopped = await abortedBySignals(async (stop) => {
    const ended = (): void => stop.abort();
    process.stdout.once('error', ended);
    try {
      await new ControlClient(running).stream(path, stop.signal, onEvent);
    } finally {
      process.stdout.removeListener('error', ended);
    }
    return stop.signal.aborted;
  });
  if (wasStopped) return EXIT.ok;
  const { pid, controlUrl } = running.instance;
  const which = pid === 0 ? `at ${controlUrl}` : `(pid ${pid})`;
  throw new CommandError(EXIT.unreachable, `the gateway ${which} has ended`);
}
