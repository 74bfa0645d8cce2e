import type { CredentialView } from '../../model/credentials.ts';
import { printable } from '../../model/printable.ts';
import { loginAdvice } from '../../model/server-state.ts';
import { type CommandInput, print } from '../command-input.ts';
import { EXIT, type ExitCode, usage } from '../exit-code.ts';
import { credentialAccess } from './credential-access.ts';

/** `trunkline connections`: the credentials for servers and the actions they need. */
export async function connections(input: CommandInput): Promise<ExitCode> {
  const access = await credentialAccess(input);
  try {
    const credentials = await access.list();
    print(input, { credentials }, () => connectionsText(credentials, Date.now()));
    return EXIT.ok;
  } finally {
    await access.close();
  }
}

function connectionsText(credentials: readonly CredentialView[], now: number): string {
  if (credentials.length === 0) return 'no credentials for servers; sign in with: trunkline login <server>\n';
  const width = Math.max(...credentials.map((one) => nameOf(one).length));
  return credentials.map((one) => `${connectionLine(one, width, now)}\n`).join('');
}

/** One line: server, state, expiry, and the remedy if one is needed. */
export function connectionLine(credential: CredentialView, width: number, now: number): string {
  const { server, principal, state, reason, issuer, expiresAt, refreshable, program } = credential;
  const until = refreshable
    ? program
      ? 'from its credential program'
      : 'renewed by the gateway'
    : expiresAt === null
      ? ''
      : `ends in ${duration(expiresAt - now)}`;
  const again = loginAdvice(server, undefined, principal).replace('sign in', 'sign in again');
  const facts = state === 'connected' ? [until, issuer ?? ''] : [reason ?? '', program ? '' : again];
  const words = [nameOf(credential).padEnd(width), state.replace('_', ' '), ...facts.filter((fact) => fact !== '')];
  return printable(words.join('  '));
}

function nameOf({ server, principal }: CredentialView): string {
  return principal === null ? server : `${server} (${principal})`;
}

function duration(ms: number): string {
  const minutes = Math.max(0, Math.round(ms / 60_000));
  if (minutes < 120) return `${minutes} min`;
  return minutes < 48 * 60 ? `${Math.round(minutes / 60)} h` : `${Math.round(minutes / 1440)} days`;
}

/** `trunkline logout <server>`. */
export async function logout(
  input: CommandInput & { readonly server: string; readonly principal: string | null },
): Promise<ExitCode> {
  const { server, principal } = input;
  const access = await credentialAccess(input);
  try {
    if (!(await access.revoke(server, principal))) {
      const whose = principal === null ? '' : ` of ${principal}`;
      const words = `there is no credential for ${server}${whose}; trunkline connections lists them, and --principal says whose`;
      throw usage(words);
    }
    print(input, { removed: server }, () => `signed out of ${server}\n`);
    return EXIT.ok;
  } finally {
    await access.close();
  }
}
