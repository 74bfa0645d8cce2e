import * as oauth from 'oauth4webapi';
import type { GuardedFetch } from '../http/client/guarded-fetch.ts';
import { pause } from '../model/clock.ts';
import type { Logins } from '../model/credential-ports.ts';
import type { CredentialView, StartedLogin } from '../model/credentials.ts';
import type { Server } from '../model/server.ts';
import { SealedRecords } from './credential-store.ts';
import { authOf, definedClient, insideOf, type ServerCredentials, takesTokens } from './credentials.ts';
import type { Authority } from './discovery.ts';
import { loginRefused, noLogin, plainly } from './login-errors.ts';
import { authenticationOf, type OAuthClient, requestTokens } from './token-endpoint.ts';

/** A login between its begin and its end; every node can end it. */
interface PendingLogin {
  readonly server: string;
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
  /** Why it failed; null while it goes on. */
  readonly failed: string | null;
}

const LOGIN_MS = 600_000;
const LOOK_MS = 250;
const DEVICE_GRANT = 'urn:ietf:params:oauth:grant-type:device_code';

/** Logins of users at servers: OAuth 2.1 with PKCE, or with a user code (RFC 8628). */
export class OAuthLogins implements Logins {
  readonly #credentials: ServerCredentials;
  readonly #pending: SealedRecords<PendingLogin>;
  /** By issuer and redirect URI: registered dynamically (RFC 7591). */
  readonly #clients: SealedRecords<OAuthClient>;
  /** By login, so that its authorization server is asked once at a time. */
  readonly #waiting = new Map<string, Promise<CredentialView>>();

  constructor(credentials: ServerCredentials) {
    const { records, sealing } = credentials.deps;
    this.#credentials = credentials;
    this.#pending = new SealedRecords(records, sealing, 'logins');
    this.#clients = new SealedRecords(records, sealing, 'oauth_clients');
  }

  begin(server: Server, redirectUri: string | null): Promise<StartedLogin> {
    return this.#plainly(server.name, () => this.#begin(server, redirectUri));
  }

