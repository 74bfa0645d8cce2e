import { once } from 'node:events';
import type { IncomingMessage } from 'node:http';
import { text } from 'node:stream/consumers';
import { setTimeout as sleep } from 'node:timers/promises';
import { type Backoff, backoffMs } from '../../model/clock.ts';
import type { OtlpReceiver } from '../../model/desired-state.ts';
import { revealed } from '../../model/secret.ts';
import type { Logger } from '../logger.ts';
import type { Series } from '../metrics.ts';

/** Takes about half a minute with the delays between the attempts. */
const MAX_ATTEMPTS = 6;
const BETWEEN: Backoff = { initialMs: 1_000, maxMs: 30_000, jitter: 0.5 };
const TIMEOUT_MS = 10_000;
/** Time limit for what is unsent when the process ends. */
const LAST_MS = 2_000;
/** Retryable statuses, by OTLP/HTTP §failures. */
const RETRIED_STATUSES: ReadonlySet<number> = new Set([429, 502, 503, 504]);

interface Attempt {
  /** Number of items that the receiver rejected; null if nothing arrived. */
  readonly rejected: number | null;
  readonly reason: string | null;
  /** Delay before the next attempt; null if a retry is useless. */
  readonly afterMs: number | null;
}

/**
 * Posts one signal to an OTLP/HTTP receiver as JSON. Retries a retryable failure for about half a minute, then drops and counts
 * the items. The log gets one record when failures begin and one when they end.
 */
export class OtlpSender {
  readonly #url: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #lost: Series;
  readonly #logger: Logger;
  readonly #hurry = new AbortController();
  readonly #end = new AbortController();
  #failing = false;

  /** `lost`: counts items that did not arrive. */
  constructor({ url, headers }: OtlpReceiver, lost: Series, logger: Logger) {
    this.#url = url;
    this.#headers = { ...revealed(headers), 'content-type': 'application/json' };
    this.#lost = lost;
    this.#logger = logger;
  }

  /** Resolves when the items have arrived or are lost. Never rejects. */
  async send(body: string, items: number): Promise<void> {
    let sent = await this.#post(body);
    for (let tries = 1; sent.afterMs !== null && tries < MAX_ATTEMPTS && !this.#hurry.signal.aborted; tries++) {
      const delayMs = Math.max(sent.afterMs, backoffMs(BETWEEN, tries - 1, Math.random()));
      await sleep(delayMs, null, { signal: this.#hurry.signal, ref: false }).catch(() => {});
      sent = await this.#post(body);
    }
    const lost = sent.rejected ?? items;
    this.#lost.add(lost);
    if (lost > 0 && !this.#failing) this.#logger.warn('otlp_failed', { url: this.#url, reason: sent.reason, lost });
    if (lost === 0 && this.#failing) this.#logger.info('otlp_recovered', { url: this.#url });
    this.#failing = lost > 0;
  }

  /** The process is about to end: stops retrying, and drops what does not arrive within two seconds. */
  stopRetrying(): void {
    this.#hurry.abort();
    setTimeout(() => this.#end.abort(), LAST_MS).unref();
  }

  async #post(body: string): Promise<Attempt> {
    try {
      const response = await this.#answer(body);
      const said = await text(response);
      const { statusCode: status = 0, headers } = response;
      if (status >= 200 && status < 300) return { ...partialSuccess(said), afterMs: null };
      const reason = `the receiver answered ${status}`;
      const askedMs = Number(headers['retry-after'] ?? 0) * 1_000;
      const afterMs = Number.isFinite(askedMs) ? Math.min(Math.max(askedMs, 0), BETWEEN.maxMs) : 0;
      return { rejected: null, reason, afterMs: RETRIED_STATUSES.has(status) ? afterMs : null };
    } catch (error) {
      return { rejected: null, reason: reasonOf(error), afterMs: 0 };
    }
  }

  /**
   * Without `fetch`, which takes several times the processor time and 20 MiB. Each post has its own connection: the receiver
   * may close a reused one just then, and the last post is not retried.
   */
  async #answer(body: string): Promise<IncomingMessage> {
    const { request } = this.#url.startsWith('https:') ? await import('node:https') : await import('node:http');
    const signal = AbortSignal.any([AbortSignal.timeout(TIMEOUT_MS), this.#end.signal]);
    const post = request(this.#url, { method: 'POST', headers: this.#headers, agent: false, signal });
    // An error after the response also ends the response, and must not end the process.
    post.on('error', () => {}).end(body);
    const [response] = await once(post, 'response');
    return response;
  }
}

/** How many items of an accepted post the receiver rejected, and why. */
function partialSuccess(text: string): Pick<Attempt, 'rejected' | 'reason'> {
  try {
    const { partialSuccess: said } = JSON.parse(text) as { partialSuccess?: Record<string, unknown> };
    const rejected = Number(said?.['rejectedSpans'] ?? said?.['rejectedDataPoints'] ?? 0);
    return { rejected: rejected > 0 ? rejected : 0, reason: String(said?.['errorMessage'] ?? '') };
  } catch {
    return { rejected: 0, reason: null };
  }
}

/** An aborted request has its reason in the cause. */
function reasonOf(error: unknown): string {
  const { message, cause } = error as Error;
  return cause instanceof Error && cause.message !== '' ? cause.message : message;
}
