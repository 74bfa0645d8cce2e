import { hash } from 'node:crypto';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { ANONYMOUS, OPERATOR } from '../model/client-profile.ts';
import { pause } from '../model/clock.ts';
import type { Logins } from '../model/credential-ports.ts';
import { type CredentialView, LOGIN_MS, type StartedLogin } from '../model/credentials.ts';
import { GatewayError } from '../model/gateway-error.ts';
import { authOf, type Server, takesTokens } from '../model/server.ts';
import type { RegisteredClient } from './authorization.ts';
import { requestWithoutToken } from './challenge.ts';
import { definedClient } from './credential.ts';
import { type CredentialOwner, keyOf, ownerAt } from './credential-owner.ts';
import { SealedRecords, type StoredValue } from './credential-store.ts';
import type { ServerCredentials } from './credentials.ts';
import type { Authority } from './discovery.ts';
import { clientDocument } from './endpoints.ts';
import { errorAnswer, loginRefused, noLogin, refusesClient, toGatewayError } from './login-errors.ts';
import type { SignInTrace } from './sign-in-trace.ts';
import type { OAuthClient } from './token-endpoint.ts';

/** A login that has begun; every node can finish it. */
interface PendingLogin {
  readonly server: string;
  readonly principal: string | null;
  /** Digest of the secret of the only browser that may finish it; null or absent if any may. */
  readonly browser?: string | null;
  /** URL of the server. */
  readonly target: string;
  readonly url: string;
  readonly redirectUri: string | null;
  readonly verifier: string;
  readonly deviceCode: string | null;
  readonly userCode: string | null;
  readonly intervalMs: number;
  readonly authority: Authority;
  readonly client: OAuthClient;
  readonly scopes: readonly string[];
  readonly dpop: boolean;
  readonly expiresAt: number;
  /** The browser is back: a node has the code and requests the token. */
  readonly ending?: boolean;
}

/** The members of a login that lead to the stored client. */
type RegisteredLogin = Pick<PendingLogin, 'authority' | 'client' | 'redirectUri'>;

/** Called when a login has ended; `reason` says why it produced no credential, null if it did. */
type LoginEndListener = (
  server: string,
  end: { readonly principal: string | null; readonly login: string; readonly reason: string | null },
) => void;

/** Maximum number of concurrent logins for one credential that users without an operator's rights can begin. */
const MAX_BY_BROWSERS = 16;
/** Time for an exchange and a slow store. */
const ENDING_MS = 30_000;
const LOOK_MS = 250;
const DEVICE_CODE = 'urn:ietf:params:oauth:grant-type:device_code';
const BY_REDIRECT = { deviceCode: null, userCode: null, intervalMs: LOOK_MS };

/** Why no user can sign in at the server; null if one can. */
export function whyNoLogin(server: Server): string | null {
  if (!('url' in server.transport)) return 'it is not behind a URL, so there is nothing to sign in to';
  if (!takesTokens(server))
    return 'its definition has an Authorization header, so it takes no login; remove that first';
  const { exec, grant } = authOf(server);
  if (exec !== null) return 'it needs no login: its definition names a credential program';
  return grant === 'authorization_code' ? null : `it needs no login: its grant is ${grant}`;
}

/** Logins of users at servers: OAuth 2.1 with PKCE, or with a user code (RFC 8628). */
export class OAuthLogins implements Logins {
  readonly #credentials: ServerCredentials;
  readonly #trace: SignInTrace;
  readonly #onEnd: LoginEndListener;
  readonly #pending: SealedRecords<PendingLogin>;
  /** Dynamically registered clients (RFC 7591), by issuer and redirect URI. */
  readonly #clients: SealedRecords<RegisteredClient>;
  /** By login, so that each authorization server has one poll at a time. */
  readonly #waiting = new Map<string, Promise<CredentialView>>();

  constructor(credentials: ServerCredentials, trace: SignInTrace, onEnd: LoginEndListener) {
    const { records, sealing } = credentials.deps;
    this.#credentials = credentials;
    this.#trace = trace;
    this.#onEnd = onEnd;
    this.#pending = new SealedRecords(records, sealing, 'logins');
    this.#clients = new SealedRecords(records, sealing, 'oauth_clients');
  }

