/** How an attempt ended for its client. LOST: the gateway itself went away, so that the client knows nothing. */
export type Ending = 'RESULT' | 'NOT_SENT' | 'UNKNOWN' | 'REFUSED' | 'LOST';

/** One attempt of a client at one call, recorded when it begins and when it ends. Times in milliseconds. */
export interface Attempt {
  readonly client: string;
  readonly call: string;
  readonly tool: string;
  /** The JSON-RPC id as the client wrote it. */
  readonly rpcId: string;
  readonly startedAt: number;
  ending: Ending | null;
  endedAt: number | null;
  /** The JSON-RPC id as it came back; null without an answer. */
  answeredId: string | null;
  /** The call that the result names; null without a result. */
  answeredCall: string | null;
  /** The client gave up itself, so that no answer was due. */
  abandoned: boolean;
  /** The text of the failure that came instead of a result. */
  reason: string;
  /** The server, as the endpoint names it. */
  server?: string;
  /** The node that was asked; in a cluster. */
  via?: string;
  /** How much later than its deadline this attempt may end, if it differs from the general limit. */
  lateMs?: number;
  /** Where and when its session was opened; in a cluster. */
  opened?: { readonly via: string; readonly at: number };
}

/**
 * Whether the failure says that the call was at this other node. A failure elsewhere at the same time does not show how soon
 * the end of this node was noticed; a call whose loss no node noticed runs into its deadline and names the node as well.
 */
export function failedAt({ reason }: Attempt, node: string): boolean {
  return reason.includes(`"node":"${node}"`);
}

/** All attempts of all clients of a run. */
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
