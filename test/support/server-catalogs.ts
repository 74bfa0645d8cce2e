import { createHash } from 'node:crypto';
import type { Era } from '../../src/model/message.ts';
import { type CachedList, LIST_KINDS, type ListKind, type ServerCatalog } from '../../src/model/server-catalog.ts';
import { listOf } from '../../src/protocol/methods.ts';

export interface Advertisement {
  readonly era?: Era;
  /** Items as JSON texts. */
  readonly tools?: readonly string[];
  readonly prompts?: readonly string[];
  readonly resources?: readonly string[];
  readonly resourceTemplates?: readonly string[];
  readonly capabilities?: Record<string, unknown>;
  readonly instructions?: string;
  readonly ttlMs?: number;
  readonly cacheScope?: 'public' | 'private';
  readonly listedAt?: number;
  readonly fingerprint?: string;
  /** Items per page of the server's own lists. */
  readonly pageSize?: number;
}

/** A server's catalogue as `upstream/` would have listed it. */
export function serverCatalog(server: string, offer: Advertisement): ServerCatalog {
  const era = offer.era ?? 'stateful';
  const lists = Object.fromEntries(LIST_KINDS.map((kind) => [kind, list(kind, offer)])) as Record<ListKind, CachedList>;
  const capabilities = JSON.stringify(offer.capabilities ?? implied(offer));
  const info = JSON.stringify({ name: `${server}-software`, version: '1.0' });
  return {
    server,
    fingerprint: offer.fingerprint ?? '{}',
    digest: createHash('sha256')
      .update(JSON.stringify([server, offer]))
      .digest('hex'),
    hello: {
      era,
      revision: era === 'stateful' ? '2025-11-25' : '2026-07-28',
      result: Buffer.from(`{"capabilities":${capabilities}}`),
      serverInfo: info,
      capabilities,
      instructions: offer.instructions ?? null,
    },
    lists,
    listedAt: offer.listedAt ?? 1_000_000,
  };
}

export function tool(name: string, more = ''): string {
  return `{"name":${JSON.stringify(name)},"inputSchema":{"type":"object"}${more}}`;
}

function list(kind: ListKind, offer: Advertisement): CachedList {
  const texts = offer[kind] ?? [];
  const { itemKey, resultKey } = listOf(kind);
  const size = offer.pageSize ?? 1000;
  const pages: Buffer[] = [];
  for (let at = 0; at < texts.length; at += size) {
    const next = at + size < texts.length ? `,"nextCursor":"page-${at / size + 1}"` : '';
    pages.push(Buffer.from(`{"${resultKey}":[${texts.slice(at, at + size).join(',')}]${next}}`));
  }
  return {
    items: texts.map((text) => ({
      key: (JSON.parse(text) as Record<string, string>)[itemKey]!,
      bytes: Buffer.from(text),
    })),
    pages,
    ttlMs: offer.ttlMs ?? 0,
    cacheScope: offer.cacheScope ?? 'private',
  };
}

function implied(offer: Advertisement): Record<string, unknown> {
  const capabilities: Record<string, unknown> = {};
  if (offer.tools !== undefined) capabilities['tools'] = { listChanged: true };
  if (offer.prompts !== undefined) capabilities['prompts'] = { listChanged: true };
  if (offer.resources !== undefined || offer.resourceTemplates !== undefined) {
    capabilities['resources'] = { subscribe: true, listChanged: true };
  }
  return capabilities;
}
