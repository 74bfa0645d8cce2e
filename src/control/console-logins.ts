import { randomBytes, timingSafeEqual } from 'node:crypto';
import type { Clock } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import { digestOf } from './bearer.ts';

const CODE_MS = 10 * 60_000;
const IDLE_MS = 12 * 60 * 60_000;
const MAX_SESSION_MS = 7 * 24 * 60 * 60_000;
const MAX_CODES = 16;
const MAX_SESSIONS = 64;

/** A browser that is logged in at the console. */
export interface ConsoleSession {
  /** Every request of the session must send it as `Trunkline-Csrf`: a cookie alone is not sufficient. */
  readonly csrf: string;
  readonly openedAt: number;
  seenAt: number;
}

/**
 * Console logins of this gateway: one-time codes, which links carry, and sessions, which cookies identify. Both are limited in
 * number and lifetime, and end with the process.
 */
export class ConsoleLogins {
  /** Cookies ignore ports, so each gateway of a machine has a name of its own. */
  readonly cookieName: string;
  readonly #clock: Pick<Clock, 'wall'>;
  readonly #publicUrl: string | null;
  /** Digests of the token in the data folder and of `control.token`. */
  readonly tokenDigests: readonly Buffer[];
  /** Expiry of each code, by its digest. */
  readonly #codes = new Map<string, number>();
  /** Sessions by the digest of the cookie value. */
  readonly #sessions = new Map<string, ConsoleSession>();

  /** `token`: that of the data folder. `control`: settings of the configuration. */
  constructor(
    clock: Pick<Clock, 'wall'>,
    token: string,
    control: Pick<DesiredState['control'], 'token' | 'publicUrl'>,
  ) {
    this.#clock = clock;
    this.#publicUrl = control.publicUrl;
    this.tokenDigests = [token, ...(control.token === null ? [] : [control.token.reveal()])].map(digestOf);
    this.cookieName = `trunkline_console_${digestOf(token).toString('hex').slice(0, 8)}`;
  }

  /** An address that opens one session within ten minutes. Drops the oldest code above the limit. */
  link(controlUrl: string): string {
    const now = this.#clock.wall();
    for (const [key, until] of this.#codes) if (until <= now) this.#codes.delete(key);
    for (const key of this.#codes.keys()) if (this.#codes.size >= MAX_CODES) this.#codes.delete(key);
    const code = random();
    this.#codes.set(keyOf(code), now + CODE_MS);
    return `${this.#publicUrl ?? controlUrl}/#/login/${code}`;
  }

  /** Opens a session for a one-time code or the control token; null for any other text. */
  open(proof: { readonly code?: unknown; readonly token?: unknown }): { cookie: string; csrf: string } | null {
    const { code, token } = proof;
    const good =
      typeof token === 'string'
        ? this.tokenDigests.some((digest) => timingSafeEqual(digestOf(token), digest))
        : typeof code === 'string' && this.#redeemCode(code);
    if (!good) return null;
    const now = this.#clock.wall();
    for (const [key, session] of this.#sessions) if (this.#isOver(session)) this.#sessions.delete(key);
    for (const key of this.#sessions.keys()) if (this.#sessions.size >= MAX_SESSIONS) this.#sessions.delete(key);
    const cookie = random();
    const csrf = random();
    this.#sessions.set(keyOf(cookie), { csrf, openedAt: now, seenAt: now });
    return { cookie, csrf };
  }

  /** The open session that a `Cookie` header identifies; null if there is none. */
  find(header: string | undefined): ConsoleSession | null {
    const key = this.#keyIn(header);
    const session = key === null ? undefined : this.#sessions.get(key);
    if (session === undefined) return null;
    if (this.#isOver(session)) {
      this.#sessions.delete(key!);
      return null;
    }
    session.seenAt = this.#clock.wall();
    return session;
  }

  /** Whether the session of a stream or call is open; asking counts as use of it. */
  isOpen(session: ConsoleSession): boolean {
    if (this.#isOver(session) || !this.#sessions.values().some((one) => one === session)) return false;
    session.seenAt = this.#clock.wall();
    return true;
  }

  end(ended: ConsoleSession): void {
    for (const [key, session] of this.#sessions) if (session === ended) this.#sessions.delete(key);
  }

  #redeemCode(code: string): boolean {
    const key = keyOf(code);
    const until = this.#codes.get(key);
    this.#codes.delete(key);
    return until !== undefined && this.#clock.wall() < until;
  }

  #isOver({ openedAt, seenAt }: ConsoleSession): boolean {
    const now = this.#clock.wall();
    return now - seenAt > IDLE_MS || now - openedAt > MAX_SESSION_MS;
  }

  #keyIn(header = ''): string | null {
    for (const pair of header.split(';')) {
      const [name, value] = pair.trim().split('=');
      if (name === this.cookieName && value !== undefined) return keyOf(value);
    }
    return null;
  }
}

function random(): string {
  return randomBytes(24).toString('base64url');
}

function keyOf(text: string): string {
  return digestOf(text).toString('base64url');
}
