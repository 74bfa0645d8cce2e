import { openApp } from '../../app/open-app.ts';
import { findConfig } from '../../config/files/find-config.ts';
import { OPERATOR } from '../../model/client-profile.ts';
import type { CredentialView, StartedLogin } from '../../model/credentials.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { ControlClient, serverPath } from '../access/control-client.ts';
import { findRunning } from '../access/find-running.ts';
import type { CommandInput } from '../command-input.ts';
import { commandLogger } from '../command-logger.ts';
import { CommandError, cannotOpen, EXIT, type ExitCode, noSuch } from '../exit-code.ts';
import { loadOptions } from '../sources.ts';

/** Logins by a command: through the running gateway, or with the data folder of a gateway that does not run. */
export interface CredentialAccess {
  /**
   * `redirectUri`: null for a login with a user code, undefined to return to the gateway. `principal`: null for the credential
   * that all callers share, or for that of the operator.
   */
  begin(server: string, redirectUri: string | null | undefined, principal: string | null): Promise<StartedLogin>;
  finish(url: string): Promise<CredentialView>;
  /** Resolves when the login has ended. */
  waitForEnd(id: string): Promise<CredentialView>;
  list(): Promise<readonly CredentialView[]>;
  /** Resolves with false if there was no credential. */
  revoke(server: string, principal: string | null): Promise<boolean>;
  close(): Promise<void>;
}

export async function credentialAccess(input: CommandInput): Promise<CredentialAccess> {
  const running = await findRunning({ ...input, serverCommand: [] });
  return running === null ? ofStopped(input) : ofRunning(new ControlClient(running));
}

function ofRunning(client: ControlClient): CredentialAccess {
  const post = async <T>(path: string, body: object): Promise<T> =>
    JSON.parse(await client.post(path, JSON.stringify(body))) as T;
  const path = (server: string) => `${serverPath(server)}/login`;
  const list = async (): Promise<readonly CredentialView[]> =>
    (JSON.parse(await client.get('/api/v1/credentials')) as { credentials: CredentialView[] }).credentials;
  return {
    list,
    begin: (server, redirectUri, principal) => post(path(server), { redirectUri, principal }),
    finish: (url) => post('/api/v1/login-redirects', { url }),
    async waitForEnd(id) {
      for (;;) {
        const credential = JSON.parse(
          await client.get(`/api/v1/logins/${encodeURIComponent(id)}`),
        ) as CredentialView | null;
        if (credential !== null) return credential;
      }
    },
    async revoke(server, principal) {
      const own = principal ?? OPERATOR.id;
      const there = (await list()).some(
        (one) => one.server === server && (one.principal === principal || one.principal === own),
      );
      const query = principal === null ? '' : `?principal=${encodeURIComponent(principal)}`;
      if (there) await client.send('DELETE', `${path(server)}${query}`, null);
      return there;
    },
    close: async () => {},
  };
}

async function ofStopped(input: CommandInput): Promise<CredentialAccess> {
  const { terminal } = input;
  const file = input.file ?? findConfig(terminal.cwd) ?? undefined;
  const load = loadOptions({ ...input, serverCommand: [], file }, true);
  const logger = commandLogger(input);
  const opened = await openApp({ load, logger, state: 'data', follow: false });
  if (!opened.ok) throw cannotOpen(opened.problem, terminal.cwd);
  const { app } = opened;
  const { logins } = app.components;
  const withCommandErrors = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await work;
    } catch (error) {
      if (!(error instanceof GatewayError)) throw error;
      const codes: Partial<Record<string, ExitCode>> = { NOT_SENT: EXIT.unreachable, INVALID_REQUEST: EXIT.usage };
      throw new CommandError(codes[error.code] ?? EXIT.authRequired, error.message);
    }
  };
  return {
    begin(name, redirectUri, principal) {
      const { servers } = app.state;
      const server = servers.get(name);
      if (server === undefined) throw noSuch(`server "${name}"`, name, [...servers.keys()]);
      if (redirectUri === undefined) throw new CommandError(EXIT.unreachable, 'no gateway runs here to come back to');
      return withCommandErrors(logins.begin(server, redirectUri, principal));
    },
    finish: (url) => withCommandErrors(logins.finish(url)),
    waitForEnd: (id) => withCommandErrors(logins.ended(id)),
    list: () => logins.list(),
    revoke: (server, principal) => withCommandErrors(logins.revoke(server, principal)),
    close: () => app.close('shutdown'),
  };
}
