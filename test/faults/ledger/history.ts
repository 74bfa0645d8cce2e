/** How an attempt ended for its client. LOST: the gateway itself went away, so that the client knows nothing. */
export type Ending = 'RESULT' | 'NOT_SENT' | 'UNKNOWN' | 'REFUSED' | 'LOST';

/** One attempt of a client at one call, written down as it began and as it ended. Times in milliseconds. */
export interface Attempt {
  readonly client: string;
  readonly call: string;
  readonly tool: string;
  /** The JSON-RPC id as the client wrote it. */
  readonly rpcId: string;
  readonly startedAt: number;
  ending: Ending | null;
  endedAt: number | null;
  /** The JSON-RPC id as it came back; null when nothing did. */
  answeredId: string | null;
  /** The call that the result speaks of; null when it is none. */
  answeredCall: string | null;
  /** The client gave up itself, so that no answer was due. */
  abandoned: boolean;
  /** In words, what came instead of a result. */
  reason: string;
  /** The server, as the endpoint names it. */
  server?: string;
  /** The node that was asked; in a cluster. */
  via?: string;
  /** How much later than its deadline this one may end, where that is not what holds for all. */
  lateMs?: number;
  /** Where and when its session was opened; in a cluster. */
  opened?: { readonly via: string; readonly at: number };
}

/**
 * Whether the failure says that the call was at this other node. What fails elsewhere at the same time, for whatever
 * reason, says nothing of how soon the end of this one was noticed; a call that nobody noticed runs into its deadline and
 * names the node as well.
 */
export function failedAt({ reason }: Attempt, node: string): boolean {
  return reason.includes(`"node":"${node}"`);
}

/** Everything all clients of a run tried. */
export class History {
  readonly attempts: Attempt[] = [];

  begin(client: string, call: string, tool: string, rpcId: string): Attempt {
    const attempt: Attempt = {
      client,
      call,
      tool,
      rpcId,
      startedAt: performance.now(),
      ending: null,
      endedAt: null,
      answeredId: null,
      answeredCall: null,
      abandoned: false,
      reason: '',
    };
    this.attempts.push(attempt);
    return attempt;
  }

  /** How many attempts ended in which way. */
  endings(): Record<Ending, number> {
    const counts = { RESULT: 0, NOT_SENT: 0, UNKNOWN: 0, REFUSED: 0, LOST: 0 };
    for (const { ending } of this.attempts) if (ending !== null) counts[ending]++;
    return counts;
  }
}
