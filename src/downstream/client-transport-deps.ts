import type { Core } from '../gateway/gateway.ts';
import type { SessionSettings } from '../model/desired-state.ts';
import type { Endpoints } from './endpoints/endpoints.ts';
import type { Fingerprints } from './endpoints/fingerprints.ts';
import type { Gate } from './identity/gate.ts';
import type { PendingInputRequests } from './pending-input/pending-input-requests.ts';
import type { OtherNodes } from './session/other-nodes.ts';
import type { SessionIntake } from './session/session-intake.ts';
import type { SessionTable } from './session/session-table.ts';
import type { StandaloneDeps } from './session/standalone-streams.ts';

/** Dependencies that all client transports share. */
export interface ClientTransportDeps extends StandaloneDeps {
  readonly core: Core;
  readonly gate: Gate;
  readonly endpoints: Endpoints;
  readonly sessions: SessionTable;
  readonly intake: SessionIntake;
  readonly fingerprints: Fingerprints;
  /** Calls that wait for input of their clients. */
  readonly pendingInput: PendingInputRequests;
  /** Session limits, which also limit listening streams: in all, and per caller. */
  readonly settings: () => Pick<SessionSettings, 'max' | 'maxPerPrincipal'>;
  /** True once the gateway stops: what exists continues, nothing new begins. */
  readonly draining: () => boolean;
  /** Called when a client opens or resumes a GET stream of this session. */
  readonly onStreamOpened?: ((sessionId: string) => void) | undefined;
  /** The other nodes; absent without a cluster. */
  readonly others?: OtherNodes | undefined;
}