  async #begin(server: Server, redirectUri: string | null): Promise<StartedLogin> {
    const { name, transport } = server;
    const { clock, random, fetch: fetchFor } = this.#credentials.deps;
    if (!('url' in transport)) throw noLogin('it is not behind a URL, so there is nothing to sign in to');
    if (!takesTokens(server))
      throw noLogin('its definition has an Authorization header, so it takes no login; remove that first');
    const auth = authOf(server);
    if (auth.grant !== 'authorization_code') throw noLogin(`it needs no login: its grant is ${auth.grant}`);
    const fetch = fetchFor(insideOf(transport.url));
    if (!this.#credentials.isChallenged(server)) await this.#provoke(server, fetch);
    const authority = await this.#credentials.discover(server, fetch);
    const scopes = this.#credentials.wantedScopes(server, authority);
    const client = definedClient(auth) ?? (await this.#client(fetch, authority, redirectUri));
    const id = random.hex(16);
    const verifier = oauth.generateRandomCodeVerifier();
    const expiresAt = clock.wall() + LOGIN_MS;
    const common = { server: name, target: transport.url, authority, client, scopes, verifier, dpop: auth.dpop };
    const device = redirectUri === null ? await this.#device(fetch, authority, client, scopes) : null;
    const pending: PendingLogin = {
      ...common,
      url: device?.url ?? (await authorizationUrl(authority, client, scopes, redirectUri!, verifier, id)),
      redirectUri,
      deviceCode: device?.code ?? null,
      userCode: device?.userCode ?? null,
      intervalMs: device?.intervalMs ?? LOOK_MS,
      expiresAt,
      failed: null,
    };
    await this.#sweep();
    await this.#pending.put(id, pending, null);
    return started(id, pending);
  }

  async find(id: string): Promise<StartedLogin | null> {
    const pending = await this.#open(id);
    return pending === null ? null : started(id, pending);
  }

  async finish(redirected: string): Promise<CredentialView> {
    const parameters = new URL(redirected).searchParams;
    const id = parameters.get('state') ?? '';
    const kept = /^[0-9a-f]{32}$/.test(id) ? await this.#pending.get(id) : null;
    const pending = await this.#open(id);
    // A code is sent once, whatever comes of it, and by one node (proto:T7).
    const mine = pending?.redirectUri != null && kept !== null && (await this.#pending.delete(id, kept.revision));
    if (!mine) throw loginRefused('there is no such login, or it has ended, or ten minutes are over; begin it again');
    return this.#plainly(pending.server, async () => {
      const { authority, client, redirectUri, verifier } = pending;
      const valid = oauth.validateAuthResponse(authority.metadata, { client_id: client.id }, parameters, id);
      const code = { code: valid.get('code'), redirect_uri: redirectUri, code_verifier: verifier };
      return this.#granted(pending, 'authorization_code', code);
    });
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
    const begun = await this.#open(id);
    if (begun === null) throw loginRefused('there is no such login, or it has ended');
    const { server, changedAt } = { server: begun.server, changedAt: this.#of(begun.server)?.changedAt ?? 0 };
    for (let waitMs = begun.intervalMs; ; ) {
      const done = this.#of(server);
      if (done !== undefined && done.changedAt !== changedAt && done.state === 'connected') return done;
      const pending = await this.#open(id);
      if (pending === null) {
        const last = this.#of(server);
        if (last?.state === 'connected' && last.changedAt !== changedAt) return last;
        throw loginRefused(`${server}: the login was refused, or ten minutes are over`);
      }
      await pause(clock, waitMs);
      // Asked to slow down, it does so for good (RFC 8628 §3.5).
      if (pending.deviceCode !== null && (await this.#poll(id, pending))) waitMs += 5_000;
    }
  }

  async list(): Promise<readonly CredentialView[]> {
    return this.#credentials.list();
  }

  async revoke(server: string): Promise<boolean> {
    const credential = await this.#credentials.forget(server);
    if (credential === null) return false;
    const { authority, client, tokens, url } = credential;
    const { metadata } = authority;
    if (tokens === null || metadata.revocation_endpoint === undefined) return true;
    const options = {
      [oauth.customFetch]: this.#credentials.deps.fetch(insideOf(url)) as never,
      [oauth.allowInsecureRequests]: true,
    };
    const self = { client_id: client.id };
    const token = tokens.refresh ?? tokens.access;
    try {
      const authentication = await authenticationOf(client, metadata);
      await oauth.processRevocationResponse(
        await oauth.revocationRequest(metadata, self, authentication, token, options),
      );
    } catch (error) {
      // The gateway has forgotten it; until it ends, only its authorization server knows better.
      this.#credentials.deps.logger.warn('token_not_revoked', { server, reason: plainly(server, error).message });
    }
    return true;
  }

  #of(server: string): CredentialView | undefined {
    return this.#credentials.list().find((one) => one.server === server);
  }

  /** Has the server say what it wants, as a client without a token would hear it. */
  async #provoke(server: Server, fetch: GuardedFetch): Promise<void> {
    const { transport } = server;
    if (!('url' in transport)) return;
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream' };
    const body = '{"jsonrpc":"2.0","id":1,"method":"ping"}';
    // The operator's own URL, through the guard all the same: it may redirect, and need not answer.
    const response = await fetch(transport.url, { method: 'POST', headers, body }).catch(() => null);
    const challenge = response?.status === 401 ? response.headers.get('www-authenticate') : null;
    if (challenge !== null) this.#credentials.challenged(server, challenge);
  }

  /** The gateway's metadata document where the authorization server reads it, else a registration (proto:T8). */
  async #client(fetch: GuardedFetch, { metadata }: Authority, redirectUri: string | null): Promise<OAuthClient> {
    const document = this.#credentials.deps.clientMetadataUrl();
    if (document !== null && metadata['client_id_metadata_document_supported'] === true) {
      return { id: document, secret: null, privateKey: null, authMethod: 'none' };
    }
    const key = JSON.stringify([metadata.issuer, redirectUri]);
    const known = await this.#clients.get(key);
    if (known !== null) return known.value;
    if (metadata.registration_endpoint === undefined) {
      const advice = 'register a client there and set auth.clientId (and auth.clientSecret) in the definition';
      throw loginRefused(`its authorization server ${metadata.issuer} registers no clients; ${advice}`);
    }
    const native = redirectUri === null || insideOf(redirectUri);
    const methods = metadata.token_endpoint_auth_methods_supported ?? ['none'];
    const wanted = {
      client_name: 'Trunkline',
      redirect_uris: redirectUri === null ? [] : [redirectUri],
      grant_types: [redirectUri === null ? DEVICE_GRANT : 'authorization_code', 'refresh_token'],
      response_types: redirectUri === null ? [] : ['code'],
      token_endpoint_auth_method: methods.includes('none') ? 'none' : methods[0]!,
      application_type: native ? 'native' : 'web',
    };
    const client = await register(fetch, metadata, wanted);
    await this.#clients.put(key, client);
    return client;
  }

