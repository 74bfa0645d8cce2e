const NOTHING = (): void => {};

/** What to do with an orphaned call: publish this answer, or run it again if that is safe. */
export type WhenOrphaned = Buffer | (() => void);

/** The calls on one reply subject. A program may use one subject for several. */
export class OpenCall {
  /** Requests received less requests answered; below 0 if the report of an answer arrived before its request. */
  requests = 0;
  /** Number of these calls that this node handles. */
  held = 0;
  /** Number of handled calls whose published answer NATS has not confirmed. */
  sent = 0;
  /** When this node last published an answer. */
  sentAt = 0;
  /** This node has taken the calls over from a lost node. */
  adopted = false;
  /** Another node answers, or has answered, the calls that this node handles. */
  lost = false;
  lastReportedAt: number;
  /** A node has reported that it handles the call. */
  known = false;
  asked = false;
  orphaned: WhenOrphaned = NOTHING;

  constructor(lastReportedAt: number) {
    this.lastReportedAt = lastReportedAt;
  }
}

/** A call that another node received and that runs at this node. */
export interface ForwardedCall {
  readonly by: string;
  /** Monotonic time of its end; 0 while it runs. */
  endedAt: number;
  /** Null while it runs, and if it did not begin here. */
  answer: Buffer | null;
  /** The node that received it is lost, and this node answers. */
  adopted: boolean;
}
