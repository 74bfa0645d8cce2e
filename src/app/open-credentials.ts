import type { Records } from '../credentials/credential-store.ts';
import { ServerCredentials } from '../credentials/credentials.ts';
import { ExecCredentials } from '../credentials/exec-credentials.ts';
import { OAuthLogins } from '../credentials/logins.ts';
import { SignInTrace } from '../credentials/sign-in-trace.ts';
import { clientMetadataUrl, LoginPages } from '../downstream/login-pages.ts';
import { guardedFetch } from '../http/client/guarded-fetch.ts';
import type { Resolver } from '../http/client/resolver.ts';
import type { BodyBudget } from '../http/context/body-budget.ts';
import { Listener } from '../http/listener/listener.ts';
import type { Clock } from '../model/clock.ts';
import type { Authenticator } from '../model/ports.ts';
import type { Random } from '../model/random.ts';
import type { Sealing } from '../model/sealing.ts';
import type { Registry } from '../registry/registry.ts';
import type { Logger } from '../telemetry/logger.ts';
import { childEnvironment } from '../upstream/process/environment.ts';
import type { Reaper } from '../upstream/process/reaper.ts';
import { authority, listenerSettings } from './listener-settings.ts';

interface OpenCredentialsDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly registry: Registry;
  readonly records: Records;
  readonly sealing: Sealing;
  readonly resolver: Resolver;
  readonly guard: Reaper;
  readonly env: Readonly<Record<string, string | undefined>>;
  readonly authenticator: Authenticator;
  readonly bodies: BodyBudget;
  /** The gateway has no listener: the first login page opens one on a free loopback port. */
  readonly pagesOnDemand: boolean;
  readonly changed: (server: string, principal: string | null, gone: boolean) => Promise<void>;
  readonly loginEnded: ConstructorParameters<typeof OAuthLogins>[2];
}

/** Opens the credentials for servers, the logins that obtain them, and the pages on which users start logins. */
export async function openCredentials(deps: OpenCredentialsDeps) {
  const { clock, random, logger, registry, resolver, authenticator, bodies, guard, env } = deps;
  const changed = (server: string, principal: string | null, gone: boolean): void => {
    deps
      .changed(server, principal, gone)
      .catch((error: unknown) => logger.warn('server_not_restarted', { server, error }));
  };
  const programs = new ExecCredentials({
    clock,
    logger,
    guard,
    environment: childEnvironment({ env: {}, inheritEnv: false }, env),
    desired: registry,
    onRenewed: (server) => changed(server, null, false),
  });
  const trace = new SignInTrace(clock);
  const credentials = new ServerCredentials({
    programs,
    clock,
    random,
    logger,
    desired: registry,
    records: deps.records,
    sealing: deps.sealing,
    fetch: (server, inside, hosts, other) => (other ?? trace).through(server, guardedFetch(resolver, inside, hosts)),
    clientMetadataUrl: () => clientMetadataUrl(registry.state.listen.publicUrl),
    onChange: ({ server, principal }, gone) => changed(server, principal, gone),
  });
  await credentials.refresh();
  const logins = new OAuthLogins(credentials, trace, deps.loginEnded);
  let listener: Listener | null = null;
  const openOwn = async (pages: LoginPages): Promise<string | null> => {
    const settings = listenerSettings(registry.state, { host: '127.0.0.1', port: 0 });
    const opening = new Listener({ settings, log: logger, bodies });
    pages.register(opening.routes);
    try {
      const { host, port } = await opening.listen();
      listener = opening;
      return `http://${authority(host, port)}`;
    } catch (error) {
      logger.warn('login_page_not_open', { error });
      return null;
    }
  };
  const loginPages = new LoginPages({
    logins,
    credentials,
    authenticator,
    random,
    state: () => registry.state,
    openListener: deps.pagesOnDemand ? openOwn : null,
  });
  return {
    credentials,
    logins,
    loginPages,
    signIns: trace,
    async close(): Promise<void> {
      programs.close();
      await listener?.close(0);
    },
  };
}
