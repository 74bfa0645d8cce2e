import { createHash } from 'node:crypto';
import type { Era } from '../../src/model/message.ts';
import { type CachedList, LIST_KINDS, type ListKind, type ServerCatalog } from '../../src/model/server-catalog.ts';
import { scanHeaderParams } from '../../src/protocol/headers.ts';
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
  /** Over Streamable HTTP: in the stateless era tools whose `x-mcp-header` is invalid are in the pages only. */
  readonly mirrored?: boolean;
}

/** A server's catalogue as `upstream/` would have listed it. */
export function serverCatalog(server: string, advertisement: Advertisement): ServerCatalog {
  const era = advertisement.era ?? 'stateful';
  const lists = Object.fromEntries(LIST_KINDS.map((kind) => [kind, list(kind, advertisement)])) as Record<
    ListKind,
    CachedList
  >;
  const capabilities = JSON.stringify(advertisement.capabilities ?? implied(advertisement));
  const info = JSON.stringify({ name: `${server}-software`, version: '1.0' });
  return {
    server,
    fingerprint: advertisement.fingerprint ?? '{}',
    digest: createHash('sha256')
      .update(JSON.stringify([server, advertisement]))
      .digest('hex'),
    handshake: {
      era,
      revision: era === 'stateful' ? '2025-11-25' : '2026-07-28',
      result: Buffer.from(`{"capabilities":${capabilities}}`),
      serverInfo: info,
      capabilities,
      instructions: advertisement.instructions ?? null,
    },
    lists,
    listedAt: advertisement.listedAt ?? 1_000_000,
  };
}

export function tool(name: string, more = ''): string {
  return `{"name":${JSON.stringify(name)},"inputSchema":{"type":"object"}${more}}`;
}

function list(kind: ListKind, advertisement: Advertisement): CachedList {
  const texts = advertisement[kind] ?? [];
  const mirrored = advertisement.mirrored === true && advertisement.era === 'stateless';
  const offered = texts.filter((text) => !mirrored || scanHeaderParams(Buffer.from(text)).ok);
  const { itemKey, resultKey } = listOf(kind);
  const size = advertisement.pageSize ?? 1000;
  const pages: Buffer[] = [];
  for (let at = 0; at < texts.length; at += size) {
    const next = at + size < texts.length ? `,"nextCursor":"page-${at / size + 1}"` : '';
    pages.push(Buffer.from(`{"${resultKey}":[${texts.slice(at, at + size).join(',')}]${next}}`));
  }
  return {
    items: offered.map((text) => ({
      key: (JSON.parse(text) as Record<string, string>)[itemKey]!,
      bytes: Buffer.from(text),
    })),
    pages,
    ttlMs: advertisement.ttlMs ?? 0,
    cacheScope: advertisement.cacheScope ?? 'private',
  };
}

function implied(advertisement: Advertisement): Record<string, unknown> {
  const capabilities: Record<string, unknown> = {};
  if (advertisement.tools !== undefined) capabilities['tools'] = { listChanged: true };
  if (advertisement.prompts !== undefined) capabilities['prompts'] = { listChanged: true };
  if (advertisement.resources !== undefined || advertisement.resourceTemplates !== undefined) {
    capabilities['resources'] = { subscribe: true, listChanged: true };
  }
  return capabilities;
}