  begin(
    server: Server,
    redirectUri: string | null,
    principal: string | null,
    browser: string | null = null,
  ): Promise<StartedLogin> {
    return this.#withGatewayErrors(server.name, () =>
      this.#begin(this.#ownedBy(server, principal), redirectUri, browser),
    );
  }

  async #begin(server: Server, redirectUri: string | null, browser: string | null): Promise<StartedLogin> {
    const { name, transport } = server;
    const { clock, random } = this.#credentials.deps;
    const reason = whyNoLogin(server);
    if (reason !== null || !('url' in transport)) throw noLogin(reason ?? '');
    const auth = authOf(server);
    const owner = keyOf(ownerAt(server));
    const begun = (await this.#sweep()).filter((one) => keyOf(one) === owner);
    if (browser !== null && begun.length >= MAX_BY_BROWSERS)
      throw new GatewayError('OVERLOADED', 'too many logins are under way; try again in ten minutes');
    this.#trace.begin(name);
    const fetch = this.#credentials.fetchFor(name, transport.url);
    if (!this.#credentials.isChallenged(server)) await this.#requestChallenge(server, transport.url, fetch);
    const authority = await this.#credentials.discover(server, fetch);
    const scopes = this.#credentials.wantedScopes(server, authority);
    const client = definedClient(auth) ?? (await this.#client(fetch, authority, redirectUri));
    const id = random.hex(16);
    const verifier = random.hex(32);
    const { authorizationUrl, userCode } = await import('./authorization.ts');
    const expiresAt = clock.wall() + LOGIN_MS;
    const common = { ...ownerAt(server), target: transport.url, authority, client, scopes, dpop: auth.dpop, expiresAt };
    const ways =
      redirectUri === null
        ? await this.#withRegistration({ authority, client, redirectUri }, () =>
            userCode(fetch, authority, client, scopes),
          )
        : { url: await authorizationUrl(authority, client, scopes, redirectUri, verifier, id), ...BY_REDIRECT };
    const pending: PendingLogin = { ...common, ...ways, redirectUri, verifier, browser: digestOf(browser) };
    await this.#pending.put(id, pending, null);
    const { url } = pending;
    this.#trace.browser(name, 'authorization', url);
    return { id, server: name, url, userCode: pending.userCode, expiresAt };
  }

  async finish(redirected: string, browser: string | null = null): Promise<CredentialView> {
    const parameters = URL.parse(redirected)?.searchParams;
    const id = parameters?.get('state') ?? '';
    if (parameters === undefined || id === '')
      throw noLogin('the login: give the whole address that the browser was sent back to, from http to the end');
    const pending = await this.#withGatewayErrors('the login', () => this.#claimed(id, browser));
    let again = false;
    let reason: string | null = null;
    this.#trace.browser(pending.server, 'redirect', redirected);
    try {
      return await this.#withGatewayErrors(pending.server, async () => {
        const { codeIn } = await import('./authorization.ts');
        const { authority, client, redirectUri, verifier } = pending;
        return this.#withRegistration(pending, () => {
          const code = codeIn(parameters, authority, client, id);
          const more = { code, redirect_uri: redirectUri, code_verifier: verifier };
          return this.#granted(id, pending, 'authorization_code', more);
        });
      });
    } catch (error) {
      // The authorization server did not get the code, so the same address can be used again.
      again = (error as GatewayError).code === 'NOT_SENT';
      reason = (error as GatewayError).message;
      throw error;
    } finally {
      await (again ? this.#pending.put(id, pending) : this.#pending.delete(id)).catch(() => null);
      if (!again) this.#notifyEnd(id, pending, reason);
    }
  }

  /** Claims the login, because a code must be sent once and by one node (proto:T7). `ended` continues to wait meanwhile. */
  async #claimed(id: string, browser: string | null): Promise<PendingLogin> {
    const kept = await this.#open(id);
    if (kept?.value.browser != null && kept.value.browser !== digestOf(browser))
      throw loginRefused('it was begun in another browser, and can only end there');
    if (kept?.value.redirectUri != null && kept.value.ending !== true) {
      const expiresAt = this.#credentials.deps.clock.wall() + ENDING_MS;
      const claimed = await this.#pending.put(id, { ...kept.value, ending: true, expiresAt }, kept.revision);
      if (claimed !== null) return kept.value;
    }
    throw loginRefused('there is no such login, or it has ended, or ten minutes are over; begin it again');
  }

  ended(id: string): Promise<CredentialView> {
    let waiting = this.#waiting.get(id);
    if (waiting === undefined) {
      waiting = this.#ended(id).finally(() => this.#waiting.delete(id));
      this.#waiting.set(id, waiting);
    }
    return waiting;
  }

  async #ended(id: string): Promise<CredentialView> {
    const { clock } = this.#credentials.deps;
    const begun = (await this.#open(id))?.value;
    if (begun === undefined) throw loginRefused('there is no such login, or it has ended');
    const { server, deviceCode } = begun;
    for (let waitMs = begun.intervalMs; ; ) {
      // Read before the credential: when the login is gone, its result is in the store, and perhaps of another node.
      const over = (await this.#open(id)) === null;
      if (over) await this.#credentials.refresh();
      const done = this.#credentials.resultOf(begun, id);
      if (done !== null) return done;
      if (over) throw loginRefused(`${server}: the login was refused, or ten minutes are over`);
      await pause(clock, waitMs);
      // After `slow_down` the longer interval stays (RFC 8628 §3.5).
      if (deviceCode !== null && (await this.#poll(id, begun))) waitMs += 5_000;
    }
  }

  async list(): Promise<readonly CredentialView[]> {
    return this.#credentials.list();
  }

  async revoke(server: string, principal: string | null): Promise<boolean> {
    const own = principal === null ? { server, principal: OPERATOR.id } : null;
    const credential =
      (await this.#credentials.forget({ server, principal })) ?? (own && (await this.#credentials.forget(own)));
    if (credential === null) return false;
    try {
      const { revokeTokens } = await import('./authorization.ts');
      await revokeTokens(this.#credentials.fetchFor(server, credential.url), credential);
    } catch (error) {
      // The credential is deleted; until it expires, only its authorization server could still accept it.
      this.#credentials.deps.logger.warn('token_not_revoked', {
        server,
        reason: toGatewayError(server, error).message,
      });
    }
    return true;
  }

  /** The server with the owner of the credential as its caller. */
  #ownedBy(server: Server, principal: string | null): Server {
    const shared = authOf(server).per !== 'principal';
    if (shared && principal === null) return server;
    if (shared)
      throw noLogin('all its callers share one credential; "auth": { "per": "principal" } gives each its own');
    const { agents } = this.#credentials.deps.desired.state;
    const ids = [ANONYMOUS.id, OPERATOR.id, ...Array.from(agents.keys(), (name) => `agent:${name}`)];
    if (principal !== null && !ids.includes(principal)) {
      const words = principal.startsWith('agent:')
        ? `the configuration has no agent ${principal.slice(6, 70)}`
        : `there is no principal ${principal.slice(0, 64)}; those of agents are written agent:<name>`;
      throw noLogin(words);
    }
    return { ...server, caller: { digest: '', owner: principal ?? OPERATOR.id, of: server.connectionDigest } };
  }

  /** Gets a challenge from the server. The URL is the operator's own, so it may redirect and need not answer. */
  async #requestChallenge(server: Server, url: string, fetch: GuardedFetch): Promise<void> {
    const response = await requestWithoutToken(fetch, url).catch(() => null);
    const challenge = response?.status === 401 ? response.headers.get('www-authenticate') : null;
    if (challenge !== null) this.#credentials.recordChallenge(server, challenge);
  }

  /** The gateway's metadata document if the authorization server supports it, else a registration (proto:T8). */
  async #client(fetch: GuardedFetch, { metadata }: Authority, redirectUri: string | null): Promise<OAuthClient> {
    const document = clientDocument(this.#credentials.deps.clientMetadataUrl(), metadata);
    if (document !== null) return { id: document, secret: null, privateKey: null, authMethod: 'none' };
    const key = clientKey(metadata, redirectUri);
    const known = (await this.#clients.get(key))?.value;
    // The secret has to last until the end of the login.
    const neededUntil = this.#credentials.deps.clock.wall() + LOGIN_MS;
    if (known !== undefined && (known.secretExpiresAt ?? Number.POSITIVE_INFINITY) > neededUntil) return known;
    const { registerClient } = await import('./authorization.ts');
    const client = await registerClient(fetch, metadata, redirectUri);
    await this.#clients.put(key, client);
    return client;
  }

  /** Deletes the client if its authorization server refuses it, so that the next login registers the gateway again. */
  async #withRegistration<T>(login: RegisteredLogin, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (refusesClient(error)) await this.#unregister(login).catch(() => null);
      throw error;
    }
  }

  /** Deletes the stored client of the login, unless another one has replaced it or the definition names the client. */
  async #unregister({ authority, client, redirectUri }: RegisteredLogin): Promise<void> {
    const key = clientKey(authority.metadata, redirectUri);
    const stored = await this.#clients.get(key);
    if (stored?.value.id === client.id) await this.#clients.delete(key, stored.revision);
  }

  /** Whether the interval has to be longer. */
  async #poll(id: string, pending: PendingLogin): Promise<boolean> {
    try {
      const parameters = { device_code: pending.deviceCode };
      await this.#withRegistration(pending, () => this.#granted(id, pending, DEVICE_CODE, parameters));
      await this.#pending.delete(id);
      this.#notifyEnd(id, pending, null);
      return false;
    } catch (error) {
      const { code } = errorAnswer(error) ?? { code: '' };
      if (code === 'authorization_pending' || code === 'slow_down') return code === 'slow_down';
      const refused = toGatewayError(pending.server, error);
      // RFC 8628 §3.5: without an answer, ask less often.
      if (refused.code === 'NOT_SENT') return true;
      await this.#pending.delete(id);
      this.#notifyEnd(id, pending, refused.message);
      throw refused;
    }
  }

  #notifyEnd(login: string, { server, principal }: CredentialOwner, reason: string | null): void {
    const { logger } = this.#credentials.deps;
    this.#onEnd(server, { principal, login, reason: reason === null ? null : logger.redact(reason) });
  }

  async #granted(
    id: string,
    pending: PendingLogin,
    grant: string,
    parameters: Readonly<Record<string, string | null>>,
  ): Promise<CredentialView> {
    const { target: url, authority, client, scopes, dpop } = pending;
    const { clock, random } = this.#credentials.deps;
    const { requestTokens } = await import('./token-endpoint.ts');
    const fetch = this.#credentials.fetchFor(pending.server, url);
    const request = { fetch, authority, client, grant, parameters, clock, random };
    const got = await requestTokens({ ...request, key: dpop ? 'new' : null });
    const tokens = { ...got, scopes: got.scopes.length > 0 ? got.scopes : scopes };
    return this.#credentials.keep(pending, { url, authority, client, scopes, tokens, login: id });
  }

  async #open(id: string): Promise<StoredValue<PendingLogin> | null> {
    const found = /^[0-9a-f]{32}$/.test(id) ? await this.#pending.get(id) : null;
    return found !== null && found.value.expiresAt > this.#credentials.deps.clock.wall() ? found : null;
  }

  /** Deletes expired logins and resolves with the others. */
  async #sweep(): Promise<readonly PendingLogin[]> {
    const now = this.#credentials.deps.clock.wall();
    const all = await this.#pending.all();
    const late = all.filter(({ value }) => value.expiresAt <= now);
    for (const { key, value } of late) {
      // The authorization server may have forgotten the client and shown an error page instead of coming back.
      if (value.redirectUri !== null && value.ending !== true) await this.#unregister(value);
      await this.#pending.delete(key);
    }
    return all.flatMap(({ value }) => (value.expiresAt > now ? [value] : []));
  }

  async #withGatewayErrors<T>(server: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw toGatewayError(server, error);
    }
  }
}

function clientKey({ issuer }: Authority['metadata'], redirectUri: string | null): string {
  return JSON.stringify([issuer, redirectUri]);
}

function digestOf(browser: string | null): string | null {
  return browser === null ? null : hash('sha256', browser, 'hex');
}
