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

/** What all ways in for clients are made with. */
export interface EdgeParts extends StandaloneDeps {
  readonly core: Core;
  readonly gate: Gate;
  readonly endpoints: Endpoints;
  readonly sessions: SessionTable;
  readonly intake: SessionIntake;
  readonly fingerprints: Fingerprints;
  /** Calls whose servers ask, from round to round. */
  readonly pendingInput: PendingInputRequests;
  /** A listening stream costs what a session with its stream does, so as many are allowed: in all, and of one caller. */
  readonly settings: () => Pick<SessionSettings, 'max' | 'maxPerPrincipal'>;
  /** True from the moment the gateway stops: what exists goes on, nothing new begins. */
  readonly draining: () => boolean;
  /** A client opens a stream of this session. */
  readonly streaming?: ((sessionId: string) => void) | undefined;
  /** The other nodes, where there are some. */
  readonly others?: OtherNodes | undefined;
}
