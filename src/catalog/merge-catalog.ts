import { createHash } from 'node:crypto';
import type { ListKind } from '../model/server-catalog.ts';
import { Catalog } from './catalog.ts';
import { type CatalogMember, type Declared, declaredBy, filterAllows } from './catalog-member.ts';
import type { CursorWriter } from './cursor.ts';
import type { NameNotice } from './exposed-names.ts';
import { NameTable, type TableEntry } from './name-table.ts';
import { ResourceTable } from './resource-table.ts';
import { toolNameFault } from './tool-name.ts';

export interface MergeOptions {
  /** Whom the catalogue is for: callers of another audience must not page through it. */
  readonly audience: string;
  /** Whether the audience is everybody. */
  readonly unfiltered: boolean;
  /** No server, whether or not this caller may use it, is called `mcp`. */
  readonly bridged: boolean;
  readonly cursors: CursorWriter;
  /** `Implementation` object of the gateway, as JSON text. */
  readonly serverInfo: string;
}

/**
 * Merges what the members offer, in their order and each in its own, into one catalogue. Pure: the same members give
 * the same names, the same bytes and the same version.
 */
export function mergeCatalog(members: readonly CatalogMember[], options: MergeOptions): Catalog {
  const declared = new Map<string, Declared>();
  for (const { server, catalog } of members) {
    if (catalog !== null) declared.set(server, declaredBy(catalog.hello.capabilities, catalog.hello.era));
  }
  const notices: NameNotice[] = [];
  const tools = new NameTable(offeredTools(members, notices), options.bridged);
  const prompts = new NameTable(entriesOf(members, 'prompts'), options.bridged);
  const resources = new ResourceTable(
    members.map(({ server }) => server),
    entriesOf(members, 'resources'),
    entriesOf(members, 'resourceTemplates'),
  );
  return new Catalog({
    ...options,
    version: versionOf(members, options),
    members,
    declared,
    tools,
    prompts,
    resources,
    notices: [...notices, ...tools.notices, ...prompts.notices],
  });
}

/** Digest of all that the catalogue is made of. */
export function versionOf(
  members: readonly CatalogMember[],
  { audience, bridged }: Pick<MergeOptions, 'audience' | 'bridged'>,
): string {
  const hash = createHash('sha256').update(bridged ? audience : `${audience}\0unbridged`);
  for (const { server, tools, catalog } of members) {
    hash.update(`\0${server}\0${catalog === null ? '' : catalog.digest}`);
    if (tools.include !== null) hash.update(`\0+${[...tools.include].sort().join('\0+')}`);
    if (tools.exclude.size > 0) hash.update(`\0-${[...tools.exclude].sort().join('\0-')}`);
  }
  return hash.digest('base64url').slice(0, 16);
}

function offeredTools(members: readonly CatalogMember[], notices: NameNotice[]): TableEntry[] {
  return members.flatMap(({ server, tools, catalog }) => {
    const items = catalog?.lists.tools.items ?? [];
    return items.flatMap((item) => {
      if (!filterAllows(tools, item.key)) return [];
      const fault = toolNameFault(item.key);
      if (fault === null) return [{ server, item }];
      notices.push({ server, name: item.key, exposed: null, reason: fault });
      return [];
    });
  });
}

function entriesOf(members: readonly CatalogMember[], kind: ListKind): TableEntry[] {
  return members.flatMap(({ server, catalog }) => (catalog?.lists[kind].items ?? []).map((item) => ({ server, item })));
}