  async #device(
    fetch: GuardedFetch,
    { metadata, resource }: Authority,
    client: OAuthClient,
    scopes: readonly string[],
  ) {
    if (metadata.device_authorization_endpoint === undefined) {
      throw loginRefused(`its authorization server ${metadata.issuer} has no logins with a code; leave out --device`);
    }
    const parameters = {
      ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
      ...(resource === null ? {} : { resource }),
    };
    const options = { [oauth.customFetch]: fetch as never, [oauth.allowInsecureRequests]: true };
    const self = { client_id: client.id };
    const authentication = await authenticationOf(client, metadata);
    const response = await oauth.deviceAuthorizationRequest(metadata, self, authentication, parameters, options);
    const answer = await oauth.processDeviceAuthorizationResponse(metadata, self, response);
    return {
      url: answer.verification_uri,
      code: answer.device_code,
      userCode: answer.user_code,
      intervalMs: (answer.interval ?? 5) * 1000,
    };
  }

  /** Whether the authorization server wants to be asked less often. */
  async #poll(id: string, pending: PendingLogin): Promise<boolean> {
    try {
      await this.#granted(pending, DEVICE_GRANT, { device_code: pending.deviceCode });
      await this.#pending.delete(id);
      return false;
    } catch (error) {
      if (error instanceof oauth.ResponseBodyError && error.error === 'authorization_pending') return false;
      if (error instanceof oauth.ResponseBodyError && error.error === 'slow_down') return true;
      await this.#pending.delete(id);
      throw plainly(pending.server, error);
    }
  }

  async #granted(pending: PendingLogin, grant: string, parameters: Readonly<Record<string, string | null>>) {
    const { server, target: url, authority, client, scopes, dpop } = pending;
    const { clock, fetch } = this.#credentials.deps;
    const request = { fetch: fetch(insideOf(url)), authority, client, grant, parameters, now: clock.wall() };
    const got = await requestTokens({ ...request, key: dpop ? 'new' : null });
    const tokens = { ...got, scopes: got.scopes.length > 0 ? got.scopes : scopes };
    return this.#credentials.keep(server, { url, authority, client, scopes, tokens });
  }

  async #open(id: string): Promise<PendingLogin | null> {
    if (!/^[0-9a-f]{32}$/.test(id)) return null;
    const found = (await this.#pending.get(id))?.value ?? null;
    return found !== null && found.expiresAt > this.#credentials.deps.clock.wall() ? found : null;
  }

  /** Logins that were never ended. */
  async #sweep(): Promise<void> {
    const now = this.#credentials.deps.clock.wall();
    for (const { key, value } of await this.#pending.all()) if (value.expiresAt <= now) await this.#pending.delete(key);
  }

  async #plainly<T>(server: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      throw plainly(server, error);
    }
  }
}

function started(id: string, { server, url, userCode, expiresAt }: PendingLogin): StartedLogin {
  return { id, server, url, userCode, expiresAt };
}

async function authorizationUrl(
  { metadata, resource }: Authority,
  client: OAuthClient,
  scopes: readonly string[],
  redirectUri: string,
  verifier: string,
  state: string,
): Promise<string> {
  const { authorization_endpoint: endpoint, code_challenge_methods_supported: methods } = metadata;
  if (endpoint === undefined || !/^https?:$/.test(URL.parse(endpoint)?.protocol ?? '')) {
    throw loginRefused(`its authorization server ${metadata.issuer} has no authorization endpoint`);
  }
  if (methods?.includes('S256') !== true) {
    throw loginRefused(
      `its authorization server ${metadata.issuer} does not offer PKCE with S256, which OAuth 2.1 demands`,
    );
  }
  const url = new URL(endpoint);
  const parameters = {
    response_type: 'code',
    client_id: client.id,
    redirect_uri: redirectUri,
    state,
    code_challenge: await oauth.calculatePKCECodeChallenge(verifier),
    code_challenge_method: 'S256',
    ...(scopes.length > 0 ? { scope: scopes.join(' ') } : {}),
    ...(scopes.includes('offline_access') ? { prompt: 'consent' } : {}),
    ...(resource === null ? {} : { resource }),
  };
  for (const [name, value] of Object.entries(parameters)) url.searchParams.set(name, value);
  return url.href;
}

/** Not by oauth4webapi: many authorization servers leave out what RFC 7591 demands of their answer beside the client's id. */
async function register(
  fetch: GuardedFetch,
  { issuer, registration_endpoint: endpoint }: oauth.AuthorizationServer,
  wanted: Readonly<Record<string, unknown>>,
): Promise<OAuthClient> {
  const headers = { 'content-type': 'application/json', accept: 'application/json' };
  const response = await fetch(endpoint!, { method: 'POST', headers, body: JSON.stringify(wanted) });
  const answer = (await response.json().catch(() => null)) as Readonly<Record<string, unknown>> | null;
  const { client_id: id, client_secret: secret, token_endpoint_auth_method: method } = answer ?? {};
  if (!response.ok || typeof id !== 'string' || id === '') {
    const why = typeof answer?.['error'] === 'string' ? `: ${answer['error'].slice(0, 100)}` : '';
    const advice = 'register a client there and set auth.clientId in the definition';
    throw loginRefused(
      `its authorization server ${issuer} does not register the gateway (HTTP ${response.status}${why}); ${advice}`,
    );
  }
  const authMethod = String(typeof method === 'string' ? method : wanted['token_endpoint_auth_method']);
  const usable = typeof secret === 'string' && secret !== '' && authMethod !== 'none';
  return { id, secret: usable ? secret : null, privateKey: null, authMethod };
}
