import type { Clock } from '../../model/clock.ts';
import type { GatewayError } from '../../model/gateway-error.ts';
import type { Random } from '../../model/random.ts';
import type { RecoveryStep } from '../../model/server-state.ts';
import type { Attempt } from '../connection/attempt.ts';
import type { StartMark } from './start-marks.ts';
import type { Transition } from './state-machine.ts';

export interface SupervisorDeps {
  readonly server: string;
  /** A process of this machine; its crashes are restarted sooner than a remote server is asked again. */
  readonly local: boolean;
  readonly clock: Clock;
  readonly random: Random;
  readonly times: { readonly startupMs: number };
  /** What is wrong with its definition: it is never launched. Absent: nothing is wrong. */
  readonly misconfigured?: string | undefined;
  /** Tells the next process which start this one did not survive. Absent: none is told. */
  readonly mark?: StartMark | undefined;
  /** Brings the server up. Rejects with GatewayError; leaves nothing behind when the attempt is cancelled. */
  readonly launch: (attempt: Attempt) => Promise<void>;
  /** Ends all its connections. Must not reject. */
  readonly halt: () => Promise<void>;
  /** The state has changed, and with it what is counted. Must not throw. */
  readonly moved: (transition: Transition) => void;
  /** The server asks for credentials; called before the state becomes `auth_required` (S3.5). Must not throw. */
  readonly beforeAuthRequired?: (error: GatewayError) => void;
  /** A restart that was asked for begins and ends (S3.10). `reason` says why it came to nothing. Must not throw. */
  readonly recovery?: (step: RecoveryStep, reason: string | null) => void;
}
