import type { Clock } from '../model/clock.ts';
import type { DesiredState } from '../model/desired-state.ts';
import type { ClientStreams } from '../model/ports.ts';
import type { Dispatch } from './dispatch/dispatch.ts';
import type { KnownServers } from './known-servers.ts';
import type { Policies } from './policy/policies.ts';

/** Dependencies of most parts of the gateway. */
export interface CommonParts {
  /** The servers, with their catalogs as they are offered. */
  readonly upstreams: KnownServers;
  readonly dispatch: Dispatch;
  readonly policies: Policies;
  readonly streams: ClientStreams;
  readonly clock: Clock;
  /** `firstListWaitMs`: how long a list waits for servers that were never listed. `maxTimeoutMs`: the upper bound of any call. */
  readonly desired: { readonly state: Pick<DesiredState, 'firstListWaitMs' | 'maxTimeoutMs'> };
  /** `Implementation` object of the gateway, as JSON text. */
  readonly serverInfo: string;
}
