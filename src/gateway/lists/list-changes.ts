import { type Catalog, listDiffers } from '../../catalog/catalog.ts';
import { kindAt } from '../../model/caller-partition.ts';
import type { ClientProfile } from '../../model/client-profile.ts';
import type { Endpoint } from '../../model/exchange.ts';
import { parseObject } from '../../model/json-object.ts';
import { LIST_KINDS, type ListKind } from '../../model/server-catalog.ts';
import { LIST_METHODS, listOf } from '../../protocol/methods.ts';
import type { KnownServers } from '../known-servers.ts';
import { sees } from '../policy/access.ts';
import type { Catalogs } from './catalogs.ts';

/** Changed lists of one server, for clients of one fingerprint; null for all clients. */
export interface ListChange {
  readonly server: string;
  readonly fingerprint: string | null;
  /** The connection whose clients are shown them; null for clients that are shown what a fresh process lists. */
  readonly key: string | null;
  readonly kinds: ReadonlySet<ListKind>;
}

/** A receiver of list-changed notifications. */
export interface Recipient {
  readonly client: ClientProfile;
  readonly endpoint: Endpoint;
  /** On the aggregate, the catalog at its last notification. */
  announced: Catalog | null;
  /** On the aggregate, by list, a later catalog from which it has read that list. */
  readonly taken?: Map<ListKind, Catalog>;
}

/** The methods that the changes make due to this recipient: only for lists that changed for it. Updates the recipient. */
export function methodsDue(
  recipient: Recipient,
  changes: readonly ListChange[],
  catalogs: Catalogs,
  upstreams: KnownServers,
): Set<string> {
  const { client, endpoint } = recipient;
  if (endpoint.kind === 'server') {
    const own = changes.filter(
      (change) =>
        change.server === endpoint.server &&
        sees(client.principal, change.server) &&
        isShown(change, client, upstreams),
    );
    return changedMethods(own.flatMap(({ kinds }) => [...kinds]));
  }
  const { announced, taken } = recipient;
  const after = catalogs.of(client);
  const changed = LIST_KINDS.filter((kind) => {
    const before = taken?.get(kind) ?? announced;
    if (before === null) return changes.some(({ kinds }) => kinds.has(kind));
    return listDiffers(before, after, kind);
  });
  recipient.announced = after;
  taken?.clear();
  return changedMethods(changed);
}

/** Whether the client is shown the changed lists. */
function isShown({ server, fingerprint, key }: ListChange, client: ClientProfile, upstreams: KnownServers): boolean {
  if (fingerprint === null) return true;
  if (key !== null) return upstreams.sessionKey(server, client) === key;
  if (!fingerprint.startsWith(client.fingerprint)) return false;
  const definition = upstreams.servers().find(({ name }) => name === server);
  return fingerprint === kindAt(definition, client) && upstreams.knownCatalog(server, client)?.own !== true;
}

/** The list_changed methods that these capabilities of a server or of the aggregate, in JSON, declare. */
export function declaredMethods(declaring: string): Set<string> {
  const capabilities = parseObject(declaring) ?? {};
  const declared = LIST_METHODS.filter(({ capability }) => {
    const lists = capabilities[capability] as { readonly listChanged?: unknown } | undefined;
    return lists?.listChanged === true;
  });
  return new Set(declared.map(({ changed }) => changed));
}

/** Resources and templates share one notification. */
export function changedMethods(kinds: Iterable<ListKind>): Set<string> {
  return new Set(Array.from(kinds, (kind) => listOf(kind).changed));
}
