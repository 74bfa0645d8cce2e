import { type GuardedFetch, isInternalHost } from '../http/client/guarded-fetch.ts';
import { type Clock, pause, withTimeout } from '../model/clock.ts';
import type { CredentialView } from '../model/credentials.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { Random } from '../model/random.ts';
import type { Sealing } from '../model/sealing.ts';
import { authOf, type Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import { type BearerChallenge, bearerChallenge, scopesOf } from './challenge.ts';
import {
  asDefined,
  type Credential,
  credentialView,
  definedClient,
  isFor,
  isReplaced,
  mayHelp,
  unreadableView,
} from './credential.ts';
import { type CredentialOwner, keyOf, ownerAt, ownerOf } from './credential-owner.ts';
import { type Records, SealedRecords, type StoredValue } from './credential-store.ts';
import { type Authority, discover } from './discovery.ts';
import type { ExecCredentials } from './exec-credentials.ts';
import { errorAnswer, loginRefused, toGatewayError } from './login-errors.ts';
import { RETRY_MS, RenewalRetries } from './retries.ts';
import type { SignInTrace } from './sign-in-trace.ts';
import type { Tokens } from './token-endpoint.ts';

export interface CredentialsDeps {
  readonly clock: Clock;
  readonly random: Random;
  readonly logger: Logger;
  readonly records: Records;
  /** Decides which owners may have credentials. */
  readonly desired: { readonly state: Pick<DesiredState, 'agents' | 'servers'> };
  readonly sealing: Sealing;
  /** For URLs that a server names. `inside`: the server is on this machine or its network; `hosts`: named by the operator. */
  readonly fetch: (server: string, inside: boolean, hosts: readonly string[], trace?: SignInTrace) => GuardedFetch;
  /** Credentials printed by programs; absent if no definition can name a program. */
  readonly programs?: ExecCredentials;
  /** URL of the gateway's client id metadata document; null without one. */
  readonly clientMetadataUrl: () => string | null;
  /** The owner's tokens for a server have changed; `gone`: the credential was revoked. */
  readonly onChange: (of: CredentialOwner, gone: boolean) => void;
}

/** Lifetime of a claim. Each request takes at most 5 s; the rest is for a store that is slow or briefly unreachable. */
const EXCHANGE_MS = 20_000;
const MIN_REMAINING_MS = 10_000;
/** How long the end of a login waits for an unreachable store; the credential is then stored later. */
const LOGIN_STORE_MS = 3_000;
/** Bound, because a server may request other scopes with every refusal. */
const MAX_SCOPES = 64;
/** Interval at which nodes poll the store during another node's exchange. */
const LOOK_MS = 100;

/**
 * The credentials of the gateway for servers. Requests take them from memory. An exchange first claims the record in the store
 * by compare-and-swap, so that one node of a cluster exchanges a token and the others use the result.
 */
export class ServerCredentials {
  readonly deps: CredentialsDeps;
  readonly #records: SealedRecords<Credential>;
  readonly #known = new Map<string, StoredValue<Credential>>();
  /** The last challenges of servers. */
  readonly #challenges = new Map<string, BearerChallenge>();
  readonly #renewals = new Map<string, Promise<boolean>>();
  readonly #failedAt = new Map<string, number>();
  /** Logins that are not stored yet. */
  readonly #unstored = new Map<string, Credential>();
  readonly #retries: RenewalRetries;
  #read = false;
  #taken = 0;

  constructor(deps: CredentialsDeps) {
    this.deps = deps;
    this.#retries = new RenewalRetries(deps.clock);
    this.#records = new SealedRecords(deps.records, deps.sealing, 'credentials');
  }

  /** Reads all stored credentials: at the start, and when another node has changed something. */
  async refresh(): Promise<void> {
    let all: readonly StoredValue<Credential>[] = [];
    // Reads again if a credential changed meanwhile: an older read would bring a deleted credential back.
    for (let taken = -1; taken !== this.#taken; all = await this.#records.all()) taken = this.#taken;
    const there = new Set(all.map(({ key }) => key));
    for (const key of [...this.#known.keys()]) if (!there.has(key)) this.#updateKnown(key, null);
    for (const kept of all)
      if (this.#known.get(kept.key)?.revision !== kept.revision) this.#updateKnown(kept.key, kept);
    this.#read = true;
  }

  /**
   * For URLs that the server names, and its authorization server. Private addresses are allowed only if the operator named
   * them, by the server's URL or `auth.issuer` (proto:T10). `trace` records the requests instead of the gateway's own trace.
   */
  fetchFor(name: string, url: string, trace?: SignInTrace): GuardedFetch {
    const definition = this.deps.desired.state.servers.get(name);
    const issuer = definition === undefined ? null : authOf(definition).issuer;
    const anywhere = definition === undefined || !('publicOnly' in definition.transport);
    const named = anywhere ? [url, issuer].flatMap((one) => URL.parse(one ?? '')?.host ?? []) : [];
    return this.deps.fetch(name, isInternalHost(new URL(url)), named, trace);
  }

  /** The tokens for requests to the server; null without tokens. */
  tokens(server: Server): Tokens | null {
    const { transport } = server;
    const value = this.#known.get(keyOf(ownerAt(server)))?.value;
    return value !== undefined && 'url' in transport && value.url === transport.url ? value.tokens : null;
  }

  /** Whether tokens have to be fetched before a request is sent. */
  needsRenewal(server: Server): boolean {
    const tokens = this.tokens(server);
    if (tokens === null) return authOf(server).grant !== 'authorization_code';
    const { clock } = this.deps;
    if (tokens.expiresAt === null || tokens.expiresAt - tokens.aheadMs > clock.wall()) return false;
    // While the authorization server is unreachable, a token that is still valid is used.
    return (
      tokens.expiresAt <= clock.wall() ||
      clock.now() - (this.#failedAt.get(keyOf(ownerAt(server))) ?? -RETRY_MS) >= RETRY_MS
    );
  }

  /** Whether the server has sent a challenge since the last login. */
  isChallenged(server: Server): boolean {
    return this.#challenges.has(keyOf(ownerAt(server)));
  }

  /** Stores the challenge of a refused request. */
  recordChallenge(server: Server, header: string | null): BearerChallenge {
    const challenge = bearerChallenge(header);
    this.#challenges.set(keyOf(ownerAt(server)), challenge);
    return challenge;
  }

  /** Adds scopes whose lack made calls fail: the next login on any node requests them. */
  async widen(server: Server, scopes: readonly string[]): Promise<void> {
    const key = keyOf(ownerAt(server));
    const kept = await this.#reread(key);
    // The claim of an exchange must stay the latest revision; the next refusal names the scopes again.
    if (kept === null || kept.value.exchangeUntil !== null) return;
    const all = [...new Set([...kept.value.scopes, ...scopes])];
    if (all.length === kept.value.scopes.length || all.length > MAX_SCOPES) return;
    await this.#records.put(key, { ...kept.value, scopes: all }, kept.revision);
    await this.#reread(key);
  }

  /** The scopes for a login: those granted before and those requested now (proto:T9). `challenge`: replaces the last one. */
  wantedScopes(server: Server, authority: Authority, challenge?: BearerChallenge): readonly string[] {
    const key = keyOf(ownerAt(server));
    const before = this.#known.get(key)?.value;
    const asked = (challenge ?? this.#challenges.get(key))?.scope;
    const own = authOf(server).scopes;
    const now = own ?? (asked == null ? (authority.scopes ?? []) : scopesOf(asked));
    const sameServer = own === null && before?.authority.metadata.issuer === authority.metadata.issuer;
    const offline = authority.metadata.scopes_supported?.includes('offline_access') === true && now.length > 0;
    return [...new Set([...(sameServer ? before.scopes : []), ...now, ...(offline ? ['offline_access'] : [])])];
  }

  async discover(server: Server, fetch: GuardedFetch, challenge?: BearerChallenge): Promise<Authority> {
    const { transport } = server;
    if (!('url' in transport)) throw loginRefused('it is not behind a URL, so there is nothing to sign in to');
    const key = keyOf(ownerAt(server));
    await this.#reread(key);
    const { resourceMetadata } = challenge ?? this.#challenges.get(key) ?? { resourceMetadata: null };
    const auth = authOf(server);
    const authority = await discover(fetch, transport.url, resourceMetadata, auth.issuer);
    const { issuer } = authority.metadata;
    const before = this.#known.get(key)?.value.authority.metadata.issuer ?? issuer;
    // The operator's client credentials for the first issuer must not be sent to another one that the server names.
    if (issuer !== before && auth.issuer === null && auth.clientId !== null) {
      throw loginRefused(
        `its authorization server is ${issuer} now, and was ${before}; if that is right, set auth.issuer`,
      );
    }
    return authority;
  }

  /** Stores the result of a login. */
  async keep(
    owner: CredentialOwner,
    credential: Omit<Credential, 'exchangeUntil' | 'changedAt' | 'reason'>,
  ): Promise<CredentialView> {
    const { clock } = this.deps;
    const value = { ...credential, exchangeUntil: null, reason: null, changedAt: clock.wall() };
    const key = keyOf(owner);
    this.#challenges.delete(key);
    await withTimeout(clock, LOGIN_STORE_MS, this.#storedLogin(key, value), () => {});
    return credentialView({ key, value }, clock.wall());
  }

  async forget(owner: CredentialOwner): Promise<Credential | null> {
    const key = keyOf(owner);
    this.#unstored.delete(key);
    const { value } = (await this.#records.get(key)) ?? this.#known.get(key) ?? { value: null };
    await this.#records.delete(key);
    this.#updateKnown(key, null);
    return value;
  }

  /** Keys of stored credentials that no key can open. */
  get unreadable(): readonly string[] {
    return this.#records.unreadable.filter((key) => !this.#known.has(key));
  }

  list(): readonly CredentialView[] {
    const now = this.deps.clock.wall();
    const printed = this.deps.programs?.list() ?? [];
    const known = Array.from(this.#known.values(), (kept) => credentialView(kept, now));
    const all = [...this.unreadable.map(unreadableView), ...printed, ...known];
    return all.sort((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1));
  }

  /** The credential that this login gave the owner; null before its end, and after a later login. */
  resultOf(owner: CredentialOwner, login: string): CredentialView | null {
    const kept = this.#known.get(keyOf(owner));
    return kept?.value.login === login ? credentialView(kept, this.deps.clock.wall()) : null;
  }

  /** When the owner's credential was last changed; null without a valid one. */
  connectedAt(owner: CredentialOwner): number | null {
    const kept = this.#known.get(keyOf(owner));
    const isConnected = kept !== undefined && credentialView(kept, this.deps.clock.wall()).state === 'connected';
    return isConnected ? kept.value.changedAt : null;
  }

  /** Gets new tokens without the user. Resolves with whether there are now other tokens than `used`. */
  renew(server: Server, used: Tokens | null): Promise<boolean> {
    const key = keyOf(ownerAt(server));
    let renewal = this.#renewals.get(key);
    if (renewal === undefined) {
      renewal = this.#renew(server, used).finally(() => this.#renewals.delete(key));
      this.#renewals.set(key, renewal);
    }
    return renewal;
  }

  async #renew(server: Server, used: Tokens | null): Promise<boolean> {
    const { name } = server;
    const key = keyOf(ownerAt(server));
    const { clock, logger } = this.deps;
    try {
      for (const end = clock.now() + 1.5 * EXCHANGE_MS; clock.now() < end; await pause(clock, LOOK_MS)) {
        const kept = await this.#reread(key);
        const value = kept !== null && isFor(server, kept.value) ? kept.value : null;
        if (value?.tokens != null && value.tokens.access !== used?.access) return true;
        if (value?.exchangeUntil != null && value.exchangeUntil > clock.wall()) continue;
        const mine = value === null ? await this.#first(server) : asDefined(value, authOf(server));
        if (mine === null || !this.#renewable(server, mine)) return false;
        const exchangeUntil = clock.wall() + EXCHANGE_MS;
        const claimed = await this.#records.put(key, { ...mine, exchangeUntil }, kept?.revision ?? null);
        // A claim that took long to make may expire before the exchange ends, so it is not used.
        const inTime = exchangeUntil - clock.wall() >= MIN_REMAINING_MS;
        if (claimed !== null && inTime) return await this.#exchange(server, mine, claimed);
      }
    } catch (error) {
      this.#failedAt.set(key, clock.now());
      logger.warn('token_not_renewed', { server: name, reason: toGatewayError(name, error).message });
      this.#retry(server, used);
    }
    return false;
  }

  /** Renews later, with the definition in force then, unless the server was removed. */
  #retry(server: Server, used: Tokens | null): void {
    this.#retries.schedule(keyOf(ownerAt(server)), async () => {
      const now = this.deps.desired.state.servers.get(server.name);
      return now !== undefined && this.renew({ ...server, ...now }, used);
    });
  }

  #renewable(server: Server, { tokens }: Credential): boolean {
    return authOf(server).grant !== 'authorization_code' || tokens?.refresh != null;
  }

  /** Runs on the only node with the claim. */
  async #exchange(server: Server, before: Credential, claimed: number): Promise<boolean> {
    const { name } = server;
    const { clock, logger } = this.deps;
    const key = keyOf(ownerAt(server));
    try {
      const got = await this.#granted(server, before);
      const refresh = got.refresh ?? before.tokens?.refresh ?? null;
      const scopes = got.scopes.length > 0 ? got.scopes : before.scopes;
      const tokens = { ...got, refresh, scopes };
      const value = { ...before, tokens, exchangeUntil: null, reason: null, changedAt: clock.wall() };
      this.#retries.succeeded(key);
      await withTimeout(clock, EXCHANGE_MS, this.#stored(key, value, claimed), () => {});
      return this.#known.get(key)?.value.tokens?.access === got.access;
    } catch (error) {
      const { message } = toGatewayError(name, error);
      const tokens = errorAnswer(error)?.code === 'invalid_grant' ? null : before.tokens;
      const value = { ...before, tokens, exchangeUntil: null, reason: message, changedAt: clock.wall() };
      // Replaces only the claim: a newer credential is never overwritten (fault:F21).
      await this.#records.put(key, value, claimed);
      await this.#reread(key);
      this.#failedAt.set(key, clock.now());
      logger.warn('token_not_renewed', { server: name, reason: message });
      if (this.#renewable(server, value)) this.#retry(server, before.tokens);
      return false;
    }
  }

  /** Uses the new tokens at once, because the old ones may be void already, and retries until they are stored. */
  async #stored(key: string, value: Credential, claimed: number): Promise<void> {
    this.#updateKnown(key, { key, value, revision: claimed });
    for (;;) {
      try {
        await this.#records.put(key, value, claimed);
        await this.#reread(key);
        return;
      } catch {
        await pause(this.deps.clock, LOOK_MS);
      }
    }
  }

  /** As `#stored`, over whatever is there. A retry gives way to a revocation and to a later login, of any node. */
  async #storedLogin(key: string, value: Credential): Promise<void> {
    const before = this.#known.get(key)?.revision || null;
    this.#updateKnown(key, { key, value, revision: 0 });
    this.#unstored.set(key, value);
    for (let retry = false; this.#unstored.get(key) === value; retry = true) {
      try {
        const there = retry ? await this.#records.get(key) : null;
        const replaced = retry && isReplaced(value, before, there);
        const expected = retry ? (there?.revision ?? null) : undefined;
        const revision = replaced ? null : await this.#records.put(key, value, expected);
        if (revision === null && !replaced) continue;
        if (this.#unstored.get(key) === value) this.#unstored.delete(key);
        // It was revoked while the store wrote it.
        else if (revision !== null && !this.#known.has(key)) await this.#records.delete(key, revision);
        await this.#reread(key);
      } catch {
        await pause(this.deps.clock, LOOK_MS);
      }
    }
  }

  async #granted(server: Server, { authority, client, scopes, tokens, url }: Credential): Promise<Tokens> {
    const { clock, random } = this.deps;
    // Loaded for the first token and not at the start, because it takes 45 ms.
    const { requestTokens } = await import('./token-endpoint.ts');
    const auth = authOf(server);
    const fetch = this.fetchFor(server.name, url);
    const scope = [...new Set([...scopes, ...scopesOf(this.#challenges.get(keyOf(ownerAt(server)))?.scope)])].join(' ');
    const common = {
      fetch,
      authority,
      client,
      clock,
      random,
      key: tokens?.key ?? (auth.dpop ? ('new' as const) : null),
    };
    if (auth.grant === 'authorization_code') {
      const parameters = { refresh_token: tokens!.refresh };
      return requestTokens({ ...common, grant: 'refresh_token', parameters });
    }
    const { idJag, nonInteractiveGrant, subjectToken } = await import('./non-interactive-grants.ts');
    const subject = await subjectToken(auth);
    const assertion = auth.grant === 'enterprise_managed' ? await idJag(fetch, auth, authority, subject) : subject;
    const { grant, parameters } = nonInteractiveGrant(auth.grant, assertion);
    return requestTokens({ ...common, grant, parameters: { ...parameters, scope } });
  }

  /** The credential of a server whose grant needs no user, before its first token. */
  async #first(server: Server): Promise<Credential | null> {
    const auth = authOf(server);
    const { transport } = server;
    if (auth.grant === 'authorization_code' || !('url' in transport)) return null;
    if (auth.clientId === null) throw loginRefused('auth.clientId is missing in its definition');
    const authority = await this.discover(server, this.fetchFor(server.name, transport.url));
    const scopes = this.wantedScopes(server, authority);
    const value = { url: transport.url, authority, client: definedClient(auth)!, scopes, tokens: null, reason: null };
    return { ...value, exchangeUntil: null, changedAt: this.deps.clock.wall() };
  }

  async #reread(key: string): Promise<StoredValue<Credential> | null> {
    const kept = await this.#records.get(key);
    if (kept?.revision !== this.#known.get(key)?.revision) this.#updateKnown(key, kept);
    return kept;
  }

  #updateKnown(key: string, kept: StoredValue<Credential> | null): void {
    this.#taken++;
    const before = this.#known.get(key)?.value;
    if (kept === null) this.#known.delete(key);
    else this.#known.set(key, kept);
    const now = kept?.value.tokens ?? null;
    for (const secret of [now?.access, now?.refresh, kept?.value.client.secret]) {
      if (secret != null) this.deps.logger.addSecret(secret);
    }
    if (before?.tokens?.access === now?.access) return;
    const hadFailed = this.#failedAt.delete(key);
    // Without a valid refresh token, the server refuses the next request itself, and its caller gets the advice.
    const helps = now !== null && (hadFailed || !this.#retries.renewedLately(key) || mayHelp(before, kept!.value));
    if (this.#read && (kept === null || helps)) this.deps.onChange(ownerOf(key), kept === null);
  }
}
