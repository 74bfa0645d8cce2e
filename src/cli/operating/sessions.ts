import { UNNAMED_CLIENT } from '../../model/call-labels.ts';
import { printable } from '../../model/printable.ts';
import { runningClient } from '../access/find-running.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode, noSuch } from '../exit-code.ts';

interface ListedSession {
  readonly label: string;
  readonly principal: string;
  readonly endpoint: string;
  readonly revision: string;
  readonly client: string | null;
  readonly lastSeenAt: string;
}

interface Sessions {
  readonly sessions: readonly ListedSession[];
  readonly total: number;
}

/** `trunkline sessions`: the open sessions of clients, most recently used first. */
export async function sessions(input: CommandInput): Promise<ExitCode> {
  const found = JSON.parse(await (await runningClient(input)).get('/api/v1/sessions')) as Sessions;
  const newest = found.sessions.toSorted((one, other) => (one.lastSeenAt < other.lastSeenAt ? 1 : -1));
  print(input, found, () => newest.map(sessionLine).join('') || 'there are no open sessions\n');
  if (found.total > newest.length) input.terminal.err(`(${newest.length} of ${found.total} sessions)\n`);
  return EXIT.ok;
}

/** `trunkline sessions end <label>`. */
export async function end(input: CommandInput & { readonly label: string }): Promise<ExitCode> {
  const client = await runningClient(input);
  const { label } = input;
  const path = `/api/v1/sessions/${encodeURIComponent(label)}`;
  // Asks for the session without looking it up first: a large cluster does not list all sessions.
  const answer = await client.send('DELETE', path, null).catch(async (error: Error) => {
    if ((error.cause as { readonly code?: unknown } | undefined)?.code !== 'session_unknown') throw error;
    const found = JSON.parse(await client.get('/api/v1/sessions')) as Sessions;
    const labels = found.sessions.map((one) => one.label);
    throw noSuch(`open session "${label}"`, label, labels, '; trunkline sessions lists them');
  });
  const ended = JSON.parse(answer) as object;
  print(input, { ...ended, label }, () => `the session ${label} has ended\n`);
  return EXIT.ok;
}

function sessionLine({ label, principal, endpoint, revision, client, lastSeenAt }: ListedSession): string {
  const name = client ?? UNNAMED_CLIENT;
  return `${printable([label, name.padEnd(24), revision, endpoint, principal, `used ${lastSeenAt}`].join('  '))}\n`;
}
