import { type Metric, Metrics, type Series } from '../../telemetry/metrics.ts';

/** How a cacheable request was answered. */
export type CacheUse = 'hit' | 'miss' | 'coalesced' | 'stale';

/** Counts what the cache does for each server, and shows how much it holds. */
export class CacheMeter {
  readonly #answers: Metric<Series>;
  readonly #invalidated: Metric<Series>;

  /** Without metrics nothing is shown. `held` is asked at each scrape. */
  constructor(metrics: Metrics | undefined, held: () => { readonly size: number; readonly bytes: number }) {
    const shown = metrics ?? new Metrics();
    const how = 'Cacheable requests, by how they were answered: hit, miss, coalesced, stale.';
    this.#answers = shown.counter('trunkline_cache_requests_total', how, ['server', 'result']);
    const gone = 'Kept answers that a notification of their server made invalid.';
    this.#invalidated = shown.counter('trunkline_cache_invalidated_total', gone, ['server']);
    const entries = shown.gauge('trunkline_cache_entries', 'Answers of servers that are kept.');
    const bytes = shown.gauge('trunkline_cache_bytes', 'Bytes of the answers of servers that are kept.');
    shown.onScrape(() => {
      const now = held();
      entries.of().set(now.size);
      bytes.of().set(now.bytes);
    });
  }

  answered(server: string, use: CacheUse): void {
    this.#answers.of(server, use).add();
  }

  invalidated(server: string, count: number): void {
    if (count > 0) this.#invalidated.of(server).add(count);
  }
}
