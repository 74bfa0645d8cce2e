import type { ClientProfile } from '../../model/client-profile.ts';
import type { Upstreams } from '../../model/ports.ts';
import type { ServerCatalog } from '../../model/server-catalog.ts';
import { PassingUpstreams } from '../passing-upstreams.ts';
import type { Guards } from './guards.ts';

/** The upstreams, with the catalogues of their servers as they are offered (docs/drift.md). */
export class GuardedUpstreams extends PassingUpstreams {
  readonly #guards: Guards;

  constructor(upstreams: Upstreams, guards: Guards) {
    super(upstreams);
    this.#guards = guards;
  }

  override knownCatalog(server: string, client: ClientProfile, orOthers?: boolean): ServerCatalog | null {
    return this.#view(super.knownCatalog(server, client, orOthers));
  }

  override async catalog(
    server: string,
    client: ClientProfile,
    waitMs: number,
    amongOthers?: boolean,
  ): Promise<ServerCatalog | null> {
    return this.#view(await super.catalog(server, client, waitMs, amongOthers));
  }

  #view(raw: ServerCatalog | null): ServerCatalog | null {
    return raw === null ? null : this.#guards.view(raw);
  }
}
