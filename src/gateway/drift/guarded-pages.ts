import { digestOf, sharesDigest } from '../../catalog/drift/definition-digest.ts';
import {
  approvalStatusOf,
  type Guard,
  guardedPage,
  offeredFor,
  type PageItem,
  pageItems,
} from '../../catalog/drift/guarded-catalog.ts';
import type { Definition } from '../../model/drift.ts';
import type { Exchange } from '../../model/exchange.ts';
import { GatewayError } from '../../model/gateway-error.ts';
import { answer, type Outcome } from '../../model/outcome.ts';
import type { Capability, ListKind, ServerCatalog } from '../../model/server-catalog.ts';
import { TimeSlicer } from '../../model/time-slicer.ts';
import { field, stringValue } from '../../protocol/fields.ts';
import type { ListMethod } from '../../protocol/methods.ts';
import { spliceMessage } from '../../protocol/splice.ts';
import { isResult } from '../own-results.ts';
import { cursorParam } from '../params.ts';
import type { DriftParts } from './inspection.ts';

/** Unfinished lists whose next page is shown under the guard of the first one; the oldest is dropped. */
const MAX_BEGUN = 1_024;

type GuardedList = Exclude<ListKind, 'resources'>;

/**
 * Pages of a server's own lists on its endpoint: byte for byte, with withheld items cut out. A list is finished under the guard
 * that it began with, even if a decision is made meanwhile (check:G5).
 */
export class GuardedPages {
  readonly #parts: DriftParts;
  readonly #begun = new Map<string, Guard>();

  constructor(parts: DriftParts) {
    this.#parts = parts;
  }

  /** `raw`: the known catalog as the server wrote it. */
  async shown(
    outcome: Outcome,
    list: ListMethod,
    raw: ServerCatalog | null,
    server: string,
    exchange: Exchange,
  ): Promise<Outcome> {
    if (list.kind === 'resources' || !isResult(outcome)) return outcome;
    const { message } = outcome;
    const { bytes, bodyStart, bodyEnd } = message;
    const guard = this.#guardOf(server, list, exchange, bytes, bodyStart, bodyEnd);
    const { pins } = guard.pins;
    const known = raw?.lists[list.kind].pages.some((page) => page.equals(bytes.subarray(bodyStart, bodyEnd))) === true;
    // A known page was inspected when it was listed, and most servers have no blocked names.
    if (known && guard.policy === 'warn' && !pins.values().some(({ blocked }) => blocked !== null)) return outcome;
    const items = pageItems(list.kind, bytes, bodyStart, bodyEnd);
    await this.#prepare(list.kind, items, raw === null ? null : raw.lists[list.kind].items, guard);
    const edits = guardedPage(list.kind, items, guard);
    if (!known) this.#noteUnlisted(server, list.kind, items, guard);
    return edits.length === 0 ? outcome : answer(spliceMessage(message, edits));
  }

  #guardOf(server: string, { kind }: ListMethod, exchange: Exchange, bytes: Buffer, start: number, end: number): Guard {
    const { client, request } = exchange;
    const who = `${server} ${kind} ${client.principal.id} ${client.sessionId ?? `${client.fingerprint} ${client.handle}`}`;
    const cursor = cursorParam(request);
    const begun = cursor === null || cursor instanceof GatewayError ? undefined : this.#begun.get(`${who} ${cursor}`);
    const guard = begun ?? this.#parts.guards.of(server);
    const next = stringValue(bytes, field(bytes, start, end, 'nextCursor'));
    if (next !== null) {
      this.#begun.delete(`${who} ${next}`);
      this.#begun.set(`${who} ${next}`, guard);
      if (this.#begun.size > MAX_BEGUN) this.#begun.delete(this.#begun.keys().next().value!);
    }
    return guard;
  }

  /** Computes the offered definition of each item, in slices; digests of known items are reused. */
  async #prepare(
    list: GuardedList,
    items: readonly PageItem[],
    known: readonly Capability[] | null,
    guard: Guard,
  ): Promise<void> {
    const byKey = new Map(known?.map((item) => [item.key, item]));
    const pace = new TimeSlicer(this.#parts.now);
    for (const item of items) {
      const same = byKey.get(item.key);
      if (same?.bytes.equals(item.bytes) === true) sharesDigest(item, same);
      offeredFor(list, item, guard);
      const rest = pace.step();
      if (rest !== null) await rest;
    }
  }

  /** Reports definitions in an answer that were never listed, so that they can be approved. */
  #noteUnlisted(server: string, list: GuardedList, items: readonly PageItem[], { pins }: Guard): void {
    const { guards, offered, reporter, pace } = this.#parts;
    const unlisted: Definition[] = [];
    for (const { key, bytes } of items) {
      const digest = digestOf({ bytes });
      const status = approvalStatusOf(pins, { list, key }, digest);
      // A copy: a stored definition must not keep the memory of the whole answer.
      if (status === 'new' || status === 'changed') unlisted.push({ list, key, digest, bytes: Buffer.from(bytes) });
    }
    if (unlisted.length === 0) return;
    for (const definition of unlisted) offered.foundUnlisted(server, definition);
    void reporter.reportChanges(server, guards.policy(server), unlisted, () => false, pace);
  }
}
