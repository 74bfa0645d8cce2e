import type { Clock } from '../model/clock.ts';
import type { CredentialLease, CredentialRefusal, CredentialView, ExecSpec } from '../model/credentials.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { ProcessGuard } from '../model/process-guard.ts';
import { secretForms } from '../model/secret.ts';
import { baseConnectionDigest, type Server } from '../model/server.ts';
import type { Logger } from '../telemetry/logger.ts';
import { askProgram, type ExecAnswer, ExecFailure } from './exec-program.ts';

type Headers = readonly string[] | null;

export interface ExecCredentialsDeps {
  readonly clock: Clock;
  readonly logger: Logger;
  readonly guard: ProcessGuard;
  /** Environment of the programs in addition to that of their definitions. */
  readonly environment: Readonly<Record<string, string>>;
  readonly desired: { readonly state: Pick<DesiredState, 'servers'> };
  /** A server that refused a request has a new credential now. */
  readonly onRenewed: (server: string) => void;
}

/** A credential is renewed this long before it expires, but not before nine tenths of its lifetime. */
const AHEAD_MS = 30_000;
/** Minimum interval of requests to a program that returned nothing new. */
const APART_MS = 5_000;
/** Retry delays, doubling from the first to the last, after a program failed or returned what the server refuses. */
const MIN_RETRY_MS = 5_000;
const MAX_RETRY_MS = 300_000;

/** Credentials printed by programs, like the helpers of Git and Docker, so that any vault or cloud can be the source. */
export class ExecCredentials {
  readonly deps: ExecCredentialsDeps;
  /** By server and digest of the definition: while one is replaced, both have connections. */
  readonly #known = new Map<string, ExecCredential>();

  constructor(deps: ExecCredentialsDeps) {
    this.deps = deps;
  }

