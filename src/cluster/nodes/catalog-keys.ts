import type { ClientProfile } from '../../model/client-profile.ts';
import type { Era } from '../../model/message.ts';
import { LruMap } from '../lru-map.ts';

/** Kinds of clients, by what they declare, whose keys are kept. */
const MAX_KINDS = 256;
/** Of servers, for each of them. */
const MAX_SERVERS = 4_096;

/** The keys of catalogues, kept: every call asks for one, and a text that is made anew is hashed anew by every map. */
export class CatalogKeys {
  /** By fingerprint, then by server. */
  readonly #keys = { stateful: kinds(), stateless: kinds() };

  of(server: string, client: ClientProfile): string {
    const era = clientEra(client);
    const { fingerprint } = client;
    let ofKind = this.#keys[era].get(fingerprint);
    if (ofKind === undefined) this.#keys[era].set(fingerprint, (ofKind = new LruMap(MAX_SERVERS)));
    let key = ofKind.get(server);
    if (key === undefined) ofKind.set(server, (key = catalogKey(server, client)));
    return key;
  }
}

/** A server may offer another thing in each era, and to each set of capabilities. */
export function catalogKey(server: string, client: ClientProfile): string {
  return `${server}\n${clientEra(client)}\n${client.fingerprint}`;
}

export function clientEra({ sessionId }: ClientProfile): Era {
  return sessionId === null ? 'stateless' : 'stateful';
}

function kinds(): LruMap<LruMap<string>> {
  return new LruMap(MAX_KINDS);
}