  /** The lease is shared by all connections of one definition. */
  lease(server: Server, spec: ExecSpec): CredentialLease {
    const key = `${server.name} ${baseConnectionDigest(server)}`;
    let known = this.#known.get(key);
    if (known === undefined) {
      for (const [other, { isDesired }] of this.#known) if (!isDesired) this.#close(other);
      known = new ExecCredential(this.deps, server, spec);
      this.#known.set(key, known);
    }
    return known;
  }

  list(): readonly CredentialView[] {
    return [...this.#known.values()].filter(({ isDesired }) => isDesired).map(({ view }) => view);
  }

  close(): void {
    for (const key of this.#known.keys()) this.#close(key);
  }

  #close(key: string): void {
    this.#known.get(key)!.close();
    this.#known.delete(key);
  }
}

/** The credential for one server, in memory only. */
class ExecCredential implements CredentialLease {
  readonly server: Server;
  readonly #deps: ExecCredentialsDeps;
  readonly #spec: ExecSpec;
  #answer: ExecAnswer | null = null;
  /** When to ask the program again; null: the credential does not expire. */
  #askAt: number | null = null;
  #reason: string | null = null;
  #changedAt = 0;
  /** Monotonic time at which the program last returned nothing new. */
  #lastUnchangedAt = Number.NEGATIVE_INFINITY;
  #asking: Promise<void> | null = null;
  /** A request was refused, or had no credential, since the last new credential. */
  #refused = false;
  #retryDelayMs = MIN_RETRY_MS;
  #cancel: (() => void) | null = null;
  readonly #closed = new AbortController();

  constructor(deps: ExecCredentialsDeps, server: Server, spec: ExecSpec) {
    this.#deps = deps;
    this.server = server;
    this.#spec = spec;
  }

  /** The digest of the server, the same for all its callers. */
  get digest(): string {
    return baseConnectionDigest(this.server);
  }

  get isDesired(): boolean {
    const { servers } = this.#deps.desired.state;
    return servers.get(this.server.name)?.connectionDigest === this.digest;
  }

  get secrets(): readonly string[] {
    return valuesIn(this.#answer).flatMap(secretForms);
  }

  headers(): Headers | Promise<Headers> {
    const asked = this.#due() ? this.#ask() : null;
    // Meanwhile requests use a credential that is still valid.
    if (asked === null || !this.#ended()) return this.#current();
    return asked.then(() => this.#current());
  }

  #current(): Headers {
    return this.#ended() ? null : this.#answer!.headers;
  }

  async refused({ status, headers }: CredentialRefusal): Promise<boolean> {
    if (status !== 401) return false;
    // Another request has caused a renewal meanwhile.
    if (this.#answer !== null && headers !== null && !sameHeaders(headers, this.#answer)) return true;
    if (this.#deps.clock.now() - this.#lastUnchangedAt >= APART_MS || this.#asking !== null) await this.#ask();
    const good = this.#answer !== null && !this.#ended() && !sameHeaders(headers, this.#answer);
    if (!good) {
      this.#refused = true;
      this.#later();
    }
    return good;
  }

  nonce(): void {}

  get view(): CredentialView {
    const ended = this.#answer !== null && this.#ended();
    const failed = this.#reason !== null || this.#refused;
    const words = this.#refused ? 'the server does not take what its credential program gives' : null;
    return {
      server: this.server.name,
      principal: null,
      state: this.#answer === null || failed ? 'failed' : ended ? 'expired' : 'connected',
      reason: this.#reason ?? words ?? (this.#answer === null ? 'its credential program was not asked yet' : null),
      issuer: null,
      clientId: null,
      scopes: [],
      expiresAt: this.#answer?.expiresAt ?? null,
      refreshable: true,
      program: true,
      changedAt: this.#changedAt,
    };
  }

  close(): void {
    this.#closed.abort();
    this.#cancel?.();
  }

  #due(): boolean {
    const { clock } = this.#deps;
    if (this.#answer !== null && (this.#askAt === null || this.#askAt > clock.wall())) return false;
    return this.#asking !== null || clock.now() - this.#lastUnchangedAt >= APART_MS;
  }

  /** True also without a credential. */
  #ended(): boolean {
    if (this.#answer === null) return true;
    const { expiresAt } = this.#answer;
    return expiresAt !== null && expiresAt <= this.#deps.clock.wall();
  }

  /** Concurrent requests share one run. Never rejects. */
  #ask(): Promise<void> {
    this.#asking ??= this.#run().finally(() => {
      this.#asking = null;
    });
    return this.#asking;
  }

  async #run(): Promise<void> {
    const { clock, logger, environment, guard } = this.#deps;
    const { name: server, transport } = this.server;
    const url = 'url' in transport ? transport.url : '';
    try {
      const given = await askProgram(this.#spec, environment, { server, url }, guard, this.#closed.signal);
      // The program's time is that of the system, which may have been set since the gateway's clock began.
      const expiresAt = given.expiresAt === null ? null : given.expiresAt - Date.now() + clock.wall();
      const answer = { ...given, expiresAt };
      // The log must know the secrets before a request carries them.
      for (const value of valuesIn(answer)) for (const form of secretForms(value)) logger.addSecret(form);
      const isNew = !sameHeaders(this.#answer?.headers ?? null, answer);
      const now = clock.wall();
      this.#answer = answer;
      const life = answer.expiresAt === null ? 0 : answer.expiresAt - now;
      this.#askAt = answer.expiresAt === null ? null : answer.expiresAt - Math.min(AHEAD_MS, life / 10);
      this.#reason = this.#ended() ? 'its credential program gave a credential that has ended: see "expiresAt"' : null;
      if (!isNew || this.#ended()) this.#lastUnchangedAt = clock.now();
      if (isNew) {
        this.#changedAt = now;
        this.#refused = false;
        this.#retryDelayMs = MIN_RETRY_MS;
        this.#cancel?.();
        this.#cancel = null;
      }
    } catch (error) {
      const words = error instanceof ExecFailure ? error.message : 'its credential program could not be asked';
      this.#reason = logger.redact(words);
      logger.warn('credential_program_failed', { server, reason: this.#reason });
      this.#lastUnchangedAt = clock.now();
      this.#refused ||= this.#ended();
      this.#later();
    }
  }

  /** Asks again after a delay: the server waits for a credential, and nothing else would ask for one. */
  #later(): void {
    if (this.#cancel !== null || this.#closed.signal.aborted || !this.#refused) return;
    this.#cancel = this.#deps.clock.after(this.#retryDelayMs, () => {
      this.#cancel = null;
      if (this.#closed.signal.aborted || !this.isDesired) return;
      const before = this.#answer;
      void this.#ask().then(() => {
        if (this.#answer !== null && !sameHeaders(before?.headers ?? null, this.#answer)) {
          this.#deps.onRenewed(this.server.name);
        } else this.#later();
      });
    });
    this.#retryDelayMs = Math.min(MAX_RETRY_MS, this.#retryDelayMs * 2);
  }
}

function valuesIn(answer: ExecAnswer | null): readonly string[] {
  return answer?.headers.filter((_, at) => at % 2 === 1) ?? [];
}

function sameHeaders(headers: readonly string[] | null, { headers: others }: ExecAnswer): boolean {
  return headers?.length === others.length && headers.every((part, at) => part === others[at]);
}
